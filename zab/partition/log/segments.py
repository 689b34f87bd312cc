"""The segments of a log, oldest first, and where in them an offset or a time is.

A look-up is answered from memory at the end of the log. Elsewhere it reads the index file of a closed segment, of which
the last few are kept, and the headers from the index entry on: some KiB. Only what the storage has confirmed is read.

Errors: SegmentAwaitedError while files are being replaced; OSError of the disk; BatchError if a file is damaged that
was sound at the start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import attrs

from datatree.log.disk import Disk
from zab.partition.log.errors import SegmentAwaitedError
from zab.partition.log.headers import PIECE_BYTES, headers_from
from zab.partition.log.offset_index import IndexDamagedError, OffsetIndex
from zab.partition.log.paths import INDEX, TIME_INDEX, TRANSACTION_INDEX
from zab.partition.log.segment import NO_TIMESTAMP, Cut, Place, Segment
from zab.partition.log.time_index import TimeIndex
from zab.partition.log.transaction_index import AbortedTransaction, overlapping, parse_transactions
from zab.partition.records.batch import HEADER_BYTES

LOADED_MAX = 2
"""How many closed segments of a log have their indexes in memory."""


@attrs.frozen
class Slice:
    """Whole batches in a file of the log: `length` bytes from `position`, beginning with the batch at
    `first_offset`."""

    path: str
    position: int
    length: int
    first_offset: int


class Segments:
    """The segments of one log. The last one is active."""

    def __init__(self, disk: Disk, segments: Iterable[Segment], interval_bytes: int) -> None:
        """`interval_bytes`: the distance of index entries, for an index that has to be rebuilt."""
        self._disk = disk
        self._interval_bytes = interval_bytes
        self._segments = list(segments)
        self._loaded: OrderedDict[int, Segment] = OrderedDict()
        assert self._segments

    @property
    def all(self) -> tuple[Segment, ...]:
        """Oldest first."""
        return tuple(self._segments)

    @property
    def active(self) -> Segment:
        """The one that is appended to."""
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        """The oldest one."""
        return self._segments[0]

    @property
    def closed(self) -> tuple[Segment, ...]:
        """All but the active one."""
        return tuple(self._segments[:-1])

    @property
    def size_bytes(self) -> int:
        """The size of all log files."""
        return sum(segment.size for segment in self._segments)

    def push(self, segment: Segment) -> None:
        """A new active segment."""
        assert not self._segments or segment.base_offset > self._segments[-1].base_offset
        self._segments.append(segment)

    def pop(self) -> Segment:
        """Forget the newest one."""
        segment = self._segments.pop()
        self._loaded.pop(segment.base_offset, None)
        return segment

    def pop_first(self) -> Segment:
        """Forget the oldest one."""
        segment = self._segments.pop(0)
        self._loaded.pop(segment.base_offset, None)
        return segment

    def replace(self, olds: Sequence[Segment], new: Segment) -> None:
        """Put a closed segment into the place of these neighbours."""
        at = self._segments.index(olds[0])
        assert self._segments[at : at + len(olds)] == list(olds)
        self._segments[at : at + len(olds)] = [new]
        for old in olds:
            self._loaded.pop(old.base_offset, None)

    # Look-ups.

    def floor(self, offset: int) -> int:
        """Which segment has this offset; the first one if all are above it."""
        return max(bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1, 0)

    def slice(self, offset: int, bound: int, max_bytes: int) -> Slice | None:
        """Whole batches from the one with `offset` on that end below `bound`: as many as fit into `max_bytes`, and at
        least one. They are in one file. None if there are none."""
        for segment in self._segments[self.floor(offset) :]:
            if segment.is_awaited:
                return None
            place = self.locate(segment, offset)
            if place is not None:
                return self._slice(segment, place, bound, max_bytes)
        return None

    def _slice(self, segment: Segment, place: Place, bound: int, max_bytes: int) -> Slice | None:
        stop = self._stop(segment, bound)
        if place.end > stop:
            return None
        end, limit = stop, place.position + max_bytes
        if limit < stop:
            end = max(place.end, self._boundary(segment, limit))
        return Slice(segment.path, place.position, end - place.position, place.base_offset)

    def _stop(self, segment: Segment, bound: int) -> int:
        """The position after the last batch of the segment that ends below `bound`."""
        after = self.locate(segment, bound)
        return segment.size if after is None else after.position

    def _boundary(self, segment: Segment, position: int) -> int:
        """A start of a batch at or below this position, near to it; 0 if none is known."""
        return segment.recent.floor_position(position) or self.offsets_of(segment).floor_position(position)

    def locate(self, segment: Segment, offset: int) -> Place | None:
        """The first batch of the segment that ends at or above `offset`."""
        if offset >= segment.next_offset:
            return None
        if segment.recent.knows(offset):
            return segment.recent.locate(offset, segment.size)
        position = self.offsets_of(segment).floor(offset - segment.base_offset)
        known = segment.recent.first_position
        for at, header in headers_from(self._disk, segment.path, position, segment.size if known is None else known):
            if header.last_offset >= offset:
                return Place(header.base_offset, at, at + header.size_bytes)
        return segment.recent.locate(offset, segment.size)

    def cut_at(self, segment: Segment, offset: int) -> Cut:
        """Where the segment ends if the batch with `offset`, and all after it, are dropped."""
        place = self.locate(segment, offset)
        position = segment.size if place is None else place.position
        entry = self.times_of(segment).last_before(offset - segment.base_offset)
        newest = (entry[0], entry[1] + segment.base_offset) if entry else (NO_TIMESTAMP, -1)
        end = segment.base_offset
        # Those after the last entry are in no index.
        start = self.offsets_of(segment).floor_position(position - 1)
        for last_offset, max_timestamp in self._batches(segment, start, position):
            end = last_offset + 1
            if max_timestamp > newest[0]:
                newest = max_timestamp, last_offset
        kept = sum(each.last_offset < end for each in self.aborted_of(segment))
        return Cut(end, position, kept, *newest)

    def cut(self, segment: Segment, cut: Cut) -> None:
        """Let the segment end there."""
        offsets, times, aborted = self.offsets_of(segment), self.times_of(segment), self.aborted_of(segment)
        del aborted[cut.aborted_count :]
        offsets.truncate(cut.position)
        times.truncate(cut.end - segment.base_offset)
        segment.recent.truncate(cut.position)
        segment.size, segment.next_offset = cut.position, cut.end
        segment.max_timestamp, segment.max_timestamp_offset = cut.max_timestamp, cut.max_timestamp_offset
        segment.bytes_since_entry = cut.position - offsets.floor_position(cut.position)

    def _batches(self, segment: Segment, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """(last offset, largest timestamp) of the batches between two positions."""
        known = segment.recent.first_position
        cold = stop if known is None else min(known, stop)
        for _, header in headers_from(self._disk, segment.path, start, cold):
            yield header.last_offset, header.max_timestamp
        yield from segment.recent.between(max(start, cold), stop)

    def find_by_time(self, timestamp: int, start: int, bound: int) -> Slice | None:
        """The first batch with data in [start, bound) that has a record of this time or later; its records say
        which."""
        for segment in self._segments[self.floor(start) :]:
            if segment.max_timestamp < timestamp or segment.next_offset <= start:
                continue
            if segment.is_awaited:
                raise SegmentAwaitedError(f"the segment of {segment.base_offset} is being replaced")
            below = self.times_of(segment).floor(timestamp) + segment.base_offset
            place = self.locate(segment, max(below, start))
            if place is None:
                continue
            stop = self._stop(segment, bound)
            for at, header in headers_from(self._disk, segment.path, place.position, stop):
                if header.max_timestamp >= timestamp and header.record_count:
                    return Slice(segment.path, at, header.size_bytes, header.base_offset)
        return None

    def first_timestamp_of(self, segment: Segment) -> int:
        """The largest timestamp of its first batch, which is read if it is not known."""
        if segment.first_timestamp == NO_TIMESTAMP:
            for _, header in headers_from(self._disk, segment.path, 0, min(segment.size, HEADER_BYTES)):
                segment.first_timestamp = header.max_timestamp
        return segment.first_timestamp

    def aborted(self, start: int, end: int) -> Iterator[AbortedTransaction]:
        """The aborted transactions with data in [start, end)."""
        return overlapping((self.aborted_of(segment) for segment in self._segments[self.floor(start) :]), start, end)

    def end_of(self, found: Slice, bound: int) -> int:
        """An offset at or above the end of these batches, which are below `bound`: near to their end, and found without
        reading the log."""
        segment = self._segments[self.floor(found.first_offset)]
        following = self.offsets_of(segment).first_from(found.position + found.length)
        return min(bound, segment.next_offset if following is None else segment.base_offset + following)

    # Indexes.

    def offsets_of(self, segment: Segment) -> OffsetIndex:
        """The offset index, from its file if it is there alone."""
        if segment.offsets is None:
            self.load(segment)
        assert segment.offsets is not None
        return segment.offsets

    def times_of(self, segment: Segment) -> TimeIndex:
        """The time index, from its file if it is there alone."""
        if segment.times is None:
            self.load(segment)
        assert segment.times is not None
        return segment.times

    def aborted_of(self, segment: Segment) -> list[AbortedTransaction]:
        """The transaction index."""
        if segment.aborted is None:
            path = segment.path_of(TRANSACTION_INDEX)
            segment.aborted = parse_transactions(self._disk.read(path)) if self._disk.exists(path) else []
        return segment.aborted

    def load(self, segment: Segment) -> None:
        """Read the indexes of a closed segment, or rebuild them."""
        try:
            segment.offsets = OffsetIndex.parse(self._disk.read(segment.path_of(INDEX)), segment.size)
            segment.times = TimeIndex.parse(self._disk.read(segment.path_of(TIME_INDEX)))
        except (FileNotFoundError, IndexDamagedError):
            self._rebuild(segment)
        if segment is self.active:
            return
        self._loaded[segment.base_offset] = segment
        if len(self._loaded) > LOADED_MAX:
            self.unload(next(iter(self._loaded.values())))

    def unload(self, segment: Segment) -> None:
        """The files have the indexes."""
        self._loaded.pop(segment.base_offset, None)
        if segment is not self.active and segment.is_indexed:
            segment.offsets = segment.times = None
            segment.recent.clear()

    def _rebuild(self, segment: Segment) -> None:
        fresh = Segment(segment.directory, segment.base_offset, segment.created_ms, segment.base_offset)
        for _, header in headers_from(self._disk, segment.path, 0, segment.size, PIECE_BYTES):
            fresh.add(
                header.base_offset, header.last_offset, header.size_bytes, header.max_timestamp, self._interval_bytes
            )
        fresh.add_time_entry()
        segment.offsets, segment.times = fresh.offsets, fresh.times
