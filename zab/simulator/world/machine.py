"""The machine of a server, which outlives its processes: disk and clocks; and the world with all machines.

Clocks: the monotonic clock starts at any value and runs a little fast or slow (`drift_ppm`), never backwards; the wall
clock has an offset to it, which may jump both ways. Processes see whole milliseconds of both.

A process that ends is started again some time later, unless its machine `stays_down`. The power may be lost at any
operation of the disk, even during a start; then the next start is a little later. A disk that `hangs` finishes no work
begun from then on, and no process starts from it.

Not here: recovery from the disk (`boot`, which each service has), and running processes (`process`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from zab.simulator.world.disk import FaultyDisk
from zab.simulator.world.network import Network
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

WALL_MS: Final = 1_750_000_000_000
MILLION: Final = 1_000_000
NEVER_US: Final = 1 << 60


class Running(Protocol):
    """A process that runs on a machine."""

    def start(self) -> None:
        """Called when it is on its machine."""
        ...

    def die(self, *, with_power: bool) -> None:
        """End the process; the machine keeps the disk."""
        ...


class World:
    """Time, the network, the trace, and the machines by their numbers."""

    def __init__(self, schedule: Schedule, network: Network, trace: Trace, turn_us: int) -> None:
        self.schedule = schedule
        self.network = network
        self.trace = trace
        self.turn_us = turn_us
        """The least duration of a process's turn."""


class Machine:
    """One server, whether its process runs or not."""

    def __init__(
        self,
        world: World,
        number: int,
        rng: Random,
        boot: Callable[[], Running | None],
        *,
        disk_us: int,
        drift_ppm: int,
        pause_us: int,
    ) -> None:
        """`boot` makes the process of the next start from the disk; None: the disk cannot be read this time. `disk_us`
        is the average time of a piece of disk work; `pause_us` is the longest time between the end of a process and the
        next one."""
        self.world = world
        self._schedule = world.schedule
        self.number = number
        self.rng = rng
        self.running: Running | None = None
        self._boot = boot
        self.disk = FaultyDisk()
        self.disk_us = disk_us
        self.starts_count = 0
        self.loses_power_at: int | None = None
        """The operation of the disk, counted from the next start, at which the power is lost."""
        self.stays_down = False
        """Whether it is not started until the faults are over."""
        self.hangs = False
        self._pause_us = pause_us
        self._ppm = MILLION + rng.randint(-drift_ppm, drift_ppm)
        self._monotonic_us = rng.randrange(1, 10**9)
        self.wall_offset_ms = WALL_MS + rng.randrange(-5000, 5000)

    # ---------------------------------------------------------------------------------------------------------- clocks

    @property
    def now_ms(self) -> int:
        """Its monotonic clock."""
        return (self._monotonic_us + self._schedule.now * self._ppm // MILLION) // MS

    def monotonic_ns(self) -> int:
        return (self._monotonic_us + self._schedule.now * self._ppm // MILLION) // MS * MILLION

    def wall_ms(self) -> int:
        return (self._monotonic_us + self._schedule.now * self._ppm // MILLION) // MS + self.wall_offset_ms

    def wall_ns(self) -> int:
        return self.wall_ms() * MILLION

    def processor_ns(self) -> int:
        return 0

    def time_of(self, now_ms: int) -> int:
        """The virtual time at which its monotonic clock shows this time."""
        own_us = now_ms * MS - self._monotonic_us
        return max(0, -(-own_us * MILLION // self._ppm))

    def disk_delay_us(self) -> int:
        """How long a piece of disk work takes."""
        if self.hangs:
            return NEVER_US
        return int(self.disk_us * (0.3 + self.rng.random())) + 10

    # --------------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Recover, and start the process. No-op if it runs, or if the disk hangs."""
        if self.running is not None or self.hangs:
            return
        self.starts_count += 1
        if self.loses_power_at is not None:
            self.disk.crash_after(self.loses_power_at)
            self.loses_power_at = None
        self.running = self._boot()
        if self.running is None:
            self.start_after(self._pause_us // 40)
        else:
            self.running.start()

    def start_after(self, delay: int) -> None:
        """Start the process after this delay, unless `stays_down` is set meanwhile."""
        self.world.schedule.after(delay, self._start_if_wanted)

    def _start_if_wanted(self) -> None:
        if not self.stays_down:
            self.start()

    def stop(self, *, with_power: bool) -> None:
        """End the process at once, alone or with the machine; it is started again some time later."""
        process = self.running
        if process is None:
            return
        self.running = None
        process.die(with_power=with_power)
        if with_power:
            self.disk.crash(self.rng)
        else:
            self.disk.kill()
        self.start_after(int(self._pause_us * self.rng.random() ** 2))
