"""Asks bookies for the entries of ranges: batches, replicas in turn, hedges, time-outs.

A **run** is one request under way: consecutive entries, of one bookie. A run of several is one batch read; the answer
may have fewer. Where E = Qw every bookie of the ensemble has all entries, so one is kept to. Each record is checked;
one that is damaged, or another entry, is an error of that bookie, and the next replica is asked.

A bookie whose batch came too late may be slow: it is asked for one entry, and for twice as many after each answer. If
that one comes too late, the bookie counts as silent.

Not here: the order of replicas (`replicas`), what is wanted and delivered (`range_read`), the metadata (`reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from attrs import define, field

from zab.ledger.entries.envelope import Digest, DigestMismatchError, Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.quorums.write_sets import write_set
from zab.ledger.reader.events import ReaderSettings
from zab.ledger.reader.range_read import RangeRead, Wanted
from zab.ledger.reader.replicas import Replicas
from zab.ledger.store.events import Send
from zab.ledger.wire.messages import BatchRead, EntryRead, ReadBatch, ReadEntry
from zab.ledger.wire.status import Status

Asked: TypeAlias = ReadEntry | ReadBatch


@define(eq=False)
class _Run:
    """`hedge_ms`: when another bookie is asked as well; None: not any more."""

    range: RangeRead
    entries: tuple[int, ...]
    bookie: BookieId
    request: Asked
    sent_ms: int
    deadline_ms: int
    hedge_ms: int | None


@define
class Fetching:
    """All runs of one reader. `on_entry`: called with each entry that was checked, for what it proves."""

    _ledger: int
    _digest: Digest
    _settings: ReaderSettings
    _replicas: Replicas
    _on_entry: Callable[[Entry], None]
    _runs: dict[tuple[BookieId, Asked], list[_Run]] = field(factory=dict)
    _without_batches: set[BookieId] = field(factory=set)
    _rooms: dict[BookieId, int] = field(factory=dict)
    """So many entries may be under way at bookies whose batches came too late."""

    @property
    def deadline_ms(self) -> int | None:
        times = [time for run in self._all() for time in (run.deadline_ms, run.hedge_ms) if time is not None]
        return min(times, default=None)

    def _all(self) -> list[_Run]:
        return [run for runs in self._runs.values() for run in runs]

    def ask(self, of: RangeRead, metadata: LedgerMetadata, now_ms: int) -> Iterator[Send]:
        """Ask for everything that is idle. What no replica is left for stays idle: see `exhausted`."""
        is_sticky = metadata.ensemble_size == metadata.write_quorum
        run: list[Wanted] = []
        run_bookie: BookieId | None = None
        free = {each: room - self._under_way_at(each) for each, room in self._rooms.items()}
        for wanted in of.idle():
            bookie = self._next_replica(wanted, metadata, now_ms)
            if bookie is None or free.get(bookie, 1) <= 0:
                continue
            if bookie in free:
                free[bookie] -= 1
            if is_sticky:
                self._replicas.prefer(bookie, metadata.fragment_of(wanted.entry).ensemble)
            joins = (
                bookie == run_bookie
                and bookie not in self._without_batches
                and wanted.entry == run[-1].entry + 1
                and len(run) < self._settings.batch_entries
            )
            if run and run_bookie is not None and not joins:
                yield from self._start(of, run, run_bookie, now_ms)
                run = []
            run.append(wanted)
            run_bookie = bookie
        if run and run_bookie is not None:
            yield from self._start(of, run, run_bookie, now_ms)

    def _under_way_at(self, bookie: BookieId) -> int:
        return sum(len(run.entries) for run in self._all() if run.bookie == bookie)

    def exhausted(self, of: RangeRead, metadata: LedgerMetadata) -> list[Wanted]:
        """What every replica has been asked for, in vain."""
        return [wanted for wanted in of.idle() if self._next_replica(wanted, metadata, 0) is None]

    def _next_replica(self, wanted: Wanted, metadata: LedgerMetadata, now_ms: int) -> BookieId | None:
        ensemble = metadata.fragment_of(wanted.entry).ensemble
        members = [ensemble[at] for at in write_set(wanted.entry, metadata.ensemble_size, metadata.write_quorum)]
        left = [bookie for bookie in members if not wanted.has_answered(bookie)]
        is_sticky = metadata.ensemble_size == metadata.write_quorum
        return next(iter(self._replicas.order(left, now_ms, is_sticky)), None)

    def _start(self, of: RangeRead, run: list[Wanted], bookie: BookieId, now_ms: int) -> Iterator[Send]:
        first, settings = run[0].entry, self._settings
        request: Asked = (
            ReadEntry(self._ledger, first)
            if len(run) == 1
            else ReadBatch(self._ledger, first, len(run), settings.batch_bytes)
        )
        self._replicas.on_asked()
        hedge_ms = now_ms + self._replicas.hedge_after_ms(bookie)
        yield from self._send(of, tuple(each.entry for each in run), bookie, request, now_ms, hedge_ms)

    def _send(
        self,
        of: RangeRead,
        entries: tuple[int, ...],
        bookie: BookieId,
        request: Asked,
        now_ms: int,
        hedge_ms: int | None,
    ) -> Iterator[Send]:
        deadline_ms = now_ms + self._settings.request_timeout_ms
        runs = self._runs.setdefault((bookie, request), [])
        runs.append(_Run(of, entries, bookie, request, now_ms, deadline_ms, hedge_ms))
        for entry in entries:
            if (wanted := of.wanted.get(entry)) is not None:
                wanted.under_way += 1
        if len(runs) == 1:
            yield Send(bookie, request)

    # -------------------------------------------------------------------------------------------------------- answers

    def on_answer(self, bookie: BookieId, request: Asked, answer: EntryRead | BatchRead, now_ms: int) -> None:
        for run in self._runs.pop((bookie, request), ()):
            envelopes = answer.envelopes if isinstance(answer, BatchRead) else (answer.envelope,)
            status = answer.status
            if status == Status.OK and not envelopes:
                status = Status.IO_ERROR
            if status == Status.OK:
                self._replicas.on_served(bookie, now_ms - run.sent_ms)
                self._widen(bookie)
                self._take(run, envelopes, now_ms)
            else:
                self._refused(run, status, now_ms)
            self._ended(run)

    def _take(self, run: _Run, envelopes: Iterable[bytes], now_ms: int) -> None:
        for number, envelope in zip(run.entries, envelopes, strict=False):
            wanted = run.range.wanted.get(number)
            if wanted is None:
                continue
            try:
                entry = self._digest.open(envelope, self._ledger, number)
            except DigestMismatchError:
                self._replicas.mismatches += 1
                self._replicas.on_failed(run.bookie, now_ms)
                wanted.damaged.add(run.bookie)
                continue
            self._on_entry(entry)
            run.range.found(entry, len(envelope))

    def _widen(self, bookie: BookieId) -> None:
        if bookie in self._rooms:
            self._rooms[bookie] *= 2
            if self._rooms[bookie] >= self._settings.batch_entries:
                del self._rooms[bookie]

    def _refused(self, run: _Run, status: Status, now_ms: int) -> None:
        """A bookie says of the first entry of a batch alone that it does not have it."""
        if status == Status.BAD_REQUEST and isinstance(run.request, ReadBatch):
            self._without_batches.add(run.bookie)
            return
        if status.proves_absence:
            self._replicas.on_absent(run.bookie, now_ms)
        else:
            self._replicas.on_failed(run.bookie, now_ms)
        if status is Status.TIMED_OUT and len(run.entries) > 1:
            self._rooms[run.bookie] = 1
            return
        for number in run.entries[:1] if status.proves_absence else run.entries:
            if (wanted := run.range.wanted.get(number)) is not None:
                wanted.said[run.bookie] = status

    def _ended(self, run: _Run) -> None:
        for number in run.entries:
            if (wanted := run.range.wanted.get(number)) is not None:
                wanted.under_way -= 1

    def forget(self, of: RangeRead) -> None:
        """Nobody waits for this range any longer."""
        for key, runs in list(self._runs.items()):
            runs[:] = [run for run in runs if run.range is not of]
            if not runs:
                del self._runs[key]

    # ---------------------------------------------------------------------------------------------------------- times

    def tick(self, metadata: LedgerMetadata, now_ms: int) -> Iterator[Send]:
        """Time-outs, and hedges."""
        for run in self._all():
            if now_ms >= run.deadline_ms:
                runs = self._runs[run.bookie, run.request]
                runs.remove(run)
                if not runs:
                    del self._runs[run.bookie, run.request]
                self._refused(run, Status.TIMED_OUT, now_ms)
                self._ended(run)
            elif run.hedge_ms is not None and now_ms >= run.hedge_ms:
                run.hedge_ms = None
                yield from self._hedge(run, metadata, now_ms)

    def _hedge(self, run: _Run, metadata: LedgerMetadata, now_ms: int) -> Iterator[Send]:
        left = [number for number in run.entries if number in run.range.wanted]
        if not left or run.range.wanted[left[0]].under_way > 1:
            return
        self._replicas.on_failed(run.bookie, now_ms)
        ensemble = metadata.fragment_of(left[0]).ensemble
        members = [ensemble[at] for at in write_set(left[0], metadata.ensemble_size, metadata.write_quorum)]
        wanted = run.range.wanted[left[0]]
        others = [each for each in members if each != run.bookie and not wanted.has_answered(each)]
        order = self._replicas.order(others, now_ms, metadata.ensemble_size == metadata.write_quorum)
        if not order or not self._replicas.may_hedge():
            return
        bookie = order[0]
        is_batch = isinstance(run.request, ReadBatch) and bookie not in self._without_batches
        entries = run.entries if is_batch else (left[0],)
        request: Asked = run.request if is_batch else ReadEntry(self._ledger, left[0])
        yield from self._send(run.range, entries, bookie, request, now_ms, None)
