"""What logs hold of each epoch, counted where they are read.

    epochs_in(tasks) -> [Epoch]         of what these tasks read, by epoch
    joined([*some, *others])            of several such lists

Only numbers of the transactions are looked at, no rows are made of them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
from attrs import frozen

from zab.pipeline.decoding.transactions import Transactions
from zab.pipeline.reading.planning import Task, read_task

__all__ = ["Epoch", "epochs_in", "joined"]

_BEGAN = datetime(1970, 1, 1, tzinfo=UTC)


@frozen
class Epoch:
    """What the logs hold of one epoch, within the stretch asked for."""

    first: int
    last: int
    count: int
    time: datetime | None
    """Of the last transaction."""
    unlisted_count: int = 0
    """Sessions closed without a list of their ephemerals."""

    @property
    def number(self) -> int:
        return self.first >> 32


def epochs_in(tasks: Iterable[Task]) -> list[Epoch]:
    """By rising epoch. Raises PipelineError."""
    found: list[Epoch] = []
    for task in tasks:
        for _, rows in read_task(task):
            if isinstance(rows, Transactions) and len(rows):
                found = joined([*found, *_epochs_of(rows)])
    return found


def _epochs_of(rows: Transactions) -> list[Epoch]:
    numbers = rows.zxid >> 32
    unlisted = np.array([row for row, paths in rows.closed.items() if paths is None], np.int64)
    found = []
    for number in np.unique(numbers).tolist():
        at = np.flatnonzero(numbers == number)
        last = int(at[np.argmax(rows.zxid[at])])
        time = _BEGAN + timedelta(milliseconds=int(rows.time_ms[last]))
        count = int((numbers[unlisted] == number).sum())
        found.append(Epoch(int(rows.zxid[at].min()), int(rows.zxid[last]), len(at), time, count))
    return found


def joined(epochs: Iterable[Epoch]) -> list[Epoch]:
    """One for each epoch, by rising epoch."""
    found: dict[int, Epoch] = {}
    for one in epochs:
        before = found.get(one.number)
        if before is not None:
            later = max(before, one, key=lambda epoch: epoch.last)
            count, unlisted = before.count + one.count, before.unlisted_count + one.unlisted_count
            one = Epoch(min(before.first, one.first), later.last, count, later.time, unlisted)
        found[one.number] = one
    return [found[number] for number in sorted(found)]
