"""What outlives a process: the disk, the clocks and the place of one server; and the world, which is all of them.

Clocks: the monotonic one starts anywhere and runs a little fast or slow (`drift_ppm`), never backwards; the wall clock
is that one with an offset, which may jump both ways. Processes see whole milliseconds of both.

A process that ends is started again some time later, unless its machine `stays_down`. The power may go at any operation
of the disk, also while a start reads what is on it; then the next start is a little later. A disk that `hangs` finishes
no work that is begun from then on, and no process starts from it.

Not here: what a start does with the disk (`boot`, which each service has), and the process while it lives (`process`).
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
    """A process that lives on a machine."""

    def start(self) -> None:
        """It has been put on its machine."""
        ...

    def die(self, *, with_power: bool) -> None:
        """It is gone; the machine goes on with what is on the disk."""
        ...


class World:
    """Time, the network, the trace, and the machines by their numbers."""

    def __init__(self, schedule: Schedule, network: Network, trace: Trace, turn_us: int) -> None:
        self.schedule = schedule
        self.network = network
        self.trace = trace
        self.turn_us = turn_us
        """What a turn of a process takes at least."""


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
        """`boot` makes the process of the next start out of what is on the disk; None: it cannot be read this time.
        `disk_us` is about what the disk takes for a piece of work; `pause_us` is the most that passes between a process
        that ended and the next one."""
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
        """The operation of the disk, from its next start on, at which the power goes."""
        self.stays_down = False
        """Nobody starts it until the faults are over."""
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
        """The virtual time at which its monotonic clock shows this."""
        own_us = now_ms * MS - self._monotonic_us
        return max(0, -(-own_us * MILLION // self._ppm))

    def disk_delay_us(self) -> int:
        """How long one piece of work of the disk takes."""
        if self.hangs:
            return NEVER_US
        return int(self.disk_us * (0.3 + self.rng.random())) + 10

    # --------------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Start the process: recover, and go. Nothing happens if it runs, or if the disk hangs."""
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
        """Start the process then, unless somebody has decided otherwise meanwhile."""
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
