"""Operations that are repeated until each is known to be done or refused, also after a lost connection.

    zk.retrying()                       a view of the client, as long as its session lives
    zk.retrying(limit_s=30)             gives up after 30 seconds, with the last error

    never sent (NotConnectedError, ThrottledError, SessionMovedError)       sent again
    lost: a read, `sync`, what `ensure_path` creates                        sent again
    lost: a write                                                           found out, then sent again or answered

How the outcome of a lost write is found out: first comes a `sync`, which is answered after all that this session had in
flight. Then the feed of changes (`zab.client.core.changes`) is searched for what this session did since the write was
requested: a change of the same kind, with the same data, that belongs to no other write of this client. If there is
one, it gives the write's result; if there is none, the write was not done, and never will be.

A ZooKeeper server has no such feed. There the znode itself is read, which tells less:

    create, ephemeral       the owner tells
    set with a version      the version has not changed: not done. It is the next one, with this data: done
    delete with a version   the version is there still: not done
    anything else           ConnectionLossError: whether it was done stays unknown

A try_remove or remove_recursive without a change in the feed was not done, or had no effect; it is sent again. The
outcome of a transaction with a remove_recursive stays unknown: the feed has its changes in a different order.

A request that is lost each time it is sent, since the server ends the connection for it, is raised after 100 times.

Invariants:
- A write is sent again only when it is certain that it was not done.
- What returns was done by this client, exactly once. (Except for ZooKeeper's `set`: some client set this data.)

The Stat of a lost `set` is that of its change. Fields that the change does not have (`czxid`, `ctime`, `cversion`,
`aversion`, `num_children`, `pzxid`) are those read afterwards, or 0 if the znode is gone by then.

If a znode's ACL does not let this client read it, the outcome of a lost write stays unknown.

Deliberately not here: a session that is over. Its writes may have been done; no server can tell (SessionExpiredError).
"""

from typing import Any, Final, Protocol, TypeVar

from attrs import define

from datatree.opcodes import WRITES, Effect, OpCode
from datatree.requests import Create, PathVersion, SetAcl, SetData
from zab.client.attempts import ATTEMPTS_MAX, Attempts
from zab.client.core.backends import Scope
from zab.client.core.changes import Changes
from zab.client.core.exceptions import (
    ChangesLostError,
    ConnectionLossError,
    NoAuthError,
    NoNodeError,
    NotConnectedError,
    RequestError,
    SessionMovedError,
    ThrottledError,
    TlsError,
    UnimplementedError,
)
from zab.client.core.operations import Operation, Operations
from zab.client.core.records import Change, ChangeKind, Permission, Stat
from zab.client.core.sending import Sending
from zab.client.znodes import Znodes

__all__ = ["Retrying"]

T = TypeVar("T")

THROTTLED_PAUSE_S: Final = 0.1
LOSSES_OF_A_FEED_MAX: Final = 3
"""After this many lost connections the feed is not used: a server without it may have ended them."""
_SENT_AGAIN: Final = (NotConnectedError, ThrottledError, SessionMovedError)
_KINDS: Final = {
    Effect.CREATE: ChangeKind.CREATED,
    Effect.DELETE: ChangeKind.DELETED,
    Effect.SET_DATA: ChangeKind.DATA_CHANGED,
    Effect.SET_ACL: ChangeKind.ACL_CHANGED,
}
_CHECKS: Final = (OpCode.CHECK, OpCode.CHECK_NOT_EXISTS, OpCode.CHECK_STAT)
_PERHAPS: Final = {
    OpCode.CREATE_IF_NOT_EXISTS: Effect.CREATE,
    OpCode.TRY_REMOVE: Effect.DELETE,
    OpCode.REMOVE_RECURSIVE: Effect.DELETE,
}
"""The kind of change that each makes, if it changes anything."""
_SEQUENTIAL: Final = 2
_SEQUENCE_DIGITS: Final = 10


@define
class _Found:
    """The write was done, and this would have been its answer."""

    result: Any


