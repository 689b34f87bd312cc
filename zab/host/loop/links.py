"""Links: the connections between the servers of one service, inside the loop's poller.

The messages, and the events about links, are handed in (`LinkProtocol`). A link is a number that is never reused.

    adopt(sock, sid)    adds a connection that we dialled: after the handshake it is up; a greeted one is up at once
    accept(now)         adds connections from the listeners
    receive(inputs, take_at_once)
                        appends what arrived, in the order of arrival; then what happened with links and dials. Frames
                        that come before all inputs of a turn are offered to the service as bytes first
    send(links, message), close(link, reason), flush()
    send_now(link, message)
                        from any thread, at once, or together with queued messages
    hold(link, message) a message that another thread sends so once something is durable

Every connection begins with a handshake (`zab.wire.handshake`), which proves the identity of the peer; what follows is
sealed. Before that the service is not touched, and no link is replaced by another. A connection with another purpose is
handed over (`TakeOver`).

A port with a `TlsPolicy` speaks TLS below that: an inbound connection is no link before its TLS handshake is done
(`handshakes`, which takes one step a turn). A connection that we dialled comes with its TLS.

Every link is read in every turn, even if a limit is reached: limits act where clients are connected. Otherwise
acknowledgements would wait for forwarded requests, nothing would commit, and the limit would never clear (H1 links
always read).

A link has two send queues (H2 turn budget): urgent messages overtake the others, and the order within each queue is
kept. Messages that the protocol cuts are sent in pieces, between which urgent ones may go.

Limits: frames of `frame_bytes_max`, and of `joining_bytes_max` from a server that dialled us and is not admitted yet; a
link with more than `UNSENT_BYTES_MAX` is broken off; `GREETING_MS` for the handshake; `STRANGERS_MAX` inbound
connections in it, and as many in the TLS handshake before it: a further one replaces another
(`zab.wire.pending_connections`).

Not here: dialling, with its TLS handshake (`tls_stream`), which links the service wants, the meaning of messages.
"""

from __future__ import annotations

import itertools
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from zab.host.journal.journal import Journal
from zab.host.loop.conversation import Greeted
from zab.host.loop.deadlines import Deadlines
from zab.host.loop.greeting import Greeting, say_nothing
from zab.host.loop.handshakes import Handshakes
from zab.host.loop.held_message import HeldMessage
from zab.host.loop.link import HUNG_UP, Link, Prepared
from zab.host.loop.listener import Listener
from zab.host.loop.loop import Loop, now_ms
from zab.host.loop.poller import READ, WRITE
from zab.host.tls.engine import TlsSide
from zab.host.tls.policy import TlsPolicy
from zab.wire.frames import LENGTH, FrameError, frame
from zab.wire.handshake import Agreed, Dialling, Listening, refusal
from zab.wire.link_protocol import LinkProtocol, TakeAtOnce, take_nothing
from zab.wire.pending_connections import PendingConnections
from zab.wire.records import MessageError
from zab.wire.seal import SEAL_BYTES
from zab.wire.secret_messages import ENCRYPTED, decrypted, encrypted, hides_all

UNSENT_BYTES_MAX = 64 << 20
GREETING_MS = 5_000
STRANGERS_MAX = 64
_TAKEN_AWAY = "the secret was removed meanwhile"
CLOSING_MS = 2_000

Message = TypeVar("Message")
Input = TypeVar("Input")

journal = Journal("links")
of_strangers = Journal("links", is_of_strangers=True)


