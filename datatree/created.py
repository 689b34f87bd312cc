"""The children that outstanding creates will add to a znode, which the tree does not have yet.

Only removeRecursive needs them, so no other write pays for it: the changes are scanned on demand, each once, and the
results are kept by parent until they are applied.

A path in the results may be in the tree by now, or deleted again: `Outstanding.view` tells. So callers skip some; the
results are newest first, so the latest creates precede earlier attempts.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Protocol

from datatree.paths import ROOT, parent

__all__ = ["Created"]

_STALE_MIN: Final = 1_000
"""How many paths to keep besides twice the outstanding ones; above that, applied ones are dropped."""


class _Queue(Protocol):
    def __len__(self) -> int: ...

    def __reversed__(self) -> Iterator[tuple[int, bytes, int, Any]]: ...


class Created:
    """`queue` has the outstanding changes in order; the second item of each is the path."""

    __slots__ = ("_by_parent", "_count", "_queue", "known_count")

    def __init__(self, queue: _Queue) -> None:
        self._queue = queue
        self._by_parent: dict[bytes, dict[bytes, None]] = {}
        self._count = 0
        self.known_count = 0
        """How many changes at the beginning of the queue were scanned."""

    def below(self, path: bytes) -> Iterator[bytes]:
        """Paths that may be created as children of `path`, newest first."""
        self._look()
        return reversed(self._by_parent.get(path, {}))

    def dropped(self, count: int) -> None:
        """So many changes were removed at the beginning of the queue."""
        self.known_count = max(0, self.known_count - count)
        if not self.known_count:
            self._by_parent.clear()
            self._count = 0

    def cut(self) -> None:
        """Changes were removed at the end of the queue."""
        self.known_count = min(self.known_count, len(self._queue))

    def _look(self) -> None:
        if self._count > 2 * len(self._queue) + _STALE_MIN:
            self.dropped(self.known_count)
        new = [path for _, path, _, _ in islice(reversed(self._queue), len(self._queue) - self.known_count)]
        for path in reversed(new):
            if path == ROOT:
                continue
            below = self._by_parent.setdefault(parent(path), {})
            below.pop(path, None)
            below[path] = None
        self._count += len(new)
        self.known_count = len(self._queue)
