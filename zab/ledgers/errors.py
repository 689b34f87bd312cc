"""What the client of ledgers raises.

    LedgerError
    ├─ NoSuchLedgerError
    ├─ NoSuchRootError             no ledgers are kept below this znode
    ├─ NotEnoughBookiesError
    ├─ LedgerClosedError           an append after close
    ├─ LedgerNotClosedError        a ledger is deleted that may still be written
    ├─ LedgerFencedError           another client recovers the ledger; `entries`, `resolve()`
    │   └─ LedgerClosedByOtherError  and has closed it; `last`
    ├─ AppendUnknownError          `entries`, `resolve()`
    ├─ SealedError                 the writer could not go on, and closed the ledger; `__cause__`, `last`
    ├─ EntryTooLargeError
    ├─ BackpressureError           too many appends wait
    ├─ NotConfirmedError           an entry is asked for that is not confirmed; `last_confirmed`
    ├─ EntryLostError              every replica answered, and none has it; `entry`
    ├─ ReadUnavailableError        some replicas could not be asked, asking again may help; `entry`, `said`
    │   └─ LacUnknownError         too few bookies prove what is confirmed; `at_least`
    ├─ DigestError                 every replica that could be read is damaged; `entry`, `bookies`
    ├─ BadPasswordError
    ├─ RecoveryAbortedError        `entry`, `needed`, `answered`, `unknown`
    ├─ MetadataUnavailableError    the coordination service refuses, or does not answer in time
    └─ MetadataConflictError       the metadata break a rule: a bug, or somebody else's writes

`definite` says of an append whether it is certain that the entry is not in the ledger, and never will be; of anything
else, whether it is certain that nothing was changed. If it is False, the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from zab.ledger.entries.ids import BookieId
from zab.ledger.wire.status import Status
from zab.ledger.writer.events import Resolved

__all__ = [
    "AppendUnknownError",
    "BackpressureError",
    "BadPasswordError",
    "DigestError",
    "EntryLostError",
    "EntryTooLargeError",
    "LacUnknownError",
    "LedgerClosedByOtherError",
    "LedgerClosedError",
    "LedgerError",
    "LedgerFencedError",
    "LedgerNotClosedError",
    "MetadataConflictError",
    "MetadataUnavailableError",
    "NoSuchLedgerError",
    "NoSuchRootError",
    "NotConfirmedError",
    "NotEnoughBookiesError",
    "ReadUnavailableError",
    "RecoveryAbortedError",
    "SealedError",
]


class LedgerError(Exception):
    """Everything that the client of ledgers raises on purpose. `ledger`: its id, None if it concerns none."""

    definite: bool = True

    def __init__(self, text: str, ledger: int | None = None, *, definite: bool | None = None) -> None:
        super().__init__(text if ledger is None else f"ledger {ledger}: {text}")
        self.ledger = ledger
        if definite is not None:
            self.definite = definite


class NoSuchLedgerError(LedgerError):
    """There are no metadata of this ledger: it was deleted, or never was."""


class NoSuchRootError(LedgerError):
    """There are no ledgers below this znode: it has to be formatted."""


class NotEnoughBookiesError(LedgerError):
    """Fewer bookies take entries than the ledger needs."""


class LedgerClosedError(LedgerError):
    """The ledger was closed by its writer."""


class LedgerNotClosedError(LedgerError):
    """Only a closed ledger can be deleted, since its writer could go on adding to bookies that have forgotten it."""


class _UndecidedError(LedgerError):
    """`entries`: the entries of this writer whose outcome is unknown."""

    definite = False

    def __init__(
        self,
        text: str,
        ledger: int,
        *,
        entries: Sequence[int] = (),
        resolve: Callable[[], Awaitable[Resolved]] | None = None,
        definite: bool = False,
    ) -> None:
        super().__init__(text, ledger, definite=definite)
        self.entries = tuple(entries)
        self._resolve = resolve

    async def resolve(self) -> Resolved:
        """Which of `entries` are in the ledger: `written`, `not_written`. Waits until the ledger is closed, as long as
        `WriterSettings.resolve_ms`, then raises this error again."""
        if self._resolve is None:
            raise self
        return await self._resolve()


class LedgerFencedError(_UndecidedError):
    """Another client recovers the ledger: this writer can append nothing more."""


class LedgerClosedByOtherError(LedgerFencedError):
    """Another client has closed the ledger. `last`: its last entry; those up to it are in the ledger, with this
    writer's payloads, and no others."""

    definite = True

    def __init__(self, text: str, ledger: int, last: int | None) -> None:
        super().__init__(text, ledger, definite=True)
        self.last = last


