"""Every operation of the service as a value: what is sent, and how its answer is read.

An `Operation` can be sent alone or, where ZooKeeper allows it, be a part of a transaction or a multi_read: the same
functions make it for each. Paths are validated here, before anything is sent: a malformed one raises BadArgumentsError.
The chroot is put before paths on the way out, and taken off on the way in.

    flags of create   0 persistent, 1 ephemeral, 2 sequential, 3 both, 4 container, 5 TTL, 6 TTL and sequential
    opcode            15 (create2) for 0 to 3, 19 (createContainer) for 4, 21 (createTTL) for 5 and 6;
                      502 (createIfNotExists) for 0 and 1, if the znode may be there already

ClickHouse Keeper's operations have opcodes from 500 on; the names of the methods are Keeper's. In the answer to a
transaction servers give them their own types, or those of the delete or check that they amount to.

create2 answers {path, Stat}, so one opcode serves `create` and `create2`. createIfNotExists answers the path alone.

Deliberately not here: sending (`zab.client.core.runtime`) and the bytes (`datatree.requests`, `zab.jute.replies`).
"""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Any, Final, Generic, TypeAlias, TypeVar

from attrs import define

from datatree.errors import ErrorCode, Refused
from datatree.jute import JuteError
from datatree.opcodes import OpCode
from datatree.paths import validate
from datatree.requests import (
    Body,
    CheckStat,
    Create,
    FilteredList,
    GetChanges,
    GetChildrenPage,
    HandOver,
    Multi,
    NoBody,
    PathKind,
    PathLimit,
    PathOnly,
    PathVersion,
    PathWatch,
    Reconfig,
    SetAcl,
    SetData,
    WireAcl,
)
from zab.client.core.exceptions import BadArgumentsError, request_error
from zab.client.core.misuse import acl_rows, no_listener, no_path, no_version
from zab.client.core.reasons import path_fault, reason
from zab.client.core.records import (
    Acl,
    ChildKind,
    ChildrenPage,
    Identity,
    ListedChild,
    Listing,
    Stat,
    WatchKind,
    WatchMode,
)
from zab.client.core.requests import ClientRequest, Registration
from zab.client.core.session import Session
from zab.client.core.watcher import Listener
from zab.client.core.watches import MODE_TABLES, Table
from zab.jute.change_pages import ChangePage
from zab.jute.keeper_features import FLAGS_PATH, KeeperFeature, features_of
from zab.jute.replies import MultiResult, decode_body

__all__ = ["CONFIG_PATH", "Operation", "Operations"]

T = TypeVar("T")
# Makes the caller's value from what `decode_body` read.
Shape: TypeAlias = Callable[[Any], T]

CONFIG_PATH: Final = "/zookeeper/config"
# Other types that an operation's result may have in a multi.
_ANSWERED_AS: Final = {
    OpCode.CREATE_CONTAINER: (OpCode.CREATE2,),
    OpCode.CREATE_TTL: (OpCode.CREATE2,),
    OpCode.CREATE_IF_NOT_EXISTS: (OpCode.CREATE,),
    OpCode.CHECK_NOT_EXISTS: (OpCode.CHECK,),
    OpCode.CHECK_STAT: (OpCode.CHECK,),
    OpCode.TRY_REMOVE: (OpCode.DELETE, OpCode.CHECK),
    OpCode.REMOVE_RECURSIVE: (OpCode.DELETE, OpCode.CHECK),
}
LIMIT_MAX: Final = 0xFFFF_FFFF
TTL_MS_MAX: Final = 0xFF_FFFF_FFFF


@define(eq=False)
class Operation(Generic[T]):
    """path: as the caller gave it. shape: makes the caller's value from the decoded answer.

    `parts` are those of a multi. is_repeatable: a write that may be sent again even if it was done.
    """

    opcode: OpCode
    body: Body
    shape: Shape[T]
    path: str | None = None
    registration: Registration | None = None
    parts: tuple["Operation[Any]", ...] = ()
    is_repeatable: bool = False

    def request(self) -> ClientRequest[T]:
        opcode, shape = self.opcode, self.shape

        def decode(payload: bytes, offset: int) -> T:
            return shape(decode_body(opcode, payload, offset))

        try:
            body = self.body.encode()
        except StructError as error:
            for part in self.parts or (self,):
                version = getattr(part.body, "version", 0)
                if not isinstance(version, int):
                    raise no_version(version) from None
            raise TypeError(f"{opcode.spelled} of {self.path}: {error}") from None
        return ClientRequest(opcode, body, decode, self.path, self.registration)


