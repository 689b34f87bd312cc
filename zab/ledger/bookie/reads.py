"""What reads: single entries, batches, LACs, long polls, lists of entries.

An entry that is in the write cache is answered at once, durable or not: readers ask for what is confirmed, of which
enough other copies are durable. Otherwise the segments are searched.

A fencing read fences first, and **whatever its answer says, it waits until the fence is durable**: a bookie that said
that it does not have an entry, and lost power, must not take that entry afterwards.

| what is found | status |
|---|---|
| the ledger is not known, or it was deleted | NO_LEDGER |
| not this entry | NO_ENTRY |
| not this entry, and entries of the ledger may be lost | UNKNOWN_LEDGER_STATE |
| damage, or nothing where damage may hide it | IO_ERROR |
"""

from __future__ import annotations

from typing import Final, TypeAlias

from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.disk_reads import DiskReads
from zab.ledger.bookie.events import Asked
from zab.ledger.bookie.journal import Journal, Waiting
from zab.ledger.bookie.ledgers import Ledger, LedgerTable, Watcher
from zab.ledger.bookie.long_polls import LongPolls
from zab.ledger.bookie.segments import Search, Segments, UnreadableError
from zab.ledger.bookie.tombstones import runs_of
from zab.ledger.bookie.writes import Writes
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import (
    Answer,
    BatchRead,
    EntriesListed,
    EntryRead,
    LacRead,
    ListEntries,
    ReadBatch,
    ReadEntry,
    ReadLac,
    answer_without,
)
from zab.ledger.wire.status import Status

BATCH_HEADER_BYTES: Final = 24 + 8 + 4
"""What the answer to a batch read takes before its first entry, as its size is counted."""
LENGTH_BYTES: Final = 4

Found: TypeAlias = bytes | Status
"""An entry, or why there is none."""


