"""How a run goes on: tick by tick, while faults happen, then until something holds.

A service's simulation is a `Simulation` with a `run` of its own: it starts its machines and clients, lets faults happen
for `fault_ticks`, ends them, and demands that everything comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zab.simulator.world.cluster import Cluster
from zab.simulator.world.faults import FaultInjector
from zab.simulator.world.verdict import LivenessError


class TooLongError(Exception):
    """The run has taken as long as it may."""


class Simulation:
    """One run, which may go on until `end_us` in virtual time."""

    cluster: Cluster
    faults: FaultInjector[Any]

    def __init__(self, fault_ticks: int, end_us: int | None = None) -> None:
        self.fault_ticks = fault_ticks
        """How long things go wrong."""
        self._end_us = end_us

    def run(self) -> object:
        """All of it. Raises SafetyError, LivenessError, UndecidedError, or what the code under test raised."""
        raise NotImplementedError

    @property
    def requests(self) -> Mapping[int, int]:
        """How many requests each client had in mind so far, by its number."""
        return {}

    def tick(self) -> None:
        """Let a tick pass."""
        schedule = self.cluster.schedule
        schedule.run_until(schedule.now + self.cluster.tick_us)
        if self._end_us is not None and schedule.now > self._end_us:
            raise TooLongError

    def advance(self, ticks: int, ticked: Callable[[int], None] | None = None) -> None:
        """Let so many ticks pass. `ticked` is told how many have."""
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
        """After the faults: go on until this holds. Raises LivenessError, which says `what`, if it does not in time."""
        for done in range(ticks):
            before_tick(done)
            if holds():
                return
            self.tick()
        if not holds():
            raise LivenessError(f"{ticks} ticks after the faults: {what()}")
