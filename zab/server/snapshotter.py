"""The jobs of the job thread: it writes snapshots and preallocates log files (E4 snapshot thread).

    take(effect)        writes the snapshot of a cursor, slice by slice, each slice synced
    rebuild(effect)     makes a tree again (E6 wrong trees)
    keep(effect)        gives the snapshot that it was made from its final name
    preallocate()       prepares a log file for the next roll
    run(work)           runs other work, such as retention

A write error only abandons that snapshot (C4 stalled disk): the tree goes on as if there had been none. A failed
preallocation is only reported: the log then grows as it is written.

Not here: when a snapshot is due (the leader decides for all), which files are removed (`datatree.recovery.retention`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from datatree.log.disk import Disk
from datatree.log.transaction_log import TransactionLog
from datatree.snapshot import SnapshotError, SnapshotWriter
from zab.host.journal.journal import Journal
from zab.host.storage.job_thread import JobThread
from zab.member.storage.events import SnapshotFailed, SnapshotTaken, TakeSnapshot
from zab.member.trees import tree_repair
from zab.member.trees.events import KeepSnapshot, RebuildFailed, RebuildTree, TreeRebuilt

journal = Journal("snapshotter")


def _nobody(_took_ms: int) -> None:
    pass


class Snapshotter(JobThread):
    """The snapshot thread of a server. It posts the outcome of each snapshot."""

    def __init__(
        self,
        disk: Disk,
        log: TransactionLog,
        post: Callable[[SnapshotTaken | SnapshotFailed | TreeRebuilt | RebuildFailed], None],
        *,
        timed: Callable[[int], None] = _nobody,
        delay_seconds: float = 0.0,
        room_bytes: int = 0,
    ) -> None:
        """`timed` is called with the milliseconds that a snapshot took. It waits `delay_seconds` before each, so that
        members on one machine begin one after the other. It preallocates nothing if less than `room_bytes` would be
        left."""
        super().__init__("snapshots")
        self._disk = disk
        self._log = log
        self._post = post
        self._timed = timed
        self._delay_seconds = delay_seconds
        self._room_bytes = room_bytes

    def take(self, effect: TakeSnapshot) -> None:
        """Write this snapshot; `SnapshotTaken` or `SnapshotFailed` is posted."""
        self.run(lambda: self._take(effect))

    def rebuild(self, effect: RebuildTree) -> None:
        """Make this tree; `TreeRebuilt` or `RebuildFailed` is posted."""
        self.run(lambda: self._rebuild(effect))

    def keep(self, effect: KeepSnapshot) -> None:
        """Give this snapshot, which was fetched, its name."""
        self.run(lambda: self._keep(effect))

    def preallocate(self) -> None:
        """Allocate the next log file, unless there is one."""
        self.run(self._preallocate)

    def _take(self, effect: TakeSnapshot) -> None:
        writer = SnapshotWriter(self._disk, effect.cursor, self._log.lineage, effect.chain)
        began_ns = time.monotonic_ns()
        self.pause(self._delay_seconds)
        try:
            is_finished = self.in_slices(writer.write_slice)
        except OSError as error:
            writer.abandon()
            journal.error("snapshot is given up", zxid=f"{effect.zxid:#x}", reason=str(error))
            self._post(SnapshotFailed(effect.zxid, str(error)))
            return
        if not is_finished:
            writer.abandon()
            return
        took_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        journal.info("snapshot is written", zxid=f"{effect.zxid:#x}", znodes=effect.cursor.znode_count, took_ms=took_ms)
        self._timed(took_ms)
        self._post(SnapshotTaken(effect.zxid))

    def _rebuild(self, effect: RebuildTree) -> None:
        rebuild = tree_repair.begin(effect, self._disk, self._log)
        if not self.in_slices(rebuild.step):
            return
        try:
            self._post(tree_repair.answer(effect, rebuild))
        except OSError as error:
            journal.error("a wrong snapshot cannot be set aside", reason=str(error))
            self._post(RebuildFailed(effect, str(error)))

    def _keep(self, effect: KeepSnapshot) -> None:
        try:
            tree_repair.keep(effect, self._disk)
        except (OSError, SnapshotError) as error:
            journal.error("the snapshot of another member cannot be kept", reason=str(error))

    def _preallocate(self) -> None:
        try:
            self._log.preallocate(self._room_bytes)
        except OSError as error:
            journal.warning("cannot preallocate a log file", reason=str(error))
