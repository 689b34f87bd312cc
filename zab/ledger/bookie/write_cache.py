"""The write cache: entries that are in no segment yet, in two generations.

Adds go to the active one. `swap` makes it the one that is being flushed, and begins another; `flushed` drops that once
its segment is there.
"""

from __future__ import annotations

from typing import Final

from zab.ledger.bookie.ledgers import Ledger, LedgerTable

ENTRY_OVERHEAD_BYTES: Final = 160
"""What an entry takes in memory besides its envelope, in round numbers."""


class WriteCache:
    """Sizes are bytes of envelopes with `ENTRY_OVERHEAD_BYTES` each."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table
        self._entries: dict[int, dict[int, bytes]] = {}
        self.size = 0
        """The size of the active generation."""
        self.flushing: dict[int, dict[int, bytes]] | None = None
        self.flushing_size = 0

    def open(self, ledger: Ledger) -> dict[int, bytes]:
        """The entries of a ledger in the active generation, to be added to."""
        if ledger.active is None:
            ledger.active = self._entries[ledger.id] = {}
        return ledger.active

    def swap(self) -> dict[int, dict[int, bytes]]:
        """Begin another generation; the entries of the former one by ledger and id, which nobody changes any more."""
        assert self.flushing is None
        self.flushing, self._entries = self._entries, {}
        self.flushing_size, self.size = self.size, 0
        by_id = self._table.by_id
        for each, entries in self.flushing.items():
            ledger = by_id.get(each)
            if ledger is not None:
                ledger.active, ledger.flushing = None, entries
        return self.flushing

    def flushed(self) -> None:
        """The former generation is in a segment."""
        assert self.flushing is not None
        by_id = self._table.by_id
        for each in self.flushing:
            ledger = by_id.get(each)
            if ledger is not None:
                ledger.flushing = None
        self.flushing, self.flushing_size = None, 0

    def forget(self, ledger: Ledger) -> None:
        """A ledger is deleted."""
        if ledger.active is not None:
            self.size -= sum(map(len, ledger.active.values())) + ENTRY_OVERHEAD_BYTES * len(ledger.active)
            del self._entries[ledger.id]
            ledger.active = None
        ledger.flushing = None
