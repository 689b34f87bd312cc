"""The operations of `zab.client.znodes`, as methods that block.

Only those with a `watch` are written out, since it is a blocking `Watcher` here, and those with overloads.
"""

from collections.abc import Sequence
from typing import Any, overload

import zab.client.znodes as awaited
from zab.client.core.exceptions import RequestError
from zab.client.core.misuse import no_listener
from zab.client.core.records import ChildKind, Listing, Stat
from zab.client.core.transaction import Get, GetChildren
from zab.client.core.watcher import Listener
from zab.client.sync.blocking import Blocking, blocking, documented, immediate
from zab.client.sync.watching import ChildNames, Transaction, Watcher

__all__ = ["Znodes"]


class Znodes(Blocking[awaited.Znodes]):
    """The operations of `zab.client.znodes.Znodes`."""

    create = blocking(awaited.Znodes.create)
    create2 = blocking(awaited.Znodes.create2)
    delete = blocking(awaited.Znodes.delete)

    @documented(awaited.Znodes.exists)
    def exists(self, path: str, *, watch: Watcher | None = None) -> Stat | None:
        return self._runner.run(self.waiting.exists(path, watch=_listener(watch)))

    @documented(awaited.Znodes.get)
    def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        return self._runner.run(self.waiting.get(path, watch=_listener(watch)))

    set = blocking(awaited.Znodes.set)

    @documented(awaited.Znodes.get_children)
    def get_children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        return self._runner.run(self.waiting.get_children(path, watch=_listener(watch)))

    @documented(awaited.Znodes.get_children2)
    def get_children2(self, path: str, *, watch: Watcher | None = None) -> tuple[list[str], Stat]:
        return self._runner.run(self.waiting.get_children2(path, watch=_listener(watch)))

    get_children_page = blocking(awaited.Znodes.get_children_page)
    iter_children = immediate(awaited.Znodes.iter_children, ChildNames)
    get_all_children_number = blocking(awaited.Znodes.get_all_children_number)
    get_ephemerals = blocking(awaited.Znodes.get_ephemerals)
    get_acl = blocking(awaited.Znodes.get_acl)
    set_acl = blocking(awaited.Znodes.set_acl)
    sync = blocking(awaited.Znodes.sync)

    @documented(awaited.Znodes.get_config)
    def get_config(self, *, watch: Watcher | None = None) -> tuple[bytes | None, Stat]:
        return self._runner.run(self.waiting.get_config(watch=_listener(watch)))

    who_am_i = blocking(awaited.Znodes.who_am_i)
    check_watches = blocking(awaited.Znodes.check_watches)
    keeper_features = blocking(awaited.Znodes.keeper_features)

    @documented(awaited.Znodes.list_children)
    def list_children(
        self,
        path: str,
        kind: ChildKind = ChildKind.ALL,
        *,
        stats: bool = False,
        data: bool = False,
        watch: Watcher | None = None,
    ) -> Listing:
        return self._runner.run(self.waiting.list_children(path, kind, stats=stats, data=data, watch=_listener(watch)))

    list_recursive = blocking(awaited.Znodes.list_recursive)
    try_remove = blocking(awaited.Znodes.try_remove)
    remove_recursive = blocking(awaited.Znodes.remove_recursive)
    ensure_path = blocking(awaited.Znodes.ensure_path)
    delete_all = blocking(awaited.Znodes.delete_all)

    @documented(awaited.Znodes.transaction)
    def transaction(self) -> Transaction:
        return Transaction(self._runner, self.waiting.operations, self.waiting.perform)

    @overload
    def multi_read(self, reads: Sequence[Get]) -> list[tuple[bytes | None, Stat] | RequestError]: ...

    @overload
    def multi_read(self, reads: Sequence[GetChildren]) -> list[list[str] | RequestError]: ...

    @overload
    def multi_read(
        self, reads: Sequence[Get | GetChildren]
    ) -> list[tuple[bytes | None, Stat] | list[str] | RequestError]: ...

    @documented(awaited.Znodes.multi_read)
    def multi_read(self, reads: Sequence[Get | GetChildren]) -> list[Any]:
        return self._runner.run(self.waiting.multi_read(reads))


def _listener(watcher: Watcher | None) -> Listener | None:
    if watcher is None:
        return None
    if not isinstance(watcher, Watcher):
        raise no_listener(watcher)
    return watcher.waiting
