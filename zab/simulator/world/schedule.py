"""Virtual time: microseconds from the start of the run, and what happens next.

Two things that are due at the same moment happen in the order in which they were asked for. Nothing else decides the
order of a run, so that it is the same each time: no hash order, no address, no clock.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

MS = 1000
"""Microseconds."""


class Schedule:
    """The queue of a run. `now` never falls."""

    def __init__(self) -> None:
        self.now = 0
        self.count = 0
        """How much has happened."""
        self._asked = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` at this time, or now if that is over."""
        self._asked += 1
        heappush(self._heap, (time if time > self.now else self.now, self._asked, action, arguments))

    def after(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` that many microseconds from now."""
        self._asked += 1
        heappush(self._heap, (self.now + delay, self._asked, action, arguments))

    def run_next(self, end: int) -> bool:
        """Let the next thing happen, if it is due by then; else it is that time, and False."""
        if self._heap and self._heap[0][0] <= end:
            self.now, _, action, arguments = heappop(self._heap)
            self.count += 1
            action(*arguments)
            return True
        self.now = end
        return False

    def run_until(self, end: int) -> None:
        """Let everything happen that is due by then."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, action, arguments = heappop(heap)
            self.count += 1
            action(*arguments)
        self.now = end
