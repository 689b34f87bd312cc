"""Creates: requests that make a znode (`datatree.prepare`).

Their checks, in ZooKeeper's order; the first that fails gives the error:

    create*         flags that fit no operation (`create_flags`) -> BADARGUMENTS; TTL while extended types are off ->
                    UNIMPLEMENTED; TTL out of range -> BADARGUMENTS; ephemeral of a local session ->
                    EPHEMERALONLOCALSESSION; no "/", NUL or no UTF-8 in the path -> BADARGUMENTS; list -> INVALIDACL;
                    parent missing -> NONODE; CREATE on it -> NOAUTH; the whole path, with its sequence number ->
                    BADARGUMENTS; NODEEXISTS; parent ephemeral -> NOCHILDRENFOREPHEMERALS; quota, or the paths of the
                    session's ephemerals too long for one closeSession (ZOOKEEPER-4306) -> QUOTAEXCEEDED
    createIfNotExists
                    UNIMPLEMENTED while it is off; sequential, container, TTL -> BADARGUMENTS; then as create, except
                    for NODEEXISTS
"""

from typing import Any, Final

from datatree.acl import CREATE
from datatree.acl_budget import AclBudget
from datatree.create_flags import EPHEMERAL, SEQUENTIAL, kind_of
from datatree.errors import ErrorCode, Refused
from datatree.opcodes import OpCode
from datatree.outstanding import Outstanding
from datatree.paths import (
    LONG_INDEX_MAX,
    LONG_ZXID_MAX,
    ROOT,
    is_text,
    is_valid_name,
    long_sequential_name,
    sequential_name,
)
from datatree.prepare_settings import PrepareSettings
from datatree.quota import is_stats
from datatree.record import Part
from datatree.requests import OPEN_ACL
from datatree.tree import DataTree
from datatree.write_request import Asked
from datatree.znode import CONTAINER_OWNER, INT_MAX, TTL_MS_MAX, is_ephemeral, ttl_owner, wrapped

__all__ = ["Creates"]

_CREATE: Final = int(OpCode.CREATE)
_CREATE_CONTAINER: Final = int(OpCode.CREATE_CONTAINER)
_CREATE_TTL: Final = int(OpCode.CREATE_TTL)
_CHECK: Final = int(OpCode.CHECK)
_MULTI: Final = int(OpCode.MULTI)

# The flags that a createIfNotExists may have.
_UNNUMBERED: Final = (0, 1)
# Without flags the znode is persistent.
_FLAGLESS: Final = frozenset({_CREATE, int(OpCode.CREATE2)})


