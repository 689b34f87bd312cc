"""Election links: votes between servers, as ordinary trio tasks beside the loop.

Each server keeps one connection open to the election port of every other one and sends its votes on it; it receives
on the connections that the others opened to its own port. So no pair has to agree which of two connections
survives.

    dialler ──Hello──> listener         the dialler measures how long the answer takes: the round trip of the link
            <─Hello──
            ──Notification──> …

`zab.member.election_receiver` says what of the bytes that arrive is believed.

    events      ElectionLinkUp(sid, round trip)   the connection to a server is open
                ElectionLinkDown(sid)             it was refused, or closed and could not be opened again
                NotificationReceived(sid, …)

Rules:
- Only the newest notification to a server waits; an older unsent one is replaced (a vote makes those before it
  worthless).
- A closed connection is dialled again at once, then after 20 ms, doubling up to 1 s; and at once when that server has
  dialled us, since then it is there.
- An unreachable server never delays a reachable one (ZOOKEEPER-3756).
- Of the connections that have not greeted, the oldest goes when there are too many (`zab.wire.strangers`).

Not here: what a vote means (`zab.election`); when to send one again.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Collection, Mapping

import attrs
import trio

from zab.events import ElectionLinkDown, ElectionLinkUp, NotificationReceived
from zab.host.journal import Journal
from zab.ids import ServerId
from zab.member.election_receiver import ElectionReceiver
from zab.message import PROTOCOL_VERSION, Hello, Notification, encode
from zab.wire.frames import FrameError, frame
from zab.wire.records import MessageError
from zab.wire.strangers import Strangers

RECEIVE_BYTES = 4096
REDIAL_SECONDS_MIN = 0.02
REDIAL_SECONDS_MAX = 1.0
GREETING_SECONDS = 5.0
STRANGERS_MAX = 64
"""Inbound connections that have not greeted; one more takes the place of the oldest."""
SILENCE_MS = 10_000
"""How long sent bytes may stay unacknowledged by the other host before the connection counts as dead."""

journal = Journal("election_links")

Post = Callable[[ElectionLinkUp | ElectionLinkDown | NotificationReceived], None]


@attrs.frozen
class Address:
    """Where a server listens. The host may be a name."""

    host: str
    port: int


@attrs.define
class _Outbox:
    """The newest notification to one server, and the event that says there is one."""

    notification: Notification | None = None
    filled: trio.Event = attrs.Factory(trio.Event)

    def put(self, notification: Notification) -> None:
        self.notification = notification
        self.filled.set()

    async def take(self) -> Notification:
        await self.filled.wait()
        assert self.notification is not None
        notification, self.notification = self.notification, None
        self.filled = trio.Event()
        return notification


class ElectionLinks:
    """The election links of one server. `send` belongs to trio's thread; `run` is a task."""

    def __init__(
        self, sid: ServerId, others: Mapping[ServerId, Address], post: Post, *, connect_timeout_ms: int = 5000
    ) -> None:
        assert sid not in others
        self._sid = sid
        self._others = others
        self._post = post
        self._connect_timeout_ms = connect_timeout_ms
        self._outboxes = {other: _Outbox() for other in others}
        self._knocked = {other: trio.Event() for other in others}
        """Set when a server has connected to us."""
        self._inbound: dict[ServerId, trio.CancelScope] = {}
        """Per server, what ends the receiver of its present connection."""
        self._strangers: Strangers[trio.CancelScope] = Strangers(STRANGERS_MAX)
        """What ends the greeting of each."""

    def send(self, sid: ServerId, notification: Notification) -> None:
        """Send this to a server, in place of what it was not sent yet."""
        outbox = self._outboxes.get(sid)
        if outbox is not None:
            outbox.put(notification)

    async def run(self, listening: socket.socket) -> None:
        """Keep all links until cancelled. `listening` is bound to this server's election port."""
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            for sid in self._others:
                nursery.start_soon(self._keep_open, sid)

    # ------------------------------------------------------------------------------------------------------ outbound

    async def _keep_open(self, sid: ServerId) -> None:
        is_down = False
        wait_seconds = REDIAL_SECONDS_MIN
        while True:
            try:
                stream, round_trip_ms = await self._dial(sid)
            except (OSError, EOFError, trio.BrokenResourceError, FrameError, MessageError, trio.TooSlowError) as error:
                if not is_down:
                    journal.info(
                        "server is unreachable for the election", sid=sid, reason=str(error) or type(error).__name__
                    )
                    self._post(ElectionLinkDown(sid))
                is_down = True
                # At random, so that two servers that lost each other do not dial in step.
                with trio.move_on_after(wait_seconds * random.uniform(0.8, 1.2)):
                    await self._knocked[sid].wait()
                    self._knocked[sid] = trio.Event()
                wait_seconds = min(2 * wait_seconds, REDIAL_SECONDS_MAX)
                continue
            is_down = False
            wait_seconds = REDIAL_SECONDS_MIN
            journal.info("election link is up", sid=sid, round_trip_ms=round_trip_ms)
            self._post(ElectionLinkUp(sid, round_trip_ms))
            await self._deliver(sid, stream)

    async def _dial(self, sid: ServerId) -> tuple[trio.SocketStream, int]:
        """Connect and greet; the second item is the round trip of the greeting in milliseconds, at least 1."""
        address = self._others[sid]
        with trio.fail_after(self._connect_timeout_ms / 1000):
            stream = await trio.open_tcp_stream(address.host, address.port)
            with contextlib.ExitStack() as undo:
                # A dial that fails or is cancelled must not leave the socket to the garbage collector.
                undo.callback(stream.socket.close)
                _give_up_on_silence(stream)
                sent_at = trio.current_time()
                await self._greet(stream)
                await _greeting(stream, _receiver((sid,)))
                undo.pop_all()
        return stream, int((trio.current_time() - sent_at) * 1000) + 1

    async def _greet(self, stream: trio.SocketStream) -> None:
        await stream.send_all(frame(encode(Hello(PROTOCOL_VERSION, self._sid))))

    async def _deliver(self, sid: ServerId, stream: trio.SocketStream) -> None:
        """Send what is put into the outbox until the connection ends."""
        async with stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._wait_for_end, stream, nursery.cancel_scope)
            outbox = self._outboxes[sid]
            while True:
                notification = await outbox.take()
                try:
                    await stream.send_all(frame(encode(notification)))
                except trio.BrokenResourceError:
                    if outbox.notification is None:
                        outbox.put(notification)
                    nursery.cancel_scope.cancel()
                    return

    async def _wait_for_end(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        """The other side sends nothing after its greeting; only its end comes."""
        with contextlib.suppress(trio.BrokenResourceError):
            while await stream.receive_some(RECEIVE_BYTES):
                pass
        scope.cancel()

    # ------------------------------------------------------------------------------------------------------- inbound

    async def _serve(self, stream: trio.SocketStream) -> None:
        receiver = _receiver(self._others)
        try:
            sid = await self._greeted(stream, receiver)
            if sid is not None:
                await self._receive_from(sid, stream, receiver)
        except (EOFError, trio.BrokenResourceError):
            pass
        except (FrameError, MessageError) as error:
            journal.warning("election connection is closed", reason=str(error))

    async def _greeted(self, stream: trio.SocketStream, receiver: ElectionReceiver) -> ServerId | None:
        """Exchange greetings; None when this one is too slow, or too many others have come since."""
        with trio.move_on_after(GREETING_SECONDS) as scope:
            crowded_out = self._strangers.admit(scope)
            if crowded_out is not None:
                crowded_out.cancel()
            try:
                sid = await _greeting(stream, receiver)
                await self._greet(stream)
                return sid
            finally:
                self._strangers.leave(scope)
        return None

    async def _receive_from(self, sid: ServerId, stream: trio.SocketStream, receiver: ElectionReceiver) -> None:
        self._knocked[sid].set()
        older = self._inbound.get(sid)
        if older is not None:
            older.cancel()
        with trio.CancelScope() as scope:
            self._inbound[sid] = scope
            try:
                data = b""
                while True:
                    for vote in receiver.votes(data):
                        self._post(NotificationReceived(sid, vote))
                    data = await _received(stream)
            finally:
                if self._inbound.get(sid) is scope:
                    del self._inbound[sid]


def _receiver(others: Collection[int]) -> ElectionReceiver:
    return ElectionReceiver(
        others, lambda sid, reason: journal.warning("no notification -> skipped", sid=sid, reason=reason)
    )


async def _greeting(stream: trio.SocketStream, receiver: ElectionReceiver) -> ServerId:
    """Who speaks. Raises FrameError, MessageError, and EOFError if it ends before it has said that."""
    while True:
        sid = receiver.greeting(await _received(stream))
        if sid is not None:
            return sid


async def _received(stream: trio.SocketStream) -> bytes:
    """The next bytes. Raises EOFError at the end."""
    data = bytes(await stream.receive_some(RECEIVE_BYTES))
    if not data:
        raise EOFError
    return data


def _give_up_on_silence(stream: trio.SocketStream) -> None:
    """A partition closes nothing: without this a connection could retry for a quarter of an hour after it healed."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
    if hasattr(socket, "TCP_KEEPIDLE"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_MS // 2000)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
