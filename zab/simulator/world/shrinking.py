"""Makes a failing run as short as possible while it still fails in the same way.

    shrink(play) -> Shrunk | None       `play` makes a run from a part

Delta debugging over the fields of `Kept`: the duration of faults, the faults, the clients, and their requests. A part
is accepted if the run fails with the same sentence without the rest, and no later, in ticks. The steps repeat until
nothing more can be left out, or too many events were tried:

1  the length: the faults end at the failure
2  faults, then requests: halves, quarters, … are left out (`minimal`)
3  clients, one at a time

It is deterministic: the same code and the same runs give the same part.

Reference: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002; `minimal` reduces to
complements only, since half of a run seldom fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, TypeAlias, TypeVar

import attrs

from zab.simulator.world.faults import Happened
from zab.simulator.world.scope import Kept
from zab.simulator.world.simulation import Simulation
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError

__all__ = ["EVENTS_MAX", "Shrunk", "minimal", "sentence", "shrink"]

EVENTS_MAX: Final = 2_000_000
"""The limit on the events of all tried runs together; about a minute."""

Item = TypeVar("Item")
Play: TypeAlias = Callable[[Kept | None, Sequence[Happened], int | None], Simulation]
"""Makes a run from the kept part, the faults of the whole run, and its latest end."""


@attrs.frozen
class Shrunk:
    """The shortest part that was found, compared with the whole run."""

    kept: Kept
    error: Exception
    """The failure of that part."""
    events_count: int
    """Events until the failure."""
    whole_events_count: int
    runs_count: int
    """How many runs were tried."""
    is_minimal: bool
    """Whether no single fault, client or request can be left out. If not, `events_max` was reached before."""
    faults: tuple[Happened, ...]
    """The remaining faults that happened."""


@attrs.define
class _Tried(AbstractContextManager["_Tried"]):
    """Catches any exception of a run, except an interrupt, as its failure."""

    simulation: Simulation
    error: Exception | None = None

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        return True

    @property
    def events_count(self) -> int:
        return self.simulation.cluster.schedule.count

    @property
    def end_us(self) -> int:
        """The end of the tick of the failure."""
        tick_us = self.simulation.cluster.tick_us
        return -(-self.simulation.cluster.schedule.now // tick_us) * tick_us


def _tried(simulation: Simulation) -> _Tried:
    with _Tried(simulation) as tried:
        simulation.run()
    return tried


def shrink(play: Play, events_max: int = EVENTS_MAX) -> Shrunk | None:
    """The shortest part of this run that fails in the same way; None if the run does not fail."""
    whole = _tried(play(None, (), None))
    return None if whole.error is None else _Shrinking(play, whole, events_max).shrink()


class _Shrinking:
    """The search, and its progress."""

    def __init__(self, play: Play, whole: _Tried, events_max: int) -> None:
        assert whole.error is not None
        self._play = play
        self._whole = whole
        self._sentence = sentence(whole.error)
        self._happened = whole.simulation.faults.happened
        self._events_left = events_max
        self._runs_count = 0
        self._best = whole
        self._kept = Kept(
            whole.simulation.fault_ticks,
            tuple(range(1, len(self._happened) + 1)),
            {client: tuple(range(1, count + 1)) for client, count in whole.simulation.requests.items()},
        )

    def shrink(self) -> Shrunk:
        before = None
        while before != self._kept and self._events_left > 0:
            before = self._kept
            self._shrink_length()
            self._shrink_faults()
            self._shrink_clients()
            self._shrink_requests()
        assert self._best.error is not None
        return Shrunk(
            self._kept,
            self._best.error,
            self._best.events_count,
            self._whole.events_count,
            self._runs_count,
            before == self._kept,
            tuple(self._best.simulation.faults.happened),
        )

    def _fails(self, kept: Kept) -> bool:
        """Whether this part fails in the same way, and no later; then it becomes the best one."""
        if self._events_left <= 0:
            return False
        end_us = self._best.end_us
        tried = _tried(self._play(kept, self._happened, end_us))
        self._runs_count += 1
        self._events_left -= tried.events_count
        fails = tried.error is not None and sentence(tried.error) == self._sentence and tried.end_us <= end_us
        if fails:
            self._best, self._kept = tried, kept
        return fails

    def _shrink_length(self) -> None:
        """Cut the length at the failure, then to half of that, and so on."""
        ticks = min(self._kept.ticks, self._best.end_us // self._best.simulation.cluster.tick_us)
        while ticks < self._kept.ticks and self._fails(attrs.evolve(self._kept, ticks=ticks)):
            ticks //= 2

    def _shrink_faults(self) -> None:
        minimal(self._kept.faults, lambda left: self._fails(attrs.evolve(self._kept, faults=tuple(left))))

    def _shrink_clients(self) -> None:
        for client in sorted(self._kept.requests):
            others = {one: numbers for one, numbers in self._kept.requests.items() if one != client}
            self._fails(attrs.evolve(self._kept, requests=others))

    def _shrink_requests(self) -> None:
        asked = [(client, number) for client, numbers in self._kept.requests.items() for number in numbers]

        def fails(left: Sequence[tuple[int, int]]) -> bool:
            requests = {client: tuple(n for one, n in left if one == client) for client in self._kept.requests}
            return self._fails(attrs.evolve(self._kept, requests=requests))

        minimal(asked, fails)


def minimal(items: Sequence[Item], fails: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A part of the items that still fails and from which no single item can be left out. All items together fail."""
    left = list(items)
    parts = 1
    while left:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            others = left[:start] + left[start + size :]
            if fails(others):
                left, parts = others, max(1, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(left), 2 * parts)
    return left


_BRACKETED: Final = re.compile(r"\([^()]*\)|\[[^][]*\]|\{[^{}]*\}|b?'[^']*'|b?\"[^\"]*\"")
_VARIES: Final = re.compile(r"\b0x[0-9a-f]+\b|\b[0-9a-f]*\d[0-9a-f]*\b|\b[A-Z][A-Z_0-9]+\b|\bc\d+\b")


def sentence(error: Exception) -> str:
    """The sentence of a failure, without what differs between runs: numbers, names of operations, text in brackets."""
    if isinstance(error, LivenessError):
        return "no progress"
    if isinstance(error, (SafetyError, UndecidedError)):
        text = str(error)
        while (shorter := _BRACKETED.sub("…", text)) != text:
            text = shorter
        return _VARIES.sub("…", text)
    return f"{type(error).__name__} in {_place(error)}"


def _place(error: Exception) -> str:
    """The function that raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "?"
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_name}"
