"""Finds the directories of bookies, and which entries of which ledgers each of them has where.

    find_bookies(dirs, wanted) -> bookies       by name; `Bookie.parts` has the places of entries
    located(parts, start, until)                each entry once: of several copies, the one that the bookie reads

A DIR is the ledger directory of a bookie, or a directory with such directories in it (down to DEPTH_MAX). A journal
directory apart is joined by its cookie. The bookie is named by its cookie, else by its directory.

What is in segments is known by their ledger maps. The part of the journal that a start would replay is read at once,
and where its entries are is kept. Ledgers that the bookie has deleted are left out.

Invariants: nothing is written, no lock is taken, and bookies may be running; a file that a bookie removes meanwhile
raises PipelineError. Memory: a row for each ledger of each segment, up to ROWS_MAX, and the places of the entries in
the journal. Not here: the entries themselves (`rows`).
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
from attrs import define, field, frozen

from zab.ledger.bookie.cookie_check import COOKIE_FILE, CookieError, parse_local_cookie
from zab.ledger.bookie.inspection import Finding, Inspection, JournalFile, Kind, StateFile, replacements
from zab.ledger.bookie.journal_walk import EntryPlace, FramePlace
from zab.ledger.bookie.records import TombstonesRecord
from zab.ledger.bookie.segment import Row, SegmentDamagedError, parse_index, segment_path
from zab.ledger.bookie.segment_walk import SegmentReader
from zab.ledger.bookie.state import CHECKPOINT
from zab.ledger.bookie.state_walk import Run
from zab.ledger.bookie.tombstones import Tombstones
from zab.ledger.metadata.cookies import decode_cookie
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, split_dirs
from zab.pipeline.places import Place, open_place

__all__ = ["Bookie", "Fault", "JournalPart", "Part", "SegmentPart", "Wanted", "find_bookies", "index_of", "located"]

DEPTH_MAX: Final = 2
ROWS_MAX: Final = 2_000_000
"""So many rows of ledger maps are kept; with more, ledgers have to be named."""
_JOURNAL: Final = "journal"
Wanted: TypeAlias = Callable[[int], bool]


@frozen
class Fault:
    """What cannot be read, and may have had entries. `ledger`: whose; None: of any ledger."""

    file: str
    offset: int
    reason: str
    ledger: int | None = None


@frozen
class SegmentPart:
    """What a segment has of one ledger."""

    stored: ClassVar[str] = "segment"
    file: Place
    file_bytes: int
    row: Row

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last entry."""
        return self.row.first, self.row.last

    @property
    def bytes(self) -> int:
        return self.row.size

    @property
    def count(self) -> int:
        return self.row.count


@frozen(eq=False)
class JournalPart:
    """What a journal file has of one ledger. The arrays: entries, and the places of their envelopes, as they came."""

    stored: ClassVar[str] = "journal"
    file: Place
    entries: Any
    offsets: Any
    sizes: Any

    @property
    def bounds(self) -> tuple[int, int]:
        return int(self.entries.min()), int(self.entries.max())

    @property
    def bytes(self) -> int:
        return int(self.sizes.sum())

    @property
    def count(self) -> int:
        return len(self.entries)


Part: TypeAlias = SegmentPart | JournalPart


@define(eq=False)
class Bookie:
    """One bookie. `parts`: by ledger, the oldest first."""

    name: str
    directory: str
    parts: dict[int, list[Part]] = field(factory=dict)
    deleted: Tombstones = field(factory=Tombstones)
    faults: list[Fault] = field(factory=list)


@frozen
class _Files:
    """The files of a bookie, wherever they are (`zab.ledger.bookie.windows.Files`)."""

    root: Place
    journal: Place

    def place(self, path: str) -> Place:
        directory, _, name = path.rpartition("/")
        root = self.journal if path.split("/", 1)[0] == _JOURNAL else self.root
        return root / directory / name if directory else root / name

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self.place(path).read(offset, length)

    def list(self, directory: str) -> list[str]:
        root = self.journal if directory == _JOURNAL else self.root
        place = root / directory if directory else root
        return [each.name for each in place.list() if not each.is_directory]

    def size(self, path: str) -> int:
        with self.place(path).open() as file:
            return file.size

    def exists(self, path: str) -> bool:
        return self.place(path).kind() == "file"


