"""Deadlines by key: set, moved, cancelled, and found when they are due.

Members move their deadline with every heartbeat, nearly always to a later time. So the heap holds at most one entry for
each time that a deadline moved *earlier*; an entry that comes up before its key is due is put back. Moving a deadline
later costs one assignment.

Keys that are due come in the order of their deadlines; those of one moment in the order in which they were queued.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

KeyType = TypeVar("KeyType", bound=Hashable)


class Deadlines(Generic[KeyType]):
    """Times are ms of a monotonic clock."""

    def __init__(self) -> None:
        self._due_of: dict[KeyType, int] = {}
        self._queued_for: dict[KeyType, int] = {}
        """The earliest entry of each key in the heap; queued_for <= due_of for every key with a deadline."""
        self._heap: list[tuple[int, int, KeyType]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._due_of)

    def __contains__(self, key: KeyType) -> bool:
        return key in self._due_of

    def set(self, key: KeyType, due: int) -> None:
        """Make the key due at this time, instead of any other."""
        self._due_of[key] = due
        queued = self._queued_for.get(key)
        if queued is None or due < queued:
            self._push(key, due)

    def cancel(self, key: KeyType) -> None:
        """The key has no deadline; it may have had none."""
        self._due_of.pop(key, None)

    def next_due(self) -> int | None:
        """The first deadline; None: there is none."""
        while self._heap:
            time, _, key = self._heap[0]
            due = self._due_of.get(key)
            if self._queued_for.get(key) != time:
                heapq.heappop(self._heap)
            elif due is None:
                heapq.heappop(self._heap)
                del self._queued_for[key]
            elif due > time:
                heapq.heappop(self._heap)
                self._push(key, due)
            else:
                assert due == time, "an entry is never later than its key"
                return due
        return None

    def pop_due(self, now: int) -> KeyType | None:
        """Take the first key that is due; None: none is."""
        due = self.next_due()
        if due is None or due > now:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._due_of[key]
        del self._queued_for[key]
        return key

    def _push(self, key: KeyType, time: int) -> None:
        self._count += 1
        self._queued_for[key] = time
        heapq.heappush(self._heap, (time, self._count, key))
