"""Quorum links: the connections between learners and the leader, inside the loop's selector.

Frame: 4 bytes length, big-endian, then that many bytes of CBOR (`zab.message`), at most `FRAME_BYTES_MAX`. The
first frame each way is a `Hello`; a dialler whose first frame is a request for a snapshot (`snapshot_transfer`) is
handed over with its socket and is no link.

    adopt(sock, sid)    a connection that we dialled: greet, wait for the greeting, then `QuorumLinkUp`
    on the listener     the same, the other way round
    receive(events)     what arrived, in the order of arrival; then `QuorumLinkDown` if the link broke
    send(links, message), close(link, reason), flush()

Every link is read in every turn, whatever else is too much: limits act where the clients are connected. Otherwise
acknowledgements would stand behind forwarded requests, nothing would commit, and the limit would never clear (H1).

Two send queues a link (H2): acknowledgements, pings and confirmations do not wait behind proposals or requests. The
order within each queue is kept; an acknowledgement of NEWLEADER is an `Ack` like those that follow it, so none
overtakes it. Proposals above `DATA_FRAME_BYTES_MAX` are cut into several messages between two batches; requests come as
several.

Limits: a link with more than `UNSENT_BYTES_MAX` is broken (a learner that does not read is synchronized again from
the log, by cursor); `GREETING_MS` to greet; `STRANGERS_MAX` inbound connections that have not greeted.

Not here: dialling (`server`), which links the protocol wants (`zab.peer`).
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterable
from typing import Any

from zab.events import Event, MessageReceived, QuorumLinkDown, QuorumLinkUp
from zab.host.journal import Journal
from zab.host.listener import Listener
from zab.host.loop import READ, WRITE, Loop, Watched, now_ms
from zab.host.send_queue import SendQueue
from zab.message import (
    DATA_FRAME_BYTES_MAX,
    FRAME_BYTES_MAX,
    PROTOCOL_VERSION,
    URGENT,
    Hello,
    Message,
    Proposal,
    decode,
    encode,
)
from zab.wire.records import MessageError

RECEIVE_BYTES = 64 << 10
RECEIVE_CALLS_MAX = 32
"""A turn reads at most 2 MiB from one link: then the others have their turn."""
RECEIVE_FEW_BYTES = 4096
UNSENT_BYTES_MAX = 64 << 20
GREETING_MS = 5_000
GREETING_BYTES_MAX = 4096
STRANGERS_MAX = 64
CLOSING_MS = 2_000
_LENGTH_BYTES = 4

journal = Journal("links")


class FrameError(Exception):
    """The length of a frame is out of range."""


def framed(message: Message) -> bytes:
    """One message with its length before it."""
    body = encode(message)
    assert len(body) <= FRAME_BYTES_MAX, (type(message).__name__, len(body))
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def cut(proposal: Proposal) -> list[Proposal]:
    """The same batches in messages of at most `DATA_FRAME_BYTES_MAX`, or of one batch that is larger."""
    pieces: list[list[bytes]] = [[]]
    size_bytes = 0
    for batch in proposal.batches:
        size_bytes += len(batch)
        if size_bytes > DATA_FRAME_BYTES_MAX and pieces[-1]:
            pieces.append([])
            size_bytes = len(batch)
        pieces[-1].append(batch)
    return [Proposal(batches) for batches in pieces]


class Frames:
    """Cuts a stream of bytes into frames. Raises FrameError for a length that no frame has."""

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._data = b""
        self._at = 0
        """Where the first frame begins that was not taken yet."""

    def feed(self, data: bytes) -> None:
        self._data = data if self._at == len(self._data) else self.rest() + data
        self._at = 0

    def next(self) -> bytes | None:
        """The next whole frame without its length, None when more bytes are needed."""
        data, start = self._data, self._at + _LENGTH_BYTES
        if len(data) < start:
            return None
        length = int.from_bytes(data[self._at : start], "big")
        if not 0 < length <= self.size_bytes_max:
            raise FrameError(f"frame of {length} bytes, limit {self.size_bytes_max}")
        end = start + length
        if len(data) < end:
            return None
        self._at = end
        return data[start:end]

    def rest(self) -> bytes:
        """What was fed and is in no frame yet."""
        return self._data[self._at :]


class QuorumLink(Watched):
    """One connection; `sid` is None until an inbound one has greeted, `up` once `QuorumLinkUp` was reported."""

    def __init__(self, links: QuorumLinks, sock: socket.socket, link: int, sid: int | None, deadline: int) -> None:
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
        self.frames = Frames(GREETING_BYTES_MAX)
        self._links = links

    def on_ready(self, mask: int) -> None:
        if mask & READ:
            self._links.readable.append(self)
        if mask & WRITE:
            self._links.unflushed[self] = None

    def receive(self) -> bool:
        """Take what the socket has into `frames`; False at its end.

        After a few bytes it is mostly empty, and the selector says so if it is not: a call to find out costs more than
        the turn that it saves now and then.
        """
        pieces = []
        is_open = True
        for _ in range(RECEIVE_CALLS_MAX):
            try:
                data = self.socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError:
                is_open = False
                break
            if not data:
                is_open = False
                break
            pieces.append(data)
            if len(data) < RECEIVE_FEW_BYTES:
                break
        self.frames.feed(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        return is_open


class QuorumLinks:
    """All quorum links of one server."""

    def __init__(
        self,
        loop: Loop,
        sid: int,
        servers: Iterable[int],
        hand_over: Callable[[socket.socket, bytes, bytes], None],
    ) -> None:
        """`servers` are the ids of the ensemble. `hand_over` gets the socket of an inbound connection whose first frame
        is no message, that frame, and the bytes behind it."""
        self._loop = loop
        self._sid = sid
        self._servers = frozenset(servers)
        self._hand_over = hand_over
        self._numbers = itertools.count(1)
        self._links: dict[int, QuorumLink] = {}
        self._waiting: dict[QuorumLink, None] = {}
        """Links with a deadline."""
        self.readable: list[QuorumLink] = []
        self.unflushed: dict[QuorumLink, None] = {}
        self._listener: Listener | None = None
        self._lost: list[int] = []
        """Links that broke while something was sent on them, not reported yet."""

    # ------------------------------------------------------------------------------------------------------- opening

    def listen(self, sock: socket.socket) -> None:
        """Serve the quorum port on a listening socket."""
        self._listener = Listener(self._loop, sock)

    def adopt(self, sock: socket.socket, sid: int) -> None:
        """A connection to the quorum port of `sid` is open."""
        link = self._add(sock, sid)
        self._push(link, Hello(PROTOCOL_VERSION, self._sid))

    def adopt_descriptor(self, descriptor: int, sid: int) -> None:
        """The same, for a socket that only its descriptor names any more."""
        self.adopt(socket.socket(fileno=descriptor), sid)

    def dial_failed(self) -> None:
        """A dial came to nothing: `QuorumLinkDown` of link 0."""
        self._lost.append(0)

    def _add(self, sock: socket.socket, sid: int | None) -> QuorumLink:
        link = QuorumLink(self, sock, next(self._numbers), sid, now_ms() + GREETING_MS)
        self._links[link.link] = link
        self._waiting[link] = None
        self._loop.watch(link, READ)
        return link

    def accept(self, now: int) -> None:
        """At the end of a turn: take in who knocked; listen again once a pause is over."""
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

    def receive(self, events: list[Any]) -> None:
        """Append what happened on the links since the last turn."""
        readable, self.readable = self.readable, []
        for link in readable:
            if not link.gone:
                self._receive(link, events)
        self._check_deadlines(events)
        events.extend(map(QuorumLinkDown, self._lost))
        self._lost.clear()

    def _receive(self, link: QuorumLink, events: list[Event]) -> None:
        is_open = link.receive()
        if link.closing:
            # The protocol has let go of it: what still comes is nobody's, only its end matters.
            link.frames = Frames(GREETING_BYTES_MAX)
            if not is_open:
                self._drop(link)
            return
        try:
            while not link.gone and (frame := link.frames.next()) is not None:
                if link.up:
                    events.append(MessageReceived(link.link, decode(frame)))
                else:
                    self._greeted(link, frame, events)
        except (FrameError, MessageError) as error:
            self._break(link, events, str(error))
            return
        if not is_open and not link.gone:
            self._break(link, events, "closed by the other side")

    def _greeted(self, link: QuorumLink, frame: bytes, events: list[Event]) -> None:
        """The first frame of a connection came."""
        try:
            message = decode(frame)
        except MessageError:
            if not link.inbound:
                raise
            self._forget(link)
            self._loop.release(link)
            self._hand_over(link.socket, frame, link.frames.rest())
            return
        if not isinstance(message, Hello):
            raise MessageError(f"{type(message).__name__} before Hello")
        if message.version != PROTOCOL_VERSION:
            raise MessageError(f"server {message.sid} speaks version {message.version}, not {PROTOCOL_VERSION}")
        if message.sid not in self._servers or message.sid == self._sid:
            raise MessageError(f"server {message.sid} is no other server of this ensemble")
        if link.inbound:
            link.sid = message.sid
            self._push(link, Hello(PROTOCOL_VERSION, self._sid))
        elif message.sid != link.sid:
            raise MessageError(f"server {message.sid} answers where server {link.sid} should")
        link.up = True
        link.deadline = None
        del self._waiting[link]
        link.frames.size_bytes_max = FRAME_BYTES_MAX
        assert link.sid is not None
        journal.info("quorum link is up", sid=link.sid, link=link.link, inbound=link.inbound)
        events.append(QuorumLinkUp(link.link, link.sid, link.inbound))

    # ------------------------------------------------------------------------------------------------------- sending

    def send(self, links: Iterable[int], message: Message) -> None:
        """Queue one message on each of these links; those that are gone are skipped."""
        targets = [found for link in links if (found := self._links.get(link)) is not None and not found.closing]
        if not targets:
            return
        is_urgent = type(message) in URGENT
        for piece in cut(message) if isinstance(message, Proposal) else (message,):
            data = framed(piece)
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

    def _push(self, link: QuorumLink, message: Message) -> None:
        link.queue.push(framed(message))
        self.unflushed[link] = None

    def flush(self) -> None:
        """At the end of a turn: one send for every link with something to send."""
        unflushed, self.unflushed = self.unflushed, {}
        for link in unflushed:
            if not link.gone:
                self._flush(link)

    def _flush(self, link: QuorumLink) -> None:
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
        journal.info("quorum link is closed", sid=link.sid, link=number, reason=reason)
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

    def _finish(self, link: QuorumLink) -> None:
        """All is sent. A close with unread bytes would reset the connection and take our last words with it: say that
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

    def _check_deadlines(self, events: list[Event]) -> None:
        if not self._waiting:
            return
        now = now_ms()
        for link in list(self._waiting):
            if link.deadline is not None and now >= link.deadline:
                self._break(link, events, "gave no greeting in time")

    def _break(self, link: QuorumLink, events: list[Event], reason: str) -> None:
        self._lose(link, reason)
        events.extend(map(QuorumLinkDown, self._lost))
        self._lost.clear()

    def _lose(self, link: QuorumLink, reason: str) -> None:
        """The link is no more; say so unless the protocol has let go of it, or never had it."""
        if not link.closing:
            journal.info("quorum link is lost", sid=link.sid, link=link.link, reason=reason)
            if link.up:
                self._lost.append(link.link)
            elif not link.inbound:
                self._lost.append(0)
        self._drop(link)

    def _drop(self, link: QuorumLink) -> None:
        self._forget(link)
        self._loop.discard(link)

    def _forget(self, link: QuorumLink) -> None:
        del self._links[link.link]
        self._waiting.pop(link, None)
        self.unflushed.pop(link, None)
