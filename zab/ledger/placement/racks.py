"""Ensembles over racks: a search that keeps every write set on enough racks, or breaks as few as possible.

The write sets of an ensemble are its windows: Qw consecutive members, cyclically. A window is broken if its members are
in fewer racks than needed. Bookies of one rack are alike here, so the search goes over racks, and takes the bookies of
a rack in the order in which they are given.

Not here: which bookies may be chosen, in which order (`placement`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zab.ledger.entries.ids import BookieId
from zab.ledger.placement.nodes import BookieNode
from zab.ledger.quorums.write_sets import write_sets

STEPS_MAX: Final = 2_000
"""The most choices that one search tries."""
SEARCHES_MAX: Final = 5
"""The most searches that give up, before any ensemble is taken."""


def broken_windows(racks: Sequence[str | None], write_quorum: int, needed: int) -> int:
    """How many windows cannot be in `needed` racks. None: not chosen yet, so it may be any rack."""
    return sum(_is_broken(racks, window, needed) for window in write_sets(len(racks), write_quorum))


def broken_around(racks: Sequence[str | None], index: int, write_quorum: int, needed: int) -> int:
    """How many of the windows that this index is in cannot be in `needed` racks."""
    windows = write_sets(len(racks), write_quorum)
    return sum(_is_broken(racks, windows[index - back], needed) for back in range(write_quorum))


def _is_broken(racks: Sequence[str | None], window: tuple[int, ...], needed: int) -> bool:
    members = [racks[index] for index in window]
    return len(set(members) - {None}) + members.count(None) < needed


def find_ensemble(
    candidates: Sequence[BookieNode], size: int, write_quorum: int, needed: int, broken_max: int
) -> tuple[BookieId, ...] | None:
    """An ensemble with few broken windows, at most `broken_max`; candidates that come first are preferred. None: none
    was found. The fewest possible, unless a search reaches STEPS_MAX."""
    given_up = 0
    for broken in range(broken_max + 1):
        search = _Search(candidates, size, write_quorum, needed, broken)
        if search.go_on(0):
            return tuple(search.ensemble)
        given_up += search.steps >= STEPS_MAX
        if given_up == SEARCHES_MAX:
            search = _Search(candidates, size, write_quorum, needed, broken_max)
            return tuple(search.ensemble) if search.go_on(0) else None
    return None


class _Search:
    """Depth first over the indexes; at each, the racks in the order of their next bookies."""

    def __init__(
        self, candidates: Sequence[BookieNode], size: int, write_quorum: int, needed: int, broken_max: int
    ) -> None:
        self.steps = 0
        self.ensemble: list[BookieId] = []
        self._left: dict[str, list[tuple[int, BookieId]]] = {}
        """Rack → its bookies that are left with their places among the candidates, the next one last."""
        for place in reversed(range(len(candidates))):
            candidate = candidates[place]
            self._left.setdefault(candidate.rack, []).append((place, candidate.id))
        self._racks: list[str | None] = [None] * size
        self._write_quorum = write_quorum
        self._needed = needed
        self._broken = 0
        self._broken_max = broken_max

    def go_on(self, index: int) -> bool:
        """Choose bookies for this index and all after it."""
        if index == len(self._racks):
            return True
        for rack in sorted(filter(self._left.get, self._left), key=lambda each: self._left[each][-1]):
            if self.steps >= STEPS_MAX:
                break
            self.steps += 1
            broken = self._broken
            self._broken -= self._around(index)
            self._racks[index] = rack
            self._broken += self._around(index)
            if self._broken <= self._broken_max:
                chosen = self._left[rack].pop()
                self.ensemble.append(chosen[1])
                if self.go_on(index + 1):
                    return True
                self.ensemble.pop()
                self._left[rack].append(chosen)
            self._racks[index], self._broken = None, broken
        return False

    def _around(self, index: int) -> int:
        return broken_around(self._racks, index, self._write_quorum, self._needed)
