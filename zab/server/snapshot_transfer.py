"""Snapshot transfer over sockets: a learner fetches a snapshot file over a connection of its own (H4 slow learners).

    TransferServer      sends the snapshots of one member, and parts of its history to members with a hole (C9 holes)
    Fetcher             fetches a snapshot, as `zab.member.storage.snapshot_fetch` decides

`zab.member.storage.snapshot_request` has their messages. Both give up a connection without progress for the given time
(syncLimit).

Not here: which snapshot (`Storage.offer_snapshot`), installing it (`Storage`), the protocol
(`zab.protocol.peer`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import trio

from datatree.log.disk import Disk
from datatree.snapshot import snapshot_path
from zab.host.journal.journal import Journal
from zab.host.loop.conversation import FAILURES, Conversation, reason_of
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting
from zab.host.tls.engine import TlsSide
from zab.host.tls.tls_stream import TlsStream
from zab.member.membership.greeting import Purpose
from zab.member.storage.events import FetchTree
from zab.member.storage.snapshot_fetch import Fetch
from zab.member.storage.snapshot_request import (
    PIECE_BYTES_MAX,
    REQUESTS,
    HistoryRequest,
    RefusedError,
    SnapshotRequest,
    accepted,
    history_of,
    read_piece,
    refused,
    size_of,
)
from zab.protocol.effects import FetchSnapshot
from zab.server.being_read import BeingRead
from zab.wire.frames import FrameError
from zab.wire.handshake import Agreed
from zab.wire.records import MessageError

WAITING_MAX = 64
"""How many transfers may wait for their turn; a further one is refused."""

journal = Journal("snapshot_transfer")


# ------------------------------------------------------------------------------------------------------------- serving


class TransferServer:
    """Serves the files of one member; at most `concurrent_count_max` at a time, `WAITING_MAX` wait their turn."""

    def __init__(
        self,
        disk: Disk,
        concurrent_count_max: int,
        stall_seconds: float,
        believes: Callable[[Agreed], bool],
    ) -> None:
        """`believes`: whether the proof with which a connection began is still valid."""
        self._disk = disk
        self._believes = believes
        self._places = trio.CapacityLimiter(concurrent_count_max)
        self._stall_seconds = stall_seconds
        self.being_read = BeingRead()

    async def serve(self, sock: socket.socket, side: TlsSide | None, agreed: Agreed, received: bytes) -> None:
        """Answer on an accepted connection, after its handshake. Owns the socket from here on."""
        async with trio.SocketStream(trio.socket.from_stdlib_socket(sock)) as stream:
            talk = Conversation(stream if side is None else TlsStream(stream, side), agreed, received)
            try:
                with trio.fail_after(self._stall_seconds):
                    request = REQUESTS.decode(await talk.receive())
                if self._places.statistics().tasks_waiting >= WAITING_MAX:
                    raise RefusedError(f"{WAITING_MAX} requests are waiting already")
                async with self._places:
                    if isinstance(request, HistoryRequest):
                        await self._send_history(talk, request)
                    else:
                        await self._send(talk, request)
            except RefusedError as error:
                journal.warning("snapshot transfer is refused", sid=agreed.sid, reason=str(error))
                with trio.move_on_after(self._stall_seconds):
                    await _tell(talk, str(error))
            except (trio.BrokenResourceError, trio.TooSlowError, EOFError, OSError, FrameError, MessageError) as error:
                # Once bytes of the file are under way, no reason can be sent: the connection just ends.
                journal.warning("snapshot transfer broke", sid=agreed.sid, reason=reason_of(error))

    async def _send(self, talk: Conversation, request: SnapshotRequest) -> None:
        path, offset = snapshot_path(request.zxid), request.offset
        with self.being_read.hold(request.zxid):
            size_bytes = await trio.to_thread.run_sync(size_of, self._disk, request)
            sid = talk.agreed.sid
            journal.info("snapshot transfer begins", sid=sid, path=path, offset=offset, size_bytes=size_bytes)
            await self._send_all(talk, accepted(size_bytes))
            while offset < size_bytes:
                self._demand_belief(talk)
                piece = await trio.to_thread.run_sync(read_piece, self._disk, path, offset, PIECE_BYTES_MAX)
                await self._send_all(talk, piece)
                offset += len(piece)
            await talk.stream.send_eof()

    async def _send_history(self, talk: Conversation, request: HistoryRequest) -> None:
        found = await trio.to_thread.run_sync(history_of, self._disk, request)
        # A member that waits for a third one asks every two seconds.
        tell = journal.info if found else journal.debug
        tell("a part of the history is sent", sid=talk.agreed.sid, after=f"{request.zxid:#x}", bytes=len(found))
        await self._send_all(talk, accepted(len(found)))
        for at in range(0, len(found), PIECE_BYTES_MAX):
            self._demand_belief(talk)
            await self._send_all(talk, found[at : at + PIECE_BYTES_MAX])
        await talk.stream.send_eof()

    def _demand_belief(self, talk: Conversation) -> None:
        if not self._believes(talk.agreed):
            raise MessageError("the secret that authenticated it was removed")

    async def _send_all(self, talk: Conversation, payload: bytes) -> None:
        with trio.fail_after(self._stall_seconds):
            await talk.send(payload)


async def _tell(talk: Conversation, reason: str) -> None:
    try:
        await talk.send(refused(reason))
        await talk.stream.send_eof()
    except trio.BrokenResourceError:
        return


# ------------------------------------------------------------------------------------------------------------ fetching


class _BrokenError(Exception):
    """The connection broke, or could not be made; the text is the reason. Never an error of this member's disk."""


def _now_ms() -> int:
    return int(trio.current_time() * 1000)


class Fetcher:
    """The connections and worker threads of one `Fetch`."""

    def __init__(
        self,
        disk: Disk,
        fetch: FetchSnapshot | FetchTree,
        greeting: Greeting,
        address: Address,
        stall_ms: int,
    ) -> None:
        self._fetch = Fetch(disk, fetch, stall_ms, _now_ms())
        self._sid = fetch.sid
        self._greeting = greeting
        self._address = address

    async def run(self) -> None:
        """Fetch until the file is complete and durable. Raises FetchError; an OSError comes from this member's disk,
        and is final (C1 failed syncs)."""
        fetch = self._fetch
        await trio.to_thread.run_sync(fetch.open)
        try:
            reason = "no progress"
            while True:
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
        """Use one connection, until the file is complete. Raises _BrokenError."""
        self._set_deadline(scope)
        try:
            talk, _ = await self._greeting.reach(self._address, Purpose.SNAPSHOT, self._sid)
        except FAILURES as error:
            raise _BrokenError(str(error) or "closed before it has answered") from error
        async with talk.stream:
            try:
                talk.frame_bytes_max = PIECE_BYTES_MAX
                await talk.send(self._fetch.request())
                while not await trio.to_thread.run_sync(self._fetch.receive, _now_ms(), await talk.receive()):
                    self._set_deadline(scope)
            except EOFError:
                raise _BrokenError("closed before the end of the snapshot") from None
            except (trio.BrokenResourceError, FrameError, MessageError) as error:
                raise _BrokenError(str(error)) from error

    def _set_deadline(self, scope: trio.CancelScope) -> None:
        scope.deadline = self._fetch.deadline / 1000
