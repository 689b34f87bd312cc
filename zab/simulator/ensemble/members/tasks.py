"""The tasks of a simulated member: ports of `zab.member.turn` whose work is done later than it is requested.

    snapshots, purge    jobs, one after the other: write a snapshot slice by slice, preallocate, remove old files,
                        repair a tree
    fetch               a snapshot from another member, piece by piece (`fetch`)
    read                log batches and snapshots for learners, changes for clients
    scrub               all files are repeatedly checked

An `OSError` in a snapshot gives that snapshot up; `PowerLossError` ends the machine.

Not here: retention itself (`datatree.recovery.retention`), and the use of answers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from datatree.log.zxid import Zxid
from datatree.recovery.rebuild import Rebuild
from datatree.recovery.scrub import Scrub
from datatree.snapshot import SnapshotError, SnapshotWriter, snapshot_path
from zab.member.events import Answer
from zab.member.settings.zoo_cfg import Config
from zab.member.storage.events import (
    ChooseSnapshot,
    FetchTree,
    LookBackSlice,
    ReadChanges,
    SnapshotFailed,
    SnapshotTaken,
    TakeSnapshot,
)
from zab.member.storage.storage import Storage
from zab.member.trees import tree_repair
from zab.member.trees.events import KeepSnapshot, RebuildFailed, RebuildTree
from zab.member.words.events import LookedAround
from zab.member.words.surroundings import Surroundings
from zab.protocol import effects as fx
from zab.quorum.ids import Link, ServerId
from zab.service.disk_space import room_bytes
from zab.simulator.ensemble.members.fetch import Fetching
from zab.simulator.world.disk import PowerLossError
from zab.simulator.world.job_thread import JobThread
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

REBUILD_TICKS: Final = 3
"""A repair of a tree takes fewer ticks than this, but usually several pings."""
SCRUB_TICKS: Final = 20
"""The time between two rounds of scrubbing, and before the first."""
SCRUB_STEP_US: Final = 20_000
"""The time between two steps. Neither is random: a run without damage is the same without scrubbing."""
SLICES_MAX: Final = 150
"""How many slices of a snapshot are written at once; a tree has 256 shards, each of which is one slice at first."""


class Watcher(Protocol):
    """The checkers that get files."""

    def snapshot_written(self, sid: int, zxid: int, data: bytes) -> None: ...

    def count(self, what: str, number: int = 1) -> None: ...


class Tasks:
    """The tasks of one process. `neighbour` finds the tasks of a server that can be reached."""

    def __init__(
        self,
        process: Process,
        storage: Storage,
        config: Config,
        dial: Callable[[ServerId], None],
        neighbour: Callable[[ServerId], Tasks | None],
        watcher: Watcher,
    ) -> None:
        self._process = process
        self.storage = storage
        self.disk = process.machine.disk
        self._dial = dial
        self._config = config
        self._neighbour = neighbour
        self._watcher = watcher
        self._jobs = JobThread(process)
        self._fetching: Fetching | None = None
        self.answers: deque[Answer] = deque()
        self.being_read: Counter[int] = Counter()
        """How many transfers read the snapshot of this zxid."""

    @property
    def is_alive(self) -> bool:
        return not self._process.dead

    def post(self, answer: Answer) -> None:
        """Add an answer for the next turn."""
        self.answers.append(answer)
        self._process.wake(self._process.schedule.now)

    def _later(self, action: Callable[[], None]) -> None:
        self._process.later(self._process.machine.disk_delay_us(), action)

    def dial(self, sid: ServerId, *, as_observer: bool = False) -> None:
        """Dial a server, whose ports are all one here."""
        self._dial(sid)

    # ---------------------------------------------------------------------------------------------------------- reading

    def read_log(self, effect: fx.ReadLog) -> None:
        self._process.called()
        self._later(lambda: self.post(self.storage.read_log(effect)))

    def read_for_changes(self, effect: ReadChanges | LookBackSlice) -> None:
        self._process.called()
        self._later(lambda: self.post(self.storage.read_for_changes(effect)))

    def offer_snapshot(self, effect: fx.OfferSnapshot) -> None:
        self._process.called()
        self._later(lambda: self.post(self.storage.offer_snapshot(effect)))

    def choose_snapshot(self, effect: ChooseSnapshot) -> None:
        self._process.called()
        self._later(lambda: self.post(self.storage.choose_snapshot(effect)))

    def look_around(self) -> None:
        self._process.called()
        self._later(lambda: self.post(LookedAround(Surroundings())))

    # -------------------------------------------------------------------------------------------------------- scrubbing

    def start_scrubbing(self) -> None:
        """Begin the next round after a while."""
        scrub = Scrub(self.disk, self.storage.log)
        self._process.later(SCRUB_TICKS * self._config.timing.tick_time_ms * MS, lambda: self._scrub(scrub))

    def _scrub(self, scrub: Scrub) -> None:
        with self._process.ends_by(PowerLossError):
            try:
                is_over, found = self.storage.scrub_step(scrub)
            except OSError as error:
                self._process.say(f"cannot set aside what is damaged: {error}")
                self.start_scrubbing()
                return
            for each in found:
                self._watcher.count("damaged files found by scrubbing")
                if each.is_record or each.needs:
                    self._watcher.count("damage repaired by scrubbing")
                self.post(each)
            if is_over:
                self.start_scrubbing()
            else:
                self._process.later(SCRUB_STEP_US, lambda: self._scrub(scrub))

    # -------------------------------------------------------------------------------------------------------- snapshots

    def fetch(self, effect: fx.FetchSnapshot | FetchTree) -> None:
        self._process.called()
        process = self._process

        def source() -> Tasks | None:
            return self._neighbour(effect.sid) if process.network.reaches(process.sid, effect.sid) else None

        self._fetching = Fetching(process, effect, self._config.timing.sync_limit_ms, source, self.post)
        self._fetching.start()

    def stop_fetching(self) -> None:
        if self._fetching is not None:
            self._fetching.stop()
            self._fetching = None

    def take_snapshot(self, effect: TakeSnapshot) -> None:
        self._process.called()
        stagger_us = self._process.sid % 8 * self._config.timing.tick_time_ms * MS // 8
        self._jobs.run(
            lambda: self._process.later(
                stagger_us + self._process.machine.disk_delay_us(), lambda: self._begin_snapshot(effect)
            )
        )
        self._jobs.run(self._preallocate)

    def _begin_snapshot(self, effect: TakeSnapshot) -> None:
        writer = SnapshotWriter(self.disk, effect.cursor, self.storage.log.lineage, effect.chain)
        self._write_slices(effect, writer)

    def _write_slices(self, effect: TakeSnapshot, writer: SnapshotWriter) -> None:
        process = self._process
        with process.ends_by(PowerLossError):
            try:
                for _ in range(process.machine.rng.randrange(20, SLICES_MAX)):
                    if writer.write_slice():
                        data = self.disk.read(snapshot_path(effect.zxid))
                        self._watcher.snapshot_written(process.sid, effect.zxid, data)
                        self.post(SnapshotTaken(effect.zxid))
                        self._jobs.done()
                        return
            except OSError as error:
                writer.abandon()
                self.post(SnapshotFailed(effect.zxid, str(error)))
                self._jobs.done()
                return
        self._later(lambda: self._write_slices(effect, writer))

    def rebuild_tree(self, effect: RebuildTree) -> None:
        self._process.called()
        rebuild = tree_repair.begin(effect, self.disk, self.storage.log)
        delay_us = self._process.sid % REBUILD_TICKS * self._config.timing.tick_time_ms * MS
        self._jobs.run(lambda: self._process.later(delay_us, lambda: self._rebuild(effect, rebuild)))

    def _rebuild(self, effect: RebuildTree, rebuild: Rebuild) -> None:
        with self._process.ends_by(PowerLossError):
            if not rebuild.step():
                self._later(lambda: self._rebuild(effect, rebuild))
                return
            try:
                self.post(tree_repair.answer(effect, rebuild))
            except OSError as error:
                self.post(RebuildFailed(effect, str(error)))
        self._later(self._jobs.done)

    def keep_snapshot(self, effect: KeepSnapshot) -> None:
        self._process.called()
        self._jobs.run(lambda: self._keep(effect))

    def _keep(self, effect: KeepSnapshot) -> None:
        with self._process.ends_by(PowerLossError):
            try:
                tree_repair.keep(effect, self.disk)
            except (OSError, SnapshotError) as error:
                self._process.say(f"cannot keep a snapshot: {error}")
            else:
                self._watcher.count("snapshots kept")
        self._later(self._jobs.done)

    def _preallocate(self) -> None:
        with self._process.ends_by(PowerLossError):
            try:
                self.storage.log.preallocate(
                    room_bytes(self._config.storage.disk_low_bytes, self._config.storage.disk_reserve_bytes)
                )
            except OSError as error:
                self._process.say(f"cannot preallocate: {error}")
        self._later(self._jobs.done)

    def purge(self, offered: Mapping[Link, Zxid]) -> None:
        self._process.called()
        self._jobs.run(lambda: self._purge(offered))

    def _purge(self, offered: Mapping[Link, Zxid]) -> None:
        config, being_read = self._config, +self.being_read
        with self._process.ends_by(PowerLossError):
            try:
                count, withdrawn = self.storage.purge(
                    offered, being_read, config.storage.snap_retain_count, config.storage.max_pinned_log_bytes
                )
            except OSError as error:
                self._process.say(f"cannot remove old files: {error}")
            else:
                self._watcher.count("files purged", count)
                for answer in withdrawn:
                    self.post(answer)
        self._later(self._jobs.done)
