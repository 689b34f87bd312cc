"""The interface of a service to the faults of the world: its machines, and its timeouts.

    Cluster          the machines of one service in one run, and its units of time
    FaultContext     the context of faults: the cluster, and the randomness of the run

Not here: the faults (`process_faults`, `network_faults`), and when they happen (`faults`).
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
    """The machines of one service, which derives a class of its own."""

    machines: Mapping[Any, Machine]
    """The machines by their numbers."""

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
        """How long a process waits for another one before it gives up."""
        self.disk_us = disk_us
        """How long a piece of work of an intact disk takes, on average."""
        self.is_merciless = is_merciless
        """Whether lasting faults are never mended."""

    @property
    def at_stake(self) -> Machine | None:
        """The machine that faults choose more often than others, if there is one."""
        return None

    def count(self, what: str, number: int = 1) -> None:
        """Count an event."""

    def cut_for_long(self, pairs: Iterable[Pair]) -> None:
        """Note that these directions have carried nothing for `GIVE_UP_TICKS`: connections that wait for them may be
        given up."""


def process_of(machine: Machine) -> Process | None:
    """The process on a machine; None while there is none."""
    running = machine.running
    assert running is None or isinstance(running, Process)
    return running


class FaultContext:
    """The context of the faults of one run."""

    def __init__(self, cluster: Cluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.mended_at_the_end: list[Callable[[], None]] = []
        """Called when the faults are over."""

    @property
    def numbers(self) -> list[int]:
        """The numbers of all machines."""
        return list(self.cluster.machines)

    def any_machine(self) -> Machine:
        """A random machine, often the one at stake."""
        most = self.cluster.at_stake
        if most is not None and self.rng.random() < 0.3:
            return most
        return self.rng.choice(list(self.cluster.machines.values()))

    def two_numbers(self) -> tuple[int, int]:
        one, two = self.rng.sample(self.numbers, 2)
        return one, two

    def ticks(self, most: float) -> int:
        """A random duration in microseconds, mostly short."""
        return int(self.cluster.tick_us * most * self.rng.random() ** 2)

    def mend_after(self, delay: int, mend: Callable[[], None]) -> None:
        """End a lasting fault after this time. Without mercy it never ends."""
        if not self.cluster.is_merciless:
            self.cluster.schedule.after(delay, mend)