class Asked(Protocol):
    """What is needed of a client: see `zab.client.client`."""

    operations: Operations

    @property
    def last_zxid(self) -> int: ...

    @property
    def session_id(self) -> int: ...

    @property
    def sending(self) -> Sending: ...

    async def perform(self, operation: Operation[T]) -> T: ...

    async def sync(self, path: str = "/") -> None: ...

    async def get(self, path: str) -> tuple[bytes | None, Stat]: ...

    async def exists(self, path: str) -> Stat | None: ...

    async def sleep(self, seconds: float) -> None: ...

    def changes(self, since: int) -> Changes: ...

    def move_on_after(self, seconds: float | None) -> Scope: ...


class Retrying(Znodes):
    """Made by `Client.retrying`. limit_s: for one operation with all its repetitions; None: as long as the session."""

    def __init__(self, client: Asked, limit_s: float | None) -> None:
        self._client = client
        self._limit_s = limit_s
        self.operations = client.operations

    async def perform(self, operation: Operation[T]) -> T:
        error: RequestError | None = None
        attempts = Attempts()
        async with self._client.move_on_after(self._limit_s):
            if self._client.last_zxid == 0 and operation.opcode in WRITES:
                # A client that has seen nothing yet: the feed would begin with the first change of all.
                await self.sync()
            since = self._client.last_zxid
            with self._client.sending.under_way(since):
                while True:
                    try:
                        return await self._client.perform(operation)
                    except TlsError:
                        raise
                    except _SENT_AGAIN as failure:
                        error = failure
                        if isinstance(failure, ThrottledError):
                            await self._client.sleep(THROTTLED_PAUSE_S)
                    except ConnectionLossError as failure:
                        error = failure
                        attempts.again(failure)
                        found = await self._find_out(operation, since, failure)
                        if found is not None:
                            result: T = found.result
                            return result
        raise error or NotConnectedError(operation.path, detail=f"no answer within {self._limit_s} s")

    async def _find_out(self, operation: Operation[Any], since: int, lost: ConnectionLossError) -> _Found | None:
        """The outcome of the lost operation; None: it was not done, and is not in flight. Raises `lost` if it is
        unknown."""
        if operation.opcode not in WRITES or operation.is_repeatable:
            return None
        if any(part.opcode == OpCode.REMOVE_RECURSIVE for part in operation.parts):
            raise lost
        for losses in range(ATTEMPTS_MAX):
            try:
                await self._client.sync()
                if self._client.sending.has_changes and losses < LOSSES_OF_A_FEED_MAX:
                    return await self._by_changes(operation, since, lost)
                return await self._by_reading(operation, since, lost)
            except UnimplementedError:
                self._client.sending.has_changes = False
            except ChangesLostError:
                raise lost from None
            except TlsError:
                raise
            except _SENT_AGAIN:
                await self._client.sleep(THROTTLED_PAUSE_S)
            except ConnectionLossError as failure:
                if failure is lost:
                    raise
        # No server can tell.
        raise lost

    # With the feed of changes.

    async def _by_changes(self, operation: Operation[Any], since: int, lost: ConnectionLossError) -> _Found | None:
        changes = await self._client.changes(since).up_to(self._client.last_zxid)
        own: dict[int, dict[int, Change]] = {}
        for change in changes:
            if change.session == self._client.session_id and not self._client.sending.is_owned(change.zxid):
                own.setdefault(change.zxid, {})[change.part] = change
        parts = operation.parts or (operation,)
        for zxid, of_zxid in own.items():
            if self._is_of(parts, of_zxid):
                self._client.sending.own(zxid)
                results = [await self._result(part, of_zxid.get(index)) for index, part in enumerate(parts)]
                return _Found(results if operation.parts else results[0])
        deleted = {change.path for change in changes if change.kind is ChangeKind.DELETED}
        for part in parts:
            if not await self._is_visible(part, since, deleted):
                raise lost
        return None

    def _is_of(self, parts: tuple[Operation[Any], ...], changes: dict[int, Change]) -> bool:
        """Whether the changes of one transaction are those of these parts."""
        if parts[0].opcode == OpCode.REMOVE_RECURSIVE:
            *_, last = changes.values()
            is_all_deleted = all(change.kind is ChangeKind.DELETED for change in changes.values())
            return is_all_deleted and self._is_change_of(parts[0], last)
        expected = {
            index: part
            for index, part in enumerate(parts)
            if part.opcode not in _CHECKS and (part.opcode not in _PERHAPS or index in changes)
        }
        return expected.keys() == changes.keys() and all(
            self._is_change_of(part, changes[index]) for index, part in expected.items()
        )

    def _is_change_of(self, part: Operation[Any], change: Change) -> bool:
        effect = _PERHAPS.get(part.opcode, part.opcode.effect)
        if effect is None or change.kind is not _KINDS.get(effect):
            return False
        path = self.operations.outer(part.body.path)  # type: ignore[union-attr]
        match part.body:
            case Create(data=data, flags=flags):
                digits = change.path[len(path) :]
                is_numbered = change.path.startswith(path) and len(digits) >= _SEQUENCE_DIGITS
                is_there = is_numbered if _is_sequential(flags) else change.path == path
                return is_there and _same(change.data, data)
            case SetData(data=data, version=version):
                is_next = version == -1 or change.version == version + 1
                return change.path == path and _same(change.data, data) and is_next
            case SetAcl(version=version):
                return change.path == path and (version == -1 or change.version == version + 1)
        return change.path == path

    async def _result(self, part: Operation[Any], change: Change | None) -> Any:
        """What would have been the answer to the part."""
        if part.opcode == OpCode.CREATE_IF_NOT_EXISTS:
            return part.path
        if change is None or change.kind is ChangeKind.DELETED:
            return None
        size = len(change.data or b"")
        if change.kind is ChangeKind.CREATED:
            zxid, time, owner = change.zxid, change.time, change.ephemeral_owner
            return change.path, Stat(zxid, zxid, time, time, 0, 0, 0, owner, size, 0, zxid)
        now = await self._client.exists(change.path) or Stat(*(0,) * len(Stat._fields))
        if change.kind is ChangeKind.ACL_CHANGED:
            return now._replace(aversion=change.version)
        return now._replace(mzxid=change.zxid, mtime=change.time, version=change.version, data_length=size)

    async def _is_visible(self, part: Operation[Any], since: int, deleted: set[str]) -> bool:
        """Whether the feed would have shown this client a change by the part. deleted: paths deleted since, by the
        feed."""
        if part.opcode in _CHECKS:
            return True
        if isinstance(part.body, Create):
            return any(
                permissions & Permission.READ and scheme in (b"world", b"auth")
                for permissions, scheme, _ in part.body.acl or ()
            )
        path = self.operations.outer(part.body.path)  # type: ignore[union-attr]
        try:
            await self._client.get(path)
        except NoAuthError:
            return False
        except NoNodeError:
            # Gone before, or deleted by this part, with an ACL that can no longer be read.
            return path in deleted or await self._is_quiet(path.rpartition("/")[0] or "/", since)
        return True

    async def _is_quiet(self, parent: str, since: int) -> bool:
        """Whether none of its children was created or deleted since."""
        try:
            _, stat = await self._client.get(parent)
        except NoAuthError:
            return False
        except NoNodeError:
            return parent != "/" and await self._is_quiet(parent.rpartition("/")[0] or "/", since)
        return stat.pzxid <= since

    # With a read of the znode.

    async def _by_reading(self, operation: Operation[Any], since: int, lost: ConnectionLossError) -> _Found | None:
        if not isinstance(operation.body, Create | SetData | PathVersion):
            raise lost
        path = self.operations.outer(operation.body.path)
        try:
            data, stat = await self._client.get(path)
        except NoNodeError:
            if isinstance(operation.body, Create) and operation.body.flags == 1:
                return None
            raise lost from None
        except NoAuthError:
            raise lost from None
        match operation.body:
            case Create(flags=1) if stat.ephemeral_owner == self._client.session_id and stat.czxid > since:
                return _Found((path, stat))
            case Create(flags=1):
                # Another client's, or an older one: when sent again, the create gets this answer.
                return None
            case SetData(version=version) | PathVersion(version=version) if version == stat.version:
                return None
            case SetData(data=wanted, version=version) if version != -1:
                if stat.version == version + 1 and _same(data, wanted) and stat.mzxid > since:
                    return _Found(stat)
        raise lost


def _is_sequential(flags: int) -> bool:
    """Whether the server appends a number: flags 2, 3 and 6 of create."""
    return bool(flags & _SEQUENTIAL)


def _same(found: bytes | None, wanted: bytes | None) -> bool:
    """Data may have been given as any buffer."""
    return found is wanted is None or (found is not None and wanted is not None and bytes(found) == bytes(wanted))
