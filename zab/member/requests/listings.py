"""Lists of children as they go over the wire, kept while nothing changes.

Whoever waits for a change among many children asks for all of their names again when it comes, and so does everybody
else who waits: a list is made for the first of them and sent to all.

It holds for one pzxid. Every create and delete below a znode gives it a new one, and a znode made anew at the same path
has that of its own creation. A tree that takes the place of another may have the same pzxid and other children, so
`Member.take_tree` clears them.

Limits: lists of `LISTING_COUNT_MIN` names and more are kept, `LISTINGS_BYTES` of them together; the oldest goes first.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from datatree.slices import NAMES
from zab.jute.replies import pack_int

__all__ = ["LISTINGS_BYTES", "LISTING_COUNT_MIN", "PAGE_BYTES", "Listings", "first_page", "listing"]

LISTING_COUNT_MIN: Final = 50
LISTINGS_BYTES: Final = 16 << 20
PAGE_BYTES: Final = 512 << 10
"""Of the names of a page, each with the four bytes of its length. One name alone may have more."""


class Listings:
    """By path."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[bytes, bytes]] = {}
        self._bytes = 0

    def get(self, path: bytes, pzxid: bytes) -> bytes | None:
        """The list of the children of `path` as they are at this pzxid."""
        kept = self._kept.get(path)
        return kept[1] if kept is not None and kept[0] == pzxid else None

    def keep(self, path: bytes, pzxid: bytes, names: bytes) -> None:
        """`names` are the children of `path` at this pzxid."""
        self._forget(path)
        if len(names) > LISTINGS_BYTES:
            return
        self._kept[path] = pzxid, names
        self._bytes += len(names)
        while self._bytes > LISTINGS_BYTES:
            self._forget(next(iter(self._kept)))

    def clear(self) -> None:
        """There is another tree."""
        self._kept.clear()
        self._bytes = 0

    def _forget(self, path: bytes) -> None:
        kept = self._kept.pop(path, None)
        if kept is not None:
            self._bytes -= len(kept[1])


def listing(paths: Sequence[bytes], start: int) -> Generator[None, None, bytes]:
    """What comes after `start` in each of the paths, as a vector of strings; in slices, between which it yields."""
    pieces = [pack_int(len(paths))]
    for first in range(0, len(paths), NAMES):
        if first:
            yield
        pieces += [pack_int(len(path) - start) + path[start:] for path in paths[first : first + NAMES]]
    return b"".join(pieces)


def first_page(names: Sequence[bytes], count: int) -> tuple[Sequence[bytes], bool]:
    """The first names, at most `count` of them and `PAGE_BYTES`, but one at least; and whether there are more."""
    room = PAGE_BYTES
    for at, name in enumerate(names):
        room -= 4 + len(name)
        if at == count or (at and room < 0):
            return names[:at], True
    return names, False
