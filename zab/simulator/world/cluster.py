"""What a service hands in, so that the world can break it: its machines, and how long it bears to wait.

    Cluster          the machines of one service in one run, and what it is counted in
    FaultContext     what a fault has to work with: the cluster, and the choices of the run

Not here: what goes wrong (`process_faults`, `network_faults`) and when (`faults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from zab.simulator.world.machine import Machine
from zab.simulator.world.network import Network, Pair
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import Schedule
from zab.simulator.world.trace import Trace


class Cluster:
    """The machines of one service. A service says more of it in a class of its own."""

    machines: Mapping[Any, Machine]
    """By their numbers."""

    def __init__(
        self,
        schedule: Schedule,
        network: Network,
        trace: Trace,
        *,
        tick_us: int,
        patience_ticks: int,
        disk_us: int,
        is_merciless: bool = False,
    ) -> None:
        self.schedule = schedule
        self.network = network
        self.trace = trace
        self.tick_us = tick_us
        """The unit of all durations of faults."""
        self.patience_ticks = patience_ticks
        """How long one process waits for another one before it gives up."""
        self.disk_us = disk_us
        """How long one piece of work of a sound disk takes, on average."""
        self.is_merciless = is_merciless
        """What lasts is never mended."""

    @property
    def at_stake(self) -> Machine | None:
        """The machine that faults choose more often than others, if there is one."""
        return None

    def count(self, what: str, number: int = 1) -> None:
        """Something happened that is counted."""

    def cut_for_long(self, pairs: Iterable[Pair]) -> None:
        """These directions have carried nothing for `GIVE_UP_TICKS`: what waits for them may be given up."""


def process_of(machine: Machine) -> Process | None:
    """The process on a machine, None while there is none."""
    running = machine.running
    assert running is None or isinstance(running, Process)
    return running


class FaultContext:
    """What a fault of one run has to work with."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.mended_at_the_end: list[Callable[[], None]] = []
        """Called when the faults are over."""

    @property
    def numbers(self) -> list[int]:
        """All machines."""
        return list(self.cluster.machines)

    def any_machine(self) -> Machine:
        """Often the one where most is at stake."""
        most = self.cluster.at_stake
        if most is not None and self.rng.random() < 0.3:
            return most
        return self.rng.choice(list(self.cluster.machines.values()))

    def two_numbers(self) -> tuple[int, int]:
        one, two = self.rng.sample(self.numbers, 2)
        return one, two

    def ticks(self, most: float) -> int:
        """A duration in microseconds: mostly short."""
        return int(self.cluster.tick_us * most * self.rng.random() ** 2)

    def mend_after(self, delay: int, mend: Callable[[], None]) -> None:
        """What lasts is over then. Without mercy it never is."""
        if not self.cluster.is_merciless:
            self.cluster.schedule.after(delay, mend)