def find_bookies(dirs: Dirs, wanted: Wanted) -> list[Bookie]:
    """The bookies in these directories, by name, with the ledgers that are wanted. Raises PipelineError."""
    found: dict[str, _Files] = {}
    journals: dict[bytes, Place] = {}
    for _, text in split_dirs(dirs):
        place = open_place(text)
        kind = place.kind()
        if kind != "directory":
            raise PipelineError(f"{place} is a file; name the directory" if kind else f"{place} does not exist")
        try:
            for each in _directories(place, DEPTH_MAX):
                if (each / CHECKPOINT).kind() == "file" or (each / "entries").kind() == "directory":
                    found[str(each)] = _Files(each, each)
                else:
                    journals[(each / COOKIE_FILE).read()] = each
        except OSError as error:
            raise PipelineError(f"{place} cannot be read: {error.strerror or error}") from None
    if not found:
        raise PipelineError(f"{', '.join(text for _, text in split_dirs(dirs))}: no directory of a bookie")
    bookies = [_read(_with_journal(each, journals), wanted) for each in found.values()]
    names = [each.name for each in bookies]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise PipelineError(f"there are several directories of bookie {', '.join(twice)}: give one of each")
    return sorted(bookies, key=lambda each: each.name)


def _directories(place: Place, depth: int) -> Iterator[Place]:
    entries = {each.name: each for each in place.list()}
    if COOKIE_FILE in entries or CHECKPOINT in entries:
        yield place
        return
    for each in entries.values() if depth else ():
        if each.is_directory and not each.name.startswith("."):
            yield from _directories(each.place, depth - 1)


def _with_journal(files: _Files, journals: dict[bytes, Place]) -> _Files:
    if (files.root / _JOURNAL).kind() or not files.exists(COOKIE_FILE):
        return files
    journal = journals.get(files.read(COOKIE_FILE))
    return files if journal is None else _Files(files.root, journal)


def _read(files: _Files, wanted: Wanted) -> Bookie:
    bookie = Bookie(_name(files), str(files.root))
    try:
        inspection = Inspection(files)
        _note(bookie, files, inspection.findings)
        _read_deleted(bookie, files, inspection)
        _read_segments(bookie, files, inspection, wanted)
        _read_journal(bookie, files, inspection, wanted)
    except FileNotFoundError as error:
        raise PipelineError(f"{files.root}: the bookie has removed a file meanwhile: read it again ({error})") from None
    except OSError as error:
        raise PipelineError(f"{files.root} cannot be read: {error.strerror or error}") from None
    for ledger in [ledger for ledger in bookie.parts if ledger in bookie.deleted]:
        del bookie.parts[ledger]
    return bookie


def _name(files: _Files) -> str:
    try:
        if files.exists(COOKIE_FILE):
            return decode_cookie(parse_local_cookie(files.read(COOKIE_FILE)).data).bookie
    except (CookieError, InvalidMetadataError, OSError):
        pass
    return files.root.name


def _note(bookie: Bookie, files: _Files, found: Sequence[Finding]) -> None:
    for each in found:
        if each.kind in (Kind.DAMAGE, Kind.FOREIGN, Kind.SUSPECT):
            bookie.faults.append(Fault(str(files.place(each.path)), each.offset, each.reason))


def _read_deleted(bookie: Bookie, files: _Files, inspection: Inspection) -> None:
    is_used = False
    for part in inspection.walk_states():
        match part:
            case StateFile(is_used=is_used):
                pass
            case Run(first, last) if is_used:
                bookie.deleted.add_run(first, last)
            case Finding():
                _note(bookie, files, [part])
            case _:
                pass


