"""Links: the connections between the servers of one service, inside the loop's selector.

The messages, and what the service is told of links, are handed in (`Dialect`). A link is a number, never reused.

    adopt(sock, sid)    a connection that we dialled: the handshake, then it is up
    on the listener     the same, the other way round
    receive(inputs)     what arrived, in the order of arrival; then what became of links and dials
    send(links, message), close(link, reason), flush()

Every connection begins with a handshake (`zab.wire.handshake`), which proves who is at the other end; what follows is
sealed. Before that nothing of the service is touched, and no link gives way to another. Who comes for something else
than a link has its connection handed over (`TakeOver`).

Every link is read in every turn, whatever limit is reached: limits act where the clients are connected. Otherwise
acknowledgements would wait for forwarded requests, nothing would commit, and the limit would never clear (H1 links
always read).

Two send queues a link (H2 turn budget): urgent messages overtake the others, and the order within each queue is kept.
Messages that the dialect cuts go out in pieces, between which urgent ones find their place.

Limits: frames of `frame_bytes_max`, and of `joining_bytes_max` from a server that has dialled us and is not admitted
yet; a link with more than `UNSENT_BYTES_MAX` is broken; `GREETING_MS` for the handshake; `STRANGERS_MAX` inbound
connections in it: one more takes the place of another one (`zab.wire.strangers`).

Not here: dialling, which links the service wants, what a message means.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from zab.host.journal import Journal, SeldomJournal
from zab.host.listener import Listener
from zab.host.loop import READ, WRITE, Loop, Watched, now_ms
from zab.host.send_queue import SendQueue
from zab.wire.dialect import Dialect
from zab.wire.frames import GREETING_BYTES_MAX, LENGTH, FrameError, FrameReader, frame
from zab.wire.handshake import Agreed, Dialling, Listening, refusal
from zab.wire.records import MessageError
from zab.wire.seal import SEAL_BYTES
from zab.wire.strangers import Strangers

RECEIVE_BYTES = 64 << 10
RECEIVE_CALLS_MAX = 32
"""A turn reads at most 2 MiB from one link: then the others have their turn."""
RECEIVE_FEW_BYTES = 4096
SHAKE_BYTES = 8192
"""A turn reads no more from somebody who has not proven himself, and from a link that is being closed."""
UNSENT_BYTES_MAX = 64 << 20
GREETING_MS = 5_000
ENCRYPTED = b"\xff"
"""In front of an encrypted message. No message begins with it."""
STRANGERS_MAX = 64
CLOSING_MS = 2_000

Message = TypeVar("Message")
Input = TypeVar("Input")

TakeOver: TypeAlias = Callable[[socket.socket, Agreed, bytes], None]
"""Owns, from this call on, the socket of somebody who wants no link. The bytes are what has come after the
handshake."""


class Greeter(Protocol):
    """How this server takes part in handshakes."""

    def dialling(self, sid: int) -> Dialling:
        """The handshake of a connection that we dialled to this server."""
        ...

    def listening(self) -> Listening:
        """The handshake of a connection to us."""
        ...

    def believes(self, agreed: Agreed) -> bool:
        """Whether what was proven when a connection began still counts."""
        ...

    def take_over(self, agreed: Agreed) -> TakeOver | None:
        """Who owns a connection that came for something else than a link; None: it is one."""
        ...


journal = Journal("links")
of_strangers = SeldomJournal(journal)


def say_nothing(_host: str, _reason: str) -> None:
    """Where nobody asks who was refused."""


class Link(Watched):
    """One connection; `up` once the handshake is over. Until then nobody knows who is at the other end of an inbound
    one: its `sid` is None."""

    def __init__(
        self,
        links: Links[Any, Any],
        sock: socket.socket,
        link: int,
        sid: int | None,
        handshake: Dialling | Listening,
        deadline: int,
    ) -> None:
        super().__init__(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = link
        self.host = ""
        """Where an inbound one comes from."""
        self.sid = sid
        self.inbound = sid is None
        self.handshake = handshake
        self.agreed: Agreed | None = None
        self.up = False
        self.closing = False
        self.deadline: int | None = deadline
        """When it is closed unless the handshake is over; once closing, unless all is sent."""
        self.queue = SendQueue()
        self.frames = FrameReader(GREETING_BYTES_MAX)
        self.at_end = False
        """The other side sends nothing any more."""
        self._links = links

    @property
    def is_in_use(self) -> bool:
        """The handshake is over, and nobody is closing it."""
        return self.up and not self.closing

    def on_ready(self, mask: int) -> None:
        if mask & READ:
            self._links.readable.append(self)
        if mask & WRITE:
            self._links.unflushed[self] = None

    def receive(self) -> bytes:
        """What the socket has.

        A short read has mostly emptied it; if not, the selector reports it again. Another call to find out costs more
        than the turn that it saves now and then.
        """
        pieces = []
        calls_max, wanted_bytes = (RECEIVE_CALLS_MAX, RECEIVE_BYTES) if self.is_in_use else (1, SHAKE_BYTES)
        for _ in range(calls_max):
            try:
                data = self.socket.recv(wanted_bytes)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.at_end = True
                break
            pieces.append(data)
            if len(data) < RECEIVE_FEW_BYTES:
                break
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Links(Generic[Message, Input]):
    """All links of one server."""

    def __init__(
        self,
        loop: Loop,
        dialect: Dialect[Message, Input],
        greeter: Greeter,
        refused: Callable[[str, str], None] = say_nothing,
    ) -> None:
        """`refused` is told the host of each inbound connection that ends without proof, and why."""
        self._loop = loop
        self._dialect = dialect
        self._greeter = greeter
        self._refused = refused
        self._numbers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._waiting: dict[Link, None] = {}
        """Links with a deadline."""
        self._strangers: Strangers[Link] = Strangers(STRANGERS_MAX)
        self.readable: list[Link] = []
        self.unflushed: dict[Link, None] = {}
        self._listener: Listener | None = None
        self._lost: list[Input] = []
        """What became of links that broke while something was sent on them, and of dials; not reported yet."""

    # ------------------------------------------------------------------------------------------------------- opening

    def listen(self, sock: socket.socket) -> None:
        """Serve other servers on a listening socket."""
        self._listener = Listener(self._loop, sock)

    def adopt(self, sock: socket.socket, sid: int) -> None:
        """A connection to this server, which we dialled, is open."""
        handshake = self._greeter.dialling(sid)
        link = self._add(sock, sid, handshake)
        self._say(link, handshake.hello())

    def adopt_descriptor(self, descriptor: int, sid: int) -> None:
        """The same, for a socket that only its descriptor names any more."""
        self.adopt(socket.socket(fileno=descriptor), sid)

    def dial_failed(self, sid: int) -> None:
        """A dial of this server came to nothing."""
        self._lost.append(self._dialect.refused(sid))

    def _add(self, sock: socket.socket, sid: int | None, handshake: Dialling | Listening) -> Link:
        link = Link(self, sock, next(self._numbers), sid, handshake, now_ms() + GREETING_MS)
        self._links[link.link] = link
        self._waiting[link] = None
        self._loop.watch(link, READ)
        return link

    def accept(self, now: int) -> None:
        """At the end of a turn: accept new connections; listen again once a pause is over."""
        listener = self._listener
        if listener is None or not listener.ready:
            if listener is not None and listener.resume_at is not None:
                listener.resume_if_due(now)
            return
        for sock, (host, _port) in listener.accept():
            link = self._add(sock, None, self._greeter.listening())
            link.host = host
            crowded_out = self._strangers.admit(link, host)
            if crowded_out is not None:
                self._lose(crowded_out, "too many others have come since")

    # ----------------------------------------------------------------------------------------------------- receiving

    def receive(self, inputs: list[Input]) -> None:
        """Append what happened on the links since the last turn."""
        readable, self.readable = self.readable, []
        for link in readable:
            if not link.gone:
                self._receive(link, inputs)
        self._check_deadlines()
        inputs += self._lost
        self._lost.clear()

    def _receive(self, link: Link, inputs: list[Input]) -> None:
        data = link.receive()
        if link.closing:
            # The service has closed it: what still comes is dropped, only its end matters.
            if link.at_end:
                self._drop(link)
            return
        reason = "closed by the other side" if link.at_end else None
        try:
            frames = link.frames.feed(data) if link.up else self._shake(link, data, inputs)
        except FrameError as error:
            frames, reason = error.frames, str(error)
        except MessageError as error:
            self._refuse(link, str(error))
            return
        dialect = self._dialect
        agreed = link.agreed
        try:
            for payload in frames:
                assert agreed is not None
                inputs.append(dialect.received(link.link, self._message(agreed, payload)))
        except MessageError as error:
            reason = str(error)
        if reason is not None and not link.gone:
            self._lose(link, reason)
            inputs += self._lost
            self._lost.clear()

    def _message(self, agreed: Agreed, payload: bytes) -> Message:
        """What a frame says. Raises MessageError."""
        if agreed.receiving is not None:
            payload = agreed.receiving.take(payload)
        is_encrypted = payload.startswith(ENCRYPTED)
        if is_encrypted:
            if agreed.decrypting is None:
                raise MessageError("a secret on a link without proof")
            payload = agreed.decrypting.decrypt(payload[len(ENCRYPTED) :])
        message = self._dialect.decode(payload)
        if is_encrypted != (type(message) in self._dialect.secret):
            raise MessageError(f"{type(message).__name__} is {'' if is_encrypted else 'not '}encrypted")
        return message

    def _shake(self, link: Link, data: bytes, inputs: list[Input]) -> list[bytes]:
        """One step of the handshake; once it is over there may be frames behind it. Raises FrameError and
        MessageError."""
        payload = link.frames.feed_one(data)
        if payload is None:
            return []
        handshake = link.handshake
        if isinstance(handshake, Dialling):
            proof, agreed = handshake.welcomed(payload)
            self._say(link, proof)
        elif not handshake.has_welcomed:
            if link.frames.kept_bytes:
                raise MessageError("it says more before it is answered")
            self._say(link, handshake.welcome(payload))
            return []
        else:
            agreed = handshake.proven(payload)
        if not self._greeter.believes(agreed):
            raise MessageError("the secret was taken away meanwhile")
        take_over = self._greeter.take_over(agreed) if link.inbound else None
        if take_over is not None:
            self._forget(link)
            self._loop.release(link)
            take_over(link.socket, agreed, link.frames.rest())
            return []
        self._open(link, agreed)
        inputs.append(self._dialect.up(link.link, agreed.sid, link.inbound))
        return link.frames.feed(b"")

    def _open(self, link: Link, agreed: Agreed) -> None:
        """The handshake is over: both sides know who the other one is."""
        link.sid, link.agreed = agreed.sid, agreed
        link.up = True
        link.deadline = None
        del self._waiting[link]
        self._strangers.leave(link)
        if agreed.sending is not None:
            link.queue.begin_sealing(agreed.sending.put_frame)
        dialect = self._dialect
        limit = dialect.joining_bytes_max if link.inbound else dialect.frame_bytes_max
        link.frames.frame_bytes_max = limit + SEAL_BYTES
        journal.info("link is up", sid=agreed.sid, link=link.link, inbound=link.inbound, proven=agreed.is_proven)

    def _refuse(self, link: Link, reason: str) -> None:
        """End a handshake. Who dialled us is told why, once."""
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
        targets = [found for link in links if (found := self._links.get(link)) is not None and not found.closing]
        if not targets:
            return
        dialect = self._dialect
        kind = type(message)
        if kind in dialect.admitting:
            for link in targets:
                link.frames.frame_bytes_max = dialect.frame_bytes_max + SEAL_BYTES
        is_urgent = kind in dialect.urgent
        cut = dialect.cut.get(kind)
        for piece in (message,) if cut is None else cut(message):
            payload = dialect.encode(piece)
            assert len(payload) <= dialect.frame_bytes_max, (kind.__name__, len(payload))
            data = LENGTH.pack(len(payload)) + payload
            for link in targets:
                if kind in dialect.secret:
                    encrypting = None if link.agreed is None else link.agreed.encrypting
                    if encrypting is None:
                        continue
                    data = frame(ENCRYPTED + encrypting.encrypt(payload))
                if is_urgent:
                    link.queue.push_urgent(data)
                else:
                    link.queue.push(data)
                self.unflushed[link] = None

    def unsent_bytes(self, link: int) -> int:
        """How much waits on a link; 0 when it is gone."""
        found = self._links.get(link)
        return 0 if found is None else found.queue.unsent_bytes

    def _say(self, link: Link, payload: bytes) -> None:
        """A part of the handshake."""
        link.queue.push(frame(payload))
        self.unflushed[link] = None

    def flush(self) -> None:
        """At the end of a turn: one send for every link with something to send."""
        unflushed, self.unflushed = self.unflushed, {}
        for link in unflushed:
            if not link.gone:
                self._flush(link)

    def _flush(self, link: Link) -> None:
        try:
            link.queue.flush(link.socket.send)
        except OSError as error:
            self._lose(link, f"send failed: {error.strerror}")
            return
        unsent_bytes = link.queue.unsent_bytes
        if unsent_bytes > UNSENT_BYTES_MAX:
            self._lose(link, f"{unsent_bytes} bytes unsent: it does not read")
        elif link.closing and not unsent_bytes:
            self._finish(link)
        else:
            self._loop.watch(link, READ | WRITE if unsent_bytes else READ)

    # ------------------------------------------------------------------------------------------------------- closing

    def close(self, number: int, reason: str) -> None:
        """Close a link when what was queued on it is sent, or after `CLOSING_MS`; nothing is reported."""
        link = self._links.get(number)
        if link is None or link.closing:
            return
        journal.info("link is closed", sid=link.sid, link=number, reason=reason)
        self._finish_later(link)

    def _finish_later(self, link: Link) -> None:
        """Once all is sent, or after `CLOSING_MS`."""
        link.closing = True
        link.deadline = now_ms() + CLOSING_MS
        self._waiting[link] = None
        self.unflushed[link] = None

    def break_off(self, number: int, reason: str) -> None:
        """Close a link at once; the next `receive` reports it."""
        link = self._links.get(number)
        if link is not None:
            self._lose(link, reason)

    def doubt(self) -> None:
        """The secrets are others now: whose proof does not count any more is cut off."""
        for link in list(self._links.values()):
            if link.agreed is not None and not self._greeter.believes(link.agreed):
                self._lose(link, "the secret by which it has proven itself was taken away")

    def break_off_dialled(self, sid: int, reason: str) -> None:
        """The same, for the links that we dialled to a server."""
        for link in [link for link in self._links.values() if link.sid == sid and not link.inbound]:
            self._lose(link, reason)

    def _finish(self, link: Link) -> None:
        """All is sent. A close with unread bytes would reset the connection and lose what was sent last: say that
        nothing follows, and wait for the other side to close."""
        try:
            link.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(link)
            return
        self._loop.watch(link, READ)

    def next_deadline(self) -> int | None:
        """When a link has waited long enough for a greeting or for its last bytes to leave."""
        deadlines = [link.deadline for link in self._waiting if link.deadline is not None]
        if self._listener is not None and self._listener.resume_at is not None:
            deadlines.append(self._listener.resume_at)
        return min(deadlines, default=None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left for the next turn that no socket will announce."""
        return not self._lost and not self.unflushed

    def _check_deadlines(self) -> None:
        if not self._waiting:
            return
        now = now_ms()
        for link in list(self._waiting):
            if link.deadline is not None and now >= link.deadline:
                self._lose(link, "did not prove in time who it is")

    def _lose(self, link: Link, reason: str) -> None:
        """The link is no more; say so unless the service has let go of it, or never had it."""
        if not link.closing:
            if link.sid is None:
                of_strangers.warning("stranger is gone", link=link.link, reason=reason)
                self._refused(link.host, reason)
            else:
                journal.info("link is lost", sid=link.sid, link=link.link, reason=reason)
            if link.up:
                self._lost.append(self._dialect.down(link.link))
            elif not link.inbound:
                assert link.sid is not None
                self._lost.append(self._dialect.refused(link.sid))
        self._drop(link)

    def _drop(self, link: Link) -> None:
        self._forget(link)
        self._loop.discard(link)

    def _forget(self, link: Link) -> None:
        del self._links[link.link]
        self._waiting.pop(link, None)
        self._strangers.leave(link)
        self.unflushed.pop(link, None)
