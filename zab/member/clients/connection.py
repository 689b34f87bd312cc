"""The clients of this member: one `ClientConnection` for each socket, and `Clients`, the table of all of them.

A connection is plain state. What may happen to it depends on its stage:

    GREETING      nothing has come yet, except perhaps part of a ConnectRequest or of a four-letter word
    CONNECTING    its session is being created, or checked by the leader; what comes meanwhile is held back
    SERVED        it has a session: requests are answered
    (closing)     in any stage: nothing is read or written any more, and at the end of the turn it is forgotten

Output is one list, in the order of the steps that wrote it: replies, watch events and the answer to the handshake are
never reordered (A1 output order). The host sends it at the end of the turn and keeps what the socket did not take; it
says how much that is in `unsent_bytes`.

Limits, and what happens there:
    output_limit_bytes      unsent output of a connection: it is not read from; at twice that it is closed
    max_client_connections  connections from one address: further ones are closed at once
    max_connections         connections in total: likewise
    GREETING_BYTES_MAX      the first frame, a ConnectRequest: a longer one closes the connection
    IDENTITIES_MAX          identities of a connection: a further one is refused with AUTHFAILED
    IDENTITIES_BYTES_MAX    bytes of all of them, schemes and ids: likewise

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
"""A request in its place: xid, opcode, its frame, and when it came. A write's frame is empty: it is on its way."""


LastAnswer: TypeAlias = tuple[int, int, int, int, int]
"""Of a request: its opcode, its xid, the zxid of its reply, when that was (monotonic ms), how long it waited (ms)."""

NO_ANSWER: Final[LastAnswer] = (0, -1, -1, 0, 0)
NEVER: Final = (1 << 63) - 1
"""The least of no values."""

IDENTITIES_MAX = 64
IDENTITY_BYTES_MAX = 4096
"""What a forwarded write may carry (`zab.protocol.message`); each write carries all identities of its connection."""
IDENTITIES_BYTES_MAX = 8 << 10
"""Of all together: room for the longest one beside the others that a client needs. A connection keeps no more, and a
write of a few bytes becomes no more on the way to the leader."""


def size_of(identities: Iterable[Identity]) -> int:
    """Of all of them, in bytes."""
    return sum(len(scheme) + len(name) for scheme, name in identities)


class Stage(Enum):
    """How far a connection has come."""

    GREETING = "greeting"
    CONNECTING = "connecting"
    SERVED = "served"


class Closing(IntEnum):
    """Whether, and how, a connection ends."""

    NO = 0
    FLUSHED = 1
    """Once its output is sent."""
    AT_ONCE = 2


class Hold(IntFlag):
    """Why a connection is not read from; with none of them it is."""

    NONE = 0
    CONNECTING = 1
    """Its session is not there yet."""
    LOAD = 2
    """Too many requests are in process, and some of them are its own."""
    OUTPUT = 4
    """It has too much unsent output."""
    THROTTLED = 8
    """A request of it waits in front of the processor."""
    WORK = 16
    """What it asked for did not find room in its turn."""
    ROOM = 32
    """It has begun a large request, and others have the room for it (`zab.member.requests.large_frames`)."""