class Operations:
    """The operations of one client. `session` knows its chroot; `chroot` is that of a view, below it."""

    def __init__(self, session: Session, chroot: str = "") -> None:
        self._session = session
        self.chroot = chroot

    def inner(self, path: str) -> bytes:
        """The server's path of a valid path of the caller."""
        return self._session.inner_path(self.chroot + path if path != "/" or not self.chroot else self.chroot)

    def outer(self, path: bytes) -> str:
        """The caller's path of the server's `path`; a path outside the caller's chroot is unchanged."""
        outer = self._session.outer_path(path)
        if self.chroot and (outer == self.chroot or outer.startswith(self.chroot + "/")):
            return outer[len(self.chroot) :] or "/"
        return outer

    def _inner(self, path: str, *, sequence: bool = False) -> bytes:
        # A sequential znode gets digits appended, so a path that ends in a slash is legal there.
        try:
            validate((path + "1" if sequence else path).encode())
        except (AttributeError, TypeError):
            raise no_path(path) from None
        except (Refused, UnicodeEncodeError):
            raise BadArgumentsError(path, detail=path_fault(path + "1" if sequence else path)) from None
        # "/" names the chroot itself, but as the prefix of a sequential znode what is below it.
        return self._prefix(path) if sequence else self.inner(path)

    def _prefix(self, path: str) -> bytes:
        return self._session.inner_path(self.chroot + path, prefix=True)

    def _created(self, answer: tuple[bytes, bytes]) -> tuple[str, Stat]:
        return self.outer(answer[0]), Stat.from_wire(answer[1])

    # Writes.

    def create(
        self,
        path: str,
        data: bytes | None,
        acl: Iterable[Acl],
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
    ) -> Operation[tuple[str, Stat]]:
        opcode, flags = _create_mode(path, ephemeral, sequence, container, ttl_ms)
        entries = acl_rows(acl)
        body = Create(self._inner(path, sequence=sequence), _checked(data, path), entries, flags, ttl_ms)
        return Operation(opcode, body, self._created, path)

    def create_if_not_exists(
        self,
        path: str,
        data: bytes | None,
        acl: Iterable[Acl],
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        container: bool = False,
        ttl_ms: int | None = None,
    ) -> Operation[str]:
        if sequence or container or ttl_ms is not None:
            raise BadArgumentsError(path, detail="only a plain or an ephemeral znode is created if it does not exist")
        entries = acl_rows(acl)
        body = Create(self._inner(path), _checked(data, path), entries, int(ephemeral))
        return Operation(OpCode.CREATE_IF_NOT_EXISTS, body, self.outer, path, is_repeatable=True)

    def create_each(self, path: str, acl: Iterable[Acl]) -> list[Operation[tuple[str, Stat]]]:
        """Operations that create the znode, its parent, and so on, up to the child of the root outside any chroot."""
        entries = acl_rows(acl)
        at, found = self._inner(path), []
        while at not in (b"", b"/"):
            create = Operation(OpCode.CREATE2, Create(at, b"", entries, 0), self._created, self.outer(at))
            create.is_repeatable = True
            found.append(create)
            at = at.rpartition(b"/")[0]
        return found

    def delete(self, path: str, version: int) -> Operation[None]:
        return Operation(OpCode.DELETE, PathVersion(self._inner(path), version), _nothing, path)

    def set(self, path: str, data: bytes | None, version: int) -> Operation[Stat]:
        body = SetData(self._inner(path), _checked(data, path), version)
        return Operation(OpCode.SET_DATA, body, Stat.from_wire, path)

    def set_acl(self, path: str, acl: Iterable[Acl], version: int) -> Operation[Stat]:
        entries = acl_rows(acl)
        return Operation(OpCode.SET_ACL, SetAcl(self._inner(path), entries, version), Stat.from_wire, path)

    def check(self, path: str, version: int) -> Operation[None]:
        """Only inside a transaction."""
        return Operation(OpCode.CHECK, PathVersion(self._inner(path), version), _nothing, path)

    def check_not_exists(self, path: str, version: int) -> Operation[None]:
        """Only inside a transaction, as `check_stat`."""
        return Operation(OpCode.CHECK_NOT_EXISTS, PathVersion(self._inner(path), version), _nothing, path)

    def check_stat(self, path: str, stat: Stat) -> Operation[None]:
        return Operation(OpCode.CHECK_STAT, CheckStat(self._inner(path), -1, stat), _nothing, path)

    def try_remove(self, path: str, version: int) -> Operation[None]:
        return Operation(OpCode.TRY_REMOVE, PathVersion(self._inner(path), version), _nothing, path)

    def remove_recursive(self, path: str, limit: int) -> Operation[None]:
        return Operation(OpCode.REMOVE_RECURSIVE, self._limited(path, limit), _nothing, path)

    def _limited(self, path: str, limit: int) -> PathLimit:
        inner = self._inner(path)
        if not 0 <= limit <= LIMIT_MAX:
            raise BadArgumentsError(path, detail=f"a limit is between 0 and {LIMIT_MAX}, not {limit}")
        return PathLimit(inner, limit)

    def reconfig(
        self, joining: str | None, leaving: str | None, members: str | None, version: int
    ) -> Operation[tuple[bytes | None, Stat]]:
        body = Reconfig(_encoded(joining), _encoded(leaving), _encoded(members), version)
        return Operation(OpCode.RECONFIG, body, _data, CONFIG_PATH)

    def hand_over(self, server_id: int) -> Operation[None]:
        return Operation(OpCode.HAND_OVER, HandOver(server_id), _nothing, CONFIG_PATH)

    # Reads.

    def exists(self, path: str, watch: Listener | None) -> Operation[Stat]:
        inner = self._inner(path)
        return self._watching(OpCode.EXISTS, path, inner, Stat.from_wire, watch, Table.DATA, Table.EXIST)

    def get(self, path: str, watch: Listener | None = None) -> Operation[tuple[bytes | None, Stat]]:
        return self._watching(OpCode.GET_DATA, path, self._inner(path), _data, watch, Table.DATA)

    def get_config(self, watch: Listener | None) -> Operation[tuple[bytes | None, Stat]]:
        inner = CONFIG_PATH.encode()
        return self._watching(OpCode.GET_DATA, CONFIG_PATH, inner, _data, watch, Table.DATA)

    def get_children(self, path: str, watch: Listener | None = None) -> Operation[list[str]]:
        return self._watching(OpCode.GET_CHILDREN, path, self._inner(path), _names, watch, Table.CHILD)

    def get_children2(self, path: str, watch: Listener | None) -> Operation[tuple[list[str], Stat]]:
        inner = self._inner(path)
        return self._watching(OpCode.GET_CHILDREN2, path, inner, _names_and_stat, watch, Table.CHILD)

    def get_children_page(self, path: str, after: str, prefix: str, count: int) -> Operation[ChildrenPage]:
        try:
            body = GetChildrenPage(self._inner(path), after.encode(), prefix.encode(), count)
        except UnicodeEncodeError:
            raise BadArgumentsError(
                path, detail="neither `after` nor `prefix` may have half a surrogate pair"
            ) from None
        return Operation(OpCode.GET_CHILDREN_PAGE, body, _page, path)

    def list_children(
        self, path: str, kind: ChildKind, *, stats: bool, data: bool, watch: Listener | None
    ) -> Operation[Listing]:
        inner, is_watched = self._inner(path), watch is not None
        if stats or data:
            opcode, body = (
                OpCode.FILTERED_LIST_WITH_STATS_AND_DATA,
                FilteredList(inner, is_watched, kind, stats, data),
            )
        else:
            opcode, body = OpCode.FILTERED_LIST, FilteredList(inner, is_watched, kind)
        return Operation(opcode, body, _listing, path, _registration(inner, watch, Table.CHILD))

    def list_recursive(self, path: str, limit: int) -> Operation[list[str]]:
        def shape(paths: list[bytes]) -> list[str]:
            return sorted(map(self.outer, paths))

        return Operation(OpCode.LIST_RECURSIVE, self._limited(path, limit), shape, path)

    def keeper_features(self) -> Operation[frozenset[KeeperFeature]]:
        def shape(answer: tuple[bytes | None, bytes]) -> frozenset[KeeperFeature]:
            return features_of(answer[0] or b"")

        return Operation(OpCode.GET_DATA, PathWatch(FLAGS_PATH, False), shape, FLAGS_PATH.decode())

    def get_acl(self, path: str) -> Operation[tuple[tuple[Acl, ...], Stat]]:
        return Operation(OpCode.GET_ACL, PathOnly(self._inner(path)), _acl, path)

    def get_all_children_number(self, path: str) -> Operation[int]:
        return Operation(OpCode.GET_ALL_CHILDREN_NUMBER, PathOnly(self._inner(path)), int, path)

    def get_ephemerals(self, prefix: str) -> Operation[list[str]]:
        def shape(paths: list[bytes]) -> list[str]:
            return sorted(map(self.outer, paths))

        # A plain prefix of paths, not a path: nothing to validate.
        return Operation(OpCode.GET_EPHEMERALS, PathOnly(self._prefix(prefix)), shape, prefix)

    def _watching(
        self,
        opcode: OpCode,
        path: str,
        inner: bytes,
        shape: Shape[T],
        watcher: Listener | None,
        table: Table,
        missing: Table | None = None,
    ) -> Operation[T]:
        registration = _registration(inner, watcher, table, missing)
        return Operation(opcode, PathWatch(inner, watcher is not None), shape, path, registration)

    # About the connection.

    def sync(self, path: str) -> Operation[None]:
        return Operation(OpCode.SYNC, PathOnly(self._inner(path)), _nothing, path)

    def add_watch(self, path: str, watcher: Listener, mode: WatchMode) -> Operation[None]:
        inner = self._inner(path)
        if not hasattr(watcher, "deliver"):
            raise no_listener(watcher)
        registration = Registration(inner, watcher, MODE_TABLES[mode])
        return Operation(OpCode.ADD_WATCH, PathKind(inner, mode), _nothing, path, registration)

    def check_watches(self, path: str, kind: WatchKind) -> Operation[None]:
        return Operation(OpCode.CHECK_WATCHES, PathKind(self._inner(path), kind), _nothing, path)

    def remove_watches(self, path: str, kind: WatchKind) -> Operation[None]:
        return Operation(OpCode.REMOVE_WATCHES, PathKind(self._inner(path), kind), _nothing, path)

    def who_am_i(self) -> Operation[list[Identity]]:
        return Operation(OpCode.WHO_AM_I, NoBody(), _identities)

    def changes(
        self, place: tuple[int, int], history_id: bytes, prefix: str, bytes_max: int, wait_ms: int
    ) -> Operation[ChangePage]:
        """Only alone: it is answered when there are changes."""
        body = GetChanges(*place, history_id, self._inner(prefix), bytes_max, wait_ms)
        return Operation(OpCode.GET_CHANGES, body, _as_it_is, prefix)

    # Several in one request.

    def multi(self, operations: Sequence[Operation[Any]]) -> Operation[list[Any]]:
        """Its result is a list with each operation's result, or its RequestError."""
        return _several(OpCode.MULTI, operations)

    def multi_read(self, operations: Sequence[Operation[Any]]) -> Operation[list[Any]]:
        return _several(OpCode.MULTI_READ, operations)


