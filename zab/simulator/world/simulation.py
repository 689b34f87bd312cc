"""Drives a run: tick by tick, while faults happen, then until a condition holds.

A service derives its simulation from `Simulation`, with a `run` of its own: it starts machines and clients, lets faults
happen for `fault_ticks`, ends them, and demands that everything recovers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zab.simulator.world.cluster import Cluster
from zab.simulator.world.faults import FaultInjector
from zab.simulator.world.verdict import LivenessError


class TooLongError(Exception):
    """The run has reached its time limit."""


class Simulation:
    """One run, which may last until `end_us` in virtual time."""

    cluster: Cluster
    faults: FaultInjector[Any]

    def __init__(self, fault_ticks: int, end_us: int | None = None) -> None:
        self.fault_ticks = fault_ticks
        """How long faults happen."""
        self._end_us = end_us

    def run(self) -> object:
        """Run everything. Raises SafetyError, LivenessError, UndecidedError, or an exception of the code under test."""
        raise NotImplementedError

    @property
    def requests(self) -> Mapping[int, int]:
        """How many requests each client has drawn so far, by its number."""
        return {}

    def tick(self) -> None:
        """Let a tick pass."""
        schedule = self.cluster.schedule
        schedule.run_until(schedule.now + self.cluster.tick_us)
        if self._end_us is not None and schedule.now > self._end_us:
            raise TooLongError

    def advance(self, ticks: int, ticked: Callable[[int], None] | None = None) -> None:
        """Let this many ticks pass. `ticked` is called after each with the number so far."""
        for done in range(1, ticks + 1):
            self.tick()
            if ticked is not None:
                ticked(done)

    def until(
        self,
        holds: Callable[[], bool],
        ticks: int,
        what: Callable[[], str],
        before_tick: Callable[[int], None] = lambda _done: None,
    ) -> None:
        """After the faults: go on until the condition holds. Raises LivenessError with `what` if it does not in
        time."""
        for done in range(ticks):
            before_tick(done)
            if holds():
                return
            self.tick()
        if not holds():
            raise LivenessError(f"{ticks} ticks after the faults: {what()}")
