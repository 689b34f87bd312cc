"""Opening the files of a bookie at its start: what was durable when it ended is there again.

The checkpoint names a state, and the mark from which the journal is replayed on top of it. What was read of the end of
the journal may be in no more than the cache of the system: **everything that is replayed is flushed, and a checkpoint
made of it, before anything is returned**. So what a bookie answers is durable from its first answer on. The mark rises
even if there was nothing to replay.

**Damage** is what was durable once and cannot be read: a part of the journal after the mark, the checkpoint, the state
that it names, the list of segments, a file that is listed. Then this raises DamagedError, and the bookie must not run:
it would say that it does not have what it has acknowledged. A damaged segment only makes what it may hide unreadable;
so does one that the disk does not read. A checkpoint, state or journal that the disk does not read raises
UnreadableFileError: it may be read again later.

**Without room** for what is replayed this raises NoRoomError. Nothing is lost, and what was written is removed again:
else each try would take more of what little room there is.

What is left of a compaction: a segment that another one has replaced is removed, if that one is whole. What ends in
`.tmp` was never used.

It reads and writes a `Disk` directly, since nothing else runs yet. Not here: the cookie (`registration.py`).
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from datatree.log.disk import Disk, is_full
from zab.ledger.bookie.config import BookieConfig, Identity
from zab.ledger.bookie.entry_files import TEMPORARY, EntryFiles, numbers_in
from zab.ledger.bookie.events import (
    CheckpointSaved,
    Job,
    JobFailed,
    Mark,
    RemoveSegments,
    SaveCheckpoint,
    SaveState,
    SegmentsRemoved,
    SegmentWritten,
    StateSaved,
    WriteSegment,
)
from zab.ledger.bookie.frames import DIRECTORY as JOURNAL
from zab.ledger.bookie.frames import HEADER_BYTES, PREPARED, Frame, Scan, journal_path, read_header, scan, tag_of
from zab.ledger.bookie.ledgers import Ledger, LedgerTable
from zab.ledger.bookie.records import (
    FENCE,
    LEDGER,
    LIMBO,
    EndRecord,
    EntriesRecord,
    LacRecord,
    LedgerRecord,
    Record,
    RecordError,
    TombstonesRecord,
    parse_records,
)
from zab.ledger.bookie.segment import DIRECTORY as ENTRIES
from zab.ledger.bookie.segment import Segment, open_segment, segment_path
from zab.ledger.bookie.segment_list import SEGMENT_LIST
from zab.ledger.bookie.state import CHECKPOINT, pack_ledgers, read_checkpoint, read_state, state_path
from zab.ledger.bookie.state import DIRECTORY as STATES
from zab.ledger.bookie.write_cache import ENTRY_OVERHEAD_BYTES
from zab.ledger.entries.envelope import header_of, lac_header_of
from zab.ledger.entries.ids import NONE
from zab.ledger.entries.keys import NO_KEY

_WHAT_TO_DO: Final = (
    "this bookie may have lost what it acknowledged, so it must not answer: decommission it, empty its directory, and"
    " bring it back with a new id"
)


class DamagedError(OSError):
    """What was durable once cannot be read: the bookie must not run. The text has the place and what to do."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} at offset {offset}: {reason} -> {_WHAT_TO_DO}")
        self.path = path
        self.offset = offset
        self.reason = reason


class UnreadableFileError(OSError):
    """The disk does not read a file that the start needs. The text has the file and what to do."""

    def __init__(self, path: str, cause: OSError) -> None:
        super().__init__(
            cause.errno,
            f"{path} cannot be read: {cause.strerror} -> look at the disk, and start the bookie again; if the file"
            f" stays unreadable, {_WHAT_TO_DO}",
        )


