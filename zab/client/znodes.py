"""The operations of the service on znodes, each as a method, once for all who offer them.

`Client` sends each; `Retrying` (`zab.client.retry`) sends it again after a lost connection, where that may be done.

A path is absolute, `version` -1 matches every version. `data` is bytes, and TypeError is raised for text; it may be
None, which the service keeps apart from b"".

What an operation raises: the exception of the error code (`zab.client.core.exceptions`); ConnectionLossError when the
connection broke before the answer, which leaves open whether a write happened; NotConnectedError or ThrottledError when
it was never sent; SessionExpiredError when the session is over.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar, overload

from zab.client.attempts import Attempts
from zab.client.child_names import ChildNames
from zab.client.core.exceptions import NodeExistsError, NoNodeError, NotEmptyError, NoWatcherError, RequestError
from zab.client.core.operations import LIMIT_MAX, Operation, Operations
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
from zab.client.core.transaction import Get, GetChildren, Transaction
from zab.client.core.watcher import Listener

__all__ = ["Znodes"]

T = TypeVar("T")

PAGE_COUNT: Final = 1_000
"""Names of a page, where nothing else is said."""


class Znodes(ABC):
    """See the module. `operations` makes what `perform` sends."""

    operations: Operations

    @abstractmethod
    async def perform(self, operation: Operation[T]) -> T: ...

    async def create(
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
        """Creates a znode and returns its path, which has ten more digits when `sequence` is set (19, where the
        server goes on with numbers of 64 bits).

        if_not_exists: it is no error that the znode is there already, whatever is in it. ClickHouse Keeper knows this,
        and a server of ours where `createIfNotExistsEnabled` is set; for others it is an unknown operation, which ends
        the connection.
        """
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        if if_not_exists:
            return await self.perform(self.operations.create_if_not_exists(path, data, acl, **mode, ttl_ms=ttl_ms))
        created, _ = await self.perform(self.operations.create(path, data, acl, **mode, ttl_ms=ttl_ms))
        return created

    async def create2(
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
        """As `create`, with the new znode's Stat."""
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        return await self.perform(self.operations.create(path, data, acl, **mode, ttl_ms=ttl_ms))

    async def delete(self, path: str, version: int = -1) -> None:
        await self.perform(self.operations.delete(path, version))

    async def exists(self, path: str, *, watch: Listener | None = None) -> Stat | None:
        """The Stat, None when there is no znode. `watch` hears once of its creation, change or deletion."""
        try:
            return await self.perform(self.operations.exists(path, watch))
        except NoNodeError:
            return None

    async def get(self, path: str, *, watch: Listener | None = None) -> tuple[bytes | None, Stat]:
        """Data and Stat. `watch` hears once of the next change of the data, or of the deletion."""
        return await self.perform(self.operations.get(path, watch))

    async def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        return await self.perform(self.operations.set(path, data, version))

    async def get_children(self, path: str, *, watch: Listener | None = None) -> list[str]:
        """The children's names, sorted. `watch` hears once of the next child made or deleted, or of the deletion."""
        return await self.perform(self.operations.get_children(path, watch))

    async def get_children2(self, path: str, *, watch: Listener | None = None) -> tuple[list[str], Stat]:
        """As `get_children`, with the znode's Stat."""
        return await self.perform(self.operations.get_children2(path, watch))

    async def get_children_page(
        self, path: str, *, after: str = "", prefix: str = "", count: int = PAGE_COUNT
    ) -> ChildrenPage:
        """The next children in the order of their names: at most `count`, those that come after the name `after` and
        begin with `prefix`. A server may give fewer (`has_more` tells), but one at least; it sends 5,000 names and 512
        KiB of them at most. The order is that of the code points. All that a page says is of one state of the znode.

        For directories of which not all names fit in one answer. Only servers of ours know it: UnimplementedError.
        """
        return await self.perform(self.operations.get_children_page(path, after, prefix, count))

    def iter_children(
        self, path: str, *, after: str = "", prefix: str = "", page_count: int = PAGE_COUNT
    ) -> ChildNames:
        """The names of all children, in order, read as pages of `page_count` while they are taken.

        A child that is there all the time is told exactly once, and none is told twice; one that comes or goes
        meanwhile is told or not. Raises as `get_children_page` does, NoNodeError also between two pages.
        """

        async def read(at: str) -> ChildrenPage:
            return await self.get_children_page(path, after=at, prefix=prefix, count=page_count)

        return ChildNames(read, after)

    async def get_all_children_number(self, path: str) -> int:
        """How many descendants the znode has."""
        return await self.perform(self.operations.get_all_children_number(path))

    async def get_ephemerals(self, prefix: str = "/") -> list[str]:
        """The paths of this session's ephemerals that start with `prefix`, sorted."""
        return await self.perform(self.operations.get_ephemerals(prefix))

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        return await self.perform(self.operations.get_acl(path))

    async def set_acl(self, path: str, acl: Iterable[Acl], version: int = -1) -> Stat:
        """`version` is the ACL's own (`Stat.aversion`)."""
        return await self.perform(self.operations.set_acl(path, acl, version))

    async def sync(self, path: str = "/") -> None:
        """Returns once this server has applied everything that was acknowledged to anybody before the call."""
        await self.perform(self.operations.sync(path))

    async def get_config(self, *, watch: Listener | None = None) -> tuple[bytes | None, Stat]:
        """The ensemble's configuration text, which is outside of any chroot."""
        return await self.perform(self.operations.get_config(watch))

    async def who_am_i(self) -> list[Identity]:
        """Whom the server takes this connection for."""
        return await self.perform(self.operations.who_am_i())

    async def check_watches(self, path: str, kind: WatchKind = WatchKind.ANY) -> bool:
        """Whether this connection has such a watch at the server."""
        try:
            await self.perform(self.operations.check_watches(path, kind))
        except NoWatcherError:
            return False
        return True

    # ClickHouse Keeper's. Keeper has them, and a server of ours where `keeperExtensionsEnabled` is set; for others they
    # are unknown operations, which end the connection: UnimplementedError.

    async def keeper_features(self) -> frozenset[KeeperFeature]:
        """Which of them the server has that this client is connected to; none where it is no such server."""
        try:
            return await self.perform(self.operations.keeper_features())
        except NoNodeError:
            return frozenset()

    async def list_children(
        self,
        path: str,
        kind: ChildKind = ChildKind.ALL,
        *,
        stats: bool = False,
        data: bool = False,
        watch: Listener | None = None,
    ) -> Listing:
        """The children of one kind, with their Stats and data where these are asked for, all of one state. `watch` is
        as that of `get_children`. Servers of ours give no more than 20,000 children, and `jute.maxbuffer`, so."""
        return await self.perform(self.operations.list_children(path, kind, stats=stats, data=data, watch=watch))

    async def list_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> list[str]:
        """The paths of what is below the znode, sorted: `limit` of them at most, nearer ones before farther ones. What
        this client may not read is left out, with all below it."""
        return await self.perform(self.operations.list_recursive(path, limit))

    async def try_remove(self, path: str, version: int = -1) -> None:
        """As `delete`, where that can be done; nothing and no error, where the znode is not there, has another version
        or has children."""
        await self.perform(self.operations.try_remove(path, version))

    async def remove_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> None:
        """Deletes the znode and all below it at once, or nothing: NotEmptyError, where they are more than `limit`, or
        than one transaction has room for (then `delete_all`). No error, where it does not exist."""
        await self.perform(self.operations.remove_recursive(path, limit))

    # What takes several requests.

    async def ensure_path(self, path: str, acl: Iterable[Acl] = OPEN_ACL) -> None:
        """Creates the znode, and those above it, where they do not exist; those of the chroot, too.

        Raises NoNodeError where others delete them again each time.
        """
        creates, attempts = self.operations.create_each(path, acl), Attempts()
        at, is_descending = 0, False
        while 0 <= at < len(creates):
            try:
                await self.perform(creates[at])
            except NodeExistsError:
                pass
            except NoNodeError as error:
                if at + 1 == len(creates):
                    raise
                if is_descending:
                    attempts.again(error)
                at, is_descending = at + 1, False
                continue
            at, is_descending = at - 1, True

    async def delete_all(self, path: str) -> int:
        """Deletes the znode and all below it, the deepest first; returns how many. What others create meanwhile, too.

        A znode that is not there is none of them. The root cannot be deleted: BadArgumentsError, before anything is.
        """
        count = 0
        # A path is left when its znode is gone; what is found below it goes before.
        pending = [path]
        while pending:
            try:
                await self.delete(pending[-1])
                count += 1
            except NoNodeError:
                pass
            except NotEmptyError:
                pending += await self._paths_below(pending[-1])
                continue
            pending.pop()
        return count

    async def _paths_below(self, path: str) -> list[str]:
        try:
            names = await self.get_children(path)
        except NoNodeError:
            return []
        return [f"{path.rstrip('/')}/{name}" for name in names]

    # Several in one request.

    def transaction(self) -> Transaction:
        """`async with zk.transaction() as t: t.set(…)`, or `commit` it yourself."""
        return Transaction(self.operations, self.perform)

    @overload
    async def multi_read(self, reads: Sequence[Get]) -> list[tuple[bytes | None, Stat] | RequestError]: ...

    @overload
    async def multi_read(self, reads: Sequence[GetChildren]) -> list[list[str] | RequestError]: ...

    @overload
    async def multi_read(
        self, reads: Sequence[Get | GetChildren]
    ) -> list[tuple[bytes | None, Stat] | list[str] | RequestError]: ...

    async def multi_read(self, reads: Sequence[Get | GetChildren]) -> list[Any]:
        """Answers each read with what it would return alone, or with its RequestError (returned, not raised)."""
        operations: list[Operation[Any]] = [
            self.operations.get(read.path) if isinstance(read, Get) else self.operations.get_children(read.path)
            for read in reads
        ]
        return await self.perform(self.operations.multi_read(operations))
