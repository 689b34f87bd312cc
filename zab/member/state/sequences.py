"""Parents whose sequence numbers of 32 bits come to their end: which one is named, and what the operator is told.

    fewer than 2 ** 29 left      a warning, and again each time that half of these are gone
    none                         the last one: names after this are negative, and come before all others

A member tells while it leads, every tick at most; where `sequence64Enabled` is set nothing ends, and nothing is told.
That costs no request anything: the tree keeps apart the few parents below which very many children were created
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
    """How many numbers are left below a parent with this count of children ever created."""
    return max(0, INT_MAX + 1 - (created & 0xFFFFFFFF))


def nearest(nearing: Mapping[bytes, int]) -> str:
    """The parent that has the fewest left, as it stands in a line; empty where none is near."""
    return shown(min(nearing, key=lambda path: (left(nearing[path]), path))) if nearing else ""


def shown(path: bytes) -> str:
    text = in_line(path.decode("utf-8", "replace"))
    return text if len(text) <= PATH_CHARS_MAX else f"{text[:PATH_CHARS_MAX]}…"


class Sequences:
    """What the operator of one member was told."""

    def __init__(self, tick_ms: int) -> None:
        self.look_at = 0
        self._tick_ms = tick_ms
        self._told: dict[bytes, int] = {}
        """By parent: the bits of what was left."""

    def look(self, nearing: Mapping[bytes, int], now: int) -> Iterator[str]:
        """What to tell now."""
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
