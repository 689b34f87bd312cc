"""Snapshot transfer over sockets: a learner fetches a snapshot file over a connection of its own (H4 slow learners).

    TransferServer      sends the snapshots of one member
    Fetcher             fetches one, as `zab.member.snapshot_fetch` decides

What the two say is in `zab.member.snapshot_request`. Both give up a connection on which nothing moves for the time that
they were given (syncLimit).

Not here: which snapshot (`Storage.offer_snapshot`), installing it (`Storage`), what the protocol says (`zab.peer`).
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from datatree.log.disk import Disk
from datatree.snapshot import snapshot_path
from zab.events import FetchSnapshot
from zab.host.journal import Journal
from zab.member.inputs import FetchTree
from zab.member.snapshot_fetch import Fetch
from zab.member.snapshot_request import RefusedError, SnapshotRequest, accepted, read_piece, refused, size_of
from zab.server.election_links import Address

PIECE_BYTES = 256 << 10

journal = Journal("snapshot_transfer")


# ------------------------------------------------------------------------------------------------------------- serving


class TransferServer:
    """Serves the snapshots of one member; at most `concurrent_count_max` at a time, the others wait their turn."""

    def __init__(self, disk: Disk, concurrent_count_max: int, stall_seconds: float) -> None:
        self._disk = disk
        self._places = trio.CapacityLimiter(concurrent_count_max)
        self._stall_seconds = stall_seconds
        self.being_read: dict[int, int] = {}
        """How many transfers read the snapshot of this zxid: retention spares it."""

    async def serve(self, sock: socket.socket, request: SnapshotRequest) -> None:
        """Answer the request on an accepted connection. Owns the socket from here on."""
        async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
            try:
                async with self._places:
                    await self._send(stream, request)
            except RefusedError as error:
                journal.warning("snapshot transfer is refused", reason=str(error))
                with trio.move_on_after(self._stall_seconds):
                    await _tell(stream, str(error))
            except (trio.BrokenResourceError, trio.TooSlowError, EOFError, OSError) as error:
                # Once bytes of the file are under way, nothing can be said any more: the connection just ends.
                journal.warning("snapshot transfer broke", reason=str(error) or type(error).__name__)

    async def _send(self, stream: trio.SocketStream, request: SnapshotRequest) -> None:
        path, offset = snapshot_path(request.zxid), request.offset
        with self._reading(request.zxid):
            size_bytes = await trio.to_thread.run_sync(size_of, self._disk, request)
            journal.info("snapshot transfer begins", sid=request.sid, path=path, offset=offset, size_bytes=size_bytes)
            await self._send_all(stream, accepted(size_bytes))
            while offset < size_bytes:
                piece = await trio.to_thread.run_sync(read_piece, self._disk, path, offset, PIECE_BYTES)
                await self._send_all(stream, piece)
                offset += len(piece)
            await stream.send_eof()

    @contextmanager
    def _reading(self, zxid: int) -> Iterator[None]:
        self.being_read[zxid] = self.being_read.get(zxid, 0) + 1
        try:
            yield
        finally:
            self.being_read[zxid] -= 1
            if not self.being_read[zxid]:
                del self.being_read[zxid]

    async def _send_all(self, stream: trio.SocketStream, data: bytes) -> None:
        with trio.fail_after(self._stall_seconds):
            await stream.send_all(data)


async def _tell(stream: trio.SocketStream, reason: str) -> None:
    try:
        await stream.send_all(refused(reason))
        await stream.send_eof()
    except trio.BrokenResourceError:
        return


# ------------------------------------------------------------------------------------------------------------ fetching


class _BrokenError(Exception):
    """The connection broke, or none could be made; the reason is its text. Never an error of the own disk."""


def _now_ms() -> int:
    return int(trio.current_time() * 1000)


class Fetcher:
    """The connections and worker threads of one `Fetch`."""

    def __init__(
        self, disk: Disk, server_id: int, fetch: FetchSnapshot | FetchTree, address: Address, stall_ms: int
    ) -> None:
        self._fetch = Fetch(disk, server_id, fetch, stall_ms, _now_ms())
        self._address = address

    async def run(self) -> None:
        """Returns when the file is whole and durable. Raises FetchError; an OSError is one of the own disk, and final
        (C1 failed syncs)."""
        fetch = self._fetch
        await trio.to_thread.run_sync(fetch.open)
        try:
            while True:
                reason = "no progress"
                with trio.CancelScope() as scope:
                    try:
                        await self._attempt(scope)
                        return
                    except _BrokenError as error:
                        reason = str(error)
                await trio.sleep(fetch.broken(_now_ms(), reason) / 1000)
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(fetch.close)

    async def _attempt(self, scope: trio.CancelScope) -> None:
        """One connection, until the file is whole. Raises _BrokenError."""
        self._set_deadline(scope)
        try:
            stream = await trio.open_tcp_stream(self._address.host, self._address.port)
        except OSError as error:
            raise _BrokenError(str(error)) from error
        async with stream:
            try:
                await stream.send_all(self._fetch.request())
            except trio.BrokenResourceError as error:
                raise _BrokenError(str(error)) from error
            while not await trio.to_thread.run_sync(self._fetch.receive, _now_ms(), await _receive(stream)):
                self._set_deadline(scope)

    def _set_deadline(self, scope: trio.CancelScope) -> None:
        scope.deadline = self._fetch.deadline / 1000


async def _receive(stream: trio.SocketStream) -> bytes:
    try:
        data = await stream.receive_some(PIECE_BYTES)
    except trio.BrokenResourceError as error:
        raise _BrokenError(str(error)) from error
    if not data:
        raise _BrokenError("closed before all had come")
    return bytes(data)