def _registration(
    inner: bytes, watcher: Listener | None, table: Table, missing: Table | None = None
) -> Registration | None:
    if watcher is not None and not hasattr(watcher, "deliver"):
        raise no_listener(watcher)
    return None if watcher is None else Registration(inner, watcher, table, missing)


def _checked(data: bytes | None, path: str) -> bytes | None:
    """Raises TypeError for text, whose encoding is not guessed."""
    if data is not None and not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"the data of {path} must be bytes or None, not {type(data).__name__}")
    return data


def _create_mode(path: str, ephemeral: bool, sequence: bool, container: bool, ttl_ms: int | None) -> tuple[OpCode, int]:
    if ttl_ms is not None:
        if ephemeral or container:
            raise BadArgumentsError(path, detail="a TTL znode is neither ephemeral nor a container")
        if not 0 < ttl_ms <= TTL_MS_MAX:
            raise BadArgumentsError(path, detail=f"a TTL is between 1 and {TTL_MS_MAX} ms, not {ttl_ms}")
        return OpCode.CREATE_TTL, 6 if sequence else 5
    if container:
        if ephemeral or sequence:
            raise BadArgumentsError(path, detail="a container is neither ephemeral nor sequential")
        return OpCode.CREATE_CONTAINER, 4
    return OpCode.CREATE2, (1 if ephemeral else 0) | (2 if sequence else 0)


