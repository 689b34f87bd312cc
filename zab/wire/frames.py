"""Frames: how a byte stream is cut into payloads. Clients and servers of all services use the same format.

Format: a length, 4 bytes, big-endian and signed, then that many bytes of payload.

    feed(data)          every frame that the bytes complete
    feed_one(data)      at most one frame: for a first frame that decides how to read what follows
    rest()              what was fed but is in no frame yet

Invariants:
- The result does not depend on how the bytes were split on their way: fed whole or byte by byte, the frames are the
  same, and a bad length ends the stream after the same frame.
- `feed` keeps at most one unfinished frame, so at most limit + 3 bytes, and takes time proportional to the bytes that
  arrive, however small the pieces.

Limits: the payload of one frame. A length below 0 is refused as soon as it arrives, and so is a frame above the limit,
unless `LongFrames` accepts it, up to `LONG_BYTES_MAX`: the reader asks it once the frame's first bytes are there, and
feeds it the payload as it arrives; it makes frames of that.

Not here: what a payload means.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, TypeAlias

LENGTH: Final = Struct(">i")
LENGTH_BYTES: Final = 4
GREETING_BYTES_MAX: Final = 4096
"""The limit for the first frame of a connection, in which a server or a client says who it is."""

LONG_HEAD_BYTES: Final = 8
LONG_BYTES_MAX: Final = 1 << 28
"""No frame is longer, even if it is accepted: text where a length should be is refused at once."""

_read_length: Final = LENGTH.unpack_from


class FrameError(Exception):
    """The other side announced a frame of an impossible length. `frames` are the complete ones before it, not yet
    returned."""

    def __init__(self, length: int, frame_bytes_max: int, frames: list[bytes]) -> None:
        super().__init__(f"frame length {length} is not in 0..{frame_bytes_max}")
        self.length = length
        self.frames = frames


class LongFrame(Protocol):
    """A frame above the limit, which is consumed as it arrives."""

    @property
    def kept_bytes(self) -> int:
        """How many of its bytes are in no frame yet."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes of its payload; return the frames that they complete. Raises FrameError."""


LongFrames: TypeAlias = Callable[[bytes, int], LongFrame | None]
"""Accepts, or refuses with None, a frame above the limit, given its first `LONG_HEAD_BYTES` and its length. What it
returns is fed the rest."""


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts the bytes of one connection into frames. The limit may be changed between two calls."""

    __slots__ = ("_kept", "_long", "_long_frames", "_long_left", "_needed", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int, long_frames: LongFrames | None = None) -> None:
        assert frame_bytes_max > 0
        self.frame_bytes_max = frame_bytes_max
        self._long_frames = long_frames
        self._long: LongFrame | None = None
        self._long_left = 0
        """Bytes still to come of a frame above the limit."""
        # Bytes in no frame yet; they cannot complete one before there are `_needed` of them.
        self._kept = bytearray()
        self._needed = 0

    @property
    def kept_bytes(self) -> int:
        """How many bytes were fed but are in no frame yet."""
        return len(self._kept) if self._long is None else self._long.kept_bytes

    @property
    def wanted_bytes(self) -> int:
        """How many bytes the unfinished frame will have, with its length, as far as that is known. A frame above the
        limit does not count."""
        return self._needed if self._kept else 0

    def rest(self) -> bytes:
        """The bytes that were fed but are in no frame yet, between two frames or within one that is not above the
        limit."""
        return bytes(self._kept)

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of the frames that `data` completes, in order. After a FrameError, feed nothing more."""
        frames: list[bytes] = []
        if self._long_left:
            data = data[self._go_on(data, frames) :]
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._needed:
                return frames
            data = bytes(kept)
            kept.clear()
        at = 0
        limit = self.frame_bytes_max
        size = len(data)
        last = size - LENGTH_BYTES
        self._needed = LENGTH_BYTES
        while at <= last:
            (length,) = _read_length(data, at)
            start = at + LENGTH_BYTES
            end = start + length
            if not 0 <= length <= limit:
                if self._long_frames is None or not LONG_HEAD_BYTES <= length <= LONG_BYTES_MAX:
                    raise FrameError(length, limit, frames)
                head = data[start : start + LONG_HEAD_BYTES]
                if len(head) < LONG_HEAD_BYTES:
                    self._needed = LENGTH_BYTES + LONG_HEAD_BYTES
                    break
                self._long, self._long_left = self._long_frames(head, length), length
                if self._long is None:
                    raise FrameError(length, limit, frames)
                at = start + self._go_on(data[start:], frames)
                continue
            if end > size:
                self._needed = LENGTH_BYTES + length
                break
            frames.append(data[start:end])
            at = end
        if at < size:
            kept += data[at:] if at else data
            assert len(kept) < self._needed
        return frames

    def _go_on(self, data: bytes, frames: list[bytes]) -> int:
        """Pass on the bytes that belong to the frame above the limit, and add what they complete to `frames`. Returns
        their number."""
        assert self._long is not None
        part = data[: self._long_left]
        try:
            frames += self._long.feed(part)
        except FrameError as error:
            error.frames[:0] = frames
            raise
        self._long_left -= len(part)
        if not self._long_left:
            self._long = None
        return len(part)

    def feed_one(self, data: bytes) -> bytes | None:
        """The payload of the first frame; None until it is complete. What follows it is kept. Raises FrameError."""
        kept = self._kept
        kept += data
        self._needed = LENGTH_BYTES
        if len(kept) < LENGTH_BYTES:
            return None
        (length,) = _read_length(kept)
        if not 0 <= length <= self.frame_bytes_max:
            raise FrameError(length, self.frame_bytes_max, [])
        end = LENGTH_BYTES + length
        if len(kept) < end:
            self._needed = end
            return None
        payload = bytes(kept[LENGTH_BYTES:end])
        del kept[:end]
        return payload
