"""Compacts the closed segments of a log, a step at a time: each is one read, some milliseconds of work, for a job.

    step(disk) -> CleanStep     what the log has to write after this step

1. The dirty part is read, and a map notes the newest offset of each key, until it is full.
2. Segments, clean ones included, are joined into groups as large as one segment may be, and each group is rewritten as
   one new segment, in files with the suffix `.cleaned`.

Nothing is written here: what a step returns are bytes for the log, which writes them as it does everything, and puts
the new segment into the place of its group (`Compaction.replace`). So a cleaner that nobody asks any longer leaves
nothing but a file with that suffix.

Memory: the map (`log.cleaner.dedupe.buffer.size`), one piece (`log.cleaner.io.buffer.size`) or one batch with its
records, the indexes of one segment, and the aborted transactions of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from datatree.log.disk import Disk
from zab.kafka.errors import ErrorCode
from zab.partition.log.cleaned_batches import CleanedBatches, CleanRules
from zab.partition.log.cleaned_transactions import CleanedTransactions
from zab.partition.log.offset_index import RELATIVE_MAX
from zab.partition.log.offset_map import OffsetMap
from zab.partition.log.paths import TRANSACTION_INDEX
from zab.partition.log.segment import Segment
from zab.partition.log.transaction_index import AbortedTransaction, overlapping, parse_transactions
from zab.partition.records.batch import HEADER_BYTES, BatchError, BatchHeader, check_crc, read_header
from zab.partition.records.control import decode_marker
from zab.partition.records.record import records_of, skim


@attrs.frozen
class Source:
    """A segment of the log, as it is when the round begins."""

    segment: Segment
    """Only its names and offsets are used."""
    base_offset: int
    end: int
    """The base offset of the next one."""
    size: int
    aborted: tuple[AbortedTransaction, ...] | None
    """None: they are in the file alone."""

    @classmethod
    def of(cls, segment: Segment) -> Source:
        aborted = None if segment.aborted is None else tuple(segment.aborted)
        return cls(segment, segment.base_offset, segment.next_offset, segment.size, aborted)


@attrs.frozen
class CleanStep:
    """What a step came to."""

    base_offset: int = -1
    """The base offset of the new segment that `data` belongs to."""
    position: int = 0
    data: bytes = b""
    replaces: tuple[Source, ...] = ()
    """The group is done: the new segment takes the place of these."""
    segment: Segment | None = None
    """The new segment, with its indexes."""
    is_last: bool = False
    """Everything is done."""
    read_bytes: int = 0


@attrs.frozen(kw_only=True)
class CleanerLimits:
    """How much a round takes. Sizes are bytes."""

    segment_bytes: int
    index_interval_bytes: int
    map_bytes: int
    map_load_factor: float
    piece_bytes: int


class Cleaner:
    """One round over one log. It belongs to one thread at a time."""

    def __init__(
        self,
        sources: tuple[Source, ...],
        later: tuple[Source, ...],
        first_dirty: int,
        rules: CleanRules,
        limits: CleanerLimits,
    ) -> None:
        """`sources` are compacted, oldest first; `later` are the segments after them, for their transactions."""
        self.cleaned_end = first_dirty
        """Up to here the log is clean after the round."""
        self._sources = sources
        self._aborted: list[list[AbortedTransaction] | None] = [
            None if each.aborted is None else list(each.aborted) for each in (*sources, *later)
        ]
        self._all = (*sources, *later)
        self._first_dirty = first_dirty
        self._rules = rules
        self._limits = limits
        self._map = OffsetMap(limits.map_bytes, limits.map_load_factor)
        self._steps: Iterator[CleanStep] | None = None

    def step(self, disk: Disk) -> CleanStep:
        """Do a part of the work. Raises OSError, and BatchError for a segment that is damaged."""
        if self._steps is None:
            self._steps = self._run(disk)
        return next(self._steps)

    def _run(self, disk: Disk) -> Iterator[CleanStep]:
        yield from self._build_map(disk)
        self.cleaned_end = max(self._first_dirty, self._map.latest_offset + 1)
        batches = CleanedBatches(self._rules, self._map)
        groups = self._groups()
        for number, group in enumerate(groups):
            yield from self._clean(disk, group, batches, is_last=number + 1 == len(groups))

    # -------------------------------------------------------------------------------------------------------- the map

    def _build_map(self, disk: Disk) -> Iterator[CleanStep]:
        transactions = CleanedTransactions()
        start = self._first_dirty
        for number, source in enumerate(self._sources):
            if source.end <= start:
                continue
            transactions.add(self._aborted_in(disk, number, max(start, source.base_offset), source.end))
            for piece_bytes, batches in self._pieces(disk, source):
                for batch, header in batches:
                    if not self._note(batch, header, transactions):
                        yield CleanStep(read_bytes=piece_bytes)
                        return
                yield CleanStep(read_bytes=piece_bytes)
            self._map.reach(source.end - 1)

    def _note(self, batch: bytes, header: BatchHeader, transactions: CleanedTransactions) -> bool:
        """Note the keys of a batch. False: the map is full."""
        newest, start = self._map, self._first_dirty
        if header.is_control:
            transactions.is_marker_of_nothing(header, decode_marker(batch))
        elif not transactions.is_aborted(header) and header.last_offset >= start:
            data = records_of(batch, 0, header, self._rules.output_bytes_max)
            for _, delta, key_start, key_end, *_ in skim(data, header):
                offset = header.base_offset + delta
                if key_start >= 0 and offset >= start and not newest.put(data[key_start:key_end], offset):
                    return False
        if header.last_offset >= start:
            newest.reach(header.last_offset)
        return True

    def _aborted_in(self, disk: Disk, number: int, start: int, end: int) -> Iterator[AbortedTransaction]:
        """The aborted transactions with data in [start, end), which is in the segment of this number."""
        return overlapping((self._aborted_of(disk, each) for each in range(number, len(self._all))), start, end)

    def _aborted_of(self, disk: Disk, number: int) -> list[AbortedTransaction]:
        aborted = self._aborted[number]
        if aborted is None:
            path = self._all[number].segment.path_of(TRANSACTION_INDEX)
            aborted = self._aborted[number] = parse_transactions(disk.read(path)) if disk.exists(path) else []
        return aborted

    # ----------------------------------------------------------------------------------------------------- the groups

    def _groups(self) -> list[tuple[Source, ...]]:
        """Neighbours that fit into one segment together, of those that the map reaches into."""
        groups: list[list[Source]] = []
        size = 0
        for source in self._sources:
            if source.base_offset >= self.cleaned_end:
                break
            fits = groups and size + source.size <= self._limits.segment_bytes
            if fits and source.end - 1 - groups[-1][0].base_offset <= RELATIVE_MAX:
                groups[-1].append(source)
                size += source.size
            else:
                groups.append([source])
                size = source.size
        return [tuple(group) for group in groups]

    def _clean(
        self, disk: Disk, group: tuple[Source, ...], batches: CleanedBatches, *, is_last: bool
    ) -> Iterator[CleanStep]:
        """Rewrite a group."""
        first = group[0].segment
        new = Segment(first.directory, first.base_offset, group[-1].segment.created_ms, first.base_offset)
        filled = [source for source in group if source.size]
        for source in group:
            number = self._sources.index(source)
            batches.transactions.add(self._aborted_in(disk, number, source.base_offset, source.end))
            left_bytes = source.size
            for piece_bytes, found in self._pieces(disk, source):
                left_bytes -= piece_bytes
                position, parts = new.size, []
                for at, (batch, header) in enumerate(found):
                    is_end = source is filled[-1] and not left_bytes and at + 1 == len(found)
                    part = batches.cleaned(batch, header, is_last=is_end)
                    if part:
                        parts.append(part)
                        self._add(new, part)
                new.recent.clear()
                yield CleanStep(first.base_offset, position, b"".join(parts), read_bytes=piece_bytes)
        new.add_time_entry()
        new.next_offset = group[-1].end
        new.aborted, batches.transactions.retained = batches.transactions.retained, []
        yield CleanStep(first.base_offset, new.size, replaces=group, segment=new, is_last=is_last)

    def _add(self, new: Segment, part: bytes) -> None:
        header = read_header(part)
        interval_bytes = self._limits.index_interval_bytes
        new.add(header.base_offset, header.last_offset, header.size_bytes, header.max_timestamp, interval_bytes)

    # ---------------------------------------------------------------------------------------------------------- reading

    def _pieces(self, disk: Disk, source: Source) -> Iterator[tuple[int, list[tuple[bytes, BatchHeader]]]]:
        """(bytes, whole batches) of each piece of a file. Raises BatchError."""
        position, path = 0, source.segment.path
        while position < source.size:
            data = disk.read(path, position, min(self._limits.piece_bytes, source.size - position))
            header = read_header(data)
            if header.size_bytes > source.size - position:
                raise _damaged(path, position, f"a batch of {header.size_bytes} bytes goes beyond the end")
            if header.size_bytes > len(data):
                data = disk.read(path, position, header.size_bytes)
            found, at = [], 0
            while at + HEADER_BYTES <= len(data):
                header = read_header(data, at)
                if at + header.size_bytes > len(data):
                    break
                check_crc(data, at, header)
                found.append((data[at : at + header.size_bytes], header))
                at += header.size_bytes
            if not found:
                raise _damaged(path, position, "the file is shorter than it was")
            position += at
            yield at, found


def _damaged(path: str, position: int, text: str) -> BatchError:
    return BatchError(ErrorCode.CORRUPT_MESSAGE, f"{path}, byte {position}: {text}")
