"""Frames: how a stream of bytes is cut into messages, in both directions of a client connection.

Format:

    frame           length int (big-endian), then that many bytes of payload
    request         the first frame of a client is its ConnectRequest (`zab.jute.handshake`); every other one is
                    xid int, opcode int, body (`datatree.requests`)
    reply           the first frame of a server is its ConnectResponse; every other one is
                    xid int, zxid long, error int, body (`zab.jute.replies`)
    special xids    -1 notification, -2 ping, -4 auth, -8 setWatches; -16 and below: getChanges, which is ours, each
                    with one of its own, since it is answered when there is something to tell; those of other requests
                    count up from 1

Exception: a connection whose first four bytes are one of the four-letter words carries text. They are looked for at
that place only; later the same bytes are an impossible length.

Invariants:
- What comes out does not depend on how the bytes were cut on their way: fed whole or byte by byte, the frames are the
  same, and a bad length ends the connection behind the same frame.
- No more is kept than one unfinished frame, so at most limit + 3 bytes, and keeping it costs time in proportion to the
  bytes that arrive, however small the pieces.

Limit: `frame_bytes_max`, the payload of one frame. ZooKeeper's `jute.maxbuffer`: 1,048,575 bytes by default. A length
above it, or below 0, ends the connection.

Deliberately not here: what the payload means, the answers to four-letter words, and what is allowed of them.
"""

from struct import Struct
from typing import Final

__all__ = [
    "AUTH_XID",
    "CHANGES_XID_MAX",
    "FOUR_LETTER_WORDS",
    "FRAME_BYTES_MAX",
    "NOTIFICATION_XID",
    "PING_XID",
    "REQUEST_HEADER",
    "SET_WATCHES_XID",
    "FrameError",
    "FrameReader",
    "frame",
    "request_frame",
]

FRAME_BYTES_MAX: Final = 0xFFFFF

NOTIFICATION_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8
CHANGES_XID_MAX: Final = -16

# xid, opcode: the first 8 bytes of a request's payload.
REQUEST_HEADER: Final = Struct(">ii")

FOUR_LETTER_WORDS: Final = frozenset(
    b"conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs".split()
)

LENGTH: Final = Struct(">i")
LENGTH_BYTES: Final = 4
_REQUEST: Final = Struct(">iii")

read_length: Final = LENGTH.unpack_from


class FrameError(Exception):
    """The peer announced a frame that cannot be. `frames` are the good ones in front of it, not yet returned."""

    def __init__(self, length: int, frame_bytes_max: int, frames: list[bytes]) -> None:
        super().__init__(f"frame length {length} is not in 0..{frame_bytes_max}")
        self.length = length
        self.frames = frames


def frame(payload: bytes) -> bytes:
    """The payload with its length in front."""
    return LENGTH.pack(len(payload)) + payload


def request_frame(xid: int, opcode: int, body: bytes) -> bytes:
    """The frame of one request, ready to be sent."""
    return _REQUEST.pack(8 + len(body), xid, opcode) + body


class FrameReader:
    """Cuts the bytes of one connection into payloads. A server passes its four-letter words, a client none.

    When the first four bytes are one of `words`, `word` is set to it and everything behind them is dropped.
    """

    __slots__ = ("_kept", "_needed", "_words", "frame_bytes_max", "word")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX, words: frozenset[bytes] = frozenset()) -> None:
        assert frame_bytes_max > 0
        self.frame_bytes_max = frame_bytes_max
        self.word: bytes | None = None
        self._words = words
        # The start of a frame that is not complete; complete once there are `_needed` bytes of it.
        self._kept = bytearray()
        self._needed = 0

    @property
    def kept_bytes(self) -> int:
        """Bytes held of a frame that is not complete."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of the frames that `data` completes, in order. Raises FrameError: feed it nothing after that."""
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._needed:
                return []
            data = bytes(kept)
            kept.clear()
        if self._words and not self._is_binary(data):
            return []
        frames: list[bytes] = []
        at = 0
        limit = self.frame_bytes_max
        size = len(data)
        last = size - LENGTH_BYTES
        self._needed = LENGTH_BYTES
        while at <= last:
            (length,) = read_length(data, at)
            if not 0 <= length <= limit:
                raise FrameError(length, limit, frames)
            start = at + LENGTH_BYTES
            end = start + length
            if end > size:
                self._needed = LENGTH_BYTES + length
                break
            frames.append(data[start:end])
            at = end
        if at < size:
            kept += data[at:] if at else data
            assert len(kept) < self._needed
        return frames

    def _is_binary(self, data: bytes) -> bool:
        """Whether the connection carries frames, as far as `data`, its beginning, tells; decided once."""
        if self.word is not None:
            return False
        if len(data) < LENGTH_BYTES:
            self._kept += data
            self._needed = LENGTH_BYTES
            return False
        first = data[:LENGTH_BYTES]
        if first in self._words:
            self.word = first
            return False
        self._words = frozenset()
        return True
