"""The ids of deleted ledgers, as runs. Nothing is ever taken out.

Ids are never given out again. A bookie that forgot a deleted ledger would take the adds of a writer that was asleep
while its ledger was recovered and deleted. Ids that follow each other are one run: where all ledgers are on a bookie,
a million deletions are a few runs; where it has one of ten, nearly each deletion is a run of its own, of 16 bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
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
