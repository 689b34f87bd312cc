"""How much of something there is in a second: Kafka's `Rate` over windows (KIP-13).

What comes is added up in windows of a fixed length, of which the last ones are kept. The rate is their sum by the time
since the oldest of them began. While there are fewer, it is as if the others had been there, and empty, so that the
first burst is not taken for what goes on.
"""

from __future__ import annotations

from collections import deque


class Rate:
    """Times are ms."""

    def __init__(self, windows_count: int, window_ms: int) -> None:
        self._count = windows_count
        self._window_ms = window_ms
        self._windows: deque[list[float]] = deque()
        """When each began, and its sum."""

    def add(self, amount: float, now: int) -> None:
        """So much comes now; less than nothing takes back what came just before."""
        self._purge(now)
        if not self._windows or now - self._windows[-1][0] >= self._window_ms:
            self._windows.append([now, 0.0])
        self._windows[-1][1] += amount

    def _purge(self, now: int) -> None:
        while self._windows and now - self._windows[0][0] >= self._count * self._window_ms:
            self._windows.popleft()

    def total(self, now: int) -> float:
        """What is in the windows."""
        self._purge(now)
        return sum(each for _, each in self._windows)

    def span_ms(self, now: int) -> float:
        """The time that the windows are about."""
        self._purge(now)
        elapsed = now - self._windows[0][0] if self._windows else 0
        missing = max(0, self._count - 1 - elapsed // self._window_ms)
        return max(1, elapsed + missing * self._window_ms)

    def measure(self, now: int) -> float:
        """In a second."""
        return self.total(now) * 1000 / self.span_ms(now)
