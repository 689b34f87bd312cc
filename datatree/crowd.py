"""The children of a znode that has very many, split into parts, so that no single dict gets large.

A dict of a million entries takes some 70 ms to grow, which blocks everything else. Children are the only items of which
a client can collect that many in one place, so from `CROWD_COUNT` on they are a `Crowd`: 256 dicts, chosen by the
CRC-32 of the path. It is used like the dict without values that holds fewer children, and stays a crowd when it
shrinks.

Reading children page by page requires an order. A crowd that is never paged has none. The first page sorts each part
into *runs*, a slice at a time; later pages only bisect them:

    part   {b, a, c, ... | x, a}       a dict in the order of insertion
    runs   (a, b, c, ...)              its items when the runs were made; items deleted since are skipped
    changes                3           since then: additions are among the last so many of the dict

So a write costs one addition more, only in crowds that are paged; a part with many changes gets new runs at the next
page. Runs are tuples, which Python's collector does not track, with at most as many names as one slice may sort,
whatever names a client chooses.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, TypeAlias
from zlib import crc32

from datatree.slices import NAMES

__all__ = ["CROWD_COUNT", "PAGED_COUNT", "Children", "Crowd", "page_of"]

CROWD_COUNT: Final = 16_384
PAGED_COUNT: Final = 1_024
"""From this many on, children that are paged become a crowd; fewer are sorted for each page."""
_PART_COUNT: Final = 256
_CHANGES_MIN: Final = 64
"""After this many changes, and one more for every 32 names, a part gets new runs."""


class Crowd:
    """A set of paths."""

    __slots__ = ("_changes", "_count", "_parts", "_runs")

    def __init__(self, paths: Iterable[bytes]) -> None:
        self._parts: list[dict[bytes, None]] = [{} for _ in range(_PART_COUNT)]
        parts = self._parts
        for path in paths:
            parts[crc32(path) & 255][path] = None
        self._count = sum(map(len, parts))
        self._runs: list[list[tuple[bytes, ...] | list[bytes]]] = []
        """The runs of each part; a list is not sorted yet. Empty if no page was ever read."""
        self._changes: list[int] = []

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._parts)

    def __contains__(self, path: bytes) -> bool:
        return path in self._parts[crc32(path) & 255]

    def __setitem__(self, path: bytes, _nothing: None) -> None:
        index = crc32(path) & 255
        part = self._parts[index]
        before = len(part)
        part[path] = None
        self._count += len(part) - before
        if self._changes:
            self._changes[index] += 1

    def __delitem__(self, path: bytes) -> None:
        index = crc32(path) & 255
        del self._parts[index][path]
        self._count -= 1
        if self._changes:
            self._changes[index] += 1

    # In an order.

    def sort_some(self) -> bool:
        """Do a slice of the work for the next page. Returns whether there is more to do."""
        if not self._runs:
            self._runs = [[] for _ in self._parts]
            self._changes = [_CHANGES_MIN + len(part) for part in self._parts]
        sorted_count = 0
        for index, part in enumerate(self._parts):
            if self._changes[index] > _CHANGES_MIN + (len(part) >> 5):
                names = list(part)
                self._runs[index] = [names[first : first + NAMES] for first in range(0, len(names), NAMES)]
                self._changes[index] = 0
            runs = self._runs[index]
            for at, run in enumerate(runs):
                if type(run) is list:
                    runs[at] = tuple(sorted(run))
                    sorted_count += len(run)
                    if sorted_count >= NAMES:
                        return True
        return False

    def page(self, after: bytes, prefix: bytes, count: int) -> tuple[list[bytes], int]:
        """The first `count` paths above `after` that begin with `prefix`, in order, and how many paths were looked at.
        `prefix` begins with the path of the znode. Call it once `sort_some` has nothing to do."""
        found: list[bytes] = []
        is_after = bisect_right
        if after < prefix:
            after, is_after = prefix, bisect_left
        each, beyond, looked_at = count // 128 + 8, _beyond(prefix), 0
        while True:
            some, end = self._some_from(after, is_after, beyond, each)
            found += some
            looked_at += _PART_COUNT + len(some)
            if len(found) >= count or end is None:
                return found[:count], looked_at
            # Few runs have what comes first.
            after, is_after, each = end, bisect_right, 2 * each

    def _some_from(
        self, after: bytes, is_after: Callable[[tuple[bytes, ...], bytes], int], beyond: bytes, each: int
    ) -> tuple[list[bytes], bytes | None]:
        """The paths from `after` up to the returned end, in order; without an end, all those below `beyond`. They are
        among the next `each` of every run."""
        found: list[bytes] = []
        end: bytes | None = None
        for part, runs, changes in zip(self._parts, self._runs, self._changes, strict=True):
            for run in runs:
                assert type(run) is tuple, "a page before its order"
                at = is_after(run, after)
                some = run[at : min(at + each, bisect_left(run, beyond, at))]
                if len(some) == each and (end is None or some[-1] < end):
                    end = some[-1]
                found += [path for path in some if path in part] if changes else some
            if changes:
                came = islice(reversed(part), changes)
                found += [path for path in came if path < beyond and is_after((path,), after) == 0]
        found = sorted(set(found))
        return found if end is None else found[: bisect_right(found, end)], end


def _beyond(prefix: bytes) -> bytes:
    """The first string after all those that begin with `prefix`, which has a byte other than 255."""
    begun = prefix.rstrip(b"\xff")
    return begun[:-1] + bytes([begun[-1] + 1])


Children: TypeAlias = dict[bytes, None] | Crowd


def page_of(children: Children, after: bytes, prefix: bytes, count: int) -> tuple[list[bytes], int]:
    """The first `count` of the paths above `after` that begin with `prefix`, in order; and how many were looked at."""
    if isinstance(children, Crowd):
        return children.page(after, prefix, count)
    return sorted(path for path in children if path > after and path.startswith(prefix))[:count], len(children)
