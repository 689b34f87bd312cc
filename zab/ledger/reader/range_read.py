"""One range of entries that is being read: what is wanted, what was found out of order, what may be delivered.

    plan      which entries are wanted now: as many as the buffer has room for, in order
    idle      those that nobody is asked for
    deliver   what is next, in order; entries leave in no other way
    end       the first entry that could not be read ends the range, after those before it were delivered

A wanted entry remembers what each replica said. With all of them asked and nothing found, the metadata are looked at
once more: repair may have moved the entry away from all the bookies that this reader knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator

from attrs import define, field

from zab.ledger.entries.envelope import Entry
from zab.ledger.entries.ids import BookieId
from zab.ledger.reader.events import DigestError, EntryLost, ReaderSettings, ReadOutcome, ReadUnavailable
from zab.ledger.wire.status import Status


@define
class Wanted:
    """One entry. `under_way`: how many bookies are asked now. `damaged`: whose record is not the writer's."""

    entry: int
    said: dict[BookieId, Status] = field(factory=dict)
    damaged: set[BookieId] = field(factory=set)
    under_way: int = 0
    has_looked: bool = False
    look_until_ms: int | None = None
    """While the metadata are read again."""

    def has_answered(self, bookie: BookieId) -> bool:
        return bookie in self.said or bookie in self.damaged

    def failure(self, *, is_proved: bool = True) -> ReadOutcome:
        """Why no replica has served it. Not found comes last, since it would be taken for a proof; it is none if these
        may not be all replicas."""
        if self.damaged:
            return DigestError(self.entry, frozenset(self.damaged))
        if not is_proved or any(not status.proves_absence for status in self.said.values()):
            return ReadUnavailable(self.entry, dict(self.said))
        return EntryLost(self.entry)


@define(eq=False)
class RangeRead:
    """`end`: the last entry that may be read now; a tail raises it."""

    token: Hashable
    next: int
    """The next entry that is delivered."""
    end: int
    _settings: ReaderSettings
    wanted: dict[int, Wanted] = field(factory=dict)
    failed: tuple[int, ReadOutcome] | None = None
    _found: dict[int, tuple[Entry, int]] = field(factory=dict)
    _held: deque[tuple[int, int]] = field(factory=deque)
    """Delivered and not consumed: entries with their bytes."""
    _held_bytes: int = 0
    _largest: int = 0

    @property
    def _unplanned(self) -> int:
        return self.next + len(self.wanted) + len(self._found)

    @property
    def is_over(self) -> bool:
        return self.next > self.end

    def plan(self) -> None:
        """Want as many entries as there is room for; one is always allowed."""
        settings = self._settings
        while self.failed is None and self._unplanned <= self.end:
            expected = (len(self.wanted) + 1) * (self._largest or settings.entry_bytes)
            is_full = len(self.wanted) + len(self._found) >= settings.window_entries
            has_room = not is_full and self._held_bytes + expected <= settings.buffer_bytes
            if not has_room and (self.wanted or self._found or self._held):
                return
            self.wanted[self._unplanned] = Wanted(self._unplanned)

    def idle(self) -> Iterator[Wanted]:
        """What nobody is asked for, in order. What the range ends before is not asked for any more."""
        for wanted in list(self.wanted.values()):
            if wanted.under_way == 0 and wanted.look_until_ms is None:
                if self.failed is not None and wanted.entry >= self.failed[0]:
                    continue
                yield wanted

    def found(self, entry: Entry, size: int) -> None:
        """`size`: of its envelope. Only the first copy counts."""
        if self.wanted.pop(entry.entry, None) is not None:
            self._found[entry.entry] = (entry, size)
            self._held_bytes += size
            self._largest = max(self._largest, size)

    def fail(self, wanted: Wanted, outcome: ReadOutcome) -> None:
        if self.failed is None or wanted.entry < self.failed[0]:
            self.failed = (wanted.entry, outcome)

    def deliver(self) -> tuple[Entry, ...]:
        """What is next."""
        delivered = []
        while (found := self._found.pop(self.next, None)) is not None:
            entry, size = found
            delivered.append(entry)
            self._held.append((self.next, size))
            self.next += 1
        return tuple(delivered)

    def consumed(self, entry: int) -> None:
        while self._held and self._held[0][0] <= entry:
            self._held_bytes -= self._held.popleft()[1]

    @property
    def outcome(self) -> ReadOutcome | None:
        """Why it ended early, once everything before was delivered."""
        return self.failed[1] if self.failed is not None and self.failed[0] == self.next else None
