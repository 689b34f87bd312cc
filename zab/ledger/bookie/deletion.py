"""How ledgers are deleted that a round of collection (`collection.py`) has found gone from the metadata.

    tombstone in memory, no more adds -> tombstone durable -> dropped
    limbo -> limbo durable, and no add since -> emptied                 what a round of `surplus.py` has found

A round may find a million of them. So some are taken in each step, and some dropped, `ledgers_per_step` at most.

Ids between tombstones that are gone from the metadata (`gaps.py`) get tombstones as well, unless a ledger with one is
here. With `tombstones_max` runs nothing is deleted any more: its space does not come back, and with `ledgers_max`
ledgers no new ones are taken. That is told. It takes more live ledgers than that in the cluster, or clients that make
ledgers without metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.gaps import Run
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
        self._runs_max = config.tombstones_max
        self._table = table
        self._cache = cache
        self._journal = journal
        self._writes = writes
        self._reads = reads
        self._waiting: deque[int] = deque()
        """Ledgers to be deleted."""
        self._to_drop: deque[tuple[int, list[int]]] = deque()
        """Ledgers with tombstones, each group with the number of the append that makes these durable."""
        self._to_empty: deque[tuple[int, list[int]]] = deque()
        """Ledgers in limbo, each group with the number of the append that makes this durable."""
        self._dropped = 0
        self.dropped: list[int] = []
        """Ledgers that are gone from here now; the bookie empties it."""
        self._gaps: deque[Run] = deque()
        self._is_full = False
        self.reports: list[str] = []
        """The bookie empties it."""
        self.notes: list[str] = []
        """The bookie empties it."""

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has something to do."""
        return 0 if self._waiting or self._gaps or self._may_drop or self._may_empty else None

    @property
    def _may_drop(self) -> bool:
        return bool(self._to_drop) and self._to_drop[0][0] <= self._journal.durable_number

    @property
    def _may_empty(self) -> bool:
        return bool(self._to_empty) and self._to_empty[0][0] <= self._journal.durable_number

    def empty(self, ledgers: list[int]) -> None:
        """Let go of the entries of these ledgers, which are watched."""
        for each in ledgers:
            ledger = self._table.get(each)
            if ledger is not None:
                self._writes.lose(each, ledger.key)
        self._to_empty.append((self._journal.next_number, ledgers))

    def add(self, ledgers: Iterable[int]) -> None:
        """Delete these ledgers, ascending."""
        self._waiting.extend(ledgers)

    def fill(self, gaps: Iterable[Run]) -> None:
        """These ids are gone, ascending runs of few ids, and the bookie need not have had them."""
        self._gaps.extend(gaps)

    def step(self) -> None:
        """Drop some ledgers whose tombstones are durable, and take some more."""
        if self._gaps:
            self._fill([self._gaps.popleft() for _ in range(min(self._count_max, len(self._gaps)))])
        if self._may_empty:
            self._empty(self._to_empty.popleft()[1])
        if self._may_drop:
            self._drop(self._to_drop.popleft()[1])
        if self._waiting:
            self._take([self._waiting.popleft() for _ in range(min(self._count_max, len(self._waiting)))])

    def _take(self, ledgers: list[int]) -> None:
        """Take no adds of these ledgers from now on."""
        runs = runs_of(sorted(ledgers))
        is_full = len(self._table.tombstones) + len(runs) > self._runs_max
        if is_full:
            self._waiting.clear()
            if not self._is_full:
                self.reports.append(f"there are {len(self._table.tombstones)} tombstones -> no ledger is deleted")
        self._is_full = is_full
        if is_full:
            return
        self._to_drop.append((self._journal.next_number, ledgers))
        self._note(runs)
        for each in ledgers:
            ledger = self._table.get(each)
            if ledger is not None:
                # Until then its next adds would go the shorter way, which looks at no tombstones.
                ledger.is_fenced = True

    def _fill(self, gaps: list[Run]) -> None:
        here = self._table.by_id.keys()
        self._note([(first, last) for first, last in gaps if here.isdisjoint(range(first, last + 1))])

    def _note(self, runs: list[Run]) -> None:
        self._table.tombstones.add_runs(runs)
        for first, last in runs:
            self._writes.note_tombstones(first, last)

    def _empty(self, ledgers: list[int]) -> None:
        emptied = [each for each in ledgers if each in self._table.watched]
        for each in emptied:
            self._table.empty(self._table.by_id[each])
        if emptied:
            self.notes.append(f"let go of the entries of {len(emptied)} ledgers that other bookies have")

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
