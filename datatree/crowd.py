"""The children of a znode that has very many of them, in parts, so that no dict is large when it grows.

A dict of a million entries takes some 70 ms to grow, and nothing else is done meanwhile. Children are the one thing of
which a client may gather that many in one place, so from `CROWD_COUNT` on they are a `Crowd`: 256 dicts, each chosen by
CRC-32 of the path. It is used like the dict without values that fewer children are, and stays one when it shrinks.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias
from zlib import crc32

__all__ = ["CROWD_COUNT", "Children", "Crowd"]

CROWD_COUNT: Final = 16_384
_PART_COUNT: Final = 256


class Crowd:
    """A set of paths."""

    __slots__ = ("_count", "_parts")

    def __init__(self, paths: Iterable[bytes]) -> None:
        self._parts: list[dict[bytes, None]] = [{} for _ in range(_PART_COUNT)]
        parts = self._parts
        for path in paths:
            parts[crc32(path) & 255][path] = None
        self._count = sum(map(len, parts))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._parts)

    def __contains__(self, path: bytes) -> bool:
        return path in self._parts[crc32(path) & 255]

    def __setitem__(self, path: bytes, _nothing: None) -> None:
        part = self._parts[crc32(path) & 255]
        before = len(part)
        part[path] = None
        self._count += len(part) - before

    def __delitem__(self, path: bytes) -> None:
        del self._parts[crc32(path) & 255][path]
        self._count -= 1


Children: TypeAlias = dict[bytes, None] | Crowd