def _read_segments(bookie: Bookie, files: _Files, inspection: Inspection, wanted: Wanted) -> None:
    heads = inspection.heads()
    replaced = replacements(heads)
    count = 0
    for head in sorted(heads, key=lambda each: (each.footer.rank if each.footer else 0, each.number)):
        path = segment_path(head.number)
        if head.number in replaced:
            continue
        if head.footer is None or not head.is_mapped:
            bookie.faults.append(Fault(str(files.place(path)), 0, "the ledger map is not readable"))
            continue
        for row in SegmentReader(inspection.window(path), head.number).rows():
            if not wanted(row.ledger):
                continue
            count += 1
            if count > ROWS_MAX:
                raise PipelineError(f"{files.root} has more than {ROWS_MAX:,} parts of ledgers: name the ledgers")
            bookie.parts.setdefault(row.ledger, []).append(SegmentPart(files.place(path), head.size, row))


def _read_journal(bookie: Bookie, files: _Files, inspection: Inspection, wanted: Wanted) -> None:
    path, is_cut = "", False
    start: int | None = None
    places: dict[int, tuple[array[int], array[int], array[int]]] = {}
    for part in inspection.walk_journal():
        match part:
            case Finding():
                _note(bookie, files, [part])
            case JournalFile(sequence=sequence, start=start):
                _keep(bookie, files, path, places)
                path, places = f"{_JOURNAL}/{sequence:016x}", {}
            case FramePlace(is_cut=is_cut):
                pass
            case (_, EntryPlace() as entry) if start is not None and entry.offset >= start and not is_cut:
                if wanted(entry.ledger):
                    kept = places.setdefault(entry.ledger, (array("q"), array("q"), array("q")))
                    for numbers, value in zip(kept, (entry.entry, entry.offset, entry.size), strict=True):
                        numbers.append(value)
            case (at, TombstonesRecord(first, last)) if start is not None and at >= start and not is_cut:
                bookie.deleted.add_run(first, last)
            case _:
                pass
    _keep(bookie, files, path, places)


def _keep(
    bookie: Bookie, files: _Files, path: str, places: dict[int, tuple["array[int]", "array[int]", "array[int]"]]
) -> None:
    for ledger, found in places.items():
        arrays = (np.array(each, np.int64) for each in found)
        bookie.parts.setdefault(ledger, []).append(JournalPart(files.place(path), *arrays))


@frozen(eq=False)
class Located:
    """Entries in ascending order: which part each is read from, where it is there, and its CRC-32; -1: it has none."""

    entries: Any
    parts: Any
    offsets: Any
    sizes: Any
    crcs: Any


def index_of(part: Part) -> tuple[Any, Any, Any, Any]:
    """Entries, offsets, sizes and CRC-32 of a part. Raises SegmentDamagedError, OSError."""
    if isinstance(part, JournalPart):
        return part.entries, part.offsets, part.sizes, np.full(len(part.entries), -1, np.int64)
    row = part.row
    index = parse_index(row, part.file.read(row.index_offset, row.index_bytes), part.file_bytes)
    ends = np.asarray(index.ends, np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    ids = np.arange(row.first, row.last + 1) if isinstance(index.ids, range) else np.asarray(index.ids, np.int64)
    return ids, row.offset + starts, ends - starts, np.asarray(index.crcs, np.int64)


def located(parts: Sequence[Part], start: int, until: int, faults: list[Fault]) -> Located:
    """The entries in [start, until) of a ledger's parts, of which the newest is the last.

    What cannot be read is appended to `faults`. Raises OSError."""
    found: list[tuple[Any, Any, Any, Any, Any]] = []
    for number, part in enumerate(parts):
        try:
            ids, offsets, sizes, crcs = index_of(part)
        except SegmentDamagedError as error:
            assert isinstance(part, SegmentPart)
            faults.append(Fault(str(part.file), part.row.index_offset, str(error), part.row.ledger))
            continue
        keep = np.flatnonzero((ids >= start) & (ids < until))
        numbers = np.full(len(keep), number, np.int64)
        found.append((ids[keep], numbers, offsets[keep], sizes[keep], crcs[keep]))
    if not found:
        empty = np.empty(0, np.int64)
        return Located(empty, empty, empty, empty, empty)
    columns = [np.concatenate(each) for each in zip(*found, strict=True)]
    ids = columns[0]
    order = np.lexsort((np.arange(len(ids)), ids))
    is_last = np.append(ids[order][1:] != ids[order][:-1], True) if len(ids) else np.empty(0, bool)
    return Located(*(each[order[is_last]] for each in columns))
