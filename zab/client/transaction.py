"""Several operations in one request: all or nothing (`Transaction`), or several reads at once (`Get`, `GetChildren`).

    async with zk.transaction() as t:
        t.check("/lock", version=3)
        t.set("/a", b"1")
        t.create("/log/entry-", b"…", sequence=True)
    t.results                                  # [None, Stat, "/log/entry-0000000007"]

The transaction is sent when its block is left without an exception; one left with an exception is not sent. All its
changes carry one zxid and become visible at once. When an operation is refused nothing happens, and the refusal is
raised as that operation's exception, with `index` its place.

A later operation sees the earlier ones of the same transaction, as if they had been done.
"""

from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

from zab.client.exceptions import RequestError
from zab.client.operations import Operation, Operations
from zab.client.records import OPEN_ACL, Acl

__all__ = ["Get", "GetChildren", "Transaction"]


class Get(NamedTuple):
    """For `multi_read`; answered with (data, Stat)."""

    path: str


class GetChildren(NamedTuple):
    """For `multi_read`; answered with the names of the children."""

    path: str


class Transaction:
    """Made by `Client.transaction`. `results` is there after `commit`: one value per operation, in their order."""

    def __init__(self, operations: Operations, perform: Callable[[Operation[list[Any]]], Awaitable[list[Any]]]) -> None:
        self.results: list[Any] | None = None
        self._operations = operations
        self._perform = perform
        self._parts: list[Operation[Any]] = []
        self._shapes: list[Callable[[Any], Any]] = []

    def __len__(self) -> int:
        return len(self._parts)

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
    ) -> None:
        """Its result is the path created; with if_not_exists, the one that is there."""
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        if if_not_exists:
            self._add(self._operations.create_if_not_exists(path, data, acl, **mode, ttl_ms=ttl_ms))
            return
        self._add(self._operations.create(path, data, acl, **mode, ttl_ms=ttl_ms), lambda created: created[0])

    def set(self, path: str, data: bytes | None, version: int = -1) -> None:
        """Its result is the new Stat."""
        self._add(self._operations.set(path, data, version))

    def delete(self, path: str, version: int = -1) -> None:
        self._add(self._operations.delete(path, version))

    def check(self, path: str, version: int = -1) -> None:
        """The znode is there, and has this version of its data."""
        self._add(self._operations.check(path, version))

    def _add(self, operation: Operation[Any], shape: Callable[[Any], Any] = lambda result: result) -> None:
        assert self.results is None, "the transaction is committed already"
        self._parts.append(operation)
        self._shapes.append(shape)

    async def commit(self) -> list[Any]:
        """Sends it. Raises what the first refused operation raises alone, or what any request may raise."""
        assert self.results is None, "the transaction is committed already"
        results = await self._perform(self._operations.multi(self._parts))
        for result in results:
            # Those before the refused one answer None; those after it answer that they were not tried.
            if isinstance(result, RequestError):
                raise result
        self.results = [shape(result) for shape, result in zip(self._shapes, results, strict=True)]
        return self.results

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self.results is None:
            await self.commit()
