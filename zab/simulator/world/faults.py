"""Injects the faults of a run, one after the other, by weights; each ends some time later.

Without mercy lasting faults never end: a network that is cut or slow, a disk that is slow, full or hangs, a machine
that is down. Momentary faults still pass: an ended process starts again, a pause ends.

`process_faults` and `network_faults` have the faults of any service; a service may have faults of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

import attrs

from zab.simulator.world.cluster import FaultContext, process_of
from zab.simulator.world.machine import Machine

PATIENCE_TICKS: Final = 20
"""The longest time that a fault waits for clients."""
WRITES_MIN: Final = 3
"""How many successful writes a fault waits for."""

Context = TypeVar("Context", bound=FaultContext)
Cause: TypeAlias = Callable[[Context], bool]
"""Injects a fault. Returns False if it is not possible now."""


@attrs.frozen
class Happened:
    """A fault of a run: its time, its kind, and its random choices."""

    at_us: int
    kind: str
    choices: Any = attrs.field(repr=False)
    """The state of the random generator before it."""


class FaultInjector(Generic[Context]):
    """Injects the faults of one run. `kinds` has their weights, `gap_us` is the average time between two. `planned`
    replaces the random faults by those of an earlier run, or some of them. With `written`, which counts successful
    writes, most faults wait until clients have made progress."""

    def __init__(
        self,
        context: Context,
        causes: Mapping[str, Cause[Context]],
        kinds: Mapping[str, int],
        gap_us: int,
        planned: Sequence[Happened] | None = None,
        written: Callable[[], int] | None = None,
    ) -> None:
        self.context = context
        self.happened: list[Happened] = []
        """The faults so far."""
        self.is_over = False
        self._causes = causes
        self._rng = context.rng
        self._kinds, self._weights = list(kinds), list(kinds.values())
        self._gap_us = gap_us
        self._planned = None if planned is None else iter(planned)
        self._written = written
        self._waits_until = 0
        self._waits_for = 0

    def start(self) -> None:
        """Start injecting faults."""
        self._go_on()

    def _next(self) -> None:
        if self.is_over:
            return
        cluster, schedule = self.context.cluster, self.context.cluster.schedule
        if self._written is not None and schedule.now < self._waits_until and self._written() < self._waits_for:
            schedule.after(cluster.tick_us, self._next)
            return
        (kind,) = self._rng.choices(self._kinds, self._weights)
        self._happens(Happened(schedule.now, kind, self._rng.getstate()))
        self._go_on()

    def _go_on(self) -> None:
        """Schedule the next fault."""
        cluster, schedule = self.context.cluster, self.context.cluster.schedule
        if self._planned is not None:
            following = next(self._planned, None)
            if following is not None:
                schedule.at(following.at_us, self._next_planned, following)
        elif self._kinds:
            if self._written is not None and self._rng.random() < 0.6:
                self._waits_until = schedule.now + cluster.tick_us * PATIENCE_TICKS
                self._waits_for = self._written() + WRITES_MIN
            schedule.after(int(self._gap_us * self._rng.expovariate(1)), self._next)

    def _next_planned(self, fault: Happened) -> None:
        if not self.is_over:
            self._rng.setstate(fault.choices)
            self._happens(fault)
            self._go_on()

    def _happens(self, fault: Happened) -> None:
        self.happened.append(fault)
        cluster = self.context.cluster
        cluster.trace.say("!", fault.kind)
        if self._causes[fault.kind](self.context):
            cluster.count(f"fault: {fault.kind}")

    def end(self) -> None:
        """End the faults, and start what is down. Disks that are full or hang stay so."""
        self.is_over = True
        self.context.cluster.network.heal()
        for mend in self.context.mended_at_the_end:
            mend()
        self.before_restart()
        for machine in self.context.cluster.machines.values():
            self.mend(machine)

    def before_restart(self) -> None:
        """Called after the faults, before machines that are down are started."""

    def mend(self, machine: Machine) -> None:
        """Mend this machine, and start its process."""
        machine.stays_down = False
        machine.disk_us = self.context.cluster.disk_us
        machine.loses_power_at = None
        machine.disk.crash_after(None)
        machine.disk.fail_after(None)
        process = process_of(machine)
        if process is None:
            machine.start_after(0)
        else:
            process.calls_left = None
            process.paused_until = 0
