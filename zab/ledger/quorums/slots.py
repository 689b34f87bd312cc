"""The slots of one entry that is being added: at each index of its write set a bookie, and what it has answered.

    slots = Slots(write_set(entry, E, Qw), ensemble)     sent to these bookies
    slots.acknowledge(bookie)                            True if it counted
    slots.fail(bookie)                                   it will not acknowledge; waits for another one
    slots.repair(ensemble) -> bookies to send to         after the ensemble changed, at any time, any number of times
    slots.acknowledged >= Qa                             complete

One rule replaces the comparison of ensembles: an acknowledgement counts if and only if it came from the bookie that
holds the index in the present ensemble. So a bookie that was replaced and comes back gets the entry again, and a late
answer of one that is gone counts nowhere.

Not here: when an ensemble changes, when entries are released (`zab.ledger.writer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from zab.ledger.entries.ids import BookieId


class SlotState(IntEnum):
    SENT = 0
    ACKED = 1
    FAILED = 2


_SENT: Final = SlotState.SENT
_ACKED: Final = SlotState.ACKED
_FAILED: Final = SlotState.FAILED


class Slots:
    """`indexes`: of the ensemble, the write set; the other lists are in the same order."""

    __slots__ = ("acknowledged", "bookies", "indexes", "states")

    def __init__(self, indexes: tuple[int, ...], ensemble: Sequence[BookieId]) -> None:
        self.indexes = indexes
        self.bookies = list(map(ensemble.__getitem__, indexes))
        self.states = [_SENT] * len(indexes)
        self.acknowledged = 0
        """How many slots are ACKED."""

    def acknowledge(self, bookie: BookieId) -> bool:
        """This bookie has the entry. False: it holds no slot, or was counted before."""
        if bookie not in self.bookies:
            return False
        at = self.bookies.index(bookie)
        if self.states[at] == _ACKED:
            return False
        self.states[at] = _ACKED
        self.acknowledged += 1
        return True

    def fail(self, bookie: BookieId) -> bool:
        """This bookie will not acknowledge what it was sent. An acknowledgement stays. False: it holds no such slot."""
        if bookie not in self.bookies:
            return False
        at = self.bookies.index(bookie)
        if self.states[at] != _SENT:
            return False
        self.states[at] = _FAILED
        return True

    def repair(self, ensemble: Sequence[BookieId], failed: frozenset[BookieId] = frozenset()) -> list[BookieId]:
        """Bring the slots to the present ensemble: to whom the entry has to be sent now. A failed slot whose bookie
        stays is sent again, unless the bookie is in `failed`: its own replacement is still being prepared."""
        to_send = []
        for at, index in enumerate(self.indexes):
            bookie = ensemble[index]
            if self.bookies[at] != bookie:
                self.acknowledged -= self.states[at] == _ACKED
                self.bookies[at] = bookie
            elif self.states[at] != _FAILED or bookie in failed:
                continue
            self.states[at] = _SENT
            to_send.append(bookie)
        return to_send

    def waits_for(self, bookie: BookieId) -> bool:
        """Whether this bookie was sent the entry and has not answered."""
        return bookie in self.bookies and self.states[self.bookies.index(bookie)] == _SENT

    def __repr__(self) -> str:
        shown = (f"{i}:{b}={s.name}" for i, b, s in zip(self.indexes, self.bookies, self.states, strict=True))
        return f"Slots({', '.join(shown)})"
