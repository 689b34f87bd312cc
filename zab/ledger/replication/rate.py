"""A limit in bytes a second: what is sent is paid for afterwards, and nothing begins while anything is owed."""

from __future__ import annotations

from attrs import define


@define
class Rate:
    """Up to a second's bytes are saved up."""

    bytes_per_s: int
    _level: int = 0
    """In thousandths of bytes; below 0: owed."""
    _at_ms: int | None = None

    def pay(self, size: int) -> None:
        """So many bytes were sent."""
        self._level -= 1000 * size

    def ready_ms(self, now_ms: int) -> int:
        """When the next bytes may be sent: now, or later."""
        if self._at_ms is not None:
            earned = (now_ms - self._at_ms) * self.bytes_per_s
            self._level = min(1000 * self.bytes_per_s, self._level + earned)
        self._at_ms = now_ms
        return now_ms if self._level >= 0 else now_ms - self._level // self.bytes_per_s
