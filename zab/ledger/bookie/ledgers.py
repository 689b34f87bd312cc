"""The table of ledgers of a bookie: what it knows of each besides its entries.

A ledger comes into the table with the first add, fence or explicit LAC, and leaves it when it is deleted, for the
tombstones. Who fences it fences it for ever.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from typing import Any

import attrs

from zab.ledger.bookie.tombstones import Tombstones
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import ReadEntry


class Ledger:
    """One ledger. Not an attrs class: its fields are looked at for each add."""

    __slots__ = (
        "active",
        "explicit_lac",
        "fence_number",
        "flushing",
        "id",
        "is_fenced",
        "is_limbo",
        "key",
        "lac",
        "lac_packet",
        "lac_time_ms",
        "last",
        "watchers",
    )

    def __init__(self, ledger: int, key: bytes) -> None:
        self.id = ledger
        self.key = key
        """The master key, 20 bytes; all zeros: of a client that knew none."""
        self.is_fenced = False
        """No ordinary add is taken."""
        self.fence_number = 0
        """The number of the append that makes the fence durable; 0: of an earlier start of the bookie."""
        self.is_limbo = False
        """Entries may be lost: that one is not here proves nothing. It is fenced then."""
        self.lac = NONE
        """The highest LAC that came in an envelope or an explicit one."""
        self.lac_time_ms: int | None = None
        """When it was learnt, in milliseconds since 1970."""
        self.explicit_lac = NONE
        self.lac_packet = b""
        """The packet that says `explicit_lac`, as it came."""
        self.last = NONE
        """The highest id of an entry that is here."""
        self.active: dict[int, bytes] | None = None
        """The entries in the active generation of the write cache."""
        self.flushing: dict[int, bytes] | None = None
        """The entries in the generation that is being flushed."""
        self.watchers: dict[Watcher, None] | None = None
        """Long polls that wait for a higher LAC."""

    def cached(self, entry: int) -> bytes | None:
        """An entry that is in the write cache."""
        if self.active is not None and (envelope := self.active.get(entry)) is not None:
            return envelope
        return None if self.flushing is None else self.flushing.get(entry)


@attrs.define(eq=False)
class Watcher:
    """A read that waits for a higher LAC of a ledger (`long_polls.py`)."""

    connection: Hashable
    number: Any
    request: ReadEntry
    ledger: Ledger
    is_done: bool = False


class LedgerTable:
    """All ledgers by their ids, and those that were deleted."""

    def __init__(self) -> None:
        self.tombstones = Tombstones()
        self.by_id: dict[int, Ledger] = {}
        self.watched: set[int] = set()
        """Ledgers of which the metadata name other bookies, and that got no add since (`surplus.py`)."""
        self.emptied: set[int] = set()
        """Ledgers without a live entry here."""

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Ledger]:
        return iter(self.by_id.values())

    def get(self, ledger: int) -> Ledger | None:
        return self.by_id.get(ledger)

    def within(self, first: int, last: int) -> list[int]:
        """The ledgers from `first` to `last` that are here. Looks at these ids, or at all ledgers if they are fewer."""
        if last - first < len(self.by_id):
            return [each for each in range(first, last + 1) if each in self.by_id]
        return [each for each in self.by_id if first <= each <= last]

    def create(self, ledger: int, key: bytes) -> Ledger:
        """A ledger that is neither here nor deleted."""
        assert ledger not in self.by_id
        assert ledger not in self.tombstones
        found = self.by_id[ledger] = Ledger(ledger, key)
        return found

    def delete(self, ledger: int) -> None:
        """Drop a ledger that has a tombstone, if it is here."""
        assert ledger in self.tombstones
        self.by_id.pop(ledger, None)
        self.needs(ledger)

    def needs(self, ledger: int) -> None:
        """What is added to this ledger from now on is live."""
        self.watched.discard(ledger)
        self.emptied.discard(ledger)

    def empty(self, ledger: Ledger) -> None:
        """Nothing of this ledger is live, except for what is added from now on."""
        self.watched.discard(ledger.id)
        self.emptied.add(ledger.id)
        ledger.last = NONE

    @property
    def live(self) -> Container[int]:
        """The ledgers whose entries are live."""
        return self.by_id if not self.emptied else _Live(self)

    @property
    def highest(self) -> int:
        """The highest id of a ledger that is or was here, -1 without one."""
        return max(max(self.by_id, default=-1), self.tombstones.last)


@attrs.frozen(eq=False)
class _Live:
    """The ledgers of a table that are not emptied."""

    table: LedgerTable

    def __contains__(self, ledger: object) -> bool:
        return ledger in self.table.by_id and ledger not in self.table.emptied
