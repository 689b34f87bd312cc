"""A managed ledger, as its owner has it, and its cursors.

    async with store.open_log("orders", create=True) as log:        takes it over from any other owner
        position = await log.append(b"…")
        cursor = await log.cursor("billing")
        async for entry in cursor.read():
            cursor.acknowledge(entry.position)

The rules are in `zab.ledger.managed`, whose core is driven here.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from types import TracebackType
from typing import Any, Self

from zab.client.core.backends import Waiter
from zab.ledger.managed.cursor_events import (
    CursorAcknowledge,
    CursorDelete,
    CursorFlush,
    CursorMark,
    CursorOpen,
    CursorOpened,
    CursorProperties,
)
from zab.ledger.managed.cursor_state import check_properties
from zab.ledger.managed.events import (
    CopyLedger,
    Failed,
    LogAppend,
    LogAppended,
    LogAppendUnknown,
    LogCancel,
    LogClose,
    LogDelete,
    LogEnded,
    LogNotAppended,
    LogOffload,
    LogOpened,
    LogRoll,
    LogTerminate,
    LogTrim,
    Offloaded,
    OwnerState,
    RemoveObjects,
    SweepObjects,
    Terminated,
    Trimmed,
)
from zab.ledger.managed.log_info import LogInfo, Position
from zab.ledger.managed.owner import LogOwner
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import BookieFailed
from zab.ledgers.call import Call
from zab.ledgers.copying import LogObjects
from zab.ledgers.errors import LedgerError
from zab.ledgers.log_errors import log_error
from zab.ledgers.log_reading import LogEntries, StoreOfLogs


class LogTicket:
    """An append under way."""

    __slots__ = ("_log", "_waiters", "outcome")

    def __init__(self, log: ManagedLog) -> None:
        self._log = log
        self.outcome: LogAppended | LogNotAppended | LogAppendUnknown | None = None
        """None while it is under way."""
        self._waiters: list[Waiter] = []

    @property
    def is_over(self) -> bool:
        """Whether `done` returns or raises at once."""
        return self.outcome is not None

    async def done(self) -> Position:
        """Where the entry is, once it is acknowledged. Raises as `ManagedLog.append`."""
        if self.outcome is None:
            waiter = self._log.waiter()
            self._waiters.append(waiter)
            await waiter.wait()
        outcome = self.outcome
        if isinstance(outcome, LogAppended):
            return outcome.position
        raise self._log.error_of(outcome)

    def complete(self, outcome: Any) -> None:
        """Called by the driving."""
        self.outcome = outcome
        self._log.forget(self)
        for waiter in self._waiters:
            waiter.wake()


class ManagedLog:
    """A log that this process owns, made by `LedgerStore.open_log`. Tasks may share it.

    Entries are appended in the order of the calls, and are acknowledged in this order. Leaving the block closes it: its
    ledger gets its end, and the next owner has nothing to recover. An exception in the block leaves what is not
    acknowledged yet out of the log.
    """

    def __init__(self, store: StoreOfLogs, core: LogOwner) -> None:
        self._store = store
        self._core = core
        self._tickets: dict[LogTicket, None] = {}
        self._ended: LogEnded | None = None
        self._waiters: list[Waiter] = []
        self._on_end: list[Callable[[], None]] = []
        self._objects = LogObjects(store, self)
        self._driven = store.driving.drive(core, self._on_effect)
        store.parts.open_writers[self] = None

    def __repr__(self) -> str:
        return f"<ManagedLog {self.name}, {self._core.state.value}, epoch {self._core.epoch}>"

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def state(self) -> OwnerState:
        return self._core.state

    @property
    def epoch(self) -> int:
        """Counts the owners of the log; this one's number."""
        return self._core.epoch

    @property
    def info(self) -> LogInfo:
        """The list of its ledgers, as this owner knows it."""
        assert self._core.info is not None
        return self._core.info

    @property
    def last_confirmed(self) -> Position:
        """The last entry that was acknowledged, by this owner or one before; before everything if there is none."""
        found = self._core.last_confirmed
        assert found is not None
        return found

    async def opened(self, *, is_deleted: bool = False) -> None:
        """Called by `open_log`: returns when appends go on, or when the log turns out to be terminated. `is_deleted`:
        when it is deleted instead."""
        while self._core.state not in (OwnerState.OPEN, OwnerState.TERMINATED):
            if self._ended is not None:
                if is_deleted and self._ended.state is OwnerState.DELETED:
                    await self._objects.settled()
                    return
                raise self.error_of(self._ended)
            await self._changed()

    async def _changed(self) -> None:
        waiter = self.waiter()
        self._waiters.append(waiter)
        await waiter.wait()

    # -------------------------------------------------------------------------------------------------------- appends

    async def append(self, payload: bytes) -> Position:
        """Append an entry; returns its position when it is acknowledged: it is in the log for good. Waits while there
        is no room for it, and while a ledger follows another one.

        If it is cancelled while it waits, nothing is appended. If it is cancelled later, the outcome is unknown.

        Raises LogFencedError, LogClosedError, LogTerminatedError, NotWritableError, AppendUnknownError,
        EntryTooLargeError, BackpressureError.
        """
        ticket = LogTicket(self)
        self._tickets[ticket] = None
        self._driven.give(LogAppend(payload, ticket))
        try:
            return await ticket.done()
        finally:
            if not ticket.is_over:
                self._driven.give(LogCancel(ticket))
                self._tickets.pop(ticket, None)

    def append_nowait(self, payload: bytes) -> LogTicket:
        """Begin to append an entry; the ticket waits for the rest (`LogTicket.done`). Raises BackpressureError if there
        is no room now, otherwise as `append`."""
        ticket = LogTicket(self)
        self._tickets[ticket] = None
        self._driven.give(LogAppend(payload, ticket, may_wait=False))
        self._store.driving.step(self._driven)
        if isinstance(ticket.outcome, LogNotAppended):
            raise self.error_of(ticket.outcome)
        return ticket

    async def flush(self) -> None:
        """Returns when everything that was appended before is acknowledged. Raises the error of the first append that
        is not."""
        for ticket in list(self._tickets):
            await ticket.done()

    # ------------------------------------------------------------------------------------------------------- the list

    async def roll(self) -> None:
        """End the open ledger, unless it is empty; another one follows."""
        await self._ask(LogRoll)

    async def trim(self) -> Trimmed:
        """Delete the ledgers that `LogSettings` no longer keep, and that every cursor has consumed."""
        trimmed: Trimmed = await self._ask(LogTrim)
        await self._objects.settled()
        return trimmed

    async def offload(self) -> int:
        """Copy every closed ledger to the object store of `LogSettings.offload` now, and let bookies drop those whose
        time is over; returns how many were copied. Raises OffloadError; the next try is made by itself."""
        offloaded: Offloaded = await self._ask(LogOffload)
        return offloaded.ledgers

    @property
    def offload_trouble(self) -> str:
        """Why the last copy failed, or the last objects could not be removed; empty if nothing is wrong."""
        return self._core.offloading.trouble or self._objects.trouble

    async def terminate(self) -> Position:
        """End the log, for ever; returns its last position. It can be read, and cursors go on."""
        terminated: Terminated = await self._ask(LogTerminate)
        return terminated.last

    async def delete(self) -> None:
        """Delete the log, with its ledgers and cursors. This owner is over then."""
        await self._ask(LogDelete)
        await self._objects.settled()

    async def close(self, *, drain: bool = True) -> None:
        """Stop to own the log: everything that was appended is acknowledged, the ledger gets its end, and the next
        owner opens faster. With `drain` False what is not acknowledged yet is not in the log, or its outcome is
        unknown. A second call does nothing."""
        if self._ended is None or self.state is OwnerState.TERMINATED:
            await self._ask(LogClose, drain)
        await self._objects.settled()

    async def _ask(self, question: Callable[..., Any], *given: Any) -> Any:
        call = self._store.parts.call()
        self._driven.give(question(call, *given))
        outcome = await call.wait()
        if isinstance(outcome, Failed):
            raise self.error_of(outcome)
        return outcome

    async def lost(self) -> LedgerError:
        """Returns, with the reason, when this owner can append nothing more and its caller did not want that: fenced by
        another one, or without a session. Returns the LogClosedError after a close, too."""
        while self._ended is None:
            await self._changed()
        return self.error_of(self._ended)

    # -------------------------------------------------------------------------------------------------------- reading

    async def cursor(self, name: str, *, earliest: bool = True) -> LogCursor:
        """The cursor of this name, which is made if there is none: before the first entry, or, with `earliest` False,
        after the last one that is acknowledged now. Raises NotWritableError if the log has too many."""
        call = self._store.parts.call()
        self._driven.give(CursorOpen(call, name, earliest))
        outcome = await call.wait()
        if isinstance(outcome, CursorOpened):
            return LogCursor(self, name)
        raise self.error_of(outcome)

    @property
    def cursors(self) -> tuple[str, ...]:
        """The names of all cursors."""
        return self._core.cursors.names

    async def delete_cursor(self, name: str) -> None:
        """Raises NoSuchCursorError."""
        await self._ask(CursorDelete, name)

    def read(self, after: Position | None = None, *, follow: bool = False) -> LogEntries:
        """The entries after a position, or all; with `follow` also those to come."""
        core = self._core
        return LogEntries(
            self._store, self.name, core.password, after, is_following=follow, known_end=lambda: core.last_confirmed
        )

    # ------------------------------------------------------------------------------------------------------- its life

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
                error.add_note(f"the log was not closed: {also}")

    def seal(self) -> None:
        """Begin to close it without what is not acknowledged; nobody waits for that."""
        if not self._core.is_over:
            self._driven.give(LogClose(self._store.parts.call(), is_draining=False))

    def on_end(self, call: Callable[[], None]) -> None:
        """Call this when it is over; at once if it is already."""
        if self._core.is_over:
            call()
        else:
            self._on_end.append(call)

    def error_of(self, outcome: Any) -> LedgerError:
        """What this outcome raises."""
        return log_error(self.name, outcome, () if self._ended is None else self._ended.unknown)

    def waiter(self) -> Waiter:
        return self._store.zk.waiter()

    def forget(self, ticket: LogTicket) -> None:
        """This ticket is over."""
        self._tickets.pop(ticket, None)

    @property
    def core(self) -> LogOwner:
        return self._core

    @property
    def password(self) -> bytes:
        return self._core.password

    def call(self) -> Call:
        """A token to wait for."""
        return self._store.parts.call()

    def tell(self, each: Any) -> None:
        """Give the core an input."""
        self._driven.give(each)

    def apply(self) -> None:
        """Let the core take its inputs now."""
        self._store.driving.step(self._driven)

    def _on_effect(self, effect: Any) -> None:
        match effect:
            case BookieFailed(bookie, why):
                if why == Status.TIMED_OUT.value:
                    self._store.driving.hang_up(bookie, Status.TIMED_OUT)
            case CopyLedger() | RemoveObjects() | SweepObjects():
                self._objects.take(effect)
            case LogOpened():
                self._wake()
            case LogEnded(state):
                self._ended = effect
                self._wake()
                if state is not OwnerState.TERMINATED:
                    self._objects.end()
                    self._store.driving.release(self._driven)
                    self._store.parts.open_writers.pop(self, None)
                    for call in self._on_end:
                        call()
                    self._on_end.clear()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.wake()


