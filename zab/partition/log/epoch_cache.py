"""The leader epochs of a log: where each began. It decides where two replicas' logs part.

A list of (epoch, start offset), both strictly increasing: the first offset that a leader of that epoch may have
written. An epoch without a batch is in it too, once its leader was elected (KAFKA-7415); epoch 0 is an epoch like any
other (KAFKA-10432). It is cut whenever the log is cut, at either end (KAFKA-10706).

Not here: the file (`checkpoints`), and who truncates (KIP-101, KIP-279).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

UNKNOWN = -1


class EpochCache:
    """The epochs of one log."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        """`entries` are (epoch, start offset), ascending."""
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self.assign(epoch, start)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), ascending."""
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        """The newest epoch; -1 if there is none."""
        return self._epochs[-1] if self._epochs else UNKNOWN

    def assign(self, epoch: int, start: int) -> bool:
        """Note that `epoch` begins at `start`; whether that changed anything.

        An entry of the same epoch stays unless its start is higher. Entries that contradict the new one go: those of
        this epoch or later ones, and those that start there or later."""
        assert epoch >= 0
        assert start >= 0
        at = bisect_left(self._epochs, epoch)
        if at < len(self._epochs) and self._epochs[at] == epoch and self._starts[at] <= start:
            return False
        self._cut(min(at, bisect_left(self._starts, start)))
        self._epochs.append(epoch)
        self._starts.append(start)
        return True

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the batch at `offset` was written; -1 if that is unknown."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else UNKNOWN

    def end_offset_for(self, epoch: int, log_end: int) -> tuple[int, int]:
        """(the largest epoch at or below `epoch`, where it ends): KIP-101 with KIP-279. (-1, -1) if it is unknown.

        An epoch below all that are known ends where the first one begins."""
        if epoch == UNKNOWN or not self._epochs or epoch > self._epochs[-1]:
            return UNKNOWN, UNKNOWN
        if epoch == self._epochs[-1]:
            return epoch, log_end
        above = bisect_right(self._epochs, epoch)
        return (self._epochs[above - 1] if above else epoch), self._starts[above]

    def truncate_from_end(self, offset: int) -> bool:
        """The log ends at `offset` now; whether that changed anything."""
        before = len(self._starts)
        self._cut(bisect_left(self._starts, offset))
        return len(self._starts) != before

    def truncate_from_start(self, offset: int) -> bool:
        """The log begins at `offset` now: the epoch that covers it begins there. Whether that changed anything."""
        covered = bisect_right(self._starts, offset)
        if not covered or (covered == 1 and self._starts[0] == offset):
            return False
        epoch = self._epochs[covered - 1]
        del self._epochs[:covered], self._starts[:covered]
        self._epochs.insert(0, epoch)
        self._starts.insert(0, offset)
        return True

    def clear(self) -> None:
        """The log is empty."""
        self._cut(0)

    def _cut(self, count: int) -> None:
        del self._epochs[count:], self._starts[count:]
