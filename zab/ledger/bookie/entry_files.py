"""What does the jobs of a bookie over a `Disk`: segments, states, checkpoints, journals that are not needed any more.

Jobs are done one after the other, in order: so a checkpoint never names what is not durable, and marks only rise. Reads
may be done at the same time, by other threads. A job that makes or removes segments keeps their list (`segment_list`).

A compaction is many jobs, of a piece each: what comes between them, a flush above all, waits for one piece only.

Lack of room undoes the job, and is answered with `JobFailed.is_full`. Any other `OSError` is answered too: what it
left cannot be known, and the bookie has to end.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final
from zlib import crc32

from datatree.log.disk import Disk, File, is_full
from zab.ledger.bookie.config import BookieConfig, Identity
from zab.ledger.bookie.events import (
    CheckpointSaved,
    Compact,
    Compacted,
    CompactedPart,
    ContinueCompact,
    Job,
    JobAnswer,
    JobFailed,
    JournalPrepared,
    PrepareJournal,
    ReadDone,
    ReadSegment,
    RemoveSegments,
    SaveCheckpoint,
    SaveState,
    SegmentsRemoved,
    SegmentWritten,
    StateSaved,
    WriteSegment,
)
from zab.ledger.bookie.frames import DIRECTORY as JOURNAL
from zab.ledger.bookie.frames import PREPARED, journal_path
from zab.ledger.bookie.segment import DIRECTORY as ENTRIES
from zab.ledger.bookie.segment import (
    ForeignFileError,
    LedgerIndex,
    Segment,
    SegmentBuilder,
    SegmentDamagedError,
    parse_index,
    segment_path,
)
from zab.ledger.bookie.segment_list import SEGMENT_LIST, pack_list, parse_list
from zab.ledger.bookie.state import CHECKPOINT, Checkpoint, pack_state, state_path
from zab.ledger.bookie.state import DIRECTORY as STATES

TEMPORARY: Final = ".tmp"
STATES_KEPT: Final = 2


class EntryFiles:
    """The files of one bookie besides the journal that is being written."""

    def __init__(self, disk: Disk, config: BookieConfig, identity: Identity) -> None:
        self._disk = disk
        self._config = config
        self._identity = identity
        self._mark = (0, 0)
        self._listed: frozenset[int] | None = None
        """The segments that the file lists; None: it was not read yet."""
        self._compaction: Generator[int, None, Compacted] | None = None
        """The compaction that is under way."""

    def perform(self, job: Job) -> JobAnswer:
        """Do a job."""
        try:
            return self._perform(job)
        except (OSError, SegmentDamagedError) as error:
            is_for_room = isinstance(error, OSError) and is_full(error)
            if is_for_room or isinstance(error, SegmentDamagedError):
                self._clean_up(job)
            return JobFailed(job, str(error), is_for_room)

    def read(self, asked: ReadSegment) -> ReadDone:
        """Read bytes of a segment."""
        try:
            return ReadDone(asked.token, self._disk.read(segment_path(asked.number), asked.offset, asked.size))
        except OSError:
            return ReadDone(asked.token, None)

    def _perform(self, job: Job) -> JobAnswer:
        match job:
            case WriteSegment(number, entries, mark):
                builder = SegmentBuilder(self._identity, number, mark)
                segment = _whole(self._write(number, builder, _sorted_records(entries, builder)))
                self.keep_list(self._known() | {number})
                return SegmentWritten(segment)
            case SaveState(number, ledgers, count, tombstones):
                data = pack_state(self._identity, number, ledgers, count, tombstones)
                self._disk.replace(state_path(number), data)
                return StateSaved(number)
            case SaveCheckpoint(mark, state):
                self._save_checkpoint(Checkpoint(mark, state))
                return CheckpointSaved(mark)
            case PrepareJournal():
                self._prepare_journal()
                return JournalPrepared()
            case Compact(number):
                self._compaction = self._compact(job)
                return self._go_on(number)
            case ContinueCompact(number):
                return self._go_on(number)
            case RemoveSegments(numbers):
                self.keep_list(self._known().difference(numbers))
                self._remove(ENTRIES, [segment_path(number) for number in numbers])
                return SegmentsRemoved(numbers)

    def _clean_up(self, job: Job) -> None:
        """Remove what a job that found no room has begun."""
        paths: tuple[str, ...] = ()
        match job:
            case WriteSegment(number) | Compact(number) | ContinueCompact(number):
                paths = (segment_path(number), SEGMENT_LIST)
                if number not in (self._listed or ()):
                    with contextlib.suppress(OSError):
                        self._remove(ENTRIES, [segment_path(number)])
            case RemoveSegments():
                paths = (SEGMENT_LIST,)
            case SaveState(number):
                paths = (state_path(number),)
            case SaveCheckpoint():
                paths = (CHECKPOINT,)
            case PrepareJournal():
                paths = (PREPARED,)
        for path in paths:
            if self._disk.exists(path + TEMPORARY):
                with contextlib.suppress(OSError):
                    self._disk.remove(path + TEMPORARY)
                    self._disk.sync_directory(path.rpartition("/")[0])

    def _remove(self, directory: str, paths: Sequence[str]) -> None:
        """Remove files that are there, durably."""
        paths = [path for path in paths if self._disk.exists(path)]
        for path in paths:
            self._disk.remove(path)
        if paths:
            self._disk.sync_directory(directory)

    # ---------------------------------------------------------------------------------------------------- checkpoints

    def _save_checkpoint(self, checkpoint: Checkpoint) -> None:
        assert checkpoint.mark >= self._mark, f"the mark falls from {self._mark} to {checkpoint.mark}"
        self._disk.replace(CHECKPOINT, checkpoint.pack(self._identity))
        self._mark = checkpoint.mark
        journals = [sequence for sequence in numbers_in(self._disk, JOURNAL) if sequence < checkpoint.mark[0]]
        self._remove(JOURNAL, [journal_path(sequence) for sequence in journals])
        states = [number for number in numbers_in(self._disk, STATES) if number <= checkpoint.state]
        self._remove(STATES, [state_path(number) for number in states[:-STATES_KEPT]])

    def _prepare_journal(self) -> None:
        if not self._disk.exists(PREPARED):
            self._disk.preallocate(PREPARED + TEMPORARY, self._config.journal_file_bytes)
            self._disk.rename(PREPARED + TEMPORARY, PREPARED)
            self._disk.sync_directory(JOURNAL)

    # ------------------------------------------------------------------------------------------------------- segments

    def listed(self) -> frozenset[int] | None:
        """The segments that are to be there; None: the list is missing or damaged. Raises ForeignFileError, OSError."""
        if not self._disk.exists(SEGMENT_LIST):
            return None
        found = parse_list(self._disk.read(SEGMENT_LIST))
        if found is not None and found[0] != self._identity:
            raise ForeignFileError(f"{SEGMENT_LIST} belongs to another bookie or another cluster")
        return None if found is None else found[1]

    def keep_list(self, numbers: Iterable[int]) -> None:
        """List these segments, and no others. Raises OSError."""
        wanted = frozenset(numbers)
        if wanted != self._known() or not self._disk.exists(SEGMENT_LIST):
            self._disk.replace(SEGMENT_LIST, pack_list(self._identity, wanted))
            self._listed = wanted

    def _known(self) -> frozenset[int]:
        """What is listed. A new bookie has no list, nor a checkpoint."""
        if self._listed is None:
            found = self.listed()
            if found is None and self._disk.exists(CHECKPOINT):
                raise OSError(errno.EIO, f"{SEGMENT_LIST} is missing or damaged")
            self._listed = found or frozenset()
        return self._listed

    def _write(self, number: int, builder: SegmentBuilder, records: Iterator[bytes]) -> Generator[int, None, Segment]:
        """Write a segment, durably; the bytes of each piece once it is written."""
        path = segment_path(number)
        if self._disk.exists(path + TEMPORARY):
            self._disk.remove(path + TEMPORARY)
        file = self._disk.open_append(path + TEMPORARY, create=True)
        try:
            file.write(builder.header)
            for piece in _pieces(records, self._config.piece_bytes):
                yield _write_synced(file, piece)
            tail, segment = builder.finish()
            yield _write_synced(file, tail)
        finally:
            file.close()
        self._disk.rename(path + TEMPORARY, path)
        self._disk.sync_directory(ENTRIES)
        return segment

    def _go_on(self, number: int) -> Compacted | CompactedPart:
        assert self._compaction is not None
        try:
            return CompactedPart(number, next(self._compaction))
        except StopIteration as end:
            self._compaction = None
            compacted: Compacted = end.value
            if compacted.segment is not None:
                self.keep_list(self._known() | {number})
            return compacted

    def _compact(self, job: Compact) -> Generator[int, None, Compacted]:
        replaced = tuple(segment.number for segment in job.segments)
        olds = sorted(job.segments, key=lambda segment: segment.rank)
        if not any(row.ledger in job.live for segment in olds for row in segment.rows()):
            return Compacted(None, replaced)
        builder = SegmentBuilder(
            self._identity, job.number, olds[-1].mark, rank=olds[-1].rank, replaced=tuple(sorted(replaced))
        )
        records = self._live_records(olds, job.live, builder)
        return Compacted((yield from self._write(job.number, builder, records)), replaced)

    def _live_records(self, olds: Sequence[Segment], live: frozenset[int], builder: SegmentBuilder) -> Iterator[bytes]:
        """The records of live ledgers in order, verbatim, and verified; of several of one entry the newest."""
        ledgers = sorted({row.ledger for segment in olds for row in segment.rows() if row.ledger in live})
        for ledger in ledgers:
            where: dict[int, tuple[Segment, LedgerIndex, int]] = {}
            for segment in olds:
                index = self._index(segment, ledger)
                if index is not None:
                    where.update((entry, (segment, index, at)) for at, entry in enumerate(index.ids))
            ids = sorted(where)
            lengths = [where[entry][1].length(where[entry][2]) for entry in ids]
            builder.add(ledger, ids, lengths, [where[entry][1].crcs[where[entry][2]] for entry in ids])
            yield from self._copied([where[entry] for entry in ids])

    def _index(self, segment: Segment, ledger: int) -> LedgerIndex | None:
        row = segment.row(ledger)
        if row is None:
            return None
        block = self._disk.read(segment_path(segment.number), row.index_offset, row.index_bytes)
        return parse_index(row, block, segment.size)

    def _copied(self, where: Sequence[tuple[Segment, LedgerIndex, int]]) -> Iterator[bytes]:
        """These records; what lies together is read together."""
        begin = 0
        while begin < len(where):
            segment, index, at = where[begin]
            until_max, end = index.until(at, self._config.piece_bytes), begin + 1
            while end < len(where) and where[end][1] is index and where[end][2] == at + end - begin < until_max:
                end += 1
            until = at + end - begin
            start = index.start(at)
            size = index.start(until - 1) + index.length(until - 1) - start
            yield from index.split(at, until, self._disk.read(segment_path(segment.number), start, size))
            begin = end


def numbers_in(disk: Disk, directory: str) -> list[int]:
    """The numbers of the files of a directory that are named by 16 hex digits, ascending."""
    names = disk.list(directory)
    return sorted(int(name, 16) for name in names if len(name) == 16 and not name.strip("0123456789abcdef"))


def _sorted_records(entries: Mapping[int, Mapping[int, bytes]], builder: SegmentBuilder) -> Iterator[bytes]:
    """The envelopes of a generation by ledger and entry; the builder learns of them."""
    for ledger in sorted(entries):
        of_ledger = entries[ledger]
        ids = sorted(of_ledger)
        envelopes = [of_ledger[entry] for entry in ids]
        builder.add(ledger, ids, list(map(len, envelopes)), list(map(crc32, envelopes)))
        yield from envelopes


def _whole(writing: Generator[int, None, Segment]) -> Segment:
    """The segment, when all of it is written."""
    while True:
        try:
            next(writing)
        except StopIteration as end:
            segment: Segment = end.value
            return segment


def _pieces(records: Iterator[bytes], piece_bytes: int) -> Iterator[bytes]:
    """Records joined to pieces of about so many bytes."""
    waiting: list[bytes] = []
    size = 0
    for record in records:
        waiting.append(record)
        size += len(record)
        if size >= piece_bytes:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _write_synced(file: File, data: bytes) -> int:
    file.write(data)
    file.sync()
    return len(data)
