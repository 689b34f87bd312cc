"""The audit log: who asked for which change, from where, with which result; who was refused.

    session=0x100…  user=digest:al,ip:10.0.0.7  ip=10.0.0.7  operation=create  znode=/a  …  result=success

A line consists of pairs in this order, separated by tabs; unknown ones are left out. Names and values are ZooKeeper's
(3.9), but a user has the scheme that proved it as a prefix: `super:` is the superuser, `digest:super` is not.
A line is written when the result is known, by the member whose client asked:

    operation                                     which member writes it, and when
    create, delete, setData, setAcl               for its own clients' writes, when they are applied; also refused ones
    a multi that succeeded                        a line for each part of these kinds, and each znode that is removed
    multiOperation                                a refused multi, in one line; zab adds the znode of the failed part
    reconfig, handOver                            changes of the ensemble
    ephemeralZNodeDeletionOnSessionCloseOrExpire  every member, for each znode
    serverStart, serverStop                       of this process

zab only:

    delete                                        without session and ip: a container, or an expired znode, deleted
                                                  by the leader
    auth, sasl                                    a refused login. `scheme` and `user` are what the client sent; the
                                                  password is never written
    renewSession                                  a client tried to resume a session with a wrong password
    member                                        a connection to a port for members that ended without proof, and why
    auditRecordsLost                              how many records could not be written (`zab.host.journal.audit_log`)

The results are success, failure and invoked. `invoked`: this member did not learn the result, since its role ended
meanwhile; the change may have been made. For the server itself, the user is that of the process.

No value can end the line or a pair, and no two values look alike: control characters, marks of direction,
backslashes, and commas in lists, are escaped. A value is cut after `VALUE_CHARS_MAX`.

A client that disconnects before its write is applied is audited all the same: requests are kept by session, not by
connection. At most `HELD_BYTES_MAX` of request bodies are kept: a line whose body was not kept has neither znode_type
nor acl.

The turn makes records, which is cheap; `lines` is called by the thread that writes them.

Not here: the file, its rotation, and what happens when it is full (`zab.host.journal.background_writer`); the order of
records and replies (`processor`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import attrs

from datatree.acl import ANY_SASL, masked
from datatree.errors import ErrorCode
from datatree.jute import JuteError
from datatree.opcodes import LOGGED_AS, OpCode
from datatree.record import Txn
from datatree.request_decoding import decode, parts_of
from datatree.requests import Create, SetAcl, WireAcl
from zab.member.clients.connection import ClientConnection, Identity
from zab.service.audit import FAILURE, INVOKED, SUCCESS, UNSIGNED, Record, Refusal, item_of, line_of, value

HELD_BYTES_MAX: Final = 16 << 20

_EPHEMERAL: Final = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
_MULTI_NAME: Final = "multiOperation"

_MULTI: Final = int(OpCode.MULTI)
_ERROR: Final = int(OpCode.ERROR)
_SET_ACL: Final = int(OpCode.SET_ACL)
_SET_DATA: Final = int(OpCode.SET_DATA)
_CHECK: Final = int(OpCode.CHECK)
_DELETE: Final = int(OpCode.DELETE)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)
_DELETE_CONTAINER: Final = int(OpCode.DELETE_CONTAINER)
_NOT_AT_FAULT: Final = (0, int(ErrorCode.RUNTIMEINCONSISTENCY))
_CREATES: Final = frozenset(
    map(
        int,
        (
            OpCode.CREATE,
            OpCode.CREATE2,
            OpCode.CREATE_CONTAINER,
            OpCode.CREATE_TTL,
            OpCode.CREATE_IF_NOT_EXISTS,
        ),
    )
)
_CREATE_CONTAINER: Final = int(OpCode.CREATE_CONTAINER)
_HAND_OVER: Final = int(OpCode.HAND_OVER)
_OPERATIONS: Final = {
    **dict.fromkeys(_CREATES, "create"),
    _DELETE: "delete",
    int(OpCode.TRY_REMOVE): "delete",
    int(OpCode.REMOVE_RECURSIVE): "delete",
    _SET_DATA: "setData",
    _SET_ACL: "setAcl",
    _MULTI: _MULTI_NAME,
    int(OpCode.RECONFIG): "reconfig",
    _HAND_OVER: "handOver",
}
_ZNODE_TYPES: Final = {
    0: "persistent",
    1: "ephemeral",
    2: "persistent_sequential",
    3: "ephemeral_sequential",
    4: "persistent",  # the flag of a container, where the opcode decides (`datatree.create_flags`)
    5: "persistent_with_ttl",
    6: "persistent_sequential_with_ttl",
}
"""The type of a znode by the flags of a create, except createContainer."""
_PERMISSIONS: Final = ((4, "c"), (8, "d"), (1, "r"), (2, "w"), (16, "a"))

Part: TypeAlias = tuple[int, int, bytes]
"""A part of a multi that was applied: type, or -1; number, which is then the error; path."""


@attrs.define(eq=False)
class Asked:
    """A change that a client of this member asked for."""

    session: int
    xid: int
    opcode: int
    body: bytes
    """Only the path for a setData; empty if too much is kept already."""
    identities: tuple[Identity, ...]
    host: str
    fence: int
    """The `fence` of its connection."""


@attrs.define(eq=False)
class Change:
    """A change and its result."""

    asked: Asked
    path: bytes
    result: str
    parts: list[Part] | None = None
    """The parts of a multi that became a transaction."""

    @property
    def held_bytes(self) -> int:
        return 512 + len(self.asked.body) + 150 * len(self.parts or ())

    def lines(self, own_user: str) -> Iterator[str]:
        asked = self.asked
        if self.parts is None:
            path = self.path or _path_in(asked)
            yield self._line(_OPERATIONS[asked.opcode], path, _znode_type_in(asked), _acl_in(asked))
            return
        if self.result != SUCCESS:
            yield self._line(_MULTI_NAME, _at_fault(asked, self.parts))
            return
        asked_parts = _parts_in(asked)
        for parts in _as_asked(self.parts):
            asked_for = next(asked_parts, None)
            for kind, _, path in parts:
                if kind in _OPERATIONS:
                    yield self._line(_OPERATIONS[kind], path, _znode_type_of(kind, asked_for))

    def _line(self, operation: str, path: bytes, znode_type: str | None = None, acl: str | None = None) -> str:
        asked = self.asked
        return line_of(
            session=f"{asked.session & UNSIGNED:#x}",
            user=users(asked.identities),
            ip=asked.host,
            operation=operation,
            znode=value(path),
            znode_type=znode_type,
            acl=acl,
            result=self.result,
        )


@attrs.define(eq=False)
class ContainerDeleted:
    """The leader deleted an empty container, or a znode whose TTL was over."""

    path: bytes

    @property
    def held_bytes(self) -> int:
        return 512 + len(self.path)

    def lines(self, own_user: str) -> Iterator[str]:
        yield line_of(user=own_user, operation="delete", znode=value(self.path), result=SUCCESS)


@attrs.define(eq=False)
class EphemeralsDeleted:
    """The ephemerals of a session that was closed, or has expired."""

    session: int
    paths: tuple[bytes, ...]

    @property
    def held_bytes(self) -> int:
        return 512 + 150 * len(self.paths)

    def lines(self, own_user: str) -> Iterator[str]:
        session = f"{self.session & UNSIGNED:#x}"
        for path in self.paths:
            yield line_of(session=session, user=own_user, operation=_EPHEMERAL, znode=value(path), result=SUCCESS)


class Auditor:
    """Makes the audit records of one member. `records` are those that nobody has taken yet."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._under_way: dict[int, deque[Asked]] = {}
        """By session: the changes that this member's clients asked for and that are not applied here yet, in order."""
        self._held_bytes = 0

    def take(self) -> list[Record]:
        records, self.records = self.records, []
        return records

    def asked(self, connection: ClientConnection, xid: int, opcode: int, body: bytes) -> None:
        """Note a write that a client of this member asks for."""
        if opcode not in _OPERATIONS:
            return
        if opcode == _SET_DATA:
            body = body[: 4 + int.from_bytes(body[:4])]
        kept = body if self._held_bytes + len(body) <= HELD_BYTES_MAX else b""
        self._held_bytes += len(kept)
        asked = Asked(connection.session, xid, opcode, kept, connection.identities, connection.host, connection.fence)
        self._under_way.setdefault(asked.session, deque()).append(asked)

    def applied(self, txn: Txn, error: int, *, leads: bool, is_own: bool) -> None:
        """Record a transaction that is applied. A leader knows whether it is from its own client (`is_own`); a learner
        finds out, since the transactions of a session come in the order of its writes."""
        if txn.type == _CLOSE_SESSION:
            if txn.rest:
                self.records.append(EphemeralsDeleted(txn.session, txn.rest))
            return
        if txn.type == _DELETE_CONTAINER and leads:
            self.records.append(ContainerDeleted(txn.path))
            return
        under_way = self._under_way.get(txn.session)
        if under_way is None or (leads and not is_own):
            return
        asked = under_way[0]
        if asked.xid != txn.cxid or not _is_of(txn, asked.opcode) or (not leads and txn.zxid <= asked.fence):
            return
        self._forget_oldest(under_way)
        if txn.type == _CHECK and asked.opcode != _HAND_OVER:
            return  # a createIfNotExists that found its znode, or a removal that removed none
        parts = [(kind, number, path) for kind, number, path, _, _ in txn.rest] if txn.type == _MULTI else None
        is_refused = error != 0 or (parts is not None and any(kind == _ERROR for kind, _, _ in parts))
        self.records.append(Change(asked, txn.path, FAILURE if is_refused else SUCCESS, parts))

    def _forget_oldest(self, under_way: deque[Asked]) -> None:
        asked = under_way.popleft()
        self._held_bytes -= len(asked.body)
        if not under_way:
            del self._under_way[asked.session]

    def refused_at_once(self, connection: ClientConnection, opcode: int, body: bytes = b"") -> None:
        """Record a change that was refused without a transaction."""
        if opcode == _SET_DATA:
            body = body[: 4 + int.from_bytes(body[:4])]
        asked = Asked(connection.session, 0, opcode, body, connection.identities, connection.host, 0)
        self.records.append(Change(asked, b"", FAILURE))

    def login_refused(
        self, connection: ClientConnection, operation: str, scheme: bytes = b"", user: bytes = b"", session: int = 0
    ) -> None:
        """Record a refused login. `user` is the name that the client sent, never its password."""
        self.records.append(Refusal(operation, connection.host, session or connection.session, user, scheme))

    def drop_role(self) -> None:
        """Record what is under way as `invoked`: it may have reached the leader."""
        for under_way in self._under_way.values():
            self.records += [Change(asked, b"", INVOKED) for asked in under_way]
        self._under_way.clear()
        self._held_bytes = 0


