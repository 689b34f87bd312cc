"""When segments are written again, and which: without what is deleted, and small ones together.

The live share of a segment is that of the bytes of ledgers that are here. Segments below a share go: without live
ledgers the file is removed, else its live records are copied, verbatim, together with those of its neighbours in age
that are below it too, or small. Small neighbours become one also if everything in them is live: otherwise there would
be one more for each flush, for ever. The new segment takes the highest rank of the old ones, so that of two copies of
an entry the newer one still counts.

A segment whose ledger map is not verified, or that is suspect, is neither removed nor copied: what looks dead in it may
be damage. One segment is looked at in a step, and one compaction is under way at a time.

A compaction is written in pieces, a job each, and the next piece is asked for when the bytes before it are paid for:
`compact_bytes_per_s`. So a flush, which shares the thread, waits for one piece at most.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import (
    Compact,
    Compacted,
    CompactedPart,
    ContinueCompact,
    Job,
    JobFailed,
    RemoveSegments,
    SegmentsRemoved,
)
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.segment import Segment
from zab.ledger.bookie.segments import Segments


@attrs.define
class _Group:
    """Segments that become one."""

    segments: list[Segment] = attrs.Factory(list)
    live: set[int] = attrs.Factory(set)
    """Their ledgers that are live."""
    size: int = 0
    """The bytes that are copied."""
    rows: int = 0
    entries: int = 0
    has_low: bool = False
    """Whether one has a low live share."""

    @property
    def is_worthwhile(self) -> bool:
        return self.has_low or len(self.segments) > 1


class Compaction:
    """The compactions of a bookie."""

    def __init__(self, config: BookieConfig, table: LedgerTable, segments: Segments, now_ms: int) -> None:
        self._config = config
        self._table = table
        self._segments = segments
        self._at_ms = now_ms + config.compact_ms
        self._daily_ms = now_ms + config.compact_daily_ms
        self._search: Iterator[_Group | None] | None = None
        self._under_way: Compact | None = None
        self._go_on_at_ms: int | None = None
        """When its next piece may be written; None: a job of it is under way."""
        self._refused: set[int] = set()
        """Segments that could not be copied."""
        self.jobs: list[Job] = []
        """The bookie empties it."""
        self.reports: list[str] = []
        """The bookie empties it."""

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has something to do."""
        if self._search is not None:
            return self._go_on_at_ms if self._under_way is not None else 0
        return min(self._at_ms, self._daily_ms)

    def begin(self, share: float) -> None:
        """Look for segments whose live share is lower."""
        self._search = self._groups(share)

    def step(self, now_ms: int, number: int) -> bool:
        """Go on; `number` is what a new segment is called. Whether that was used."""
        if self._search is None:
            if now_ms >= self._daily_ms:
                self._daily_ms = now_ms + self._config.compact_daily_ms
                self.begin(self._config.compact_share_daily)
            elif now_ms >= self._at_ms:
                self.begin(self._config.compact_share)
            else:
                return False
            self._at_ms = now_ms + self._config.compact_ms
        if self._under_way is not None:
            if self._go_on_at_ms is not None and now_ms >= self._go_on_at_ms:
                self._go_on_at_ms = None
                self.jobs.append(ContinueCompact(self._under_way.number))
            return False
        assert self._search is not None
        try:
            group = next(self._search)
        except StopIteration:
            self._search = None
            return False
        if group is None:
            return False
        self._under_way = Compact(number, tuple(group.segments), frozenset(group.live))
        self.jobs.append(self._under_way)
        return True

    def _groups(self, share: float) -> Iterator[_Group | None]:
        """Neighbours in age that are to become one; None after each segment that ends no group."""
        config, group = self._config, _Group()
        for segment in reversed(self._segments.newest_first):
            # What is not live here now will not be so later: an emptied ledger comes back in newer segments.
            live, entries, size, total = segment.live_part(self._table.live)
            is_low = size < share * total or not total
            is_wanted = is_low or segment.size < config.compact_small_bytes
            if segment.is_suspect or segment.number in self._refused:
                is_wanted = False
            rows = len(segment.ledgers)
            if group.segments and not (
                is_wanted
                and len(group.segments) < config.compact_segments_max
                and group.size + size <= config.compact_bytes_max
                and group.rows + rows <= config.compact_rows_max
                and group.entries + entries <= config.compact_entries_max
            ):
                if group.is_worthwhile:
                    yield group
                group = _Group()
            if is_wanted:
                group.segments.append(segment)
                group.live.update(live)
                group.size += size
                group.rows += rows
                group.entries += entries
                group.has_low = group.has_low or is_low
            yield None
        if group.is_worthwhile:
            yield group

    def part_written(self, answer: CompactedPart, now_ms: int) -> None:
        """A piece is written: the next one has to wait until it is paid for."""
        self._go_on_at_ms = now_ms + -(-answer.size * 1_000 // self._config.compact_bytes_per_s)

    def compacted(self, answer: Compacted) -> None:
        """The new segment is durable: it takes the place of the old ones, whose files go now."""
        self._segments.replace(answer.replaced, answer.segment)
        self.jobs.append(RemoveSegments(answer.replaced))

    def removed(self, answer: SegmentsRemoved) -> None:
        self._under_way = None

    def failed(self, answer: JobFailed) -> None:
        """The segments stay as they are."""
        assert self._under_way is not None
        numbers = [segment.number for segment in self._under_way.segments]
        self._under_way = None
        self._search = None
        if not answer.is_full:
            self._refused.update(numbers)
            names = ", ".join(f"{number:016x}" for number in numbers)
            self.reports.append(f"segments {names} are not compacted: {answer.reason} -> have them repaired")
