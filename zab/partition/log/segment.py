"""One segment of a log in memory: a file of batches, and what is known of where they are.

The index of the active segment is in memory alone. Its file is written when the segment is closed, after the log file
was synced: a segment with an index file was synced, and is not read at the start. Beside it, the newest batches are
known one by one, so that fetches at the end of the log, where nearly all are, need no look at a file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import attrs

from zab.partition.log.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from zab.partition.log.offset_index import OffsetIndex
from zab.partition.log.paths import LOG, path_of
from zab.partition.log.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from zab.partition.log.time_index import TimeIndex
from zab.partition.log.transaction_index import AbortedTransaction

NO_TIMESTAMP = -1
RECENT_MAX = 1024
"""So many batches at the end are known one by one, and up to as many again before the older ones are forgotten."""


@attrs.frozen
class Place:
    """Where a batch is in the file of its segment."""

    base_offset: int
    position: int
    end: int


@attrs.frozen
class Cut:
    """Where a truncation cuts a segment, and what is left."""

    end: int
    """After the last batch that is left: the log has no end without a batch before it, which no file would show."""
    position: int
    aborted_count: int
    max_timestamp: int
    max_timestamp_offset: int


class RecentBatches:
    """The newest batches of a segment, one by one."""

    def __init__(self) -> None:
        self._bases = array("q")
        self._lasts = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    def __len__(self) -> int:
        return len(self._bases)

    @property
    def first_position(self) -> int | None:
        """Where the oldest of them is."""
        return self._positions[0] if self._positions else None

    def add(self, base_offset: int, last_offset: int, position: int, max_timestamp: int) -> None:
        """Note the newest batch."""
        self._bases.append(base_offset)
        self._lasts.append(last_offset)
        self._positions.append(position)
        self._timestamps.append(max_timestamp)

    def knows(self, offset: int) -> bool:
        """Whether the batch with `offset`, or the first one after it, is among them, or at their end."""
        return bool(self._bases) and (self._bases[0] <= offset or not self._positions[0])

    def locate(self, offset: int, size: int) -> Place | None:
        """The first batch that ends at or above an offset that they know, in a file of `size` bytes."""
        at = bisect_left(self._lasts, offset)
        if at == len(self._lasts):
            return None
        end = self._positions[at + 1] if at + 1 < len(self._positions) else size
        return Place(self._bases[at], self._positions[at], end)

    def floor_position(self, position: int) -> int:
        """The greatest start of a batch at or below this position; 0 if they know none."""
        at = bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    def between(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """(last offset, largest timestamp) of those between these positions."""
        for at in range(bisect_left(self._positions, start), bisect_left(self._positions, stop)):
            yield self._lasts[at], self._timestamps[at]

    def truncate(self, position: int) -> None:
        """The file ends at this position now."""
        at = bisect_left(self._positions, position)
        del self._bases[at:], self._lasts[at:], self._positions[at:], self._timestamps[at:]

    def forget(self, written_end: int) -> None:
        """Forget the oldest, but none that the storage has not confirmed."""
        if len(self._lasts) >= 2 * RECENT_MAX:
            at = min(bisect_right(self._lasts, written_end - 1), len(self._lasts) - RECENT_MAX)
            del self._bases[:at], self._lasts[:at], self._positions[:at], self._timestamps[:at]

    def clear(self) -> None:
        """Forget all."""
        self.truncate(-1)


@attrs.define(eq=False)
class Segment:
    """One segment. Its indexes are None while they are in their files alone."""

    directory: str
    base_offset: int
    created_ms: int
    """When it was created, or read at the start: its age while it has no timestamp."""
    next_offset: int
    """After its last batch."""
    size: int = 0
    first_timestamp: int = NO_TIMESTAMP
    """The timestamp of its first batch."""
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_offset: int = -1
    """The last offset of the batch that has it first."""
    offsets: OffsetIndex | None = attrs.Factory(OffsetIndex)
    times: TimeIndex | None = attrs.Factory(TimeIndex)
    aborted: list[AbortedTransaction] | None = attrs.Factory(list)
    recent: RecentBatches = attrs.Factory(RecentBatches)
    bytes_since_entry: int = 0
    is_indexed: bool = False
    """Its index files are there: they were written, or are about to be."""
    is_awaited: bool = False
    """Its files are not yet under their names: nobody may read them (`Compaction.replace`)."""
    path: str = attrs.field(init=False)
    """Its log file."""

    def __attrs_post_init__(self) -> None:
        self.path = self.path_of(LOG)

    def path_of(self, suffix: str) -> str:
        """One of its files."""
        return path_of(self.directory, self.base_offset, suffix)

    def is_index_full(self, index_bytes_max: int) -> bool:
        """Whether the next entry may not fit into an index file of this size."""
        assert self.offsets is not None
        assert self.times is not None
        return (
            self.offsets.size_bytes + OFFSET_ENTRY_BYTES > index_bytes_max
            or self.times.size_bytes + TIME_ENTRY_BYTES > index_bytes_max
        )

    def add(self, base_offset: int, last_offset: int, size: int, max_timestamp: int, interval_bytes: int) -> None:
        """Note a batch of `size` bytes at the end of the file."""
        assert base_offset >= self.next_offset
        assert last_offset >= base_offset
        if max_timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = max_timestamp, last_offset
        if not self.size:
            self.first_timestamp = max_timestamp
        if self.bytes_since_entry > interval_bytes:
            assert self.offsets is not None
            self.offsets.add(last_offset - self.base_offset, self.size)
            self.add_time_entry()
            self.bytes_since_entry = 0
        self.recent.add(base_offset, last_offset, self.size, max_timestamp)
        self.bytes_since_entry += size
        self.size += size
        self.next_offset = last_offset + 1

    def add_time_entry(self) -> None:
        """Note the largest timestamp so far."""
        assert self.times is not None
        if self.max_timestamp >= 0:
            self.times.add(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
