"""Caches encoded lists of children while nothing changes.

Clients that wait for a change among many children all ask for the names again when it comes: the list is made for the
first of them and sent to all.

A list is valid for one pzxid. Every create and delete below a znode changes its pzxid, and a znode that is created
again at the same path has the pzxid of its creation. A tree that replaces another may have other children at the same
pzxid, so `ReadState.take_tree` clears the cache.

Limits: lists of `LISTING_COUNT_MIN` names and more are kept, up to `LISTINGS_BYTES` in all; the oldest goes first.
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
"""The limit for the names of a page, each with the four bytes of its length. A single longer name still fits."""


class Listings:
    """The cached lists, by path."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[bytes, bytes]] = {}
        self._bytes = 0

    def get(self, path: bytes, pzxid: bytes) -> bytes | None:
        """The list of the children of `path` at this pzxid, if it is cached."""
        kept = self._kept.get(path)
        return kept[1] if kept is not None and kept[0] == pzxid else None

    def keep(self, path: bytes, pzxid: bytes, names: bytes) -> None:
        """Cache `names`, the list of the children of `path` at this pzxid."""
        self._forget(path)
        if len(names) > LISTINGS_BYTES:
            return
        self._kept[path] = pzxid, names
        self._bytes += len(names)
        while self._bytes > LISTINGS_BYTES:
            self._forget(next(iter(self._kept)))

    def clear(self) -> None:
        """Drop all lists, since the tree was replaced."""
        self._kept.clear()
        self._bytes = 0

    def _forget(self, path: bytes) -> None:
        kept = self._kept.pop(path, None)
        if kept is not None:
            self._bytes -= len(kept[1])


def listing(paths: Sequence[bytes], start: int) -> Generator[None, None, bytes]:
    """Encode the names, which begin at `start` in each path, as a vector of strings. Yields between two slices."""
    pieces = [pack_int(len(paths))]
    for first in range(0, len(paths), NAMES):
        if first:
            yield
        pieces += [pack_int(len(path) - start) + path[start:] for path in paths[first : first + NAMES]]
    return b"".join(pieces)


def first_page(names: Sequence[bytes], count: int) -> tuple[Sequence[bytes], bool]:
    """The first names, at most `count` and `PAGE_BYTES`, but at least one; and whether there are more."""
    room = PAGE_BYTES
    for at, name in enumerate(names):
        room -= 4 + len(name)
        if at == count or (at and room < 0):
            return names[:at], True
    return names, False
