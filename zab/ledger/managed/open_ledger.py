"""The ledger of a log that has no end yet: how it is found, written and rolled.

    recover()       T3      close the one whose end the list does not have
    follow()        T4, Q2  the next one, or that there is none
    write()         T5, Q3  its writer begins
    end(goal)       Q1      appends wait; the writer drains

The steps are those of `owner`, which decides whose log it is and what comes next. What was appended to a ledger that
another one has ended is held until its end is found: only then it is certain which appends are in it.
"""

from __future__ import annotations

from collections.abc import Hashable
from random import Random
from typing import Any, Protocol

from zab.coordination.steps import Pause, Steps
from zab.ledger.managed.appends import Appends
from zab.ledger.managed.events import Done, Failed, LogAppend, LogReason, OwnerState
from zab.ledger.managed.log_info import LEDGERS_MANY, LEDGERS_MAX, Position
from zab.ledger.managed.parts import Handlers, Part, Parts, Writing
from zab.ledger.managed.settings import LogSettings
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
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.placement.placement import Placement
from zab.ledger.recovery.events import Recovered, RecoveryAborted
from zab.ledger.recovery.recovery import Recovery
from zab.ledger.store.events import Completed
from zab.ledger.store.ledgers import ChangeOutcome
from zab.ledger.writer.admission import SharedBudget
from zab.ledger.writer.events import Abandon, Cancel, Close, WriterEnded, WriterState
from zab.ledger.writer.writer import LedgerWriter


class OpenLedgerOwner(Protocol):
    """The owner of the log, as its open ledger sees it."""

    root: str
    placement: Placement
    password: bytes
    settings: LogSettings
    list: Succession
    state: OwnerState
    goal: Goal | None
    trouble: str
    now_ms: int

    @property
    def is_over(self) -> bool: ...

    @property
    def failed(self) -> Failed: ...

    def go_on(self) -> None:
        """The last ledger has its end."""

    def reached(self) -> None:
        """The list has the end of its last ledger, and none follows."""

    def open(self) -> Steps[None]:
        """There is a ledger to be written: whatever comes before that, then `write`."""

    def is_open(self, ledger: int) -> None:
        """Its writer begins."""

    def reach_goal(self) -> None:
        """Begin what callers want, as soon as that can be."""

    def look_and_recover(self) -> None:
        """Read the list; if it is still this owner's, recover the ledger."""

    def fence(self) -> None:
        """Another owner has the log."""

    def end(self, state: OwnerState, reason: LogReason, detail: str = "") -> None:
        """The owner comes to its end."""