class LogCursor:
    """A durable place in a log: what was consumed, in any order. It belongs to the log's owner."""

    def __init__(self, log: ManagedLog, name: str) -> None:
        self._log = log
        self.name = name

    def __repr__(self) -> str:
        return f"<LogCursor {self.name} of {self._log.name}, {self.mark}>"

    @property
    def mark(self) -> Position:
        """Everything up to it is consumed."""
        return self._log.core.cursors.state(self.name).mark

    @property
    def backlog(self) -> int:
        """How many entries are not consumed."""
        return self._log.core.cursors.backlog(self.name)

    @property
    def properties(self) -> Mapping[str, str]:
        return dict(self._log.core.cursors.state(self.name).properties)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Stored with the cursor, in place of those before. Raises ValueError if names and values have more than
        16 KiB (`PROPERTIES_BYTES_MAX`), TypeError if they are no texts."""
        check_properties(properties)
        self._log.tell(CursorProperties(self.name, dict(properties)))
        self._log.apply()

    def is_acknowledged(self, position: Position) -> bool:
        return self._log.core.cursors.state(self.name).covers(position)

    def acknowledge(self, position: Position, last: int | None = None) -> None:
        """This entry is consumed, or all up to the entry `last` of its ledger. It is stored later (`flush`)."""
        end = position.entry if last is None else last
        self._log.tell(CursorAcknowledge(self.name, position.ledger, position.entry, end))
        self._log.apply()

    async def mark_delete(self, position: Position) -> None:
        """Everything up to this position is consumed; returns when that is stored."""
        self._log.tell(CursorMark(self.name, position))
        await self.flush()

    async def flush(self) -> None:
        """Returns when everything that was acknowledged before is stored. Raises LogFencedError, NoSuchCursorError."""
        call = self._log.call()
        self._log.tell(CursorFlush(call, self.name))
        outcome = await call.wait()
        if isinstance(outcome, Failed):
            raise self._log.error_of(outcome)

    def read(self, *, follow: bool = False) -> LogEntries:
        """The entries that are not acknowledged yet, from the mark on; with `follow` also those to come."""
        entries = self._log.read(self.mark, follow=follow)
        entries.skip(self.is_acknowledged)
        return entries


class OpeningLog:
    """What `LedgerStore.open_log` returns: `async with store.open_log(…) as log`, or `log = await store.open_log(…)`,
    whose caller closes it."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, ManagedLog]]) -> None:
        self._open = open_
        self._log: ManagedLog | None = None

    def __await__(self) -> Generator[Any, Any, ManagedLog]:
        return self._open().__await__()

    async def __aenter__(self) -> ManagedLog:
        self._log = log = await self._open()
        return log

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._log is not None
        await self._log.__aexit__(kind, error, traceback)