class Reads:
    """The read path of a bookie."""

    def __init__(
        self,
        config: BookieConfig,
        table: LedgerTable,
        segments: Segments,
        disk_reads: DiskReads,
        journal: Journal,
        writes: Writes,
        long_polls: LongPolls,
    ) -> None:
        self._config = config
        self._table = table
        self._segments = segments
        self._disk_reads = disk_reads
        self._journal = journal
        self._writes = writes
        self._long_polls = long_polls
        self.now_ms = 0
        """The bookie sets it in each step."""
        self.answers: list[Waiting] = []
        """Answers that may go; the bookie empties it."""

    def _answer(self, asked: Asked | Watcher, answer: Answer, *, after_journal: bool = False) -> None:
        waiting = self._journal.waiting if after_journal else self.answers
        waiting.append((asked.connection, asked.number, answer))

    # ---------------------------------------------------------------------------------------------------- one entry

    def _entry(self, ledger: Ledger, entry: int) -> Search[Found]:
        """An entry of a ledger, or why there is none; -1: the one with the highest id."""
        wanted = entry
        if entry == NONE:
            if self._segments.may_hide_last(ledger.id):
                return Status.IO_ERROR
            wanted = ledger.last
        envelope = ledger.cached(wanted)
        try:
            if envelope is None:
                envelope = yield from self._segments.find(ledger.id, wanted)
        except UnreadableError:
            return Status.IO_ERROR
        if envelope is not None:
            return envelope
        return Status.UNKNOWN_LEDGER_STATE if ledger.is_limbo else Status.NO_ENTRY

    def _search(
        self,
        asked: Asked | Watcher,
        search: Search[Answer],
        *,
        is_urgent: bool = False,
        is_long: bool = False,
        fenced: Ledger | None = None,
    ) -> None:
        """Run a search that ends with an answer, which waits until the fence of `fenced` is durable."""

        def then(answer: Answer) -> None:
            waits = fenced is not None and fenced.fence_number > self._journal.durable_number
            self._answer(asked, answer, after_journal=waits)

        if self._disk_reads.has_room(is_urgent=is_urgent):
            self._disk_reads.start(search, then, is_urgent=is_urgent, is_long=is_long)
        else:
            then(answer_without(asked.request, Status.TOO_MANY_REQUESTS))

    def read(self, asked: Asked, request: ReadEntry) -> None:
        """Answer a read, or wait for what it needs."""
        if request.ledger < 0 or request.entry < NONE:
            self._answer(asked, answer_without(request, Status.BAD_REQUEST))
        elif request.is_fencing:
            self._fencing_read(asked, request)
        elif request.previous_lac is not None or request.wants_piggyback:
            self._long_poll(asked, request)
        else:
            self._plain_read(asked, request)

    def _plain_read(self, asked: Asked | Watcher, request: ReadEntry) -> None:
        ledger = self._table.get(request.ledger)
        if ledger is None:
            self._answer(asked, answer_without(request, Status.NO_LEDGER))
            return
        envelope = ledger.cached(request.entry)
        if envelope is not None:
            read = EntryRead(Status.OK, request.ledger, request.entry, envelope, ledger.lac)
            self.answers.append((asked.connection, asked.number, read))
        else:
            self._search(asked, self._read(ledger, request), is_urgent=request.is_urgent)

    def _read(self, ledger: Ledger, request: ReadEntry) -> Search[Answer]:
        found = yield from self._entry(ledger, request.entry)
        if isinstance(found, Status):
            return answer_without(request, found)
        max_lac = None if request.is_fencing else ledger.lac
        return EntryRead(Status.OK, request.ledger, request.entry, found, max_lac)

    def _fencing_read(self, asked: Asked, request: ReadEntry) -> None:
        ledger = self._writes.fence(request.ledger, request.key)
        if isinstance(ledger, Status):
            self._answer(asked, answer_without(request, ledger), after_journal=True)
        else:
            self._search(asked, self._read(ledger, request), is_urgent=True, fenced=ledger)

    # ------------------------------------------------------------------------------------------------------- batches

    def read_batch(self, asked: Asked, request: ReadBatch) -> None:
        """Answer a batch read."""
        if request.ledger < 0 or request.first < 0:
            self._answer(asked, answer_without(request, Status.BAD_REQUEST))
            return
        ledger: Ledger | Status | None
        if request.is_fencing:
            ledger = self._writes.fence(request.ledger, request.key)
        else:
            ledger = self._table.get(request.ledger)
        if isinstance(ledger, Ledger):
            fenced = ledger if request.is_fencing else None
            is_urgent = request.is_fencing or request.is_urgent
            end_ms = self.now_ms + self._config.batch_ms_max
            self._search(asked, self._batch(ledger, request, end_ms), is_urgent=is_urgent, is_long=True, fenced=fenced)
        else:
            refusal = answer_without(request, ledger or Status.NO_LEDGER)
            self._answer(asked, refusal, after_journal=request.is_fencing)

    def _batch(self, ledger: Ledger, request: ReadBatch, end_ms: int) -> Search[Answer]:
        count_max = min(request.count_max if request.count_max > 0 else 1 << 31, self._config.batch_count_max)
        size_max = min(request.size_max, self._config.batch_bytes_max)
        size, entry = BATCH_HEADER_BYTES, request.first
        envelopes: list[bytes] = []
        while len(envelopes) < count_max:
            if envelopes and self.now_ms >= end_ms:
                break
            found = yield from self._entry(ledger, entry)
            if isinstance(found, Status):
                if not envelopes:
                    return answer_without(request, found)
                break
            size += LENGTH_BYTES + len(found)
            if envelopes and size > size_max:
                break
            envelopes.append(found)
            entry += 1
        return BatchRead(Status.OK, request.ledger, request.first, tuple(envelopes))

    # ----------------------------------------------------------------------------------------------------- long polls

    def _long_poll(self, asked: Asked, request: ReadEntry) -> None:
        ledger = self._table.get(request.ledger)
        previous = request.previous_lac
        if previous is None or previous < NONE or (request.wants_piggyback and request.entry != NONE):
            self._answer(asked, answer_without(request, Status.BAD_REQUEST))
        elif ledger is None:
            self._answer(asked, answer_without(request, Status.NO_LEDGER))
        elif request.wait_ms is None or ledger.lac > previous:
            self._after_wait(asked, request, False)
        elif not self._long_polls.add(asked.connection, asked.number, request, ledger, self.now_ms):
            self._answer(asked, answer_without(request, Status.TOO_MANY_REQUESTS))

    def wake(self, ledger: Ledger) -> None:
        """Its LAC has risen, it was fenced, or it is gone: answer who waits."""
        for watcher in self._long_polls.wake(ledger):
            self._after_wait(watcher, watcher.request, True)

    def time_out(self) -> None:
        """Answer whose time is over."""
        for watcher in self._long_polls.due(self.now_ms):
            self._after_wait(watcher, watcher.request, False)

    def _after_wait(self, asked: Asked | Watcher, request: ReadEntry, was_woken: bool) -> None:
        previous = request.previous_lac
        ledger = self._table.get(request.ledger)
        assert previous is not None
        if ledger is None:
            self._answer(asked, answer_without(request, Status.NO_LEDGER))
        elif not request.wants_piggyback:
            self._plain_read(asked, request)
        elif ledger.lac <= previous:
            self._answer(asked, EntryRead(Status.OK, request.ledger, NONE, max_lac=ledger.lac))
        else:
            time_ms = ledger.lac_time_ms if was_woken else None
            self._search(asked, self._piggyback(ledger, previous + 1, time_ms), is_urgent=request.is_urgent)

    def _piggyback(self, ledger: Ledger, entry: int, time_ms: int | None) -> Search[Answer]:
        found = yield from self._entry(ledger, entry)
        if isinstance(found, Status):
            return EntryRead(Status.OK, ledger.id, NONE, max_lac=ledger.lac)
        return EntryRead(Status.OK, ledger.id, entry, found, ledger.lac, time_ms)

    # ----------------------------------------------------------------------------------------------------------- LACs

    def read_lac(self, asked: Asked, request: ReadLac) -> None:
        """Answer with the explicit LAC and the entry with the highest id."""
        ledger = self._table.get(request.ledger)
        if ledger is None:
            status = Status.NO_LEDGER if request.ledger >= 0 else Status.BAD_REQUEST
            self._answer(asked, answer_without(request, status))
        else:
            self._search(asked, self._lac(ledger), is_urgent=True)

    def _lac(self, ledger: Ledger) -> Search[Answer]:
        packet = ledger.lac_packet
        found = yield from self._entry(ledger, NONE)
        if not isinstance(found, Status):
            return LacRead(Status.OK, ledger.id, packet, found)
        if found is Status.NO_ENTRY and packet:
            return LacRead(Status.OK, ledger.id, packet)
        return LacRead(found, ledger.id)

    # ---------------------------------------------------------------------------------------------------------- lists

    def list_entries(self, asked: Asked, request: ListEntries) -> None:
        """Answer with the ids of all entries."""
        ledger = self._table.get(request.ledger)
        if ledger is None:
            status = Status.NO_LEDGER if request.ledger >= 0 else Status.BAD_REQUEST
            self._answer(asked, answer_without(request, status))
        else:
            self._search(asked, self._list(ledger), is_long=True)

    def _list(self, ledger: Ledger) -> Search[Answer]:
        runs_max = self._config.runs_max
        # Before the search: what is flushed in the meantime would be in neither.
        cached = [run for entries in (ledger.active, ledger.flushing) for run in runs_of(sorted(entries or ()))]
        try:
            found = yield from self._segments.ids(ledger.id, runs_max)
        except UnreadableError:
            return EntriesListed(Status.IO_ERROR, ledger.id)
        runs = None if found is None else _merged(found + cached)
        if runs is None or len(runs) > runs_max:
            return EntriesListed(Status.TOO_MANY_REQUESTS, ledger.id)
        if ledger.is_limbo:
            return EntriesListed(Status.UNKNOWN_LEDGER_STATE, ledger.id)
        return EntriesListed(Status.OK, ledger.id, tuple(runs))


def _merged(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs in any order as sorted ones that neither overlap nor touch, first and last id."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged
