"""Fetches a snapshot file for a learner, over a `Disk` and connections that the host makes.

    open()            continues what an earlier transfer left of this snapshot, and discards everything else
    request()         the request on a new connection, with the first byte wanted
    receive(payload)  takes received data; True once the file is complete and durable
    broken(reason)    after the connection broke, or could not be made: how long to wait before the next dial
    close()           at the end, in any case: received data is made durable, or discarded

A broken connection is dialled again, and the transfer continues after the received data. It fails when it makes no
progress for the given time (syncLimit), however long it is in all, and at once when the other side refuses: then the
received data is useless, and removed.

Every OSError of this member's disk is final (C1 failed syncs): it passes through, the process ends, and the file is not
touched again. Data after a failed sync can be read and may be gone after the next power cut, so it must not be
continued. Only files that this process has synced and closed are, since each start of a member removes the others
(`datatree.recovery.recover`).

Times are milliseconds of any monotonic clock. All calls but `request`, `broken` and `deadline` use the disk.

Not here: which snapshot (`zab.protocol.synchronization`, `tree_repair`), installing it (`storage`), sockets and tasks.
"""

from __future__ import annotations

from typing import Final

from datatree.log.disk import Disk, File
from datatree.log.epochs import DIRECTORY
from datatree.snapshot import FETCH, SYNC_BYTES, fetch_path, read_snapshot_header, tree_fetch_path
from zab.member.storage.events import FetchTree
from zab.member.storage.snapshot_request import ANSWERS, REQUESTS, SnapshotRefused, SnapshotRequest
from zab.protocol.effects import FetchSnapshot
from zab.wire.records import MessageError

REDIAL_MS: Final = 100


class FetchError(Exception):
    """The snapshot cannot be fetched from that member now; the reason is its text."""


class Fetch:
    """The transfer of one snapshot to `fetch_path(zxid)` or `tree_fetch_path(zxid)`."""

    def __init__(self, disk: Disk, fetch: FetchSnapshot | FetchTree, stall_ms: int, now: int) -> None:
        self._disk = disk
        self._fetch = fetch
        self._stall_ms = stall_ms
        self._progress_at = now
        self._path = (tree_fetch_path if isinstance(fetch, FetchTree) else fetch_path)(fetch.zxid)
        self._file: File | None = None
        self._size_bytes: int | None = None
        """The size of the whole file, from the answer on this connection."""
        self._unsynced_bytes = 0
        self._is_useless = False
        """Whether the received data is useless and will be removed."""

    @property
    def deadline(self) -> int:
        """When the connection counts as broken unless something arrives."""
        return self._progress_at + self._stall_ms

    def open(self) -> None:
        """Open the file to continue this snapshot. A part too short for a header is not identified."""
        for name in self._disk.list(DIRECTORY):
            path = f"{DIRECTORY}/{name}"
            if name.endswith(FETCH) and not (path == self._path and self._is_right()):
                self._disk.remove(path)
        if self._disk.exists(self._path):
            self._file = self._disk.open_append(self._path, create=False, offset=self._disk.size(self._path))
        else:
            self._file = self._disk.open_append(self._path, create=True)

    def _is_right(self) -> bool:
        header = read_snapshot_header(self._disk, self._path)
        return header is not None and (header.lineage, header.chain) == (self._fetch.lineage, self._fetch.chain)

    def request(self) -> bytes:
        """The first payload to send on a new connection."""
        assert self._file is not None
        self._size_bytes = None
        fetch = self._fetch
        return REQUESTS.encode(SnapshotRequest(fetch.lineage, fetch.zxid, fetch.chain, self._file.size))

    def receive(self, now: int, payload: bytes) -> bool:
        """Take a received payload: the answer first, then the pieces. True: the file is complete, durable and closed.
        Raises FetchError."""
        data = payload
        if self._size_bytes is None:
            self._size_bytes = self._answered(payload)
            data = b""
        file, size_bytes = self._file, self._size_bytes
        assert file is not None
        assert size_bytes is not None
        if file.size + len(data) > size_bytes:
            raise self._refusal(f"more than the {size_bytes} bytes that were announced")
        # Until all of this has succeeded, the file must not be continued.
        self._file = None
        if data:
            self._progress_at = now
            file.write(data)
            self._unsynced_bytes += len(data)
        is_whole = file.size == size_bytes
        if is_whole or self._unsynced_bytes >= SYNC_BYTES:
            file.sync()
            self._unsynced_bytes = 0
        if is_whole:
            file.close()
        else:
            self._file = file
        return is_whole

    def _answered(self, payload: bytes) -> int:
        """Parse the answer; the size of the file. Raises FetchError."""
        try:
            answer = ANSWERS.decode(payload)
        except MessageError as error:
            raise self._refusal(f"no answer to a request for a snapshot: {error}") from error
        if isinstance(answer, SnapshotRefused):
            raise self._refusal(f"refused: {answer.reason}")
        return answer.size_bytes

    def _refusal(self, reason: str) -> FetchError:
        self._is_useless = True
        return FetchError(reason)

    def broken(self, now: int, reason: str) -> int:
        """How long to wait before the next dial. Raises FetchError if nothing has come for too long."""
        if now >= self.deadline:
            raise FetchError(f"nothing came for {self._stall_ms} ms: {reason}")
        return REDIAL_MS

    def close(self) -> None:
        """End the transfer. A later one may continue the received data."""
        file, self._file = self._file, None
        if file is None:
            return
        if not self._is_useless:
            file.sync()
        file.close()
        if self._is_useless:
            self._disk.remove(self._path)
