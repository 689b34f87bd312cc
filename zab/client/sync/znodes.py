"""The operations of the service, each as a method that blocks: those of `zab.client.znodes`, which has the words.

A test compares the two, name by name and argument by argument.
"""

from collections.abc import Iterable, Sequence
from typing import Any, overload

import zab.client.znodes as waiting
from zab.client.core.exceptions import RequestError
from zab.client.core.misuse import no_listener
from zab.client.core.operations import LIMIT_MAX
from zab.client.core.records import (
    OPEN_ACL,
    Acl,
    ChildKind,
    ChildrenPage,
    Identity,
    KeeperFeature,
    Listing,
    Stat,
    WatchKind,
)
from zab.client.core.transaction import Get, GetChildren
from zab.client.core.watcher import Listener
from zab.client.on_threads import OnThreads
from zab.client.sync.watching import ChildNames, Transaction, Watcher
from zab.client.znodes import PAGE_COUNT

__all__ = ["Znodes"]


class Znodes:
    """See the module. waiting: the same, as coroutines."""

    def __init__(self, backend: OnThreads, znodes: waiting.Znodes) -> None:
        self._backend = backend
        self._znodes = znodes

    def create(
        self,
        path: str,
        data: bytes | None = b"",
        acl: Iterable[Acl] = OPEN_ACL,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
        if_not_exists: bool = False,
    ) -> str:
        return self._backend.run(
            self._znodes.create(
                path,
                data,
                acl,
                ephemeral=ephemeral,
                sequence=sequence,
                container=container,
                ttl_ms=ttl_ms,
                if_not_exists=if_not_exists,
            )
        )

    def create2(
        self,
        path: str,
        data: bytes | None = b"",
        acl: Iterable[Acl] = OPEN_ACL,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
    ) -> tuple[str, Stat]:
        return self._backend.run(
            self._znodes.create2(
                path, data, acl, ephemeral=ephemeral, sequence=sequence, container=container, ttl_ms=ttl_ms
            )
        )

    def delete(self, path: str, version: int = -1) -> None:
        self._backend.run(self._znodes.delete(path, version))

    def exists(self, path: str, *, watch: Watcher | None = None) -> Stat | None:
        return self._backend.run(self._znodes.exists(path, watch=_listener(watch)))

    def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        return self._backend.run(self._znodes.get(path, watch=_listener(watch)))

    def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        return self._backend.run(self._znodes.set(path, data, version))

    def get_children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        return self._backend.run(self._znodes.get_children(path, watch=_listener(watch)))

    def get_children2(self, path: str, *, watch: Watcher | None = None) -> tuple[list[str], Stat]:
        return self._backend.run(self._znodes.get_children2(path, watch=_listener(watch)))

    def get_children_page(
        self, path: str, *, after: str = "", prefix: str = "", count: int = PAGE_COUNT
    ) -> ChildrenPage:
        return self._backend.run(self._znodes.get_children_page(path, after=after, prefix=prefix, count=count))

    def iter_children(
        self, path: str, *, after: str = "", prefix: str = "", page_count: int = PAGE_COUNT
    ) -> ChildNames:
        names = self._znodes.iter_children(path, after=after, prefix=prefix, page_count=page_count)
        return ChildNames(self._backend, names)

    def get_all_children_number(self, path: str) -> int:
        return self._backend.run(self._znodes.get_all_children_number(path))

    def get_ephemerals(self, prefix: str = "/") -> list[str]:
        return self._backend.run(self._znodes.get_ephemerals(prefix))

    def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        return self._backend.run(self._znodes.get_acl(path))

    def set_acl(self, path: str, acl: Iterable[Acl], version: int = -1) -> Stat:
        return self._backend.run(self._znodes.set_acl(path, acl, version))

    def sync(self, path: str = "/") -> None:
        self._backend.run(self._znodes.sync(path))

    def get_config(self, *, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        return self._backend.run(self._znodes.get_config(watch=_listener(watch)))

    def who_am_i(self) -> list[Identity]:
        return self._backend.run(self._znodes.who_am_i())

    def check_watches(self, path: str, kind: WatchKind = WatchKind.ANY) -> bool:
        return self._backend.run(self._znodes.check_watches(path, kind))

    def keeper_features(self) -> frozenset[KeeperFeature]:
        return self._backend.run(self._znodes.keeper_features())

    def list_children(
        self,
        path: str,
        kind: ChildKind = ChildKind.ALL,
        *,
        stats: bool = False,
        data: bool = False,
        watch: Watcher | None = None,
    ) -> Listing:
        return self._backend.run(self._znodes.list_children(path, kind, stats=stats, data=data, watch=_listener(watch)))

    def list_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> list[str]:
        return self._backend.run(self._znodes.list_recursive(path, limit=limit))

    def try_remove(self, path: str, version: int = -1) -> None:
        self._backend.run(self._znodes.try_remove(path, version))

    def remove_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> None:
        self._backend.run(self._znodes.remove_recursive(path, limit=limit))

    def ensure_path(self, path: str, acl: Iterable[Acl] = OPEN_ACL) -> None:
        self._backend.run(self._znodes.ensure_path(path, acl))

    def delete_all(self, path: str) -> int:
        return self._backend.run(self._znodes.delete_all(path))

    def transaction(self) -> Transaction:
        return Transaction(self._backend, self._znodes.operations, self._znodes.perform)

    @overload
    def multi_read(self, reads: Sequence[Get]) -> list[tuple[bytes | None, Stat] | RequestError]: ...

    @overload
    def multi_read(self, reads: Sequence[GetChildren]) -> list[list[str] | RequestError]: ...

    @overload
    def multi_read(
        self, reads: Sequence[Get | GetChildren]
    ) -> list[tuple[bytes | None, Stat] | list[str] | RequestError]: ...

    def multi_read(self, reads: Sequence[Get | GetChildren]) -> list[Any]:
        return self._backend.run(self._znodes.multi_read(reads))


def _listener(watcher: Watcher | None) -> Listener | None:
    if watcher is None:
        return None
    if not isinstance(watcher, Watcher):
        raise no_listener(watcher)
    return watcher.waiting
