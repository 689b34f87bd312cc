"""The clients of a bookie: a `BookieConnection` for each socket.

Requests of one connection are given to the bookie in the order in which they came; answers leave as they are ready. A
request that may not go on yet is held, with all that follow it, and the connection is not read from until it goes on:

    an add          while the bookie takes none (`Effects.takes_adds`), or `ADDS_MAX` of this connection are under way
    anything else   while `READS_MAX` of this connection are under way, or its client takes no answers, or those that
                    are under way will probably have more bytes than may wait for it: as its last answers had

So a client is slowed down by its socket, and is not refused.

Limits:
    ADDS_MAX            adds of a connection that are not answered
    READS_MAX           other requests of a connection that are not answered
    maxUnsentBytes      answers that its socket has not taken (a setting)

Not here: sockets; what a request means (`zab.ledger.bookie`); the limits on all connections (`turn`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import attrs

from zab.ledger.wire.codec import Decoded
from zab.ledger.wire.tls_start import BookieStart
from zab.wire.frames import FrameReader

ADDS_MAX: Final = 50_000
READS_MAX: Final = 1_000
ANSWER_BYTES_MIN: Final = 1024


class Closing(IntEnum):
    """Whether, and how, a connection ends."""

    NO = 0
    AT_ONCE = 1


@attrs.define(eq=False, repr=False)
class BookieConnection:
    """One client socket."""

    host: str
    """The numeric address of the client."""
    port: int
    frames: FrameReader
    unsent_bytes_max: int
    tls_start: BookieStart | None = None
    """What it may say in clear; None: there is no TLS here, or the connection is within it."""
    held: deque[Decoded] = attrs.Factory(deque)
    """Requests that may not go on yet."""
    held_bytes: int = 0
    adds: int = 0
    """Adds that are under way."""
    reads: int = 0
    """Other requests that are under way."""
    answer_bytes: int = ANSWER_BYTES_MIN
    """How large its answers probably are: as the largest of the last ones was."""
    large_frame_bytes: int = 0
    """The size of the large frame that has begun, if there is one (`zab.wire.large_frames`)."""
    waits_for_room: bool = False
    """There is no room for it yet (`zab.wire.input_limits`)."""
    out: list[bytes] = attrs.Factory(list)
    out_bytes: int = 0
    """Bytes in `out`."""
    unsent_bytes: int = 0
    """Bytes that the host took from `out` and has not sent yet; set by the host."""
    closing: Closing = Closing.NO

    @property
    def is_slow(self) -> bool:
        """Whether its client does not take its answers."""
        return self.out_bytes + self.unsent_bytes > self.unsent_bytes_max

    def reads_max(self) -> int:
        """How many requests that are no adds may be under way: at least one, unless it takes no answers."""
        room = self.unsent_bytes_max - self.out_bytes - self.unsent_bytes
        return 0 if room < 0 else min(READS_MAX, max(1, room // self.answer_bytes))

    def say(self, pieces: Sequence[bytes]) -> None:
        """Put an answer into the output."""
        size = 0
        for piece in pieces:
            size += len(piece)
        self.out += pieces
        self.out_bytes += size
        expected = self.answer_bytes
        self.answer_bytes = size if size > expected else max(ANSWER_BYTES_MIN, expected - (expected - size >> 3))

    @property
    def paused(self) -> bool:
        """Whether the host must not read from it."""
        return bool(self.held) or self.waits_for_room or self.is_slow

    def take_output(self) -> list[bytes]:
        """Empty `out`; the caller owns what was in it."""
        pieces, self.out, self.out_bytes = self.out, [], 0
        return pieces
