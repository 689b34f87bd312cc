"""Parents whose 32-bit sequence numbers run out: which one is named, and what the operator is told.

    fewer than 2 ** 29 left      a warning, repeated each time that half of the rest is used
    none left                    the last warning: later names are negative, and sort before all others

The leader warns, at most every tick. With `sequence64Enabled`, numbers do not run out, and there is no warning.
This costs requests nothing: the tree lists separately the few parents below which very many children were created
(`datatree.state`), and only those are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from datatree.znode import INT_MAX
from zab.wire.visible import in_line

__all__ = ["Sequences", "nearest"]

WARNED_BELOW: Final = 1 << 29
PATH_CHARS_MAX: Final = 256


def left(created: int) -> int:
    """How many numbers are left below a parent that has had this many children."""
    return max(0, INT_MAX + 1 - (created & 0xFFFFFFFF))


def nearest(nearing: Mapping[bytes, int]) -> str:
    """The parent that has the fewest left, as printed in a line; empty if none is near the end."""
    return shown(min(nearing, key=lambda path: (left(nearing[path]), path))) if nearing else ""


def shown(path: bytes) -> str:
    text = in_line(path.decode("utf-8", "replace"))
    return text if len(text) <= PATH_CHARS_MAX else f"{text[:PATH_CHARS_MAX]}…"


class Sequences:
    """Remembers the warnings of one member."""

    def __init__(self, tick_ms: int) -> None:
        self.look_at = 0
        self._tick_ms = tick_ms
        self._told: dict[bytes, int] = {}
        """By parent: the bit length of the numbers left."""

    def look(self, nearing: Mapping[bytes, int], now: int) -> Iterator[str]:
        """The warnings that are due now."""
        self.look_at = now + self._tick_ms
        self._told = {path: bits for path, bits in self._told.items() if path in nearing}
        for path, created in nearing.items():
            count = left(created)
            if count >= WARNED_BELOW or self._told.get(path, INT_MAX) <= count.bit_length():
                continue
            self._told[path] = count.bit_length()
            if count:
                yield f"the sequence numbers below {shown(path)} come to their end: {count} are left"
            else:
                yield f"the sequence numbers below {shown(path)} have ended: those that follow are negative"
