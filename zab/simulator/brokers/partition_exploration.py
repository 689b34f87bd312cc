"""Explores all states of a small world of brokers within bounds, breadth first (`explored_partition`).

    explore(bounds) -> Report       everything within the bounds, or the shortest way to what is wrong
    replay(bounds, steps)           takes these steps; what becomes of the partition, line by line

A state is remembered whole, so no two are confused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from zab.simulator.brokers.explored_partition import Bounds, State, Step, World
from zab.simulator.world.verdict import BrokenError, SafetyError

STATES_MAX: Final = 2_000_000


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
    """The number of states of single brokers."""
    found: Found | None = None


def explore(
    bounds: Bounds,
    *,
    states_max: int = STATES_MAX,
    progress: Callable[[int, int, int], None] = lambda _depth, _states, _level: None,
) -> Report:
    """Explore all states within the bounds, or up to the first error. `progress` is called after each level with depth,
    states, and how many are new. Raises SafetyError if the world is wrong before the first step."""
    world = World(bounds)
    start = world.beginning()
    before: dict[State, tuple[State, Step] | None] = {start: None}
    level, depth, steps_count = [start], 0, 0

    def report(found: Found | None, *, is_whole: bool) -> Report:
        return Report(bounds, len(before), steps_count, depth, is_whole, world.sites.count, found)

    while level:
        following = []
        for state in level:
            for step in world.steps(state):
                steps_count += 1
                try:
                    after = world.after(state, step)
                except (SafetyError, BrokenError) as error:
                    return report(Found(str(error), (*_way_to(before, state), step)), is_whole=False)
                if after not in before and not world.is_beyond(after):
                    before[after] = (state, step)
                    following.append(after)
        if following and len(before) > states_max:
            return report(None, is_whole=False)
        level = following
        depth += bool(level)
        progress(depth, len(before), len(level))
    return report(None, is_whole=True)


def _way_to(before: dict[State, tuple[State, Step] | None], state: State) -> tuple[Step, ...]:
    steps: list[Step] = []
    while (found := before[state]) is not None:
        state, step = found
        steps.append(step)
    return tuple(reversed(steps))


def replay(bounds: Bounds, steps: Iterable[Step]) -> list[str]:
    """Take these steps; returns what becomes of the partition, line by line. Raises ValueError for an impossible
    step."""
    world = World(bounds)
    state, lines = world.beginning(), []
    for step in steps:
        if step not in set(world.steps(state)):
            raise ValueError(f"{shown(step)} cannot come here")
        lines.append(shown(step))
        try:
            state = world.after(state, step)
        except (SafetyError, BrokenError) as error:
            return [*lines, str(error)]
        control = state.control
        lines.append(f"    leader {control.leader}, epoch {control.leader_epoch}, ISR {control.isr}, ELR {control.elr}")
        for broker in world.brokers:
            facts = world.facts(state, broker)
            values = " ".join(f"{value.decode()}@{epoch}" for epoch, value in facts.entries)
            leads = f", leads epoch {facts.leads}" if facts.leads is not None else ""
            lines.append(
                f"    {broker}: [{values}], mark {facts.mark}{leads}" if facts.is_up else f"    {broker}: down"
            )
    return lines


def shown(step: Step) -> str:
    """A step as a line."""
    return f"{step[0]} {step[1]}"


def parsed(line: str) -> Step:
    """The inverse of `shown`. Raises ValueError."""
    name, broker = line.split()
    return name, int(broker)
