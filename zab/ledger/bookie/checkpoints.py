"""When the write cache is flushed, and the order in which that becomes a checkpoint.

    segment durable -> state durable -> checkpoint replaced -> older journals removed

The mark of a checkpoint is where the durable part of the journal ended when the generations were swapped. Entries come
into the cache before they are journaled, so the swapped generation, and the segments before it, have everything before
that mark. The state is collected after the swap, in slices, a slice a step: it may be newer than the mark.

One checkpoint is under way at a time, so marks only rise, which is asserted here and where they are written.

A state may be long: millions of ledgers and tombstones. So a flush alone makes no checkpoint as long as little was
journaled beside the length of the last state (`state_small_bytes`): the journal is kept for longer, and a start replays
so much more.
"""

from __future__ import annotations

import enum

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.events import (
    CheckpointSaved,
    Job,
    SaveCheckpoint,
    SaveState,
    SegmentWritten,
    StateSaved,
    WriteSegment,
)
from zab.ledger.bookie.journal import Journal
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.opening import Opened
from zab.ledger.bookie.segments import Segments
from zab.ledger.bookie.state import pack_ledgers
from zab.ledger.bookie.write_cache import WriteCache
from zab.ledger.bookie.writes import Writes


class Stage(enum.Enum):
    """How far a checkpoint is."""

    NONE = "none is under way"
    SEGMENT = "the segment is being written"
    COLLECTING = "the state is being collected"
    STATE = "the state is being written"
    MARK = "the checkpoint is being written"


class Checkpoints:
    """The checkpoints of a bookie."""

    def __init__(
        self,
        config: BookieConfig,
        table: LedgerTable,
        cache: WriteCache,
        segments: Segments,
        journal: Journal,
        writes: Writes,
        opened: Opened,
    ) -> None:
        self._config = config
        self._table = table
        self._cache = cache
        self._segments = segments
        self._journal = journal
        self._writes = writes
        self.stage = Stage.NONE
        self.mark = opened.mark
        """The mark of the last checkpoint."""
        self.next_segment = opened.next_segment
        self._next_state = opened.next_state
        self._next_mark = opened.mark
        self._to_collect: list[int] = []
        self._collected: list[bytes] = []
        self._count = 0
        self._state_bytes = 0
        """The length of the last state."""
        self._changed_ms: int | None = None
        """Since when there is something that no checkpoint has, nor the one that is under way."""
        self.jobs: list[Job] = []
        """The bookie empties it."""

    def take_number(self) -> int:
        """A number for a new segment."""
        self.next_segment += 1
        return self.next_segment - 1

    @property
    def is_full(self) -> bool:
        """Whether the active generation is full, and the other is not flushed yet."""
        return self._cache.flushing is not None and self._cache.size >= self._config.flush_bytes

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has something to do."""
        if self.stage is Stage.COLLECTING:
            return 0
        if self.stage is Stage.NONE and self._changed_ms is not None:
            return self._changed_ms + self._config.flush_ms
        return None

    def step(self, now_ms: int) -> None:
        """Begin a checkpoint if it is time, or go on with collecting the state."""
        if self._changed_ms is None and (self._writes.is_changed or self._journal.mark > self._next_mark):
            self._changed_ms = now_ms
        if self.stage is Stage.COLLECTING:
            self._collect()
        elif self.stage is Stage.NONE and self._is_due(now_ms):
            self._begin()

    def _is_due(self, now_ms: int) -> bool:
        if self._cache.size >= self._config.flush_bytes:
            return True
        return self._changed_ms is not None and now_ms >= self._changed_ms + self._config.flush_ms

    def _begin(self) -> None:
        self._next_mark = self._journal.mark
        assert self._next_mark >= self.mark
        self._writes.is_changed, self._changed_ms = False, None
        if self._cache.size:
            self.stage = Stage.SEGMENT
            self.jobs.append(WriteSegment(self.take_number(), self._cache.swap(), self._next_mark))
        else:
            self._begin_collecting()

    def _begin_collecting(self) -> None:
        if self._may_wait:
            self.stage = Stage.NONE
            return
        self.stage = Stage.COLLECTING
        self._to_collect, self._collected, self._count = list(self._table.by_id), [], 0

    @property
    def _may_wait(self) -> bool:
        """Whether the state is long, and little was journaled since it was written. Without room, journals have to
        go."""
        if self._state_bytes <= self._config.state_small_bytes or self._writes.is_read_only:
            return False
        (sequence, offset), (before, begin) = self._next_mark, self.mark
        return (sequence - before) * self._config.journal_file_bytes + offset - begin < self._state_bytes

    def _collect(self) -> None:
        """Pack the next slice of ledgers. Tombstones come last, so that they have every ledger that was deleted."""
        size = self._config.ledgers_per_step
        ids = self._to_collect[-size:]
        del self._to_collect[-size:]
        found = [ledger for ledger in map(self._table.get, ids) if ledger is not None]
        self._collected.append(pack_ledgers(found))
        self._count += len(found)
        if not self._to_collect:
            self.stage = Stage.STATE
            tombstones = self._table.tombstones.pack()
            self._state_bytes = sum(map(len, self._collected)) + len(tombstones)
            self.jobs.append(SaveState(self._next_state, tuple(self._collected), self._count, tombstones))
            self._collected = []

    def segment_written(self, answer: SegmentWritten) -> None:
        assert self.stage is Stage.SEGMENT
        self._segments.add(answer.segment)
        self._cache.flushed()
        self._begin_collecting()

    def state_saved(self, answer: StateSaved) -> None:
        assert self.stage is Stage.STATE
        assert answer.number == self._next_state
        self._next_state += 1
        self.stage = Stage.MARK
        self.jobs.append(SaveCheckpoint(self._next_mark, answer.number))

    def checkpoint_saved(self, answer: CheckpointSaved) -> None:
        assert self.stage is Stage.MARK
        assert answer.mark == self._next_mark >= self.mark
        self.mark = answer.mark
        self.stage = Stage.NONE
