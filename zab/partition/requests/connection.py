"""The clients of a broker: a `ClientConnection` for each socket, and the line of its answers.

Requests of one connection are answered in the order in which they came, also when a later one is ready first. So each
request that is to be answered has a place in a line, and what is ready leaves it from the front.

While a request waits, the next one is held and not looked at, as in Kafka: so a connection has one fetch or one join
that waits, however many it sends. Produces are the exception, since producers have several under way.

Limits:
    WAITING_MAX         requests of a connection that wait for their answer: above it, it is not read from
    HELD_BYTES_MAX      bytes of requests that are held: likewise
    UNSENT_BYTES_MAX    answers that its socket has not taken: likewise. Parts of files count, and need no memory
    request_bytes_max   one request: a longer one closes the connection before anything of it is kept

Not here: sockets; what a request means (`dispatch`); the limit on what all connections have sent
(`zab.wire.input_limits`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from enum import IntEnum
from typing import TypeAlias

import attrs

from zab.partition.access.logins import Login
from zab.partition.access.principals import ANONYMOUS
from zab.wire.file_slice import FileSlice
from zab.wire.frames import FrameReader

WAITING_MAX = 1000
HELD_BYTES_MAX = 64 << 10
UNSENT_BYTES_MAX = 1 << 20

Piece: TypeAlias = bytes | FileSlice


class Closing(IntEnum):
    """Whether, and how, a connection ends."""

    NO = 0
    FLUSHED = 1
    """Once its answers are sent."""
    AT_ONCE = 2


@attrs.define(eq=False)
class Place:
    """The place of one request in the line of its connection."""

    pieces: Sequence[Piece] | None = None
    """The answer; None: it is not ready. Without pieces: there is none, as for a produce with acks=0."""


@attrs.define(eq=False, repr=False)
class ClientConnection:
    """One client socket, as the pure part of the broker sees it."""

    id: int
    """Never reused while the process runs."""
    host: str
    """The numeric address of the client."""
    port: int
    listener: str
    """The name of the listener that it came through: what it is told to connect to is that listener's."""
    frames: FrameReader
    principal: str = ANONYMOUS
    """The identity that it speaks for."""
    told_refusals: set[Hashable] = attrs.Factory(set)
    """What it may not do and tried, as far as that is told (`permissions`)."""
    login: Login | None = None
    """Its login; None: its listener has none."""
    heard_at: int = 0
    """When something came last (monotonic ms)."""
    line: deque[Place] = attrs.Factory(deque)
    held: deque[bytes] = attrs.Factory(deque)
    """Requests that wait until one before them is answered."""
    held_bytes: int = 0
    large_frame_bytes: int = 0
    """The size of the large request that has begun, if there is one (`zab.wire.large_frames`)."""
    waits_for_room: bool = False
    """There is no room for it yet (`zab.wire.input_limits`)."""
    muted_until: int = 0
    """Nothing of it is looked at before (monotonic ms): its client has used more than its quota."""
    is_muted: bool = False
    waits_for: Place | None = None
    """The last request that holds up the next ones."""
    out: list[Piece] = attrs.Factory(list)
    out_bytes: int = 0
    """Bytes in `out`."""
    unsent_bytes: int = 0
    """Bytes that the host took from `out` and has not sent yet; set by the host."""
    closing: Closing = Closing.NO
    reason: str = ""
    """Why the broker closes it."""
    broker_id: int | None = None
    """The broker at its other end, which has proven who it is; None: a client."""

    @property
    def paused(self) -> bool:
        """Whether the host must not read from it."""
        has_too_much = len(self.line) >= WAITING_MAX or self.held_bytes > HELD_BYTES_MAX
        return (
            has_too_much
            or self.is_muted
            or self.waits_for_room
            or self.out_bytes + self.unsent_bytes > UNSENT_BYTES_MAX
        )

    @property
    def is_held_up(self) -> bool:
        """Whether a request waits before which the next one is not looked at, or its client has to wait."""
        return self.is_muted or (self.waits_for is not None and self.waits_for.pieces is None)

    @property
    def awaits_login(self) -> bool:
        """Whether it must log in before it is served."""
        return self.login is not None and not self.login.is_done

    def next_key(self) -> int:
        """The API key of the next request, which is held."""
        return key_of(self.held[0])

    def hold(self, payloads: Sequence[bytes]) -> None:
        """These requests have come."""
        self.held += payloads
        self.held_bytes += sum(map(len, payloads))

    def take_next(self) -> bytes | None:
        """The next request, unless it is held up."""
        if not self.held or self.is_held_up:
            return None
        payload = self.held.popleft()
        self.held_bytes -= len(payload)
        return payload

    def take_output(self) -> list[Piece]:
        """Empty `out`; the caller owns what was in it."""
        pieces, self.out, self.out_bytes = self.out, [], 0
        return pieces

    def take_place(self) -> Place:
        """A place for the request that has just come."""
        place = Place()
        self.line.append(place)
        return place

    def let_out(self) -> bool:
        """Move the answers that are ready, up to the first that is not, to the output. True: there are any."""
        line, had = self.line, len(self.out)
        while line and line[0].pieces is not None:
            for piece in line.popleft().pieces or ():
                self.out.append(piece)
                self.out_bytes += len(piece)
        return len(self.out) > had

    def has_slices_of(self, name: str) -> bool:
        """Whether an answer that waits in the line has parts of this file, or of files in this directory."""
        pieces = (piece for place in self.line for piece in place.pieces or ())
        return any(isinstance(piece, FileSlice) and f"{piece.path}/".startswith(f"{name}/") for piece in pieces)

    def close(self, how: Closing, reason: str = "") -> None:
        """End it; a second call can only end it sooner."""
        self.reason = self.reason or reason
        self.closing = max(self.closing, how)
        if how is Closing.AT_ONCE:
            self.line.clear()


def key_of(payload: bytes) -> int:
    """The API key of a request; what is too short for one has a key that nobody serves."""
    return int.from_bytes(payload[:2], "big", signed=True)
