"""What the owner of a managed ledger is asked, what it answers, and what it asks for.

    LogAppend(payload, token)   ->  Completed(token, LogAppended | LogNotAppended | LogAppendUnknown)
    LogCancel(token)                an append that waits for room never was; one that has been sent goes on
    LogRoll(token)              ->  Completed(token, Done | Failed)     the open ledger ends, another one follows
    LogTrim(token)              ->  Completed(token, Trimmed | Failed)
    LogTerminate(token)         ->  Completed(token, Terminated | Failed)
    LogOffload(token)           ->  Completed(token, Offloaded | Failed)
    LogClose(token)             ->  Completed(token, Done | Failed)
    LogDelete(token)            ->  Completed(token, Done | Failed)

`LogNotAppended` is definite: the entry is not in the log, now or later. `LogAppendUnknown` is not: the next owner keeps
what it finds, so a caller that appends the entry again may make a duplicate.

Beside these it takes `ClientInput`, and asks for `Send` and `Submit` (`zab.ledger.store.events`).
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TypeAlias

from attrs import define, frozen

from zab.coordination.driver import Submit
from zab.ledger.managed.cursor_events import CursorCall
from zab.ledger.managed.log_info import Position
from zab.ledger.store.events import ClientInput, Completed, Send
from zab.ledger.writer.events import BookieFailed, FragmentShort

# ------------------------------------------------------------------------------------------------------------- inputs


@define
class LogAppend:
    """One entry. `may_wait` False: refuse it where it would wait for room."""

    payload: bytes
    token: Hashable
    may_wait: bool = True


@frozen
class LogCancel:
    token: Hashable


@frozen
class LogRoll:
    token: Hashable


@frozen
class LogTrim:
    token: Hashable


@frozen
class LogOffload:
    """Copy every closed ledger that is not in the object store."""

    token: Hashable


@frozen
class LogTerminate:
    """The log ends here, for ever."""

    token: Hashable


@frozen
class LogClose:
    """This owner stops. `is_draining` False: what is not acknowledged now is not in the log."""

    token: Hashable
    is_draining: bool = True


@frozen
class LogDelete:
    """The log goes, with all its ledgers and cursors."""

    token: Hashable


@frozen
class LedgerCopied:
    """The answer to `CopyLedger`. `trouble`: why it is not copied, empty if it is: objects were read back and are
    right."""

    ledger: int
    uid: str
    trouble: str = ""


LogCall: TypeAlias = LogAppend | LogCancel | LogRoll | LogTrim | LogOffload | LogTerminate | LogClose | LogDelete
LogInput: TypeAlias = LogCall | LedgerCopied | CursorCall | ClientInput

# ------------------------------------------------------------------------------------------------------------ outcomes


class OwnerState(Enum):
    """What the owner's object does."""

    CLAIMING = "claiming"
    RECOVERING = "recovering"
    """The ledger of the owner before is closed."""
    CREATING = "creating"
    OPEN = "open"
    ROLLING = "rolling"
    """Between two ledgers: appends wait."""
    ENDING = "ending"
    """Its caller closes, terminates or deletes it."""
    TERMINATED = "terminated"
    CLOSED = "closed"
    DELETED = "deleted"
    FENCED = "fenced"
    """Another owner has claimed the log."""
    FAILED = "failed"


class LogReason(Enum):
    """Why an owner takes no more appends, or refuses one."""

    CLOSED = "it is closed by its caller"
    TERMINATED = "the log is terminated"
    DELETED = "the log is deleted"
    NO_SUCH_LOG = "there is no such log"
    FENCED = "another owner has claimed the log"
    CONTENDED = "others claim the log again and again"
    NOT_OPEN = "the log is not open yet"
    NOT_WRITABLE = "no ledger could be written in time, since bookies or the coordination service are away"
    UNDECIDED = "the end of its ledger was not decided in time"
    ENTRY_TOO_LARGE = "the entry is too large"
    NO_ROOM = "too many entries wait already"
    DAMAGED = "the list of its ledgers contradicts the ledgers"
    COORDINATION = "the coordination service refuses"
    NO_SUCH_CURSOR = "there is no such cursor"
    TOO_MANY_CURSORS = "the log has too many cursors"
    NO_OBJECT_STORE = "no object store is set (LogSettings.offload)"
    NOT_OFFLOADED = "a ledger could not be copied to the object store"
    LIST_FULL = "its list has room for no more ledgers"


@frozen
class LogAppended:
    """It is in the log, and will be read by everybody."""

    position: Position


@frozen
class LogNotAppended:
    """It is not in the log, and never will be."""

    reason: LogReason


@frozen
class LogAppendUnknown:
    """It is in the log at this position, or nowhere."""

    position: Position
    reason: LogReason


@frozen
class Done:
    """It is done."""


@frozen
class Trimmed:
    """So many ledgers are gone. `first`: before the first entry that is there now."""

    ledgers: int
    first: Position


@frozen
class Offloaded:
    """Every ledger that was closed is in the object store; so many were copied for this."""

    ledgers: int


@frozen
class Terminated:
    """The log ends with this position."""

    last: Position


@frozen
class Failed:
    """It is not done, or not as far as this owner knows."""

    reason: LogReason
    detail: str = ""


# ------------------------------------------------------------------------------------------------------------- effects


@frozen
class LogOpened:
    """The takeover is complete: appends go to this ledger."""

    epoch: int
    ledger: int


@frozen
class LedgerRolled:
    """Appends go to this ledger now."""

    ledger: int


@frozen
class LogEnded:
    """This owner takes no more appends, for ever. Told once. `unknown`: positions whose entries may be in the log."""

    state: OwnerState
    reason: LogReason
    detail: str = ""
    unknown: tuple[Position, ...] = ()


@frozen
class CopyLedger:
    """Copy this closed ledger into two objects in `uri`, read them back, compare, and say `LedgerCopied`."""

    ledger: int
    uid: str
    uri: str
    block_bytes: int


@frozen
class ObjectsOf:
    """The objects of one copy."""

    uri: str
    ledger: int
    uid: str


@frozen
class RemoveObjects:
    """The list no longer names these copies: remove their objects."""

    objects: tuple[ObjectsOf, ...]


@frozen
class SweepObjects:
    """List the objects of this log in `uri`; then read the list, and remove those of copies that it does not name."""

    uri: str


ForObjects: TypeAlias = CopyLedger | RemoveObjects | SweepObjects
LogEffect: TypeAlias = (
    Send | Submit | Completed | FragmentShort | BookieFailed | LogOpened | LedgerRolled | LogEnded | ForObjects
)
