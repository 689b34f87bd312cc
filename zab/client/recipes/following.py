"""A znode's data, and its children, as iterators that follow the changes.

    async for found in data_of(zk, "/config"):          # (data, stat) now, and after each change; None: no znode
        ...
    async for names in children_of(zk, "/workers"):     # sorted; None: no parent
        ...

The caller may take its time between two items: each is read when it is requested, and is the newest. So quick changes
are merged, and nothing piles up.

Iteration continues across lost connections, raises the error of a session that is over (SessionExpiredError), and ends
quietly when the client is closed.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, Self, TypeVar

from zab.client.client import Client
from zab.client.core.exceptions import ClientClosedError, NoNodeError
from zab.client.core.records import Stat
from zab.client.core.watcher import Watcher
from zab.client.recipes.paths import checked
from zab.client.retry import Retrying

__all__ = ["Following", "children_of", "data_of"]

T = TypeVar("T")

_NOTHING: Any = object()


class Following(ABC, Generic[T]):
    """A watch event is only a hint: after every event it looks again."""

    def __init__(self, zk: Client, path: str) -> None:
        self._zk = zk
        self._path = checked(zk, path) or "/"
        self._last: object = _NOTHING

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        steady = self._zk.retrying()
        try:
            watcher = self._zk.watcher()
            try:
                while True:
                    mark, found = await self._look(steady, watcher)
                    if mark != self._last:
                        self._last = mark
                        return found
                    await watcher.receive()
            finally:
                watcher.close()
        except ClientClosedError:
            raise StopAsyncIteration from None

    @abstractmethod
    async def _look(self, steady: Retrying, watcher: Watcher) -> tuple[object, T]:
        """What is there, preceded by a value that differs when it has changed; the watcher is told of a possible
        change."""


class _Data(Following[tuple[bytes | None, Stat] | None]):
    async def _look(self, steady: Retrying, watcher: Watcher) -> tuple[object, tuple[bytes | None, Stat] | None]:
        while True:
            try:
                found = await steady.get(self._path, watch=watcher)
            except NoNodeError:
                if await steady.exists(self._path, watch=watcher) is None:
                    return None, None
            else:
                return found[1].mzxid, found


class _Children(Following[list[str] | None]):
    async def _look(self, steady: Retrying, watcher: Watcher) -> tuple[object, list[str] | None]:
        while True:
            try:
                names = await steady.get_children(self._path, watch=watcher)
            except NoNodeError:
                if await steady.exists(self._path, watch=watcher) is None:
                    return None, None
            else:
                return tuple(names), names


def data_of(zk: Client, path: str) -> Following[tuple[bytes | None, Stat] | None]:
    """`async for found in data_of(zk, path)`: (data, stat) now, and after each change. Like kazoo's DataWatch."""
    return _Data(zk, path)


def children_of(zk: Client, path: str) -> Following[list[str] | None]:
    """`async for names in children_of(zk, path)`: sorted, now and after each change. Like kazoo's ChildrenWatch."""
    return _Children(zk, path)
