"""Links: the connections between the servers of one service, inside the loop's selector.

The messages, and what the service is told of links, are handed in (`Dialect`). A link is a number, never reused.

    adopt(sock, sid)    a connection that we dialled: greet, wait for the greeting, then it is up
    on the listener     the same, the other way round
    receive(inputs)     what arrived, in the order of arrival; then what became of links and dials
    send(links, message), close(link, reason), flush()

The first frame each way is a greeting, which says which server speaks. A caller that wants something else than a link
says that instead, and its connection is handed over (`TakeOver`).

Every link is read in every turn, whatever limit is reached: limits act where the clients are connected. Otherwise
acknowledgements would wait for forwarded requests, nothing would commit, and the limit would never clear (H1 links
always read).

Two send queues a link (H2 turn budget): urgent messages overtake the others, and the order within each queue is kept.
Messages that the dialect cuts go out in pieces, between which urgent ones find their place.

Limits: a link with more than `UNSENT_BYTES_MAX` is broken; `GREETING_MS` to greet; `STRANGERS_MAX` inbound connections
that have not greeted.

Not here: dialling, which links the service wants, what a message means.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeAlias, TypeVar

from zab.host.journal import Journal
from zab.host.listener import Listener
from zab.host.loop import READ, WRITE, Loop, Watched, now_ms
from zab.host.send_queue import SendQueue
from zab.wire.dialect import Dialect
from zab.wire.frames import GREETING_BYTES_MAX, LENGTH, FrameError, FrameReader, frame
from zab.wire.records import MessageError

RECEIVE_BYTES = 64 << 10
RECEIVE_CALLS_MAX = 32
"""A turn reads at most 2 MiB from one link: then the others have their turn."""
RECEIVE_FEW_BYTES = 4096
UNSENT_BYTES_MAX = 64 << 20
GREETING_MS = 5_000
STRANGERS_MAX = 64
CLOSING_MS = 2_000

Message = TypeVar("Message")
Input = TypeVar("Input")

TakeOver: TypeAlias = Callable[[socket.socket], None]
"""Owns, from this call on, the socket of somebody who wants no link."""

Greeted: TypeAlias = Callable[[bytes], int | TakeOver]
"""What the first frame of a connection says: which server speaks, or who takes over. Raises `MessageError`."""

journal = Journal("links")


class Link(Watched):
    """One connection; `sid` is None until an inbound one has greeted, `up` once both have."""

    def __init__(self, links: Links[Any, Any], sock: socket.socket, link: int, sid: int | None, deadline: int) -> None:
        super().__init__(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.link = link
        self.sid = sid
        self.inbound = sid is None
        self.up = False
        self.closing = False
        self.deadline: int | None = deadline
        """When it is closed unless it has greeted; once closing, unless all is sent."""
        self.queue = SendQueue()
        self.frames = FrameReader(GREETING_BYTES_MAX)
        self.at_end = False
        """The other side sends nothing any more."""
        self._links = links

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
        for _ in range(RECEIVE_CALLS_MAX):
            try:
                data = self.socket.recv(RECEIVE_BYTES)
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

    def __init__(self, loop: Loop, dialect: Dialect[Message, Input], hello: bytes, greeted: Greeted) -> None:
        """`hello` is this server's greeting."""
        self._loop = loop
        self._dialect = dialect
        self._hello = frame(hello)
        self._greeted = greeted
        self._numbers = itertools.count(1)
        self._links: dict[int, Link] = {}
        self._waiting: dict[Link, None] = {}
        """Links with a deadline."""
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
        link = self._add(sock, sid)
        self._greet(link)

    def adopt_descriptor(self, descriptor: int, sid: int) -> None:
        """The same, for a socket that only its descriptor names any more."""
        self.adopt(socket.socket(fileno=descriptor), sid)

    def dial_failed(self, sid: int) -> None:
        """A dial of this server came to nothing."""
        self._lost.append(self._dialect.refused(sid))

    def _add(self, sock: socket.socket, sid: int | None) -> Link:
        link = Link(self, sock, next(self._numbers), sid, now_ms() + GREETING_MS)
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
        for sock, _address in listener.accept():
            if sum(link.sid is None for link in self._waiting) >= STRANGERS_MAX:
                sock.close()
            else:
                self._add(sock, None)

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
            frames = link.frames.feed(data) if link.up else self._first(link, data, inputs)
        except FrameError as error:
            frames, reason = error.frames, str(error)
        except MessageError as error:
            frames, reason = [], str(error)
        dialect = self._dialect
        try:
            for payload in frames:
                inputs.append(dialect.received(link.link, dialect.decode(payload)))
        except MessageError as error:
            reason = str(error)
        if reason is not None and not link.gone:
            self._lose(link, reason)
            inputs += self._lost
            self._lost.clear()

    def _first(self, link: Link, data: bytes, inputs: list[Input]) -> list[bytes]:
        """The frames of a connection that has not greeted yet: after its greeting there may be others at once."""
        payload = link.frames.feed_one(data)
        if payload is None:
            return []
        who = self._greeted(payload)
        if not isinstance(who, int):
            if not link.inbound:
                raise MessageError("the server that was dialled answers as somebody who wants no link")
            self._forget(link)
            self._loop.release(link)
            who(link.socket)
            return []
        if link.inbound:
            link.sid = who
            self._greet(link)
        elif who != link.sid:
            raise MessageError(f"server {who} answers where server {link.sid} should")
        link.up = True
        link.deadline = None
        del self._waiting[link]
        journal.info("link is up", sid=who, link=link.link, inbound=link.inbound)
        inputs.append(self._dialect.up(link.link, who, link.inbound))
        link.frames.frame_bytes_max = self._dialect.frame_bytes_max
        return link.frames.feed(b"")

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, links: Iterable[int], message: Message) -> None:
        """Queue one message on each of these links; those that are gone are skipped."""
        targets = [found for link in links if (found := self._links.get(link)) is not None and not found.closing]
        if not targets:
            return
        dialect = self._dialect
        kind = type(message)
        is_urgent = kind in dialect.urgent
        cut = dialect.cut.get(kind)
        for piece in (message,) if cut is None else cut(message):
            payload = dialect.encode(piece)
            assert len(payload) <= dialect.frame_bytes_max, (kind.__name__, len(payload))
            data = LENGTH.pack(len(payload)) + payload
            for link in targets:
                if is_urgent:
                    link.queue.push_urgent(data)
                else:
                    link.queue.push(data)
                self.unflushed[link] = None

    def unsent_bytes(self, link: int) -> int:
        """How much waits on a link; 0 when it is gone."""
        found = self._links.get(link)
        return 0 if found is None else found.queue.unsent_bytes

    def _greet(self, link: Link) -> None:
        link.queue.push(self._hello)
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
        link.closing = True
        link.deadline = now_ms() + CLOSING_MS
        self._waiting[link] = None
        self.unflushed[link] = None

    def break_off(self, number: int, reason: str) -> None:
        """Close a link at once; the next `receive` reports it."""
        link = self._links.get(number)
        if link is not None:
            self._lose(link, reason)

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
                self._lose(link, "gave no greeting in time")

    def _lose(self, link: Link, reason: str) -> None:
        """The link is no more; say so unless the service has let go of it, or never had it."""
        if not link.closing:
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
        self.unflushed.pop(link, None)
