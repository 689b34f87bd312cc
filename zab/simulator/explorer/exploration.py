"""Explores all states within bounds, breadth first, so that errors are found by the shortest way.

    explore(bounds) -> Report
    explore(bounds, given) -> Report      only states after the given steps

Rare events are deep: before a history is cut, for example, there are a leader, its write, its crash and the next
leader. If these are given steps, the bounds apply only to later steps. The given step `settle` means all steps that
happen by themselves, until none is left: messages arrive, and waiting storage effects are done.

Two states that differ only in the ids of servers count as one. A state is remembered by 8 bytes of a hash, so among ten
million states, two are confused with a probability of about 1 in 400,000.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from zab.simulator.explorer.ensemble import Ensemble
from zab.simulator.explorer.keys import LINKS_MAX, link_of
from zab.simulator.explorer.states import Bounds, State, Step, shown
from zab.simulator.world.verdict import BrokenError, SafetyError

__all__ = ["SETTLE", "Report", "explore", "parsed", "replay"]

STATES_MAX: Final = 20_000_000
SETTLE: Final[Step] = ("settle", ())
_BY_THEMSELVES: Final = ("store", "message", "down")


@attrs.frozen
class Found:
    """An error, and the shortest list of steps to it."""

    text: str
    steps: tuple[Step, ...]


@attrs.frozen
class Report:
    """The result of an exploration. `is_whole`: it covered everything within the bounds."""

    bounds: Bounds
    states_count: int
    steps_count: int
    depth: int
    is_whole: bool
    servers_count: int
    """The number of states of single servers."""
    reached: frozenset[str]
    """The names of the steps that were taken."""
    found: Found | None = None


class _Exploration:
    def __init__(self, bounds: Bounds, given: Iterable[Step], states_max: int) -> None:
        self._ensemble = Ensemble(bounds)
        self._wanted = given
        self._given: list[Step] = []
        self._states_max = states_max
        self._parents: dict[bytes, bytes] = {}
        self._steps_count = 0
        self._depth = 0
        self._reached: set[str] = set()

    def _beginning(self) -> State:
        """The state after the given steps."""
        ensemble = self._ensemble
        self._start = ensemble.beginning()
        for state, step in _walk(ensemble, self._wanted):
            self._given.append(step)
            self._start = ensemble.after(state, step)
        if ensemble.is_beyond(self._start):
            raise ValueError(f"the given steps begin more than {ensemble.bounds.epochs} epochs")
        return self._start

    def run(self, progress: Callable[[int, int, int], None]) -> Report:
        ensemble = self._ensemble
        try:
            state = self._beginning()
        except (SafetyError, BrokenError) as error:
            return self._report(Found(str(error), tuple(self._given)))
        digest = ensemble.digest(state)
        self._parents[digest] = b""
        level = [(digest, state)]
        while level:
            following: list[tuple[bytes, State]] = []
            for digest, state in level:
                for step in ensemble.steps(state):
                    self._steps_count += 1
                    self._reached.add(step[0])
                    try:
                        after = ensemble.after(state, step)
                    except (SafetyError, BrokenError) as error:
                        return self._report(Found(str(error), (*self._given, *self._way_to(digest), step)))
                    key = ensemble.digest(after)
                    if key not in self._parents and not ensemble.is_beyond(after):
                        self._parents[key] = digest
                        following.append((key, after))
            if following and len(self._parents) > self._states_max:
                return self._report(None, is_whole=False)
            level = following
            self._depth += bool(level)
            progress(self._depth, len(self._parents), len(level))
        return self._report(None)

    def _report(self, found: Found | None, *, is_whole: bool = True) -> Report:
        return Report(
            self._ensemble.bounds,
            len(self._parents),
            self._steps_count,
            self._depth,
            is_whole and found is None,
            self._ensemble.sites.count,
            frozenset(self._reached),
            found,
        )

    def _way_to(self, digest: bytes) -> list[Step]:
        """The steps from the beginning to a state, by the digests of its ancestors."""
        digests = [digest]
        while self._parents[digests[-1]]:
            digests.append(self._parents[digests[-1]])
        ensemble = self._ensemble
        state = self._start
        steps = []
        for wanted in reversed(digests[:-1]):
            for step in ensemble.steps(state):
                after = ensemble.after(state, step)
                if ensemble.digest(after) == wanted:
                    break
            else:
                raise AssertionError("a state that was reached is reached again")
            steps.append(step)
            state = after
        return steps


def _quiet(depth: int, states_count: int, level_count: int) -> None:
    """A progress callback that does nothing."""


def explore(
    bounds: Bounds,
    given: Iterable[Step] = (),
    *,
    states_max: int = STATES_MAX,
    progress: Callable[[int, int, int], None] = _quiet,
) -> Report:
    """Explore all states within the bounds after the given steps, or up to the first error. `progress` is called after
    each level with depth, states, and how many are new. Raises ValueError if the given steps are not possible."""
    return _Exploration(bounds, given, states_max).run(progress)


def replay(bounds: Bounds, steps: Iterable[Step]) -> list[str]:
    """Take these steps; returns what happened, line by line. Raises ValueError for an impossible step."""
    ensemble = Ensemble(bounds)
    lines: list[str] = []
    try:
        for state, step in _walk(ensemble, steps):
            lines.append(shown(step))
            lines += [f"    {line}" for line in ensemble.said(state, step)]
    except (SafetyError, BrokenError) as error:
        lines.append(str(error))
    return lines


def _walk(ensemble: Ensemble, steps: Iterable[Step]) -> Iterator[tuple[State, Step]]:
    """These steps, each with the state before it; `settle` is replaced by its steps."""
    state, waiting = ensemble.beginning(), deque(steps)
    while waiting:
        step, possible = waiting.popleft(), list(ensemble.steps(state))
        if step == SETTLE:
            alone = [each for each in possible if each[0] in _BY_THEMSELVES]
            if not alone:
                continue
            waiting.appendleft(SETTLE)
            step = alone[0]
        if step not in possible:
            raise ValueError(f"{shown(step)} cannot come here")
        yield state, step
        state = ensemble.after(state, step)


def parsed(line: str) -> Step:
    """Parse a line of `shown`. Raises ValueError."""
    name, *words = line.split()
    if name not in ("message", "down", "break"):
        return name, tuple(map(int, words))
    ends, _, number = (words or [""])[0].partition(".")
    dialler, acceptor = map(int, ends.split("-"))
    if not all(0 <= each < LINKS_MAX for each in (dialler, acceptor, int(number or 0))):
        raise ValueError(f"there is no link {words[0]}")
    return name, (link_of(dialler, acceptor, int(number or 0)), *map(int, words[1:]))
