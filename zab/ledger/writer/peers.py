"""What a writer knows of each bookie of its ensemble: what it owes, since when, and how much it can take.

A bookie that answers TOO_MANY_REQUESTS gets a window: half of what it had under way. It grows by one with each answer;
what does not fit waits here. The window goes once nothing waits for it.
"""

from __future__ import annotations

from collections import deque


class Peer:
    """One bookie. A record that the pipeline fills in."""

    __slots__ = ("is_failing", "is_plain", "outstanding", "since_ms", "waiting", "window")

    def __init__(self) -> None:
        self.outstanding = 0
        """Adds that it has not answered."""
        self.since_ms = 0
        """When it answered last, or was sent the first of them."""
        self.is_failing = False
        """It failed, and is still in the ensemble: it is sent nothing."""
        self.window: int | None = None
        self.waiting: deque[int] = deque()
        """Entries that do not fit into the window."""
        self.is_plain = True
        """Neither failing nor with a window: adds are sent at once."""

    def fail(self) -> None:
        self.is_failing, self.is_plain, self.window = True, False, None
        self.waiting.clear()

    def try_again(self) -> None:
        """It is sent adds again, though it has failed: nobody can take its place."""
        self.is_failing, self.is_plain, self.outstanding = False, True, 0

    def narrow(self) -> None:
        """It was too busy."""
        if not self.is_failing:
            self.window = max(1, (self.window or self.outstanding + 1) // 2)
            self.is_plain = False

    def widen(self) -> None:
        """It has answered one, and has a window."""
        assert self.window is not None
        self.window += 1

    def may_send(self) -> bool:
        return self.window is None or self.outstanding < self.window

    def rest(self) -> None:
        """The window goes if nothing waits for it."""
        if self.window is not None and not self.waiting and self.outstanding < self.window // 2:
            self.window, self.is_plain = None, True
