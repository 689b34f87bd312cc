"""Counts what logs hold of each epoch while they are read.

    epochs_of(transactions) -> [Epoch]      by epoch
    joined([*some, *others])                of several such lists

Only the numbers of transactions are looked at; no rows are made.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
from attrs import frozen

from zab.pipeline.decoding.transactions import Transactions

__all__ = ["Epoch", "epochs_of", "joined"]

_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Epoch:
    """What the logs hold of one epoch, within the stretch asked for."""

    first: int
    last: int
    count: int
    time: datetime | None
    """When the last transaction was made."""

    @property
    def number(self) -> int:
        return self.first >> 32


def epochs_of(rows: Transactions) -> list[Epoch]:
    """Count the epochs of these transactions, whose zxids rise; by rising epoch."""
    zxids, times = rows.zxid, rows.time_ms
    ends = [*(np.flatnonzero(np.diff(zxids >> 32)) + 1).tolist(), len(zxids)]
    return [
        Epoch(int(zxids[begin]), int(zxids[end - 1]), end - begin, _BEGAN + timedelta(milliseconds=int(times[end - 1])))
        for begin, end in pairwise([0, *ends])
        if end > begin
    ]


def joined(epochs: Iterable[Epoch]) -> list[Epoch]:
    """Join several lists into one entry for each epoch, by rising epoch."""
    found: dict[int, Epoch] = {}
    for one in epochs:
        before = found.get(one.number)
        if before is not None:
            later = max(before, one, key=lambda epoch: epoch.last)
            one = Epoch(min(before.first, one.first), later.last, before.count + one.count, later.time)
        found[one.number] = one
    return [found[number] for number in sorted(found)]
