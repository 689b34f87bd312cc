"""What a reader is asked, beyond `ClientInput`, what it says, beyond `Send` and `Submit`, and its settings.

Every question has a token of the caller's, and ends with one `Completed(token, ReadOutcome)`. Entries come before that,
in order, as `Delivered`; the caller says with `Consumed` what it has taken, and no more than `buffer_bytes` are read
ahead of that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from zab.ledger.entries.envelope import Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.wire.status import Status

MIB: Final = 1 << 20


@frozen
class ReaderSettings:
    """Limits of the reader of one ledger."""

    buffer_bytes: int = 16 * MIB
    """For each question: what is under way, out of order, or delivered and not consumed; always one entry."""
    window_entries: int = 256
    """For each question: the most entries under way or out of order."""
    batch_bytes: int = MIB
    """What one batch read asks for. Batches need consecutive entries on one bookie, so E = Qw."""
    batch_entries: int = 128
    entry_bytes: int = MIB
    """What an entry counts as before any was seen; after that, an entry that is not read yet counts as the largest."""
    request_timeout_ms: int = 5_000
    hedge_ms: int = 50
    """A read that takes longer than this, and than three times the 99th percentile of its bookie, is asked elsewhere
    too."""
    hedges_share: float = 0.05
    """The most reads that are asked twice, of all."""
    memory_ms: int = 60_000
    """How long a bookie that failed or was slow is asked after the others."""
    retry_ms: int = 100
    """The shortest time between two long polls, or attempts to prove a LAC, that bring nothing; doubles each time."""
    retry_max_ms: int = 2_000
    poll_ms: int = 10_000
    """How long a bookie holds a long poll."""
    patience_ms: int = 30_000
    """How long a question waits for the metadata before it fails."""


# ------------------------------------------------------------------------------------------------------------- inputs


@frozen
class ReadRange:
    """Entries from `first` to `last`. Those above the last confirmed entry are refused, except with `is_unconfirmed`:
    such an entry may be gone later, so this is for tools."""

    token: Hashable
    first: int
    last: int
    is_unconfirmed: bool = False


@frozen
class Tail:
    """Entries from `first` on, as they are confirmed, until the ledger is closed."""

    token: Hashable
    first: int


@frozen
class LearnLac:
    """What is the last confirmed entry?"""

    token: Hashable


@frozen
class Consumed:
    """The caller has taken everything up to this entry."""

    token: Hashable
    entry: int


@frozen
class Stop:
    """The caller does not want the answer any longer: none comes."""

    token: Hashable


Question: TypeAlias = ReadRange | Tail | LearnLac | Consumed | Stop

# ------------------------------------------------------------------------------------------------------------ effects


@frozen
class Delivered:
    """The next entries for the caller."""

    token: Hashable
    entries: tuple[Entry, ...]


@frozen
class ReadDone:
    """Everything was delivered. `last`: the last entry, for a tail that of the closed ledger."""

    last: int


@frozen
class LacLearnt:
    """`lac` was confirmed; what comes after it may be, too."""

    lac: int


@frozen
class LacUnknown:
    """Too few bookies prove anything about the last confirmed entry. One that does not know the ledger may have lost
    it. `at_least`: what is known."""

    at_least: int
    answered: frozenset[BookieId]
    unknown: Mapping[BookieId, Status | None] = field(factory=dict, hash=False)


@frozen
class NotConfirmed:
    """The range goes beyond the last confirmed entry that this reader knows, or beyond the end of a closed ledger."""

    lac: int


@frozen
class EntryLost:
    """All replicas that the newest metadata name answered, and none has the entry. It was confirmed, unless it was
    asked for with `is_unconfirmed`."""

    entry: int


@frozen
class ReadUnavailable:
    """Some replicas could not be asked, or the newest metadata could not be read, and the others do not have the entry.
    Asking again may help."""

    entry: int
    said: Mapping[BookieId, Status] = field(factory=dict, hash=False)


@frozen
class DigestError:
    """Every replica that could be read is damaged. `bookies`: those."""

    entry: int
    bookies: frozenset[BookieId]


@frozen
class LedgerMissing:
    """There is no metadata: the ledger was deleted, or never was."""


@frozen
class WrongPassword:
    """The metadata has another password. No bookie was asked."""


@frozen
class MetadataUnreadable:
    """The metadata are damaged, or the coordination service refuses to show them: then every question ends like this.
    Or it has not shown them in time: then a later question may be answered."""

    reason: str


ReadOutcome: TypeAlias = (
    ReadDone
    | LacLearnt
    | LacUnknown
    | NotConfirmed
    | EntryLost
    | ReadUnavailable
    | DigestError
    | LedgerMissing
    | WrongPassword
    | MetadataUnreadable
)
