"""Which segments there are, and finding entries in them.

A search is a generator: it yields the bytes that it needs (`Wanted`), is sent them, or None if they cannot be read, and
returns what it found. It looks at the newest segment first. `UnreadableError` says that the answer is not known: an
entry, or an index, is damaged, or a suspect segment may have what was not found. So damage never looks like absence.

A search looks only at the segments that have the ledger, of which there is a table: there may be many thousands of
segments, and a batch of entries is as many searches.

What was read is kept in a cache by segment, so that it cannot be old.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator, Iterable
from typing import Final, TypeAlias, TypeVar

import attrs

from zab.ledger.bookie.segment import LedgerIndex, Row, Segment, SegmentDamagedError, parse_index
from zab.ledger.bookie.tombstones import runs_of

RECORD_OVERHEAD_BYTES: Final = 200
"""What a record takes in the cache besides its bytes, in round numbers."""
INDEX_ENTRY_BYTES: Final = 24
"""What an entry of an index takes in the cache, in round numbers."""

_T = TypeVar("_T")


@attrs.frozen
class Wanted:
    """Bytes of a segment."""

    number: int
    offset: int
    size: int


Search: TypeAlias = Generator[Wanted, bytes | None, _T]


class UnreadableError(Exception):
    """What was asked for may be here, and cannot be read."""


class _ReplacedError(Exception):
    """A segment was replaced while it was searched."""


class Segments:
    """The segments of a bookie."""

    def __init__(self, found: Iterable[Segment], *, read_ahead_bytes: int, cache_bytes: int) -> None:
        self._by_number: dict[int, Segment] = {}
        self._newest: tuple[Segment, ...] = ()
        self._having: dict[int, tuple[Segment, ...]] = {}
        """The segments that have a ledger, the newest first. Ledgers that are in one alone share a tuple."""
        self._suspects: tuple[Segment, ...] = ()
        self._read_ahead_bytes = read_ahead_bytes
        self._cache: OrderedDict[tuple[int, int, int], bytes | LedgerIndex] = OrderedDict()
        """By segment, ledger, and position of the entry; an index has the position -1."""
        self._cache_bytes_max = cache_bytes
        self._cache_bytes = 0
        self._reported: set[int] = set()
        """The segments that were reported as unreadable."""
        self.reports: list[str] = []
        """Sentences for the operator; the bookie empties it."""
        for segment in sorted(found, key=lambda segment: segment.rank):
            self._by_number[segment.number] = segment
            self._note(segment)
        self._sort()

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def newest_first(self) -> tuple[Segment, ...]:
        return self._newest

    def add(self, segment: Segment) -> None:
        """A flush has made a segment."""
        assert not self._newest or segment.rank > self._newest[0].rank
        self._by_number[segment.number] = segment
        self._note(segment)
        self._sort()

    def _note(self, segment: Segment) -> None:
        """Its ledgers are in it, and it is newer than all others."""
        alone, having = (segment,), self._having
        for ledger in segment.ledgers:
            others = having.get(ledger)
            having[ledger] = alone if others is None else (segment, *others)

    def replace(self, numbers: Iterable[int], segment: Segment | None) -> None:
        """Take segments out, and one in with what they had."""
        gone = {number: self._by_number.pop(number) for number in numbers}
        self._reported.difference_update(gone)
        for ledger in {ledger for each in gone.values() for ledger in each.ledgers}:
            having = [each for each in self._having.pop(ledger) if each.number not in gone]
            if segment is not None and segment.row(ledger) is not None:
                having.append(segment)
                having.sort(key=lambda each: -each.rank)
            if having:
                self._having[ledger] = tuple(having)
        if segment is not None:
            self._by_number[segment.number] = segment
        for key in [key for key in self._cache if key[0] in gone]:
            self._cache_bytes -= _weight(self._cache.pop(key))
        self._sort()

    def _sort(self) -> None:
        self._newest = tuple(sorted(self._by_number.values(), key=lambda segment: -segment.rank))
        self._find_suspects()

    def _find_suspects(self) -> None:
        self._suspects = tuple(segment for segment in self._newest if segment.is_suspect)

    def may_hide_last(self, ledger: int) -> bool:
        """Whether there may be an entry of this ledger above those that are known."""
        return any(not segment.is_readable and segment.may_hide(ledger) for segment in self._suspects)

    # --------------------------------------------------------------------------------------------------------- searches

    def find(self, ledger: int, entry: int) -> Search[bytes | None]:
        """An entry, None: it is not here. Raises UnreadableError."""
        while True:
            try:
                return (yield from self._find(ledger, entry))
            except _ReplacedError:
                continue

    def _find(self, ledger: int, entry: int) -> Search[bytes | None]:
        for segment in self._having.get(ledger, ()):
            row = segment.row(ledger)
            assert row is not None
            if not row.first <= entry <= row.last:
                continue
            index = yield from self._index(segment, row)
            at = index.find(entry)
            if at is not None:
                return (yield from self._record(segment, index, at))
        if any(segment.may_hide(ledger) for segment in self._suspects):
            raise UnreadableError(f"entry {entry} of ledger {ledger} may be in a segment that is damaged")
        return None

    def ids(self, ledger: int, count_max: int) -> Search[list[tuple[int, int]] | None]:
        """The ids of the entries of a ledger as runs, in no order, some twice; None: more than `count_max` runs.
        Raises UnreadableError."""
        while True:
            try:
                return (yield from self._ids(ledger, count_max))
            except _ReplacedError:
                continue

    def _ids(self, ledger: int, count_max: int) -> Search[list[tuple[int, int]] | None]:
        runs: list[tuple[int, int]] = []
        if any(segment.may_hide(ledger) for segment in self._suspects):
            raise UnreadableError(f"entries of ledger {ledger} may be in a segment that is damaged")
        for segment in self._having.get(ledger, ()):
            row = segment.row(ledger)
            assert row is not None
            index = yield from self._index(segment, row)
            runs += [(row.first, row.last)] if isinstance(index.ids, range) else runs_of(index.ids)
            if len(runs) > count_max:
                return None
        return runs

    def _index(self, segment: Segment, row: Row) -> Search[LedgerIndex]:
        key = (segment.number, row.ledger, -1)
        known = self._cached(key)
        if isinstance(known, LedgerIndex):
            return known
        block = yield from self._read(segment, row.index_offset, row.index_bytes)
        try:
            index = parse_index(row, block, segment.size)
        except SegmentDamagedError as error:
            raise self._suspected(segment, error) from error
        self._keep(key, index)
        return index

    def _record(self, segment: Segment, index: LedgerIndex, at: int) -> Search[bytes]:
        ledger = index.row.ledger
        known = self._cached((segment.number, ledger, at))
        if isinstance(known, bytes):
            return known
        until = index.until(at, self._read_ahead_bytes)
        start = index.start(at)
        data = yield from self._read(segment, start, index.start(until - 1) + index.length(until - 1) - start)
        try:
            records = index.split(at, until, data)
        except SegmentDamagedError:
            try:
                # Another record of what was read ahead may be the damaged one.
                records = index.split(at, at + 1, data[: index.length(at)])
            except SegmentDamagedError as error:
                raise self._suspected(segment, error) from error
        for position, record in enumerate(records, at):
            self._keep((segment.number, ledger, position), record)
        return records[0]

    def _read(self, segment: Segment, offset: int, size: int) -> Search[bytes]:
        if offset + size > segment.size:
            raise self._suspected(segment, f"{size} bytes at offset {offset} are not in it")
        data = yield Wanted(segment.number, offset, size)
        if self._by_number.get(segment.number) is not segment:
            raise _ReplacedError
        if data is None:
            # It need not be so next time, for want of a descriptor for instance; and a search that needs these bytes to
            # say that an entry is not here asks for them again.
            raise self._refused(segment)
        if len(data) != size:
            raise self._suspected(segment, f"{size} bytes at offset {offset} are not there")
        return data

    def _refused(self, segment: Segment) -> UnreadableError:
        reason = f"segment {segment.number:016x} cannot be read"
        if segment.number not in self._reported:
            self._reported.add(segment.number)
            self.reports.append(f"{reason} now -> what needs it is answered with an I/O error")
        return UnreadableError(reason)

    def _suspected(self, segment: Segment, reason: object) -> UnreadableError:
        if not segment.is_suspect:
            segment.is_suspect = True
            self._find_suspects()
            self.reports.append(
                f"segment {segment.number:016x} is damaged: {reason} -> what is not found in it is answered with an I/O"
                " error; have its ledgers copied from other bookies"
            )
        return UnreadableError(str(reason))

    # ------------------------------------------------------------------------------------------------------------ cache

    def _cached(self, key: tuple[int, int, int]) -> bytes | LedgerIndex | None:
        found = self._cache.get(key)
        if found is not None:
            self._cache.move_to_end(key)
        return found

    def _keep(self, key: tuple[int, int, int], found: bytes | LedgerIndex) -> None:
        if key in self._cache:
            return
        self._cache[key] = found
        self._cache_bytes += _weight(found)
        while self._cache_bytes > self._cache_bytes_max and len(self._cache) > 1:
            self._cache_bytes -= _weight(self._cache.popitem(last=False)[1])


def _weight(found: bytes | LedgerIndex) -> int:
    if isinstance(found, bytes):
        return len(found) + RECORD_OVERHEAD_BYTES
    return RECORD_OVERHEAD_BYTES + INDEX_ENTRY_BYTES * len(found.ends)
