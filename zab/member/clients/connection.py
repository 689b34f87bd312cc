"""The clients of this member: a `ClientConnection` for each socket, and `Clients`, the table of all.

A connection is plain state. What may happen to it depends on its stage:

    GREETING      nothing has arrived yet, except perhaps part of a ConnectRequest or of a four-letter word
    CONNECTING    its session is being created, or checked by the leader; frames that arrive meanwhile are held
    SERVED        it has a session: requests are answered
    (closing)     in any stage: nothing more is read or written, and at the end of the turn it is forgotten

Output is one list, in the order of the steps that wrote it: replies, watch events and the answer to the handshake are
never reordered (A1 output order). The host sends it at the end of the turn, keeps what the socket did not take, and
sets `unsent_bytes` to its size.

Limits:
    output_limit_bytes      unsent output of a connection: above it is not read from, above twice as much it is closed
    max_client_connections  connections from one address: further ones are closed at once
    max_connections         connections in total: likewise
    GREETING_BYTES_MAX      the first frame, a ConnectRequest: a longer one closes the connection
    IDENTITIES_MAX          identities of a connection: a further one is refused with AUTHFAILED
    IDENTITIES_BYTES_MAX    bytes of all identities, schemes and ids: likewise

Not here: sockets, what the bytes mean (`processor`, `sessions`), and when output is sent (the host).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from enum import Enum, IntEnum, IntFlag
from itertools import islice
from typing import Final, TypeAlias

import attrs

from datatree.slices import ENDED
from session.identity import NO_SESSION, SessionId
from zab.configuration.blocks.limits import LimitSettings
from zab.member.clients.kerberos import Login
from zab.wire.frames import GREETING_BYTES_MAX, FrameError, FrameReader

Identity: TypeAlias = tuple[bytes, bytes]
"""Scheme and id, as in an ACL."""

Waiting: TypeAlias = tuple[int, int, bytes, int]
"""A request that waits: xid, opcode, frame, and when it came. A write that is under way has an empty frame."""


LastAnswer: TypeAlias = tuple[int, int, int, int, int]
"""The last answered request: opcode, xid, zxid of the reply, when it was sent (monotonic ms), how long it waited
(ms)."""

NO_ANSWER: Final[LastAnswer] = (0, -1, -1, 0, 0)
NEVER: Final = (1 << 63) - 1
"""The minimum while there are no values."""

IDENTITIES_MAX = 64
IDENTITY_BYTES_MAX = 4096
"""The limit of a forwarded write (`zab.protocol.message`), which carries all identities of its connection."""
IDENTITIES_BYTES_MAX = 8 << 10
"""The limit for all identities of a connection: room for the longest one and the others that a client needs. A
forwarded write grows by no more than this."""


def size_of(identities: Iterable[Identity]) -> int:
    """The size of identities, in bytes."""
    return sum(len(scheme) + len(name) for scheme, name in identities)


class Stage(Enum):
    """The stage of a connection."""

    GREETING = "greeting"
    CONNECTING = "connecting"
    SERVED = "served"


class Closing(IntEnum):
    """Whether, and how, a connection ends."""

    NO = 0
    FLUSHED = 1
    """The connection ends once its output is sent."""
    AT_ONCE = 2


class Hold(IntFlag):
    """Reasons not to read from a connection."""

    NONE = 0
    CONNECTING = 1
    """Its session does not exist yet."""
    LOAD = 2
    """Too many requests are in process, and some of them are its own."""
    OUTPUT = 4
    """It has too much unsent output."""
    THROTTLED = 8
    """One of its requests waits for the request throttle."""
    WORK = 16
    """The turn had no room for its requests."""
    ROOM = 32
    """It has begun a large request, for which there is no room yet (`zab.wire.large_frames`)."""


@attrs.define(eq=False, repr=False)
class ClientConnection:
    """One client socket, as the pure part of the server sees it. The host makes it and gives it to the member."""

    id: int
    """Never reused while the process runs."""
    host: str
    """The numeric address of the client."""
    port: int
    frames: FrameReader
    out: list[bytes] = attrs.Factory(list)
    out_bytes: int = 0
    """Bytes in `out`."""
    unsent_bytes: int = 0
    """Bytes that the host took from `out` and has not sent yet; set by the host."""
    closing: Closing = Closing.NO
    holds: Hold = Hold.NONE
    paused: bool = False
    """Whether the host must not read from it: there is any such reason."""
    is_ours: bool = False
    """Whether it is in `Clients`."""

    stage: Stage = Stage.GREETING
    session: SessionId = NO_SESSION
    timeout_ms: int = 0
    """The session timeout that was negotiated on this connection."""
    touched_until: int = 0
    """The time (monotonic ms) before which its input does not touch its session again: that would change nothing."""
    is_local: bool = False
    """Whether only this member knows its session (`local_sessions`)."""
    has_read_only_byte: bool = True
    """Whether its ConnectRequest had the byte: clients older than 3.4 send none, and get none back."""
    is_of_keeper: bool = False
    """Whether its client knows ClickHouse Keeper's operations: it has asked which of them are supported, or used a read
    of them."""
    identities: tuple[Identity, ...] = ()
    sasl_nonce: bytes | None = b""
    """The nonce of the SASL login that is under way; empty before it, None after it."""
    login: Login | None = None
    """The Kerberos login, from its first token on (`zab.member.clients.kerberos.Login`)."""
    is_login_stepping: bool = False
    """Whether a worker has a token of its login."""
    held: list[bytes] = attrs.Factory(list)
    """Frames that came before the session existed, or for which their turn had no room."""
    pending: deque[Waiting] = attrs.Factory(deque)
    """Requests in order, starting with the oldest write (or sync) that is under way."""
    asked_bytes: int = 0
    """Bytes of `pending` when they were counted last, and of frames since then (`zab.member.requests.limits`)."""
    large_frame_bytes: int = 0
    """The size of the large request that has begun, if there is one (`zab.wire.large_frames`)."""
    answering: Generator[None, None, bytes] | None = None
    """The rest of an answer that takes more than a slice: to the first request in `pending`, or to a four-letter
    word."""
    answering_zxid: int = 0
    """The zxid of the state that this answer tells; 0: none."""
    later: list[bytes] = attrs.Factory(list)
    """Watch events that wait for this answer."""
    later_bytes: int = 0
    sync_tags: deque[int] = attrs.Factory(deque)
    """The tags of the syncs in `pending`, in order."""
    claimed: SessionId = NO_SESSION
    """The session that its client asked for with a password that fits no key here."""
    fence: int = 0
    """Transactions up to this zxid were proposed before the session moved here: they answer an earlier connection."""
    idle_ticks: int = 0
    """Ticks since something arrived."""

    established: int = 0
    """When it was accepted (wall clock, ms)."""
    received_count: int = 0
    sent_count: int = 0
    last_answer: LastAnswer = NO_ANSWER
    answered_count: int = 0
    """How many requests are in `waited_ms`, the sum of their waits; the minimum and maximum follow."""
    waited_ms: int = 0
    waited_least_ms: int = NEVER
    waited_most_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.identities = ((b"ip", self.host.encode()),)

    def __repr__(self) -> str:
        return f"<client {self.id} of {self.host}:{self.port}, session {self.session:#x}, {self.stage.value}>"

    def first_cut(self, data: bytes) -> list[bytes]:
        """The frames that these bytes of a greeting complete. Raises FrameError. The first one has to be short: little
        is kept for a client that has not greeted yet."""
        frames = self.frames
        limit, frames.frame_bytes_max = frames.frame_bytes_max, GREETING_BYTES_MAX
        try:
            first = frames.feed_one(data)
        finally:
            frames.frame_bytes_max = limit
        if first is None:
            return []
        try:
            return [first, *frames.feed(b"")]
        except FrameError as error:
            error.frames.insert(0, first)
            raise

    def identify(self, *proven: Identity) -> bool:
        """Add identities for the life of the connection. False, and none is added: one is too long, or all together
        would be too many or too long to be forwarded."""
        identities = (*self.identities, *(identity for identity in proven if identity not in self.identities))
        if len(identities) > IDENTITIES_MAX or any(len(name) > IDENTITY_BYTES_MAX for _, name in proven):
            return False
        if size_of(identities) > IDENTITIES_BYTES_MAX:
            return False
        self.identities = identities
        return True

    def forget_counts(self) -> None:
        """Reset its figures, as `crst` does."""
        self.received_count = self.sent_count = self.answered_count = self.waited_ms = self.waited_most_ms = 0
        self.waited_least_ms, self.last_answer = NEVER, NO_ANSWER

    def waits_for(self, opcode: int) -> bool:
        """Whether the first waiting request has this opcode."""
        return bool(self.pending) and self.pending[0][1] == opcode

    def take_output(self) -> list[bytes]:
        """Take the output, in order. The host owns it from now on, and counts it in `unsent_bytes`."""
        pieces, self.out, self.out_bytes = self.out, [], 0
        return pieces


class Clients:
    """All connections of this member, by session, and the limits on connecting."""

    def __init__(self, limits: LimitSettings) -> None:
        self.all: dict[ClientConnection, None] = {}
        """All connections in the order of arrival. Sets of connections are dicts, so that a run can be repeated
        exactly."""
        self.by_session: dict[SessionId, ClientConnection] = {}
        self.dirty: dict[ClientConnection, None] = {}
        """Connections with output, or to be closed, paused or resumed: the host looks at each after a step."""
        self.ending: dict[ClientConnection, None] = {}
        """Connections that are closing, until the end of the turn."""
        self.waiting_words: list[ClientConnection] = []
        """Connections whose four-letter word waits for a look at the surroundings of the process."""
        self._per_host: Counter[str] = Counter()
        self._limits = limits

    def admit(self, connection: ClientConnection) -> bool:
        """Add a new connection. False: a limit is reached, and it is to be closed at once."""
        assert not connection.is_ours
        if (
            0 < self._limits.max_connections <= len(self.all)
            or 0 < self._limits.max_connections_per_address <= self._per_host[connection.host]
        ):
            self.close(connection)
            return False
        connection.is_ours = True
        self.all[connection] = None
        self._per_host[connection.host] += 1
        return True

    def attach(self, connection: ClientConnection, session: SessionId) -> None:
        """Serve the session on this connection from now on; close an older connection of it here."""
        older = self.by_session.get(session)
        if older is not None and older is not connection:
            self.close(older)
        connection.session = session
        self.by_session[session] = connection

    def send(self, connection: ClientConnection, frame: bytes) -> None:
        """Append a frame to the output, unless the connection is closing."""
        if not connection.closing:
            connection.out.append(frame)
            connection.out_bytes += len(frame)
            self.dirty[connection] = None

    def close(self, connection: ClientConnection, how: Closing = Closing.AT_ONCE) -> None:
        """End a connection; it is cleaned up at the end of the turn (`reap`)."""
        if how > connection.closing:
            connection.closing = how
            self.dirty[connection] = None
            if connection.is_ours:
                self.ending[connection] = None

    def hold(self, connection: ClientConnection, reason: Hold) -> None:
        """Stop reading from a connection."""
        connection.holds |= reason
        connection.paused = True
        self.dirty[connection] = None

    def release(self, connection: ClientConnection, reason: Hold) -> None:
        """Remove a reason; without any other, the connection is read from again."""
        connection.holds &= ~reason
        connection.paused = bool(connection.holds)
        self.dirty[connection] = None

    def close_all(self, how: Closing = Closing.AT_ONCE) -> None:
        for connection in self.all:
            self.close(connection, how)

    def reap(self) -> Iterator[ClientConnection]:
        """Forget a slice of the closing connections, and yield each."""
        for connection in list(islice(self.ending, ENDED)):
            del self.ending[connection]
            connection.is_ours = False
            del self.all[connection]
            self._per_host[connection.host] -= 1
            if not self._per_host[connection.host]:
                del self._per_host[connection.host]
            if self.by_session.get(connection.session) is connection:
                del self.by_session[connection.session]
            yield connection
