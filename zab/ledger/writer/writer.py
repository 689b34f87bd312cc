"""The writer of one ledger: a pure core.

    writer = LedgerWriter(root, versioned, placement)    right after the ledger was created
    effects = writer.step(now_ms, inputs)                see `events`
    writer.deadline_ms                                   step again then, even without inputs

An entry is acknowledged when enough bookies of its write set, as the metadata say it, have it, and all before it are
acknowledged. When a bookie fails another one takes its place: first in the metadata, then in the sends. Until the
metadata have it nothing is acknowledged, and appends go on. A bookie that says FENCED ends the writer, since somebody
recovers the ledger.

Statuses of adds:

| status | what happens |
|---|---|
| OK | counts |
| FENCED, UNAUTHORIZED | the writer ends |
| TOO_MANY_REQUESTS | sent again after a pause, `busy_tries_max` times; then as below |
| UNREACHABLE | sent again once, after `reconnect_ms`; then as below |
| all others | the bookie failed, and is replaced |

Not here: connections and their time limits, which bookies exist (both are told); creating the ledger, which is in
`zab.ledger.store`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from itertools import groupby
from typing import Any, Final, TypeAlias

from zab.coordination.driver import Connected, Driver, Event, Expired, Results, Suspended, WatchFired
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.ledger.entries.envelope import Digest
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.changes import BY_WRITER, ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError, LedgerMetadata, VersionedMetadata
from zab.ledger.placement.placement import Placement
from zab.ledger.store.events import Answered, BookieLost, BookiesKnown, Completed, Send
from zab.ledger.store.ledgers import Changed, ChangeOutcome, Lost, Refused, change_ledger, read_ledger
from zab.ledger.wire.messages import Added, WriteLac
from zab.ledger.wire.status import Status
from zab.ledger.writer.admission import BUDGET_WAIT_MS, Admission, SharedBudget
from zab.ledger.writer.ending import Ending
from zab.ledger.writer.ensemble_change import EnsembleChange, EnsembleChanges, Kept, Verdict, judge
from zab.ledger.writer.events import (
    Abandon,
    Append,
    BookieFailed,
    Cancel,
    Close,
    FragmentShort,
    LedgerNotOpenError,
    NotAppended,
    Reason,
    Resolve,
    WriterEffect,
    WriterInput,
    WriterState,
)
from zab.ledger.writer.pipeline import Pipeline
from zab.ledger.writer.settings import WriterSettings

_REASONS: Final = {Verdict.CONFLICT: Reason.CONFLICT, Verdict.DELETED: Reason.DELETED}
_NO_FAULTS: Final = frozenset({Status.READ_ONLY, Status.NO_LEDGER, Status.NO_ENTRY})
"""Answers that say nothing about the health of a bookie."""

WriteEnd: TypeAlias = Callable[[VersionedMetadata, LedgerMetadata], Steps[ChangeOutcome]]
"""Writes the end of a ledger, whose metadata were read as the first and become the second."""


class LedgerWriter:
    """`versioned`: of an open ledger that nobody has written to. `budget`: shared by the writers of a process.
    `write_end`: writes the end in place of `change_ledger`, together with what depends on it. Raises
    LedgerNotOpenError."""

    def __init__(
        self,
        root: str,
        versioned: VersionedMetadata,
        placement: Placement,
        *,
        settings: WriterSettings | None = None,
        budget: SharedBudget | None = None,
        write_end: WriteEnd | None = None,
    ) -> None:
        metadata = versioned.metadata
        if not metadata.is_open:
            raise LedgerNotOpenError(versioned.ledger, metadata.state)
        self.versioned = versioned
        self._root = root
        self._settings = settings or WriterSettings()
        self._digest = Digest(metadata.digest_type, metadata.password)
        self._placement = placement
        self._out: list[Any] = []
        self._now = 0
        self._pipeline = Pipeline(versioned.ledger, metadata, self._digest, self._out)
        self._admission = Admission(self._settings, budget or SharedBudget(), self._out)
        self._changes = EnsembleChanges(metadata, placement, self._settings)
        self._ending = Ending(self._pipeline, self._admission, self._settings, self._out)
        self._write_end = write_end or self._change_to_end
        self._driver = Driver()
        self._retries: list[tuple[int, int, BookieId]] = []
        """A heap: when an entry is sent to a bookie once more."""
        self._lac_due_at: int | None = None
        self._handlers: dict[type, Callable[[list[Any]], None]] = {
            Answered: self._on_answers,
            Append: self._on_appends,
            Cancel: self._on_cancels,
            Close: self._on_closes,
            Abandon: self._on_abandons,
            Resolve: self._on_resolves,
            BookieLost: self._on_lost,
            BookiesKnown: self._on_bookies,
            Connected: self._on_connected,
            Suspended: lambda _run: self._driver.on_suspended(),
            Expired: self._on_expired,
            WatchFired: lambda _run: self._look_for_end(),
            Results: self._on_results,
        }

    @property
    def ledger(self) -> int:
        return self.versioned.ledger

    @property
    def state(self) -> WriterState:
        return self._ending.state

    @property
    def last_confirmed(self) -> int:
        return self._pipeline.lac

    @property
    def last_pushed(self) -> int:
        return self._pipeline.lap

    @property
    def length(self) -> int:
        """The payload bytes of all entries that have an id."""
        return self._pipeline.length

    @property
    def unknown(self) -> range:
        """The entries whose outcome nobody knows."""
        return self._ending.unknown

    @property
    def waits_for_budget(self) -> bool:
        """Whether an append waits for what other writers have pending; a host steps it when they have less."""
        return self._admission.is_out_of_budget

    def waits_for_room(self, token: Hashable) -> bool:
        """Whether this append has no id yet, so that a Cancel ends it without an answer."""
        return self._admission.has(token)

    # ------------------------------------------------------------------------------------------------------- one turn

    def step(self, now_ms: int, inputs: Iterable[WriterInput]) -> list[WriterEffect]:
        """Take inputs, in order, and what is due. Returns what is to be done, in order."""
        self._now = now_ms
        for kind, run in groupby(inputs, type):
            self._handlers[kind](list(run))
        self._go_on()
        effects = self._out.copy()
        self._out.clear()
        return effects

    def append_now(self, now_ms: int, append: Append) -> bool:
        """Give this append an id before the next step, which sends it. False: there is no room now, and nothing is
        done; an input of `step` waits for room, or is refused."""
        pipeline = self._pipeline
        if self._ending.state is not WriterState.OPEN or not self._admission.has_room(len(append.payload), pipeline):
            return False
        pipeline.append((append,), now_ms)
        return True

    def _go_on(self) -> None:
        self._check_times()
        self._release()
        self._change_if_due()
        self._drive()
        if self.state is WriterState.OPEN:
            waited = self._admission.again(self._pipeline)
            if waited:
                self._pipeline.append(waited, self._now)
        if self._ending.may_write(self._now) and not self._ending.is_writing and self._changes.under_way is None:
            self._ending.is_writing = True
            self._driver.offer(Event("close", self._close))
        self._drive()
        self._tell_lac()
        self._admission.settle(self._pipeline.pending_bytes)

    def _release(self) -> None:
        if self._is_live and self._changes.under_way is None and not self._ending.is_writing:
            self._pipeline.release()

    @property
    def _is_live(self) -> bool:
        return self.state in (WriterState.OPEN, WriterState.CLOSING)

    # --------------------------------------------------------------------------------------------------------- callers

    def _on_appends(self, run: list[Append]) -> None:
        if self.state is WriterState.OPEN:
            taken = self._admission.take(run, self._pipeline)
            self._pipeline.append(taken, self._now)
            return
        reason = self._ending.reason
        assert reason is not None
        self._out.extend(Completed(each.token, NotAppended(reason)) for each in run)

    def _on_cancels(self, run: list[Cancel]) -> None:
        for each in run:
            self._admission.cancel(each.token)

    def _on_closes(self, run: list[Close]) -> None:
        self._release()
        for each in run:
            self._ending.close(each.token, each.is_draining, self._now)

    def _on_abandons(self, _run: list[Abandon]) -> None:
        if self._is_live:
            self._fenced()

    def _on_resolves(self, run: list[Resolve]) -> None:
        for each in run:
            self._ending.resolve(each.token, self._now)
        self._look_for_end()

    # --------------------------------------------------------------------------------------------------------- bookies

    def _on_answers(self, run: list[Answered]) -> None:
        """Acknowledgements, then what else bookies said."""
        if not self._is_live:
            return
        others = self._pipeline.take(run, self._now)
        self._release()
        for each in others:
            if self._is_live and type(each.answer) is Added and each.answer.ledger == self.ledger:
                self._pipeline.answered(each.bookie, self._now)
                self._on_refusal(each.bookie, each.answer)

    def _on_refusal(self, bookie: BookieId, answer: Added) -> None:
        """An answer to an add that is not OK."""
        status, entry = answer.status, answer.entry
        if status is Status.FENCED:
            self._fenced()
        elif status is Status.UNAUTHORIZED:
            self._fail(Reason.UNAUTHORIZED, bookie)
        elif self._is_tried_again(bookie, status, entry):
            return
        else:
            op = self._pipeline.op(entry)
            if op is None or op.slots.fail(bookie) or bookie not in op.slots.bookies:
                self._failed(bookie, status)

    def _is_tried_again(self, bookie: BookieId, status: Status, entry: int) -> bool:
        """Whether this entry is sent to this bookie once more, or the answer concerns nobody."""
        op, of = self._pipeline.op(entry), self._settings
        if op is None:
            return status is Status.TOO_MANY_REQUESTS or (status is Status.UNREACHABLE and bool(of.reconnect_ms))
        if not op.slots.waits_for(bookie):
            return False
        tries = op.tries = op.tries or {}
        tried = tries[bookie] = tries.get(bookie, 0) + 1
        if status is Status.TOO_MANY_REQUESTS and tried < of.busy_tries_max:
            self._pipeline.peers[bookie].narrow()
            pause = of.busy_pause_ms << min(tried - 1, 2)
        elif status is Status.UNREACHABLE and tried == 1 and of.reconnect_ms:
            pause = of.reconnect_ms
        else:
            return False
        heappush(self._retries, (self._now + pause, entry, bookie))
        return True

    def _failed(self, bookie: BookieId, status: Status) -> None:
        """This bookie is to be replaced, if it is a member."""
        if self._changes.note(self._pipeline.ensemble, bookie, self._now):
            self._pipeline.peers[bookie].fail()
            self._out.append(BookieFailed(bookie, status.value))
            if status not in _NO_FAULTS:
                self._placement.note_error(bookie, self._now)

    def _on_lost(self, run: list[BookieLost]) -> None:
        for each in run:
            if self._is_live:
                self._failed(each.bookie, Status.UNREACHABLE)

    def _on_bookies(self, run: list[BookiesKnown]) -> None:
        self._placement.know(run[-1].available)

    # ---------------------------------------------------------------------------------------------------------- times

    def _check_times(self) -> None:
        now, of = self._now, self._settings
        if self._ending.check_time(now):
            self._driver.clear()
        if not self._is_live:
            return
        while self._retries and self._retries[0][0] <= now:
            _, entry, bookie = heappop(self._retries)
            self._pipeline.resend(bookie, entry, now)
        for bookie in self._pipeline.overdue(of.add_timeout_ms, now):
            self._failed(bookie, Status.TIMED_OUT)
        oldest = self._pipeline.oldest_ms()
        if of.quorum_timeout_ms and oldest is not None and oldest + of.quorum_timeout_ms <= now:
            self._release()
            oldest = self._pipeline.oldest_ms()
            if oldest is not None and oldest + of.quorum_timeout_ms <= now:
                self._ending.seal(Reason.QUORUM_TIMEOUT, now)

    def _tell_lac(self) -> None:
        """An explicit LAC, when no entry has told it for a while."""
        pause, pipeline = self._settings.explicit_lac_ms, self._pipeline
        if not pause or not self._is_live or pipeline.lac <= pipeline.lac_told:
            self._lac_due_at = None
        elif self._lac_due_at is None:
            self._lac_due_at = self._now + pause
        elif self._lac_due_at <= self._now:
            self._lac_due_at = None
            pipeline.lac_told = lac = pipeline.lac
            request = WriteLac(self.ledger, lac, self._digest.master_key, self._digest.pack_lac(self.ledger, lac))
            failing = self._changes.failing
            self._out.extend(Send(bookie, request) for bookie in pipeline.ensemble if bookie not in failing)

    @property
    def deadline_ms(self) -> int | None:
        """When to step again at the latest."""
        times = [self._driver.deadline_ms, self._ending.deadline_ms(self._now)]
        if self._is_live:
            of = self._settings
            oldest = self._pipeline.oldest_ms()
            times += [self._lac_due_at, self._pipeline.overdue_at(of.add_timeout_ms)]
            if oldest is not None and of.quorum_timeout_ms and not self._ending.is_sealing(self._now):
                times.append(oldest + of.quorum_timeout_ms)
            if self._retries:
                times.append(self._retries[0][0])
            if not self._ending.is_writing and not self._ending.is_sealing(self._now):
                times.append(self._changes.due_at(self._now))
            if self._admission.is_out_of_budget:
                times.append(self._now + BUDGET_WAIT_MS)
        return min((each for each in times if each is not None), default=None)

    # ------------------------------------------------------------------------------------------------ ensemble changes

    def _change_if_due(self) -> None:
        due = self._changes.due_at(self._now)
        if due is None or due > self._now or not self._is_live:
            return
        if self._ending.is_writing or self._ending.is_sealing(self._now):
            return
        match self._changes.begin(self.versioned, self._pipeline.lac, self._now):
            case Kept():
                self._pipeline.send_again(self._changes.failing, self._now)
            case Reason() as reason:
                self._ending.seal(reason, self._now)
            case EnsembleChange():
                self._driver.offer(Event("change", self._change))

    def _change(self) -> Steps[None]:
        """Write the change under way, until it is there or cannot be any more."""
        change = self._changes.under_way
        assert change is not None
        while True:
            written = yield from change_ledger(self._root, change.base, change.wanted, BY_WRITER)
            if isinstance(written, Changed):
                return self._changed(change, written.versioned)
            current = yield from self._current(written)
            if current is not None and change.is_in(current.metadata):
                return self._changed(change, current)
            verdict = judge(change.base.metadata, None if current is None else current.metadata)
            if verdict is not Verdict.AGAIN:
                return self._judged(verdict, current, is_closing=False)
            assert current is not None
            change = change.rebased(current)

    def _current(self, written: Refused | Lost) -> Steps[VersionedMetadata | None]:
        """What is there in place of what was to be written."""
        if isinstance(written, Refused):
            return written.current
        return (yield from read_ledger(self._root, self.ledger))

    def _changed(self, change: EnsembleChange, versioned: VersionedMetadata) -> None:
        """The metadata have the change: from now on it counts. What failed meanwhile comes before any release."""
        before = self.versioned.metadata.last_fragment
        self.versioned = versioned
        self._changes.applied(self._now)
        is_short = self._pipeline.use(change.ensemble, self._changes.failing, self._now)
        if is_short and change.is_appended:
            self._out.append(FragmentShort(self.ledger, before.first, change.first - 1, change.replaced))
        self._change_if_due()
        self._release()

    # ---------------------------------------------------------------------------------------------------------- ending

    def _close(self) -> Steps[None]:
        """Write the end, until it is there or cannot be any more."""
        base, pipeline = self.versioned, self._pipeline
        while True:
            wanted = base.metadata.closed_at(pipeline.lac, pipeline.confirmed_length)
            written = yield from self._write_end(base, wanted)
            if isinstance(written, Changed):
                self.versioned = written.versioned
                return self._ending.closed(wanted)
            current = yield from self._current(written)
            verdict = judge(base.metadata, None if current is None else current.metadata)
            if verdict is not Verdict.AGAIN:
                return self._judged(verdict, current, is_closing=True)
            assert current is not None
            base = current

    def _change_to_end(self, base: VersionedMetadata, wanted: LedgerMetadata) -> Steps[ChangeOutcome]:
        return (yield from change_ledger(self._root, base, wanted, BY_WRITER))

    def _judged(self, verdict: Verdict, current: VersionedMetadata | None, *, is_closing: bool) -> None:
        """Somebody else has changed what this writer wanted to change."""
        if current is not None:
            self.versioned = current
        if verdict is Verdict.CLOSED:
            assert current is not None
            self._ending.closed_by_other(current.metadata)
        elif verdict is Verdict.RECOVERING:
            self._ending.recovering(self._now, is_closing=is_closing)
            self._look_for_end()
        else:
            self._ending.fail(_REASONS[verdict])

    def _fenced(self) -> None:
        """A bookie refuses adds: the ledger is being recovered, or has been."""
        self._driver.clear()
        self._ending.recovering(self._now, is_closing=False)
        self._look_for_end()

    def _fail(self, reason: Reason, detail: str) -> None:
        self._driver.clear()
        self._ending.fail(reason, detail)

    def _look_for_end(self) -> None:
        if self._ending.waits_for_end:
            self._driver.offer(Event("look for the end", self._look))

    def _look(self) -> Steps[None]:
        found = yield from read_ledger(self._root, self.ledger, watch=True)
        if self._ending.waits_for_end:
            self._ending.found(None if found is None else found.metadata)

    # ----------------------------------------------------------------------------------------------------- coordination

    def _drive(self) -> None:
        try:
            self._out.extend(self._driver.advance(self._now))
        except (CoordinationError, ForbiddenChangeError, InvalidMetadataError) as error:
            self._fail(Reason.COORDINATION, str(error))

    def _on_connected(self, _run: list[Connected]) -> None:
        """What a session that ended left undone begins again. If it was written all the same, the version says so, and
        the content whose it is."""
        self._driver.on_connected()
        if not self._driver.is_idle:
            return
        if self._is_live and self._changes.under_way is not None:
            self._driver.offer(Event("change", self._change))
        elif self._is_live and self._ending.is_writing:
            self._driver.offer(Event("close", self._close))
        self._look_for_end()

    def _on_results(self, run: list[Results]) -> None:
        for each in run:
            self._driver.on_results(each)

    def _on_expired(self, _run: list[Expired]) -> None:
        self._driver.clear()
        self._driver.on_suspended()