class Links(Generic[Message, Input]):
    """All links of one server."""

    def __init__(
        self,
        loop: Loop,
        protocol: LinkProtocol[Message, Input],
        greeting: Greeting,
        refused: Callable[[str, str], None] = say_nothing,
    ) -> None:
        """`refused` is called with the host of each inbound connection that ends without proof, and why."""
        self._loop = loop
        self._protocol = protocol
        self._greeting = greeting
        self._refused = refused
        self._numbers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._deadlines = Deadlines[Link](loop, self._time_out)
        """When the handshake of a link has to be over; once it is closing, when all has to be sent."""
        self._strangers: PendingConnections[Link] = PendingConnections(STRANGERS_MAX)
        self._left: deque[Link] = deque()
        """Links on which another thread has queued something."""
        self.readable: list[Link] = []
        self.unflushed: dict[Link, None] = {}
        self.has_news = self.has_unsent = self.has_knocks = False
        """Whether there is something to receive, to send, to accept (`zab.member.ports`)."""
        self._handshakes = Handshakes(
            loop, self._meet, self._have_news, STRANGERS_MAX, handshake_ms=GREETING_MS, failed=self._no_tls
        )
        self._listeners: list[Listener] = []
        self._policy: TlsPolicy | None = None
        self._lost: list[Input] = []
        """Events about links that broke during a send, and about dials, which are not reported yet."""

    # ------------------------------------------------------------------------------------------------------- opening

    def listen(self, sock: socket.socket, policy: TlsPolicy | None = None) -> None:
        """Serve other servers on a further listening socket, with a policy for TLS."""
        self._listeners.append(Listener(self._loop, sock, self._have_knocks))
        self._policy = policy

    def leave(self, sock: socket.socket) -> None:
        """Stop listening on this socket, and close it. Links that are up stay."""
        [listener] = [each for each in self._listeners if each.socket is sock]
        self._listeners.remove(listener)
        self._loop.discard(listener)

    def _have_knocks(self) -> None:
        self.has_knocks = True

    def _have_news(self) -> None:
        self.has_news = True

    def _report(self, event: Input) -> None:
        """Report an event with the next step."""
        self._lost.append(event)
        self.has_news = True

    def adopt(
        self, sock: socket.socket, sid: int, side: TlsSide | None = None, greeted: Greeted[Any] | None = None
    ) -> None:
        """Add a connection that we dialled to this server; its TLS handshake, if any, is done. The other handshake has
        not begun or, with `greeted`, lacks only our proof."""
        if greeted is None:
            handshake = self._greeting.dialling(sid, is_certified=side is not None)
            self._say(self._add(sock, sid, handshake, side), handshake.hello())
            return
        link = self._add(sock, sid, greeted.handshake, side)
        if not self._greeting.believes(greeted.agreed):
            self._lose(link, _TAKEN_AWAY)
            return
        self._say(link, greeted.proof)
        self._open(link, greeted.agreed)
        # The peer sends nothing before our proof, which is sent at the end of the turn that gets this event.
        self._report(self._protocol.up(link.link, sid, False, greeted.agreed.features))

    def adopt_descriptor(
        self, descriptor: int, sid: int, side: TlsSide | None = None, greeted: Greeted[Any] | None = None
    ) -> None:
        """Call `adopt` for a socket of which only the descriptor is left."""
        self.adopt(socket.socket(fileno=descriptor), sid, side, greeted)

    def dial_failed(self, sid: int) -> None:
        """Report a failed dial of this server."""
        self._report(self._protocol.refused(sid))

    def _add(self, sock: socket.socket, sid: int | None, handshake: Dialling | Listening, side: TlsSide | None) -> Link:
        link = Link(self, sock, next(self._numbers), sid, handshake, side)
        self._links[link.link] = link
        self._deadlines.set(link, now_ms() + GREETING_MS)
        self._loop.watch(link, READ)
        if side is not None and side.has_more:
            self.readable.append(link)
            self.has_news = True
        return link

    def accept(self, now: int) -> None:
        """At the end of a turn: accept new connections."""
        self.has_knocks = False
        for listener in self._listeners:
            if listener.ready:
                for sock, address in listener.accept():
                    if self._policy is None:
                        self._meet(sock, address, None)
                    else:
                        self._handshakes.add(sock, address, self._policy, now)

    def _meet(self, sock: socket.socket, address: tuple[str, int], side: TlsSide | None) -> None:
        """Begin the handshake of an inbound connection."""
        host, _port = address
        link = self._add(sock, None, self._greeting.listening(None if side is None else side.peer_certificate), side)
        link.host = host
        crowded_out = self._strangers.admit(link, host)
        if crowded_out is not None:
            self._lose(crowded_out, "replaced by a newer connection: too many have not proven who they are")

    def _no_tls(self, host: str, reason: str) -> None:
        of_strangers.warning("link is refused", host=host, reason=reason)
        self._refused(host, reason)

    # ----------------------------------------------------------------------------------------------------- receiving

    def receive(self, inputs: list[Input], take_at_once: TakeAtOnce = take_nothing) -> None:
        """Append what happened on the links since the last turn, except for what the service takes at once."""
        readable, self.readable = self.readable, []
        for link in readable:
            if not link.gone:
                self._receive(link, inputs, take_at_once)
        if self._handshakes.waiting:
            self._handshakes.step()
        inputs += self._lost
        self._lost.clear()
        self.has_news = bool(self.readable or self._handshakes.waiting)

    def _receive(self, link: Link, inputs: list[Input], take_at_once: TakeAtOnce) -> None:
        data = link.receive()
        if link.closing:
            # The service has closed it: further bytes are dropped, only its end matters.
            if link.at_end:
                self._drop(link)
            return
        reason = link.why_ended if link.at_end else None
        try:
            frames = link.frames.feed(data) if link.up else self._shake(link, data, inputs)
        except FrameError as error:
            frames, reason = error.frames, str(error)
        except MessageError as error:
            self._refuse(link, str(error))
            return
        if not frames and reason is None:
            return
        protocol = self._protocol
        number, agreed = link.link, link.agreed
        decode, received, secret = protocol.decode, protocol.received, protocol.secret
        try:
            for payload in frames:
                assert agreed is not None
                if agreed.receiving is not None:
                    payload = agreed.receiving.take(payload)
                # Nothing overtakes an input.
                if not inputs and take_at_once(number, payload):
                    continue
                if payload.startswith(ENCRYPTED):
                    message = decrypted(protocol, agreed, payload)
                else:
                    message = decode(payload)
                    if type(message) in secret and not hides_all(agreed):
                        raise MessageError(f"{type(message).__name__} is not encrypted")
                inputs.append(received(number, message))
        except MessageError as error:
            reason = str(error)
        if reason is not None and not link.gone:
            self._lose(link, reason)
            inputs += self._lost
            self._lost.clear()

    def _shake(self, link: Link, data: bytes, inputs: list[Input]) -> list[bytes]:
        """Take one step of the handshake; returns the frames after its end. Raises FrameError and MessageError."""
        payload = link.frames.feed_one(data)
        if payload is None:
            return []
        handshake = link.handshake
        if isinstance(handshake, Dialling):
            proof, agreed = handshake.welcomed(payload)
            self._say(link, proof)
        elif not handshake.has_welcomed:
            if link.frames.kept_bytes:
                raise MessageError("it sends more before it is answered")
            self._say(link, handshake.welcome(payload))
            return []
        else:
            agreed = handshake.proven(payload)
        if not self._greeting.believes(agreed):
            raise MessageError(_TAKEN_AWAY)
        take_over = self._greeting.take_over(agreed) if link.inbound else None
        if take_over is not None:
            if link.tls is not None and link.tls.sealed_bytes:
                raise MessageError("it does not read what TLS says")
            self._forget(link)
            self._loop.release(link)
            take_over(link.socket, None if link.tls is None else link.tls.side, agreed, link.frames.rest())
            return []
        self._open(link, agreed)
        inputs.append(self._protocol.up(link.link, agreed.sid, link.inbound, agreed.features))
        return link.frames.feed(b"")

    def _open(self, link: Link, agreed: Agreed) -> None:
        """Open a link, since its handshake is over: both sides have proven their identity."""
        link.sid, link.agreed = agreed.sid, agreed
        self._deadlines.remove(link)
        self._strangers.leave(link)
        if agreed.sending is not None:
            agreed.sending.count_in(link.gate)
            link.queue.begin_sealing(agreed.sending.put_frame)
        protocol = self._protocol
        limit = protocol.joining_bytes_max if link.inbound else protocol.frame_bytes_max
        link.frames.frame_bytes_max = limit + SEAL_BYTES
        link.up = True
        link.let_held_out()
        journal.info(
            "link is up", sid=agreed.sid, link=link.link, inbound=link.inbound, proven=agreed.is_proven, by=agreed.proof
        )

    def _refuse(self, link: Link, reason: str) -> None:
        """End a handshake. A peer that dialled us is told why, once."""
        if not link.inbound:
            self._lose(link, reason)
            return
        of_strangers.warning("link is refused", link=link.link, reason=reason)
        self._refused(link.host, reason)
        self._say(link, refusal(reason))
        self._finish_later(link)

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, links: Iterable[int], message: Message) -> None:
        """Queue one message on each of these links; those that are gone are skipped."""
        targets = []
        for number in links:
            found = self._links.get(number)
            if found is not None and not found.closing:
                targets.append(found)
        if not targets:
            return
        self.has_unsent = True
        protocol = self._protocol
        kind = type(message)
        if kind in protocol.admitting:
            for link in targets:
                link.frames.frame_bytes_max = protocol.frame_bytes_max + SEAL_BYTES
        payloads = [protocol.encode(message)]
        if len(payloads[0]) > protocol.uncut_bytes_max and kind in protocol.cut:
            payloads = [protocol.encode(piece) for piece in protocol.cut[kind](message)]
        is_urgent, is_secret = kind in protocol.urgent, kind in protocol.secret
        for payload in payloads:
            assert len(payload) <= protocol.frame_bytes_max, (kind.__name__, len(payload))
            data = LENGTH.pack(len(payload)) + payload
            for link in targets:
                if is_secret:
                    hidden = encrypted(link.agreed, payload)
                    if hidden is None:
                        continue
                    data = frame(hidden)
                queue = link.queue
                with link.gate:
                    (queue.urgent if is_urgent else queue.ordinary).append(data)
                    queue.unsent_bytes += len(data)
                    link.gate.is_busy = True
                self.unflushed[link] = None

    def send_now(self, number: int, message: Message) -> None:
        """Send one message that is neither secret nor cut, without waiting for a turn. Called from any thread. The next
        turn sends what the socket does not take, and everything on a link with TLS."""
        link = self._links.get(number)
        if link is None:
            return
        payload, queue, is_left = self._protocol.encode(message), link.queue, True
        with link.gate:
            if link.gone or link.closing or not link.up:
                return
            is_first = not (queue.unsent_bytes or link.gate.left_bytes)
            queue.push(LENGTH.pack(len(payload)) + payload, is_urgent=type(message) in self._protocol.urgent)
            link.gate.is_busy = True
            if not is_first:
                # The thread that left the others there will send this one, too.
                return
            if link.tls is None:
                try:
                    link.flush()
                    is_left = queue.unsent_bytes > 0
                except OSError as error:
                    link.send_error = error
        if is_left:
            self.left(link)

    def left(self, link: Link) -> None:
        """Have the next turn send what another thread has left on this link."""
        self._left.append(link)
        # Set after that: `flush` clears this first, then takes what is there.
        self.has_unsent = True
        self._loop.wake()

    def hold(self, number: int, message: Message) -> HeldMessage[Message]:
        """A message for `send_now` that is sent once something is durable: see there."""
        return HeldMessage(self, number, message)

    def prepared(self, number: int, message: Message) -> Prepared | None:
        """The frame of a held message, as it would leave now; None if it cannot leave on its own."""
        link = self._links.get(number)
        return None if link is None else link.prepared(self._protocol.encode(message))

    def unsent_bytes(self, link: int) -> int:
        """How many bytes wait on a link; 0 when it is gone."""
        found = self._links.get(link)
        return 0 if found is None else found.queue.unsent_bytes

    def _say(self, link: Link, payload: bytes) -> None:
        """Queue a part of the handshake: nothing overtakes it."""
        link.queue.push(frame(payload), is_urgent=True)
        self.unflushed[link] = None
        self.has_unsent = True

    def flush(self) -> None:
        """At the end of a turn: send once on every link with something to send."""
        unflushed, self.unflushed = self.unflushed, {}
        self.has_unsent = False
        while self._left:
            unflushed[self._left.popleft()] = None
        for link in unflushed:
            if link.gone:
                continue
            try:
                with link.gate:
                    link.flush()
                    unsent_bytes = link.queue.unsent_bytes if link.tls is None else link.push_tls(link.tls)
            except OSError as error:
                self._lose(link, f"send failed: {error.strerror or error}")
                continue
            if unsent_bytes > UNSENT_BYTES_MAX:
                self._lose(link, f"{unsent_bytes} bytes unsent: it does not read")
            elif link.closing and not unsent_bytes:
                self._finish(link)
            elif unsent_bytes or link.interest != READ:
                self._loop.watch(link, READ | WRITE if unsent_bytes else READ)

    # ------------------------------------------------------------------------------------------------------- closing

    def close(self, number: int, reason: str) -> None:
        """Close a link when its queue is sent, or after `CLOSING_MS`; nothing is reported."""
        link = self._links.get(number)
        if link is None or link.closing:
            return
        journal.info("link is closed", sid=link.sid, link=number, reason=reason)
        self._finish_later(link)

    def _finish_later(self, link: Link) -> None:
        """Close a link once all is sent, or after `CLOSING_MS`."""
        link.closing = True
        link.gate.shut()
        self._deadlines.set(link, now_ms() + CLOSING_MS)
        self.unflushed[link] = None
        self.has_unsent = True

    def break_off(self, number: int, reason: str) -> None:
        """Close a link at once; the next `receive` reports it."""
        link = self._links.get(number)
        if link is not None:
            self._lose(link, reason)

    def doubt(self) -> None:
        """Break off the links whose proof is no longer valid, since the secrets have changed."""
        for link in list(self._links.values()):
            if link.agreed is not None and not self._greeting.believes(link.agreed):
                self._lose(link, "the secret that proved its identity was removed")

    def break_off_dialled(self, sid: int, reason: str) -> None:
        """Break off the links that we dialled to a server."""
        for link in [link for link in self._links.values() if link.sid == sid and not link.inbound]:
            self._lose(link, reason)

    def _finish(self, link: Link) -> None:
        """Tell the peer that nothing follows, and wait until it closes: closing with unread bytes would reset the
        connection and lose the last bytes."""
        try:
            link.finish()
        except OSError:
            self._drop(link)
            return
        self._loop.watch(link, READ | WRITE if link.has_goodbye_left else READ)

    def _time_out(self, link: Link) -> None:
        self._lose(link, "did not prove in time who it is")

    def _lose(self, link: Link, reason: str) -> None:
        """Drop a link; report it unless the service has closed it, or never had it."""
        if not link.closing:
            if link.sid is None:
                of_strangers.warning("stranger is gone", link=link.link, reason=reason)
                # A health check, and a member that has meanwhile dialled elsewhere, were not refused.
                if reason != HUNG_UP:
                    self._refused(link.host, reason)
            else:
                journal.info("link is lost", sid=link.sid, link=link.link, reason=reason)
            if link.up:
                self._report(self._protocol.down(link.link))
            elif not link.inbound:
                assert link.sid is not None
                self._report(self._protocol.refused(link.sid))
        self._drop(link)

    def _drop(self, link: Link) -> None:
        self._forget(link)
        self._loop.discard(link)

    def _forget(self, link: Link) -> None:
        link.gate.shut()
        del self._links[link.link]
        self._deadlines.remove(link)
        self._strangers.leave(link)
        self.unflushed.pop(link, None)
