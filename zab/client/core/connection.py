"""One TCP connection of a client, without the socket: bytes in, events out; requests in, bytes out.

    GREETING --the server's answer--> OPEN --end()--> ENDED
        \\____________________________________________/

Out: the ConnectRequest, then frames of {xid int, opcode int, body}. In: the ConnectResponse, then frames of
{xid int, zxid long, error int, body}.

    xid     what it answers
    > 0     the oldest request without an answer: replies come in the order of the requests
     -1     nothing: a watch fired
     -2     a ping
     -4     the oldest add_auth without an answer
     -8     the oldest setWatches without an answer
  ≤ -16     the getChanges that was sent with it: each has its own xid, and is answered when there are changes

Invariants:
- xids of requests are 1, 2, …, 2^31 - 1, then 1 again; a reply whose xid is not that of the oldest unanswered request
  ends the connection (`PeerProtocolError`), since no later answer could be trusted. Those of getChanges are -16, -17,
  …, -2^31, then -16 again.
- Silence is bounded: a ping is sent when nothing was sent for half of the read timeout (or for 10 s). When nothing was
  received for the read timeout (two thirds of the session timeout), the connection is over, in time to reach another
  server before the session expires. While greeting, the read timeout is the rest of the time to connect.
- `proven_at` is the time at which the newest message was sent that the server has answered: the server knew then that
  this client is alive. Only one message at a time is tracked, so it may be too early, but is never too late.
- `unsent_bytes` counts what is unsent; the caller takes it with `take`, and stops adding when it is too much.

`now` is milliseconds of a monotonic clock, an argument everywhere. After an exception only `end` may be called.

Deliberately not here: the session that outlives the connection (`zab.client.core.session`), callers that wait.
"""

from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.opcodes import OpCode
from zab.client.core.exceptions import LongReplyError, PeerProtocolError
from zab.client.core.records import EventType
from zab.client.core.requests import Answered, ClientRequest, Event, Expired, Notified, Opened
from zab.jute.framing import AUTH_XID, CHANGES_XID_MAX, NOTIFICATION_XID, PING_XID, SET_WATCHES_XID, request_frame
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import ReplyHeader, WatcherEvent
from zab.wire.frames import FrameError, FrameReader, frame

__all__ = ["Connection", "Phase"]

XID_MAX: Final = 2**31 - 1
XID_MIN: Final = -(2**31)

# A firewall on the way to the server may forget idle connections.
PING_IDLE_MS_MAX: Final = 10_000

# How a TLS server answers bytes that are no TLS (RFC 8446, 5.1): the type alert, and the major version.
_TLS_ALERT: Final = b"\x15\x03"


class Phase(Enum):
    GREETING = "greeting"
    OPEN = "open"
    ENDED = "ended"


