"""What a writer is told beside `zab.ledger.store.events`, what it asks for, and how appends end.

    Append(payload, token)   ->  Completed(token, Appended | NotAppended | AppendUnknown)
    Close(token)             ->  Completed(token, LedgerClosed | CloseFailed)
    Resolve(token)           ->  Completed(token, Resolved | Unresolved)
    Cancel(token)                an append that waits for room never was; one that has an id goes on
    Abandon                      another one may write or end the ledger: nothing more is sent

`NotAppended` is definite: the entry is not in the ledger, now or later. `AppendUnknown` is not: recovery may find and
keep the entry, so a caller that appends it elsewhere may make a duplicate. Once the ledger is closed the outcome is
decided: Resolve waits for that.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TypeAlias

from attrs import define, frozen

from zab.coordination.driver import FromCoordination, Submit
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import LedgerState
from zab.ledger.store.events import Answered, BookieLost, BookiesKnown, Completed, Send

# ------------------------------------------------------------------------------------------------------------- inputs


@define
class Append:
    """One entry. `token`: no other append under way has it. `may_wait` False: refuse it where it would wait for
    room."""

    payload: bytes
    token: Hashable
    may_wait: bool = True


@frozen
class Cancel:
    token: Hashable


@frozen
class Close:
    """`is_draining` False: what is not acknowledged now is not in the ledger."""

    token: Hashable
    is_draining: bool = True


@frozen
class Abandon:
    """The host knows that this writer has been replaced: it ends as if a bookie had said FENCED."""


@frozen
class Resolve:
    """Decide what became of the entries with an unknown outcome."""

    token: Hashable


WriterInput: TypeAlias = (
    Append | Cancel | Close | Abandon | Resolve | Answered | BookieLost | BookiesKnown | FromCoordination
)

# ------------------------------------------------------------------------------------------------------------ outcomes


class LedgerNotOpenError(Exception):
    """A writer is made for a ledger that is closed, or that somebody recovers: nobody can write it."""

    def __init__(self, ledger: int, state: LedgerState) -> None:
        super().__init__(f"ledger {ledger} is {state.name}, and cannot be written -> create another one")
        self.ledger = ledger


class WriterState(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    FENCED = "fenced"
    """Somebody recovers the ledger, or has."""
    FAILED = "failed"


class Reason(Enum):
    """Why a writer takes no more appends, or refuses one."""

    CLOSED = "it is closed by its caller"
    FENCED = "another client recovers the ledger"
    CLOSED_BY_OTHER = "another client has closed the ledger"
    NOT_ENOUGH_BOOKIES = "failed bookies cannot be replaced"
    TOO_MANY_CHANGES = "its ensemble changed too often"
    QUORUM_TIMEOUT = "an entry was not acknowledged in time"
    METADATA_TOO_LARGE = "its metadata would become too large"
    UNAUTHORIZED = "a bookie knows the ledger with another password"
    DELETED = "the ledger is deleted"
    CONFLICT = "another client writes to the ledger"
    UNDECIDED = "the coordination service did not decide the end in time"
    COORDINATION = "the coordination service refuses"
    ENTRY_TOO_LARGE = "the entry is too large"
    NO_ROOM = "too many entries wait already"


@frozen
class Appended:
    """It is in the ledger, and will be read by everybody."""

    entry: int


@frozen
class NotAppended:
    """It is not in the ledger, and never will be."""

    reason: Reason


@frozen
class AppendUnknown:
    """It is in the ledger or not."""

    entry: int
    reason: Reason


@frozen
class LedgerClosed:
    """The ledger ends here."""

    last: int
    length: int


@frozen
class CloseFailed:
    """Not closed by this writer. `last`: where another client has closed it, None if that is not known."""

    reason: Reason
    last: int | None = None


@frozen
class Resolved:
    """The ledger is closed: which of the entries with an unknown outcome are in it, and which are not. Entries whose
    callers have had a definite outcome are in neither."""

    last: int
    written: tuple[int, ...]
    not_written: tuple[int, ...]


@frozen
class Unresolved:
    """The ledger was not closed in time; or it is gone."""

    reason: Reason


# ------------------------------------------------------------------------------------------------------------- effects


@frozen
class FragmentShort:
    """A fragment of this ledger ended, and some of its entries, all acknowledged, may be on fewer than Qw bookies. The
    ledger's repair is to be asked for."""

    ledger: int
    first: int
    last: int
    bookies: tuple[BookieId, ...]
    """The members that were replaced."""


@frozen
class BookieFailed:
    """The writer gave up this bookie: its connection is to be closed, if it hangs."""

    bookie: BookieId
    why: str


@frozen
class WriterEnded:
    """The writer takes no more appends. Told once."""

    state: WriterState
    reason: Reason
    detail: str = ""


WriterEffect: TypeAlias = Send | Submit | Completed | FragmentShort | BookieFailed | WriterEnded
