"""The operations of the service on znodes, each as a method, for all classes that offer them.

`Client` sends each once; `Retrying` (`zab.client.retry`) sends it again after a lost connection where that is safe.

A path is absolute, `version` -1 matches every version. `data` is bytes, and TypeError is raised for text; it may be
None, which the service distinguishes from b"".

What an operation raises: the exception of the error code (`zab.client.core.exceptions`); ConnectionLossError when the
connection broke before the answer, so that it is unknown whether a write was done; NotConnectedError or ThrottledError
when it was never sent; SessionExpiredError when the session is over.
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
"""Default number of names in a page."""


class Znodes(ABC):
    """`operations` makes what `perform` sends."""

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
        """Creates a znode and returns its path, which has ten more digits when `sequence` is set (19 if the server uses
        64-bit numbers).

        if_not_exists: succeed if the znode exists, whatever it contains. Supported by ClickHouse Keeper, and by zab
        servers with `createIfNotExistsEnabled`; for other servers it is an unknown operation, which ends the
        connection.
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
        """Like `create`; also returns the new znode's Stat."""
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        return await self.perform(self.operations.create(path, data, acl, **mode, ttl_ms=ttl_ms))

    async def delete(self, path: str, version: int = -1) -> None:
        await self.perform(self.operations.delete(path, version))

    async def exists(self, path: str, *, watch: Listener | None = None) -> Stat | None:
        """The Stat; None if there is no znode. `watch` is told once: of its creation, change or deletion."""
        try:
            return await self.perform(self.operations.exists(path, watch))
        except NoNodeError:
            return None

    async def get(self, path: str, *, watch: Listener | None = None) -> tuple[bytes | None, Stat]:
        """Data and Stat. `watch` is told once: of the next change of the data, or of the deletion."""
        return await self.perform(self.operations.get(path, watch))

    async def set(self, path: str, data: bytes | None, version: int = -1) -> Stat:
        return await self.perform(self.operations.set(path, data, version))

    async def get_children(self, path: str, *, watch: Listener | None = None) -> list[str]:
        """The children's names, sorted. `watch` is told once: of the next child created or deleted, or of the
        deletion."""
        return await self.perform(self.operations.get_children(path, watch))

    async def get_children2(self, path: str, *, watch: Listener | None = None) -> tuple[list[str], Stat]:
        """Like `get_children`; also returns the znode's Stat."""
        return await self.perform(self.operations.get_children2(path, watch))

    async def get_children_page(
        self, path: str, *, after: str = "", prefix: str = "", count: int = PAGE_COUNT
    ) -> ChildrenPage:
        """The next children in the order of their names: at most `count` names that come after `after` and begin with
        `prefix`. A server may return fewer, but at least one, and sets `has_more`; it sends at most 5,000 names and 512
        KiB. The order is that of the code points. A page shows one state of the znode.

        For znodes with more children than fit in one answer. Only zab servers support it: others raise
        UnimplementedError.
        """
        return await self.perform(self.operations.get_children_page(path, after, prefix, count))

    def iter_children(
        self, path: str, *, after: str = "", prefix: str = "", page_count: int = PAGE_COUNT
    ) -> ChildNames:
        """The names of all children, in order; pages of `page_count` names are read as the iteration proceeds.

        A child that exists all the time is yielded exactly once, and none is yielded twice; one that is created or
        deleted meanwhile may or may not be. Raises what `get_children_page` raises, NoNodeError also between two pages.
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
        """version: that of the ACL (`Stat.aversion`)."""
        return await self.perform(self.operations.set_acl(path, acl, version))

    async def sync(self, path: str = "/") -> None:
        """Returns once this server has applied everything that was acknowledged to any client before the call."""
        await self.perform(self.operations.sync(path))

    async def get_config(self, *, watch: Listener | None = None) -> tuple[bytes | None, Stat]:
        """The ensemble's configuration text, which is outside of any chroot."""
        return await self.perform(self.operations.get_config(watch))

    async def who_am_i(self) -> list[Identity]:
        """The identities that the server has for this connection."""
        return await self.perform(self.operations.who_am_i())

    async def check_watches(self, path: str, kind: WatchKind = WatchKind.ANY) -> bool:
        """Whether the server has such a watch for this connection."""
        try:
            await self.perform(self.operations.check_watches(path, kind))
        except NoWatcherError:
            return False
        return True

    # Supported by ClickHouse Keeper, and by zab servers with `keeperExtensionsEnabled`; for other servers they are
    # unknown operations, which end the connection: UnimplementedError.

    async def keeper_features(self) -> frozenset[KeeperFeature]:
        """Which of these operations the connected server supports; empty if it supports none."""
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
        """The children of one kind, with their Stats and data if requested, all of one state. `watch` is that of
        `get_children`. A zab server returns at most 20,000 children, and at most `jute.maxbuffer` bytes."""
        return await self.perform(self.operations.list_children(path, kind, stats=stats, data=data, watch=watch))

    async def list_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> list[str]:
        """The paths of the znode's descendants, sorted: at most `limit`, those closer to the znode first. A znode that
        this client may not read is left out, with all its descendants."""
        return await self.perform(self.operations.list_recursive(path, limit))

    async def try_remove(self, path: str, version: int = -1) -> None:
        """Like `delete`, but no error if the znode does not exist, has another version or has children: then nothing is
        done."""
        await self.perform(self.operations.try_remove(path, version))

    async def remove_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> None:
        """Deletes the znode and all its descendants at once, or nothing: NotEmptyError if they are more than `limit`,
        or too many for one transaction (then use `delete_all`). No error if the znode does not exist."""
        await self.perform(self.operations.remove_recursive(path, limit))

    # Methods that take several requests.

    async def ensure_path(self, path: str, acl: Iterable[Acl] = OPEN_ACL) -> None:
        """Creates the znode and its ancestors, as far as they do not exist; those of the chroot as well.

        Raises NoNodeError if other clients keep deleting them.
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
        """Deletes the znode and all its descendants, the deepest first, also those that others create meanwhile.
        Returns how many; 0 if the znode does not exist.

        The root cannot be deleted: BadArgumentsError, before anything is deleted.
        """
        count = 0
        # A path is done when its znode is gone; its descendants are deleted before it.
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
        """Returns for each read what it would return alone, or its RequestError (which is not raised)."""
        operations: list[Operation[Any]] = [
            self.operations.get(read.path) if isinstance(read, Get) else self.operations.get_children(read.path)
            for read in reads
        ]
        return await self.perform(self.operations.multi_read(operations))