class Creates:
    """The leader's operations that create one znode, including outstanding changes."""

    __slots__ = ("_acl_budget", "_outstanding", "_settings", "_tree", "long_names_count", "time")

    def __init__(
        self, tree: DataTree, outstanding: Outstanding, settings: PrepareSettings, acl_budget: AclBudget
    ) -> None:
        self._tree = tree
        self._outstanding = outstanding
        self._settings = settings
        self._acl_budget = acl_budget
        self.time = self.long_names_count = 0
        """The time of the request that is being prepared, and how many long sequential names it has made."""

    def create(self, opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        path, data, wire_acl, flags, ttl_ms = fields
        outstanding = self._outstanding
        owner = 0
        if flags or opcode not in _FLAGLESS:
            opcode = kind_of(opcode, flags, in_multi=request[2] == _MULTI)
            owner = self._owner(opcode, flags, ttl_ms, request[0])
        slash = path.rfind(b"/")
        if slash < 0 or 0 in path or not (path.isascii() or is_text(path)):
            raise Refused(ErrorCode.BADARGUMENTS)
        acl = None
        if wire_acl is not OPEN_ACL:
            acl = self._acl_budget.fix_up(wire_acl, request)
        above = path[:slash] or ROOT
        holder = outstanding.changes.get(above)
        if holder is None or not holder[1]:
            holder = outstanding.view(above)
            if holder is None:
                raise Refused(ErrorCode.NONODE)
        if holder[6] is not None:
            self._settings.permit(holder[6], CREATE, request)
        if flags in SEQUENTIAL:
            path = self._sequential(path, holder[3], zxid)
        # The parent exists, so its path is valid, unless it was the first of two "/".
        if (slash == 1 or not is_valid_name(path[slash + 1 :])) and path != ROOT:
            raise Refused(ErrorCode.BADARGUMENTS)
        if outstanding.view(path) is not None:
            raise Refused(ErrorCode.NODEEXISTS)
        if holder[7] and is_ephemeral(holder[7]):
            raise Refused(ErrorCode.NOCHILDRENFOREPHEMERALS)
        length = len(data) if data else 0
        charge = None
        if self._tree.quotas:
            if is_stats(path):
                length = 0
            if self._settings.enforce_quota:
                charge = self._outstanding.charge(path, 1, length, check=True)
        ephemeral = owner != 0 and is_ephemeral(owner)
        if ephemeral:
            self._limit_ephemerals(path, owner)
        (
            _, _, version, created_count, aversion, children_count, above_acl, above_owner, above_length,
            czxid, mzxid, ctime, mtime, _,
        ) = holder  # fmt: skip
        number = created_count + 1 if 0 <= created_count < INT_MAX else self._after(created_count)
        time = self.time
        after = (
            zxid, True, version, number, aversion, children_count + 1, above_acl, above_owner, above_length,
            czxid, mzxid, ctime, mtime, zxid,
        )  # fmt: skip
        made = (zxid, True, 0, 0, 0, 0, acl, owner, length, zxid, zxid, time, time, zxid)
        if charge is None and outstanding.journal is None:
            # As in `Prepare._set_data`: `put` inlined.
            outstanding.changes[above] = after
            outstanding.changes[path] = made
            outstanding.queue += ((zxid, above, 0, None), (zxid, path, 0, None))
        else:
            outstanding.put(above, after)
            outstanding.put(path, made, charge)
        if ephemeral:
            outstanding.own(path, owner, zxid)
        return opcode, number, path, data, (acl, owner)

    def _sequential(self, path: bytes, created_count: int, zxid: int) -> bytes:
        """The name of a sequential znode. Beyond 32-bit numbers it is derived from the zxid, if that is enabled."""
        if created_count >= 0 or not self._settings.sequence_64:
            return sequential_name(path, created_count)
        index = self.long_names_count
        if index > LONG_INDEX_MAX or zxid > LONG_ZXID_MAX:
            raise Refused(ErrorCode.BADARGUMENTS)
        self.long_names_count = index + 1
        return long_sequential_name(path, zxid, index)

    def _after(self, created_count: int) -> int:
        """The next count of the children ever created, which has 32 bits. If longer numbers are enabled, it never wraps
        from below to 0, so that it shows for ever that the 32-bit numbers are used up."""
        return -INT_MAX - 1 if created_count == -1 and self._settings.sequence_64 else wrapped(created_count + 1)

    def create_if_not_exists(self, _opcode: int, fields: tuple[Any, ...], request: Asked, zxid: int) -> Part:
        path, _, _, flags, _ = fields
        if not self._settings.create_if_not_exists:
            raise Refused(ErrorCode.UNIMPLEMENTED)
        # As in ClickHouse Keeper: a sequential create never finds its znode.
        if flags not in _UNNUMBERED:
            raise Refused(ErrorCode.BADARGUMENTS)
        try:
            return self.create(_CREATE, fields, request, zxid)
        except Refused as refused:
            found = self._outstanding.view(path)
            if refused.code != ErrorCode.NODEEXISTS or found is None:
                raise
        # Not null, which distinguishes it from a client's check (`datatree.record`).
        return _CHECK, found[2], path, b"", None

    def _owner(self, opcode: int, flags: int, ttl_ms: int | None, session: int) -> int:
        """The stored owner of the znode to create, which tells its kind."""
        if opcode == _CREATE_TTL:
            if not self._settings.extended_types:
                raise Refused(ErrorCode.UNIMPLEMENTED)
            assert ttl_ms is not None
            if not 0 < ttl_ms <= TTL_MS_MAX:
                raise Refused(ErrorCode.BADARGUMENTS)
            return ttl_owner(ttl_ms)
        if opcode == _CREATE_CONTAINER:
            return CONTAINER_OWNER
        if flags not in EPHEMERAL:
            return 0
        if not self._outstanding.has_session(session):
            raise Refused(ErrorCode.EPHEMERALONLOCALSESSION)
        return session

    def _limit_ephemerals(self, path: bytes, session: int) -> None:
        # All of them must fit into one closeSession, which can no longer be refused.
        if self._outstanding.ephemeral_bytes(session) + len(path) + 4 > self._settings.ephemeral_path_bytes_max:
            raise Refused(ErrorCode.QUOTAEXCEEDED)