def _several(opcode: OpCode, operations: Sequence[Operation[Any]]) -> Operation[list[Any]]:
    def shape(parts: list[MultiResult]) -> list[Any]:
        if len(parts) != len(operations):
            raise JuteError(f"{len(parts)} results for {len(operations)} operations")
        return [
            _part(index, part, operation) for index, (part, operation) in enumerate(zip(parts, operations, strict=True))
        ]

    body = Multi(tuple((operation.opcode, operation.body) for operation in operations))
    return Operation(opcode, body, shape, parts=tuple(operations))


def _part(index: int, part: MultiResult, operation: Operation[Any]) -> Any:
    """The part's value, its RequestError, or None for a part that succeeded and was undone."""
    if part.error != ErrorCode.OK:
        detail = reason(part.error, operation.opcode, operation.path)
        return request_error(part.error, operation.path, index=index, detail=detail)
    if part.opcode == OpCode.ERROR:
        return None
    if part.opcode not in (operation.opcode, *_ANSWERED_AS.get(operation.opcode, ())):
        raise JuteError(f"result {index} is of type {part.opcode}, the operation of type {operation.opcode}")
    return operation.shape(part.value)


def _nothing(_answer: object) -> None:
    """Ignores an answer without a body, or with one that repeats the request."""


def _as_it_is(answer: ChangePage) -> ChangePage:
    return answer


