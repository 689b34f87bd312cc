"""Election links: votes between servers, as ordinary trio tasks beside the loop.

Each server keeps one connection open to the election port of every other one and sends its votes on it; it receives
on the connections that the others opened to its own port. `ElectionConnections` decides which connections there are
and what is sent on which; this module has the sockets.

    dialler ──Hello────────> listener   the handshake (`zab.wire.handshake`); the dialler measures how long the answer
            <─Welcome───────            takes: the round trip of the link
            ──Proof────────>
            ──Notification─> …     perhaps with a Config before it

Where members speak TLS, its handshake comes before all that (`zab.host.tls.tls_stream`).

Until the peer has proven its identity, no older connection is replaced, and nothing is believed.

    events      ElectionLinkUp(sid, round trip)   the connection to a server is open
                ElectionLinkDown(sid, …)          it was refused, or closed and could not be opened again; whether
                                                  that was because it knows no such server, or another process as it
                NotificationReceived(sid, …)

Rules:
- An unreachable server never delays a reachable one (ZOOKEEPER-3756).
- A connection ends when the secret that proved it is removed, before anything more is sent on it.
- If there are too many unauthenticated connections, one is dropped (`zab.wire.pending_connections`).

Not here: which connections there are (`zab.member.membership.election_connections`); what a vote means
(`zab.protocol.election`); when to send one again.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random

import attrs
import trio

from zab.host.journal.journal import Journal
from zab.host.loop.conversation import FAILURES, Conversation, reason_of
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting
from zab.host.tls.engine import TlsError
from zab.host.tls.tls_stream import TlsStream
from zab.member.membership.election_connections import (
    Abandon,
    Close,
    Dial,
    Effect,
    ElectionConnections,
    Send,
    Tell,
    Wait,
)
from zab.member.membership.election_receiver import FRAME_BYTES_MAX, ElectionReceiver
from zab.member.membership.greeting import AT_ELECTION_PORT, Purpose, life_of
from zab.protocol.effects import SendNotification
from zab.protocol.events import ElectionLinkDown, ElectionLinkUp, NotificationReceived
from zab.protocol.features import RECONFIGURATION
from zab.protocol.message import Config, encode
from zab.quorum.ids import ServerId
from zab.wire.frames import FrameError
from zab.wire.handshake import NotKnownError, TakenError
from zab.wire.pending_connections import PendingConnections
from zab.wire.records import MessageError

GREETING_SECONDS = 5.0
STRANGERS_MAX = 64
"""The most unauthenticated inbound connections; a further one replaces another."""
SILENCE_MS = 10_000
"""How long sent bytes may stay unacknowledged by the other host before the connection counts as dead."""

journal = Journal("election_links")
of_strangers = Journal("election_links", is_of_strangers=True)

Mail = Callable[[ElectionLinkUp | ElectionLinkDown | NotificationReceived], None]


@attrs.define(eq=False)
class _Connection:
    """A connection whose peer has proven its identity. `journal` says why it is closed."""

    sid: ServerId
    talk: Conversation
    journal: Journal
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    """Cancelling it ends the connection."""
    to_send: SendNotification | None = None
    has_to_send: trio.Event = attrs.Factory(trio.Event)

    @property
    def life(self) -> bytes:
        """The process at the other end; empty if it is not known."""
        return life_of(self.talk.agreed.nonce, self.talk.agreed.features)

    def send(self, vote: SendNotification) -> None:
        assert self.to_send is None
        self.to_send = vote
        self.has_to_send.set()


class ElectionLinks:
    """The election links of one server. `send` belongs to trio's thread; `run` is a task."""

    def __init__(
        self, greeting: Greeting, others: Mapping[ServerId, Address], post: Mail, *, connect_timeout_ms: int = 5000
    ) -> None:
        self._greeting = greeting
        self._addresses = others
        self._connections: ElectionConnections[_Connection] = ElectionConnections(others, Random())
        self._attempts: dict[int, trio.CancelScope] = {}
        """Scopes that end a wait or a dial."""
        self._unreachable: dict[ServerId, str] = {}
        """Why the last dial failed."""
        self._nursery: trio.Nursery | None = None
        self._listening: dict[socket.socket, trio.CancelScope] = {}
        self._post = post
        self._connect_timeout_ms = connect_timeout_ms
        self._strangers: PendingConnections[trio.CancelScope] = PendingConnections(STRANGERS_MAX)
        """Scopes that end handshakes."""

    def send(self, effect: SendNotification) -> None:
        """Send a vote to a server; it replaces an unsent one."""
        self._perform(self._connections.send(effect))

    def meet(self, others: Mapping[ServerId, Address]) -> None:
        """Replace the other servers of the ensemble."""
        self._addresses = others
        self._perform(self._connections.meet(others))

    async def run(self, *listening: socket.socket) -> None:
        """Keep all links until cancelled. `listening` are bound to this server's election ports."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for sock in listening:
                self.listen(sock)
            self._perform(self._connections.start())

    def listen(self, sock: socket.socket) -> None:
        """Also accept connections on this socket."""
        assert self._nursery is not None
        self._listening[sock] = scope = trio.CancelScope()
        self._nursery.start_soon(self._listen, sock, scope)

    def leave(self, sock: socket.socket) -> None:
        """Stop accepting on this socket. Open connections stay."""
        self._listening.pop(sock).cancel()

    async def _listen(self, sock: socket.socket, scope: trio.CancelScope) -> None:
        async with trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener:
            with scope:
                await trio.serve_listeners(self._serve, [listener], handler_nursery=self._nursery)

    def _perform(self, effects: Sequence[Effect[_Connection]]) -> None:
        for effect in effects:
            match effect:
                case Dial(sid, attempt):
                    self._begin(self._dial, sid, attempt, self._addresses[sid])
                case Wait(sid, attempt, ms):
                    self._begin(self._wait, sid, attempt, ms)
                case Abandon(attempt):
                    self._attempts.pop(attempt).cancel()
                case Send(connection, vote):
                    connection.send(vote)
                case Close(connection, reason):
                    if reason:
                        connection.journal.warning("election connection is closed", reason=reason)
                    connection.scope.cancel()
                case Tell(event):
                    if isinstance(event, ElectionLinkUp):
                        journal.info("election link is up", sid=event.sid, round_trip_ms=event.round_trip_ms)
                    self._post(event)

    # ------------------------------------------------------------------------------------------------------ outbound

    def _begin(self, task: Callable[..., Awaitable[None]], sid: ServerId, attempt: int, detail: object) -> None:
        assert self._nursery is not None
        scope = self._attempts[attempt] = trio.CancelScope()
        self._nursery.start_soon(task, scope, sid, attempt, detail)

    async def _wait(self, scope: trio.CancelScope, sid: ServerId, attempt: int, ms: float) -> None:
        with scope:
            await trio.sleep(ms / 1000)
            if self._is_wanted(attempt):
                self._perform(self._connections.waited(sid, attempt))

    async def _dial(self, scope: trio.CancelScope, sid: ServerId, attempt: int, address: Address) -> None:
        connection = None
        with scope:
            try:
                talk, round_trip_ms = await self._reach(sid, address)
            except (*FAILURES, trio.TooSlowError) as error:
                if self._is_wanted(attempt):
                    self._failed(sid, attempt, error)
            else:
                if not self._is_wanted(attempt):
                    await trio.aclose_forcefully(talk.stream)
                    return
                self._unreachable.pop(sid, None)
                connection = _Connection(sid, talk, journal)
                self._perform(self._connections.reached(sid, attempt, connection, connection.life, round_trip_ms))
        if connection is not None:
            await self._converse(connection)

    def _is_wanted(self, attempt: int) -> bool:
        """Whether an attempt that is over was not abandoned. It may have been after its end and before its task ran:
        then it is too late to cancel it."""
        return self._attempts.pop(attempt, None) is not None

    async def _reach(self, sid: ServerId, address: Address) -> tuple[Conversation, int]:
        """Connect, with the handshake; the second item is its round-trip time in milliseconds, at least 1."""
        with trio.fail_after(self._connect_timeout_ms / 1000):
            talk, round_trip_seconds = await self._greeting.reach(address, Purpose.ELECTION, sid)
        _give_up_on_silence(talk.stream)
        return talk, int(round_trip_seconds * 1000) + 1

    def _failed(self, sid: ServerId, attempt: int, error: Exception) -> None:
        reason = reason_of(error)
        if self._unreachable.get(sid) != reason:
            self._unreachable[sid] = reason
            journal.info("server is unreachable for the election", sid=sid, reason=reason)
        knows_us, is_taken = not isinstance(error, NotKnownError), isinstance(error, TakenError)
        self._perform(self._connections.refused(sid, attempt, knows_us=knows_us, is_taken=is_taken))

    # ------------------------------------------------------------------------------------------------------- inbound

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            talk = await self._met(stream)
        except (FrameError, MessageError, TlsError) as error:
            of_strangers.warning("election connection is closed", reason=str(error))
        except (EOFError, trio.BrokenResourceError, OSError):
            pass
        else:
            if talk is not None:
                await self._receive_from(ServerId(talk.agreed.sid), talk)

    async def _met(self, stream: trio.SocketStream) -> Conversation | None:
        """Do the handshake; None if it is too slow, or was replaced by newer connections."""
        host = str(stream.socket.getpeername()[0])
        with trio.move_on_after(GREETING_SECONDS) as scope:
            crowded_out = self._strangers.admit(scope, host)
            if crowded_out is not None:
                crowded_out.cancel()
            try:
                return await self._greeting.meet(stream, AT_ELECTION_PORT, self._objection)
            except (FrameError, MessageError, TlsError) as error:
                # A peer that hangs up was not refused: a member that gave up dialling, or a port scan.
                self._greeting.refused(host, str(error))
                raise
            finally:
                self._strangers.leave(scope)
        self._greeting.refused(host, "did not prove in time who it is, or was replaced by newer connections")
        return None

    def _objection(self, sid: int, features: int, nonce: bytes) -> str | None:
        return self._connections.objection(ServerId(sid), life_of(nonce, features))

    async def _receive_from(self, sid: ServerId, talk: Conversation) -> None:
        connection = _Connection(sid, talk, of_strangers)
        self._perform(self._connections.admitted(sid, connection, connection.life))
        if sid not in self._addresses and not connection.scope.cancel_called:
            journal.info("a server of no configuration is here", sid=sid)
        await self._converse(connection)

    # ------------------------------------------------------------------------------------------------ on a connection

    async def _converse(self, connection: _Connection) -> None:
        """Send and receive until the connection ends. Both directions are used: an unlisted server is answered on the
        connection that it opened."""
        try:
            with connection.scope:
                async with connection.talk.stream, trio.open_nursery() as nursery:
                    nursery.start_soon(self._hear_to_the_end, connection)
                    await self._deliver(connection)
        finally:
            self._perform(self._connections.closed(connection))

    async def _deliver(self, connection: _Connection) -> None:
        """Send one vote after the other, until one cannot be sent."""
        talk = connection.talk
        while True:
            await connection.has_to_send.wait()
            vote = connection.to_send
            assert vote is not None
            try:
                self._check(talk)
                if (vote.in_force or vote.outstanding) and talk.agreed.features & RECONFIGURATION:
                    await talk.send(encode(Config(vote.in_force, vote.outstanding)))
                await talk.send(encode(vote.notification))
            except (trio.BrokenResourceError, MessageError):
                connection.scope.cancel()
                return
            connection.to_send, connection.has_to_send = None, trio.Event()
            self._perform(self._connections.sent(connection))

    async def _hear_to_the_end(self, connection: _Connection) -> None:
        try:
            await self._hear(connection)
        except (EOFError, trio.BrokenResourceError, OSError):
            pass
        except (FrameError, MessageError) as error:
            connection.journal.warning("election connection is closed", sid=connection.sid, reason=str(error))
        connection.scope.cancel()

    async def _hear(self, connection: _Connection) -> None:
        """Post votes that arrive. Raises as `Conversation.receive` does, at the end of the connection."""
        sid, talk = connection.sid, connection.talk
        talk.frame_bytes_max = FRAME_BYTES_MAX
        receiver = ElectionReceiver(
            sid,
            lambda reason: journal.warning("not a notification -> skipped", sid=sid, reason=reason),
            is_proven=talk.agreed.is_proven,
        )
        while True:
            payload = await talk.receive()
            self._check(talk)
            received = receiver.vote(payload)
            if received is not None:
                self._post(received)

    def _check(self, talk: Conversation) -> None:
        """Check that the proof is still valid. Raises MessageError."""
        if not self._greeting.believes(talk.agreed):
            raise MessageError("the secret that authenticated it was removed")


def _give_up_on_silence(talking: trio.abc.HalfCloseableStream) -> None:
    """Close a connection whose bytes stay unacknowledged: otherwise TCP could retry for a quarter of an hour after a
    partition."""
    stream = talking.stream if isinstance(talking, TlsStream) else talking
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
    if hasattr(socket, "TCP_KEEPIDLE"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_MS // 2000)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
