"""The owner of a managed ledger: a pure core.

    owner = LogOwner(logs, "orders", root, placement, …)   it takes the log over from any other owner
    effects = owner.step(now_ms, inputs)                   see `events`
    owner.deadline_ms                                      step again then, even without inputs

    T1, T2  claim     the next epoch, by compare-and-set: every list that an earlier owner writes is refused from now on
    T3      recover   the ledger without an end, if there is one: its writer is fenced
    T4      create    one multi: the recovered ledger is as it was; its end is in the list, or it leaves list and store
                      if it is empty; a new ledger, in the list
    T5      cursors, and a hint where the owner is; then appends

    Q1      roll      appends wait; the writer drains
    Q2                one multi: the ledger is closed, its end is in the list, a new ledger, in the list
    Q3                appends go on in the new one, in their order

Two rules keep each append from being in the log twice. A claim makes every roll of an earlier owner fail. And what was
appended to a ledger is appended to the next one only if it is certain that it is not in the first: this owner closed
the ledger itself, or the ledger was closed by another one (a repair, say), the list is still this owner's, and the
ledger ends before the entry. The list, read after a sync, and the compare-and-set of the next multi decide that.

Ledgers are written, recovered and read by the cores of `zab.ledger.writer`, `recovery` and `reader`, which work inside
of this one. Not here: who should be the owner. An election is a hint; nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import groupby
from random import Random
from typing import Any, Final

from attrs import evolve

from zab.coordination.driver import WatchFired
from zab.coordination.operations import Create, Delete
from zab.coordination.steps import Pause, Steps
from zab.ledger.managed.appends import Appends
from zab.ledger.managed.cursors import Cursors
from zab.ledger.managed.deleting import delete_log
from zab.ledger.managed.events import (
    Done,
    Failed,
    LedgerRolled,
    LogAppend,
    LogCancel,
    LogClose,
    LogDelete,
    LogEffect,
    LogEnded,
    LogInput,
    LogNotAppended,
    LogOpened,
    LogReason,
    LogRoll,
    LogTerminate,
    LogTrim,
    OwnerState,
    Terminated,
)
from zab.ledger.managed.log_info import LEDGERS_MANY, LEDGERS_MAX, LogConfig, LogInfo, LogState, Position, owner_path
from zab.ledger.managed.offloading import Offloading
from zab.ledger.managed.parts import Handlers, Part, Parts, Writing
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.store import Contended, NoLog, Taken, read_log
from zab.ledger.managed.succession import (
    Damaged,
    Goal,
    ListFull,
    NotClosed,
    NotMine,
    NotYet,
    Opened,
    Reached,
    Succession,
)
from zab.ledger.managed.trimming import Trims
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.placement.placement import Placement
from zab.ledger.recovery.events import Recovered, RecoveryAborted
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.events import Answered, Completed
from zab.ledger.store.ledgers import ChangeOutcome
from zab.ledger.writer.admission import SharedBudget
from zab.ledger.writer.events import Abandon, Cancel, Close, WriterEnded, WriterState
from zab.ledger.writer.writer import LedgerWriter

_OVER: Final = (OwnerState.CLOSED, OwnerState.DELETED, OwnerState.FENCED, OwnerState.FAILED)
_GOALS: Final = {LogClose: Goal.CLOSE, LogTerminate: Goal.TERMINATE, LogDelete: Goal.DELETE}
_REASONS: Final = {Goal.CLOSE: LogReason.CLOSED, Goal.TERMINATE: LogReason.TERMINATED, Goal.DELETE: LogReason.DELETED}


class LogOwner:
    """`owner`: random, and new for each object. `config`: how the log is made if there is none; None: then there is no
    such log. `deletes`: it may be one that is half deleted already, to be deleted whole. `address`: for the hint.
    `wall_offset_ms`: what the wall clock says beyond `now_ms`; it decides retention alone, and may be set again.
    `has_one_session`: no other session follows one that expires, so that is the end of this object."""

    def __init__(
        self,
        logs: str,
        name: str,
        root: str,
        placement: Placement,
        *,
        owner: str,
        rng: Random,
        config: LogConfig | None = None,
        settings: LogSettings | None = None,
        password: bytes = b"",
        address: bytes = b"",
        budget: SharedBudget | None = None,
        wall_offset_ms: int = 0,
        deletes: bool = False,
        has_one_session: bool = False,
    ) -> None:
        self.name = name
        self.state = OwnerState.CLAIMING
        self.trouble = ""
        """Why it does not get any further at the moment, for people."""
        self.wall_offset_ms = wall_offset_ms
        self.logs, self.root, self.placement = logs, root, placement
        self.settings = settings or LogSettings()
        self.password = password
        self.now_ms = 0
        self.reason = LogReason.CLOSED
        """Why it takes no appends, once it does not."""
        self._detail = ""
        self._rng, self._address, self._budget, self._deletes = rng, address, budget, deletes
        self._has_one_session = has_one_session
        self.list = Succession(
            *(logs, name, root, placement),
            owner=owner,
            rng=rng,
            config=config,
            password=password,
            deletes=deletes,
            now_ms=lambda: self.now_ms,
            wall_ms=lambda: self.wall_ms,
        )
        self._out: list[Any] = []
        self._writing: Writing | None = None
        self._recovering: Part | None = None
        self._next: VersionedMetadata | None = None
        """The open ledger, until it has a writer."""
        self._goal: Goal | None = None
        self._goal_calls: list[Any] = []
        self._rolls: list[Hashable] = []
        self._to_end: LogEnded | None = None
        """How it ends, once its parts have had their turn."""
        self._confirmed = Position(-1, -1)
        """The last entry that the writer before this one has acknowledged; the list may not have its ledger's end."""
        self._is_told_open = False
        self._held_until: int | None = None
        self._appends = Appends(self.settings, self._out)
        self._parts = Parts(self._out)
        self._handlers = Handlers(lambda why: self._fail(LogReason.COORDINATION, why), self._on_expired)
        self._handlers_part = self._parts.add(self._handlers, None, lambda _token, _outcome: None)
        self.cursors = Cursors(self, self._parts, self._handlers, self._out)
        self.offloading = Offloading(self, self._handlers, rng, self._out)
        self._trims = Trims(self, self._handlers, self._out, self.cursors.stored_marks, self.offloading.removed)
        self._handlers.offer("claim", self._claim)

    # --------------------------------------------------------------------------------------------------- what it shows

    @property
    def info(self) -> LogInfo | None:
        """The list, as this owner knows it."""
        return None if self.list.log is None else self.list.info

    @property
    def epoch(self) -> int:
        """Which owner of the log it is; 0 before its claim."""
        return self.list.epoch

    @property
    def last_confirmed(self) -> Position | None:
        """The last entry that was acknowledged, by any owner; None: it is not known yet."""
        if self._writing is not None and self._writing.writer.last_confirmed >= 0:
            return Position(self._writing.writer.ledger, self._writing.writer.last_confirmed)
        return None if self.list.log is None else max(self.list.info.last, self._confirmed)

    @property
    def is_over(self) -> bool:
        """Whether it is at its end, and does nothing."""
        return self.state in _OVER or self._to_end is not None

    @property
    def failed(self) -> Failed:
        """What it answers to all that it is asked at its end."""
        return Failed(self.reason, self._detail)

    @property
    def wall_ms(self) -> int:
        return max(0, self.now_ms + self.wall_offset_ms)

    @property
    def deadline_ms(self) -> int | None:
        """When to step again at the latest."""
        if self.is_over:
            return None
        times = [self._parts.deadline_ms, self._held_until]
        is_open = self.state is OwnerState.OPEN
        times.append(self._trims.due_ms if is_open else self._appends.due_ms)
        if is_open or self.state is OwnerState.TERMINATED:
            times += (self.cursors.deadline_ms, self.offloading.deadline_ms)
        if is_open and self._writing is not None and self._writing.writer.last_pushed >= 0 and self._may_roll:
            times.append(max(self._writing.rolled_ms, self.now_ms + 1))
        return min((each for each in times if each is not None), default=None)

    # ------------------------------------------------------------------------------------------------------- one turn

    def step(self, now_ms: int, inputs: Iterable[LogInput]) -> list[LogEffect]:
        """Take inputs, in order, and what is due. Returns what is to be done, in order."""
        self.now_ms = now_ms
        for kind, run in groupby(inputs, type):
            if kind is LogAppend:
                self._on_appends([each for each in run if isinstance(each, LogAppend)])
            elif kind is Answered:
                for each in run:
                    self._parts.tell(each)
            else:
                for each in run:
                    self._take(each)
        worked = True
        while worked and self.state not in _OVER:
            worked = self._parts.step(now_ms)
            if self._to_end is not None:
                self._end_now(self._to_end)
            worked = self._check_times() or worked
        effects = self._out.copy()
        self._out.clear()
        return effects

    def _take(self, each: Any) -> None:
        match each:
            case LogCancel(token):
                self._cancel(token)
            case LogRoll(token):
                self._rolls.append(token)
                self._roll_if_asked()
            case LogTrim(token):
                self._trims.ask(token)
            case LogClose() | LogTerminate() | LogDelete():
                self._on_goal(each)
            case WatchFired(path) if self.list.log is not None and path == self.list.known.path:
                self.look_soon()
            case _ if self.cursors.takes(each) or self.offloading.takes(each):
                pass
            case _ if not self.is_over:
                self._parts.tell(each)

    def _check_times(self) -> bool:
        """What is due. Whether anything was done that may make other things due."""
        if self.is_over:
            return False
        now = self.now_ms
        self.offloading.check_times()
        if self._held_until is not None and self._held_until <= now:
            self._held_until = None
            self._appends.give_up(LogReason.UNDECIDED)
        if self.state is OwnerState.OPEN:
            self._trims.check_times()
            return self.cursors.check_times() or self._roll_if_due()
        self._appends.refuse_old(now, LogReason.NOT_WRITABLE)
        return self.state is OwnerState.TERMINATED and self.cursors.check_times()

    # --------------------------------------------------------------------------------------------------------- appends

    def _on_appends(self, run: list[LogAppend]) -> None:
        if self.state is OwnerState.OPEN and self._writing is not None:
            self._writing.part.inputs += self._appends.send(run, self.now_ms)
        elif self.state is OwnerState.ROLLING:
            self._appends.wait(run, self.now_ms)
        else:
            self._out.extend(Completed(each.token, LogNotAppended(self._why_not())) for each in run)

    def _why_not(self) -> LogReason:
        if self._goal in _REASONS and self.state is OwnerState.ENDING:
            return _REASONS[self._goal]
        return self.reason if self.is_over or self.state is OwnerState.TERMINATED else LogReason.NOT_OPEN

    def _cancel(self, token: Hashable) -> None:
        self._appends.cancel(token)
        if self._writing is not None:
            self._parts.turn(self._writing.part, self.now_ms)
        if self._writing is not None:
            if self._writing.writer.waits_for_room(token):
                self._appends.cancelled(token)
            self._writing.part.inputs.append(Cancel(token))

    # --------------------------------------------------------------------------------------------------------- cursors

    def cursors_failed(self, why: str) -> None:
        self._fail(LogReason.COORDINATION, why)

    def cursor_is_taken(self) -> None:
        """Another one has written a cursor's znode: it has the log, too."""
        self._fence()

    offload_is_taken = trim_is_taken = cursor_is_taken

    def cursors_are_loaded(self) -> None:
        """The last cursor's ledger was read."""
        if self._next is not None:
            self._handlers.offer("open", self._open)
        else:
            self._handlers.offer("go on", self._to_next)

    # --------------------------------------------------------------------------------------------------- T1, T2: claim

    def _claim(self) -> Steps[None]:
        claimed = yield from self.list.claim()
        if isinstance(claimed, NoLog):
            self._end(OwnerState.FAILED, LogReason.NO_SUCH_LOG)
        elif isinstance(claimed, Contended):
            self._end(OwnerState.FAILED, LogReason.CONTENDED)
        else:
            self.state = OwnerState.RECOVERING
            self._recover_open()

    # ----------------------------------------------------------------------------------------------------- T3: recover

    def _recover_open(self) -> None:
        """Close the ledger whose end the list does not have; its writer, if it lives, is fenced."""
        last = self.list.info.open_ledger
        if last is None or self.list.ended is not None:
            self._go_on()
            return
        if self._recovering is not None:
            return
        core = Recovery(self.root, last.id, self.placement, password=self.password, settings=self.settings.recovery)
        self._recovering = self._parts.add(core, last.id, lambda _token, outcome: self._recovered(last.id, outcome))

    def _recovered(self, ledger: int, outcome: object) -> None:
        assert self._recovering is not None
        self._parts.remove(self._recovering)
        self._recovering = None
        match outcome:
            case Recovered(versioned):
                self.trouble = ""
                self.list.ended = versioned
                self._held_until = None
                self._appends.decide(ledger, versioned.metadata.last)
                self._go_on()
            case RecoveryAborted(reason):
                self.trouble = f"ledger {ledger} cannot be recovered: {reason}"
                self._handlers.offer("recover again", self._recover_again)
            case _:
                self._fail(LogReason.DAMAGED, f"ledger {ledger}: {type(outcome).__name__}")

    def _recover_again(self) -> Steps[None]:
        yield Pause(self.settings.retry_ms)
        self._recover_open()

    # ----------------------------------------------------------------------------------------- T4, Q2: the next ledger

    def _go_on(self) -> None:
        if self.state is OwnerState.RECOVERING:
            self.state = OwnerState.CREATING
        self._handlers.offer("go on", self._to_next)

    def _to_next(self) -> Steps[None]:
        """The next ledger, or what is wanted instead."""
        if self.list.info.state is LogState.TERMINATED and not self._deletes and self._goal is not Goal.DELETE:
            yield from self.cursors.load()
            if self.cursors.is_loaded:
                self._terminated()
        elif self._goal is Goal.DELETE or self._deletes:
            yield from self._delete()
        else:
            yield from self._follow()

    def _follow(self) -> Steps[None]:
        followed = yield from self.list.follow(self._goal)
        while isinstance(followed, NotYet):
            self.trouble = self.list.trouble
            yield Pause(self.settings.retry_ms)
            followed = yield from self.list.follow(self._goal)
        match followed:
            case Opened(versioned):
                self._next = versioned
                self._handlers.offer("open", self._open)
            case Reached():
                self._reached()
            case NotMine():
                self._fence()
            case NotClosed():
                self._recover_open()
            case ListFull():
                self._end(OwnerState.FAILED, LogReason.LIST_FULL)
            case Damaged(detail):
                self._fail(LogReason.DAMAGED, detail)

    def _reached(self) -> None:
        """The list has the end of its last ledger, and none follows."""
        if self._goal is Goal.TERMINATE:
            self._terminated()
        else:
            self._handlers.offer("leave", self._leave)

    # --------------------------------------------------------------------------------------------------- T5, Q3: open

    def _open(self) -> Steps[None]:
        """The first time: cursors, and the hint. Then appends."""
        if not self._is_told_open:
            yield from self.cursors.load()
            if not self.cursors.is_loaded:
                return
            yield from self._hint()
        if self._next is not None and not self.is_over:
            self._begin_writing()

    def _hint(self) -> Steps[None]:
        """Where the owner is. That of an owner before goes with its session, or here."""
        path = owner_path(self.logs, self.name)
        yield (Delete(path),)
        yield (Create(path, self._address, ephemeral=True),)

    def _begin_writing(self) -> None:
        assert self._next is not None
        made, self._next = self._next, None
        self.list.written = made.ledger
        of = self.settings
        writer = LedgerWriter(
            self.root, made, self.placement, settings=of.writer, budget=self._budget, write_end=self._write_end
        )
        part = self._parts.add(writer, made.ledger, self._answered, is_writer=True, effect=self._on_effect)
        rolled_ms = self.now_ms + of.max_age_ms + self._rng.randrange(of.max_age_ms // 20 + 1)
        self._writing = Writing(writer, part, self.now_ms, rolled_ms)
        self.state = OwnerState.OPEN
        if self._is_told_open:
            self._out.append(LedgerRolled(made.ledger))
        else:
            self._is_told_open = True
            self._out.append(LogOpened(self.epoch, made.ledger))
            self.look_soon()
        self._answer_rolls(Done())
        part.inputs += self._appends.send_waiting()
        self._trims.soon()
        self.offloading.soon()
        self._reach_goal()

    def _answered(self, token: Hashable, outcome: object) -> None:
        """What the writer says of an append; how it ended comes as an effect."""
        if not isinstance(token, Goal) and self._writing is not None:
            self._appends.answered(self._writing.writer.ledger, token, outcome)

    # ------------------------------------------------------------------------------------------------ Q1, Q2: the roll

    def _roll_if_due(self) -> bool:
        """Whether the open ledger is to be rolled, and begins to end."""
        writing, of = self._writing, self.settings
        if writing is None or writing.writer.last_pushed < 0 or self.now_ms - writing.since_ms < of.min_age_ms:
            return False
        count = len(self.list.info.ledgers)
        times = 1 + max(0, count - LEDGERS_MANY) // 100
        is_full = (
            writing.writer.last_pushed + 1 >= of.max_entries * times
            or writing.writer.length >= of.max_bytes * times
            or self.now_ms >= writing.rolled_ms
        )
        if not is_full or not self._may_roll:
            return False
        self._end_ledger(Goal.ROLL)
        return True

    @property
    def _may_roll(self) -> bool:
        """Whether the list has room for another ledger."""
        return len(self.list.info.ledgers) < LEDGERS_MAX

    def _roll_if_asked(self) -> None:
        """An empty ledger need not be rolled."""
        if self._rolls and self.state is OwnerState.OPEN and self._writing is not None:
            self._parts.turn(self._writing.part, self.now_ms)
        if self._rolls and self.state is OwnerState.OPEN and self._writing is not None:
            if self._writing.writer.last_pushed >= 0:
                self._end_ledger(Goal.ROLL)
            else:
                self._answer_rolls(Done())
        elif self.is_over or self.state is OwnerState.TERMINATED:
            self._answer_rolls(self.failed)

    def _answer_rolls(self, outcome: Done | Failed) -> None:
        rolls, self._rolls = self._rolls, []
        self._out.extend(Completed(token, outcome) for token in rolls)

    def _end_ledger(self, goal: Goal, *, is_draining: bool = True) -> None:
        assert self._writing is not None
        self._goal = None if goal is Goal.ROLL else goal
        self.state = OwnerState.ROLLING if goal is Goal.ROLL else OwnerState.ENDING
        self._writing.part.inputs.append(Close(goal, is_draining=is_draining))

    def _write_end(self, base: VersionedMetadata, wanted: LedgerMetadata) -> Steps[ChangeOutcome]:
        """The writer's end of a ledger."""
        changed = yield from self.list.end(base, wanted, self._goal)
        if self.list.is_taken and self._writing is not None:
            self._writing.part.inputs.append(Abandon())
        return changed

    # ------------------------------------------------------------------------------------------------- the writer ends

    def _on_effect(self, effect: Any) -> None:
        if isinstance(effect, WriterEnded):
            self._writer_ended(effect)
        else:
            self._out.append(effect)

    def _writer_ended(self, ended: WriterEnded) -> None:
        """Its own end: go on with the next ledger. Another end: see whose the log is, and find that end."""
        assert self._writing is not None
        writing, self._writing = self._writing, None
        self._parts.remove(writing.part)
        self._confirmed = Position(writing.writer.ledger, writing.writer.last_confirmed)
        if self.is_over:
            return
        self.trouble = "" if ended.state is WriterState.CLOSED else f"{ended.reason.value} {ended.detail}".rstrip()
        if self.list.is_taken:
            self._fence()
            return
        if self.state is OwnerState.OPEN:
            self.state = OwnerState.ROLLING
        if ended.state is not WriterState.CLOSED:
            if self._appends.has_held:
                self._held_until = self.now_ms + self.settings.resolve_ms
            self._look_and_recover()
            return
        self._next, self.list.made = self.list.made, None
        if self._next is not None:
            self._handlers.offer("open", self._open)
            return
        last = self.list.info.open_ledger
        if last is not None and last.id == writing.writer.ledger:
            self.list.ended = writing.writer.versioned
        self._go_on()

    # ------------------------------------------------------------------------------------------------ whose log it is

    def look_soon(self) -> None:
        """Read the list, if that is wanted between rolls."""
        if self.settings.watches and not self.is_over:
            self._handlers.offer("look", lambda: self._look(is_recovering=False))

    def _look_and_recover(self) -> None:
        """Read the list; if it is this owner's, find the end of the ledger that another one has ended."""
        self._handlers.offer("look and recover", lambda: self._look(is_recovering=True))

    def _look(self, *, is_recovering: bool) -> Steps[None]:
        """Read the list. It is watched, so that the next change is seen, too."""
        found = yield from read_log(self.logs, self.name, watch=self.settings.watches)
        if self.is_over or self.state in (OwnerState.CLAIMING, OwnerState.TERMINATED):
            return
        if not self.list.adopt(found):
            self._fence()
        elif is_recovering:
            self._recover_open()

    def _fence(self) -> None:
        """Another owner has the log: nothing more is sent, and nobody is told of success."""
        self._end(OwnerState.FENCED, LogReason.FENCED)

    # ------------------------------------------------------------------------------------------------- the caller ends

    def _on_goal(self, call: LogClose | LogTerminate | LogDelete) -> None:
        goal = _GOALS[type(call)]
        if self.is_over:
            is_done = self.state in (OwnerState.CLOSED, OwnerState.DELETED) or goal is Goal.CLOSE
            self._out.append(Completed(call.token, Done() if is_done else self.failed))
            return
        if self.state is OwnerState.TERMINATED and goal is Goal.TERMINATE:
            self._out.append(Completed(call.token, Terminated(self.list.info.last)))
            return
        self._goal_calls.append(call)
        self._reach_goal()

    def _reach_goal(self) -> None:
        """Begin what the first of these callers wants, as soon as that can be."""
        if not self._goal_calls or self._goal is not None:
            return
        call = self._goal_calls[0]
        goal = _GOALS[type(call)]
        if self.state is OwnerState.OPEN:
            self._end_ledger(goal, is_draining=getattr(call, "is_draining", True))
        elif self.state is OwnerState.TERMINATED:
            self._goal = goal
            self.state = OwnerState.ENDING
            name = "leave" if goal is Goal.CLOSE else "go on"
            self._handlers.offer(name, self._leave if goal is Goal.CLOSE else self._to_next)
        elif goal is Goal.CLOSE and (self.state is not OwnerState.ROLLING or not call.is_draining):
            self._end(OwnerState.CLOSED, LogReason.CLOSED)

    def _leave(self) -> Steps[None]:
        """The list has the end of the last ledger: store the cursors, take the hint away."""
        yield from self.cursors.leave()
        yield (Delete(owner_path(self.logs, self.name)),)
        self._end(OwnerState.CLOSED, LogReason.CLOSED)

    def _terminated(self) -> None:
        """Nobody appends any more; cursors go on."""
        self.state, self.reason, self._goal = OwnerState.TERMINATED, LogReason.TERMINATED, None
        last = self.list.info.last
        self._appends.refuse_all(LogReason.TERMINATED)
        self._answer_rolls(self.failed)
        calls, self._goal_calls = self._goal_calls, []
        for each in calls:
            if isinstance(each, LogTerminate):
                self._out.append(Completed(each.token, Terminated(last)))
            else:
                self._goal_calls.append(each)
        self._out.append(LogEnded(self.state, LogReason.TERMINATED))
        self.offloading.soon()
        self._reach_goal()

    def _delete(self) -> Steps[None]:
        removed = self.offloading.removed
        ended = yield from delete_log(self.root, self.list.known, self.list.ended, self.wall_ms, removed)
        if not isinstance(ended, Taken):
            self._end(OwnerState.DELETED, LogReason.DELETED)
        elif self.list.adopt(ended.current):
            self._handlers.offer("go on", self._to_next)
        else:
            self._fence()

    # ------------------------------------------------------------------------------------------------------------ ends

    def _fail(self, reason: LogReason, detail: str) -> None:
        self._end(OwnerState.FAILED, reason, detail)

    def _end(self, state: OwnerState, reason: LogReason, detail: str = "") -> None:
        """This object comes to its end, as soon as the parts have had their turn: one of them may say this."""
        if not self.is_over:
            self._to_end, self.reason, self._detail = LogEnded(state, reason, detail), reason, detail

    def _end_now(self, ended: LogEnded) -> None:
        """What its writer has sent stays unknown."""
        self.state, reason = ended.state, ended.reason
        if self._writing is not None:
            self._writing.part.inputs.append(Abandon())
            self._parts.turn(self._writing.part, self.now_ms)
        self._parts.clear()
        self.cursors.end()
        unknown = self._appends.give_up(reason)
        self._appends.refuse_all(reason)
        self._answer_rolls(self.failed)
        self._trims.soon()
        self.offloading.end()
        is_well = self.state in (OwnerState.CLOSED, OwnerState.DELETED)
        for each in self._goal_calls:
            outcome = Done() if is_well or isinstance(each, LogClose) else self.failed
            self._out.append(Completed(each.token, outcome))
        self._goal_calls = []
        self._out.append(evolve(ended, unknown=unknown))

    def _on_expired(self) -> None:
        """Handlers, watches and the hint are gone: begin again what was under way."""
        if self.is_over:
            return
        if self._has_one_session:
            self._fail(LogReason.COORDINATION, "the session is over")
            return
        match self.state:
            case OwnerState.CLAIMING:
                self._handlers.offer("claim", self._claim)
            case OwnerState.OPEN | OwnerState.TERMINATED:
                self._handlers.offer("hint", self._hint)
                self.look_soon()
                self._trims.soon()
                self.offloading.begin_again()
            case _ if self._next is not None:
                self._handlers.offer("open", self._open)
            case _ if self._writing is None and self._recovering is None:
                self._look_and_recover()
