"""A member's history: the batches it has accepted, in order. The newest part is in memory, here; the rest is in the log
files.

A *position* is a pair (zxid, chain): the last zxid of a batch, and the hash of everything up to there. Two members that
hold the same position have the same history up to it. The `base` is the position before the first batch kept here;
every batch above the high-water mark is always kept, so all history that a leader may still cut is in memory.

Invariants: each batch continues the one before it, in zxid and in chain; nothing at or below the mark is ever cut.
"""

from bisect import bisect_right
from collections.abc import Iterable

from datatree.log import batch as codec
from datatree.log.batch import Batch, Position, genesis
from datatree.log.zxid import BEFORE_ALL, Zxid

TRIMMED_PART = 8
"""The share of its limit by which a history that is too large is trimmed."""


def beginning(lineage: bytes) -> Position:
    """The position before any transaction; a member without a lineage yet has no chain."""
    return BEFORE_ALL, genesis(lineage) if lineage else bytes(codec.CHAIN_BYTES)


class History:
    """The newest part of the accepted batches, at most `bytes_max` of what is at or below the mark."""

    def __init__(self, base: Position, batches: Iterable[Batch], bytes_max: int) -> None:
        self.base = base
        self.last = base
        self.batches: dict[Zxid, Batch] = {}
        """By last zxid. Read-only for others."""
        self._ends: list[Zxid] = []
        """These zxids, in order. They only grow at the end, so a list does: a sorted container would cost more."""
        self.size_bytes = 0
        self.bytes_max = bytes_max
        """Above this size the history should be trimmed."""
        for batch in batches:
            self.append(batch)

    def append(self, batch: Batch) -> None:
        """Accept the batch that continues this history."""
        assert codec.follows(self.last[0], batch), (self.last, batch.first)
        zxid = batch.zxid
        self.batches[zxid] = batch
        self._ends.append(zxid)
        self.size_bytes += len(batch.raw)
        self.last = zxid, batch.chain

    def chain_at(self, zxid: Zxid) -> bytes | None:
        """The chain at a position that is kept here, None for any other zxid."""
        if zxid == self.base[0]:
            return self.base[1]
        batch = self.batches.get(zxid)
        return batch.chain if batch is not None else None

    def holds(self, position: Position) -> bool:
        """Whether exactly this position is kept here."""
        return self.chain_at(position[0]) == position[1]

    def floor(self, zxid: int) -> Position | None:
        """The last position at or below a zxid, None when that is older than the base."""
        if zxid < self.base[0]:
            return None
        index = bisect_right(self._ends, zxid)
        if index == 0:
            return self.base
        batch = self.batches[self._ends[index - 1]]
        return batch.zxid, batch.chain

    def after(self, zxid: Zxid, bytes_max: int) -> list[Batch]:
        """The batches after a position, in order: at least one if there is any, then up to `bytes_max`."""
        assert self.chain_at(zxid) is not None, hex(zxid)
        found: list[Batch] = []
        size = 0
        for index in range(bisect_right(self._ends, zxid), len(self._ends)):
            batch = self.batches[self._ends[index]]
            size += len(batch.raw)
            if found and size > bytes_max:
                break
            found.append(batch)
        return found

    def between(self, low: Zxid, high: Zxid) -> list[Batch]:
        """The batches with low < zxid <= high."""
        ends = self._ends
        first, end = bisect_right(ends, low), bisect_right(ends, high)
        if end - first == 1:
            return [self.batches[ends[first]]]
        return [self.batches[zxid] for zxid in ends[first:end]]

    def truncate(self, position: Position) -> None:
        """Cut everything after a position that is kept here."""
        assert self.holds(position), position
        while self._ends and self._ends[-1] > position[0]:
            self.size_bytes -= len(self.batches.pop(self._ends.pop()).raw)
        self.last = position

    def reset(self, base: Position) -> None:
        """Forget everything: a snapshot, or an empty history, replaces this one."""
        self.batches.clear()
        self._ends.clear()
        self.size_bytes = 0
        self.base = self.last = base

    def trim(self, mark: Zxid) -> None:
        """Drop the oldest batches, never one above the mark, since the log files have them; many at a time, which costs
        less."""
        if self.size_bytes <= self.bytes_max:
            return
        count = 0
        for zxid in self._ends:
            if zxid > mark or self.size_bytes <= self.bytes_max - self.bytes_max // TRIMMED_PART:
                break
            batch = self.batches.pop(zxid)
            self.size_bytes -= len(batch.raw)
            self.base = zxid, batch.chain
            count += 1
        del self._ends[:count]