def users(identities: Iterable[Identity]) -> str:
    """The identities of a client, each with its scheme; digests without the hash of the password. The scheme matters:
    anybody can make up a digest for Bob, but not a SASL login."""
    return ",".join(item_of(_shown(identity)) for identity in identities if identity[0] != ANY_SASL)


def _shown(identity: Identity) -> bytes:
    scheme, name = identity
    return scheme + b":" + (name.partition(b":")[0] if scheme == b"digest" else name)


def _is_of(txn: Txn, opcode: int) -> bool:
    """Whether a request of this kind becomes such a transaction."""
    made: int = txn.rest[0] if txn.type == _ERROR else txn.type
    return made == opcode or made in LOGGED_AS.get(opcode, ())


def _body_of(asked: Asked) -> object:
    """The decoded body, if it is known and can be decoded."""
    try:
        return decode(asked.opcode, asked.body) if asked.body else None
    except JuteError:
        return None


def _parts_in(asked: Asked) -> Iterator[object]:
    """The bodies of the parts of a multi, in order, if they are known."""
    try:
        for _, body, _ in parts_of(_MULTI, asked.body if asked.opcode == _MULTI else b""):
            yield body
    except JuteError:
        return


def _as_asked(parts: list[Part]) -> list[list[Part]]:
    """The results grouped by requested part: a removeRecursive has all of its deletes."""
    groups: list[list[Part]] = []
    for part in parts:
        kind, number, _ = part
        own_count = number if kind == _DELETE else 0
        own = [each for group in groups[len(groups) - own_count :] for each in group]
        del groups[len(groups) - own_count :]
        groups.append([*own, part])
    return groups


