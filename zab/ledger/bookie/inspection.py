"""What is in the directory of a bookie, and what is wrong with it, for who looks at it from outside.

    Inspection(files)           reads the cookie and the checkpoint
    .walk_journal()             files, frames and records
    .walk_segments()            their list, segments and their ledgers; every byte is verified
    .walk_states()              ledgers, tombstones
    .leftovers()                what a start removes
    .find(ledger, entry)        every copy of one entry

All but the first are generators, which yield a `Finding` after the part that it is about. The bookie may run: nothing
is written, no lock is taken. Memory is a few pieces of a file and the outer parts of each segment, whatever is in the
files.

| kind | what it leads to |
|---|---|
| damage | what was durable cannot be read: the bookie refuses to start |
| foreign | a file of another bookie or another cluster: the same |
| suspect | a part of a segment: what it may have is answered with an I/O error |
| problem | nothing depends on it |
| torn | never acknowledged; the next start cuts it off |
| leftover | the next start removes it |
| gone | the bookie has removed it meanwhile |

The last three are no faults. What is damage is decided as `opening.py` decides it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, TypeAlias

import attrs

from zab.ledger.bookie.config import Identity
from zab.ledger.bookie.cookie_check import COOKIE_FILE, CookieError, LocalCookie, parse_local_cookie
from zab.ledger.bookie.frames import DIRECTORY as JOURNAL
from zab.ledger.bookie.frames import HEADER_BYTES as JOURNAL_HEADER_BYTES
from zab.ledger.bookie.frames import PREPARED, Bad, journal_path, parse_header, tag_of
from zab.ledger.bookie.journal_walk import DamagedFrame, EntryPlace, FramePlace, Placed, walk_frames, walk_records
from zab.ledger.bookie.ledgers import Ledger
from zab.ledger.bookie.records import RecordError
from zab.ledger.bookie.segment import DIRECTORY as ENTRIES
from zab.ledger.bookie.segment import ForeignFileError, Row, segment_path
from zab.ledger.bookie.segment_list import SEGMENT_LIST, parse_list
from zab.ledger.bookie.segment_walk import SegmentEntry, SegmentHead, SegmentReader, Wrong
from zab.ledger.bookie.state import (
    CHECKPOINT,
    Checkpoint,
    StateHeader,
    parse_checkpoint,
    parse_state_header,
    state_path,
)
from zab.ledger.bookie.state import DIRECTORY as STATES
from zab.ledger.bookie.state import HEADER_BYTES as STATE_HEADER_BYTES
from zab.ledger.bookie.state_walk import Run, StateDamagedError, check_state, walk_state
from zab.ledger.bookie.windows import PIECE_BYTES, Files, Window

TEMPORARY: Final = ".tmp"
FINDINGS_MAX: Final = 100
"""So many findings are told of one file; one more says that there are more."""
SMALL_FILE_BYTES_MAX: Final = 1 << 20
"""The cookie and the checkpoint are read as a whole, up to this size."""
LIST_BYTES_MAX: Final = 1 << 24
"""The list of segments is read as a whole, up to this size: two million segments."""


class Kind(StrEnum):
    """What a finding leads to: the table above."""

    DAMAGE = "damage"
    FOREIGN = "foreign"
    SUSPECT = "suspect"
    PROBLEM = "problem"
    TORN = "torn"
    LEFTOVER = "leftover"
    GONE = "gone"

    @property
    def is_fault(self) -> bool:
        return self in (Kind.DAMAGE, Kind.FOREIGN, Kind.SUSPECT, Kind.PROBLEM)


@attrs.frozen
class Finding:
    """`path` is below the directory of the bookie, `offset` that of the first byte that it is about."""

    kind: Kind
    path: str
    offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path} at offset {self.offset}: {self.reason}"


@attrs.frozen
class JournalFile:
    """A journal file, before what is in it. `start`: what a start replays begins there; None: it needs none of it."""

    sequence: int
    size: int
    previous_end: int | None
    start: int | None


@attrs.frozen
class StateFile:
    """A state file, before its ledgers. `is_used`: a start begins with it."""

    number: int
    size: int
    header: StateHeader
    is_used: bool


@attrs.frozen
class Copy:
    """A copy of an entry. `rank`: of its segment; None: it is in the journal. `counts`: it is the one that is read."""

    path: str
    offset: int
    size: int
    rank: int | None
    counts: bool


JournalPart: TypeAlias = JournalFile | FramePlace | Placed | Finding
SegmentPart: TypeAlias = SegmentHead | Row | Finding
StatePart: TypeAlias = StateFile | Ledger | Run | Finding


class Inspection:
    """One directory. `identity` and `checkpoint` are None if they are not known."""

    def __init__(self, files: Files, *, piece_bytes: int = PIECE_BYTES) -> None:
        """Raises OSError."""
        self._files = files
        self._piece_bytes = piece_bytes
        self.cookie: LocalCookie | None = None
        self.identity: Identity | None = None
        self.checkpoint: Checkpoint | None = None
        self.is_empty = not any(files.exists(name) for name in (COOKIE_FILE, CHECKPOINT)) and not any(
            numbers_of(files, directory) for directory in (JOURNAL, ENTRIES, STATES)
        )
        """Whether nothing in it is a bookie's."""
        self.findings = list(self._first())
        """What is wrong with the cookie and the checkpoint."""
        if self.identity is None:
            self.identity = next(self._identities(), None)

    def window(self, path: str) -> Window:
        """A file of it. Raises OSError."""
        return Window(self._files, path, piece_bytes=self._piece_bytes)

    # ------------------------------------------------------------------------------------------ cookie and checkpoint

    def _first(self) -> Iterator[Finding]:
        try:
            if self._files.exists(COOKIE_FILE):
                self.cookie = parse_local_cookie(self._files.read(COOKIE_FILE, 0, SMALL_FILE_BYTES_MAX))
            elif not self.is_empty:
                yield Finding(Kind.PROBLEM, COOKIE_FILE, 0, "it is missing")
        except CookieError as error:
            yield Finding(Kind.DAMAGE, COOKIE_FILE, 0, str(error))
        if not self._files.exists(CHECKPOINT):
            others = [name for name in (JOURNAL, ENTRIES) if numbers_of(self._files, name)]
            if others:
                yield Finding(
                    Kind.DAMAGE, CHECKPOINT, 0, f"it is missing, and there are files in {' and '.join(others)}"
                )
            return
        found = parse_checkpoint(self._files.read(CHECKPOINT, 0, SMALL_FILE_BYTES_MAX))
        if found is None:
            yield Finding(Kind.DAMAGE, CHECKPOINT, 0, "it does not match its checksum")
            return
        self.identity, self.checkpoint = found
        if self.cookie is not None and self.cookie.uuid != self.identity.uuid:
            yield Finding(Kind.FOREIGN, CHECKPOINT, 0, "the cookie is that of other data")

    def _identities(self) -> Iterator[Identity]:
        """What the files say, where the checkpoint does not."""
        for head in self.heads():
            if head.identity is not None:
                yield head.identity
        for number in numbers_of(self._files, STATES):
            header = parse_state_header(self._files.read(state_path(number), 0, STATE_HEADER_BYTES), number)
            if header is not None:
                yield header.identity
        for number in numbers_of(self._files, JOURNAL):
            with contextlib.suppress(ForeignFileError):
                found = parse_header(self._files.read(journal_path(number), 0, JOURNAL_HEADER_BYTES), number)
                if found is not None:
                    yield found[0]

    def _check_identity(self, path: str, found: Identity) -> Iterator[Finding]:
        if found != self.identity:
            yield Finding(Kind.FOREIGN, path, 0, "it belongs to another bookie or another cluster")

    # -------------------------------------------------------------------------------------------------------- journal

    def walk_journal(self) -> Iterator[JournalPart]:
        """The journal files, each before its frames, and each frame before its records. Raises OSError."""
        mark = (0, 0) if self.checkpoint is None else self.checkpoint.mark
        numbers = numbers_of(self._files, JOURNAL)
        needed = [number for number in numbers if number >= mark[0]]
        if not needed and mark[1]:
            yield Finding(Kind.DAMAGE, journal_path(mark[0]), mark[1], "the file is missing")
        expected = needed[0] if self.checkpoint is None and needed else mark[0]
        for number in needed:
            if number > expected:
                last = "" if number == expected + 1 else f", and so are all up to {journal_path(number - 1)}"
                yield Finding(Kind.DAMAGE, journal_path(expected), 0, f"the file is missing{last}")
            expected = number + 1
        for number in numbers:
            start = None if number < mark[0] else mark[1] if number == mark[0] else 0
            try:
                yield from self._walk_journal_file(number, start, is_last=number == numbers[-1])
            except FileNotFoundError:
                yield Finding(Kind.GONE, journal_path(number), 0, "it is no longer there")

    def _walk_journal_file(self, sequence: int, start: int | None, *, is_last: bool) -> Iterator[JournalPart]:
        window = self.window(journal_path(sequence))
        try:
            header = parse_header(window.read(0, JOURNAL_HEADER_BYTES), sequence)
        except ForeignFileError as error:
            yield Finding(Kind.FOREIGN, window.path, 0, str(error))
            return
        yield JournalFile(sequence, window.size, None if header is None else header[1], start)
        if header is not None:
            yield from self._check_identity(window.path, header[0])
        if self.identity is None:
            yield Finding(Kind.DAMAGE, window.path, 0, "no file says whose it is, so its frames cannot be recognized")
            return
        begin, tag = start or JOURNAL_HEADER_BYTES, tag_of(self.identity, sequence)
        if start is None or start > JOURNAL_HEADER_BYTES:
            # What a checkpoint covers.
            until = window.size if start is None else begin
            if header is None:
                yield Finding(Kind.PROBLEM, window.path, 0, "the header of the file is not readable")
            records, count = (window.again(), window.again()), 0
            for part in walk_frames(window, tag, JOURNAL_HEADER_BYTES):
                if part.offset >= until or count > FINDINGS_MAX:
                    break
                if isinstance(part, FramePlace):
                    yield part
                    yield from _records(records, part, Kind.PROBLEM)
                    continue
                count += 1
                told = Finding(Kind.PROBLEM, window.path, part.offset, part.reason)
                yield told if count <= FINDINGS_MAX else _more(told.kind, told.path, told.offset)
            if window.size < until:
                yield Finding(Kind.PROBLEM, window.path, window.size, "the file ends before the mark of the checkpoint")
        if start is not None:
            is_headless = header is None and not start
            ends = 0 if is_last else self._end_of(sequence)
            yield from _walk_needed(window, tag, begin, ends, is_last=is_last, is_headless=is_headless)

    def _end_of(self, sequence: int) -> int:
        """Where the file of this sequence ended, as the next one says; 0 if it says nothing."""
        path = journal_path(sequence + 1)
        if not self._files.exists(path):
            return 0
        try:
            found = parse_header(self._files.read(path, 0, JOURNAL_HEADER_BYTES), sequence + 1)
        except ForeignFileError:
            return 0
        return 0 if found is None else found[1]

    # ------------------------------------------------------------------------------------------------------- segments

    def heads(self) -> list[SegmentHead]:
        """The outer parts of all segments that are there. Raises OSError."""
        found = []
        for number in numbers_of(self._files, ENTRIES):
            try:
                found.append(SegmentReader(self.window(segment_path(number)), number).head)
            except FileNotFoundError:
                continue
        return found

    def replaced(self) -> dict[int, int]:
        """The segments that others replace, by number, and by which. Raises OSError."""
        return replacements(self.heads())

    def walk_segments(self, *, entries: bool = True) -> Iterator[SegmentPart]:
        """The segments, each before its ledgers. Without `entries`, entries are not verified. Raises OSError."""
        yield from self._check_list()
        replaced_by = self.replaced()
        for number in numbers_of(self._files, ENTRIES):
            path = segment_path(number)
            try:
                yield from self._walk_segment(path, number, number in replaced_by, entries=entries)
            except FileNotFoundError:
                yield Finding(Kind.GONE, path, 0, "it is no longer there")
            if number in replaced_by:
                yield Finding(Kind.LEFTOVER, path, 0, f"segment {replaced_by[number]:016x} replaces it")

    def _check_list(self) -> Iterator[Finding]:
        """The list of segments, and those that are listed and not there."""
        if self.checkpoint is None:
            return
        if not self._files.exists(SEGMENT_LIST):
            yield Finding(Kind.DAMAGE, SEGMENT_LIST, 0, "it is missing")
            return
        found = self._listed()
        if found is None:
            yield Finding(Kind.DAMAGE, SEGMENT_LIST, 0, "it does not match its checksum")
            return
        yield from self._check_identity(SEGMENT_LIST, found[0])
        missing = found[1].difference(numbers_of(self._files, ENTRIES))
        # A bookie that runs takes a segment out of the list before it removes the file.
        again = self._listed() if missing else None
        gone = sorted(missing if again is None else missing & again[1])
        for number in gone[:FINDINGS_MAX]:
            yield Finding(Kind.DAMAGE, segment_path(number), 0, "the file is missing")
        if len(gone) > FINDINGS_MAX:
            yield _more(Kind.DAMAGE, segment_path(gone[FINDINGS_MAX]), 0)

    def _listed(self) -> tuple[Identity, frozenset[int]] | None:
        return parse_list(self._files.read(SEGMENT_LIST, 0, LIST_BYTES_MAX))

    def _walk_segment(self, path: str, number: int, is_replaced: bool, *, entries: bool) -> Iterator[SegmentPart]:
        kind, count = Kind.PROBLEM if is_replaced else Kind.SUSPECT, 0
        reader = SegmentReader(self.window(path), number)
        yield reader.head
        if reader.head.identity is not None:
            yield from self._check_identity(path, reader.head.identity)
        for part in reader.walk(entries=entries):
            if isinstance(part, Row):
                yield part
                continue
            count += 1
            if count > FINDINGS_MAX:
                yield _more(kind, path, part.offset)
                return
            yield Finding(kind, path, part.offset, part.reason)

    # --------------------------------------------------------------------------------------------------------- states

    def walk_states(self) -> Iterator[StatePart]:
        """The state files, the newest first, each before its ledgers and tombstones. Raises OSError."""
        needed = None if self.checkpoint is None else self.checkpoint.state
        used = None
        for number in reversed(numbers_of(self._files, STATES)):
            path = state_path(number)
            try:
                window = self.window(path)
                header = check_state(window, number)
            except StateDamagedError as error:
                yield Finding(Kind.PROBLEM, path, error.offset, error.reason)
                continue
            except FileNotFoundError:
                yield Finding(Kind.GONE, path, 0, "it is no longer there")
                continue
            is_used = used is None and needed is not None and number >= needed
            used = number if is_used else used
            yield StateFile(number, window.size, header, is_used)
            yield from self._check_identity(path, header.identity)
            yield from walk_state(window, header)
        if used is None and needed is not None:
            reason = "the state that the checkpoint names is not readable"
            yield Finding(Kind.DAMAGE, state_path(needed), 0, reason)

    # ----------------------------------------------------------------------------------------------- everything else

    def leftovers(self) -> Iterator[Finding]:
        """What was never used, and what no bookie writes."""
        for directory in ("", JOURNAL, ENTRIES, STATES):
            for name in self._files.list(directory):
                path = f"{directory}/{name}" if directory else name
                if name.endswith(TEMPORARY):
                    yield Finding(Kind.LEFTOVER, path, 0, "it was being written")
                elif path == PREPARED:
                    yield Finding(Kind.LEFTOVER, path, 0, "it is the next journal file, without content")
                elif directory and not _is_number(name):
                    yield Finding(Kind.PROBLEM, path, 0, "no file of a bookie has such a name")

    def find(self, ledger: int, entry: int) -> list[Copy | Finding]:
        """Every copy of an entry: those in segments by their age, then those in the journal. Raises OSError."""
        found: list[Copy | Finding] = []
        heads = self.heads()
        replaced = replacements(heads)
        for head in sorted(heads, key=lambda each: (0 if each.footer is None else each.footer.rank, each.number)):
            path = segment_path(head.number)
            if head.footer is None or not head.is_mapped:
                found.append(Finding(Kind.SUSPECT, path, 0, "it may have the entry: its ledger map is not readable"))
                continue
            reader = SegmentReader(self.window(path), head.number)
            there = reader.find(ledger, entry)
            if isinstance(there, SegmentEntry):
                counts = head.number not in replaced
                found.append(Copy(path, there.offset, there.size, head.footer.rank, counts))
                there = reader.check_record(there)
            if isinstance(there, Wrong):
                found.append(Finding(Kind.SUSPECT, path, there.offset, there.reason))
        found += self._find_in_journal(ledger, entry)
        newest = max((at for at, each in enumerate(found) if isinstance(each, Copy) and each.counts), default=None)
        return [
            attrs.evolve(each, counts=False) if isinstance(each, Copy) and at != newest else each
            for at, each in enumerate(found)
        ]

    def _find_in_journal(self, ledger: int, entry: int) -> Iterator[Copy | Finding]:
        start: int | None = None
        path, is_cut = "", False
        for part in self.walk_journal():
            match part:
                case JournalFile(sequence=sequence, start=start):
                    path = journal_path(sequence)
                case FramePlace(is_cut=is_cut):
                    pass
                case Finding():
                    yield part
                case (_, EntryPlace() as place) if (place.ledger, place.entry) == (ledger, entry):
                    counts = start is not None and place.offset >= start and not is_cut
                    yield Copy(path, place.offset, place.size, None, counts)


