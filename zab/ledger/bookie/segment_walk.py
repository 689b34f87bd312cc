"""Reading a segment piece by piece: everything in it is verified.

    SegmentReader(window, number)       its outer parts
    .walk()                             its ledgers, each with what is wrong with it
    .find(ledger, entry)                one entry of it, with a few reads

No more than a few pieces of the file are held, whatever is in it. Not here: which segments count
(`inspection.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack
from typing import Final, TypeAlias

import attrs

from zab.ledger.bookie.config import Identity
from zab.ledger.bookie.segment import (
    CONTIGUOUS,
    FOOTER_BYTES,
    HEADER_BYTES,
    LISTED,
    ROW_BYTES,
    Footer,
    Row,
    parse_footer,
    parse_header,
    parse_rows,
)
from zab.ledger.bookie.windows import Window
from zab.ledger.entries.envelope import HEADER_BYTES as ENVELOPE_BYTES_MIN

_IDS_BYTES: Final = 16
_SLICE: Final = 4096
"""So many entries of an index, or rows of a ledger map, are looked at together."""


@attrs.frozen
class SegmentHead:
    """The outer parts of a segment. `identity` and `footer` are None if they cannot be read."""

    number: int
    size: int
    identity: Identity | None
    footer: Footer | None
    replaced: tuple[int, ...] = ()
    is_mapped: bool = False
    """Whether the ledger map matches its checksum."""


@attrs.frozen
class Wrong:
    """Bytes of a segment that do not verify. `ledger`, `entry`: whose they are, if that is known."""

    offset: int
    reason: str
    ledger: int | None = None
    entry: int | None = None


@attrs.frozen
class SegmentEntry:
    """An entry of a segment: where its envelope is."""

    ledger: int
    entry: int
    offset: int
    size: int
    crc: int


Part: TypeAlias = Row | Wrong


class SegmentReader:
    """One segment. Each part of it is read forwards, in a window of its own."""

    def __init__(self, window: Window, number: int) -> None:
        """Raises OSError."""
        self.path = window.path
        self._map = window
        self.head = _read_head(window, number)
        self._indexes, self._ids, self._lengths, self._crcs, self._records = (window.again() for _ in range(5))

    def walk(self, *, entries: bool = True) -> Iterator[Part]:
        """Each ledger, and after it what is wrong with it. Without `entries`, only the outer parts and the indexes are
        verified. Raises OSError."""
        head = self.head
        if head.identity is None:
            yield Wrong(0, "the header does not match its checksum")
        if head.footer is None:
            yield Wrong(max(head.size - FOOTER_BYTES, 0), "the footer does not match its checksum, or the size")
            return
        if not head.is_mapped:
            yield Wrong(head.footer.map_at, "the ledger map does not match its checksum")
            return
        ledger, at = -1, HEADER_BYTES
        for row in self.rows():
            yield row
            if row.ledger <= ledger or row.offset != at:
                yield Wrong(row.offset, f"the ledger map is not in order at ledger {row.ledger}", row.ledger)
            ledger, at = row.ledger, row.offset + row.size
            wrong = self.check_index(row)
            if wrong is not None:
                yield wrong
                continue
            for found in self.entries(row) if entries else ():
                wrong = self.check_record(found)
                if wrong is not None:
                    yield wrong

    def rows(self) -> Iterator[Row]:
        """The rows of the ledger map, which is verified. Raises OSError."""
        footer = self.head.footer
        assert footer is not None
        end = footer.map_at + footer.count * ROW_BYTES
        for at in range(footer.map_at, end, _SLICE * ROW_BYTES):
            yield from parse_rows(self._map.read(at, min(_SLICE * ROW_BYTES, end - at)))

    def row(self, ledger: int) -> Row | None:
        """The row of a ledger. Raises OSError."""
        footer = self.head.footer
        assert footer is not None
        low, high = 0, footer.count
        while low < high:
            middle = (low + high) // 2
            (row,) = parse_rows(self._map.read(footer.map_at + middle * ROW_BYTES, ROW_BYTES))
            if row.ledger == ledger:
                return row
            low, high = (middle + 1, high) if row.ledger < ledger else (low, middle)
        return None

    def find(self, ledger: int, entry: int) -> SegmentEntry | Wrong | None:
        """An entry; None: it is not in this segment, whose map is verified. Raises OSError."""
        row = self.row(ledger)
        if row is None or not row.first <= entry <= row.last:
            return None
        wrong = self.check_index(row)
        if wrong is not None:
            return wrong
        return next((found for found in self.entries(row) if found.entry == entry), None)

    def entries(self, row: Row) -> Iterator[SegmentEntry]:
        """The entries of a ledger, as an index says that is verified. Raises OSError."""
        lengths_at = row.index_offset + (8 * row.count if row.kind == LISTED else 0)
        at = row.offset
        for begin in range(0, row.count, _SLICE):
            count = min(_SLICE, row.count - begin)
            ids: tuple[int, ...] | range = range(row.first + begin, row.first + begin + count)
            if row.kind == LISTED:
                ids = unpack(f">{count}q", self._ids.read(row.index_offset + 8 * begin, 8 * count))
            sizes = unpack(f">{count}I", self._lengths.read(lengths_at + 4 * begin, 4 * count))
            sums = unpack(f">{count}I", self._crcs.read(lengths_at + 4 * (row.count + begin), 4 * count))
            for entry, size, crc in zip(ids, sizes, sums, strict=True):
                yield SegmentEntry(row.ledger, entry, at, size, crc)
                at += size

    def check_index(self, row: Row) -> Wrong | None:
        """What is wrong with the index of a ledger. Raises OSError."""
        footer = self.head.footer
        assert footer is not None
        wrong = Wrong(row.index_offset, f"the index of ledger {row.ledger} does not match its checksum", row.ledger)
        end = row.index_offset + row.index_bytes
        if end > footer.map_at or self._indexes.crc(row.index_offset, end) != row.index_crc:
            return wrong
        if row.count == 0 or row.offset + row.size > footer.map_at or not self._is_index(row):
            return attrs.evolve(wrong, reason=f"the index of ledger {row.ledger} contradicts the ledger map")
        return None

    def _is_index(self, row: Row) -> bool:
        """Whether an index that matches its checksum says what the ledger map says."""
        if row.kind not in (CONTIGUOUS, LISTED):
            return False
        if row.kind == CONTIGUOUS and row.count != row.last - row.first + 1:
            return False
        first = last = None
        size = 0
        for found in self.entries(row):
            if (last is not None and found.entry <= last) or found.size < ENVELOPE_BYTES_MIN:
                return False
            first, last, size = found.entry if first is None else first, found.entry, size + found.size
        return (first, last, size) == (row.first, row.last, row.size)

    def check_record(self, found: SegmentEntry) -> Wrong | None:
        """What is wrong with the bytes of an entry. Raises OSError."""
        if self._records.crc(found.offset, found.offset + found.size) != found.crc:
            reason = "does not match its checksum"
        else:
            ids = unpack(">qq", self._records.read(found.offset, _IDS_BYTES))
            if ids == (found.ledger, found.entry):
                return None
            reason = f"is entry {ids[1]} of ledger {ids[0]}"
        return Wrong(found.offset, f"entry {found.entry} of ledger {found.ledger} {reason}", found.ledger, found.entry)


def _read_head(window: Window, number: int) -> SegmentHead:
    size = window.size
    identity = parse_header(window.read(0, HEADER_BYTES), number)
    footer = None
    if size >= HEADER_BYTES + FOOTER_BYTES:
        footer = parse_footer(window.read(size - FOOTER_BYTES, FOOTER_BYTES), number, size)
    if footer is None:
        return SegmentHead(number, size, identity, None)
    is_mapped = window.crc(footer.map_at, footer.map_at + footer.tables_bytes) == footer.crc
    replaced = tuple(_replaced(window, footer)) if is_mapped else ()
    return SegmentHead(number, size, identity, footer, replaced, is_mapped)


def _replaced(window: Window, footer: Footer) -> Iterator[int]:
    at = footer.map_at + footer.count * ROW_BYTES
    for begin in range(0, footer.replaced_count, _SLICE):
        count = min(_SLICE, footer.replaced_count - begin)
        yield from unpack(f">{count}Q", window.read(at + 8 * begin, 8 * count))
