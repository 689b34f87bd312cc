"""What a bookie counts for its figures: requests by their kind, and how long they took.

A request that is not an add begins when it is given to the bookie. Adds of one turn are measured together: from the
turn on that decided them until the turn in which they are durable.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Final

import attrs

from zab.ledger.wire.messages import (
    Added,
    Answer,
    BatchRead,
    BookieInfo,
    EntriesListed,
    EntryRead,
    Forced,
    LacRead,
    LacWritten,
)
from zab.ledger.wire.status import Status
from zab.service.summary import Summary

OPERATIONS: Final = {
    Added: "ADD_ENTRY",
    EntryRead: "READ_ENTRY",
    BatchRead: "BATCH_READ_ENTRY",
    LacWritten: "WRITE_LAC",
    LacRead: "READ_LAC",
    Forced: "FORCE_LEDGER",
    BookieInfo: "GET_BOOKIE_INFO",
    EntriesListed: "GET_LIST_OF_ENTRIES_OF_LEDGER",
}
"""BookKeeper's names of what is asked."""


@attrs.define
class Meters:
    """All counters of one bookie, since its start. Times are µs."""

    done: dict[type[Answer], Summary] = attrs.Factory(lambda: {kind: Summary() for kind in OPERATIONS})
    """Requests that were answered with OK."""
    refused: dict[type[Answer], Summary] = attrs.Factory(lambda: {kind: Summary() for kind in OPERATIONS})
    """Requests that were answered with anything else."""
    statuses: Counter[Status] = attrs.Factory(Counter)
    """Answers that are not OK, by their status."""
    added_bytes: int = 0
    read_bytes: int = 0
    adds_under_way: int = 0
    reads_under_way: int = 0
    refused_frames: int = 0
    """Requests that no bookie could do."""
    broken_connections: int = 0
    """Connections that were ended since their bytes broke the protocol."""
    closed_connections: int = 0
    """Connections that were ended by a limit."""
    frames: Summary = attrs.Factory(Summary)
    """How many adds one sync of the journal answered."""
    _appends: deque[tuple[int, int]] = attrs.Factory(deque)
    """The number of each append that is under way, and when its turn began."""

    def appended(self, number: int, now_us: int) -> None:
        """An append goes to the journal."""
        self._appends.append((number, now_us))

    def began(self, number: int) -> int | None:
        """When the oldest append up to this number began, which are durable now."""
        appends, began = self._appends, None
        while appends and appends[0][0] <= number:
            _, when = appends.popleft()
            began = when if began is None else began
        return began

    def added(self, status: Status, count: int, took_us: int) -> None:
        """So many adds were answered in the same way."""
        if status is Status.OK:
            self.done[Added].add(took_us, count)
        else:
            self.refused[Added].add(took_us, count)
            self.statuses[status] += count
        self.adds_under_way -= count

    def answered(self, answer: Answer, took_us: int) -> None:
        """Another request was answered."""
        kind, status = type(answer), answer.status
        self.reads_under_way -= 1
        if kind not in self.done:
            return
        if status is Status.OK:
            self.done[kind].add(took_us)
            if isinstance(answer, EntryRead):
                self.read_bytes += len(answer.envelope)
            elif isinstance(answer, BatchRead):
                self.read_bytes += sum(map(len, answer.envelopes))
        else:
            self.refused[kind].add(took_us)
            self.statuses[status] += 1