def _path_in(asked: Asked) -> bytes:
    """The path in the request, for when no transaction has it."""
    end = 4 + int.from_bytes(asked.body[:4])
    return asked.body[4:end] if asked.opcode != _MULTI and end <= len(asked.body) else b""


def _znode_type_in(asked: Asked) -> str | None:
    return _znode_type_of(asked.opcode, _body_of(asked)) if asked.opcode in _CREATES else None


def _znode_type_of(kind: int, body: object) -> str | None:
    """The type of the znode that this request creates."""
    if not isinstance(body, Create):
        return None
    return "container" if kind == _CREATE_CONTAINER else _ZNODE_TYPES.get(body.flags)


def _acl_in(asked: Asked) -> str | None:
    body = _body_of(asked) if asked.opcode == _SET_ACL else None
    if not isinstance(body, SetAcl) or body.acl is None:
        return None
    return ",".join(map(_entry, body.acl))


def _entry(entry: WireAcl) -> str:
    """An entry of an ACL, as scheme:id:permissions; digests without the hash of the password."""
    perms, scheme, name = entry
    [(_, scheme, name)] = masked(((perms, scheme or b"", name or b""),))
    letters = "".join(letter for bit, letter in _PERMISSIONS if perms & bit)
    return f"{item_of(scheme)}:{item_of(name)}:{letters}"


def _at_fault(asked: Asked, parts: list[Part]) -> bytes:
    """The path of the part that made a multi fail."""
    for body, (_, error, _) in zip(_parts_in(asked), parts, strict=False):
        if error not in _NOT_AT_FAULT:
            path = getattr(body, "path", b"")
            return path if isinstance(path, bytes) else b""
    return b""
