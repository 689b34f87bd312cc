"""Virtual time, in microseconds from the start of the run, and the queue of actions.

Two actions that are due at the same time happen in the order of their scheduling. Nothing else decides the order of a
run, so that it is the same each time: no hash order, no address, no clock.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

MS = 1000
"""A millisecond in microseconds."""


class Schedule:
    """The queue of a run. `now` never falls."""

    def __init__(self) -> None:
        self.now = 0
        self.count = 0
        """The number of actions so far."""
        self._asked = 0
        self._heap: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []

    def at(self, time: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` at this time, or now if it is past."""
        self._asked += 1
        heappush(self._heap, (time if time > self.now else self.now, self._asked, action, arguments))

    def after(self, delay: int, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action` after this many microseconds."""
        self._asked += 1
        heappush(self._heap, (self.now + delay, self._asked, action, arguments))

    def run_next(self, end: int) -> bool:
        """Run the next action if it is due by `end`; otherwise set the time to `end`, and return False."""
        if self._heap and self._heap[0][0] <= end:
            self.now, _, action, arguments = heappop(self._heap)
            self.count += 1
            action(*arguments)
            return True
        self.now = end
        return False

    def run_until(self, end: int) -> None:
        """Run all actions that are due by `end`."""
        heap = self._heap
        while heap and heap[0][0] <= end:
            self.now, _, action, arguments = heappop(heap)
            self.count += 1
            action(*arguments)
        self.now = end
