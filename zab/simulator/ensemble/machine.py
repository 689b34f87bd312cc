"""What outlives a process: the disk, the clocks and the place of one server; and the ensemble of all of them.

Clocks: the monotonic one starts anywhere and runs a little fast or slow (`drift_ppm`), never backwards; the wall clock
is that one with an offset, which may jump both ways. Members see whole milliseconds of both.

A start recovers what is on the disk; a disk may fail in that too, and then the next start is a little later. Recovery
that reports damage is a failure of the run: no fault here damages what was durable.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from datatree.log.epochs import INITIALIZE, load_epochs, load_member
from datatree.recovery.recover import Recovered, recover
from zab.simulator.ensemble.process import Process
from zab.simulator.ensemble.profile import Profile
from zab.simulator.world.disk import FaultyDisk, PowerLossError
from zab.simulator.world.network import Network
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace
from zab.simulator.world.verdict import SafetyError

if TYPE_CHECKING:
    from zab.simulator.ensemble.client import Client
    from zab.simulator.ensemble.observer import Observer

WALL_MS: Final = 1_750_000_000_000
MILLION: Final = 1_000_000


class Machine:
    """One server, whether its process runs or not."""

    def __init__(self, ensemble: Ensemble, sid: int, rng: Random) -> None:
        self.ensemble = ensemble
        self.sid = sid
        self.rng = rng
        self.config = ensemble.profile.config(sid)
        self.disk = FaultyDisk()
        self.disk_us = ensemble.profile.disk_us
        self.process: Process | None = None
        self.starts_count = 0
        if sid in ensemble.profile.markers:
            self.disk.replace(INITIALIZE, b"")
        self.is_wiped = False
        """It lost its data, and was not synchronized since."""
        self.loses_power_at: int | None = None
        """The operation of the disk, from its next start on, at which the power goes."""
        self.stays_down = False
        """Nobody starts it until the faults are over."""
        drift = ensemble.profile.drift_ppm
        self._ppm = MILLION + rng.randint(-drift, drift)
        self._monotonic_us = rng.randrange(1, 10**9)
        self.wall_offset_ms = WALL_MS + rng.randrange(-5000, 5000)

    @property
    def is_synchronized(self) -> bool:
        """What is on its disk says that it may be counted (B1)."""
        return load_member(self.disk) is not None and load_epochs(self.disk) is not None

    # ---------------------------------------------------------------------------------------------------------- clocks

    @property
    def now_ms(self) -> int:
        """Its monotonic clock."""
        return (self._monotonic_us + self.ensemble.schedule.now * self._ppm // MILLION) // MS

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms

    def time_of(self, now_ms: int) -> int:
        """The virtual time at which its monotonic clock shows this."""
        own_us = now_ms * MS - self._monotonic_us
        return max(0, -(-own_us * MILLION // self._ppm))

    # --------------------------------------------------------------------------------------------------- start and stop

    def start(self) -> None:
        """Start the process: recover, and go. Nothing happens if it runs."""
        if self.process is not None:
            return
        self.starts_count += 1
        if self.loses_power_at is not None:
            self.disk.crash_after(self.loses_power_at)
            self.loses_power_at = None
        recovered = self._recover()
        if recovered is None:
            self.start_after(self.ensemble.profile.tick_us // 2)
            return
        rng = Random(f"{self.ensemble.profile.seed}/member/{self.sid}/{self.starts_count}")
        self.process = Process(self, recovered, rng)
        self.ensemble.observer.process_started(self.process, recovered)
        self.process.say(
            f"starts at {recovered.last[0]:#x}, mark {recovered.mark:#x}, snapshot {recovered.snapshot_zxid:#x}"
            + (", amnesiac" if recovered.amnesiac else "")
        )
        self.process.start()

    def _recover(self) -> Recovered | None:
        try:
            recovered = recover(self.disk, self.sid, recent_bytes=self.ensemble.profile.recent_bytes)
        except PowerLossError:
            self.disk.crash(self.rng)
            return None
        except OSError as error:
            self.ensemble.trace.say(str(self.sid), f"cannot recover: {error}")
            self.disk.kill()
            return None
        if recovered.damage:
            raise SafetyError("recovery", f"server {self.sid} finds damage: {'; '.join(map(str, recovered.damage))}")
        self.ensemble.trace.mark(self.sid, self.disk.operations)
        return recovered

    def start_after(self, delay: int) -> None:
        """Start the process then, unless somebody has decided otherwise meanwhile."""
        self.ensemble.schedule.after(delay, self._start_if_wanted)

    def _start_if_wanted(self) -> None:
        if not self.stays_down:
            self.start()

    def stop(self, *, with_power: bool) -> None:
        """End the process at once, alone or with the machine; it is started again some time later."""
        process = self.process
        if process is None:
            return
        self.ensemble.observer.process_stopped(process)
        self.process = None
        process.die(with_power=with_power)
        if with_power:
            self.disk.crash(self.rng)
        else:
            self.disk.kill()
        self.ensemble.observer.count("power lost" if with_power else "killed")
        self.start_after(int(self.ensemble.profile.tick_us * 20 * self.rng.random() ** 2))


class Ensemble:
    """Everybody in a run."""

    def __init__(self, profile: Profile, schedule: Schedule, trace: Trace, observer: Observer) -> None:
        self.profile = profile
        self.schedule = schedule
        self.trace = trace
        self.observer = observer
        rng = Random(f"{profile.seed}/network")
        self.network = Network(schedule, rng, profile.latency_us, profile.jitter_us)
        self.machines = {sid: Machine(self, sid, Random(f"{profile.seed}/machine/{sid}")) for sid in profile.sids}
        self.clients: list[Client] = []

    @property
    def processes(self) -> list[Process]:
        """Those that run."""
        return [machine.process for machine in self.machines.values() if machine.process is not None]

    @property
    def leader(self) -> Process | None:
        """The one that serves as leader; of two, the one of the later epoch."""
        leading = [process for process in self.processes if process.peer.leading is not None and process.peer.serving]
        return max(leading, key=lambda process: process.peer.epoch, default=None)
