"""Several operations in one request: all or nothing (`Transaction`), or several reads at once (`Get`, `GetChildren`).

    async with zk.transaction() as t:
        t.check("/lock", version=3)
        t.set("/a", b"1")
        entry = t.create("/log/entry-", b"…", sequence=True)
    entry.result                               # "/log/entry-0000000007"
    t.results                                  # [None, Stat, "/log/entry-0000000007"]

The transaction is sent when its block is left without an exception; one left with an exception is not sent. All its
changes have one zxid and become visible at once. If an operation is refused, nothing is done, and that operation's
exception is raised, with its `index`.

An operation sees the effects of the earlier ones of the same transaction.
"""

from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from datatree.errors import ErrorCode
from datatree.opcodes import KEEPERS
from zab.client.core.exceptions import MarshallingError, RequestError, UnimplementedError
from zab.client.core.operations import LIMIT_MAX, Operation, Operations
from zab.client.core.reasons import reason
from zab.client.core.records import OPEN_ACL, Acl, Stat

__all__ = ["Get", "GetChildren", "Part", "Parts", "Perform", "Transaction"]

T = TypeVar("T")
Perform: TypeAlias = Callable[[Operation[list[Any]]], Awaitable[list[Any]]]


class Get(NamedTuple):
    """For `multi_read`; the result is (data, Stat)."""

    path: str


class GetChildren(NamedTuple):
    """For `multi_read`; the result is the names of the children."""

    path: str


class Part(Generic[T]):
    """One operation of a transaction; `result` is set once that is committed."""

    def __init__(self, operation: Operation[Any], shape: Callable[[Any], T]) -> None:
        self.operation = operation
        self._shape = shape
        self._result: T | None = None
        self._is_done = False

    @property
    def result(self) -> T:
        """Raises RuntimeError before the transaction is committed."""
        if not self._is_done:
            raise RuntimeError("the transaction is not committed")
        return self._result  # type: ignore[return-value]

    def finish(self, answer: Any) -> T:
        self._result, self._is_done = self._shape(answer), True
        return self._result


class Parts:
    """The operations of a transaction. `results`, once it is committed: one value per operation, in order."""

    def __init__(self, operations: Operations) -> None:
        self.results: list[str | Stat | None] | None = None
        self._operations = operations
        self._parts: list[Part[Any]] = []

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
    ) -> Part[str]:
        """Its result is the path created; with if_not_exists, that of the existing znode."""
        mode = {"ephemeral": ephemeral, "sequence": sequence, "container": container}
        if if_not_exists:
            return self._add(self._operations.create_if_not_exists(path, data, acl, **mode, ttl_ms=ttl_ms), _itself)
        return self._add(self._operations.create(path, data, acl, **mode, ttl_ms=ttl_ms), _path_of)

    def set(self, path: str, data: bytes | None, version: int = -1) -> Part[Stat]:
        """Its result is the new Stat."""
        return self._add(self._operations.set(path, data, version), _itself)

    def delete(self, path: str, version: int = -1) -> Part[None]:
        return self._add(self._operations.delete(path, version), _itself)

    def check(self, path: str, version: int = -1) -> Part[None]:
        """Requires that the znode exists, with this version of its data."""
        return self._add(self._operations.check(path, version), _itself)

    # Of ClickHouse Keeper: see `Znodes.keeper_features`.

    def check_not_exists(self, path: str, version: int = -1) -> Part[None]:
        """Requires that the znode does not exist, or has a version different from this one."""
        return self._add(self._operations.check_not_exists(path, version), _itself)

    def check_stat(self, path: str, stat: Stat) -> Part[None]:
        """Requires that the znode exists, with each value of this Stat that is not -1 (`ANY_STAT`)."""
        return self._add(self._operations.check_stat(path, stat), _itself)

    def try_remove(self, path: str, version: int = -1) -> Part[None]:
        """Like `delete`, but no error if that cannot be done: then nothing is done."""
        return self._add(self._operations.try_remove(path, version), _itself)

    def remove_recursive(self, path: str, *, limit: int = LIMIT_MAX) -> Part[None]:
        """Deletes the znode and its descendants, at most `limit` in all. No error if it does not exist."""
        return self._add(self._operations.remove_recursive(path, limit), _itself)

    def _add(self, operation: Operation[Any], shape: Callable[[Any], T]) -> Part[T]:
        self._raise_if_committed()
        part = Part(operation, shape)
        self._parts.append(part)
        return part

    def _raise_if_committed(self) -> None:
        if self.results is not None:
            raise RuntimeError("the transaction is committed already")

    async def send(self, perform: Perform) -> list[str | Stat | None]:
        """Raises what the first refused operation would raise alone, or what any request may raise."""
        self._raise_if_committed()
        try:
            answers = await perform(self._operations.multi([part.operation for part in self._parts]))
        except MarshallingError:
            own = next((part.operation for part in self._parts if part.operation.opcode in KEEPERS), None)
            if own is None:
                raise
            # A ZooKeeper server cannot read operations that it does not know.
            raise UnimplementedError(own.path, detail=reason(ErrorCode.UNIMPLEMENTED, own.opcode, own.path)) from None
        for answer in answers:
            # Operations before the refused one answer None; those after it answer that they were not tried.
            if isinstance(answer, RequestError):
                raise answer
        self.results = [part.finish(answer) for part, answer in zip(self._parts, answers, strict=True)]
        return self.results


class Transaction(Parts):
    """Made by `Client.transaction`. `results` is set by `commit`: one value per operation, in order."""

    def __init__(self, operations: Operations, perform: Perform) -> None:
        super().__init__(operations)
        self._perform = perform

    async def commit(self) -> list[str | Stat | None]:
        """Sends it. Raises what the first refused operation would raise alone, or what any request may raise."""
        return await self.send(self._perform)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self.results is None:
            await self.commit()


def _itself(answer: T) -> T:
    return answer


def _path_of(created: tuple[str, Stat]) -> str:
    return created[0]
