"""Breadth first through every state within bounds; what is wrong is found by the shortest way.

    explore(bounds) -> Report

Two states that differ only in the ids of servers are one. A state is remembered by 8 bytes of a hash, so of ten
million states a pair is taken for one with a probability of about 1 in 400,000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from zab.simulator.explorer.ensemble import Bounds, Ensemble, State, Step, shown
from zab.simulator.explorer.keys import LINKS_MAX, link_of
from zab.simulator.explorer.site import BrokenError
from zab.simulator.world.verdict import SafetyError

__all__ = ["Report", "explore", "parsed", "replay"]

STATES_MAX: Final = 20_000_000


@attrs.frozen
class Found:
    """What is wrong, and the shortest list of steps to it."""

    text: str
    steps: tuple[Step, ...]


@attrs.frozen
class Report:
    """What was explored. `is_whole`: everything within the bounds."""

    bounds: Bounds
    states_count: int
    steps_count: int
    depth: int
    is_whole: bool
    servers_count: int
    """States of single servers."""
    reached: frozenset[str]
    """Names of the steps that were taken."""
    found: Found | None = None


class _Exploration:
    def __init__(self, bounds: Bounds, states_max: int) -> None:
        self._ensemble = Ensemble(bounds)
        self._states_max = states_max
        self._parents: dict[bytes, bytes] = {}
        self._steps_count = 0
        self._depth = 0
        self._reached: set[str] = set()

    def run(self, progress: Callable[[int, int, int], None]) -> Report:
        ensemble = self._ensemble
        state = ensemble.beginning()
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
                        return self._report(Found(str(error), (*self._way_to(digest), step)))
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
        """The steps from the beginning: on the way every state has the digest of the next one of its ancestors."""
        digests = [digest]
        while self._parents[digests[-1]]:
            digests.append(self._parents[digests[-1]])
        ensemble = self._ensemble
        state = ensemble.beginning()
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
    """Nobody wants to know."""


def explore(
    bounds: Bounds, *, states_max: int = STATES_MAX, progress: Callable[[int, int, int], None] = _quiet
) -> Report:
    """All states within the bounds, or the first that is wrong. `progress` is told depth, states, and how many of them
    are new, after each level."""
    return _Exploration(bounds, states_max).run(progress)


def replay(bounds: Bounds, steps: Iterable[Step]) -> list[str]:
    """Take these steps; what happened, line by line. Raises ValueError for a step that cannot come."""
    ensemble = Ensemble(bounds)
    state = ensemble.beginning()
    lines = []
    for step in steps:
        if step not in list(ensemble.steps(state)):
            raise ValueError(f"{shown(step)} cannot come here")
        lines.append(shown(step))
        lines += [f"    {line}" for line in ensemble.said(state, step)]
        try:
            state = ensemble.after(state, step)
        except (SafetyError, BrokenError) as error:
            lines.append(str(error))
            break
    return lines


def parsed(line: str) -> Step:
    """The step of a line as `shown` writes it. Raises ValueError."""
    name, *words = line.split()
    if name not in ("message", "down", "break"):
        return name, tuple(map(int, words))
    ends, _, number = (words or [""])[0].partition(".")
    dialler, acceptor = map(int, ends.split("-"))
    if not all(0 <= each < LINKS_MAX for each in (dialler, acceptor, int(number or 0))):
        raise ValueError(f"there is no link {words[0]}")
    return name, (link_of(dialler, acceptor, int(number or 0)), *map(int, words[1:]))
