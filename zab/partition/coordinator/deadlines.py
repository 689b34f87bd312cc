"""Deadlines by key: set, moved, cancelled, and found when they are due. The timers are those of a timing wheel.

Keys that are due come in the order of their deadlines. What is done about one of them may cancel or move others that
are due as well; those do not come then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from zab.partition.purgatory.timing_wheel import Timer, TimingWheel

KeyType = TypeVar("KeyType", bound=Hashable)


class Deadlines(Generic[KeyType]):
    """Times are ms of a monotonic clock."""

    def __init__(self, now: int) -> None:
        self._wheel: TimingWheel[KeyType] = TimingWheel(now)
        self._timers: dict[KeyType, Timer[KeyType]] = {}
        self._due: deque[Timer[KeyType]] = deque()
        """Off the wheel, and not handed out yet."""

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: KeyType) -> bool:
        return key in self._timers

    def set(self, key: KeyType, due: int) -> None:
        """Make the key due at this time, instead of any other."""
        self.cancel(key)
        self._timers[key] = self._wheel.add(due, key)

    def cancel(self, key: KeyType) -> None:
        """The key has no deadline; it may have had none."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            self._wheel.cancel(timer)

    def next_due(self) -> int | None:
        """When to look again: at the first deadline or before it; None: there is none."""
        return self._wheel.next_deadline()

    def pop_due(self, now: int) -> KeyType | None:
        """Take the first key that is due; None: none is."""
        while True:
            if not self._due:
                self._due.extend(self._wheel.advance(now))
                if not self._due:
                    return None
            timer = self._due.popleft()
            if self._timers.get(timer.payload) is timer:
                del self._timers[timer.payload]
                return timer.payload
