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

Limit: the payload of one frame. A longer frame, or a length below 0, is refused as soon as its length is there. A
reader may pass over frames that are too long, up to another limit: of each comes out a `Cut`, as soon as its first
bytes are there, and the others are dropped as they come.

Not here: what a payload means.
"""

from struct import Struct
from typing import Final

LENGTH: Final = Struct(">i")
LENGTH_BYTES: Final = 4
GREETING_BYTES_MAX: Final = 4096
"""The limit for the first frame of a connection, which says who speaks: of a server, or of a client."""

CUT_HEAD_BYTES: Final = 4
CUT_FIRST_BYTE_MAX: Final = 0x7F
"""A frame that begins with more, as a negative number does, is refused and never cut."""
CUT_MARK: Final = b"\x80\x00\x00\x00"

_read_length: Final = LENGTH.unpack_from


class Cut(bytes):
    """Stands for a payload that was too long: its first four bytes, then `CUT_MARK`."""

    __slots__ = ()


class FrameError(Exception):
    """The other side announced a frame that cannot be. `frames` are the good ones before it, not yet returned."""

    def __init__(self, length: int, frame_bytes_max: int, frames: list[bytes]) -> None:
        super().__init__(f"frame length {length} is not in 0..{frame_bytes_max}")
        self.length = length
        self.frames = frames


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts the bytes of one connection. The limit may be changed between two calls."""

    __slots__ = ("_cut_bytes_max", "_dropping", "_kept", "_needed", "frame_bytes_max")

    def __init__(self, frame_bytes_max: int, cut_bytes_max: int = 0) -> None:
        """`cut_bytes_max`: a longer frame than that is refused, one between the two limits is cut."""
        assert frame_bytes_max > 0
        self.frame_bytes_max = frame_bytes_max
        self._cut_bytes_max = cut_bytes_max
        self._dropping = 0
        """Bytes still to come of a frame that is too long."""
        # Bytes in no frame yet; whether they are one is worth a look once there are `_needed` of them.
        self._kept = bytearray()
        self._needed = 0

    @property
    def kept_bytes(self) -> int:
        """How many bytes `rest` has."""
        return len(self._kept)

    def rest(self) -> bytes:
        """The bytes that were fed and are in no frame yet."""
        return bytes(self._kept)

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of the frames that `data` completes, in order. Raises FrameError: feed it nothing after that."""
        if self._dropping:
            dropped = min(self._dropping, len(data))
            self._dropping -= dropped
            data = data[dropped:]
        kept = self._kept
        if kept:
            kept += data
            if len(kept) < self._needed:
                return []
            data = bytes(kept)
            kept.clear()
        frames: list[bytes] = []
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
                if not limit < length <= self._cut_bytes_max:
                    raise FrameError(length, limit, frames)
                if start + CUT_HEAD_BYTES > size:
                    self._needed = LENGTH_BYTES + CUT_HEAD_BYTES
                    break
                if data[start] > CUT_FIRST_BYTE_MAX:
                    raise FrameError(length, limit, frames)
                frames.append(Cut(data[start : start + CUT_HEAD_BYTES] + CUT_MARK))
                self._dropping = max(0, end - size)
                at = min(end, size)
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
