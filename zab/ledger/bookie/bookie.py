"""One bookie: requests in, answers and changes of files out. Pure; `events.py` says what its host keeps.

    open_files(disk, …)        what is durable, before anything is answered (`opening.py`)
    Bookie(config, opened, …)  the core
    step(now_ms, inputs)       decides everything that came, in order, and returns what is to be done
    deadline_ms                when it wants to be called again, at the latest

Decided here is the order of a turn: adds that follow each other are taken in one loop (`writes.py`), everything else
one by one; then comes what waits for time; then everything that this turn journals becomes one append. Not decided
here: what is answered when (`writes.py`, `reads.py`, `journal.py`), when the cache is flushed (`checkpoints.py`), what
is deleted (`collection.py`, `deletion.py`), how it is registered (`registration.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zab.coordination.driver import Connected, Expired, Results, Suspended, WatchFired
from zab.ledger.bookie.checkpoints import Checkpoints
from zab.ledger.bookie.compaction import Compaction
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.deletion import Deletion
from zab.ledger.bookie.disk_reads import DiskReads
from zab.ledger.bookie.events import (
    Asked,
    CheckpointSaved,
    Collect,
    Compact,
    Compacted,
    CompactedPart,
    ConnectionClosed,
    ContinueCompact,
    Effects,
    Input,
    JobAnswer,
    JobFailed,
    JournalDurable,
    JournalFailed,
    JournalPrepared,
    LostEntries,
    Ordered,
    PrepareJournal,
    ReadDone,
    SegmentsRemoved,
    SegmentWritten,
    Space,
    StateSaved,
)
from zab.ledger.bookie.journal import Journal
from zab.ledger.bookie.long_polls import LongPolls
from zab.ledger.bookie.membership import Member, Membership
from zab.ledger.bookie.opening import Opened
from zab.ledger.bookie.reads import Reads
from zab.ledger.bookie.segments import Segments
from zab.ledger.bookie.space import SpaceRule
from zab.ledger.bookie.write_cache import WriteCache
from zab.ledger.bookie.writes import Writes
from zab.ledger.wire.messages import (
    AddEntry,
    BookieInfo,
    BookieInfoWanted,
    Forced,
    ForceLedger,
    GetBookieInfo,
    ListEntries,
    ReadBatch,
    ReadEntry,
    ReadLac,
    WriteLac,
    answer_without,
)
from zab.ledger.wire.status import Status

NOTHING_TO_DO: Final = 1 << 62


class Bookie:
    """See the docstring of the module."""

    def __init__(self, config: BookieConfig, opened: Opened, now_ms: int, member: Member | None = None) -> None:
        """`member`: who it is in the coordination service. Without it, it is not registered, and deletes nothing."""
        self._config = config
        self._now_ms = now_ms
        self.table = opened.table
        self.segments = Segments(
            opened.segments, read_ahead_bytes=config.read_ahead_bytes, cache_bytes=config.read_cache_bytes
        )
        self._journal = Journal(opened.mark)
        self._cache = WriteCache(self.table)
        self._writes = Writes(config, self.table, self._cache, self._journal)
        self._long_polls = LongPolls(config)
        self._disk_reads = DiskReads(config)
        self._reads = Reads(
            config, self.table, self.segments, self._disk_reads, self._journal, self._writes, self._long_polls
        )
        self.checkpoints = Checkpoints(
            config, self.table, self._cache, self.segments, self._journal, self._writes, opened
        )
        self.space = SpaceRule(config, now_ms)
        self.compaction = Compaction(config, self.table, self.segments, now_ms)
        self.membership = None if member is None else Membership(config, member, self.table, now_ms)
        self.deletion = Deletion(config, self.table, self._cache, self._journal, self._writes, self._reads)
        self._prepared_for = -1
        """For the roll after which journal file the next one was prepared."""
        self._notes = list(opened.notes)
        self._failure: str | None = None

    @property
    def pending_bytes(self) -> int:
        """Bytes of entries that are not durable yet."""
        return self._journal.pending_bytes

    @property
    def cache_bytes(self) -> int:
        """Bytes in the write cache: entries that are in no segment yet."""
        return self._cache.size + self._cache.flushing_size

    @property
    def deadline_ms(self) -> int:
        """When `step` has something to do without an input."""
        if self._failure is not None:
            return NOTHING_TO_DO
        deadlines = [
            self.checkpoints.deadline_ms,
            self.compaction.deadline_ms,
            self.deletion.deadline_ms,
            self._long_polls.deadline_ms,
            self._disk_reads.deadline_ms,
            self.space.deadline_ms,
        ]
        if self.membership is not None:
            deadlines.append(self.membership.deadline_ms)
        return min(each for each in deadlines if each is not None)

    def step(self, now_ms: int, inputs: Sequence[Input], wall_ms: int = 0) -> Effects:
        """Decide everything that came. `wall_ms`: milliseconds since 1970, for what is told to clients."""
        effects = Effects()
        if self._failure is not None:
            return effects
        self._now_ms = self._reads.now_ms = now_ms
        self._take(inputs, effects, wall_ms)
        self._reads.time_out()
        self._disk_reads.begin_long()
        while self._writes.raised:
            self._reads.wake(self._writes.raised.popitem()[0])
        if self.space.asks(now_ms):
            effects.asks_space = True
        self.checkpoints.step(now_ms)
        if self.compaction.step(now_ms, self.checkpoints.next_segment):
            self.checkpoints.take_number()
        if self.membership is not None and self._failure is None:
            self._look_after(self.membership, effects)
        self.deletion.step()
        effects.deleted, self.deletion.dropped = self.deletion.dropped, []
        self._finish(effects)
        return effects

    def _take(self, inputs: Sequence[Input], effects: Effects, wall_ms: int) -> None:
        adds: list[Asked] = []
        for each in inputs:
            if type(each) is Asked and type(each.request) is AddEntry:
                adds.append(each)
                continue
            if adds:
                self._writes.add(adds, wall_ms)
                adds = []
            if type(each) is Asked:
                self._take_request(each, wall_ms)
            else:
                self._take_event(each, effects)
            if self._failure is not None:
                return
        if adds:
            self._writes.add(adds, wall_ms)

    def _take_request(self, asked: Asked, wall_ms: int) -> None:
        match asked.request:
            case ReadEntry() as request:
                self._reads.read(asked, request)
            case ReadBatch() as request:
                self._reads.read_batch(asked, request)
            case WriteLac() as request:
                self._writes.write_lac(asked, request, wall_ms)
            case ReadLac() as request:
                self._reads.read_lac(asked, request)
            case ForceLedger(ledger):
                self._journal.wait(asked.connection, asked.number, Forced(Status.OK, ledger))
            case ListEntries() as request:
                self._reads.list_entries(asked, request)
            case GetBookieInfo(wants):
                self._reads.answers.append((asked.connection, asked.number, self._info(wants)))
            case request:
                # Logins and TLS are the host's.
                refusal = answer_without(request, Status.BAD_REQUEST)
                self._reads.answers.append((asked.connection, asked.number, refusal))

    def _info(self, wants: BookieInfoWanted) -> BookieInfo:
        known = self.space.known or Space(0, 0)
        return BookieInfo(
            Status.OK,
            known.total if wants & BookieInfoWanted.CAPACITY else None,
            known.free if wants & BookieInfoWanted.FREE else None,
        )

    def _look_after(self, membership: Membership, effects: Effects) -> None:
        """Be registered as the space says, and delete what is gone."""
        membership.set_read_only(self._writes.is_read_only)
        effects.submits += membership.step(self._now_ms)
        if membership.to_delete:
            self.deletion.add(membership.to_delete)
            membership.to_delete = []
        surplus = membership.surplus
        for each in surplus.to_fence:
            if (ledger := self.table.get(each)) is not None:
                self._writes.fence(each, ledger.key)
        surplus.to_fence.clear()
        if surplus.to_empty:
            self.deletion.empty(surplus.to_empty)
            surplus.to_empty = []
        if membership.to_fill:
            self.deletion.fill(membership.to_fill)
            membership.to_fill = []
        for mine, others in ((effects.notes, membership.notes), (effects.reports, membership.reports)):
            mine += others
            others.clear()

    def _take_event(self, event: Input, effects: Effects) -> None:
        match event:
            case JournalDurable(number, mark):
                effects.answers += self._journal.durable(number, mark)
                self._prepare_journal(effects)
            case ReadDone(token, data):
                self._disk_reads.done(token, data)
            case SegmentWritten():
                self._done(event, effects)
                self.checkpoints.segment_written(event)
            case StateSaved():
                self._done(event, effects)
                self.checkpoints.state_saved(event)
            case CheckpointSaved():
                self._done(event, effects)
                self.checkpoints.checkpoint_saved(event)
            case Space():
                self.space.take(event)
                effects.jobs += self.space.retry()
                self._set_mode(effects)
            case Ordered(read_only):
                self.space.order(read_only=read_only)
                self._set_mode(effects)
            case ConnectionClosed(connection):
                self._long_polls.close(connection)
            case LostEntries(keys):
                for ledger, key in keys.items():
                    self._writes.lose(ledger, key)
            case JobFailed():
                self._job_failed(event, effects)
            case JournalFailed(reason):
                self._fail(f"the journal cannot be written: {reason}", effects)
            case JournalPrepared():
                self._done(event, effects)
            case CompactedPart():
                self.compaction.part_written(event, self._now_ms)
            case Compacted():
                self.compaction.compacted(event)
            case SegmentsRemoved():
                self._done(event, effects)
                self.compaction.removed(event)
            case Collect(force):
                if self.membership is not None:
                    self.membership.collect_now(self._now_ms, force=force)
            case Connected() | Suspended() | Expired() | WatchFired() | Results():
                if self.membership is not None:
                    self.membership.take(event)
            case _:
                raise AssertionError(event)

    def _prepare_journal(self, effects: Effects) -> None:
        """Have the next journal file made before the current one is half full, so that there is room for it."""
        sequence, offset = self._journal.mark
        is_half = offset >= self._config.journal_file_bytes // 2
        if sequence > self._prepared_for and is_half and not self.space.lacks_room_for(PrepareJournal):
            self._prepared_for = sequence
            effects.jobs.append(PrepareJournal())

    def _job_failed(self, event: JobFailed, effects: Effects) -> None:
        if isinstance(event.job, Compact | ContinueCompact):
            self.compaction.failed(event)
            return
        if not event.is_full:
            self._fail(f"{type(event.job).__name__} failed: {event.reason}", effects)
            return
        if self.space.found_no_room(event.job):
            effects.reports.append(f"no room for {type(event.job).__name__}: {event.reason} -> read-only")
        self._set_mode(effects)

    def _done(self, answer: JobAnswer, effects: Effects) -> None:
        """A job is done, perhaps one that had found no room."""
        self.space.done(answer)
        self._set_mode(effects)

    def _set_mode(self, effects: Effects) -> None:
        """Take or refuse adds, as the space is."""
        before, self._writes.is_read_only = self._writes.is_read_only, self.space.is_read_only
        self._writes.has_reserve = self.space.has_reserve
        if before != self._writes.is_read_only:
            effects.notes.append("read-only" if self._writes.is_read_only else "writable again")

    def _fail(self, reason: str, effects: Effects) -> None:
        """Nothing more is answered: what is not durable cannot be made so."""
        self._failure = effects.failure = reason
        effects.answers.clear()

    def _finish(self, effects: Effects) -> None:
        if self._failure is not None:
            return
        append, waiting = self._journal.take()
        if append is not None:
            effects.journal.append(append)
        for answers in (waiting, self._writes.at_once, self._reads.answers):
            if answers:
                effects.answers += answers
        self._writes.at_once.clear()
        self._reads.answers.clear()
        effects.reads = self._disk_reads.take()
        effects.jobs += self.checkpoints.jobs
        self.checkpoints.jobs.clear()
        effects.jobs += self.compaction.jobs
        self.compaction.jobs.clear()
        for notes in (self._notes, self.deletion.notes):
            effects.notes += notes
            notes.clear()
        for reports in (self.segments.reports, self.compaction.reports, self.deletion.reports):
            effects.reports += reports
            reports.clear()
        effects.takes_adds = not (
            self.checkpoints.is_full or self._journal.pending_bytes >= self._config.journal_pending_bytes
        )
