"""Variants of writers, recoveries and bookies that break a promise: each has one rule less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve

from zab.coordination.operations import Children, Set
from zab.coordination.steps import Steps, read
from zab.ledger.bookie import membership, surplus
from zab.ledger.bookie.checkpoints import Checkpoints
from zab.ledger.bookie.collection import Candidates, NoRound
from zab.ledger.bookie.cookie_check import CookieError, LocalCookie, check_cookie
from zab.ledger.bookie.events import StateSaved
from zab.ledger.bookie.journal import Journal
from zab.ledger.bookie.journal_files import JournalFiles
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.bookie.membership import Membership
from zab.ledger.bookie.reads import Reads
from zab.ledger.bookie.records import EXPLICIT_LAC, LEDGER
from zab.ledger.bookie.tombstones import Tombstones
from zab.ledger.bookie.writes import Writes
from zab.ledger.metadata.cookies import Cookie, encode_cookie
from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.metadata.paths import ledger_path, ledgers_in
from zab.ledger.metadata.serialized import decode_metadata, encode_metadata
from zab.ledger.recovery.reading import EntryRead, LacPhase
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.recovery.write_back import WriteBack
from zab.ledger.store.events import Send
from zab.ledger.store.ledgers import list_ledgers
from zab.ledger.wire.messages import AddEntry
from zab.ledger.wire.status import Status
from zab.ledger.writer.pipeline import Pipeline
from zab.ledger.writer.writer import LedgerWriter
from zab.simulator.ledgers import bookie_process

Patch = pytest.MonkeyPatch

# ------------------------------------------------------------------------------------------------------------- writers


def release_during_a_change(patch: Patch) -> None:
    """S7: entries are acknowledged that the new fragment has, and its bookies have not."""

    def release(writer: LedgerWriter) -> None:
        if writer._is_live and not writer._ending.is_writing:
            writer._pipeline.release()

    patch.setattr(LedgerWriter, "_release", release)


def use_an_ensemble_before_it_is_written(patch: Patch) -> None:
    """S6."""
    change_if_due = LedgerWriter._change_if_due

    def changing(writer: LedgerWriter) -> None:
        before = writer._changes.under_way
        change_if_due(writer)
        change = writer._changes.under_way
        if change is not None and change is not before:
            writer._pipeline.use(change.ensemble, frozenset(), writer._now)

    release_during_a_change(patch)
    patch.setattr(LedgerWriter, "_change_if_due", changing)


def acknowledge_with_a_copy_less(patch: Patch) -> None:
    """An entry is acknowledged with one copy less than it needs."""
    release = Pipeline.release

    def releasing(pipeline: Any) -> Any:
        pipeline._ack_quorum, kept = max(1, pipeline._ack_quorum - 1), pipeline._ack_quorum
        try:
            return release(pipeline)
        finally:
            pipeline._ack_quorum = kept

    patch.setattr(Pipeline, "release", releasing)


# ---------------------------------------------------------------------------------------------------------- recoveries


def take_errors_for_absence(patch: Patch) -> None:
    """A bookie that cannot be reached counts as one that has nothing."""
    on_answer = EntryRead.on_answer

    def taking(read: EntryRead, bookie: Any, answer: Any, now_ms: int) -> None:
        if answer.status is not Status.OK:
            answer = evolve(answer, status=Status.NO_ENTRY)
        on_answer(read, bookie, answer, now_ms)

    patch.setattr(EntryRead, "on_answer", taking)


def begin_before_the_last_fragment(patch: Patch) -> None:
    """S2: entries of older fragments are written back to the last one."""
    make = LacPhase.of.__func__  # type: ignore[attr-defined]

    def making(cls: type[LacPhase], *given: Any) -> LacPhase:
        phase: LacPhase = make(cls, *given)
        phase.start = -1
        return phase

    patch.setattr(LacPhase, "of", classmethod(making))


def write_ensembles_of_a_recovery_early(patch: Patch) -> None:
    """S9: the metadata name bookies that do not have what their predecessors had."""
    work = Recovery._read_and_write

    def working(recovery: Recovery) -> None:
        before = list(recovery._writes.fragments)
        work(recovery)
        if recovery._writes.fragments != before:
            recovery._driver.offer(recovery._event("early", lambda: _write_early(recovery)))

    def _write_early(recovery: Recovery) -> Steps[None]:
        base = recovery._base
        fragments = (*base.metadata.fragments[:-1], *recovery._writes.fragments)
        wanted: LedgerMetadata = evolve(base.metadata, fragments=fragments)
        path = ledger_path(recovery._root, recovery._ledger)
        (done,) = yield (Set(path, encode_metadata(wanted), base.version),)
        if done.ok:
            recovery._base = evolve(base, metadata=wanted, version=done.stat.version)

    patch.setattr(Recovery, "_read_and_write", working)


def read_without_a_fence(patch: Patch) -> None:
    """S1: the reads of entries do not fence."""
    make = EntryRead.of.__func__  # type: ignore[attr-defined]

    def making(cls: type[EntryRead], *given: Any) -> EntryRead:
        found: EntryRead = make(cls, *given)
        found.asking.request = evolve(found.asking.request, is_fencing=False)
        return found

    patch.setattr(EntryRead, "of", classmethod(making))


def read_from_the_new_ensemble(patch: Patch) -> None:
    """S10: entries are asked of the bookies that copies were moved to."""
    work = Recovery._read_and_write

    def working(recovery: Recovery) -> None:
        base, metadata = recovery._base, recovery._base.metadata
        fragments = (*metadata.fragments[:-1], *recovery._writes.fragments)
        recovery._base = evolve(base, metadata=evolve(metadata, fragments=fragments))
        try:
            work(recovery)
        finally:
            recovery._base = base

    patch.setattr(Recovery, "_read_and_write", working)


def close_without_writing_back(patch: Patch) -> None:
    """S20."""

    def add(_writes: WriteBack, _entry: int, _envelope: bytes, _now_ms: int) -> Iterator[Send]:
        return iter(())

    patch.setattr(WriteBack, "add", add)


# ------------------------------------------------------------------------------------------------------------- bookies


def start_with_any_disk(patch: Patch) -> None:
    """S4: a bookie that lost its disk goes on under its name."""

    def checking(root: str, cookie: Cookie, local: LocalCookie | None) -> Steps[bytes]:
        try:
            return (yield from check_cookie(root, cookie, local))
        except CookieError:
            return encode_cookie(cookie)

    patch.setattr(bookie_process, "check_cookie", checking)


def deny_before_the_fence_is_durable(patch: Patch) -> None:
    """S5: the bookie loses its power, and is not fenced any more."""
    answering = Reads._answer

    def answer(reads: Reads, asked: Any, answer: Any, *, after_journal: bool = False) -> None:
        answering(reads, asked, answer, after_journal=after_journal and not answer.status.proves_absence)

    patch.setattr(Reads, "_answer", answer)


def answer_repeated_adds_at_once(patch: Patch) -> None:
    """S23: the first one is in the cache, and not durable yet."""
    add_slowly = Writes._add_slowly

    def adding(writes: Writes, each: Any, request: AddEntry, wall_ms: int) -> None:
        ledger = writes._table.get(request.ledger)
        is_known = ledger is not None and ledger.cached(request.entry) == request.envelope
        add_slowly(writes, each, request, wall_ms)
        if is_known and writes._journal.waiting and writes._journal.waiting[-1][:2] == (each.connection, each.number):
            writes.at_once.append(writes._journal.waiting.pop())

    patch.setattr(Writes, "_add_slowly", adding)


def keep_explicit_lacs_in_memory(patch: Patch) -> None:
    """S16."""
    take = Journal.take

    def taking(journal: Journal) -> Any:
        journal.records = [record for record in journal.records if record[0] != EXPLICIT_LAC]
        return take(journal)

    patch.setattr(Journal, "take", taking)


def acknowledge_what_is_not_synced(patch: Patch) -> None:
    """The journal is written, and not durable."""

    def begin(files: Any) -> Any:
        file = begin_file(files)
        file.write_durable = file.write
        return file

    begin_file = JournalFiles._begin
    patch.setattr(JournalFiles, "_begin", begin)


def mark_what_is_not_flushed(patch: Patch) -> None:
    """The checkpoint is where the journal ends when it is made, not when the cache was swapped."""
    saved = Checkpoints.state_saved

    def saving(checkpoints: Checkpoints, answer: StateSaved) -> None:
        checkpoints._next_mark = checkpoints._journal.mark
        saved(checkpoints, answer)

    patch.setattr(Checkpoints, "state_saved", saving)


def forget_fences(patch: Patch) -> None:
    """S1 and S5 at their root: a fence does not outlive its process."""
    fence = Writes.fence

    def fencing(writes: Writes, ledger_id: int, key: bytes) -> Any:
        before = len(writes._journal.records)
        found = fence(writes, ledger_id, key)
        if not isinstance(found, Status) and len(writes._journal.records) > before and found.is_fenced:
            writes._journal.records[-1] = bytes((LEDGER,)) + writes._journal.records[-1][1:]
        return found

    patch.setattr(Writes, "fence", fencing)


def forget_tombstones(patch: Patch) -> None:
    """S11: a ledger that is collected is as one that never was."""
    delete = LedgerTable.delete

    def deleting(table: LedgerTable, ledger: int) -> None:
        delete(table, ledger)
        table.tombstones = Tombstones()

    patch.setattr(LedgerTable, "delete", deleting)


def believe_a_stale_list(patch: Patch) -> None:
    """S13: the metadata are listed without a sync, and what the list lacks is not asked for by itself. Nobody looks for
    surplus ledgers, since that begins with a sync of the same session."""

    def finding(root: str, instance: bytes, mine: Any) -> Steps[Candidates | NoRound]:
        parents = sorted({ledger_path(root, ledger).rpartition("/")[0] for ledger in mine})
        results = yield from read(Children(parent) for parent in parents)
        there: set[int] = set()
        for parent, listed in zip(parents, results, strict=True):
            if not listed.is_missing:
                there.update(ledgers_in(root, parent, listed.must(parent).children))
        return Candidates(frozenset(set(mine) - there), len(mine))

    patch.setattr(membership, "find_candidates", finding)
    patch.setattr(surplus.Surplus, "is_due", lambda _self, _now_ms: False)


def let_go_of_any_closed_ledger(patch: Patch) -> None:
    """Whether the metadata name the bookie does not matter."""
    patch.setattr(surplus, "is_surplus", lambda data, _bookie: decode_metadata(data).is_closed)


def list_before_the_snapshot(patch: Patch) -> None:
    """What came while the metadata were read is taken for deleted, at once: neither is it asked for by itself, nor has
    a second round to agree."""

    def collecting(self: Membership) -> Steps[None]:
        listed = yield from list_ledgers(self._member.root)
        self.to_delete += sorted(set(self._table.by_id) - set(listed))

    patch.setattr(Membership, "_collect", collecting)
