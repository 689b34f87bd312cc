"""What a learner decides while it fetches a snapshot file: over a `Disk`, and connections that its host makes.

    open()            continues what an earlier transfer left of this very snapshot, and discards anything else
    request()         what to say on a new connection: from which byte on
    receive(payload)  takes what came on it; True once the file is whole and durable
    broken(reason)    the connection broke, or none could be made: after which time to dial again
    close()           at the end, whatever it is: what came is durable, or it is discarded

A broken connection is dialled again, and the transfer goes on after what was received. It fails when it makes no
progress for the time that it was given (syncLimit), not when it is long, and at once when the other side refuses: then
what is there is of no use, and goes.

Every OSError of the own disk is final (C1 failed syncs): it passes through, the process ends, and nothing touches the
file any more. What a failed sync left in it reads fine and may be gone with the next power cut, so it must not be
continued: only what a transfer of this process has synced and closed is, since each start of a member removes what it
finds (`datatree.recovery.recover`).

Times are milliseconds of any monotonic clock. All but `request`, `broken` and `deadline` take the disk's time.

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
    """The snapshot cannot be had from that member now; the reason is its text."""


class Fetch:
    """One snapshot on its way into `fetch_path(zxid)`, or `tree_fetch_path(zxid)`."""

    def __init__(self, disk: Disk, fetch: FetchSnapshot | FetchTree, stall_ms: int, now: int) -> None:
        self._disk = disk
        self._fetch = fetch
        self._stall_ms = stall_ms
        self._progress_at = now
        self._path = (tree_fetch_path if isinstance(fetch, FetchTree) else fetch_path)(fetch.zxid)
        self._file: File | None = None
        self._size_bytes: int | None = None
        """Of the whole file, as this connection's answer says."""
        self._unsynced_bytes = 0
        self._is_useless = False
        """What is there is not continued by anybody."""

    @property
    def deadline(self) -> int:
        """When the connection counts as broken unless something has come."""
        return self._progress_at + self._stall_ms

    def open(self) -> None:
        """Open the file after what is there of this very snapshot. A short part says nothing of itself."""
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
        """The first payload on a new connection."""
        assert self._file is not None
        self._size_bytes = None
        fetch = self._fetch
        return REQUESTS.encode(SnapshotRequest(fetch.lineage, fetch.zxid, fetch.chain, self._file.size))

    def receive(self, now: int, payload: bytes) -> bool:
        """Take what came on the connection: the answer first, then the pieces. True: the file is whole and durable, and
        closed. Raises FetchError."""
        data = payload
        if self._size_bytes is None:
            self._size_bytes = self._answered(payload)
            data = b""
        file, size_bytes = self._file, self._size_bytes
        assert file is not None
        assert size_bytes is not None
        if file.size + len(data) > size_bytes:
            raise self._refusal(f"more than the {size_bytes} bytes that were announced")
        # Until all of this has succeeded, there is no file that anybody may go on with.
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
        """The size of the file that follows. Raises FetchError."""
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
        """How long to wait until the next connection is made. Raises FetchError once nothing came for too long."""
        if now >= self.deadline:
            raise FetchError(f"nothing came for {self._stall_ms} ms: {reason}")
        return REDIAL_MS

    def close(self) -> None:
        """Nothing more will come. A later transfer may continue what is there."""
        file, self._file = self._file, None
        if file is None:
            return
        if not self._is_useless:
            file.sync()
        file.close()
        if self._is_useless:
            self._disk.remove(self._path)
