"""Prepare: turns a write request into a transaction with every value that applying it will write.

Only the leader prepares, in zxid order, against its tree and the outstanding changes. The result is always a
transaction: a refused request becomes an error transaction with its own zxid, since the refusal may depend on changes
that are not committed yet, and is answered when it is applied.

The checks of each operation are in ZooKeeper's order; the first that fails gives the error. Those of operations that
create are in `datatree.creates`, of those that remove in `datatree.removals`, of those that only check in
`datatree.checks`.

    all             session unknown, closing or closed -> SESSIONEXPIRED; undecodable -> MARSHALLINGERROR
    setData         path -> BADARGUMENTS; NONODE; WRITE -> NOAUTH; /zookeeper/config -> BADARGUMENTS; QUOTAEXCEEDED;
                    BADVERSION
    setACL          path -> BADARGUMENTS; list -> INVALIDACL; NONODE; ADMIN -> NOAUTH; BADVERSION, of the ACL
    createSession   an id that marks a container or a TTL -> BADARGUMENTS; an id that exists -> NODEEXISTS
    reconfig        RECONFIGDISABLED; what `reconfigure` refuses; WRITE -> NOAUTH
    handOver        UNIMPLEMENTED; WRITE on /zookeeper/config -> NOAUTH; what `hand_over` refuses

A version of -1 in a request matches any. Each part of a multi is checked against the view after the previous parts; if
one is refused, the others are undone. Too many parts are BADARGUMENTS for the whole multi.

Not here: who owns a session (`session`), and which requests reach the leader at all (`zab.member`).
"""

from collections.abc import Callable, Generator
from struct import error as StructError  # noqa: N812  (it is a class; the module only names it in lower case)
from typing import Any, Final, TypeAlias

from datatree.acl import ADMIN, WRITE
from datatree.acl_budget import AclBudget
from datatree.checks import Checks
from datatree.compiled import USED
from datatree.creates import Creates
from datatree.errors import ErrorCode, Refused
from datatree.jute import JuteError
from datatree.opcodes import MULTI_WRITES, OpCode
from datatree.outstanding import Outstanding
from datatree.paths import (
    CONFIG,
    is_valid,
    missing,
)
from datatree.prepare_settings import PrepareSettings
from datatree.quota import is_stats
from datatree.record import Fields, Part, encode, encode_in_slices
from datatree.removals import Removals
from datatree.request_decoding import FIELDS, path_asked_for, write_parts_of
from datatree.requests import REMOVE_RECURSIVE_PART
from datatree.slices import PARTS, SLICE_BYTES
from datatree.tree import DataTree
from datatree.write_request import Asked
from datatree.znode import (
    INT_MAX,
    is_ephemeral,
    next_version,
)

__all__ = ["Prepare"]

_ANY_VERSION: Final = -1
_PART_BYTES_MIN: Final = 18
"""The smallest part of a multi: a check of a path of one character."""

# Types of transactions, as plain ints: every transaction has one.
_CHECKS: Final = (OpCode.CHECK, OpCode.CHECK_NOT_EXISTS, OpCode.CHECK_STAT)
_SET_DATA: Final = int(OpCode.SET_DATA)
_SET_ACL: Final = int(OpCode.SET_ACL)
_CHECK: Final = int(OpCode.CHECK)
_MULTI: Final = int(OpCode.MULTI)
_REMOVE_RECURSIVE: Final = int(OpCode.REMOVE_RECURSIVE)
_ERROR: Final = int(OpCode.ERROR)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)
_CREATE_SESSION: Final = int(OpCode.CREATE_SESSION)
_DELETE_CONTAINER: Final = int(OpCode.DELETE_CONTAINER)
_RECONFIG: Final = int(OpCode.RECONFIG)
_ENSEMBLE: Final = 0
"""The session of requests that the ensemble makes itself."""


# (opcode, fields of the body, request, zxid)
_Operation: TypeAlias = Callable[[int, tuple[Any, ...], Asked, int], Part]
_LongOperation: TypeAlias = Callable[[Asked, int], Generator[None, None, Part]]


