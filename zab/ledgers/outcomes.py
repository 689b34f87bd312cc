"""From what the cores say to what callers are told: results, or the errors of `errors`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from zab.client import ZabError
from zab.coordination.operations import CoordinationError
from zab.ledger.metadata.changes import ForbiddenChangeError
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.placement import placement
from zab.ledger.reader.events import (
    DigestError as Damaged,
)
from zab.ledger.reader.events import (
    EntryLost,
    LacUnknown,
    LedgerMissing,
    MetadataUnreadable,
    NotConfirmed,
    ReadUnavailable,
    WrongPassword,
)
from zab.ledger.recovery.events import BadPassword, NoSuchLedger, RecoveryAborted
from zab.ledger.writer.events import AppendUnknown, CloseFailed, NotAppended, Reason, Resolved, Unresolved
from zab.ledgers.errand import Raised, SessionOver
from zab.ledgers.errors import (
    AppendUnknownError,
    BackpressureError,
    BadPasswordError,
    DigestError,
    EntryLostError,
    EntryTooLargeError,
    LacUnknownError,
    LedgerClosedByOtherError,
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    MetadataConflictError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    NotConfirmedError,
    NotEnoughBookiesError,
    ReadUnavailableError,
    RecoveryAbortedError,
    SealedError,
)

SEALS: Final = frozenset(
    {Reason.NOT_ENOUGH_BOOKIES, Reason.TOO_MANY_CHANGES, Reason.QUORUM_TIMEOUT, Reason.METADATA_TOO_LARGE}
)
"""Why a writer closes its ledger by itself."""

Resolve = Callable[[], Awaitable[Resolved]]


def writer_error(
    ledger: int,
    outcome: NotAppended | AppendUnknown | CloseFailed | Unresolved,
    *,
    unknown: range = range(0),
    last: int | None = None,
    resolve: Resolve | None = None,
) -> LedgerError:
    """What an append, a close or a resolve raises. `unknown`: the writer's entries with an unknown outcome. `last`: the
    end of the ledger, if it is known."""
    reason = outcome.reason
    definite = isinstance(outcome, NotAppended)
    if isinstance(outcome, CloseFailed) and outcome.last is not None:
        last = outcome.last
    match reason:
        case Reason.CLOSED:
            return LedgerClosedError(reason.value, ledger)
        case Reason.ENTRY_TOO_LARGE:
            return EntryTooLargeError(reason.value, ledger)
        case Reason.NO_ROOM:
            return BackpressureError(reason.value, ledger)
        case Reason.CLOSED_BY_OTHER:
            return LedgerClosedByOtherError(reason.value, ledger, last)
        case Reason.FENCED:
            return LedgerFencedError(reason.value, ledger, entries=unknown, resolve=resolve, definite=definite)
    if definite and reason in SEALS:
        error: LedgerError = SealedError(f"{reason.value}, so it was closed", ledger, last)
        error.__cause__ = _cause(ledger, reason)
    elif definite:
        error = _cause(ledger, reason) or MetadataUnavailableError(reason.value, ledger, definite=True)
    else:
        error = AppendUnknownError(reason.value, ledger, entries=unknown, resolve=resolve)
        error.__cause__ = _cause(ledger, reason)
    return error


def _cause(ledger: int, reason: Reason) -> LedgerError | None:
    match reason:
        case Reason.NOT_ENOUGH_BOOKIES:
            return NotEnoughBookiesError(reason.value, ledger)
        case Reason.UNAUTHORIZED:
            return BadPasswordError(reason.value, ledger)
        case Reason.DELETED:
            return NoSuchLedgerError(reason.value, ledger)
        case Reason.CONFLICT:
            return MetadataConflictError(reason.value, ledger)
        case Reason.COORDINATION | Reason.UNDECIDED:
            return MetadataUnavailableError(reason.value, ledger)
    return None


def reader_error(ledger: int, outcome: object) -> LedgerError:
    """What a question to a reader raises, if the outcome is no answer."""
    match outcome:
        case LacUnknown(at_least, answered, unknown):
            text = f"{len(answered)} bookies prove nothing about the last confirmed entry beyond {at_least}"
            return LacUnknownError(f"{text}: {_said(unknown)}", ledger, at_least, unknown)
        case NotConfirmed(lac):
            return NotConfirmedError(f"entries up to {lac} may be read", ledger, lac)
        case EntryLost(entry):
            return EntryLostError(f"no bookie has entry {entry}", ledger, entry)
        case ReadUnavailable(entry, said):
            return ReadUnavailableError(f"entry {entry} cannot be read now: {_said(said)}", ledger, entry, said)
        case Damaged(entry, bookies):
            names = ", ".join(sorted(bookies))
            return DigestError(f"every copy of entry {entry} is damaged: {names}", ledger, entry, bookies)
        case LedgerMissing():
            return NoSuchLedgerError("there is no such ledger", ledger)
        case WrongPassword():
            return BadPasswordError("it has another password", ledger)
        case MetadataUnreadable(reason):
            return MetadataUnavailableError(reason, ledger, definite=True)
    raise AssertionError(outcome)


def recovery_error(ledger: int, outcome: object) -> LedgerError:
    """What a recovery raises that has not closed the ledger."""
    match outcome:
        case RecoveryAborted():
            text = f"the recovery got no further ({outcome.reason})"
            if outcome.unknown:
                text += f": {_said(outcome.unknown)}"
            return RecoveryAbortedError(
                text,
                ledger,
                entry=outcome.entry,
                needed=outcome.needed,
                answered=outcome.answered,
                unknown=outcome.unknown,
            )
        case NoSuchLedger():
            return NoSuchLedgerError("there is no such ledger", ledger)
        case BadPassword():
            return BadPasswordError("it has another password", ledger)
    raise AssertionError(outcome)


def errand_error(ledger: int | None, outcome: Raised | SessionOver, session_end: ZabError | None) -> LedgerError:
    """What a read or a change of metadata raises."""
    if isinstance(outcome, SessionOver):
        error: LedgerError = MetadataUnavailableError("the session with the coordination service is over", ledger)
        error.__cause__ = session_end
        return error
    cause = outcome.error
    match cause:
        case placement.NotEnoughBookiesError():
            error = NotEnoughBookiesError(str(cause), ledger)
        case InvalidMetadataError() | ForbiddenChangeError():
            error = MetadataConflictError(str(cause), ledger)
        case CoordinationError():
            error = MetadataUnavailableError(f"the coordination service refuses {cause}", ledger)
        case _:
            raise AssertionError(cause)
    error.__cause__ = cause
    return error


def _said(said: object) -> str:
    """What bookies answered."""
    assert hasattr(said, "items")
    found = [
        f"{bookie} {'has not answered' if status is None else f'said {status.value}'}"
        for bookie, status in said.items()
    ]
    return ", ".join(found) or "no bookie is left to ask"