@attrs.define(eq=False, repr=False)
class ClientConnection:
    """One client socket, as the pure part of the server sees it. The host makes it and gives it to the member."""

    id: int
    """Never reused in a process run."""
    host: str
    """The numeric address of the client."""
    port: int
    frames: FrameReader
    out: list[bytes] = attrs.Factory(list)
    out_bytes: int = 0
    """Bytes in `out`."""
    unsent_bytes: int = 0
    """What the host took out of `out` and the socket did not take yet; the host sets it."""
    closing: Closing = Closing.NO
    holds: Hold = Hold.NONE
    is_ours: bool = False
    """Counted in `Clients`."""

    stage: Stage = Stage.GREETING
    session: SessionId = NO_SESSION
    timeout_ms: int = 0
    """Negotiated on this connection."""
    is_local: bool = False
    """This member alone knows its session (`local_sessions`)."""
    has_read_only_byte: bool = True
    """Clients older than 3.4 send none in their ConnectRequest, and get none back."""
    is_of_keeper: bool = False
    """Its client knows ClickHouse Keeper's operations: it has asked which there are here, or for one of its reads."""
    identities: tuple[Identity, ...] = ()
    sasl_nonce: bytes | None = b""
    """The nonce of the login by SASL that is under way; empty before it, None after it."""
    login: Login | None = None
    """Of Kerberos, from its first token on (`zab.member.clients.kerberos.Login`)."""
    is_login_stepping: bool = False
    """A worker has a token of it."""
    held: list[bytes] = attrs.Factory(list)
    """Frames that came before the session was there, or for which their turn had no room."""
    pending: deque[Waiting] = attrs.Factory(deque)
    """Requests in their order, from the oldest write (or sync) that is under way on."""
    asked_bytes: int = 0
    """Of these when they were counted last, and of what has come since (`zab.member.requests.limits`)."""
    large_frame_bytes: int = 0
    """Of the large request that has begun, if there is one (`zab.member.requests.large_frames`)."""
    answering: Generator[None, None, bytes] | None = None
    """What is left of an answer that takes more than a slice: of the first request in `pending`, or of a four-letter
    word."""
    answering_zxid: int = 0
    """If it is not 0: of the state that this answer tells."""
    later: list[bytes] = attrs.Factory(list)
    """Watch events that wait for that."""
    later_bytes: int = 0
    sync_tags: deque[int] = attrs.Factory(deque)
    """The tags of the syncs in `pending`, in their order."""
    fence: int = 0
    """Transactions up to this zxid were proposed before the session came here: they answer an earlier connection."""
    idle_ticks: int = 0
    """Ticks since something came."""

    established: int = 0
    """When it came (wall clock, ms)."""
    received_count: int = 0
    sent_count: int = 0
    last_answer: LastAnswer = NO_ANSWER
    answered_count: int = 0
    """Requests that `waited_ms` is the sum of; the least and the largest of them are the two after it."""
    waited_ms: int = 0
    waited_least_ms: int = NEVER
    waited_most_ms: int = 0

    def __attrs_post_init__(self) -> None:
        self.identify((b"ip", self.host.encode()))

    def __repr__(self) -> str:
        return f"<client {self.id} of {self.host}:{self.port}, session {self.session:#x}, {self.stage.value}>"

    def first_cut(self, data: bytes) -> list[bytes]:
        """The frames that these bytes of a greeting complete. Raises FrameError. The first one is short: no more is
        kept of somebody who has not said who he is."""
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
        """Add identities for the life of the connection; False: none, as one is too long, or they would be too many or
        too long together, to be forwarded."""
        identities = (*self.identities, *(identity for identity in proven if identity not in self.identities))
        if len(identities) > IDENTITIES_MAX or any(len(name) > IDENTITY_BYTES_MAX for _, name in proven):
            return False
        if size_of(identities) > IDENTITIES_BYTES_MAX:
            return False
        self.identities = identities
        return True

    @property
    def paused(self) -> bool:
        """Whether the host must not read from it, until a later step says otherwise."""
        return self.holds != Hold.NONE

    def forget_counts(self) -> None:
        """`crst`: as if it had come now."""
        self.received_count = self.sent_count = self.answered_count = self.waited_ms = self.waited_most_ms = 0
        self.waited_least_ms, self.last_answer = NEVER, NO_ANSWER

    def waits_for(self, opcode: int) -> bool:
        """Whether the first request that waits is one of these."""
        return bool(self.pending) and self.pending[0][1] == opcode

    def take_output(self) -> list[bytes]:
        """What is to be sent, in order; the host owns it from now on, and counts it in `unsent_bytes`."""
        pieces, self.out, self.out_bytes = self.out, [], 0
        return pieces


class Clients:
    """All connections of this member, which of them serves which session, and the limits."""

    def __init__(self, limits: LimitSettings) -> None:
        self.all: dict[ClientConnection, None] = {}
        """In the order in which they came: sets of connections are dicts, so that a run can be repeated exactly."""
        self.by_session: dict[SessionId, ClientConnection] = {}
        self.dirty: dict[ClientConnection, None] = {}
        """Connections with output, or to be closed, paused or read from again: the host looks at each after a step."""
        self.ending: dict[ClientConnection, None] = {}
        """Those that are closing, until the end of the turn."""
        self.waiting_words: list[ClientConnection] = []
        """Those whose four-letter word is answered once the surroundings were looked at."""
        self._per_host: Counter[str] = Counter()
        self._limits = limits

    def admit(self, connection: ClientConnection) -> bool:
        """Count a new connection in; False: a limit is reached and it is to be closed at once."""
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
        """The session is served on this connection from now on; an older connection of it here is closed."""
        older = self.by_session.get(session)
        if older is not None and older is not connection:
            self.close(older)
        connection.session = session
        self.by_session[session] = connection

    def send(self, connection: ClientConnection, frame: bytes) -> None:
        """Append one frame to the output. A connection that is closing takes nothing more."""
        if not connection.closing:
            connection.out.append(frame)
            connection.out_bytes += len(frame)
            self.dirty[connection] = None

    def close(self, connection: ClientConnection, how: Closing = Closing.AT_ONCE) -> None:
        """End a connection; what it has taken part in is undone at the end of the turn (`reap`)."""
        if how > connection.closing:
            connection.closing = how
            self.dirty[connection] = None
            if connection.is_ours:
                self.ending[connection] = None

    def hold(self, connection: ClientConnection, reason: Hold) -> None:
        """Stop reading from a connection."""
        connection.holds |= reason
        self.dirty[connection] = None

    def release(self, connection: ClientConnection, reason: Hold) -> None:
        """Take one reason away; without any other it is read from again."""
        connection.holds &= ~reason
        self.dirty[connection] = None

    def close_all(self, how: Closing = Closing.AT_ONCE) -> None:
        for connection in self.all:
            self.close(connection, how)

    def reap(self) -> Iterator[ClientConnection]:
        """Forget a slice of the connections that are closing; each comes out once."""
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