class AppendUnknownError(_UndecidedError):
    """The writer cannot say whether the entries are in the ledger."""


class SealedError(LedgerError):
    """The writer could not go on, and closed the ledger after the last entry that it acknowledged. `last`: this entry,
    None if it is not known. The appends that fail with this error are not in the ledger."""

    def __init__(self, text: str, ledger: int, last: int | None = None) -> None:
        super().__init__(text, ledger)
        self.last = last


class EntryTooLargeError(LedgerError):
    """The entry is larger than `WriterSettings.entry_bytes_max`."""


class BackpressureError(LedgerError):
    """There is no room for the append now."""


class NotConfirmedError(LedgerError):
    """An entry is asked for that is after the end, or that is not known to be confirmed."""

    def __init__(self, text: str, ledger: int, last_confirmed: int) -> None:
        super().__init__(text, ledger)
        self.last_confirmed = last_confirmed


class EntryLostError(LedgerError):
    """Every bookie that the newest metadata name has answered, and none has the entry."""

    def __init__(self, text: str, ledger: int, entry: int) -> None:
        super().__init__(text, ledger)
        self.entry = entry


class ReadUnavailableError(LedgerError):
    """The entry could not be read now; asking again may help. `said`: what bookies answered."""

    def __init__(self, text: str, ledger: int, entry: int, said: Mapping[BookieId, Status | None]) -> None:
        super().__init__(text, ledger)
        self.entry = entry
        self.said = dict(said)


class LacUnknownError(ReadUnavailableError):
    """Too few bookies prove anything about the last confirmed entry. `at_least`: what is known."""

    def __init__(self, text: str, ledger: int, at_least: int, said: Mapping[BookieId, Status | None]) -> None:
        super().__init__(text, ledger, at_least, said)
        self.at_least = at_least


class DigestError(LedgerError):
    """Every copy of the entry that could be read is damaged. `bookies`: where these are."""

    def __init__(self, text: str, ledger: int, entry: int, bookies: frozenset[BookieId]) -> None:
        super().__init__(text, ledger)
        self.entry = entry
        self.bookies = bookies


class BadPasswordError(LedgerError):
    """The ledger has another password."""


class RecoveryAbortedError(LedgerError):
    """The recovery got no further. The ledger stays as it is, fenced perhaps, and may be recovered later.

    entry: the entry that could not be decided or copied, -1 if it is none in particular. needed: how many bookies have
    to answer; answered: who did; unknown: the others, with their last answers.
    """

    definite = False

    def __init__(
        self,
        text: str,
        ledger: int,
        *,
        entry: int,
        needed: int,
        answered: frozenset[BookieId],
        unknown: Mapping[BookieId, Status | None],
    ) -> None:
        super().__init__(text, ledger)
        self.entry = entry
        self.needed = needed
        self.answered = answered
        self.unknown = dict(unknown)


class MetadataUnavailableError(LedgerError):
    """The coordination service refuses, has ended the session, or did not answer in time."""

    definite = False


class MetadataConflictError(LedgerError):
    """The metadata are not what a client of ledgers writes, or were changed against the rules."""

    definite = False
