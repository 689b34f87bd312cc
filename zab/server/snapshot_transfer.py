"""Snapshot transfer: a learner fetches a snapshot file over a connection of its own (H4 slow learners), and goes on
where it stopped.

The learner dials the quorum port of the member that offered the snapshot, and does not greet:

    learner     SnapshotRequest
    server      SnapshotSize        then the bytes of the file from `offset` to its end
                SnapshotRefused     then nothing

The messages are records in frames, like those of links. The bytes are those of `datatree.snapshot`, unchanged: their
checksums travel with them, and whoever installs the file verifies all of them, so nothing is verified here.

A broken connection is dialled again, and the transfer goes on after what was received. It fails when it makes no
progress for the time it was given (syncLimit), not when it is long, and at once when the other side refuses.

Not here: which snapshot (`Storage.offer_snapshot`), installing it (`Storage`), what the protocol says (`zab.peer`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import ClassVar

import attrs
import trio

from datatree.log.disk import Disk, File
from datatree.snapshot import SYNC_BYTES, fetch_path, read_snapshot_header, snapshot_path
from zab.events import FetchSnapshot
from zab.host.journal import Journal
from zab.message import CHAIN, SERVER_ID, ZXID
from zab.server.election_links import Address
from zab.wire.frames import FrameError, FrameReader, frame
from zab.wire.records import COUNT, Codec, MessageError, checked, is_text

VERSION = 1
PIECE_BYTES = 256 << 10
ANSWER_BYTES_MAX = 4096
REASON_CHARACTERS_MAX = 1000
"""A reason is cut to this length: so many characters fit into an answer, whichever they are."""
REDIAL_SECONDS = 0.1

journal = Journal("snapshot_transfer")


class TransferError(Exception):
    """The snapshot cannot be had from that member now; the reason is its text."""


@attrs.frozen
class SnapshotRequest:
    """A learner asks for a snapshot, from this byte on."""

    TYPE: ClassVar[int] = 200
    version: int = checked(COUNT)
    sid: int = checked(SERVER_ID)
    lineage: bytes = checked(CHAIN)
    zxid: int = checked(ZXID)
    chain: bytes = checked(CHAIN)
    offset: int = checked(COUNT)


@attrs.frozen
class SnapshotSize:
    """The bytes of the file follow, of which there are so many in all."""

    TYPE: ClassVar[int] = 201
    size_bytes: int = checked(COUNT)


@attrs.frozen
class SnapshotRefused:
    """Why nothing follows, in words."""

    TYPE: ClassVar[int] = 202
    reason: str = checked(is_text(REASON_CHARACTERS_MAX))


_REQUESTS: Codec[SnapshotRequest] = Codec((SnapshotRequest,))
_ANSWERS: Codec[SnapshotSize | SnapshotRefused] = Codec((SnapshotSize, SnapshotRefused))


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
                if request.version != VERSION:
                    raise TransferError(f"version {request.version} is not {VERSION}")
                async with self._places:
                    await self._send(stream, request)
            except TransferError as error:
                journal.warning("snapshot transfer is refused", reason=str(error))
                with trio.move_on_after(self._stall_seconds):
                    await _tell(stream, str(error))
            except (trio.BrokenResourceError, trio.TooSlowError) as error:
                journal.warning("snapshot transfer broke", reason=str(error) or type(error).__name__)

    async def _send(self, stream: trio.SocketStream, request: SnapshotRequest) -> None:
        path = snapshot_path(request.zxid)
        self.being_read[request.zxid] = self.being_read.get(request.zxid, 0) + 1
        try:
            size_bytes = await trio.to_thread.run_sync(self._checked_size, path, request)
            journal.info(
                "snapshot transfer begins",
                sid=request.sid,
                path=path,
                offset=request.offset,
                size_bytes=size_bytes,
            )
            await self._send_all(stream, frame(_ANSWERS.encode(SnapshotSize(size_bytes))))
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

    def _checked_size(self, path: str, request: SnapshotRequest) -> int:
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
        await stream.send_all(frame(_ANSWERS.encode(SnapshotRefused(reason[:REASON_CHARACTERS_MAX]))))
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
                request = SnapshotRequest(VERSION, self._server_id, fetch.lineage, fetch.zxid, fetch.chain, file.size)
                await stream.send_all(frame(_REQUESTS.encode(request)))
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
        frames = FrameReader(ANSWER_BYTES_MAX)
        answer: bytes | None = None
        while answer is None:
            data = await stream.receive_some(ANSWER_BYTES_MAX)
            if not data:
                raise ConnectionResetError("closed before an answer came")
            answer = _first(frames, bytes(data))
        size_bytes = _size(answer)
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


def _first(frames: FrameReader, data: bytes) -> bytes | None:
    try:
        return frames.feed_one(data)
    except FrameError as error:
        raise TransferError(str(error)) from error


def _size(payload: bytes) -> int:
    try:
        answer = _ANSWERS.decode(payload)
    except MessageError as error:
        raise TransferError(f"no answer to a request for a snapshot: {error}") from error
    if isinstance(answer, SnapshotRefused):
        raise TransferError(f"refused: {answer.reason}")
    return answer.size_bytes


def _sync_and_close(file: File) -> None:
    file.sync()
    file.close()
