"""How ledgers are deleted that a round of collection (`collection.py`) has found gone from the metadata.

    tombstone in memory, no more adds -> tombstone durable -> dropped

A round may find a million of them. So some are taken in each step, and some dropped, `ledgers_per_step` at most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.journal import Journal
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.reads import Reads
from zab.ledger.bookie.tombstones import runs_of
from zab.ledger.bookie.write_cache import WriteCache
from zab.ledger.bookie.writes import Writes


class Deletion:
    """The deletions of a bookie."""

    def __init__(
        self,
        config: BookieConfig,
        table: LedgerTable,
        cache: WriteCache,
        journal: Journal,
        writes: Writes,
        reads: Reads,
    ) -> None:
        self._count_max = config.ledgers_per_step
        self._table = table
        self._cache = cache
        self._journal = journal
        self._writes = writes
        self._reads = reads
        self._waiting: deque[int] = deque()
        """Ledgers to be deleted."""
        self._to_drop: deque[tuple[int, list[int]]] = deque()
        """Ledgers with tombstones, each group with the number of the append that makes these durable."""
        self._dropped = 0
        self.dropped: list[int] = []
        """Ledgers that are gone from here now; the bookie empties it."""
        self.notes: list[str] = []
        """The bookie empties it."""

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has something to do."""
        return 0 if self._waiting or self._may_drop else None

    @property
    def _may_drop(self) -> bool:
        return bool(self._to_drop) and self._to_drop[0][0] <= self._journal.durable_number

    def add(self, ledgers: Iterable[int]) -> None:
        """Delete these ledgers, ascending."""
        self._waiting.extend(ledgers)

    def step(self) -> None:
        """Drop some ledgers whose tombstones are durable, and take some more."""
        if self._may_drop:
            self._drop(self._to_drop.popleft()[1])
        if self._waiting:
            self._take([self._waiting.popleft() for _ in range(min(self._count_max, len(self._waiting)))])

    def _take(self, ledgers: list[int]) -> None:
        """Take no adds of these ledgers from now on."""
        self._to_drop.append((self._journal.next_number, ledgers))
        for first, last in runs_of(ledgers):
            self._table.tombstones.add_run(first, last)
            self._writes.note_tombstones(first, last)
        for each in ledgers:
            ledger = self._table.get(each)
            if ledger is not None:
                # Until then its next adds would go the shorter way, which looks at no tombstones.
                ledger.is_fenced = True

    def _drop(self, ledgers: list[int]) -> None:
        for each in ledgers:
            ledger = self._table.get(each)
            if ledger is not None:
                self._cache.forget(ledger)
                self._table.delete(each)
                self._reads.wake(ledger)
                self.dropped.append(each)
                self._dropped += 1
        if not self._waiting and not self._to_drop:
            self.notes.append(f"deleted {self._dropped} ledgers that are gone from the metadata")
            self._dropped = 0
