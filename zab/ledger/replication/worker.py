"""The worker: takes one record after the other, and repairs its ledger.

    pick     a record that nobody has locked; its lock is this worker's session's, and goes with it
    look     the newest metadata, the bookies that are registered, then a check of the ledger (`check`)
    repair   each member that is lost or damaged: its entries are copied (`copying`), then the metadata name the bookie
             that has them. Entries first: a reader never sees a member that lacks them
    wait     a last fragment that may get entries yet is left to its writer for `open_grace_ms`, with the lock kept;
             other ledgers are repaired meanwhile
    recover  if that did not help: the ledger is closed (`zab.ledger.recovery`), which fences its writer
    look     again. Nothing is wrong: the record goes, if nobody marked it again; then the lock

A ledger that cannot be repaired keeps its record, is left alone for a while, and then taken if there is no other. One
with an entry that no registered bookie has is left alone until one of its bookies comes back.

Not here: who decides that a ledger has to be repaired (`auditor`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from typing import Final, TypeAlias

from zab.coordination.driver import Connected, Driver, Event, Expired, Results, Suspended
from zab.coordination.operations import CoordinationError
from zab.coordination.steps import Steps
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.changes import BY_REPLICATION, ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.repair_locks import unlock
from zab.ledger.placement.placement import NotEnoughBookiesError, Placement
from zab.ledger.recovery.events import NoSuchLedger, Recovered, RecoverySettings
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.replication.check import LedgerCheck
from zab.ledger.replication.copying import Copied, Copying, SourceFailed, TargetFailed
from zab.ledger.replication.events import Effect, Noted, WorkerSettings
from zab.ledger.replication.failures import Failures
from zab.ledger.replication.members import complete_members, is_last_fragment_short
from zab.ledger.replication.parts import Parts
from zab.ledger.replication.rate import Rate
from zab.ledger.replication.records import prepare, remove, take
from zab.ledger.replication.registered import registered_names
from zab.ledger.replication.repair import Repair, Task, is_lost_for_good, replicas_of, tasks_of
from zab.ledger.replication.switches import is_disabled
from zab.ledger.store.events import Answered, BookiesKnown, ClientInput, Completed
from zab.ledger.store.ledgers import Changed, Refused, change_ledger, read_ledger

ROUNDS_MAX: Final = 5
"""How often a ledger is looked at and repaired before it is left alone for a while."""
TURNS_MAX: Final = 50
"""How often one step goes round; then it wants to be called again at once."""

_Activity: TypeAlias = LedgerCheck | Copying | Recovery


class Worker:
    """`step` with what happens. `name`: of the bookie in whose name ledgers are locked."""

    def __init__(
        self,
        root: str,
        name: BookieId,
        placement: Placement,
        rng: Random,
        settings: WorkerSettings | None = None,
        recovery: RecoverySettings | None = None,
    ) -> None:
        self._root = root
        self._name = name
        self._placement = placement
        self._rng = rng
        self._settings = settings or WorkerSettings()
        self._recovery = recovery or RecoverySettings()
        self._driver = Driver()
        self._parts = Parts()
        self._rate = Rate(self._settings.bytes_per_s)
        self._failures = Failures(self._settings)
        self._now_ms = 0
        self._effects: list[Effect] = []
        self._connected: Connected | None = None
        self._known: BookiesKnown | None = None
        self._is_prepared = False
        self._look_at_ms = 0
        """When it looks for a record again."""
        self._repair: Repair | None = None
        self._held: dict[int, Repair] = {}
        """Repairs that wait for the writers of their ledgers."""
        self._activity: _Activity | None = None
        self._inbox: list[ClientInput] = []
        self._is_new = False
        self._target: BookieId | None = None
        self._to_unlock: set[int] = set()
        self.counts: Counter[str] = Counter()
        """What was done: ledgers repaired, entries and bytes copied, failures, losses, recoveries."""

    @property
    def held(self) -> int:
        """How many ledgers wait for their writers."""
        return len(self._held)

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has to be called at the latest; None: only with inputs."""
        if self._connected is None:
            return None
        times: list[int | None] = [self._driver.deadline_ms]
        if self._activity is not None:
            times += [self._now_ms] if self._is_new else [self._activity.deadline_ms]
        elif self._repair is None and self._driver.is_idle:
            times.append(self._next_look_ms)
        return min((each for each in times if each is not None), default=None)

    @property
    def _next_look_ms(self) -> int:
        waiting = (each.grace_until_ms for each in self._held.values() if each.grace_until_ms is not None)
        return min(self._look_at_ms, min(waiting, default=self._look_at_ms))

    def step(self, now_ms: int, inputs: Iterable[ClientInput]) -> list[Effect]:
        """Take what happened, and say what is to be done."""
        self._now_ms = now_ms
        for each in inputs:
            self._take(each)
        for _ in range(TURNS_MAX):
            is_idle = self._repair is None and self._driver.is_idle and self._connected is not None
            if is_idle and now_ms >= self._next_look_ms:
                self._offer("pick", self._pick)
            before = len(self._effects)
            self._effects += [self._parts.sent(self._driver, each) for each in self._driver.advance(now_ms)]
            has_worked = self._work()
            if not has_worked and len(self._effects) == before:
                break
        effects, self._effects = self._effects, []
        return effects

    # --------------------------------------------------------------------------------------------------------- inputs

    def _take(self, each: ClientInput) -> None:
        match each:
            case Answered() | Results():
                self._take_answer(each)
                return
            case BookiesKnown():
                self._known = each
                self._placement.know(each.available)
                names = {bookie.id for bookie in each.available} | each.read_only
                self._failures.on_bookies(names)
            case Connected():
                self._connected = each
                self._driver.on_connected()
            case Suspended():
                self._driver.on_suspended()
            case Expired():
                self._on_expired()
                return
        if self._activity is not None:
            self._inbox.append(each)

    def _take_answer(self, each: Answered | Results) -> None:
        found = self._parts.owner_of(each)
        if found is None:
            return
        owner, each = found
        if owner is self._driver:
            assert isinstance(each, Results)
            self._driver.on_results(each)
        elif owner is self._activity:
            self._inbox.append(each)

    def _on_expired(self) -> None:
        """The locks are gone: somebody else may be at these ledgers by now."""
        self._connected = None
        self._driver.on_suspended()
        self._driver.clear()
        self._parts.expire()
        self._repair = self._activity = None
        self._inbox.clear()
        self._held.clear()
        self._to_unlock.clear()
        self._look_at_ms = self._now_ms

    def _offer(self, name: str, handler: Callable[[], Steps[None]]) -> None:
        def guarded() -> Steps[None]:
            try:
                yield from handler()
            except (CoordinationError, ForbiddenChangeError, InvalidMetadataError) as error:
                self._refused(str(error))

        self._driver.offer(Event(name, guarded))

    def _refused(self, reason: str) -> None:
        self._look_at_ms = self._now_ms + self._settings.poll_ms
        if self._repair is None:
            self._note(f"no ledger is repaired for now: {reason}", is_problem=True)
        else:
            self._fail(self._repair, reason)

    def _note(self, text: str, *, is_problem: bool = False) -> None:
        self._effects.append(Noted(text, is_problem))

    # --------------------------------------------------------------------------------------------------- pick and look

    def _pick(self) -> Steps[None]:
        self._look_at_ms = self._now_ms + self._settings.poll_ms
        assert self._connected is not None
        session = self._connected.session_id
        if not self._is_prepared:
            yield from prepare(self._root)
            self._is_prepared = True
        for ledger in list(self._to_unlock):
            yield from unlock(self._root, ledger, session)
            self._to_unlock.discard(ledger)
        if (yield from is_disabled(self._root)):
            for each in self._held.values():
                each.grace_until_ms = max(each.grace_until_ms or 0, self._look_at_ms)
            return
        repair = self._due()
        if repair is None and len(self._held) < self._settings.held_max:
            skipped = self._failures.skipped(self._now_ms, self._held)
            put_off = self._failures.put_off
            record = yield from take(self._root, self._name, session, self._rng, skipped, put_off)
            repair = None if record is None else Repair(record)
        if repair is not None:
            self._look_at_ms = self._now_ms
            self._repair = repair
            yield from self._look(repair)

    def _due(self) -> Repair | None:
        for ledger, repair in self._held.items():
            if repair.grace_until_ms is not None and repair.grace_until_ms <= self._now_ms:
                del self._held[ledger]
                repair.rounds = 0
                return repair
        return None

    def _look(self, repair: Repair) -> Steps[None]:
        """See what is wrong with the ledger now."""
        repair.rounds += 1
        found = yield from read_ledger(self._root, repair.ledger)
        if found is None:
            yield from self._finish(repair, "is gone")
            return
        repair.versioned = found
        repair.registered = yield from registered_names(self._root)
        members = [each for each in complete_members(found.metadata) if each.bookie in repair.registered]
        listed = repair.named & repair.registered
        self._begin(LedgerCheck(found, members, self._settings.check, self._rng, listed=listed))

    def _begin(self, activity: _Activity) -> None:
        self._activity, self._is_new = activity, True
        self._inbox = [each for each in (self._connected, self._known) if each is not None]

    def _work(self) -> bool:
        """Let the activity go on. Whether it had anything to do."""
        activity, inbox = self._activity, self._inbox
        if activity is None:
            return False
        deadline_ms = activity.deadline_ms
        is_due = deadline_ms is not None and deadline_ms <= self._now_ms
        if not (inbox or self._is_new or is_due):
            return False
        was_new, self._inbox, self._is_new = self._is_new, [], False
        outcome: object = None
        if isinstance(activity, LedgerCheck):
            answers = [each for each in inbox if isinstance(each, Answered)]
            sends = activity.step(self._now_ms, answers)
            self._effects += [self._parts.sent(activity, each) for each in sends]
        else:
            for effect in activity.step(self._now_ms, inbox):
                if isinstance(effect, Completed):
                    outcome = effect.outcome
                else:
                    self._effects.append(self._parts.sent(activity, effect))
        self._look_at_activity(activity, outcome)
        return was_new or bool(inbox) or self._activity is not activity

    def _look_at_activity(self, activity: _Activity, outcome: object) -> None:
        repair = self._repair
        assert repair is not None
        match activity:
            case LedgerCheck() if activity.is_over:
                self._activity = None
                self._on_checked(repair, activity)
            case Copying() if activity.outcome is not None:
                self._activity = None
                self._on_copied(repair, activity)
            case Recovery() if activity.is_over:
                self._activity = None
                self._on_recovered(repair, outcome)

    # ---------------------------------------------------------------------------------------------------------- repair

    def _on_checked(self, repair: Repair, check: LedgerCheck) -> None:
        assert repair.versioned is not None
        metadata = repair.versioned.metadata
        repair.tasks = tasks_of(metadata, repair.registered, check.missing)[::-1]
        repair.failure = repair.lost = None
        if repair.tasks:
            if repair.rounds > ROUNDS_MAX:
                self._fail(repair, f"it lacks copies after {ROUNDS_MAX} attempts")
            else:
                self._next_task(repair)
        elif is_last_fragment_short(metadata, repair.registered):
            self._wait_or_recover(repair)
        elif check.unknown:
            silent = sorted({member.bookie for member in check.unknown})
            self._fail(repair, f"{', '.join(silent)} cannot be asked")
        else:
            self._offer("finish", partial(self._finish, repair, "is repaired"))

    def _next_task(self, repair: Repair) -> None:
        versioned = repair.versioned
        assert versioned is not None
        while repair.tasks:
            task = repair.tasks[-1]
            try:
                self._target = self._replacement(repair, task) if task.is_lost else task.member.bookie
                break
            except NotEnoughBookiesError as error:
                repair.failure = str(error)
                repair.tasks.pop()
        else:
            self._end_round(repair)
            return
        runs = task.runs_of(versioned.metadata)
        self._begin(Copying(self._root, versioned, self._target, runs, self._rate, self._settings))

    def _end_round(self, repair: Repair) -> None:
        """All tasks were tried."""
        if repair.lost is not None:
            self._lose(repair, *repair.lost)
        elif repair.failure is not None:
            self._fail(repair, repair.failure)
        else:
            self._offer("look", partial(self._look, repair))

    def _replacement(self, repair: Repair, task: Task) -> BookieId:
        assert repair.versioned is not None
        metadata, member = repair.versioned.metadata, task.member
        ensemble = metadata.fragment_of(member.first).ensemble
        return self._placement.replace(
            member.index, ensemble, metadata.write_quorum, self._now_ms, repair.failed_targets
        )

    def _on_copied(self, repair: Repair, copying: Copying) -> None:
        assert repair.versioned is not None
        task = repair.tasks[-1]
        match copying.outcome:
            case Copied(entries, size):
                self.counts["entries copied"] += entries
                self.counts["bytes copied"] += size
                if task.is_lost:
                    assert self._target is not None
                    self._offer("commit", partial(self._commit, repair, task, self._target))
                else:
                    repair.tasks.pop()
                    self._next_task(repair)
            case SourceFailed(entry, outcome):
                metadata, registered = repair.versioned.metadata, repair.registered
                if is_lost_for_good(metadata, outcome, registered):
                    repair.lost = entry, frozenset(replicas_of(metadata, entry)) - registered
                else:
                    repair.failure = f"entry {entry} cannot be read now: {type(outcome).__name__}"
                repair.tasks.pop()
                self._next_task(repair)
            case TargetFailed(bookie, status):
                repair.failed_targets.add(bookie)
                if not task.is_lost or len(repair.failed_targets) >= self._settings.targets_max:
                    repair.failure = f"{bookie} does not take its entries: {status.value}"
                    repair.tasks.pop()
                self._next_task(repair)

    def _commit(self, repair: Repair, task: Task, target: BookieId) -> Steps[None]:
        """The target has all entries: it is a member from now on, unless somebody else has repaired the fragment."""
        member, versioned = task.member, repair.versioned
        assert versioned is not None
        for _ in range(ROUNDS_MAX):
            metadata = versioned.metadata
            fragment = metadata.fragment_of(member.first)
            is_there = fragment.first == member.first and fragment.ensemble[member.index] == member.bookie
            if not is_there or target in fragment.ensemble:
                break
            wanted = metadata.with_member(member.first, member.index, target)
            changed = yield from change_ledger(self._root, versioned, wanted, BY_REPLICATION)
            if isinstance(changed, Changed):
                self.counts["members replaced"] += 1
                self._note(f"ledger {repair.ledger}: {target} has the entries from {member.first} of {member.bookie}")
                repair.versioned = changed.versioned
                repair.tasks.pop()
                self._next_task(repair)
                return
            if isinstance(changed, Refused):
                current = changed.current
            else:
                current = yield from read_ledger(self._root, repair.ledger)
            if current is None:
                break
            versioned = current
        yield from self._look(repair)

    # ------------------------------------------------------------------------------------------- the open last fragment

    def _wait_or_recover(self, repair: Repair) -> None:
        if repair.grace_until_ms is None:
            repair.grace_until_ms = self._now_ms + self._settings.open_grace_ms
        if self._now_ms < repair.grace_until_ms:
            self._held[repair.ledger] = repair
            self._repair = None
            return
        self._note(f"ledger {repair.ledger} names a lost bookie and its writer does not replace it: it is recovered")
        self._begin(Recovery(self._root, repair.ledger, self._placement, settings=self._recovery))

    def _on_recovered(self, repair: Repair, outcome: object) -> None:
        self.counts[f"recoveries: {type(outcome).__name__}"] += 1
        if isinstance(outcome, Recovered | NoSuchLedger):
            self._offer("look", partial(self._look, repair))
        else:
            self._fail(repair, f"it cannot be recovered: {outcome}")

    # ------------------------------------------------------------------------------------------------------------- end

    def _finish(self, repair: Repair, why: str) -> Steps[None]:
        is_gone = yield from remove(self._root, repair.ledger, repair.record.version)
        self.counts["ledgers repaired" if is_gone else "ledgers marked again"] += 1
        self._note(f"ledger {repair.ledger} {why}" + ("" if is_gone else ", and was marked again"))
        self._failures.forget(repair.ledger)
        yield from self._leave(repair)

    def _fail(self, repair: Repair, reason: str) -> None:
        """Leave it alone for a while."""
        again_ms = self._failures.failed(repair.ledger, self._now_ms)
        self.counts["failures"] += 1
        self._note(f"ledger {repair.ledger}: {reason} -> again in {again_ms} ms", is_problem=True)
        self._offer("leave", partial(self._leave, repair))

    def _lose(self, repair: Repair, entry: int, awaited: frozenset[BookieId]) -> None:
        self._failures.lost(repair.ledger, awaited)
        self.counts["losses"] += 1
        reason = f"no bookie has entry {entry}" + (f" without {', '.join(sorted(awaited))}" if awaited else "")
        self._note(f"ledger {repair.ledger} cannot be repaired: {reason}", is_problem=True)
        self._offer("leave", partial(self._leave, repair))

    def _leave(self, repair: Repair) -> Steps[None]:
        self._to_unlock.add(repair.ledger)
        self._repair = self._activity = None
        assert self._connected is not None
        yield from unlock(self._root, repair.ledger, self._connected.session_id)
        self._to_unlock.discard(repair.ledger)
