"""A token bucket: what may be done at once, and how fast that grows back (KIP-599).

It is full at first. What is done takes tokens out, also more than there are; below none, nothing more may be done until
time has paid for it.
"""

from __future__ import annotations


class TokenBucket:
    """Times are ms."""

    def __init__(self) -> None:
        self._taken = 0.0
        """How many are missing of a full one."""
        self._at = 0
        self.throttled_ms = 0
        """How long clients had to wait, altogether."""

    def tokens(self, a_second: float, burst: float, now: int) -> float:
        """How many there are now: `burst` when it is full, and `a_second` grow back in a second."""
        self._taken = max(0.0, self._taken - a_second * (now - self._at) / 1000)
        self._at = now
        return burst - self._taken

    def take(self, count: float) -> None:
        """Take so many out, after a look at `tokens`."""
        self._taken += count
