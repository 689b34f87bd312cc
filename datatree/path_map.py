"""A map by path that finds the values of a path and its ancestors in one pass over the bytes of the path.

A path may have thousands of components. Looking up each prefix would copy and hash all of them, which is quadratic in
the length of the path. Instead, a CRC-32 runs along the path, and a prefix is only looked up if some key has the same
CRC. Prefixes longer than all keys are skipped.

Not here: what the values are (`datatree.watches`, `datatree.quota`).
"""

from typing import Any, TypeVar
from zlib import crc32

__all__ = ["PathMap"]

V = TypeVar("V")


class PathMap(dict[bytes, V]):
    """A dict that may only be changed by `map[path] = value`, `del map[path]` and `pop`."""

    __slots__ = ("_marks", "longest")

    def __init__(self) -> None:
        self._marks: dict[int, int] = {}
        """The CRC-32 of the keys, with the number of keys that have it."""
        self.longest = 0
        """No key is longer; some key has been as long since the map was last empty."""

    def __setitem__(self, path: bytes, value: V) -> None:
        if path not in self:
            mark = crc32(path)
            self._marks[mark] = self._marks.get(mark, 0) + 1
            self.longest = max(self.longest, len(path))
        super().__setitem__(path, value)

    def __delitem__(self, path: bytes) -> None:
        super().__delitem__(path)
        mark = crc32(path)
        self._marks[mark] -= 1
        if not self._marks[mark]:
            del self._marks[mark]
        if not self:
            self.longest = 0

    def pop(self, path: bytes, default: Any = None) -> Any:
        value = self.get(path, default)
        if path in self:
            del self[path]
        return value

    def around(self, path: bytes) -> list[V]:
        """The values of the ancestors of `path`, the nearest last, and of the path itself. For a path without a leading
        "/", and for "/", only its own."""
        found: list[V] = []
        if not self:
            return found
        if path[:1] == b"/" and len(path) > 1:
            marks = self._marks
            if (root := self.get(b"/")) is not None:
                found.append(root)
            start = mark = 0
            while (end := path.find(b"/", start + 1, self.longest + 1)) != -1:
                mark = crc32(path[start:end], mark)
                if mark in marks and (value := self.get(path[:end])) is not None:
                    found.append(value)
                start = end
        if len(path) <= self.longest and (value := self.get(path)) is not None:
            found.append(value)
        return found