class OpenLedger:
    """`budget`: of all writers of a host."""

    def __init__(
        self,
        owner: OpenLedgerOwner,
        parts: Parts,
        handlers: Handlers,
        appends: Appends,
        out: list[Any],
        *,
        rng: Random,
        budget: SharedBudget | None,
    ) -> None:
        self.confirmed_before = Position(-1, -1)
        """The last entry that the writer before this one has acknowledged; the list may not have its ledger's end."""
        self._owner, self._parts, self._handlers, self._appends, self._out = owner, parts, handlers, appends, out
        self._rng, self._budget = rng, budget
        self._writing: Writing | None = None
        self._recovering: Part | None = None
        self._made: VersionedMetadata | None = None
        self._rolls: list[Hashable] = []
        self._held_until: int | None = None

    # --------------------------------------------------------------------------------------------------- what it shows

    @property
    def is_made(self) -> bool:
        """Whether there is one that has no writer yet."""
        return self._made is not None

    @property
    def is_written(self) -> bool:
        """Whether it has a writer."""
        return self._writing is not None

    @property
    def is_recovering(self) -> bool:
        """Whether a recovery is under way."""
        return self._recovering is not None

    @property
    def last_confirmed(self) -> Position | None:
        """The last entry that its writer has acknowledged; None: there is none yet."""
        if self._writing is None or self._writing.writer.last_confirmed < 0:
            return None
        return Position(self._writing.writer.ledger, self._writing.writer.last_confirmed)

    @property
    def deadline_ms(self) -> int | None:
        """When held appends are given up, or its age rolls it."""
        times = [] if self._held_until is None else [self._held_until]
        if self._owner.state is OwnerState.OPEN and self._has_entries and self._has_room:
            assert self._writing is not None
            times.append(max(self._writing.rolled_ms, self._owner.now_ms + 1))
        return min(times, default=None)

    @property
    def _has_entries(self) -> bool:
        return self._writing is not None and self._writing.writer.last_pushed >= 0

    @property
    def _has_room(self) -> bool:
        """Whether the list has room for another ledger."""
        return len(self._owner.list.info.ledgers) < LEDGERS_MAX

    def check_times(self) -> None:
        """Give up what was held for too long: whether it is in a ledger stays unknown."""
        if self._held_until is not None and self._held_until <= self._owner.now_ms:
            self._held_until = None
            self._appends.give_up(LogReason.UNDECIDED)

    # ----------------------------------------------------------------------------------------------------- T3: recover

    def recover(self) -> None:
        """Close the ledger whose end the list does not have; its writer, if it lives, is fenced."""
        owner = self._owner
        last = owner.list.info.open_ledger
        if last is None or owner.list.ended is not None:
            owner.go_on()
            return
        if self._recovering is not None:
            return
        core = Recovery(owner.root, last.id, owner.placement, password=owner.password, settings=owner.settings.recovery)
        self._recovering = self._parts.add(core, last.id, lambda _token, outcome: self._recovered(last.id, outcome))

    def _recovered(self, ledger: int, outcome: object) -> None:
        assert self._recovering is not None
        owner = self._owner
        self._parts.remove(self._recovering)
        self._recovering = None
        match outcome:
            case Recovered(versioned):
                owner.trouble = ""
                owner.list.ended = versioned
                self._held_until = None
                self._appends.decide(ledger, versioned.metadata.last)
                owner.go_on()
            case RecoveryAborted(reason):
                owner.trouble = f"ledger {ledger} cannot be recovered: {reason}"
                self._handlers.offer("recover again", self._recover_again)
            case _:
                owner.end(OwnerState.FAILED, LogReason.DAMAGED, f"ledger {ledger}: {type(outcome).__name__}")

    def _recover_again(self) -> Steps[None]:
        yield Pause(self._owner.settings.retry_ms)
        self.recover()

    # ----------------------------------------------------------------------------------------- T4, Q2: the next ledger

    def follow(self) -> Steps[None]:
        """Make the ledger that follows the one with an end, if one is to follow."""
        owner = self._owner
        followed = yield from owner.list.follow(owner.goal)
        while isinstance(followed, NotYet):
            owner.trouble = owner.list.trouble
            yield Pause(owner.settings.retry_ms)
            followed = yield from owner.list.follow(owner.goal)
        match followed:
            case Opened(versioned):
                self._made = versioned
                self._handlers.offer("open", owner.open)
            case Reached():
                owner.reached()
            case NotMine():
                owner.fence()
            case NotClosed():
                self.recover()
            case ListFull():
                owner.end(OwnerState.FAILED, LogReason.LIST_FULL)
            case Damaged(detail):
                owner.end(OwnerState.FAILED, LogReason.DAMAGED, detail)

    # -------------------------------------------------------------------------------------------------- T5, Q3: writing

    def write(self) -> None:
        """Begin to write the ledger that was made."""
        assert self._made is not None
        owner, of = self._owner, self._owner.settings
        made, self._made = self._made, None
        owner.list.written = made.ledger
        writer = LedgerWriter(
            owner.root, made, owner.placement, settings=of.writer, budget=self._budget, write_end=self._write_end
        )
        part = self._parts.add(writer, made.ledger, self._answered, is_writer=True, effect=self._on_effect)
        rolled_ms = owner.now_ms + of.max_age_ms + self._rng.randrange(of.max_age_ms // 20 + 1)
        self._writing = Writing(writer, part, owner.now_ms, rolled_ms)
        owner.state = OwnerState.OPEN
        owner.is_open(made.ledger)
        self.answer_rolls(Done())
        part.inputs += self._appends.send_waiting()
        owner.reach_goal()

    def append(self, run: list[LogAppend]) -> None:
        """Append these."""
        assert self._writing is not None
        self._writing.part.inputs += self._appends.send(run, self._owner.now_ms)

    def cancel(self, token: Hashable) -> None:
        """Its caller no longer waits for this append."""
        self._appends.cancel(token)
        self._turn()
        if self._writing is not None:
            if self._writing.writer.waits_for_room(token):
                self._appends.cancelled(token)
            self._writing.part.inputs.append(Cancel(token))

    def abandon(self) -> None:
        """The owner ends: what the writer has sent stays unknown."""
        if self._writing is not None:
            self._writing.part.inputs.append(Abandon())
            self._turn()

    def _turn(self) -> None:
        """The writer takes what it was told so far; that may be its end."""
        if self._writing is not None:
            self._parts.turn(self._writing.part, self._owner.now_ms)

    def _answered(self, token: Hashable, outcome: object) -> None:
        """What the writer says of an append; how it ended comes as an effect."""
        if not isinstance(token, Goal) and self._writing is not None:
            self._appends.answered(self._writing.writer.ledger, token, outcome)

    # ---------------------------------------------------------------------------------------------------- Q1: its end

    def roll(self, token: Hashable) -> None:
        """Roll it, if it has entries. The token is completed when the next one is written, or there was no need."""
        self._rolls.append(token)
        owner = self._owner
        if owner.state is OwnerState.OPEN:
            self._turn()
        if owner.state is OwnerState.OPEN and self._writing is not None:
            if self._has_entries:
                self.end(Goal.ROLL)
            else:
                self.answer_rolls(Done())
        elif owner.is_over or owner.state is OwnerState.TERMINATED:
            self.answer_rolls(owner.failed)

    def roll_if_due(self) -> bool:
        """Whether it is so full or so old that it begins to end."""
        writing, of, now_ms = self._writing, self._owner.settings, self._owner.now_ms
        if writing is None or not self._has_entries or now_ms - writing.since_ms < of.min_age_ms:
            return False
        times = 1 + max(0, len(self._owner.list.info.ledgers) - LEDGERS_MANY) // 100
        is_full = (
            writing.writer.last_pushed + 1 >= of.max_entries * times
            or writing.writer.length >= of.max_bytes * times
            or now_ms >= writing.rolled_ms
        )
        if not is_full or not self._has_room:
            return False
        self.end(Goal.ROLL)
        return True

    def answer_rolls(self, outcome: Done | Failed) -> None:
        """What everybody is told who asked for a roll."""
        rolls, self._rolls = self._rolls, []
        self._out.extend(Completed(token, outcome) for token in rolls)

    def end(self, goal: Goal, *, is_draining: bool = True) -> None:
        """Close it, for this goal."""
        assert self._writing is not None
        owner = self._owner
        owner.goal = None if goal is Goal.ROLL else goal
        owner.state = OwnerState.ROLLING if goal is Goal.ROLL else OwnerState.ENDING
        self._writing.part.inputs.append(Close(goal, is_draining=is_draining))

    def _write_end(self, base: VersionedMetadata, wanted: LedgerMetadata) -> Steps[ChangeOutcome]:
        """The writer's end of a ledger."""
        changed = yield from self._owner.list.end(base, wanted, self._owner.goal)
        if self._owner.list.is_taken and self._writing is not None:
            self._writing.part.inputs.append(Abandon())
        return changed

    def _on_effect(self, effect: Any) -> None:
        if isinstance(effect, WriterEnded):
            self._writer_ended(effect)
        else:
            self._out.append(effect)

    def _writer_ended(self, ended: WriterEnded) -> None:
        """Its own end: go on with the next ledger. Another end: see whose the log is, and find that end."""
        assert self._writing is not None
        owner = self._owner
        writing, self._writing = self._writing, None
        self._parts.remove(writing.part)
        self.confirmed_before = Position(writing.writer.ledger, writing.writer.last_confirmed)
        if owner.is_over:
            return
        owner.trouble = "" if ended.state is WriterState.CLOSED else f"{ended.reason.value} {ended.detail}".rstrip()
        if owner.list.is_taken:
            owner.fence()
            return
        if owner.state is OwnerState.OPEN:
            owner.state = OwnerState.ROLLING
        if ended.state is not WriterState.CLOSED:
            if self._appends.has_held:
                self._held_until = owner.now_ms + owner.settings.resolve_ms
            owner.look_and_recover()
            return
        self._made, owner.list.made = owner.list.made, None
        if self._made is not None:
            self._handlers.offer("open", owner.open)
            return
        last = owner.list.info.open_ledger
        if last is not None and last.id == writing.writer.ledger:
            owner.list.ended = writing.writer.versioned
        owner.go_on()
