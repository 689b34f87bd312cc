"""The states of explored ensembles, and the steps between them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import attrs

from zab.simulator.explorer.keys import LINKS_MAX, ends_of
from zab.simulator.explorer.worlds import PLAIN

Step: TypeAlias = tuple[str, tuple[int, ...]]
"""The name of a step, and its servers or its link."""


@attrs.frozen
class Bounds:
    """The bounds of an exploration."""

    voters: int = 3
    epochs: int = 2
    """How many epochs begin, besides the one in which the ensemble has run before."""
    writes: int = 1
    crashes: int = 1
    wipes: int = 0
    breaks: int = 1
    silences: int = 0
    rollbacks: int = 0
    empty: int = 0
    """How many servers begin empty. If all do, it is a first start."""
    changes: int = 0
    """How many reconfigurations are proposed."""
    hand_overs: int = 0
    """How many hand-overs are requested."""
    world: str = PLAIN
    """One of `worlds.WORLDS`."""


class Left(NamedTuple):
    """How often each bounded step may still happen."""

    writes: int
    crashes: int
    wipes: int
    breaks: int
    silences: int
    rollbacks: int
    changes: int
    hand_overs: int


Wire: TypeAlias = tuple[tuple[int, int], tuple[int, ...]]
"""((link, receiving end), numbers of the messages on their way)."""
Wires: TypeAlias = tuple[Wire, ...]
"""The wires of all open ends, sorted."""


class State(NamedTuple):
    """A state of an ensemble, which decides the possible steps."""

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
