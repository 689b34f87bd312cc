"""The ids of deleted ledgers, as runs. Nothing is ever taken out.

Ids are never given out again. A bookie that forgot a deleted ledger would take the adds of a writer that was asleep
while its ledger was recovered and deleted. Ids that follow each other are one run, of 16 bytes: where all ledgers are
on a bookie, a million deletions are a few runs; where it has one of ten, nearly each deletion is a run of its own,
until the ids between them have tombstones too (`gaps.py`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from sys import byteorder
from typing import Final

RUN_ID_BYTES: Final = 8


class Tombstones:
    """A set of ids, kept as runs that neither overlap nor touch."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts = array("q")
        self._lasts = array("q")
        for first, last in runs:
            self.add_run(first, last)

    def __contains__(self, ledger: int) -> bool:
        at = bisect_right(self._firsts, ledger) - 1
        return at >= 0 and ledger <= self._lasts[at]

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The runs, first and last id, ascending."""
        return zip(self._firsts, self._lasts, strict=True)

    @property
    def last(self) -> int:
        """The highest id, -1 without one."""
        return self._lasts[-1] if self._lasts else -1

    def add_run(self, first: int, last: int) -> None:
        """Add the ids from `first` to `last`."""
        assert 0 <= first <= last
        low = bisect_right(self._lasts, first - 2)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high] = array("q", (first,))
        self._lasts[low:high] = array("q", (last,))

    def add_runs(self, runs: Iterable[tuple[int, int]]) -> None:
        """Add many runs, ascending and apart from each other: at the cost of one copy of all."""
        old_firsts, old_lasts, at = self._firsts, self._lasts, 0
        firsts, lasts = array("q"), array("q")
        for first, last in runs:
            assert 0 <= first <= last
            low = max(bisect_right(old_lasts, first - 2), at)
            high = max(bisect_right(old_firsts, last + 1), at)
            firsts += old_firsts[at:low]
            lasts += old_lasts[at:low]
            if low < high:
                first, last = min(first, old_firsts[low]), max(last, old_lasts[high - 1])
            if lasts and lasts[-1] >= first - 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
            at = high
        self._firsts, self._lasts = firsts + old_firsts[at:], lasts + old_lasts[at:]

    def first_from(self, ledger: int) -> int | None:
        """The lowest id from this one on."""
        at = bisect_left(self._lasts, ledger)
        return max(ledger, self._firsts[at]) if at < len(self._lasts) else None

    def gaps(self, begin: int, end: int) -> list[tuple[int, int]]:
        """What is between the runs that have ids from `begin` to `end`, within these bounds."""
        low, high = bisect_left(self._lasts, begin), bisect_right(self._firsts, end)
        return [(self._lasts[at] + 1, self._firsts[at + 1] - 1) for at in range(low, high - 1)]

    def pack(self) -> bytes:
        """The runs as bytes: first and last id of each, big-endian, 8 bytes each."""
        packed = array("q", bytes(2 * RUN_ID_BYTES * len(self)))
        packed[0::2], packed[1::2] = self._firsts, self._lasts
        if byteorder == "little":
            packed.byteswap()
        return packed.tobytes()


def runs_of(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending ids as runs, first and last id."""
    runs: list[tuple[int, int]] = []
    for each in ids:
        if runs and each == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], each)
        else:
            runs.append((each, each))
    return runs
