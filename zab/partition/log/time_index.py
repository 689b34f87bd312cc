"""The time index of a segment: which offset was reached when.

Entries of 12 bytes, big-endian, no header and no checksum:

    i64  the largest timestamp so far, ms
    i32  last offset of the batch that reached it first, less the base offset of the segment

Both ascend strictly. An entry is added with each entry of the offset index, if there is a larger timestamp. The last
entry of a segment that is not active any more is its largest timestamp. Zeros at the end are skipped.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import lt
from struct import Struct

from zab.partition.log.offset_index import IndexDamagedError, swapped

_ENTRY = Struct(">qi")
ENTRY_BYTES = _ENTRY.size
_NO_ENTRY = bytes(ENTRY_BYTES)
_HIGH, _LOW = 0, 1
"""The words of an entry: the two of a timestamp, and the offset."""
_HIGH_WORD = 1 if sys.byteorder == "little" else 0
"""Which word of a timestamp in memory is the high one."""


class TimeIndex:
    """The entries of one segment, in memory."""

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(timestamp, relative last offset), ascending."""
        return list(zip(self._timestamps, self._offsets, strict=True))

    def last_before(self, relative_offset: int) -> tuple[int, int] | None:
        """The newest entry of a batch below this offset."""
        at = bisect_left(self._offsets, relative_offset)
        return (self._timestamps[at - 1], self._offsets[at - 1]) if at else None

    @property
    def size_bytes(self) -> int:
        """The size of its file."""
        return len(self._offsets) * ENTRY_BYTES

    def add(self, timestamp: int, relative_last_offset: int) -> None:
        """Note the largest timestamp so far; nothing if it is no larger than the last one."""
        if self._offsets and timestamp <= self._timestamps[-1]:
            return
        assert not self._offsets or relative_last_offset > self._offsets[-1]
        self._timestamps.append(timestamp)
        self._offsets.append(relative_last_offset)

    def floor(self, timestamp: int) -> int:
        """A relative offset up to which no batch reaches a timestamp above this one; -1 if there is none."""
        at = bisect_right(self._timestamps, timestamp)
        return self._offsets[at - 1] if at else -1

    def truncate(self, relative_offset: int) -> None:
        """The segment ends before this offset now."""
        at = bisect_left(self._offsets, relative_offset)
        del self._timestamps[at:], self._offsets[at:]

    def pack(self) -> bytes:
        """The content of its file."""
        words = array("i", self._timestamps.tobytes())
        data = array("i", bytes(self.size_bytes))
        data[_HIGH::3] = words[_HIGH_WORD::2]
        data[_LOW::3] = words[1 - _HIGH_WORD :: 2]
        data[2::3] = self._offsets
        return swapped(data).tobytes()

    @classmethod
    def parse(cls, data: bytes) -> TimeIndex:
        """Read a file. Raises IndexDamagedError."""
        if len(data) % ENTRY_BYTES:
            raise IndexDamagedError(f"{len(data)} bytes are not whole entries")
        end = len(data)
        while end and data[end - ENTRY_BYTES : end] == _NO_ENTRY:
            end -= ENTRY_BYTES
        index = cls()
        numbers = swapped(array("i", data[:end]))
        words = array("i", bytes(end // ENTRY_BYTES * 8))
        words[_HIGH_WORD::2] = numbers[_HIGH::3]
        words[1 - _HIGH_WORD :: 2] = numbers[_LOW::3]
        index._timestamps = array("q", words.tobytes())
        index._offsets = numbers[2::3]
        for column in (index._timestamps, index._offsets):
            if not all(map(lt, column, islice(column, 1, None))):
                raise IndexDamagedError("the entries do not ascend")
        if index._offsets and index._offsets[0] < 0:
            raise IndexDamagedError("an entry is below the base offset")
        return index


def last_entry(data: bytes) -> tuple[int, int] | None:
    """(timestamp, relative last offset) of the last entry in these bytes of a closed segment's file."""
    return _ENTRY.unpack(data[-ENTRY_BYTES:]) if len(data) >= ENTRY_BYTES else None
