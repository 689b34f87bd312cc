"""A program on trio in a simulated world: one seed, one run, step by step the same each time.

The caller hands in the world: its schedule, and its trace. The order of tasks is decided by the seed, time is the
schedule's, and each step of a task is part of the trace. What has a time of its own ends the run (`clock`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar
from zlib import crc32

import trio

from zab.simulator.world.schedule import Schedule
from zab.simulator.world.trace import Trace
from zab.testing.kit.clock import WorldClock
from zab.testing.kit.scheduling import SimulationError, pinned

T = TypeVar("T")


class _Steps(trio.abc.Instrument):
    """Which task takes a step, and when, is part of what happens."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        # A name may have an address in it, which is another one in each run.
        self._trace.mark(0, crc32(task.name.partition(" at 0x")[0].encode()))


class Simulation:
    """One run. `clock` is its time, from 0; `limit_seconds` is how long it may go on."""

    def __init__(self, seed: int, schedule: Schedule, trace: Trace, limit_seconds: float) -> None:
        self._seed = seed
        self._trace = trace
        self._scope = trio.CancelScope()
        self._given_up: str | None = None
        self.clock = WorldClock(schedule, limit_seconds, self._give_up)

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        """What the program returns. Raises SimulationError when the run cannot begin or go on."""
        with pinned(Random(f"{self._seed}/tasks")):
            return trio.run(self._run, program, clock=self.clock)

    def _give_up(self, reason: str) -> None:
        self._given_up = reason
        self._scope.cancel()

    async def _run(self, program: Callable[[], Awaitable[T]]) -> T:
        steps = _Steps(self._trace)
        trio.lowlevel.add_instrument(steps)
        try:
            with self._scope:
                value = await program()
                if self._given_up is None:
                    return value
            raise SimulationError(self._given_up)
        finally:
            trio.lowlevel.remove_instrument(steps)
            self.clock.stop()
