"""Operations as pure code asks for them (`zab.coordination`) as this client's, and its answers as theirs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, assert_never

from datatree.errors import ErrorCode
from zab.client.core import operations as client_operations
from zab.client.core.exceptions import RequestError, SessionExpiredError, ZabError
from zab.client.core.records import Acl, EventType, WatchEvent
from zab.client.core.records import Stat as ClientStat
from zab.coordination.driver import WatchFired
from zab.coordination.operations import (
    Check,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Multi,
    Operation,
    Result,
    Set,
    Stat,
    Sync,
)


def operation_of(
    of: client_operations.Operations,
    asked: Operation | Check,
    acl: Callable[[str], Sequence[Acl]],
    tell: Callable[[WatchFired], None],
) -> client_operations.Operation[Any]:
    """What the client sends. `acl`: of a znode that is created at this path; `tell`: when a watch fires."""

    def watch(path: str) -> _Watch:
        return _Watch(path, tell)

    match asked:
        case Create(path, data, ephemeral, sequential):
            return of.create(path, data, acl(path), ephemeral=ephemeral, sequence=sequential)
        case Get(path, is_watched):
            return of.get(path, watch(path) if is_watched else None)
        case Exists(path, is_watched):
            return of.exists(path, watch(path) if is_watched else None)
        case Children(path, is_watched):
            return of.get_children2(path, watch(path) if is_watched else None)
        case Sync(path):
            return of.sync(path)
        case Set(path, data, version):
            return of.set(path, data, version)
        case Delete(path, version):
            return of.delete(path, version)
        case Check(path, version):
            return of.check(path, version)
        case Multi(parts):
            return of.multi([operation_of(of, part, acl, tell) for part in parts])
        case _:
            assert_never(asked)


class _Watch:
    """A watch that fires once."""

    def __init__(self, path: str, tell: Callable[[WatchFired], None]) -> None:
        self._path = path
        self._tell = tell

    def deliver(self, event: WatchEvent) -> None:
        if event.type is not EventType.SESSION:
            self._tell(WatchFired(self._path))

    def end(self, reason: ZabError) -> None:
        """The session is over, which is told by itself."""


def result_of(asked: Operation | Check, answer: Any) -> Result:
    """What the client's answer to this operation says."""
    if isinstance(answer, RequestError):
        return Result(ErrorCode(answer.code))
    if isinstance(answer, ZabError):
        return Result(ErrorCode(SessionExpiredError.code))
    if answer is None:
        # A delete or a check, or a part of a multi that was undone since another one was refused.
        return Result()
    match asked:
        case Create():
            path, stat = answer
            return Result(path=path, stat=_stat(stat))
        case Get():
            data, stat = answer
            return Result(data=data or b"", stat=_stat(stat))
        case Exists() | Set():
            return Result(stat=_stat(answer))
        case Children():
            names, stat = answer
            return Result(children=tuple(names), stat=_stat(stat))
        case Multi(parts):
            results = tuple(result_of(part, each) for part, each in zip(parts, answer, strict=True))
            errors = [each.error for each in results if not each.ok and each.error is not UNDONE]
            return Result(errors[0] if errors else ErrorCode.OK, parts=results)
        case _:
            return Result()


UNDONE: Final = ErrorCode.RUNTIMEINCONSISTENCY
"""A part of a multi that was not done because another one was refused."""


def _stat(stat: ClientStat) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeral_owner, stat.ctime)