class Connection:
    """answer_ms: how long the server may take for the ConnectResponse."""

    def __init__(self, greeting: ConnectRequest, *, now: int, answer_ms: int, frame_bytes_max: int) -> None:
        self.phase = Phase.GREETING
        self.unsent_bytes = 0
        self._frames = FrameReader(frame_bytes_max)
        self._unsent: list[bytes] = []
        self._unanswered: deque[tuple[int, ClientRequest[Any]]] = deque()
        self._auths: deque[ClientRequest[Any]] = deque()
        self._changes: dict[int, ClientRequest[Any]] = {}
        self._watch_restores_count = 0
        self._next_xid = 1
        self._next_changes_xid = CHANGES_XID_MAX
        self._read_timeout_ms = answer_ms
        self._last_received = now
        self._last_sent = now
        self.proven_at: int | None = None
        """Milliseconds; None until the greeting is answered."""
        self._probe: tuple[int, int] | None = None
        """A request that proves it: its xid, and when it was sent."""
        self._pinged_at: int | None = None
        """When the oldest ping without an answer was sent."""
        self._greeted_at = now
        self._queue(frame(greeting.encode()))

    @property
    def in_flight_count(self) -> int:
        """Requests sent (or about to be) and not answered, without getChanges, whose answers may take long."""
        return len(self._unanswered)

    @property
    def oldest(self) -> ClientRequest[Any] | None:
        """The request that is answered next; None if none is in flight."""
        return self._unanswered[0][1] if self._unanswered else None

    def is_registering(self, path: bytes, table: object) -> bool:
        """Whether a request in flight will register a watch there."""
        return any(
            request.registration is not None
            and request.registration.path == path
            and request.registration.table is table
            for _, request in self._unanswered
        )

    # Out.

    def send(self, request: ClientRequest[Any]) -> None:
        """Queues the request after the earlier ones."""
        assert self.phase is Phase.OPEN
        xid = self._next_xid
        self._next_xid = xid + 1 if xid < XID_MAX else 1
        self._unanswered.append((xid, request))
        self._queue(request_frame(xid, request.opcode, request.body))

    def send_auth(self, request: ClientRequest[Any]) -> None:
        """Queues an add_auth, which is answered out of the order of the other requests."""
        assert self.phase is Phase.OPEN
        assert request.opcode == OpCode.AUTH
        self._auths.append(request)
        self._queue(request_frame(AUTH_XID, request.opcode, request.body))

    def send_changes(self, request: ClientRequest[Any]) -> None:
        """Queues a getChanges, which is answered out of the order of the other requests."""
        assert self.phase is Phase.OPEN
        assert request.opcode == OpCode.GET_CHANGES
        xid = self._next_changes_xid
        self._next_changes_xid = xid - 1 if xid > XID_MIN else CHANGES_XID_MAX
        self._changes[xid] = request
        self._queue(request_frame(xid, request.opcode, request.body))

    def restore_watches(self, opcode: OpCode, body: bytes) -> None:
        assert self.phase is Phase.OPEN
        self._watch_restores_count += 1
        self._queue(request_frame(SET_WATCHES_XID, opcode, body))

    def take(self, now: int) -> bytes:
        """Everything that is to be sent, joined; empty when there is nothing."""
        if not self._unsent:
            return b""
        data = b"".join(self._unsent)
        self._unsent.clear()
        self.unsent_bytes = 0
        self._last_sent = now
        if self._probe is None and self._unanswered:
            self._probe = self._unanswered[-1][0], now
        return data

    def _queue(self, frame: bytes) -> None:
        self._unsent.append(frame)
        self.unsent_bytes += len(frame)

    # In.

    def receive(self, data: bytes, now: int) -> Iterator[Event]:
        """The events in the bytes, in order. Read the iterator to its end.

        Raises PeerProtocolError if they are malformed, after the events of the bytes before.
        """
        assert self.phase is not Phase.ENDED
        self._last_received = now
        broken: FrameError | None = None
        try:
            payloads = self._frames.feed(data)
        except FrameError as error:
            payloads, broken = error.frames, error
        for payload in payloads:
            event = self._read(payload)
            if event is not None:
                yield event
        if broken is not None and self.phase is Phase.GREETING and data.startswith(_TLS_ALERT):
            raise PeerProtocolError("the server speaks TLS on this port, and this client does not") from broken
        if broken is not None and self.phase is Phase.OPEN and broken.length > self._frames.frame_bytes_max:
            limit = f"reply_bytes_max is {self._frames.frame_bytes_max:,} bytes"
            raise LongReplyError(f"the server announced an answer of {broken.length:,} bytes, and {limit}") from broken
        if broken is not None:
            raise PeerProtocolError(f"the server sent garbage: {broken}") from broken

    def _read(self, payload: bytes) -> Event | None:
        try:
            return self._answer(payload) if self.phase is Phase.OPEN else self._greeted(payload)
        except JuteError as error:
            raise PeerProtocolError(f"the server sent garbage: {error}") from error

    def _greeted(self, payload: bytes) -> Event:
        response = ConnectResponse.decode(payload)
        if response.timeout_ms <= 0:
            return Expired()
        self.phase = Phase.OPEN
        self._read_timeout_ms = response.timeout_ms * 2 // 3
        self.proven_at = self._greeted_at
        return Opened(response.session_id, response.password, response.timeout_ms, response.read_only)

    def _answer(self, payload: bytes) -> Event | None:
        header = ReplyHeader.decode(payload)
        if header.xid > 0:
            return self._request_answered(header, payload)
        if header.xid == NOTIFICATION_XID:
            return _notified(header, payload)
        if header.xid == PING_XID:
            self._prove(self._pinged_at)
            self._pinged_at = None
            return None
        if header.xid == AUTH_XID and self._auths:
            return Answered(self._auths.popleft(), header.error, header.zxid, None)
        if header.xid in self._changes:
            result = self._changes[header.xid].decode(payload, ReplyHeader.BYTES) if not header.error else None
            return Answered(self._changes.pop(header.xid), header.error, header.zxid, result)
        if header.xid == SET_WATCHES_XID and self._watch_restores_count:
            self._watch_restores_count -= 1
            if header.error != ErrorCode.OK:
                raise PeerProtocolError(f"the server refused to restore watches (error {header.error})")
            return None
        raise PeerProtocolError(f"the server answered xid {header.xid}, which nobody asked")

    def _request_answered(self, header: ReplyHeader, payload: bytes) -> Event:
        if not self._unanswered:
            raise PeerProtocolError(f"the server answered xid {header.xid}, but no request is open")
        expected, request = self._unanswered[0]
        if header.xid != expected:
            raise PeerProtocolError(f"the server answered xid {header.xid} instead of {expected}")
        # Decoded before it leaves the queue: a malformed reply leaves its request unanswered.
        result = request.decode(payload, ReplyHeader.BYTES) if header.error == ErrorCode.OK else None
        self._unanswered.popleft()
        if self._probe is not None and self._probe[0] == expected:
            self._prove(self._probe[1])
            self._probe = None
        return Answered(request, header.error, header.zxid, result)

    def _prove(self, sent_at: int | None) -> None:
        if sent_at is not None and (self.proven_at is None or sent_at > self.proven_at):
            self.proven_at = sent_at

    # Time.

    @property
    def next_deadline(self) -> int:
        """When `poll` has something to do (ms)."""
        silence = self._last_received + self._read_timeout_ms
        if self.phase is not Phase.OPEN:
            return silence
        return min(silence, self._last_sent + self._ping_idle_ms)

    @property
    def _ping_idle_ms(self) -> int:
        return min(self._read_timeout_ms // 2, PING_IDLE_MS_MAX)

    def poll(self, now: int) -> None:
        """Queues a ping when one is due. Raises PeerProtocolError when the server was silent for too long."""
        assert self.phase is not Phase.ENDED
        if now >= self._last_received + self._read_timeout_ms:
            raise PeerProtocolError(f"the server was silent for {now - self._last_received} ms")
        if self.phase is Phase.OPEN and now >= self._last_sent + self._ping_idle_ms:
            self._queue(request_frame(PING_XID, OpCode.PING, b""))
            self._pinged_at = now if self._pinged_at is None else self._pinged_at
            self._last_sent = now

    def end(self) -> list[ClientRequest[Any]]:
        """The connection is gone. Returns every request without an answer, in their order."""
        self.phase = Phase.ENDED
        lost = [*self._auths, *(request for _, request in self._unanswered), *self._changes.values()]
        self._auths.clear()
        self._changes.clear()
        self._unanswered.clear()
        self._unsent.clear()
        self.unsent_bytes = 0
        return lost


def _notified(header: ReplyHeader, payload: bytes) -> Notified:
    event = WatcherEvent.decode(payload, ReplyHeader.BYTES)
    if event.type not in _SERVER_EVENTS:
        raise PeerProtocolError(f"the server sent an event of unknown type {event.type}")
    return Notified(header.zxid, event.type, event.path)


_SERVER_EVENTS: Final = frozenset(
    {EventType.CREATED, EventType.DELETED, EventType.DATA_CHANGED, EventType.CHILDREN_CHANGED}
)