class NoRoomError(OSError):
    """There is no room for what the start has to write. Nothing is lost."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            errno.ENOSPC,
            f"no room to flush what the journal has: {reason} -> make room on the disk, and start the bookie again;"
            " nothing is lost",
        )


@attrs.define
class Opened:
    """The data of a bookie, all of it durable."""

    table: LedgerTable
    segments: list[Segment]
    mark: Mark
    """Where its journal begins: the file with this sequence is not there yet."""
    next_segment: int
    next_state: int
    replayed: int = 0
    """How many entries of the journal were replayed."""
    was_ended: bool = False
    """Whether the bookie had ended in good order."""
    notes: list[str] = attrs.Factory(list)


def open_files(disk: Disk, config: BookieConfig, identity: Identity) -> Opened:
    """Open the files. Raises DamagedError, UnreadableFileError, NoRoomError, ForeignFileError, OSError."""
    return _Opening(disk, config, identity).open()


class _Opening:
    def __init__(self, disk: Disk, config: BookieConfig, identity: Identity) -> None:
        self._disk = disk
        self._config = config
        self._identity = identity
        self._files = EntryFiles(disk, config, identity)
        self._entries: dict[int, dict[int, bytes]] = {}
        """Replayed, and in no segment yet."""
        self._size = 0
        self._written: list[int] = []
        """The segments that were made."""

    def open(self) -> Opened:
        for name in (CHECKPOINT, SEGMENT_LIST):
            if self._disk.exists(name + TEMPORARY):
                # Durably, or a later rename could find this one under its name.
                self._disk.remove(name + TEMPORARY)
                self._disk.sync_directory("")
        for directory in (JOURNAL, ENTRIES, STATES):
            self._clean(directory)
        opened, start = self._read_checkpoint()
        self._open_segments(opened)
        last = self._replay(opened, start)
        self._finish(opened, (last + 1, 0))
        return opened

    def _clean(self, directory: str) -> None:
        """Make a directory, durably, or remove what was never used from it."""
        names = self._disk.list(directory)
        path = f"{directory}/made"
        if not names:
            self._disk.open_append(path, create=True).close()
        if not names or "made" in names:
            self._disk.remove(path)
        for name in names:
            if name.endswith(TEMPORARY) or f"{directory}/{name}" == PREPARED:
                self._disk.remove(f"{directory}/{name}")
        self._disk.sync_directory(directory)

    def _do(self, job: Job) -> object:
        answer = self._files.perform(job)
        if isinstance(answer, JobFailed):
            if not answer.is_full:
                raise OSError(answer.reason)
            if not isinstance(job, SaveCheckpoint):
                # That one may have been replaced, and name what was written.
                self._undo()
            raise NoRoomError(answer.reason)
        return answer

    def _undo(self) -> None:
        """Remove what was written: no checkpoint names it."""
        if self._written:
            self._files.perform(RemoveSegments(tuple(self._written)))

    def _read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            return self._disk.read(path, offset, length)
        except OSError as error:
            raise UnreadableFileError(path, error) from error

    # -------------------------------------------------------------------------------------------- checkpoint and state

    def _read_checkpoint(self) -> tuple[Opened, Mark]:
        states = numbers_in(self._disk, STATES)
        if not self._disk.exists(CHECKPOINT):
            self._check_new()
            next_state = max(states, default=0) + 1
            return Opened(LedgerTable(), [], (0, 0), 1, next_state), (0, 0)
        checkpoint = read_checkpoint(self._read(CHECKPOINT), self._identity)
        if checkpoint is None:
            raise DamagedError(CHECKPOINT, 0, "it does not match its checksum")
        for number in reversed(states):
            if number < checkpoint.state:
                break
            table = read_state(self._read(state_path(number)), number, self._identity)
            if table is not None:
                return Opened(table, [], checkpoint.mark, 1, states[-1] + 1), checkpoint.mark
        raise DamagedError(state_path(checkpoint.state), 0, "the state that the checkpoint names is not readable")

    def _check_new(self) -> None:
        """Without a checkpoint there is nothing else: the first one is made before the first journal."""
        for directory in (JOURNAL, ENTRIES):
            if numbers_in(self._disk, directory):
                raise DamagedError(CHECKPOINT, 0, f"it is missing, and there are files in {directory}")

    # ------------------------------------------------------------------------------------------------------- segments

    def _open_segments(self, opened: Opened) -> None:
        numbers = numbers_in(self._disk, ENTRIES)
        self._check_list(numbers)
        found = {number: self._open_segment(number) for number in numbers}
        replaced = {
            number
            for segment in found.values()
            if not segment.is_suspect
            for number in segment.replaced
            if number in found
        }
        if replaced:
            self._keep_list(found)
            answer = self._do(RemoveSegments(tuple(sorted(replaced))))
            assert isinstance(answer, SegmentsRemoved)
        opened.segments = [segment for number, segment in found.items() if number not in replaced]
        opened.next_segment = max(found, default=0) + 1
        for segment in opened.segments:
            if segment.is_suspect:
                opened.notes.append(
                    f"segment {segment.number:016x} is damaged -> what is not found in it is answered with an I/O"
                    " error; have its ledgers copied from other bookies"
                )

    def _check_list(self, there: Collection[int]) -> None:
        """Every segment that is listed has to be there. The list is made before the first checkpoint."""
        if not self._disk.exists(CHECKPOINT):
            return
        if not self._disk.exists(SEGMENT_LIST):
            raise DamagedError(SEGMENT_LIST, 0, "it is missing")
        try:
            listed = self._files.listed()
        except OSError as error:
            raise UnreadableFileError(SEGMENT_LIST, error) from error
        if listed is None:
            raise DamagedError(SEGMENT_LIST, 0, "it does not match its checksum")
        missing = listed.difference(there)
        if missing:
            more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DamagedError(segment_path(min(missing)), 0, f"the file is missing{more}")

    def _open_segment(self, number: int) -> Segment:
        path = segment_path(number)
        size = self._disk.size(path)
        try:
            return open_segment(
                number, size, lambda offset, length: self._disk.read(path, offset, length), self._identity
            )
        except OSError as error:
            # Any other error is none of this file alone.
            if error.errno != errno.EIO:
                raise UnreadableFileError(path, error) from error
            return Segment(number, size, is_readable=False)

    # --------------------------------------------------------------------------------------------------------- replay

    def _replay(self, opened: Opened, start: Mark) -> int:
        """Replay the journal from `start`; the highest sequence that was used."""
        sequence, offset = start
        numbers = [number for number in numbers_in(self._disk, JOURNAL) if number >= sequence]
        if not numbers:
            if offset:
                raise DamagedError(journal_path(sequence), offset, "the file is missing")
            return sequence
        for expected, number in enumerate(numbers, sequence):
            if expected != number:
                raise DamagedError(journal_path(expected), 0, "the file is missing")
        for number in numbers:
            self._replay_file(opened, number, offset if number == sequence else 0, number == numbers[-1])
        return numbers[-1]

    def _replay_file(self, opened: Opened, sequence: int, start: int, is_last: bool) -> None:
        data = self._read(journal_path(sequence))
        found = scan(data, tag_of(self._identity, sequence), start or HEADER_BYTES)
        has_header = bool(start) or read_header(data, sequence, self._identity) is not None
        synced = 0
        if not is_last:
            # All of it was durable before the next one was begun, whether that says so or not.
            synced = max(self._end_of(sequence), found.parts[-1].end if found.parts else 0)
        self._check(found, sequence, synced, has_header)
        if not has_header:
            return
        for frame in found.frames_before_tear():
            opened.was_ended = False
            for record in self._records(frame, sequence):
                self._apply(opened, record)
            if self._size >= self._config.open_bytes_max:
                self._flush(opened, (sequence, frame.end))

    def _check(self, found: Scan, sequence: int, synced: int, has_header: bool) -> None:
        damage = found.damage(synced)
        if damage is not None:
            raise DamagedError(journal_path(sequence), damage.offset, damage.reason)
        if not has_header and max(found.synced, synced):
            raise DamagedError(journal_path(sequence), 0, "the header of the file is not readable")

    def _end_of(self, sequence: int) -> int:
        """Where the file of this sequence ended, as the next one says; 0 if that has nothing in it."""
        path = journal_path(sequence + 1)
        return read_header(self._read(path, 0, HEADER_BYTES), sequence + 1, self._identity) or 0

    def _records(self, frame: Frame, sequence: int) -> Iterator[Record]:
        try:
            yield from parse_records(frame.payload)
        except RecordError as error:
            raise DamagedError(journal_path(sequence), frame.offset, str(error)) from error

    def _apply(self, opened: Opened, record: Record) -> None:
        table = opened.table
        match record:
            case EntriesRecord(envelopes):
                for envelope in envelopes:
                    self._apply_entry(opened, envelope)
            case LedgerRecord(kind, ledger_id, key):
                ledger = _ledger_of(table, ledger_id, key)
                if ledger is not None:
                    assert kind in (LEDGER, FENCE, LIMBO)
                    ledger.is_fenced = ledger.is_fenced or kind != LEDGER
                    ledger.is_limbo = ledger.is_limbo or kind == LIMBO
            case LacRecord(ledger_id, key, packet):
                ledger = _ledger_of(table, ledger_id, key)
                lac = lac_header_of(packet)[1]
                if ledger is not None and (lac > ledger.explicit_lac or not ledger.lac_packet):
                    ledger.explicit_lac, ledger.lac_packet = lac, packet
                    ledger.lac = max(ledger.lac, lac)
            case TombstonesRecord(first, last):
                table.tombstones.add_run(first, last)
                for ledger_id in table.within(first, last):
                    table.delete(ledger_id)
                    self._entries.pop(ledger_id, None)
            case EndRecord():
                opened.was_ended = True

    def _apply_entry(self, opened: Opened, envelope: bytes) -> None:
        ledger_id, entry, lac, _ = header_of(envelope)
        ledger = _ledger_of(opened.table, ledger_id, NO_KEY)
        if ledger is None:
            return
        self._entries.setdefault(ledger_id, {})[entry] = envelope
        self._size += len(envelope) + ENTRY_OVERHEAD_BYTES
        opened.replayed += 1
        if ledger.lac < lac < entry:
            ledger.lac = lac

    # ---------------------------------------------------------------------------------------------------------- flush

    def _flush(self, opened: Opened, mark: Mark) -> None:
        """Put what was replayed into a segment."""
        if not self._entries:
            return
        answer = self._do(WriteSegment(opened.next_segment, self._entries, mark))
        assert isinstance(answer, SegmentWritten)
        opened.segments.append(answer.segment)
        self._written.append(answer.segment.number)
        opened.next_segment += 1
        self._entries, self._size = {}, 0

    def _finish(self, opened: Opened, mark: Mark) -> None:
        """Make everything durable, and say so in the checkpoint."""
        self._flush(opened, mark)
        highest = opened.table.highest
        for segment in opened.segments:
            segment.bound = highest
        _note_last(opened.table.by_id, opened.segments)
        self._keep_list(segment.number for segment in opened.segments)
        ledgers, tombstones = list(opened.table), opened.table.tombstones.pack()
        answer = self._do(SaveState(opened.next_state, (pack_ledgers(ledgers),), len(ledgers), tombstones))
        assert isinstance(answer, StateSaved)
        answer = self._do(SaveCheckpoint(mark, opened.next_state))
        assert isinstance(answer, CheckpointSaved)
        opened.next_state += 1
        opened.mark = mark

    def _keep_list(self, numbers: Iterable[int]) -> None:
        """List every segment; a crash may have left one that is not listed."""
        try:
            self._files.keep_list(numbers)
        except OSError as error:
            if not is_full(error):
                raise
            self._undo()
            raise NoRoomError(str(error)) from error


def _ledger_of(table: LedgerTable, ledger_id: int, key: bytes) -> Ledger | None:
    """The ledger of a record, made if need be; None if it is deleted."""
    if ledger_id in table.tombstones:
        return None
    ledger = table.get(ledger_id)
    if ledger is None:
        return table.create(ledger_id, key)
    if ledger.key == NO_KEY:
        ledger.key = key
    return ledger


def _note_last(by_id: Mapping[int, Ledger], segments: list[Segment]) -> None:
    """Note the highest entry of each ledger."""
    for segment in segments:
        for row in segment.rows():
            ledger = by_id.get(row.ledger)
            if ledger is not None:
                ledger.last = max(ledger.last, row.last, NONE)
