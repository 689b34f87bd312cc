"""The transfer of a snapshot between simulated members: the connections of a
`zab.member.storage.snapshot_fetch.Fetch`, and their other ends. `zab.server.snapshot_transfer` does the same with
sockets and tasks.

Data takes as long as the network between the two needs. A failure of the process's own disk ends it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from datatree.snapshot import snapshot_path
from zab.member.storage.events import FetchFailed, FetchTree, SnapshotFetched
from zab.member.storage.snapshot_fetch import Fetch, FetchError
from zab.member.storage.snapshot_request import (
    REQUESTS,
    RefusedError,
    SnapshotRequest,
    accepted,
    read_piece,
    refused,
    size_of,
)
from zab.protocol.effects import FetchSnapshot
from zab.simulator.world.disk import FaultyDisk, PowerLossError
from zab.simulator.world.process import Process
from zab.simulator.world.schedule import MS

PIECE_BYTES: Final = 64
"""Small enough that a transfer takes as long as writing a snapshot in this run."""


class Source(Protocol):
    """A process that sends its snapshots."""

    disk: FaultyDisk
    being_read: Counter[int]
    """How many transfers read the snapshot of each zxid, which retention keeps."""

    @property
    def is_alive(self) -> bool: ...


class Sending:
    """One connection, on the sending side."""

    def __init__(self, source: Source, asked: bytes) -> None:
        request = REQUESTS.decode(asked)
        assert isinstance(request, SnapshotRequest)
        self.source = source
        self._zxid = request.zxid
        self._offset = request.offset
        source.being_read[request.zxid] += 1
        try:
            self._size_bytes = size_of(source.disk, request)
            self._answer = accepted(self._size_bytes)
        except RefusedError as error:
            self._size_bytes = 0
            self._answer = refused(str(error))

    def next_piece(self) -> bytes:
        """The next piece; empty at the end."""
        piece, self._answer = self._answer, b""
        if not piece and self._offset < self._size_bytes:
            piece = read_piece(self.source.disk, snapshot_path(self._zxid), self._offset, PIECE_BYTES)
            self._offset += len(piece)
        return piece

    def close(self) -> None:
        self.source.being_read[self._zxid] -= 1


class Fetching:
    """The transfer of one snapshot. `source` finds the process that sends it, while it can be reached."""

    def __init__(
        self,
        process: Process,
        effect: FetchSnapshot | FetchTree,
        stall_ms: int,
        source: Callable[[], Source | None],
        answer: Callable[[SnapshotFetched | FetchFailed], None],
    ) -> None:
        self._process = process
        self._effect = effect
        self._fetch = Fetch(process.machine.disk, effect, stall_ms, process.machine.now_ms)
        self._source = source
        self._answer = answer
        self._sending: Sending | None = None
        self._is_over = False

    def start(self) -> None:
        self._process.later(self._delay(), self._do, self._open)

    def stop(self) -> None:
        """Give up the transfer, and close its file."""
        if not self._is_over:
            self._hang_up()
            self._is_over = True
            self._process.later(0, self._close)

    def _close(self) -> None:
        if self._process.machine.hangs:
            return
        with self._process.ends_by(PowerLossError, OSError):
            self._fetch.close()

    def _delay(self, size_bytes: int = 0) -> int:
        """How long bytes take to this process."""
        delay, bytes_per_ms = self._process.network.conditions((self._effect.sid, self._process.sid))
        return delay + (size_bytes * MS // bytes_per_ms if bytes_per_ms else 0)

    def _do(self, step: Callable[[], None]) -> None:
        """Take a step, unless the transfer is over. A disk error ends the process; a hanging disk ends the transfer."""
        if self._is_over or self._process.machine.hangs:
            return
        with self._process.ends_by(PowerLossError, OSError):
            try:
                step()
            except FetchError as error:
                self._fetch.close()
                self._end(FetchFailed(self._effect, str(error)))

    def _open(self) -> None:
        self._fetch.open()
        self._dial()

    def _dial(self) -> None:
        source = self._source()
        if source is None:
            self._broken("it cannot be reached")
            return
        self._sending = Sending(source, self._fetch.request())
        self._next()

    def _next(self) -> None:
        """Wait for the next piece; without one, the connection is closed."""
        assert self._sending is not None
        piece = self._sending.next_piece()
        delay = self._delay(len(piece))
        patience = max(0, self._fetch.deadline - self._process.machine.now_ms) * MS
        if delay <= patience:
            self._process.later(delay, self._do, lambda: self._receive(piece))
        else:
            self._process.later(patience, self._do, lambda: self._broken("no progress"))

    def _receive(self, piece: bytes) -> None:
        assert self._sending is not None
        if not piece or not self._sending.source.is_alive or self._source() is not self._sending.source:
            self._broken("the connection broke")
        elif self._fetch.receive(self._process.machine.now_ms, piece):
            self._end(SnapshotFetched(self._effect))
        else:
            self._next()

    def _broken(self, reason: str) -> None:
        self._hang_up()
        redial_ms = self._fetch.broken(self._process.machine.now_ms, reason)
        self._process.later(self._delay() + redial_ms * MS, self._do, self._dial)

    def _end(self, answer: SnapshotFetched | FetchFailed) -> None:
        self._hang_up()
        self._is_over = True
        self._answer(answer)

    def _hang_up(self) -> None:
        if self._sending is not None:
            self._sending.close()
            self._sending = None
