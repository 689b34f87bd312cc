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
of this one: that of the log that is open in `open_ledger`, those of cursors in `cursors`. Not here: who should be the
owner. An election is a hint; nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from random import Random
from typing import Any, Final

from attrs import evolve

from zab.coordination.driver import WatchFired
from zab.coordination.operations import Create, Delete
from zab.coordination.steps import Steps
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
from zab.ledger.managed.log_info import LogConfig, LogInfo, LogState, Position, owner_path
from zab.ledger.managed.offloading import Offloading
from zab.ledger.managed.open_ledger import OpenLedger
from zab.ledger.managed.parts import Handlers, Parts
from zab.ledger.managed.settings import LogSettings
from zab.ledger.managed.store import Contended, NoLog, Taken, read_log
from zab.ledger.managed.succession import Goal, Succession
from zab.ledger.managed.trimming import Trims
from zab.ledger.placement.placement import Placement
from zab.ledger.store.events import Answered, Completed
from zab.ledger.writer.admission import SharedBudget

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
        self._address, self._deletes = address, deletes
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
        self.goal: Goal | None = None
        """Why the open ledger ends, if no other one is to follow."""
        self._goal_calls: list[Any] = []
        self._to_end: LogEnded | None = None
        """How it ends, once its parts have had their turn."""
        self._is_told_open = False
        self._out: list[Any] = []
        self._appends = Appends(self.settings, self._out)
        self._parts = Parts(self._out)
        self._handlers = Handlers(self.cursors_failed, self._on_expired)
        self._handlers_part = self._parts.add(self._handlers, None, lambda _token, _outcome: None)
        self._open_ledger = OpenLedger(
            self, self._parts, self._handlers, self._appends, self._out, rng=rng, budget=budget
        )
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
        of = self._open_ledger
        if of.last_confirmed is not None:
            return of.last_confirmed
        return None if self.list.log is None else max(self.list.info.last, of.confirmed_before)

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
        times = [self._parts.deadline_ms, self._open_ledger.deadline_ms]
        is_open = self.state is OwnerState.OPEN
        times.append(self._trims.due_ms if is_open else self._appends.due_ms)
        if is_open or self.state is OwnerState.TERMINATED:
            times += (self.cursors.deadline_ms, self.offloading.deadline_ms)
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
                self._open_ledger.cancel(token)
            case LogRoll(token):
                self._open_ledger.roll(token)
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
        self.offloading.check_times()
        self._open_ledger.check_times()
        if self.state is OwnerState.OPEN:
            self._trims.check_times()
            return self.cursors.check_times() or self._open_ledger.roll_if_due()
        self._appends.refuse_old(self.now_ms, LogReason.NOT_WRITABLE)
        return self.state is OwnerState.TERMINATED and self.cursors.check_times()

    # --------------------------------------------------------------------------------------------------------- appends

    def _on_appends(self, run: list[LogAppend]) -> None:
        if self.state is OwnerState.OPEN and self._open_ledger.is_written:
            self._open_ledger.append(run)
        elif self.state is OwnerState.ROLLING:
            self._appends.wait(run, self.now_ms)
        else:
            self._out.extend(Completed(each.token, LogNotAppended(self._why_not())) for each in run)

    def _why_not(self) -> LogReason:
        if self.goal in _REASONS and self.state is OwnerState.ENDING:
            return _REASONS[self.goal]
        return self.reason if self.is_over or self.state is OwnerState.TERMINATED else LogReason.NOT_OPEN

    # --------------------------------------------------------------------------------------------------------- cursors

    def cursors_failed(self, why: str) -> None:
        self._fail(LogReason.COORDINATION, why)

    def cursor_is_taken(self) -> None:
        """Another one has written a cursor's znode: it has the log, too."""
        self.fence()

    offload_is_taken = trim_is_taken = cursor_is_taken

    def cursors_are_loaded(self) -> None:
        """The last cursor's ledger was read."""
        if self._open_ledger.is_made:
            self._handlers.offer("open", self.open)
        else:
            self._handlers.offer("go on", self._to_next)

    # --------------------------------------------------------------------------------------------------- T1, T2: claim

    def _claim(self) -> Steps[None]:
        claimed = yield from self.list.claim()
        if isinstance(claimed, NoLog):
            self.end(OwnerState.FAILED, LogReason.NO_SUCH_LOG)
        elif isinstance(claimed, Contended):
            self.end(OwnerState.FAILED, LogReason.CONTENDED)
        else:
            self.state = OwnerState.RECOVERING
            self._open_ledger.recover()

    # ----------------------------------------------------------------------------------------- T4, Q2: the next ledger

    def go_on(self) -> None:
        """The last ledger has its end: make the next one."""
        if self.state is OwnerState.RECOVERING:
            self.state = OwnerState.CREATING
        self._handlers.offer("go on", self._to_next)

    def _to_next(self) -> Steps[None]:
        """The next ledger, or what is wanted instead."""
        if self.list.info.state is LogState.TERMINATED and not self._deletes and self.goal is not Goal.DELETE:
            yield from self.cursors.load()
            if self.cursors.is_loaded:
                self._terminated()
        elif self.goal is Goal.DELETE or self._deletes:
            yield from self._delete()
        else:
            yield from self._open_ledger.follow()

    def reached(self) -> None:
        """The list has the end of its last ledger, and none follows."""
        if self.goal is Goal.TERMINATE:
            self._terminated()
        else:
            self._handlers.offer("leave", self._leave)

    # --------------------------------------------------------------------------------------------------- T5, Q3: open

    def open(self) -> Steps[None]:
        """The first time: cursors, and the hint. Then appends."""
        if not self._is_told_open:
            yield from self.cursors.load()
            if not self.cursors.is_loaded:
                return
            yield from self._hint()
        if self._open_ledger.is_made and not self.is_over:
            self._open_ledger.write()

    def is_open(self, ledger: int) -> None:
        """Its writer begins."""
        if self._is_told_open:
            self._out.append(LedgerRolled(ledger))
        else:
            self._is_told_open = True
            self._out.append(LogOpened(self.epoch, ledger))
            self.look_soon()
        self._trims.soon()
        self.offloading.soon()

    def _hint(self) -> Steps[None]:
        """Where the owner is. That of an owner before goes with its session, or here."""
        path = owner_path(self.logs, self.name)
        yield (Delete(path),)
        yield (Create(path, self._address, ephemeral=True),)

    # ------------------------------------------------------------------------------------------------ whose log it is

    def look_soon(self) -> None:
        """Read the list, if that is wanted between rolls."""
        if self.settings.watches and not self.is_over:
            self._handlers.offer("look", lambda: self._look(is_recovering=False))

    def look_and_recover(self) -> None:
        """Read the list; if it is this owner's, find the end of the ledger that another one has ended."""
        self._handlers.offer("look and recover", lambda: self._look(is_recovering=True))

    def _look(self, *, is_recovering: bool) -> Steps[None]:
        """Read the list. It is watched, so that the next change is seen, too."""
        found = yield from read_log(self.logs, self.name, watch=self.settings.watches)
        if self.is_over or self.state in (OwnerState.CLAIMING, OwnerState.TERMINATED):
            return
        if not self.list.adopt(found):
            self.fence()
        elif is_recovering:
            self._open_ledger.recover()

    def fence(self) -> None:
        """Another owner has the log: nothing more is sent, and nobody is told of success."""
        self.end(OwnerState.FENCED, LogReason.FENCED)

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
        self.reach_goal()

    def reach_goal(self) -> None:
        """Begin what the first of these callers wants, as soon as that can be."""
        if not self._goal_calls or self.goal is not None:
            return
        call = self._goal_calls[0]
        goal = _GOALS[type(call)]
        if self.state is OwnerState.OPEN:
            self._open_ledger.end(goal, is_draining=getattr(call, "is_draining", True))
        elif self.state is OwnerState.TERMINATED:
            self.goal = goal
            self.state = OwnerState.ENDING
            name = "leave" if goal is Goal.CLOSE else "go on"
            self._handlers.offer(name, self._leave if goal is Goal.CLOSE else self._to_next)
        elif goal is Goal.CLOSE and (self.state is not OwnerState.ROLLING or not call.is_draining):
            self.end(OwnerState.CLOSED, LogReason.CLOSED)

    def _leave(self) -> Steps[None]:
        """The list has the end of the last ledger: store the cursors, take the hint away."""
        yield from self.cursors.leave()
        yield (Delete(owner_path(self.logs, self.name)),)
        self.end(OwnerState.CLOSED, LogReason.CLOSED)

    def _terminated(self) -> None:
        """Nobody appends any more; cursors go on."""
        self.state, self.reason, self.goal = OwnerState.TERMINATED, LogReason.TERMINATED, None
        last = self.list.info.last
        self._appends.refuse_all(LogReason.TERMINATED)
        self._open_ledger.answer_rolls(self.failed)
        calls, self._goal_calls = self._goal_calls, []
        for each in calls:
            if isinstance(each, LogTerminate):
                self._out.append(Completed(each.token, Terminated(last)))
            else:
                self._goal_calls.append(each)
        self._out.append(LogEnded(self.state, LogReason.TERMINATED))
        self.offloading.soon()
        self.reach_goal()

    def _delete(self) -> Steps[None]:
        removed = self.offloading.removed
        ended = yield from delete_log(self.root, self.list.known, self.list.ended, self.wall_ms, removed)
        if not isinstance(ended, Taken):
            self.end(OwnerState.DELETED, LogReason.DELETED)
        elif self.list.adopt(ended.current):
            self._handlers.offer("go on", self._to_next)
        else:
            self.fence()

    # ------------------------------------------------------------------------------------------------------------ ends

    def _fail(self, reason: LogReason, detail: str) -> None:
        self.end(OwnerState.FAILED, reason, detail)

    def end(self, state: OwnerState, reason: LogReason, detail: str = "") -> None:
        """This object comes to its end, as soon as the parts have had their turn: one of them may say this."""
        if not self.is_over:
            self._to_end, self.reason, self._detail = LogEnded(state, reason, detail), reason, detail

    def _end_now(self, ended: LogEnded) -> None:
        """What its writer has sent stays unknown."""
        self.state, reason = ended.state, ended.reason
        self._open_ledger.abandon()
        self._parts.clear()
        self.cursors.end()
        unknown = self._appends.give_up(reason)
        self._appends.refuse_all(reason)
        self._open_ledger.answer_rolls(self.failed)
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
            case _ if self._open_ledger.is_made:
                self._handlers.offer("open", self.open)
            case _ if not self._open_ledger.is_written and not self._open_ledger.is_recovering:
                self.look_and_recover()
