"""How a ledger's writer ends: closed by its caller, sealed by itself, fenced, or failed; and what becomes of entries.

| the end | an entry that was not released |
|---|---|
| closed here, drained or not; sealed | is not in the ledger |
| closed by another one at `last` | is in it if it is not after `last` |
| in recovery, when a close finds it | waits for the other's end, `resolve_ms` at the most; then unknown |
| fenced by a bookie's answer, or in recovery when a change finds it | unknown; `Resolve` decides it later |
| failed | unknown |

The end that is written is the last entry that was released, with the bytes up to it; so nothing is released from the
moment when it is written.

Not here: when to end (`writer`), the write (`writer`, through `zab.ledger.store`).
"""

from __future__ import annotations

from collections.abc import Hashable

from zab.ledger.metadata.ledger_metadata import LedgerMetadata
from zab.ledger.store.events import Completed
from zab.ledger.writer.admission import Admission
from zab.ledger.writer.events import (
    Appended,
    AppendUnknown,
    CloseFailed,
    LedgerClosed,
    NotAppended,
    Reason,
    Resolved,
    Unresolved,
    WriterEnded,
    WriterState,
)
from zab.ledger.writer.pipeline import Op, Pipeline
from zab.ledger.writer.settings import WriterSettings


class Ending:
    """The state of a writer, and its way to an end."""

    def __init__(self, pipeline: Pipeline, admission: Admission, settings: WriterSettings, out: list[object]) -> None:
        self.state = WriterState.OPEN
        self.reason: Reason | None = None
        """Why it is not open any longer."""
        self.end: LedgerMetadata | None = None
        """The metadata of the closed ledger, once they are known."""
        self.is_writing = False
        """The end is being written: nothing is released, and no ensemble changes."""
        self.unknown = range(0)
        """The entries with an unknown outcome."""
        self._is_told = False
        self._held: list[Op] | None = None
        """Entries that wait for another one's end, because a close has found a recovery."""
        self._closers: list[Hashable] = []
        self._resolvers: list[Hashable] = []
        self._drained_at = 0
        self._given_up_at: int | None = None
        self._pipeline = pipeline
        self._admission = admission
        self._settings = settings
        self._out = out

    # -------------------------------------------------------------------------------------------------------- closing

    def close(self, token: Hashable, is_draining: bool, now_ms: int) -> None:
        """The caller closes."""
        if self.state in (WriterState.OPEN, WriterState.CLOSING) or self._held is not None:
            self._closers.append(token)
            if self.state is WriterState.OPEN or not is_draining:
                self._begin(Reason.CLOSED, now_ms + self._settings.drain_ms if is_draining else now_ms, now_ms)
        elif self.state is WriterState.CLOSED:
            assert self.end is not None
            self._tell(token, LedgerClosed(self.end.last, self.end.length))
        else:
            self._tell(token, self._close_failed())

    def seal(self, reason: Reason, now_ms: int) -> None:
        """The writer itself closes: it cannot go on."""
        if self.state in (WriterState.OPEN, WriterState.CLOSING):
            self._begin(reason, now_ms, now_ms)

    def _begin(self, reason: Reason, drained_at: int, now_ms: int) -> None:
        if self.state is WriterState.OPEN:
            self.state, self.reason = WriterState.CLOSING, reason
            self._drained_at = drained_at
            self._admission.refuse_all(reason)
        elif self.state is WriterState.CLOSING and drained_at <= now_ms:
            self.reason = reason if self.reason is Reason.CLOSED else self.reason
            self._drained_at = min(self._drained_at, drained_at)

    def may_write(self, now_ms: int) -> bool:
        """Whether the end is to be written, as soon as no change is under way."""
        if self.state is not WriterState.CLOSING:
            return False
        is_drained = not self._pipeline.pending or self._drained_at <= now_ms
        if is_drained and self._given_up_at is None:
            self._given_up_at = now_ms + self._settings.resolve_ms
        return is_drained

    def is_sealing(self, now_ms: int) -> bool:
        """Whether what is pending is given up."""
        return self.state is WriterState.CLOSING and self._drained_at <= now_ms

    # ----------------------------------------------------------------------------------------------------------- ends

    def closed(self, end: LedgerMetadata) -> None:
        """The ledger is closed, with this writer's end, even if another client wrote it."""
        self._decide(WriterState.CLOSED, self.reason or Reason.CLOSED, end)

    def closed_by_other(self, end: LedgerMetadata) -> None:
        """Another client has closed it."""
        pipeline = self._pipeline
        if (end.last, end.length) == (pipeline.lac, pipeline.confirmed_length) and self.state is WriterState.CLOSING:
            self.closed(end)
        else:
            self._decide(WriterState.FENCED, Reason.CLOSED_BY_OTHER, end)

    def _decide(self, state: WriterState, reason: Reason, end: LedgerMetadata) -> None:
        """The end is known, so the outcome of every entry is."""
        last_released = self._pipeline.lac
        ops = self._pipeline.drop() if self._held is None else self._held
        self._held, self.end = None, end
        self.state, self.reason = state, reason
        self._given_up_at, self.is_writing = None, False
        self.unknown = range(0)
        for op in ops:
            outcome = Appended(op.entry) if op.entry <= end.last else NotAppended(reason)
            self._tell(op.token, outcome)
        self._admission.refuse_all(reason)
        is_lost = end.last < last_released
        detail = f"it ends at {end.last}, and entry {last_released} was acknowledged" if is_lost else ""
        self._ended(detail)
        self._answer_resolvers()

    def recovering(self, now_ms: int, *, is_closing: bool) -> None:
        """Another client recovers it. `is_closing`: a close has found that, so the outcome is waited for."""
        self.state, self.reason, self.is_writing = WriterState.FENCED, Reason.FENCED, False
        self._admission.refuse_all(Reason.FENCED)
        dropped = self._pipeline.drop()
        self._note_unknown(dropped)
        if is_closing:
            self._held = dropped
            self._given_up_at = now_ms + self._settings.resolve_ms
        else:
            self._tell_unknown(dropped, Reason.FENCED)
            self._ended()

    def fail(self, reason: Reason, detail: str = "") -> None:
        """It cannot go on, nor say what is in the ledger."""
        if self.state in (WriterState.CLOSED, WriterState.FENCED, WriterState.FAILED) and self._held is None:
            return
        self.is_writing = False
        if self._held is None:
            self.state, self.reason = WriterState.FAILED, reason
        self._admission.refuse_all(reason)
        dropped = self._pipeline.drop() if self._held is None else self._held
        self._held = None
        self._note_unknown(dropped)
        self._tell_unknown(dropped, reason)
        self._ended(detail)

    def _note_unknown(self, ops: list[Op]) -> None:
        if ops:
            self.unknown = range(ops[0].entry, ops[-1].entry + 1)

    def _tell_unknown(self, ops: list[Op], reason: Reason) -> None:
        for op in ops:
            self._tell(op.token, AppendUnknown(op.entry, reason))

    def _ended(self, detail: str = "") -> None:
        self._given_up_at = None
        for token in self._closers:
            if self.state is WriterState.CLOSED:
                assert self.end is not None
                self._tell(token, LedgerClosed(self.end.last, self.end.length))
            else:
                self._tell(token, self._close_failed())
        self._closers.clear()
        if not self._is_told:
            self._is_told = True
            assert self.reason is not None
            self._out.append(WriterEnded(self.state, self.reason, detail))

    def _close_failed(self) -> CloseFailed:
        assert self.reason is not None
        return CloseFailed(self.reason, None if self.end is None else self.end.last)

    # ------------------------------------------------------------------------------------------------------ resolving

    def resolve(self, token: Hashable, now_ms: int) -> None:
        """Decide what is unknown; the answer comes at once if nothing is, or if the end is known."""
        if self.state in (WriterState.OPEN, WriterState.CLOSING):
            self._tell(token, Unresolved(Reason.UNDECIDED))
            return
        self._resolvers.append(token)
        if self.end is not None:
            self._answer_resolvers()
        elif self._given_up_at is None:
            self._given_up_at = now_ms + self._settings.resolve_ms

    @property
    def waits_for_end(self) -> bool:
        """Whether somebody waits for another client to close the ledger."""
        return (self._held is not None or bool(self._resolvers)) and self.end is None

    def found(self, current: LedgerMetadata | None) -> None:
        """What is there while somebody waits for the end."""
        if current is None:
            self._give_up(Reason.DELETED)
        elif current.is_closed and self._held is not None:
            # The close that waited was this writer's last word.
            pipeline = self._pipeline
            if (current.last, current.length) == (pipeline.lac, pipeline.confirmed_length):
                self.closed(current)
            else:
                self._decide(WriterState.FENCED, Reason.CLOSED_BY_OTHER, current)
        elif current.is_closed:
            self.end = current
            self._given_up_at = None
            self._answer_resolvers()

    def _answer_resolvers(self) -> None:
        end = self.end
        assert end is not None
        written = tuple(entry for entry in self.unknown if entry <= end.last)
        not_written = tuple(entry for entry in self.unknown if entry > end.last)
        for token in self._resolvers:
            self._tell(token, Resolved(end.last, written, not_written))
        self._resolvers.clear()

    # ----------------------------------------------------------------------------------------------------------- time

    def check_time(self, now_ms: int) -> bool:
        """Give up what takes too long. Returns whether it did."""
        if self._given_up_at is None or now_ms < self._given_up_at:
            return False
        self._give_up(Reason.UNDECIDED)
        return True

    def _give_up(self, reason: Reason) -> None:
        self._given_up_at = None
        if self._held is not None or self.state is WriterState.CLOSING:
            self.fail(reason if self._held is None else Reason.FENCED)
        for token in self._resolvers:
            self._tell(token, Unresolved(reason))
        self._resolvers.clear()

    def deadline_ms(self, now_ms: int) -> int | None:
        times = [] if self._given_up_at is None else [self._given_up_at]
        if self.state is WriterState.CLOSING and not self.is_writing and self._drained_at > now_ms:
            times.append(self._drained_at)
        return min(times, default=None)

    def _tell(self, token: Hashable, outcome: object) -> None:
        self._out.append(Completed(token, outcome))
