"""A cache: znodes that a client reads often, kept in memory and up to date.

    async with Cache(zk, "/app", Depth.SUBTREE) as cache:       # entered when all of it was read
        cache["/app/a"].data
        for path in cache: ...
        async for delta in cache.deltas():                      # first all entries, then each change
            print(delta.kind, delta.path, delta.entry.data)

    Depth.ZNODE       the znode alone                   Curator's NodeCache
    Depth.CHILDREN    and its children                  PathChildrenCache
    Depth.SUBTREE     and all below it                  TreeCache, CuratorCache; kazoo's TreeCache

Reading from it takes no request. It lags by the time that a watch event and a read take, and by more while no server is
connected (`is_current`); after that it is as the servers have it, and `deltas` has yielded the difference. See `copy`.

`items` and `values` are snapshots: they do not change while a loop over them waits.

Entering, `settled` and `deltas` raise what reading the root raises, and the error of a session that is over. The path
need not exist: then the cache is empty.
"""

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from typing import Self

from zab.client.client import Client
from zab.client.core.exceptions import ClientClosedError
from zab.client.recipes.copy import Copy, Delta, DeltaKind, Depth, Entry
from zab.client.recipes.followed import Followed
from zab.client.recipes.paths import checked

__all__ = ["Cache", "Delta", "DeltaKind", "Deltas", "Depth", "Entry"]


class Cache(Followed, Mapping[str, Entry]):
    """A mapping: path -> `Entry`."""

    def __init__(self, zk: Client, path: str, depth: Depth = Depth.SUBTREE) -> None:
        self.path = checked(zk, path) or "/"
        self.depth = depth
        self._copy = Copy(zk, self.path, depth)

    @property
    def is_current(self) -> bool:
        """A server is connected, and everything that it announced was read."""
        return self._copy.is_current

    async def start(self) -> None:
        await self._copy.begin()

    async def settled(self) -> None:
        """Returns when it is current; starts it if it was not started."""
        await self._copy.begin()
        while not self.is_current:
            await self._copy.signal.wait()
            self._copy.raise_if_over()

    def deltas(self) -> "Deltas":
        """`async for delta in cache.deltas()`: all entries as ADDED, then each change. Ends with the cache."""
        return Deltas(self._copy)

    def children(self, path: str) -> list[str]:
        """The names of a znode's children in the cache, sorted."""
        prefix = path.rstrip("/") + "/"
        below = (found[len(prefix) :] for found in self if found.startswith(prefix))
        return sorted(name for name in below if name and "/" not in name)

    def __getitem__(self, path: str) -> Entry:
        return self._copy.entries[path]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._copy.entries))

    def __len__(self) -> int:
        return len(self._copy.entries)

    def items(self) -> ItemsView[str, Entry]:
        return dict(sorted(self._copy.entries.items())).items()

    def values(self) -> ValuesView[Entry]:
        return dict(sorted(self._copy.entries.items())).values()


class Deltas:
    """Made by `Cache.deltas`. Several changes of one path that were not yielded yet become one delta."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._reader = copy.reader()
        self._is_closed = False

    def close(self) -> None:
        """Ends the iteration."""
        self._is_closed = True
        self._copy.forget(self._reader)
        self._copy.signal.give()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        while not self._is_closed:
            delta = self._reader.take(self._copy.entries)
            if delta is not None:
                return delta
            if self._copy.reason is not None and not isinstance(self._copy.reason, ClientClosedError):
                raise self._copy.reason
            if self._copy.is_done:
                break
            await self._copy.signal.wait()
        raise StopAsyncIteration
