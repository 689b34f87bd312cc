"""What a process does with its disk, each piece at a later moment than it was asked for.

    log         storage effects, in order; all that waits is one cycle, as in `zab.host.log_thread`. After 50 ms
                without work the storage is told that it is idle
    snapshots   one job after the other: write a snapshot slice by slice, preallocate, purge
    fetch       a snapshot from another member, piece by piece; it holds the place of a storage effect, and one that
                comes behind it ends it
    read        log batches and snapshots for learners, changes for clients

Every piece goes through the `FaultyDisk`: an `OSError` in the log ends the process, as it does the server's; one in a
snapshot gives that snapshot up; `PowerLossError` is the end of the machine.

Not here: what the effects do (`zab.member.storage`), and what is retained (`datatree.recovery.retention`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from datatree.log.disk import File
from datatree.recovery.retention import purge
from datatree.snapshot import SnapshotWriter, fetch_path, read_snapshot_header, snapshot_path
from zab import events as ev
from zab.member.inputs import LookBackSlice, ReadChanges, SnapshotFailed, SnapshotTaken, TakeSnapshot
from zab.member.storage import InstallSnapshot, RollLog, SnapshotUnusable, Storage, StorageEffect
from zab.simulator.ensemble.described import described
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.schedule import MS

if TYPE_CHECKING:
    from zab.simulator.ensemble.process import Process

IDLE_MS: Final = 50
REDIAL_MS: Final = 100
PIECE_BYTES: Final = 2048
READ_AHEAD_BYTES: Final = 1 << 20
SLICES_MAX: Final = 150
"""Slices of a snapshot that are written at one moment; a tree has 256 shards, each of which is a slice at first."""


class Files:
    """The disk's side of one process."""

    def __init__(self, process: Process, storage: Storage) -> None:
        self._process = process
        self.storage = storage
        self.disk = process.machine.disk
        self._to_store: list[StorageEffect] = []
        self._is_storing = False
        self._idle_due = False
        self._jobs: deque[Callable[[], None]] = deque()
        self._has_job = False
        self._fetch: Fetch | None = None
        self.offered: dict[int, int] = {}
        """Snapshots that learners may be fetching: link to zxid."""
        self.being_read: dict[int, int] = {}
        """How many transfers read the snapshot of this zxid."""

    def _delay(self) -> int:
        machine = self._process.machine
        return int(machine.disk_us * (0.3 + machine.rng.random())) + 10

    # ----------------------------------------------------------------------------------------------------------- log

    def store(self, effect: StorageEffect) -> None:
        """Queue one storage effect; a snapshot on its way is of no use any more."""
        self._fetch = None
        self._to_store.append(effect)

    def start_storing(self) -> None:
        """At the end of a turn."""
        if self._to_store and not self._is_storing:
            self._is_storing = True
            effects, self._to_store = self._to_store, []
            self._process.later(self._delay(), self._perform, effects)

    def _perform(self, effects: list[StorageEffect]) -> None:
        process = self._process
        if process.trace.sink is not None:
            process.trace.line(process.name, f"stores {described(effects)}")
        with process.ends_by(PowerLossError, OSError):
            answers = self.storage.perform(effects)
            process.trace.mark(process.sid, self.disk.operations)
            for answer in answers:
                if isinstance(answer, SnapshotUnusable):
                    self._give_up_fetch(answer.fetch, answer.reason)
                else:
                    process.give(answer)
        self._is_storing = False
        self.start_storing()
        self.nudge()

    def nudge(self) -> None:
        """Something changed that is written down when the log is idle."""
        if not self._idle_due:
            self._idle_due = True
            self._process.later(IDLE_MS * MS, self._idle)

    def _idle(self) -> None:
        self._idle_due = False
        if not self._is_storing:
            with self._process.ends_by(PowerLossError, OSError):
                self.storage.idle()

    # ----------------------------------------------------------------------------------------------------- snapshots

    def take_snapshot(self, effect: TakeSnapshot) -> None:
        """Roll the log and write the snapshot, when this member's turn has come."""
        self._to_store.append(RollLog())
        stagger_us = self._process.sid % 8 * self._process.config.tick_time_ms * MS // 8
        self._job(lambda: self._process.later(stagger_us + self._delay(), self._begin_snapshot, effect))
        self._job(self._preallocate)

    def purge(self) -> None:
        """Remove what retention lets go."""
        self._job(self._purge)

    def _job(self, job: Callable[[], None]) -> None:
        self._jobs.append(job)
        if not self._has_job:
            self._has_job = True
            self._process.later(self._delay(), self._next_job)

    def _next_job(self) -> None:
        if self._jobs:
            self._jobs.popleft()()
        else:
            self._has_job = False

    def _begin_snapshot(self, effect: TakeSnapshot) -> None:
        writer = SnapshotWriter(self.disk, effect.cursor, self.storage.log.lineage, effect.chain)
        self._write_slices(effect, writer)

    def _write_slices(self, effect: TakeSnapshot, writer: SnapshotWriter) -> None:
        process = self._process
        failed = False
        with process.ends_by(PowerLossError):
            try:
                for _ in range(process.machine.rng.randrange(20, SLICES_MAX)):
                    if writer.write_slice():
                        process.observer.snapshot_written(process, effect.zxid)
                        process.give(SnapshotTaken(effect.zxid))
                        self._next_job()
                        return
            except OSError as error:
                writer.abandon()
                process.give(SnapshotFailed(effect.zxid, str(error)))
                failed = True
        if failed:
            self._next_job()
        else:
            process.later(self._delay(), self._write_slices, effect, writer)

    def _preallocate(self) -> None:
        with self._process.ends_by(PowerLossError):
            try:
                self.storage.log.preallocate()
            except OSError as error:
                self._process.say(f"cannot preallocate: {error}")
        self._process.later(self._delay(), self._next_job)

    def _purge(self) -> None:
        process = self._process
        in_use = {snapshot_path(zxid) for zxid in (*self.offered.values(), *self.being_read)}
        keep_count = process.config.snap_retain_count
        with process.ends_by(PowerLossError):
            try:
                removed = purge(self.disk, self.storage.log, keep_count=keep_count, in_use=in_use)
            except OSError as error:
                process.say(f"cannot remove old files: {error}")
            else:
                process.observer.count("files purged", len(removed))
        process.later(self._delay(), self._next_job)

    # ------------------------------------------------------------------------------------------ reading for learners

    def read_log(self, effect: ev.ReadLog) -> None:
        """Answer when the link has room."""
        if self._process.links.unsent_bytes(effect.link) > READ_AHEAD_BYTES:
            self._process.later(self._process.config.tick_time_ms * MS // 10, self.read_log, effect)
        else:
            self._process.later(self._delay(), lambda: self._process.give(self.storage.read_log(effect)))

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        """For a client."""
        self._process.later(self._delay(), lambda: self._process.give(self.storage.read_for_changes(effect)))

    def offer_snapshot(self, effect: ev.OfferSnapshot) -> None:
        self._process.later(self._delay(), self._offer, effect)

    def _offer(self, effect: ev.OfferSnapshot) -> None:
        offered = self.storage.offer_snapshot(effect)
        end = self._process.links.ends.get(effect.link)
        if offered is not None:
            self.offered[effect.link] = offered.zxid
            self._process.give(offered)
        elif end is not None:
            self._process.links.break_off(end)

    # --------------------------------------------------------------------------------------------- fetching a snapshot

    def fetch(self, effect: ev.FetchSnapshot) -> None:
        """Fetch it, in the place of a storage effect."""
        self._fetch = Fetch(self._process, self, effect)
        self._fetch.start()

    def is_fetching(self, fetch: Fetch) -> bool:
        return self._fetch is fetch and not self._process.dead

    def fetched(self, fetch: Fetch) -> None:
        """The file is whole and synced."""
        assert self._fetch is fetch
        self._fetch = None
        self._to_store.append(InstallSnapshot(fetch.effect))
        self.start_storing()

    def fetch_failed(self, fetch: Fetch, reason: str) -> None:
        self._fetch = None
        self._give_up_fetch(fetch.effect, reason)

    def _give_up_fetch(self, effect: ev.FetchSnapshot, reason: str) -> None:
        self._process.say(f"snapshot cannot be fetched from {effect.sid}: {reason}")
        self._process.links.break_off_to(effect.sid, dialled_only=True)


class Fetch:
    """One snapshot on its way, in attempts that go on where the one before stopped."""

    def __init__(self, process: Process, files: Files, effect: ev.FetchSnapshot) -> None:
        self._process = process
        self._files = files
        self.effect = effect
        self._path = fetch_path(effect.zxid)
        self._file: File | None = None
        self._progress_at = process.schedule.now

    @property
    def _is_wanted(self) -> bool:
        return self._files.is_fetching(self)

    def start(self) -> None:
        disk = self._files.disk
        with self._process.ends_by(PowerLossError, OSError):
            if disk.exists(self._path):
                header = read_snapshot_header(disk, self._path)
                if header is None or (header.lineage, header.chain) != (self.effect.lineage, self.effect.chain):
                    disk.remove(self._path)
        self._later(self._attempt)

    def _later(self, action: Callable[[], None], delay: int = 0) -> None:
        process = self._process
        process.later(delay + process.network.delay(process.sid, self.effect.sid), action)

    def _again(self) -> None:
        if self._process.schedule.now - self._progress_at > self._process.config.sync_limit_ms * MS:
            self._files.fetch_failed(self, "nothing came for syncLimit")
        else:
            self._later(self._attempt, REDIAL_MS * MS)

    def _source(self) -> Process | None:
        process = self._process
        reached = process.network.reaches(process.sid, self.effect.sid)
        return process.ensemble.machines[self.effect.sid].process if reached else None

    def _attempt(self) -> None:
        if not self._is_wanted:
            return
        source = self._source()
        if source is None:
            self._again()
            return
        disk = self._files.disk
        with self._process.ends_by(PowerLossError, OSError):
            if disk.exists(self._path):
                self._file = disk.open_append(self._path, create=False, offset=disk.size(self._path))
            else:
                self._file = disk.open_append(self._path, create=True)
            path = snapshot_path(self.effect.zxid)
            header = read_snapshot_header(source.machine.disk, path) if source.machine.disk.exists(path) else None
            if header is None or (header.lineage, header.chain) != (self.effect.lineage, self.effect.chain):
                self._files.fetch_failed(self, "refused: it is not there any more")
                return
            source.files.being_read[self.effect.zxid] = source.files.being_read.get(self.effect.zxid, 0) + 1
            self._later(lambda: self._receive(source))

    def _receive(self, source: Process) -> None:
        """One more piece has arrived, or the connection broke."""
        reading = source.files.being_read
        if not self._is_wanted or source.dead or self._source() is not source:
            self._release(reading)
            if self._is_wanted:
                self._sync()
                self._again()
            return
        assert self._file is not None
        path = snapshot_path(self.effect.zxid)
        with self._process.ends_by(PowerLossError, OSError):
            piece = source.machine.disk.read(path, self._file.size, PIECE_BYTES)
            self._file.write(piece)
            self._progress_at = self._process.schedule.now
            if self._file.size == source.machine.disk.size(path):
                self._sync()
                self._release(reading)
                self._files.fetched(self)
            else:
                self._later(lambda: self._receive(source))

    def _sync(self) -> None:
        assert self._file is not None
        with self._process.ends_by(PowerLossError, OSError):
            self._file.sync()

    def _release(self, reading: dict[int, int]) -> None:
        reading[self.effect.zxid] -= 1
        if not reading[self.effect.zxid]:
            del reading[self.effect.zxid]
