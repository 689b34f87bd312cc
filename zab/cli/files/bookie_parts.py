"""What is in the directory of a bookie, as the fields of lines of `--json`; the text form is the same fields.

    journal_rows(inspection)        a line for each file, frame, entry and record
    segment_rows(inspection)        a line for each segment, and each ledger in it
    state_rows(inspection)          the checkpoint, the state files with their ledgers and tombstones
    entry_rows(inspection, …)       a line for each copy of one entry
    whole_rows(inspection)          what is wrong, and one line for the bookie

A finding is passed on as it is. Not here: printing (`zab.cli.files.bookie_inspect`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from attrs import asdict, define

from zab.cli.json_form import data_fields
from zab.host.storage.disk import RealDisk
from zab.ledger.bookie.frames import DIRECTORY as JOURNAL
from zab.ledger.bookie.frames import journal_path
from zab.ledger.bookie.inspection import (
    Copy,
    Finding,
    Inspection,
    JournalFile,
    Kind,
    StateFile,
)
from zab.ledger.bookie.journal_walk import EntryPlace, FramePlace
from zab.ledger.bookie.ledgers import Ledger
from zab.ledger.bookie.records import FENCE, LEDGER, LacRecord, LedgerRecord, Record, TombstonesRecord
from zab.ledger.bookie.segment import CONTIGUOUS, Row, segment_path
from zab.ledger.bookie.segment_walk import SegmentHead
from zab.ledger.bookie.state import state_path
from zab.ledger.bookie.state_walk import Run
from zab.ledger.bookie.windows import Files
from zab.ledger.entries.envelope import Digest, DigestMismatchError, header_of, lac_header_of
from zab.ledger.metadata.cookies import decode_cookie
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError

__all__ = ["Line", "entry_rows", "files_of", "journal_rows", "segment_rows", "state_rows", "whole_rows"]

Line: TypeAlias = dict[str, Any] | Finding

ENVELOPE_BYTES_MAX: Final = 64 << 20
"""A longer envelope is not looked into: no bookie takes one."""
_REFUSES: Final = (
    "it does not start: it may have lost what it acknowledged; decommission it, empty its directory, and bring it back "
    "with a new id"
)
_SUSPECT: Final = (
    "it starts, and answers what a damaged segment may contain with an I/O error; have these ledgers copied from other "
    "bookies"
)
_PROBLEM: Final = "it starts: nothing depends on what is named here"


class _Apart:
    """The files of a bookie whose journal is in another directory."""

    def __init__(self, entries: Files, journal: Files) -> None:
        self._entries = entries
        self._journal = journal

    def _of(self, path: str) -> Files:
        return self._journal if path == JOURNAL or path.startswith(f"{JOURNAL}/") else self._entries

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        return self._of(path).read(path, offset, length)

    def list(self, directory: str) -> list[str]:
        return self._of(directory).list(directory)

    def size(self, path: str) -> int:
        return self._of(path).size(path)

    def exists(self, path: str) -> bool:
        return self._of(path).exists(path)


def files_of(directory: Path, journal_directory: Path | None) -> Files:
    """The files of a bookie, for reading."""
    entries = RealDisk(str(directory), lock=False)
    if journal_directory is None or journal_directory == directory:
        return entries
    return _Apart(entries, RealDisk(str(journal_directory), lock=False))


def journal_rows(inspection: Inspection) -> Iterator[Line]:
    """Raises OSError."""
    for part in inspection.walk_journal():
        match part:
            case Finding():
                yield part
            case JournalFile(sequence, size, previous_end, start):
                named = {"type": "journal", "path": journal_path(sequence), "bytes": size}
                yield named | {"previous_end": previous_end, "start": start}
            case FramePlace(offset, end, synced, is_cut):
                yield {"type": "frame", "offset": offset, "bytes": end - offset, "synced": synced, "is_cut": is_cut}
            case (_, EntryPlace() as place):
                yield _entry_row(place)
            case (offset, record):
                assert not isinstance(record, EntryPlace)
                yield _record_row(offset, record)


def _entry_row(place: EntryPlace) -> dict[str, Any]:
    ids = {"ledger": place.ledger, "entry": place.entry}
    known = {"last_confirmed": place.last_confirmed, "length": place.length}
    return {"type": "entry", "offset": place.offset, "bytes": place.size} | ids | known


def _record_row(offset: int, record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = dict.fromkeys(("ledger", "lac", "first", "last"))
    kind = "end"
    match record:
        case LedgerRecord(number, ledger):
            kind = "ledger" if number == LEDGER else "fence" if number == FENCE else "limbo"
            fields |= {"ledger": ledger}
        case LacRecord(ledger, _, packet):
            kind = "explicit_lac"
            fields |= {"ledger": ledger, "lac": lac_header_of(packet)[1]}
        case TombstonesRecord(first, last):
            kind = "tombstones"
            fields |= {"first": first, "last": last}
    return {"type": "record", "offset": offset, "kind": kind} | fields


def segment_rows(inspection: Inspection) -> Iterator[Line]:
    """Raises OSError."""
    for part in inspection.walk_segments():
        match part:
            case Finding():
                yield part
            case SegmentHead():
                yield _segment_row(part)
            case Row():
                yield {
                    "type": "part",
                    "ledger": part.ledger,
                    "first": part.first,
                    "last": part.last,
                    "count": part.count,
                    "has_gaps": part.kind != CONTIGUOUS,
                    "offset": part.offset,
                    "bytes": part.size,
                }


def _segment_row(head: SegmentHead) -> dict[str, Any]:
    footer = head.footer
    return {
        "type": "segment",
        "path": segment_path(head.number),
        "bytes": head.size,
        "rank": None if footer is None else footer.rank,
        "mark_sequence": None if footer is None else footer.mark[0],
        "mark_offset": None if footer is None else footer.mark[1],
        "ledgers": None if footer is None else footer.count,
        "replaces": [segment_path(number) for number in head.replaced],
    }


def state_rows(inspection: Inspection) -> Iterator[Line]:
    """Raises OSError."""
    found = inspection.checkpoint
    if found is not None:
        mark = {"sequence": found.mark[0], "offset": found.mark[1]}
        yield {"type": "checkpoint"} | mark | {"state": state_path(found.state)}
    for part in inspection.walk_states():
        match part:
            case Finding():
                yield part
            case StateFile(number, size, header, is_used):
                counts = {"ledgers": header.count, "tombstones": header.runs}
                yield {"type": "state", "path": state_path(number), "bytes": size, "is_used": is_used} | counts
            case Ledger():
                flags = {"is_fenced": part.is_fenced, "is_limbo": part.is_limbo}
                lacs = {"lac": part.lac, "explicit_lac": part.explicit_lac if part.lac_packet else None}
                yield {"type": "ledger", "ledger": part.id} | flags | lacs
            case Run(first, last):
                yield {"type": "tombstones", "first": first, "last": last}


def entry_rows(inspection: Inspection, ledger: int, entry: int, digest: Digest | None) -> Iterator[Line]:
    """With a digest, the payload, too. Raises OSError."""
    for part in inspection.find(ledger, entry):
        yield part if isinstance(part, Finding) else _copy_row(inspection, part, ledger, entry, digest)


def _copy_row(inspection: Inspection, copy: Copy, ledger: int, entry: int, digest: Digest | None) -> dict[str, Any]:
    envelope = b""
    if copy.size <= ENVELOPE_BYTES_MAX:
        envelope = inspection.window(copy.path).read(copy.offset, copy.size)
    _, _, lac, length = header_of(envelope) if len(envelope) == copy.size else (None, None, None, None)
    is_right, payload = None, None
    if digest is not None and envelope:
        try:
            payload = digest.open(envelope, ledger, entry).payload
            is_right = True
        except DigestMismatchError:
            is_right = False
    place = {"path": copy.path, "offset": copy.offset, "bytes": copy.size, "rank": copy.rank, "counts": copy.counts}
    told = {"last_confirmed": lac, "length": length, "is_digest_right": is_right}
    return {"type": "copy"} | place | told | data_fields(payload)


@define
class _Counts:
    """What there is, for the line of the whole."""

    ledgers: int = 0
    fenced: int = 0
    limbo: int = 0
    tombstones: int = 0
    segments: int = 0
    segment_bytes: int = 0
    entries: int = 0
    journals: int = 0
    journal_entries: int = 0


def whole_rows(inspection: Inspection, told: Callable[[], None]) -> Iterator[Line]:
    """Everything is verified; `told` is called for each file. Raises OSError."""
    counts, kinds = _Counts(), set[Kind]()
    for part in _parts(inspection, counts, told):
        kinds.add(part.kind)
        yield part
    checkpoint = inspection.checkpoint
    mark = (None, None) if checkpoint is None else checkpoint.mark
    identity = inspection.identity
    yield {
        "type": "bookie",
        "bookie": _bookie(inspection),
        "instance": None if identity is None else identity.instance.hex(),
        "mark_sequence": mark[0],
        "mark_offset": mark[1],
        **asdict(counts),
        "is_whole": not any(kind.is_fault for kind in kinds),
        "verdict": _verdict(kinds),
    }


def _verdict(kinds: set[Kind]) -> str:
    if kinds & {Kind.DAMAGE, Kind.FOREIGN}:
        return _REFUSES
    if Kind.SUSPECT in kinds:
        return _SUSPECT
    return _PROBLEM if Kind.PROBLEM in kinds else "whole"


def _bookie(inspection: Inspection) -> str | None:
    if inspection.cookie is None:
        return None
    try:
        return decode_cookie(inspection.cookie.data).bookie
    except InvalidMetadataError:
        return None


def _parts(inspection: Inspection, counts: _Counts, told: Callable[[], None]) -> Iterator[Finding]:
    yield from inspection.findings
    yield from _journal_parts(inspection, counts, told)
    replaced = inspection.replaced()
    is_replaced = False
    for part in inspection.walk_segments():
        match part:
            case Finding():
                yield part
            case SegmentHead(number=number, size=size):
                told()
                is_replaced = number in replaced
                counts.segments, counts.segment_bytes = counts.segments + 1, counts.segment_bytes + size
            case Row(count=count):
                counts.entries += 0 if is_replaced else count
    is_used = False
    for state in inspection.walk_states():
        match state:
            case Finding():
                yield state
            case StateFile(is_used=is_used):
                told()
            case Ledger() if is_used:
                counts.ledgers += 1
                counts.fenced += state.is_fenced
                counts.limbo += state.is_limbo
            case Run() if is_used:
                counts.tombstones += 1
            case _:
                pass
    yield from inspection.leftovers()


def _journal_parts(inspection: Inspection, counts: _Counts, told: Callable[[], None]) -> Iterator[Finding]:
    start: int | None = None
    is_cut = False
    for part in inspection.walk_journal():
        match part:
            case Finding():
                yield part
            case JournalFile(start=start):
                told()
                counts.journals += 1
            case FramePlace(is_cut=is_cut):
                pass
            case (_, EntryPlace(offset=offset)) if start is not None and offset >= start and not is_cut:
                counts.journal_entries += 1