class Prepare:
    """The leader's way from requests to transactions. It starts with nothing outstanding."""

    __slots__ = (
        *("_creates", "_last", "_long_operations", "_operations", "_parts", "_plain", "_removals"),
        *("_settings", "_time", "_tree"),
        *("acl_budget", "outstanding"),
    )

    def __init__(self, tree: DataTree, settings: PrepareSettings | None = None) -> None:
        self._tree = tree
        self._settings = settings or PrepareSettings()
        self._last, self._time = tree.applied, 0
        self.outstanding = Outstanding(tree)
        self._plain = self.outstanding.plain()
        acl_budget = self.acl_budget = AclBudget(self._settings)
        creates = self._creates = Creates(tree, self.outstanding, self._settings, acl_budget)
        removals = self._removals = Removals(tree, self.outstanding, self._settings)
        checks = Checks(self.outstanding, self._settings)
        operations: dict[OpCode, _Operation] = {
            OpCode.CREATE: creates.create,
            OpCode.CREATE2: creates.create,
            OpCode.CREATE_CONTAINER: creates.create,
            OpCode.CREATE_TTL: creates.create,
            OpCode.CREATE_IF_NOT_EXISTS: creates.create_if_not_exists,
            OpCode.DELETE: removals.delete,
            OpCode.TRY_REMOVE: removals.try_remove,
            OpCode.DELETE_CONTAINER: removals.delete_container,
            OpCode.SET_DATA: self._set_data,
            OpCode.SET_ACL: self._set_acl,
            OpCode.CHECK: checks.check,
            OpCode.CHECK_NOT_EXISTS: checks.check_not_exists,
            OpCode.CHECK_STAT: checks.check_stat,
            OpCode.RECONFIG: self._reconfig,
            OpCode.HAND_OVER: self._hand_over,
            OpCode.CREATE_SESSION: self._create_session,
        }
        self._long_operations: dict[int, _LongOperation] = {
            _MULTI: self._multi,
            _REMOVE_RECURSIVE: removals.remove_recursive,
            _CLOSE_SESSION: removals.close_session,
        }
        # A removeRecursive does not become one part but one for each znode that it removes: `_multi` does that.
        self._parts: dict[int, _Operation | None] = {_REMOVE_RECURSIVE: None}
        self._parts |= {int(opcode): each for opcode, each in operations.items() if opcode in MULTI_WRITES}
        # A check outside a multi changes nothing, and ZooKeeper could not read what it logged for one (ZOOKEEPER-2623).
        self._operations = {int(opcode): each for opcode, each in operations.items() if opcode not in _CHECKS}

    def prepare(self, request: Asked, zxid: int, time: int) -> Fields:
        """The transaction of `request`, with this zxid and time (ms); an error transaction if it is refused."""
        assert zxid > self._last, f"prepared {zxid:#x} after {self._last:#x}"
        self._last, self._time = zxid, time
        used = USED.writes
        if used is not None:
            txn: Fields | None = used.prepare(self._plain, request, zxid, time)
            if txn is not None:
                return txn
        self.acl_budget.bytes_left = self._settings.acl_bytes_max
        creates = self._creates
        creates.time, creates.long_names_count = time, 0
        session, cxid, opcode, body, _ = request
        try:
            if session not in self._tree.sessions or session in self.outstanding.closing:
                self._admit(session, opcode)
            operation = self._operations.get(opcode)
            if operation is None:
                return _whole(self.prepare_in_slices(request, zxid, time, is_encoded=False))
            try:
                fields, _ = FIELDS[opcode](body, 0)
            except (JuteError, StructError, IndexError):
                return self._refusal(request, zxid, time, ErrorCode.MARSHALLINGERROR)
            kind, number, path, data, rest = operation(opcode, fields, request, zxid)
        except Refused as refused:
            return self._refusal(request, zxid, time, refused.code)
        return zxid, time, session, cxid, kind, number, path, data, rest

    def is_long(self, request: Asked) -> bool:
        """Whether preparing the request may take more than one slice."""
        session, _, opcode, body, _ = request
        if opcode == _MULTI:
            return len(body) > PARTS * _PART_BYTES_MIN or REMOVE_RECURSIVE_PART in body
        if opcode == _REMOVE_RECURSIVE:
            found = self.outstanding.view(path_asked_for(opcode, body))
            return found is not None and found[5] > 0
        return opcode == _CLOSE_SESSION and self.outstanding.may_own_more_than(PARTS, session)

    def prepare_in_slices(
        self, request: Asked, zxid: int, time: int, *, is_encoded: bool = True
    ) -> Generator[None, None, tuple[Fields, bytes]]:
        """Like `prepare`, for a multi or the end of a session: a generator that yields after each slice, and also
        returns the encoded record. Nothing else may be prepared until it ends. Closing it earlier undoes everything."""
        self._last, self._time = zxid, time
        self._creates.time, self._creates.long_names_count = time, 0
        self.acl_budget.bytes_left = self._settings.acl_bytes_max
        self._removals.paths_room = self._settings.removed_bytes_max
        session, cxid, opcode, _, _ = request
        self.outstanding.begin()
        try:
            if session not in self._tree.sessions or session in self.outstanding.closing:
                self._admit(session, opcode)
            operation = self._long_operations.get(opcode)
            if operation is None:
                raise Refused(ErrorCode.UNIMPLEMENTED)
            kind, number, path, data, rest = yield from operation(request, zxid)
            txn: Fields = (zxid, time, session, cxid, kind, number, path, data, rest)
            record = (yield from encode_in_slices(txn)) if is_encoded else b""
        except Refused as refused:
            self.outstanding.rollback()
            txn = self._refusal(request, zxid, time, refused.code)
            return txn, encode(txn)
        except JuteError:
            self.outstanding.rollback()
            txn = self._refusal(request, zxid, time, ErrorCode.MARSHALLINGERROR)
            return txn, encode(txn)
        except GeneratorExit:
            self.outstanding.rollback()
            raise
        self.outstanding.commit()
        if opcode == _CLOSE_SESSION:
            self.outstanding.close_session(session, zxid)
        return txn, record

    def applied(self, zxid: int) -> None:
        """The tree has applied everything up to `zxid`."""
        self.outstanding.applied(zxid)

    def _admit(self, session: int, opcode: int) -> None:
        """Admit a request of a session that is not in the tree, or is closing there."""
        if opcode in (_CREATE_SESSION, _DELETE_CONTAINER) or (opcode == _RECONFIG and session == _ENSEMBLE):
            return
        if self.outstanding.has_session(session):
            return
        closed = session in self.outstanding.closing or opcode == _CLOSE_SESSION
        if closed or not self._settings.local_sessions:
            raise Refused(ErrorCode.SESSIONEXPIRED)

    def _refusal(self, request: Asked, zxid: int, time: int, code: ErrorCode) -> Fields:
        session, cxid, opcode, body, _ = request
        path = b""
        if (opcode in self._operations or opcode == _REMOVE_RECURSIVE) and code != ErrorCode.MARSHALLINGERROR:
            path = path_asked_for(opcode, body)
        return zxid, time, session, cxid, _ERROR, int(code), path, None, (opcode,)

    # The operations: (opcode, fields of the body, request, zxid) -> type, number, path, data, rest.

    def _set_data(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        path, data, expected = fields
        outstanding = self.outstanding
        change = outstanding.changes.get(path)
        if change is None or not change[1]:
            change = outstanding.view(path)
            if change is None:
                raise missing(path)
        _, _, version, cversion, aversion, children_count, acl, owner, before, czxid, _, ctime, _, pzxid = change
        if acl is not None:
            self._settings.permit(acl, WRITE, request)
        if path == CONFIG:
            raise Refused(ErrorCode.BADARGUMENTS)
        length = len(data) if data else 0
        charge = None
        if self._tree.quotas:
            if is_stats(path):
                length = 0
            if self._settings.enforce_quota:
                charge = self.outstanding.charge(path, 0, length - before, check=True)
        if expected != version and expected != _ANY_VERSION:
            raise Refused(ErrorCode.BADVERSION)
        number = version + 1 if 0 <= version < INT_MAX else next_version(version)
        after = (
            zxid, True, number, cversion, aversion, children_count, acl, owner, length,
            czxid, zxid, ctime, self._time, pzxid,
        )  # fmt: skip
        if charge is None and outstanding.journal is None:
            # `put` inlined, for the most frequent write.
            outstanding.changes[path] = after
            outstanding.queue.append((zxid, path, 0, None))
        else:
            outstanding.put(path, after, charge)
        return _SET_DATA, number, path, data, None

    def _set_acl(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        path, wire_acl, expected = fields
        change = self.outstanding.view(path)
        if change is None and not is_valid(path):
            raise Refused(ErrorCode.BADARGUMENTS)
        acl = self.acl_budget.fix_up(wire_acl, request)
        if change is None:
            raise Refused(ErrorCode.NONODE)
        self._settings.permit(change[6], ADMIN, request)
        aversion = change[4]
        if expected != aversion and expected != _ANY_VERSION:
            raise Refused(ErrorCode.BADVERSION)
        number = next_version(aversion)
        after = (zxid, *change[1:4], number, change[5], acl, *change[7:])
        self.outstanding.put(path, after)
        return _SET_ACL, number, path, None, (acl,)

    def _multi(self, request: Asked, zxid: int) -> Generator[None, None, Part]:
        """A slice is a number of parts, or of bytes, since a part may have a long list of permissions."""
        parts: list[Part] = []
        refused: ErrorCode | None = None
        count = slice_end = refused_at = 0
        used, at = USED.writes, 0
        while used is not None:
            room = min(PARTS - count % PARTS, self._settings.multi_parts_max - count)
            end = used.prepare_parts(
                self._plain, self.outstanding.journal, zxid, self._time, request[3], at, parts, room, SLICE_BYTES
            )
            is_slice = len(parts) > count and (not len(parts) % PARTS or end - at > SLICE_BYTES)
            count, at = len(parts), end
            if not is_slice:
                break
            slice_end = at
            yield
        # From the first part on that is not plain.
        for opcode, fields, end in write_parts_of(request[3], at):
            if not opcode:
                break
            if max(count, len(parts)) >= self._settings.multi_parts_max:
                raise Refused(ErrorCode.BADARGUMENTS)
            count += 1
            if refused is None:
                try:
                    operation = self._parts[opcode]
                    if operation is None:
                        parts += yield from self._removals.removed_part(fields, request, zxid, len(parts))
                    else:
                        parts.append(operation(opcode, fields, request, zxid))
                except Refused as refusal:
                    refused, refused_at = refusal.code, count - 1
            if not count % PARTS or end - slice_end > SLICE_BYTES:
                slice_end = end
                yield
        if refused is None:
            return _MULTI, 0, b"", None, tuple(parts)
        self.outstanding.rollback()
        self.outstanding.begin()
        return _MULTI, 0, b"", None, _refused_parts(refused_at, refused, count)

    def _reconfig(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        reconfigure = self._settings.reconfigure
        if reconfigure is None:
            raise Refused(ErrorCode.RECONFIGDISABLED)
        joining, leaving, members, version = fields
        text = reconfigure(joining, leaving, members, version, zxid)
        change = self.outstanding.view(CONFIG)
        assert change is not None, "nobody deletes it"
        if change[6] is not None and request[0] != _ENSEMBLE:
            self._settings.permit(change[6], WRITE, request)
        czxid, _, ctime, _, pzxid = change[9:]
        after = (zxid, True, _ANY_VERSION, *change[3:8], len(text), czxid, zxid, ctime, self._time, pzxid)
        self.outstanding.put(CONFIG, after)
        return _RECONFIG, _ANY_VERSION, CONFIG, text, None

    def _hand_over(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        hand_over = self._settings.hand_over
        if hand_over is None:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        (server_id,) = fields
        change = self.outstanding.view(CONFIG)
        assert change is not None, "nobody deletes it"
        if change[6] is not None:
            self._settings.permit(change[6], WRITE, request)
        hand_over(server_id, zxid)
        # It changes nothing, and is not in a multi, like the check of a createIfNotExists.
        return _CHECK, change[2], CONFIG, b"", None

    def _create_session(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        session = request[0]
        (timeout_ms,) = fields
        if not is_ephemeral(session):
            raise Refused(ErrorCode.BADARGUMENTS)
        if session in self._tree.sessions or session in self.outstanding.created:
            raise Refused(ErrorCode.NODEEXISTS)
        self.outstanding.create_session(session, zxid)
        return _CREATE_SESSION, timeout_ms, b"", None, None


def _whole(steps: Generator[None, None, tuple[Fields, bytes]]) -> Fields:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            txn: Fields = end.value[0]
            return txn


def _refused_parts(refused_at: int, code: ErrorCode, count: int) -> tuple[Part, ...]:
    codes = [0] * refused_at + [int(code)] + [int(ErrorCode.RUNTIMEINCONSISTENCY)] * (count - refused_at - 1)
    return tuple((_ERROR, number, b"", None, None) for number in codes)
