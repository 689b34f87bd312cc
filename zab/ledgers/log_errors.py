"""What managed ledgers raise, beside `zab.ledgers.errors`.

    LedgerError
    └─ LogError
       ├─ NoSuchLogError
       ├─ NoSuchCursorError
       ├─ NotWritableError       no ledger could be written in time, or there is no room now
       ├─ LogFencedError         another owner has the log; `unknown`
       ├─ LogTerminatedError
       ├─ LogClosedError         this owner was closed by its caller
       ├─ ContendedError         others claim the log again and again
       ├─ OffloadError           closed ledgers could not be copied to the object store
       │   ├─ OffloadUnavailableError   a copy cannot be read now
       │   └─ OffloadDamagedError       a copy is not what was written
       ├─ TrimmedError           what is to be read is gone; `first`
       ├─ LogDamagedError        the list contradicts its ledgers
       └─ LogContentError        it is no log of changes, or not of those that are asked for

`definite` says of an append whether it is certain that the entry is not in the log, and never will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zab.ledger.managed.events import Failed, LogAppendUnknown, LogEnded, LogNotAppended, LogReason
from zab.ledger.managed.log_info import Position
from zab.ledgers.errors import (
    AppendUnknownError,
    BackpressureError,
    EntryTooLargeError,
    LedgerError,
    MetadataUnavailableError,
)


class LogError(LedgerError):
    """Everything that managed ledgers raise on purpose. `log`: its name."""

    def __init__(self, text: str, log: str, *, definite: bool | None = None) -> None:
        super().__init__(f"log {log}: {text}", definite=definite)
        self.log = log


class NoSuchLogError(LogError):
    """There is no such log, or it is being deleted."""


class NoSuchCursorError(LogError):
    """The log has no such cursor."""


class NotWritableError(LogError):
    """Nothing could be appended for too long: bookies or the coordination service are away. It may be tried again."""


class LogFencedError(LogError):
    """Another owner has claimed the log: this one can append nothing more. `unknown`: positions of this owner's entries
    that may be in the log."""

    def __init__(self, text: str, log: str, unknown: Sequence[Position] = (), *, definite: bool = False) -> None:
        super().__init__(text, log, definite=definite)
        self.unknown = tuple(unknown)


class LogTerminatedError(LogError):
    """The log has an end, and nobody appends to it."""


class LogClosedError(LogError):
    """This owner was closed by its caller, or its log deleted."""


class ContendedError(LogError):
    """Others claim the log again and again."""


class TrimmedError(LogError):
    """What is to be read is gone. `first`: before the first entry that is there."""

    def __init__(self, text: str, log: str, first: Position) -> None:
        super().__init__(text, log)
        self.first = first


class OffloadError(LogError):
    """A closed ledger could not be copied to the object store, or no store is set. Nothing is lost by that."""


class OffloadUnavailableError(OffloadError):
    """The copy of a ledger cannot be read now; it may be tried again."""


class OffloadDamagedError(OffloadError):
    """The copy of a ledger is not what was written."""


class LogDamagedError(LogError):
    """The list contradicts the ledgers that it names: somebody else has written or deleted one."""

    definite = False


class LogContentError(LogError):
    """Its entries are none of a feed of changes, or of one that does not have what is asked for."""


_KINDS: dict[LogReason, type[LogError]] = {
    LogReason.CLOSED: LogClosedError,
    LogReason.DELETED: LogClosedError,
    LogReason.TERMINATED: LogTerminatedError,
    LogReason.NO_SUCH_LOG: NoSuchLogError,
    LogReason.CONTENDED: ContendedError,
    LogReason.NOT_OPEN: NotWritableError,
    LogReason.NOT_WRITABLE: NotWritableError,
    LogReason.DAMAGED: LogDamagedError,
    LogReason.NO_SUCH_CURSOR: NoSuchCursorError,
    LogReason.TOO_MANY_CURSORS: NotWritableError,
    LogReason.LIST_FULL: NotWritableError,
    LogReason.NO_OBJECT_STORE: OffloadError,
    LogReason.NOT_OFFLOADED: OffloadError,
}


def log_error(log: str, outcome: Any, unknown: Sequence[Position] = ()) -> LedgerError:
    """What this outcome raises: LogNotAppended, LogAppendUnknown, Failed, LogEnded. `unknown`: all positions of this
    owner with an unknown outcome."""
    assert isinstance(outcome, LogNotAppended | LogAppendUnknown | Failed | LogEnded), outcome
    reason = outcome.reason
    detail = getattr(outcome, "detail", "")
    text = f"{reason.value}: {detail}" if detail else reason.value
    definite = isinstance(outcome, LogNotAppended)
    if isinstance(outcome, LogAppendUnknown):
        unknown = tuple(dict.fromkeys((*unknown, outcome.position)))
    if reason is LogReason.FENCED:
        return LogFencedError(text, log, unknown, definite=definite)
    if isinstance(outcome, LogAppendUnknown):
        position = outcome.position
        return AppendUnknownError(f"of log {log}: {text}", position.ledger, entries=(position.entry,))
    if reason is LogReason.ENTRY_TOO_LARGE:
        return EntryTooLargeError(f"log {log}: {text}")
    if reason is LogReason.NO_ROOM:
        return BackpressureError(f"log {log}: {text}")
    if reason in (LogReason.COORDINATION, LogReason.UNDECIDED):
        return MetadataUnavailableError(f"log {log}: {text}", definite=definite)
    return _KINDS[reason](text, log)
