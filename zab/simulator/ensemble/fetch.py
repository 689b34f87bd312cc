"""A snapshot on its way from one simulated member to another, in pieces, in attempts that go on where the one before
stopped. What the production code does with sockets and tasks is `zab.server.snapshot_transfer`.

It fails when nothing came for syncLimit, and at once when the other side does not have the file any more. A failure of
the own disk ends the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from datatree.log.disk import File
from datatree.snapshot import fetch_path, read_snapshot_header, snapshot_path
from zab.events import FetchSnapshot
from zab.member.inputs import FetchFailed, SnapshotFetched
from zab.simulator.world.disk import FaultyDisk, PowerLossError
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

REDIAL_MS: Final = 100
PIECE_BYTES: Final = 2048


class Source(Protocol):
    """A process that serves its snapshots."""

    disk: FaultyDisk
    being_read: Counter[int]
    """How many transfers read the snapshot of this zxid: retention spares it."""

    @property
    def is_alive(self) -> bool: ...


class Fetch:
    """One snapshot on its way. `source` finds the process that serves it, while it can be reached."""

    def __init__(
        self,
        process: Process,
        effect: FetchSnapshot,
        sync_limit_ms: int,
        source: Callable[[], Source | None],
        answer: Callable[[SnapshotFetched | FetchFailed], None],
    ) -> None:
        self._process = process
        self._disk = process.machine.disk
        self._effect = effect
        self._sync_limit_us = sync_limit_ms * MS
        self._source = source
        self._answer = answer
        self._path = fetch_path(effect.zxid)
        self._file: File | None = None
        self._progress_at = process.schedule.now
        self.is_stopped = False

    @property
    def _is_wanted(self) -> bool:
        return not self.is_stopped and not self._process.dead

    def start(self) -> None:
        """A part of another history under this name cannot be continued."""
        with self._process.ends_by(PowerLossError, OSError):
            if self._disk.exists(self._path) and not self._is_right(self._disk, self._path):
                self._disk.remove(self._path)
        self._later(self._attempt)

    def _is_right(self, disk: FaultyDisk, path: str) -> bool:
        header = read_snapshot_header(disk, path)
        return header is not None and (header.lineage, header.chain) == (self._effect.lineage, self._effect.chain)

    def _later(self, action: Callable[[], None], delay: int = 0) -> None:
        process = self._process
        process.later(delay + process.network.delay(process.sid, self._effect.sid), action)

    def _again(self) -> None:
        if self._process.schedule.now - self._progress_at > self._sync_limit_us:
            self._end(FetchFailed(self._effect, "nothing came for syncLimit"))
        else:
            self._later(self._attempt, REDIAL_MS * MS)

    def _end(self, answer: SnapshotFetched | FetchFailed) -> None:
        self.is_stopped = True
        self._answer(answer)

    def _attempt(self) -> None:
        if not self._is_wanted:
            return
        source = self._source()
        if source is None:
            self._again()
            return
        with self._process.ends_by(PowerLossError, OSError):
            if self._disk.exists(self._path):
                self._file = self._disk.open_append(self._path, create=False, offset=self._disk.size(self._path))
            else:
                self._file = self._disk.open_append(self._path, create=True)
            path = snapshot_path(self._effect.zxid)
            if not source.disk.exists(path) or not self._is_right(source.disk, path):
                self._end(FetchFailed(self._effect, "refused: it is not there any more"))
                return
            source.being_read[self._effect.zxid] += 1
            self._later(lambda: self._receive(source))

    def _receive(self, source: Source) -> None:
        """One more piece has arrived, or the connection broke."""
        if not self._is_wanted or not source.is_alive or self._source() is not source:
            self._release(source)
            if self._is_wanted:
                self._sync()
                self._again()
            return
        assert self._file is not None
        path = snapshot_path(self._effect.zxid)
        with self._process.ends_by(PowerLossError, OSError):
            piece = source.disk.read(path, self._file.size, PIECE_BYTES)
            self._file.write(piece)
            self._progress_at = self._process.schedule.now
            if self._file.size == source.disk.size(path):
                self._sync()
                self._release(source)
                self._end(SnapshotFetched(self._effect))
            else:
                self._later(lambda: self._receive(source))

    def _sync(self) -> None:
        assert self._file is not None
        with self._process.ends_by(PowerLossError, OSError):
            self._file.sync()

    def _release(self, source: Source) -> None:
        source.being_read[self._effect.zxid] -= 1
