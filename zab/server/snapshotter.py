"""The snapshot thread: writes snapshots, preallocates log files, and removes what retention lets go (E4).

    take(effect)        write the snapshot that a cursor holds, slice by slice, each slice synced
    preallocate()       have a log file ready for the next roll
    purge(work)         run the retention's work

Jobs run one after the other, in the order in which they came; what became of a snapshot is put into `Posts`. None
of this is allowed on the log thread, whose every millisecond is a write that waits, nor in the loop.

A slice holds the interpreter for some milliseconds, so the thread sleeps after each for as long as the slice took:
a snapshot takes half of one core at most.

A write error abandons that snapshot only (C4): the tree goes on as if there had been none. A failed preallocation
is said and forgotten: the log then grows as it is written.

Not here: when a snapshot is due (the leader says it for all), which files may go (`datatree.recovery.retention`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from datatree.log.disk import Disk
from datatree.log.transaction_log import TransactionLog
from datatree.snapshot import SnapshotWriter
from zab.host.journal import Journal
from zab.host.loop import Posts
from zab.member.inputs import SnapshotFailed, SnapshotTaken, TakeSnapshot

PAUSE_SECONDS_MAX = 0.02

journal = Journal("snapshotter")


class Snapshotter:
    """One per server. All methods belong to the loop's thread."""

    def __init__(self, disk: Disk, log: TransactionLog, posts: Posts, *, delay_seconds: float = 0.0) -> None:
        """`delay_seconds` is waited before each snapshot: members that share a machine begin one after the other."""
        self._disk = disk
        self._log = log
        self._posts = posts
        self._delay_seconds = delay_seconds
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def take(self, effect: TakeSnapshot) -> None:
        """Write this snapshot; `SnapshotTaken` or `SnapshotFailed` is posted."""
        self._jobs.put(lambda: self._take(effect))

    def preallocate(self) -> None:
        """Allocate the next log file, unless there is one."""
        self._jobs.put(self._preallocate)

    def run(self, work: Callable[[], None]) -> None:
        """Do something else of this kind, behind what is queued. It deals with its own errors."""
        self._jobs.put(work)

    def close(self, patience_seconds: float) -> bool:
        """End; a snapshot under way is abandoned. False when that takes too long."""
        self._stopping.set()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(patience_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._stopping.is_set():
                job()

    def _take(self, effect: TakeSnapshot) -> None:
        writer = SnapshotWriter(self._disk, effect.cursor, self._log.lineage, effect.chain)
        began_ns = time.monotonic_ns()
        self._stopping.wait(self._delay_seconds)
        try:
            finished = False
            while not finished and not self._stopping.is_set():
                slice_ns = time.monotonic_ns()
                finished = writer.write_slice()
                time.sleep(min((time.monotonic_ns() - slice_ns) / 1e9, PAUSE_SECONDS_MAX))
        except OSError as error:
            writer.abandon()
            journal.error("snapshot is given up", zxid=f"{effect.zxid:#x}", reason=str(error))
            self._posts.put(SnapshotFailed(effect.zxid, str(error)))
            return
        if not finished:
            writer.abandon()
            return
        took_ms = (time.monotonic_ns() - began_ns) // 1_000_000
        journal.info("snapshot is written", zxid=f"{effect.zxid:#x}", znodes=effect.cursor.znode_count, took_ms=took_ms)
        self._posts.put(SnapshotTaken(effect.zxid))

    def _preallocate(self) -> None:
        try:
            self._log.preallocate()
        except OSError as error:
            journal.warning("cannot preallocate a log file", reason=str(error))