def _data(answer: tuple[bytes | None, bytes]) -> tuple[bytes | None, Stat]:
    return answer[0], Stat.from_wire(answer[1])


def _names(answer: list[bytes]) -> list[str]:
    return sorted(map(_text, answer))


def _names_and_stat(answer: tuple[list[bytes], bytes]) -> tuple[list[str], Stat]:
    return _names(answer[0]), Stat.from_wire(answer[1])


def _listing(answer: tuple[Any, ...]) -> Listing:
    """The answer has names and a Stat, and the Stats and data of the children if they were requested."""
    names, stat, *more = answer
    stats, data = more or ((), ())
    if any(len(column) not in (0, len(names)) for column in (stats, data)):
        raise JuteError(f"{len(names)} children with {len(stats)} Stats and the data of {len(data)}")
    children = [
        ListedChild(_text(name), Stat.from_wire(stats[at]) if stats else None, data[at] if data else None)
        for at, name in enumerate(names)
    ]
    return Listing(sorted(children, key=attrgetter("name")), Stat.from_wire(stat))


def _page(answer: tuple[list[bytes], bool, bytes]) -> ChildrenPage:
    names, has_more, stat = answer
    return ChildrenPage(list(map(_text, names)), has_more, Stat.from_wire(stat))


def _acl(answer: tuple[tuple[WireAcl, ...], bytes]) -> tuple[tuple[Acl, ...], Stat]:
    return tuple(map(Acl.from_wire, answer[0])), Stat.from_wire(answer[1])


def _identities(answer: list[tuple[bytes, bytes]]) -> list[Identity]:
    return [Identity(_text(scheme), _text(user)) for scheme, user in answer]


def _text(encoded: bytes) -> str:
    return encoded.decode("utf-8", "replace")


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
