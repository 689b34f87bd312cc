"""Election links: votes between servers, as ordinary trio tasks beside the loop.

Each server keeps one connection open to the election port of every other one and sends its votes on it; it receives
on the connections that the others opened to its own port. So no pair has to agree which of two connections
survives.

    dialler ──Hello────────> listener   the handshake (`zab.wire.handshake`); the dialler measures how long the answer
            <─Welcome───────            takes: the round trip of the link
            ──Proof────────>
            ──Notification─> …     perhaps with a Config before it

Where members speak TLS, its handshake comes before all that (`zab.host.tls.tls_stream`).

Until it is proven who has dialled, no older connection gives way, and nothing is believed.

Who belongs to the ensemble may change (`meet`). A server of no configuration, where such may come at all, cannot be
dialled: nobody knows where it is. It is answered on the connection that it has opened, and so it is told who decides.
One that has left the ensemble is, too; it has to open another connection for that.

    events      ElectionLinkUp(sid, round trip)   the connection to a server is open
                ElectionLinkDown(sid, …)          it was refused, or closed and could not be opened again; whether
                                                  that was because it knows no such server, or another process as it
                NotificationReceived(sid, …)

Rules:
- Only the newest notification to a server waits; an older unsent one is replaced (a vote makes those before it
  worthless).
- A closed connection is dialled again at once, then after 20 ms, doubling up to 1 s; and at once when that server has
  dialled us, since then it is there.
- Who listens at the address of a server is that server. Another process that proves to be it is not heard: first the
  address is dialled anew, since that server may have begun another life, and from then on that process is told to see
  its myid. Where nobody listens there, the newest connection counts.
- An unreachable server never delays a reachable one (ZOOKEEPER-3756).
- A connection ends when the secret by which it was proven is taken away, before anything more is said on it.
- Of the connections that have proven nothing yet, one goes when there are too many (`zab.wire.pending_connections`).

Not here: what a vote means (`zab.protocol.election`); when to send one again.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Mapping

import attrs
import trio

from zab.host.journal.journal import Journal
from zab.host.loop.conversation import FAILURES, Conversation, reason_of
from zab.host.process.dial import Address
from zab.host.tls.engine import TlsError
from zab.host.tls.tls_stream import TlsStream
from zab.member.membership.election_receiver import FRAME_BYTES_MAX, ElectionReceiver
from zab.member.membership.greeting import Purpose, life_of
from zab.protocol.events import ElectionLinkDown, ElectionLinkUp, NotificationReceived, SendNotification
from zab.protocol.features import RECONFIGURATION
from zab.protocol.message import Config, encode
from zab.quorum.ids import ServerId
from zab.server.greeting import Greeting
from zab.wire.frames import FrameError
from zab.wire.handshake import NotKnownError, TakenError, taken
from zab.wire.pending_connections import PendingConnections
from zab.wire.records import MessageError

RECEIVE_BYTES = 4096
REDIAL_SECONDS_MIN = 0.02
REDIAL_SECONDS_MAX = 1.0
GREETING_SECONDS = 5.0
STRANGERS_MAX = 64
"""Inbound connections that have proven nothing yet; one more takes the place of another one."""
GUESTS_MAX = 64
"""Servers of no configuration that are connected at a time."""
SILENCE_MS = 10_000
"""How long sent bytes may stay unacknowledged by the other host before the connection counts as dead."""

journal = Journal("election_links")
of_strangers = Journal("election_links", is_of_strangers=True)

Mail = Callable[[ElectionLinkUp | ElectionLinkDown | NotificationReceived], None]


@attrs.define
class _Outbox:
    """The newest vote for one server, and the event that says there is one."""

    vote: SendNotification | None = None
    filled: trio.Event = attrs.Factory(trio.Event)

    def put(self, vote: SendNotification) -> None:
        self.vote = vote
        self.filled.set()

    async def take(self) -> SendNotification:
        await self.filled.wait()
        assert self.vote is not None
        vote, self.vote = self.vote, None
        self.filled = trio.Event()
        return vote


@attrs.define
class _Inbound:
    """The connection on which a server is heard."""

    life: bytes
    """Of the process that opened it; empty where that is not known."""
    hearing: trio.CancelScope = attrs.Factory(trio.CancelScope)


@attrs.define
class _Other:
    """A server of the ensemble, and what belongs to the connection that is kept open to it."""

    address: Address
    outbox: _Outbox = attrs.Factory(_Outbox)
    knocked: trio.Event = attrs.Factory(trio.Event)
    """Set when it has connected to us."""
    keeping: trio.CancelScope = attrs.Factory(trio.CancelScope)
    talking: trio.CancelScope = attrs.Factory(trio.CancelScope)
    """What ends the present connection, so that another one is opened."""
    life: bytes = b""
    """Of the process at its address, while the connection is open; empty where that is not known."""
    double: bytes = b""
    """The life of one that has proven to be this server, and was not at its address."""


class ElectionLinks:
    """The election links of one server. `send` belongs to trio's thread; `run` is a task."""

    def __init__(
        self, greeting: Greeting, others: Mapping[ServerId, Address], post: Mail, *, connect_timeout_ms: int = 5000
    ) -> None:
        self._greeting = greeting
        self._others = {sid: _Other(address) for sid, address in others.items()}
        self._guests: dict[ServerId, _Outbox] = {}
        """Of servers of no configuration that are connected to us."""
        self._nursery: trio.Nursery | None = None
        self._listening: dict[socket.socket, trio.CancelScope] = {}
        self._post = post
        self._connect_timeout_ms = connect_timeout_ms
        self._inbound: dict[ServerId, _Inbound] = {}
        self._strangers: PendingConnections[trio.CancelScope] = PendingConnections(STRANGERS_MAX)
        """What ends the handshake of each."""

    def send(self, effect: SendNotification) -> None:
        """Send this to a server, in place of what it was not sent yet."""
        other = self._others.get(effect.sid)
        outbox = self._guests.get(effect.sid) if other is None else other.outbox
        if outbox is not None:
            outbox.put(effect)

    def meet(self, others: Mapping[ServerId, Address]) -> None:
        """These belong to the ensemble from now on, beside this one, and no others."""
        for sid, other in list(self._others.items()):
            if others.get(sid) != other.address:
                del self._others[sid]
                other.keeping.cancel()
            if sid not in others and sid in self._inbound:
                # It has opened that as one of the ensemble, and opens another one: nobody answers on the first.
                self._inbound[sid].hearing.cancel()
        for sid in others.keys() - self._others.keys():
            self._others[sid] = _Other(others[sid])
            if self._nursery is not None:
                self._nursery.start_soon(self._keep_open, sid, self._others[sid])

    async def run(self, *listening: socket.socket) -> None:
        """Keep all links until cancelled. `listening` are bound to this server's election ports."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for sock in listening:
                self.listen(sock)
            for sid, other in self._others.items():
                nursery.start_soon(self._keep_open, sid, other)

    def listen(self, sock: socket.socket) -> None:
        """Let others in there, too."""
        assert self._nursery is not None
        self._listening[sock] = scope = trio.CancelScope()
        self._nursery.start_soon(self._listen, sock, scope)

    def leave(self, sock: socket.socket) -> None:
        """Let nobody in there any more. Who came in stays."""
        self._listening.pop(sock).cancel()

    async def _listen(self, sock: socket.socket, scope: trio.CancelScope) -> None:
        async with trio.SocketListener(trio.socket.from_stdlib_socket(sock)) as listener:
            with scope:
                await trio.serve_listeners(self._serve, [listener], handler_nursery=self._nursery)

    # ------------------------------------------------------------------------------------------------------ outbound

    async def _keep_open(self, sid: ServerId, other: _Other) -> None:
        with other.keeping:
            await self._dial_again_and_again(sid, other)

    async def _dial_again_and_again(self, sid: ServerId, other: _Other) -> None:
        down_because: str | None = None
        said_before = (True, False)
        wait_seconds = REDIAL_SECONDS_MIN
        while True:
            try:
                talk, round_trip_ms = await self._dial(sid, other.address)
            except (*FAILURES, trio.TooSlowError) as error:
                reason = reason_of(error)
                if reason != down_because:
                    journal.info("server is unreachable for the election", sid=sid, reason=reason)
                said = not isinstance(error, NotKnownError), isinstance(error, TakenError)
                if down_because is None or said != said_before:
                    self._post(ElectionLinkDown(sid, *said))
                down_because, said_before = reason, said
                # At random, so that two servers that lost each other do not dial in step.
                with trio.move_on_after(wait_seconds * random.uniform(0.8, 1.2)):
                    await other.knocked.wait()
                    other.knocked = trio.Event()
                wait_seconds = min(2 * wait_seconds, REDIAL_SECONDS_MAX)
                continue
            down_because = None
            wait_seconds = REDIAL_SECONDS_MIN
            journal.info("election link is up", sid=sid, round_trip_ms=round_trip_ms)
            self._post(ElectionLinkUp(sid, round_trip_ms))
            self._begin_life(sid, other, life_of(talk.agreed.nonce, talk.agreed.features))
            with trio.CancelScope() as other.talking:
                await self._talk(sid, talk, other.outbox)
            other.life = b""

    async def _dial(self, sid: ServerId, address: Address) -> tuple[Conversation, int]:
        """Connect, and the handshake; the second item is the round trip of that in milliseconds, at least 1."""
        with trio.fail_after(self._connect_timeout_ms / 1000):
            talk, round_trip_seconds = await self._greeting.reach(address, Purpose.ELECTION, sid)
        _give_up_on_silence(talk.stream)
        return talk, int(round_trip_seconds * 1000) + 1

    async def _talk(self, sid: ServerId, talk: Conversation, outbox: _Outbox) -> None:
        """Until the connection ends: both sides speak on it where one does not know where the other is."""
        async with talk.stream, trio.open_nursery() as nursery:
            nursery.start_soon(self._hear_to_the_end, sid, talk, nursery.cancel_scope)
            await self._deliver(talk, outbox)
            nursery.cancel_scope.cancel()

    async def _deliver(self, talk: Conversation, outbox: _Outbox) -> None:
        """Send what is put into the outbox, until it cannot be sent."""
        while True:
            vote = await outbox.take()
            try:
                self._check(talk)
                if (vote.in_force or vote.outstanding) and talk.agreed.features & RECONFIGURATION:
                    await talk.send(encode(Config(vote.in_force, vote.outstanding)))
                await talk.send(encode(vote.notification))
            except (trio.BrokenResourceError, MessageError):
                if outbox.vote is None:
                    outbox.put(vote)
                return

    async def _hear_to_the_end(self, sid: ServerId, talk: Conversation, scope: trio.CancelScope) -> None:
        try:
            await self._hear(sid, talk)
        except (EOFError, trio.BrokenResourceError, OSError):
            pass
        except (FrameError, MessageError) as error:
            journal.warning("election connection is closed", sid=sid, reason=str(error))
        scope.cancel()

    async def _hear(self, sid: ServerId, talk: Conversation) -> None:
        """Post what arrives. Raises as `Conversation.receive` does, at the end of the connection."""
        talk.frame_bytes_max = FRAME_BYTES_MAX
        receiver = ElectionReceiver(
            sid,
            lambda reason: journal.warning("no notification -> skipped", sid=sid, reason=reason),
            is_proven=talk.agreed.is_proven,
        )
        while True:
            payload = await talk.receive()
            self._check(talk)
            received = receiver.vote(payload)
            if received is not None:
                self._post(received)

    # ------------------------------------------------------------------------------------------------------- inbound

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            talk = await self._met(stream)
            if talk is not None:
                await self._receive_from(ServerId(talk.agreed.sid), talk)
        except (FrameError, MessageError, TlsError) as error:
            of_strangers.warning("election connection is closed", reason=str(error))
        except (EOFError, trio.BrokenResourceError, OSError):
            pass

    async def _met(self, stream: trio.SocketStream) -> Conversation | None:
        """The handshake; None when this one is too slow, or too many others have come since."""
        host = str(stream.socket.getpeername()[0])
        with trio.move_on_after(GREETING_SECONDS) as scope:
            crowded_out = self._strangers.admit(scope, host)
            if crowded_out is not None:
                crowded_out.cancel()
            try:
                return await self._greeting.meet_for_votes(stream, self._objection)
            except (FrameError, MessageError, TlsError) as error:
                # Who hangs up was not refused: a member that gave up dialling, or somebody who looks at open ports.
                self._greeting.refused(host, str(error))
                raise
            finally:
                self._strangers.leave(scope)
        self._greeting.refused(host, "did not prove in time who it is, or too many others have come since")
        return None

    def _check(self, talk: Conversation) -> None:
        """Raises MessageError."""
        if not self._greeting.believes(talk.agreed):
            raise MessageError("the secret by which it was proven was taken away")

    async def _receive_from(self, sid: ServerId, talk: Conversation) -> None:
        other = self._others.get(sid)
        inbound = _Inbound(life_of(talk.agreed.nonce, talk.agreed.features))
        if other is not None:
            self._check_life(sid, other, inbound.life)
            other.knocked.set()
        older = self._inbound.get(sid)
        if older is not None:
            older.hearing.cancel()
        with inbound.hearing:
            self._inbound[sid] = inbound
            try:
                if other is None:
                    await self._entertain(sid, talk)
                else:
                    await self._hear(sid, talk)
            finally:
                if self._inbound.get(sid) is inbound:
                    del self._inbound[sid]

    async def _entertain(self, sid: ServerId, talk: Conversation) -> None:
        """A server of no configuration: hear it, and answer it here."""
        if len(self._guests) >= GUESTS_MAX:
            raise MessageError("too many servers of no configuration are here already")
        outbox = self._guests[sid] = _Outbox()
        journal.info("a server of no configuration is here", sid=sid)
        try:
            await self._talk(sid, talk, outbox)
        finally:
            if self._guests.get(sid) is outbox:
                del self._guests[sid]

    # --------------------------------------------------------------------------------------------- two of the same id

    def _begin_life(self, sid: ServerId, other: _Other, life: bytes) -> None:
        """This life was met at the server's address."""
        other.life = life
        if life == other.double:
            other.double = b""
        inbound = self._inbound.get(sid)
        if inbound is not None and inbound.life and life and inbound.life != life:
            other.double = inbound.life
            inbound.hearing.cancel()

    def _check_life(self, sid: ServerId, other: _Other, life: bytes) -> None:
        """Raises MessageError for one that was not met there."""
        if not life or not other.life or life == other.life:
            return
        if life == other.double:
            raise MessageError(taken(sid, other.address.text))
        other.double = life
        other.life = b""
        other.talking.cancel()
        raise MessageError(f"another process is at the address of server {sid} -> it is asked again who it is")

    def _objection(self, sid: int, features: int, nonce: bytes) -> str | None:
        """To one who was found not to be the server that it says; asked again by each of its connections."""
        other = self._others.get(ServerId(sid))
        if other is None or not other.life or not other.double or life_of(nonce, features) != other.double:
            return None
        return taken(sid, other.address.text)


def _give_up_on_silence(talking: trio.abc.HalfCloseableStream) -> None:
    """A partition closes nothing: without this a connection could retry for a quarter of an hour after it healed."""
    stream = talking.stream if isinstance(talking, TlsStream) else talking
    assert isinstance(stream, trio.SocketStream)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
    if hasattr(socket, "TCP_KEEPIDLE"):
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENCE_MS // 2000)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