def replacements(heads: list[SegmentHead]) -> dict[int, int]:
    """The segments that others replace, by number, and by which."""
    there = {head.number for head in heads}
    return {
        number: head.number
        for head in heads
        if head.identity is not None and head.is_mapped
        for number in head.replaced
        if number in there
    }


def numbers_of(files: Files, directory: str) -> list[int]:
    """The numbers of the files of a directory that are named by 16 hex digits, ascending."""
    return sorted(int(name, 16) for name in files.list(directory) if _is_number(name))


def _is_number(name: str) -> bool:
    return len(name) == 16 and not name.strip("0123456789abcdef")


def _walk_needed(
    window: Window, tag: bytes, begin: int, ends: int, *, is_last: bool, is_headless: bool
) -> Iterator[JournalPart]:
    """What a start replays. `ends`: the end of the file, as the next one says."""
    bad: list[Bad] = []
    synced, end, records = 0, begin, (window.again(), window.again())
    for part in walk_frames(window, tag, begin):
        end = part.end
        if isinstance(part, FramePlace | DamagedFrame):
            synced = max(synced, part.synced)
        if isinstance(part, Bad):
            if len(bad) <= FINDINGS_MAX:
                bad.append(part)
            continue
        assert isinstance(part, FramePlace)
        yield attrs.evolve(part, is_cut=bool(bad) or is_headless)
        yield from _records(records, part, Kind.TORN if bad else Kind.DAMAGE)
    if not is_last:
        synced = max(synced, ends, end if end > begin else 0)
    if is_headless:
        yield Finding(Kind.DAMAGE if synced else Kind.TORN, window.path, 0, "the header of the file is not readable")
    for number, each in enumerate(bad):
        kind = Kind.DAMAGE if each.offset < synced else Kind.TORN
        told = Finding(kind, window.path, each.offset, each.reason)
        yield told if number < FINDINGS_MAX else _more(told.kind, told.path, told.offset)
    if not bad and end < synced:
        yield Finding(Kind.DAMAGE, window.path, end, f"the file ends too early: it was durable up to {synced}")


def _records(windows: tuple[Window, Window], frame: FramePlace, kind: Kind) -> Iterator[Placed | Finding]:
    try:
        yield from walk_records(*windows, frame)
    except RecordError as error:
        yield Finding(kind, windows[0].path, frame.offset, str(error))


def _more(kind: Kind, path: str, offset: int) -> Finding:
    return Finding(kind, path, offset, f"more of it is damaged: {FINDINGS_MAX} findings are told of a file")
