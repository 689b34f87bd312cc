"""Snapshot transfer: a learner fetches a snapshot file over a connection of its own, and can go on where it stopped
(H4).

The learner dials the quorum port of the member that offered the snapshot. The first frame says that this is no
link:

    request     4 bytes length, CBOR [200, version, server id, lineage, zxid, chain, offset]
    answer      4 bytes length, CBOR [201, size of the file]       then the bytes of the file from `offset` to its end
                4 bytes length, CBOR [202, reason]                 then nothing

Lineage and chain are 16 bytes; size and offset count bytes. The bytes are those of `datatree.snapshot`, unchanged:
their checksums travel with them, and whoever installs the file verifies all of them, so nothing is verified here.

A broken connection is dialled again, and the transfer goes on behind what was received. It fails when it makes no
progress for the time it was given (syncLimit), not when it is long, and at once when the other side refuses.

Not here: which snapshot (`Storage.offer_snapshot`), installing it (`Storage`), what the protocol says (`zab.peer`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import attrs
import cbor2
import trio

from datatree.log.disk import Disk, File
from datatree.snapshot import SYNC_BYTES, fetch_path, read_snapshot_header, snapshot_path
from zab.events import FetchSnapshot
from zab.host.journal import Journal
from zab.server.election_links import Address
from zab.server.links import FrameError, Frames

VERSION = 1
PIECE_BYTES = 256 << 10
REQUEST_BYTES_MAX = 4096
REDIAL_SECONDS = 0.1

_REQUEST, _SIZE, _REFUSED = 200, 201, 202
_OFFSET_MAX = 1 << 62

journal = Journal("snapshot_transfer")


class TransferError(Exception):
    """The snapshot cannot be had from that member now; the reason is its text."""


@attrs.frozen
class TransferRequest:
    """What the learner asks for."""

    server_id: int
    lineage: bytes
    zxid: int
    chain: bytes
    offset: int

    def pack(self) -> bytes:
        fields = [_REQUEST, VERSION, self.server_id, self.lineage, self.zxid, self.chain, self.offset]
        return _framed(fields)


def _framed(fields: list[object]) -> bytes:
    body = cbor2.dumps(fields)
    return len(body).to_bytes(4, "big") + body


def _loads(frame: bytes) -> list[object]:
    try:
        fields = cbor2.loads(frame)
    except (cbor2.CBORDecodeError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise TransferError(f"not CBOR: {error}") from error
    if type(fields) is not list or not fields:
        raise TransferError("no array")
    return fields


def parse_request(frame: bytes) -> TransferRequest:
    """Raises TransferError for anything that is no request."""
    fields = _loads(frame)
    if fields[0] != _REQUEST or len(fields) != 7 or fields[1] != VERSION:
        raise TransferError("no request for a snapshot in this version")
    server_id, lineage, zxid, chain, offset = fields[2:]
    for number in (server_id, zxid, offset):
        if type(number) is not int or not 0 <= number <= _OFFSET_MAX:
            raise TransferError("a number is out of range")
    for hashed in (lineage, chain):
        if type(hashed) is not bytes or len(hashed) != 16:
            raise TransferError("lineage and chain are 16 bytes")
    return TransferRequest(*fields[2:])  # type: ignore[arg-type]  # their types were looked at one by one


# ------------------------------------------------------------------------------------------------------------- serving


class TransferServer:
    """Serves the snapshots of one member; at most `concurrent_count_max` at a time, the others wait their turn."""

    def __init__(self, disk: Disk, concurrent_count_max: int, stall_seconds: float) -> None:
        self._disk = disk
        self._places = trio.CapacityLimiter(concurrent_count_max)
        self._stall_seconds = stall_seconds
        self.being_read: dict[int, int] = {}
        """How many transfers read the snapshot of this zxid: retention spares it."""

    async def serve(self, sock: socket.socket, frame: bytes) -> None:
        """Answer the request on an accepted connection. Owns the socket from here on."""
        async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
            try:
                request = parse_request(frame)
                async with self._places:
                    await self._send(stream, request)
            except TransferError as error:
                journal.warning("snapshot transfer is refused", reason=str(error))
                with trio.move_on_after(self._stall_seconds):
                    await _tell(stream, str(error))
            except (trio.BrokenResourceError, trio.TooSlowError) as error:
                journal.warning("snapshot transfer broke", reason=str(error) or type(error).__name__)

    async def _send(self, stream: trio.SocketStream, request: TransferRequest) -> None:
        path = snapshot_path(request.zxid)
        self.being_read[request.zxid] = self.being_read.get(request.zxid, 0) + 1
        try:
            size_bytes = await trio.to_thread.run_sync(self._checked_size, path, request)
            journal.info(
                "snapshot transfer begins",
                sid=request.server_id,
                path=path,
                offset=request.offset,
                size_bytes=size_bytes,
            )
            await self._send_all(stream, _framed([_SIZE, size_bytes]))
            offset = request.offset
            while offset < size_bytes:
                piece = await trio.to_thread.run_sync(self._disk.read, path, offset, PIECE_BYTES)
                if not piece:
                    raise TransferError(f"{path} ends at {offset} of {size_bytes} bytes")
                await self._send_all(stream, piece)
                offset += len(piece)
            await stream.send_eof()
        finally:
            self.being_read[request.zxid] -= 1
            if not self.being_read[request.zxid]:
                del self.being_read[request.zxid]

    def _checked_size(self, path: str, request: TransferRequest) -> int:
        try:
            header = read_snapshot_header(self._disk, path)
            size_bytes = self._disk.size(path)
        except FileNotFoundError:
            raise TransferError(f"there is no {path} any more") from None
        if header is None or (header.lineage, header.chain) != (request.lineage, request.chain):
            raise TransferError(f"{path} is of another history")
        if request.offset > size_bytes:
            raise TransferError(f"{path} has {size_bytes} bytes, not {request.offset}")
        return size_bytes

    async def _send_all(self, stream: trio.SocketStream, data: bytes) -> None:
        with trio.fail_after(self._stall_seconds):
            await stream.send_all(data)


async def _tell(stream: trio.SocketStream, reason: str) -> None:
    try:
        await stream.send_all(_framed([_REFUSED, reason[:1000]]))
        await stream.send_eof()
    except trio.BrokenResourceError:
        return


# ------------------------------------------------------------------------------------------------------------ fetching


class Fetcher:
    """Fetches one snapshot into `fetch_path(zxid)`; what an earlier attempt left there is continued."""

    def __init__(
        self, disk: Disk, server_id: int, fetch: FetchSnapshot, address: Address, stall_seconds: float
    ) -> None:
        self._disk = disk
        self._server_id = server_id
        self._fetch = fetch
        self._address = address
        self._stall_seconds = stall_seconds
        self._path = fetch_path(fetch.zxid)
        self._progress_at = 0.0

    async def run(self) -> None:
        """Returns when the file is whole and synced. Raises TransferError."""
        self._progress_at = trio.current_time()
        await trio.to_thread.run_sync(self._discard_other)
        while True:
            reason = "no progress"
            with trio.CancelScope(deadline=self._progress_at + self._stall_seconds) as scope:
                try:
                    await self._attempt(scope)
                    return
                except (OSError, trio.BrokenResourceError) as error:
                    reason = str(error)
                await trio.sleep(REDIAL_SECONDS)
            if trio.current_time() - self._progress_at >= self._stall_seconds:
                raise TransferError(f"nothing came for {self._stall_seconds} s: {reason}")

    def _discard_other(self) -> None:
        """A part of another history under this name cannot be continued; a short part says nothing of itself."""
        if not self._disk.exists(self._path):
            return
        header = read_snapshot_header(self._disk, self._path)
        if header is None or (header.lineage, header.chain) != (self._fetch.lineage, self._fetch.chain):
            self._disk.remove(self._path)

    async def _attempt(self, scope: trio.CancelScope) -> None:
        fetch = self._fetch
        file = await trio.to_thread.run_sync(self._open)
        try:
            stream = await trio.open_tcp_stream(self._address.host, self._address.port)
            async with stream:
                request = TransferRequest(self._server_id, fetch.lineage, fetch.zxid, fetch.chain, file.size)
                await stream.send_all(request.pack())
                await self._receive(stream, file, lambda: self._progress(scope))
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(_sync_and_close, file)

    def _open(self) -> File:
        if self._disk.exists(self._path):
            return self._disk.open_append(self._path, create=False, offset=self._disk.size(self._path))
        return self._disk.open_append(self._path, create=True)

    def _progress(self, scope: trio.CancelScope) -> None:
        self._progress_at = trio.current_time()
        scope.deadline = self._progress_at + self._stall_seconds

    async def _receive(self, stream: trio.SocketStream, file: File, progress: Callable[[], None]) -> None:
        frames = Frames(REQUEST_BYTES_MAX)
        while (frame := self._next(frames)) is None:
            data = await stream.receive_some(REQUEST_BYTES_MAX)
            if not data:
                raise ConnectionResetError("closed before an answer came")
            frames.feed(bytes(data))
        size_bytes = _size(frame)
        rest = frames.rest()
        unsynced_bytes = 0
        while True:
            if rest:
                progress()
                if file.size + len(rest) > size_bytes:
                    raise TransferError(f"more than the {size_bytes} bytes that were announced")
                await trio.to_thread.run_sync(file.write, rest)
                unsynced_bytes += len(rest)
                if unsynced_bytes >= SYNC_BYTES:
                    await trio.to_thread.run_sync(file.sync)
                    unsynced_bytes = 0
            if file.size == size_bytes:
                return
            rest = bytes(await stream.receive_some(PIECE_BYTES))
            if not rest:
                raise ConnectionResetError(f"closed at {file.size} of {size_bytes} bytes")

    def _next(self, frames: Frames) -> bytes | None:
        try:
            return frames.next()
        except FrameError as error:
            raise TransferError(str(error)) from error


def _size(frame: bytes) -> int:
    fields = _loads(frame)
    if fields[0] == _REFUSED and len(fields) == 2:
        raise TransferError(f"refused: {fields[1]}")
    size_bytes = fields[1] if len(fields) == 2 else None
    if fields[0] != _SIZE or type(size_bytes) is not int or not 0 <= size_bytes <= _OFFSET_MAX:
        raise TransferError("no answer to a request for a snapshot")
    return size_bytes


def _sync_and_close(file: File) -> None:
    file.sync()
    file.close()
