"""A segment: an immutable file of entries, sorted by ledger and entry, with its own index.

    entries/<number, 16 hex digits>      written as `….tmp`, synced, renamed, directory synced

Numbers are big-endian, ids signed.

    header, 64 bytes    magic "BSEG", version 1 (4), instance (16), uuid (16), number (8), zeros (12), CRC-32 of the 60
                        bytes before it
    records             envelopes back to back, sorted by ledger and entry
    index               one block for each ledger: the ids (8 each; only kind 1), the lengths (4 each), the CRC-32 of
                        each envelope (4 each)
    ledger map          one row of 64 bytes for each ledger, sorted: ledger (8), first and last entry (8 each), count
                        (4), kind (1; 0: contiguous ids, 1: a list of ids), zeros (3), offset of its records (8), their
                        bytes (8), offset of its index block (8), CRC-32 of that block (4), zeros (4)
    replaced            the numbers of the segments that this one replaces, 8 each
    footer, 64 bytes    magic "BEND", version 1 (4), number (8), rank (8), mark (8 and 8), offset of the ledger map (8),
                        count of its rows (4), count of replaced segments (4), CRC-32 of both tables, CRC-32 of the
                        60 bytes before it

**Rank** is age: of two segments with the same entry, that of the higher rank counts. A flush has its number as its
rank; a segment that replaces others has their highest.

Every byte is under a checksum of the bookie, since it cannot check the digests of entries. A part that does not verify
makes the segment **suspect**: what it has may still be read, but that an entry is not in it is not believed.

Not here: files and effects; which segments there are (`segments.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import accumulate
from struct import Struct, unpack_from
from sys import byteorder
from typing import Final
from zlib import crc32

import attrs

from zab.ledger.bookie.config import Identity
from zab.ledger.entries.envelope import HEADER_BYTES as ENVELOPE_BYTES_MIN

DIRECTORY: Final = "entries"
HEADER_BYTES: Final = 64
FOOTER_BYTES: Final = 64
ROW_BYTES: Final = 64

_HEADER: Final = Struct(">4sI16s16sQ12x")
_FOOTER: Final = Struct(">4sIQQQQQIII")
_ROW: Final = Struct(">qqqIB3xQQQI4x")
_CRC: Final = Struct(">I")
_IDS: Final = Struct(">qq")
_MAGIC: Final = b"BSEG"
_END: Final = b"BEND"
_VERSION: Final = 1

CONTIGUOUS: Final = 0
LISTED: Final = 1

assert _HEADER.size + _CRC.size == HEADER_BYTES
assert _FOOTER.size + _CRC.size == FOOTER_BYTES
assert _ROW.size == ROW_BYTES


class SegmentDamagedError(ValueError):
    """Bytes of a segment that do not verify."""


class ForeignFileError(ValueError):
    """A file of another bookie, or of another cluster."""


def segment_path(number: int) -> str:
    return f"{DIRECTORY}/{number:016x}"


@attrs.frozen
class Row:
    """What the ledger map says of one ledger."""

    ledger: int
    first: int
    last: int
    count: int
    kind: int
    offset: int
    """Where its records begin."""
    size: int
    """The bytes of its records."""
    index_offset: int
    index_crc: int

    @property
    def index_bytes(self) -> int:
        return self.count * (16 if self.kind == LISTED else 8)


@attrs.frozen
class LedgerIndex:
    """Where the entries of one ledger are in a segment."""

    row: Row
    ids: Sequence[int]
    ends: Sequence[int]
    """The offset in the records of the ledger after each entry."""
    crcs: Sequence[int]

    def find(self, entry: int) -> int | None:
        """The position of an entry among those of the ledger, None if it is not here."""
        at = bisect_left(self.ids, entry)
        return at if at < len(self.ids) and self.ids[at] == entry else None

    def start(self, at: int) -> int:
        """The offset of a record in the segment."""
        return self.row.offset + (self.ends[at - 1] if at else 0)

    def length(self, at: int) -> int:
        return self.ends[at] - (self.ends[at - 1] if at else 0)

    def until(self, at: int, bytes_max: int) -> int:
        """The position after the last record of a run from `at` of at most so many bytes, or of one record."""
        before = self.ends[at - 1] if at else 0
        low, high = at + 1, len(self.ends)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.ends[middle - 1] - before <= bytes_max else (low, middle - 1)
        return low

    def split(self, at: int, until: int, data: bytes) -> list[bytes]:
        """The records from `at` up to `until`, which are `data`. Raises SegmentDamagedError."""
        before = self.ends[at - 1] if at else 0
        found = []
        for position in range(at, until):
            end = self.ends[position] - before
            start = self.ends[position - 1] - before if position > at else 0
            record = data[start:end]
            if crc32(record) != self.crcs[position] or _IDS.unpack_from(record) != (
                self.row.ledger,
                self.ids[position],
            ):
                raise SegmentDamagedError(f"entry {self.ids[position]} of ledger {self.row.ledger}")
            found.append(record)
        return found


def parse_index(row: Row, block: bytes, segment_bytes: int) -> LedgerIndex:
    """The index of a ledger from its block, in a segment of so many bytes. Raises SegmentDamagedError."""
    if len(block) != row.index_bytes or crc32(block) != row.index_crc:
        raise SegmentDamagedError(f"the index of ledger {row.ledger}")
    count, at = row.count, 0
    ids: Sequence[int] = ()
    if row.kind == LISTED:
        ids = unpack_from(f">{count}q", block)
        at = 8 * count
        is_right = bool(count) and (ids[0], ids[-1]) == (row.first, row.last)
    else:
        is_right = row.kind == CONTIGUOUS and count == row.last - row.first + 1 > 0
    lengths = unpack_from(f">{count}I", block, at)
    crcs = unpack_from(f">{count}I", block, at + 4 * count)
    ends = array("Q", accumulate(lengths))
    if not (
        is_right
        and ends[-1] == row.size
        and row.offset + row.size <= segment_bytes
        and min(lengths) >= ENVELOPE_BYTES_MIN
    ):
        raise SegmentDamagedError(f"the index of ledger {row.ledger} contradicts the ledger map")
    return LedgerIndex(row, ids or range(row.first, row.last + 1), ends, array("I", crcs))


class Segment:
    """A segment as it is known in memory: its ledger map."""

    __slots__ = ("_ids", "_rows", "bound", "is_readable", "is_suspect", "mark", "number", "rank", "replaced", "size")

    def __init__(
        self,
        number: int,
        size: int,
        *,
        rank: int | None = None,
        mark: tuple[int, int] = (0, 0),
        rows: bytes = b"",
        replaced: tuple[int, ...] = (),
        is_readable: bool = True,
        is_suspect: bool = False,
    ) -> None:
        self.number = number
        self.size = size
        self.rank = number if rank is None else rank
        self.mark = mark
        self.replaced = replaced
        self.is_readable = is_readable
        """Whether its ledger map is verified. If not, it may have any ledger up to `bound`, and is never removed."""
        self.is_suspect = is_suspect or not is_readable
        self.bound = (1 << 63) - 1
        self._rows = rows
        self._ids = array("q", rows)
        if byteorder == "little":
            self._ids.byteswap()
        self._ids = self._ids[:: ROW_BYTES // 8]

    def __repr__(self) -> str:
        return f"Segment({self.number:x}, rank {self.rank:x}, {len(self._ids)} ledgers, {self.size} bytes)"

    @property
    def ledgers(self) -> Sequence[int]:
        """The ledgers that it has entries of, ascending; none if its map is not verified."""
        return self._ids

    def row(self, ledger: int) -> Row | None:
        """What it has of a ledger, None: nothing."""
        at = bisect_left(self._ids, ledger)
        if at == len(self._ids) or self._ids[at] != ledger:
            return None
        return Row(*_ROW.unpack_from(self._rows, at * ROW_BYTES))

    def rows(self) -> Iterator[Row]:
        """What it has of each ledger."""
        return parse_rows(self._rows)

    def live_part(self, live: Container[int]) -> tuple[list[int], int, int, int]:
        """Which of its ledgers are live, how many entries they have, the bytes of these, and those of all."""
        found, entries, size, total = [], 0, 0, 0
        for ledger, _, _, count, _, _, bytes_, _, _ in _ROW.iter_unpack(self._rows):
            total += bytes_
            if ledger in live:
                found.append(ledger)
                entries += count
                size += bytes_
        return found, entries, size, total

    def may_hide(self, ledger: int) -> bool:
        """Whether entries of this ledger may be in it that cannot be found."""
        if not self.is_suspect:
            return False
        return self.row(ledger) is not None if self.is_readable else ledger <= self.bound


class SegmentBuilder:
    """Makes the bytes of a segment, ledger by ledger."""

    def __init__(
        self,
        identity: Identity,
        number: int,
        mark: tuple[int, int],
        *,
        rank: int | None = None,
        replaced: tuple[int, ...] = (),
    ) -> None:
        self._number = number
        self._rank = number if rank is None else rank
        self._mark = mark
        self._replaced = replaced
        self._at = HEADER_BYTES
        self._last = -1
        self._rows: list[tuple[int, int, int, int, int, int, int]] = []
        self._blocks: list[bytes] = []
        head = _HEADER.pack(_MAGIC, _VERSION, identity.instance, identity.uuid, number)
        self.header = head + _CRC.pack(crc32(head))
        """The first bytes of the file."""

    @property
    def is_empty(self) -> bool:
        return not self._rows

    def add(self, ledger: int, ids: Sequence[int], lengths: Sequence[int], crcs: Sequence[int]) -> None:
        """Take the entries of the next ledger, in order: the lengths and CRC-32 of their envelopes, which the caller
        writes one after the other."""
        assert ledger > self._last
        assert ids
        self._last = ledger
        count, first, last = len(ids), ids[0], ids[-1]
        kind = CONTIGUOUS if last - first + 1 == count else LISTED
        block = array("I", lengths)
        block.extend(crcs)
        if byteorder == "little":
            block.byteswap()
        head = b""
        if kind == LISTED:
            listed = array("q", ids)
            if byteorder == "little":
                listed.byteswap()
            head = listed.tobytes()
        size = sum(lengths)
        self._rows.append((ledger, first, last, count, kind, self._at, size))
        self._blocks.append(head + block.tobytes())
        self._at += size

    def finish(self) -> tuple[bytes, Segment]:
        """The bytes after the records, and the segment."""
        rows, at = [], self._at
        for fields, block in zip(self._rows, self._blocks, strict=True):
            rows.append(_ROW.pack(*fields, at, crc32(block)))
            at += len(block)
        map_bytes = b"".join(rows)
        replaced = array("Q", self._replaced)
        if byteorder == "little":
            replaced.byteswap()
        tables = map_bytes + replaced.tobytes()
        foot = _FOOTER.pack(
            _END, _VERSION, self._number, self._rank, *self._mark, at, len(rows), len(self._replaced), crc32(tables)
        )
        tail = b"".join((*self._blocks, tables, foot, _CRC.pack(crc32(foot))))
        segment = Segment(
            self._number,
            self._at + len(tail),
            rank=self._rank,
            mark=self._mark,
            rows=map_bytes,
            replaced=self._replaced,
        )
        return tail, segment


def open_segment(number: int, size: int, read: Callable[[int, int], bytes], identity: Identity) -> Segment:
    """The segment in a file of `size` bytes; `read(offset, length)` reads it. One whose parts do not verify is suspect.

    Raises ForeignFileError, OSError."""
    is_suspect = not _has_header(read(0, HEADER_BYTES), number, identity)
    foot = read(size - FOOTER_BYTES, FOOTER_BYTES) if size >= HEADER_BYTES + FOOTER_BYTES else b""
    footer = parse_footer(foot, number, size)
    if footer is None:
        return Segment(number, size, is_readable=False)
    tables = read(footer.map_at, footer.tables_bytes)
    if len(tables) != footer.tables_bytes or crc32(tables) != footer.crc:
        return Segment(number, size, rank=footer.rank, is_readable=False)
    rows = tables[: footer.count * ROW_BYTES]
    return Segment(
        number,
        size,
        rank=footer.rank,
        mark=footer.mark,
        rows=rows,
        replaced=unpack_from(f">{footer.replaced_count}Q", tables, len(rows)),
        is_suspect=is_suspect,
    )


@attrs.frozen
class Footer:
    """What the end of a segment says."""

    rank: int
    mark: tuple[int, int]
    map_at: int
    """Where the ledger map begins, which the replaced numbers follow."""
    count: int
    """The rows of the ledger map."""
    replaced_count: int
    crc: int
    """The CRC-32 of both tables."""

    @property
    def tables_bytes(self) -> int:
        return self.count * ROW_BYTES + 8 * self.replaced_count


def parse_footer(foot: bytes, number: int, size: int) -> Footer | None:
    """The footer of a segment of `size` bytes; None if it is not readable."""
    if len(foot) != FOOTER_BYTES or crc32(foot[: _FOOTER.size]) != _CRC.unpack_from(foot, _FOOTER.size)[0]:
        return None
    magic, version, named, rank, sequence, offset, map_at, count, replaced_count, crc = _FOOTER.unpack_from(foot)
    footer = Footer(rank, (sequence, offset), map_at, count, replaced_count, crc)
    if (magic, version, named) != (_END, _VERSION, number) or map_at + footer.tables_bytes + FOOTER_BYTES != size:
        return None
    return footer


def parse_rows(data: bytes) -> Iterator[Row]:
    """The rows in a part of a ledger map."""
    return (Row(*fields) for fields in _ROW.iter_unpack(data))


def parse_header(head: bytes, number: int) -> Identity | None:
    """Whose segment this is; None if the header is not readable."""
    if len(head) != HEADER_BYTES or crc32(head[: _HEADER.size]) != _CRC.unpack_from(head, _HEADER.size)[0]:
        return None
    magic, version, instance, uuid, named = _HEADER.unpack_from(head)
    if (magic, version, named) != (_MAGIC, _VERSION, number):
        return None
    return Identity(instance, uuid)


def _has_header(head: bytes, number: int, identity: Identity) -> bool:
    found = parse_header(head, number)
    if found is None:
        return False
    if found != identity:
        raise ForeignFileError(f"{segment_path(number)} belongs to another bookie or another cluster")
    return True
