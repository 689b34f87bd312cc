"""Which ledgers are emptied: closed ones, of which the metadata name this bookie in no fragment. It was replaced while
it was away, and came back; others have the copies.

    a round           the metadata of all ledgers with entries here, `READ_TOGETHER` at a time
    candidate         closed, and this bookie is in no fragment. It is watched, and fenced: a closed ledger gets no adds
    still one in the  the lock of its repair is taken; the metadata are read once more; there must be no record that
    next round        it lacks copies
    limbo, durable    from now on "no entry" is never said of it, and the fence stays
    emptied           its entries here are no longer live: compactions leave them out

An add takes a ledger off the watch, and an emptied one back (`LedgerTable.needs`): only recovery and repair add to a
closed ledger, and the metadata name this bookie after the copies are here. So the lock alone does not have to protect
these copies: clients that copy without it need less than a round. The valve is that of collection (`collection.py`).

Nothing but the limbo is stored. After a restart entries that are still in a segment are live, until the rounds find the
ledger again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from zab.coordination.operations import CoordinationError, Get, Result, Sync
from zab.coordination.steps import Steps, read
from zab.ledger.bookie.collection import Candidates, Collection, NoRound
from zab.ledger.bookie.config import BookieConfig
from zab.ledger.bookie.ledgers import LedgerTable
from zab.ledger.entries.ids import NONE, BookieId
from zab.ledger.metadata.layout import INSTANCE_ID
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.paths import ledger_path
from zab.ledger.metadata.repair_locks import lock, read_record, unlock
from zab.ledger.metadata.serialized import decode_metadata

READ_TOGETHER: Final = 200
"""The metadata of so many ledgers are read at a time."""
CONFIRMED_TOGETHER: Final = 20
"""So many ledgers are locked and read again, one after the other."""
PAUSE_MS: Final = 400
"""The pause after either: a round reads 500 ledgers a second at most, as an auditor does."""


def is_surplus(data: bytes, bookie: BookieId) -> bool:
    """Whether the ledger with these metadata is closed, and has no use for this bookie's entries."""
    try:
        metadata = decode_metadata(data)
    except InvalidMetadataError:
        return False
    return metadata.is_closed and bookie not in metadata.bookies


@frozen
class Found:
    """Which of some ledgers are surplus."""

    ledgers: frozenset[int]


def find_surplus(root: str, instance: bytes, bookie: BookieId, mine: Sequence[int]) -> Steps[Found | NoRound]:
    """Which of these ledgers are surplus here. Raises CoordinationError."""
    path = f"{root}/{INSTANCE_ID}"
    (_, known, *found) = yield from read(
        (Sync(root), Get(path), *(Get(ledger_path(root, ledger)) for ledger in mine)),
    )
    if known.is_missing or known.must(path).data != instance:
        return NoRound(f"{path} is not this bookie's")
    return Found(
        frozenset(each for each, result in zip(mine, found, strict=True) if _says_so(root, each, result, bookie))
    )


def _says_so(root: str, ledger: int, result: Result, bookie: BookieId) -> bool:
    # What is gone is collected otherwise.
    return not result.is_missing and is_surplus(result.must(ledger_path(root, ledger)).data, bookie)


def confirm(root: str, bookie: BookieId, ledger: int) -> Steps[bool]:
    """Whether it is surplus while nobody repairs it, by whom the lock is held. Raises CoordinationError."""
    path = ledger_path(root, ledger)
    _, found = yield from read((Sync(path), Get(path)))
    if not _says_so(root, ledger, found, bookie):
        return False
    try:
        record = yield from read_record(root, ledger)
    except InvalidMetadataError:
        return False
    return record is None


class Surplus:
    """The rounds, and what they come to. In the same step the bookie does what `to_fence` and `to_empty` say."""

    def __init__(self, config: BookieConfig, table: LedgerTable, now_ms: int) -> None:
        self._config = config
        self._table = table
        self._round_at_ms = now_ms + config.surplus_ms
        self._go_on_at_ms: int | None = None
        """When a round that has begun, or its confirmations, go on."""
        self._to_read: deque[int] = deque()
        self._asked = 0
        self._found: set[int] = set()
        self._to_confirm: deque[int] = deque()
        self.collection = Collection(config, "are stored here, and their metadata name other bookies")
        self.to_fence: list[int] = []
        self.to_empty: list[int] = []

    @property
    def deadline_ms(self) -> int | None:
        """When `step` has something to do."""
        if not self._config.surplus_ms:
            return None
        return self._round_at_ms if self._go_on_at_ms is None else self._go_on_at_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether `go_on` has something to do."""
        due_ms = self.deadline_ms
        return due_ms is not None and due_ms <= now_ms

    def _begin(self, now_ms: int) -> None:
        mine = sorted(each.id for each in self._table if each.last != NONE)
        self._to_read.extend(mine)
        self._asked, self._found = len(mine), set()
        self._round_at_ms = now_ms + self._config.surplus_ms

    def abandon(self) -> None:
        """The round ended early, and counts as one that has not been."""
        self._to_read.clear()
        self._to_confirm.clear()
        self._go_on_at_ms = None
        self._table.watched.clear()
        self.collection.no_round()

    def go_on(self, root: str, instance: bytes, bookie: BookieId, session: int, now_ms: int) -> Steps[str]:
        """One part of a round, which begins if none is under way. Returns why the round has ended early, or nothing.
        Raises CoordinationError."""
        if self._go_on_at_ms is None:
            self._begin(now_ms)
        self._go_on_at_ms = now_ms + PAUSE_MS
        if self._to_read:
            some = [self._to_read.popleft() for _ in range(min(READ_TOGETHER, len(self._to_read)))]
            found = yield from find_surplus(root, instance, bookie, some)
            if isinstance(found, NoRound):
                self.abandon()
                return found.reason
            self._found |= found.ledgers
            if not self._to_read:
                self._decide()
        else:
            for _ in range(min(CONFIRMED_TOGETHER, len(self._to_confirm))):
                yield from self._confirm(root, bookie, session)
        if not self._to_read and not self._to_confirm:
            self._go_on_at_ms = None
        return ""

    def _decide(self) -> None:
        found = frozenset(self._found)
        agreed = self.collection.decide(Candidates(found, self._asked))
        self._to_confirm.extend(each for each in agreed if each in self._table.watched)
        self._table.watched = set(found)
        self.to_fence += sorted(found)

    def _confirm(self, root: str, bookie: BookieId, session: int) -> Steps[None]:
        ledger = self._to_confirm.popleft()
        if not (yield from lock(root, ledger, bookie, session)):
            return
        try:
            is_sure = yield from confirm(root, bookie, ledger)
        except CoordinationError:
            yield from unlock(root, ledger, session)
            raise
        if is_sure and ledger in self._table.watched:
            # The bookie takes it before the lock goes.
            self.to_empty.append(ledger)
        yield from unlock(root, ledger, session)
