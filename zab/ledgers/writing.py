"""The writer of a ledger, as callers have it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Self

from zab.client.core.backends import Waiter
from zab.ledger.metadata.ledger_metadata import LedgerMetadata, VersionedMetadata
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import (
    Append,
    Appended,
    AppendUnknown,
    BookieFailed,
    Cancel,
    Close,
    LedgerClosed,
    NotAppended,
    Resolve,
    Resolved,
    WriterEnded,
    WriterState,
)
from zab.ledger.writer.writer import LedgerWriter as WriterCore
from zab.ledgers.errors import LedgerError
from zab.ledgers.outcomes import SEALS, writer_error
from zab.ledgers.parts import Parts


class Ticket:
    """An append under way. `entry`: its id, if it has one."""

    __slots__ = ("_waiters", "_writer", "entry", "outcome")

    def __init__(self, writer: LedgerWriter) -> None:
        self.entry: int | None = None
        self._writer = writer
        self.outcome: Appended | NotAppended | AppendUnknown | None = None
        """None while it is under way."""
        self._waiters: list[Waiter] = []

    def __repr__(self) -> str:
        state = "under way" if self.outcome is None else f"{self.outcome}"
        return f"<Ticket of entry {self.entry}, {state}>"

    @property
    def is_over(self) -> bool:
        """Whether `done` returns or raises at once."""
        return self.outcome is not None

    @property
    def is_refused(self) -> bool:
        """Whether it is certain that it is not in the ledger."""
        return type(self.outcome) is NotAppended

    async def done(self) -> int:
        """The id of the entry, once it is acknowledged. Raises as `LedgerWriter.append`."""
        if self.outcome is None:
            waiter = self._writer.waiter()
            self._waiters.append(waiter)
            await waiter.wait()
        return self.result()

    def result(self) -> int:
        """The id of the entry. Raises as `done`."""
        outcome = self.outcome
        if type(outcome) is Appended:
            return outcome.entry
        assert outcome is not None
        assert not isinstance(outcome, Appended)
        raise self._writer.error_of(outcome)

    def complete(self, outcome: Any) -> None:
        """Called by the driving."""
        self.outcome = outcome
        if type(outcome) is Appended:
            self.entry = outcome.entry
        self._writer.forget(self)
        for waiter in self._waiters:
            waiter.wake()


class LedgerWriter:
    """The one writer of a new ledger, made by `LedgerStore.create`. Tasks may share it.

    Entries get their ids in the order of the calls, and are acknowledged in this order. Leaving the block closes the
    ledger; an exception in it closes it without waiting for what is not acknowledged yet, which then is not in it.
    """

    def __init__(self, parts: Parts, versioned: VersionedMetadata) -> None:
        self._parts = parts
        self._core = WriterCore(
            parts.settings.root,
            versioned,
            parts.placement,
            settings=parts.settings.writer,
            budget=parts.budget,
        )
        self._driven = parts.driving.drive(self._core, self._on_effect)
        parts.open_writers[self] = None
        self._tickets: dict[Ticket, None] = {}
        self._ended: WriterEnded | None = None
        self._on_end: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<LedgerWriter of {self.id}, {self._core.state.value}, confirmed up to {self.last_confirmed}>"

    @property
    def id(self) -> int:
        """The id of the ledger."""
        return self._core.ledger

    @property
    def metadata(self) -> LedgerMetadata:
        """As this writer knows them."""
        return self._core.versioned.metadata

    @property
    def last_confirmed(self) -> int:
        """The last entry that was acknowledged, -1: none."""
        return self._core.last_confirmed

    @property
    def last_pushed(self) -> int:
        """The last entry that has an id, -1: none."""
        return self._core.last_pushed

    @property
    def length(self) -> int:
        """The bytes of all entries that have an id."""
        return self._core.length

    @property
    def state(self) -> WriterState:
        return self._core.state

    # -------------------------------------------------------------------------------------------------------- appends

    async def append(self, payload: bytes) -> int:
        """Append an entry; returns its id when it is acknowledged: it is in the ledger for good. Waits while there is
        no room for it.

        If it is cancelled while it waits for room, nothing is appended. If it is cancelled later, the outcome is
        unknown: the entry is on its way.

        Raises LedgerClosedError, LedgerFencedError, AppendUnknownError, SealedError, EntryTooLargeError,
        BackpressureError.
        """
        ticket = Ticket(self)
        self._tickets[ticket] = None
        self._driven.give(Append(payload, ticket))
        try:
            return await ticket.done()
        finally:
            if not ticket.is_over:
                self._cancel(ticket)

    def append_nowait(self, payload: bytes) -> Ticket:
        """Begin to append an entry. The ticket has its id, and waits for the rest (`Ticket.done`). Raises
        BackpressureError if there is no room now, otherwise as `append`."""
        ticket = Ticket(self)
        self._tickets[ticket] = None
        driven, append = self._driven, Append(payload, ticket, may_wait=False)
        # What was given before comes first.
        if not driven.inputs and self._core.append_now(self._parts.now_ms, append):
            self._parts.driving.want(driven)
        else:
            driven.give(append)
            self._parts.driving.step(driven)
            if ticket.is_refused:
                raise self.error_of(ticket.outcome)
        ticket.entry = self._core.last_pushed
        return ticket

    def _cancel(self, ticket: Ticket) -> None:
        """Nobody waits for this append any longer. One that has no id yet is not appended."""
        self._driven.give(Cancel(ticket))
        self._parts.driving.step(self._driven)

    async def flush(self) -> None:
        """Returns when everything that was appended before is acknowledged. Raises the error of the first append that
        is not."""
        for ticket in list(self._tickets):
            await ticket.done()

    # ------------------------------------------------------------------------------------------------------------ end

    async def close(self, *, drain: bool = True) -> None:
        """Close the ledger, after everything that was appended before is acknowledged, or `WriterSettings.drain_ms`
        have passed. With `drain` False at once: what is not acknowledged then is not in the ledger. A second call does
        nothing.

        Raises SealedError if the writer had to close the ledger before; LedgerFencedError, LedgerClosedByOtherError if
        another client was faster; AppendUnknownError if it is not known whether it is closed.
        """
        call = self._parts.call()
        self._driven.give(Close(call, drain))
        outcome = await call.wait()
        if not isinstance(outcome, LedgerClosed):
            raise self.error_of(outcome)
        self._raise_if_sealed(outcome.last)

    def _raise_if_sealed(self, last: int) -> None:
        ended = self._ended
        if ended is not None and ended.reason in SEALS:
            raise self._error(NotAppended(ended.reason), last)

    async def resolve(self) -> Resolved:
        """What became of the entries with an unknown outcome: `written` and `not_written`. Waits until the ledger is
        closed, `WriterSettings.resolve_ms` at most, then raises LedgerFencedError or AppendUnknownError."""
        call = self._parts.call()
        self._driven.give(Resolve(call))
        outcome = await call.wait()
        if isinstance(outcome, Resolved):
            return outcome
        raise self.error_of(outcome)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
            return
        self.seal()
        if isinstance(error, Exception):
            try:
                await self.close(drain=False)
            except LedgerError as also:
                error.add_note(f"the ledger was not closed: {also}")

    def seal(self) -> None:
        """Begin to close the ledger without what is not acknowledged; nobody waits for that. No-op if it has ended."""
        if self._ended is None:
            self._driven.give(Close(self._parts.call(), is_draining=False))

    @property
    def has_ended(self) -> bool:
        """Whether it takes no more appends, and has nothing left to do."""
        return self._ended is not None

    def on_end(self, call: Callable[[], None]) -> None:
        """Call this when it has ended; at once if it has already."""
        if self._ended is None:
            self._on_end.append(call)
        else:
            call()

    # ---------------------------------------------------------------------------------------------------- the driving

    def error_of(self, outcome: Any) -> LedgerError:
        """What this outcome raises."""
        return self._error(outcome, None)

    def _error(self, outcome: Any, last: int | None) -> LedgerError:
        core = self._core
        if last is None and core.versioned.metadata.is_closed:
            last = core.versioned.metadata.last
        return writer_error(self.id, outcome, unknown=core.unknown, last=last, resolve=self.resolve)

    def waiter(self) -> Waiter:
        return self._parts.zk.waiter()

    def forget(self, ticket: Ticket) -> None:
        """This ticket is over."""
        self._tickets.pop(ticket, None)

    def _on_effect(self, effect: Any) -> None:
        match effect:
            case BookieFailed(bookie, why):
                if why == Status.TIMED_OUT.value:
                    self._parts.driving.hang_up(bookie, Status.TIMED_OUT)
            case WriterEnded():
                self._ended = effect
                self._parts.driving.release(self._driven)
                self._parts.open_writers.pop(self, None)
                for call in self._on_end:
                    call()
                self._on_end.clear()


class Creating:
    """What `LedgerStore.create` returns: `async with store.create(…) as ledger`, or `ledger = await store.create(…)`,
    whose caller closes it."""

    def __init__(self, create: Callable[[], Coroutine[Any, Any, LedgerWriter]]) -> None:
        self._create = create
        self._ledger: LedgerWriter | None = None

    def __await__(self) -> Generator[Any, Any, LedgerWriter]:
        return self._create().__await__()

    async def __aenter__(self) -> LedgerWriter:
        self._ledger = ledger = await self._create()
        return ledger

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._ledger is not None
        await self._ledger.__aexit__(kind, error, traceback)
