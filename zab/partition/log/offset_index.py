"""The offset index of a segment: where in the file a batch is.

Entries of 8 bytes, big-endian, no header and no checksum:

    i32  last offset of a batch, less the base offset of the segment
    i32  position of this batch in the log file

Both ascend strictly. There is an entry for a batch when more than `index.interval.bytes` were appended since the last
one, so the first batch has none. A look-up takes the greatest entry at or below the offset, and goes on from there in
the log file. Kafka's own files have zeros at their end while a segment is active; they are skipped.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt

ENTRY_BYTES = 8
RELATIVE_MAX = (1 << 31) - 1
"""The largest offset in a segment, less its base offset."""


class IndexDamagedError(Exception):
    """The file is no index of this segment: rebuild it from the log."""


class OffsetIndex:
    """The entries of one segment, in memory."""

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(relative last offset, position), ascending."""
        return list(zip(self._offsets, self._positions, strict=True))

    @property
    def size_bytes(self) -> int:
        """The size of its file."""
        return len(self._offsets) * ENTRY_BYTES

    def add(self, relative_last_offset: int, position: int) -> None:
        """Note the batch at this position."""
        assert not self._offsets or (relative_last_offset > self._offsets[-1] and position > self._positions[-1])
        self._offsets.append(relative_last_offset)
        self._positions.append(position)

    def floor(self, relative_offset: int) -> int:
        """The position of the last batch known to end at or below this offset; 0 if there is none."""
        at = bisect_right(self._offsets, relative_offset)
        return self._positions[at - 1] if at else 0

    def floor_position(self, position: int) -> int:
        """The greatest position of an entry at or below this one; 0 if there is none."""
        at = bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    def first_from(self, position: int) -> int | None:
        """The relative last offset of the first entry at or above this position."""
        at = bisect_left(self._positions, position)
        return self._offsets[at] if at < len(self._offsets) else None

    def truncate(self, position: int) -> None:
        """The log file ends at this position now."""
        at = bisect_left(self._positions, position)
        del self._offsets[at:], self._positions[at:]

    def pack(self) -> bytes:
        """The content of its file."""
        data = array("i", bytes(self.size_bytes))
        data[::2] = self._offsets
        data[1::2] = self._positions
        return swapped(data).tobytes()

    @classmethod
    def parse(cls, data: bytes, log_bytes: int) -> OffsetIndex:
        """Read the file of a segment whose log file has `log_bytes`. Raises IndexDamagedError."""
        if len(data) % ENTRY_BYTES:
            raise IndexDamagedError(f"{len(data)} bytes are not whole entries")
        index = cls()
        index._fill(swapped(array("i", data)))
        offsets, positions = index._offsets, index._positions
        if not all(map(lt, offsets, islice(offsets, 1, None))):
            raise IndexDamagedError("the offsets do not ascend")
        if not all(map(lt, positions, islice(positions, 1, None))):
            raise IndexDamagedError("the positions do not ascend")
        if offsets and (offsets[0] < 0 or positions[0] < 0 or positions[-1] >= log_bytes):
            raise IndexDamagedError(f"an entry points outside of a log file of {log_bytes} bytes")
        return index

    def _fill(self, numbers: array[int]) -> None:
        self._offsets, self._positions = numbers[::2], numbers[1::2]
        while self._offsets and not self._offsets[-1] and not self._positions[-1]:
            # Of zeros at the end, not one is an entry: a batch at position 0 has none.
            del self._offsets[-1], self._positions[-1]


def swapped(numbers: array[int]) -> array[int]:
    """From or to big-endian."""
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


assert array("i").itemsize * 2 == ENTRY_BYTES
