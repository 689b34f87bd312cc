"""Which children a znode will have, as far as that is outstanding: what the tree does not say yet.

Only removeRecursive asks for it, so no other write pays: the changes are looked through when somebody asks, each once,
and what is found is kept by parent until they are applied.

A path that was found may be in the tree by now, or gone again: `Outstanding.view` says which. So whoever asks passes
over some; newest first, those that were made last come before all that went before them.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, Protocol

from datatree.paths import ROOT, parent

__all__ = ["Created"]

_STALE_MIN: Final = 1_000
"""So many paths are kept, and twice as many as are outstanding; beyond that those that are applied are dropped."""


class _Queue(Protocol):
    def __len__(self) -> int: ...

    def __reversed__(self) -> Iterator[tuple[int, bytes, int, Any]]: ...


class Created:
    """`queue` has the outstanding changes in their order: the path is the second of each."""

    __slots__ = ("_by_parent", "_count", "_queue", "known_count")

    def __init__(self, queue: _Queue) -> None:
        self._queue = queue
        self._by_parent: dict[bytes, dict[bytes, None]] = {}
        self._count = 0
        self.known_count = 0
        """Of the queue, from its beginning."""

    def below(self, path: bytes) -> Iterator[bytes]:
        """What may have come to be as a child of `path`, newest first."""
        self._look()
        return reversed(self._by_parent.get(path, {}))

    def dropped(self, count: int) -> None:
        """So many have left at the beginning of the queue."""
        self.known_count = max(0, self.known_count - count)
        if not self.known_count:
            self._by_parent.clear()
            self._count = 0

    def cut(self) -> None:
        """Some have left at its end."""
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
