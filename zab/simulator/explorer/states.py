"""What decides what can come next in an explored ensemble, and the steps that lead from one state to another."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from zab.simulator.explorer.keys import LINKS_MAX, ends_of
from zab.simulator.explorer.worlds import PLAIN

Step: TypeAlias = tuple[str, tuple[int, ...]]
"""Its name, and the servers or the link that it is about."""


@attrs.frozen
class Bounds:
    """How much may happen."""

    voters: int = 3
    epochs: int = 2
    """That are begun, beside the one in which the ensemble has lived before."""
    writes: int = 1
    crashes: int = 1
    wipes: int = 0
    breaks: int = 1
    silences: int = 0
    rollbacks: int = 0
    empty: int = 0
    """Servers that begin with nothing. If all do, it is a first start."""
    changes: int = 0
    """Reconfigurations that are proposed."""
    hand_overs: int = 0
    """That are asked for."""
    world: str = PLAIN
    """One of `worlds.WORLDS`."""


class Left(NamedTuple):
    """How often something may still happen."""

    writes: int
    crashes: int
    wipes: int
    breaks: int
    silences: int
    rollbacks: int
    changes: int
    hand_overs: int


Wire: TypeAlias = tuple[tuple[int, int], tuple[int, ...]]
"""((link, the end that receives), numbers of the messages on their way)."""
Wires: TypeAlias = tuple[Wire, ...]
"""Of every end that is open, sorted."""


class State(NamedTuple):
    """All that decides what can come."""

    sites: tuple[int, ...]
    wires: Wires
    verdict: int
    left: Left


def shown(step: Step) -> str:
    """A step as a line."""
    name, arguments = step
    if name in ("message", "down", "break"):
        dialler, acceptor = ends_of(arguments[0])
        number = arguments[0] % LINKS_MAX
        link = f"{dialler}-{acceptor}" + (f".{number}" if number else "")
        return " ".join([name, link, *map(str, arguments[1:])])
    return " ".join([name, *map(str, arguments)])
