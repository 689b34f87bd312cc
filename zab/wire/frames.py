"""Frames: how a stream of bytes is cut into payloads. Clients and servers of all services use the same.

Format: a length, 4 bytes, big-endian and signed, then that many bytes of payload.

    feed(data)          every frame that the bytes complete
    feed_one(data)      at most one frame: for a first frame that decides about what follows it
    rest()              what was fed and is in no frame yet

Invariants:
- What comes out does not depend on how the bytes were cut on their way: fed whole or byte by byte, the frames are the
  same, and a bad length ends the stream after the same frame.
- `feed` keeps no more than one unfinished frame, so at most limit + 3 bytes, and keeping it costs time in proportion
  to the bytes that arrive, however small the pieces.

Limits: the payload of one frame. A length below 0 is refused as soon as it is there, and so is a longer frame, unless
the reader was given somebody who may take it (`LongFrames`), up to `LONG_BYTES_MAX`: he is asked when its first bytes
are there, gets its bytes as they come, and makes frames of them.

Not here: what a payload means.
"""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, TypeAlias

LENGTH: Final = Struct(">i")
LENGTH_BYTES: Final = 4
GREETING_BYTES_MAX: Final = 4096
"""The limit for the first frame of a connection, which says who speaks: of a server, or of a client."""

LONG_HEAD_BYTES: Final = 8
LONG_BYTES_MAX: Final = 1 << 28
"""No frame is longer, whoever takes it: letters that stand where a length should be are refused at once."""

_read_length: Final = LENGTH.unpack_from


class FrameError(Exception):
    """The other side announced a frame that cannot be. `frames` are the good ones before it, not yet returned."""

    def __init__(self, length: int, frame_bytes_max: int, frames: list[bytes]) -> None:
        super().__init__(f"frame length {length} is not in 0..{frame_bytes_max}")
        self.length = length
        self.frames = frames


class LongFrame(Protocol):
    """A frame that is too long, which somebody takes as it comes."""

    @property
    def kept_bytes(self) -> int:
        """How many of its bytes are in no frame yet."""

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that these next bytes of its payload complete. Raises FrameError."""


LongFrames: TypeAlias = Callable[[bytes, int], LongFrame | None]
"""Who takes a frame with these first `LONG_HEAD_BYTES` and of this length; they are fed with the rest. None: nobody."""


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts the bytes of one connection. The limit may be changed between two calls."""

    __slots__ = ("_kept", "_long", "_long_frames", "_long_left", "_needed", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int, long_frames: LongFrames | None = None) -> None:
        assert frame_bytes_max > 0
        self.frame_bytes_max = frame_bytes_max
        self._long_frames = long_frames
        self._long: LongFrame | None = None
        self._long_left = 0
        """Bytes still to come of a frame that is too long."""
        # Bytes in no frame yet; whether they are one is worth a look once there are `_needed` of them.
        self._kept = bytearray()
        self._needed = 0

    @property
    def kept_bytes(self) -> int:
        """How many bytes were fed and are in no frame yet."""
        return len(self._kept) if self._long is None else self._long.kept_bytes

    @property
    def wanted_bytes(self) -> int:
        """How many bytes that are in no frame yet there are to be, as far as that is known: of a frame that is not too
        long, all of it, with its length."""
        return self._needed if self._kept else 0

    def rest(self) -> bytes:
        """The bytes that were fed and are in no frame yet, between two frames or in one that is not too long."""
        return bytes(self._kept)

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of the frames that `data` completes, in order. Raises FrameError: feed it nothing after that."""
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
        """How many of these bytes belong to the frame that is too long. What comes of them is added to the frames."""
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
        """The payload of the first frame, None before it is complete. What follows it is kept. Raises FrameError."""
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
