"""Applying a transaction to the tree: one function per type, called by `DataTree.apply` alone (E2 pure apply).

Each installs what the transaction says and checks nothing that could be refused: that happened when it was prepared,
against the same state. So if it cannot be installed (a znode is missing, or exists already, or still has children; a
session is unknown), this tree differs from the one it was prepared against: a divergence, which fails an assertion.

    create*          the znode; the parent's cversion from the transaction, its pzxid, its number of children
    delete*          the same backwards; the cversion stays, and with it what the client sees of it grows
    setData          data, version, mzxid, mtime, dataLength
    setACL           ACL, aversion
    createSession    the session's timeout
    closeSession     the listed ephemerals, which must be all of the session, and the session
    multi            its parts in order, with one zxid and time; or none of them, if it was refused
    error, check     nothing

These functions are the busiest code of a member, so they work on the bytes of the znode and its stat, take plain
arguments (tree, zxid, time, path, data, number, rest, list of triggers to extend, None if nothing is watched), and
compute the digest of an ordinary znode inline, since a call would cost as much as the sum.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

from datatree.acl import OPEN
from datatree.compiled import USED, TreePart
from datatree.crowd import CROWD_COUNT, Crowd
from datatree.digest import MASK, part, session_part
from datatree.opcodes import Effect, OpCode
from datatree.outcome import (
    CHILD,
    DATA,
    DELETE,
    NODE_CHILDREN_CHANGED,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
    PartResult,
    Trigger,
)
from datatree.paths import QUOTA
from datatree.quota import is_limits, is_stats
from datatree.record import AclList, Fields, Part
from datatree.slices import slices_of
from datatree.state import NEARING_COUNT, TreeState
from datatree.znode import (
    AFTER_CHILDREN,
    AFTER_SET_DATA,
    AVERSION_AT,
    DATA_AT,
    HEAD,
    HEAD_AND_STAT,
    INT,
    KEPT_BY_CHILDREN,
    KEPT_BY_SET_DATA,
    LARGE,
    LARGE_BYTES,
    NULL,
    STAT_AT,
    STAT_LAYOUT,
    length_of,
    visible_owner,
    wrapped,
)

__all__ = ["ERROR", "OPERATIONS", "apply_multi", "close_session", "create_session"]

ERROR: Final = int(OpCode.ERROR)
_CREATE: Final = int(OpCode.CREATE)
_CHECK: Final = int(OpCode.CHECK)
_DELETE: Final = int(OpCode.DELETE)

_QUOTA_PREFIX: Final = QUOTA + b"/"

_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1

# (tree, zxid, time, path, data, number, rest, triggers) -> the stat for the reply, or None.
Triggers: TypeAlias = list[Trigger] | None
Operation: TypeAlias = Callable[[TreeState, int, int, bytes, bytes | None, int, Any, Triggers], bytes | None]


def _create(
    tree: TreeState,
    zxid: int,
    time: int,
    path: bytes,
    data: bytes | None,
    number: int,
    rest: Any,
    triggers: Triggers,
) -> bytes:
    acl, owner = rest
    above = path[: path.rindex(b"/")] or b"/"
    key = crc32(path)
    index = key & 4095
    shard = tree.shards[index]
    assert path not in shard, f"create of {path!r}, which exists"
    siblings = tree.children.get(above)
    if siblings is None:
        siblings = tree.children[above] = {}
    siblings[path] = None
    siblings_count = len(siblings)
    if siblings_count == CROWD_COUNT and type(siblings) is dict:
        tree.children[above] = Crowd(siblings)
    above_acl = _update_parent(tree, zxid, above, number, siblings_count)
    quota = path.startswith(_QUOTA_PREFIX) and (is_limits(path) or is_stats(path))
    if quota and is_stats(path):
        data = b""
    length = len(data) if data else 0
    stat = STAT_LAYOUT.pack(zxid, zxid, time, time, 0, 0, 0, owner and visible_owner(owner), length, 0, zxid)
    checksum = crc32(data, key) if data else key
    if acl is None and owner >= 0 and data is not None:
        acl_id = OPEN
        digest = checksum << 32 | crc32(stat, checksum)
    else:
        acl_id = tree.acls.intern(acl)
        digest = part(checksum, stat, owner, tree.acls.checksums[acl_id], data is None)
    cursor = tree.cursor
    if cursor is not None:
        cursor.take(index, shard)
    kind: int = data is None
    if data and length > LARGE_BYTES:
        tree.large[path] = data
        kind, data = LARGE, b""
    znode = HEAD_AND_STAT.pack(acl_id, owner, 0, digest, kind, stat)
    shard[path] = znode + data if data else znode
    tree.digest = (tree.digest + digest) & MASK
    tree.znode_count += 1
    tree.data_bytes += length
    tree.path_bytes += len(path)
    if owner:
        tree.own(path, owner)
    if tree.quotas:
        tree.quota_sums.changed(tree.quotas, path, 1, length)
    if quota:
        tree.track_quota(path)
    if triggers is not None:
        triggers.append((DATA, path, NODE_CREATED, acl))
        triggers.append((CHILD, above, NODE_CHILDREN_CHANGED, above_acl))
    return stat


def _delete(
    tree: TreeState,
    zxid: int,
    _time: int,
    path: bytes,
    _data: bytes | None,
    _number: int,
    _rest: Any,
    triggers: Triggers,
) -> None:
    above = path[: path.rindex(b"/")] or b"/"
    index = crc32(path) & 4095
    shard = tree.shards[index]
    assert path in shard, f"delete of {path!r}, which does not exist"
    assert path not in tree.children, f"delete of {path!r}, which has children"
    cursor = tree.cursor
    if cursor is not None:
        cursor.take(index, shard)
    znode = shard.pop(path)
    acl_id, owner, _, digest, kind = HEAD.unpack_from(znode)
    if kind == LARGE:
        _drop_large(tree, path)
    siblings = tree.children[above]
    del siblings[path]
    if not siblings:
        del tree.children[above]
    above_acl = _update_parent(tree, zxid, above, None, len(siblings))
    length = length_of(znode)
    tree.digest = (tree.digest - digest) & MASK
    tree.znode_count -= 1
    tree.data_bytes -= length
    tree.path_bytes -= len(path)
    acl = tree.acls.lists[acl_id]
    if acl_id != OPEN:
        tree.past_acls.ended(path, zxid, acl)
        tree.acls.release(acl_id)
    if owner:
        tree.disown(path, owner)
    if tree.nearing:
        tree.nearing.pop(path, None)
    if tree.quotas:
        tree.quota_sums.changed(tree.quotas, path, -1, -length)
        if is_limits(path) or is_stats(path):
            tree.untrack_quota(path)
    if triggers is not None:
        triggers.append((DELETE, path, NODE_DELETED, acl))
        triggers.append((CHILD, above, NODE_CHILDREN_CHANGED, above_acl))


def _update_parent(tree: TreeState, zxid: int, path: bytes, created: int | None, children_count: int) -> AclList:
    """A child of `path` has come (`created` is the new cversion) or gone. The parent's ACL."""
    index = crc32(path) & 4095
    shard = tree.shards[index]
    assert path in shard, f"{path!r} does not exist, but its child changed"
    znode = shard[path]
    acl_id, owner, cversion, before, kind = HEAD.unpack_from(znode)
    if created is not None:
        cversion = created
        if not 0 <= created < NEARING_COUNT:
            tree.nearing[path] = created
    visible = 2 * cversion - children_count
    if not _INT_MIN <= visible <= _INT_MAX:
        visible = wrapped(visible)
    head, middle = KEPT_BY_CHILDREN.unpack_from(znode, STAT_AT)
    stat = AFTER_CHILDREN.pack(head, visible, middle, children_count, zxid)
    checksum = before >> 32
    if acl_id == OPEN and owner >= 0 and kind != NULL:
        digest = checksum << 32 | crc32(stat, checksum)
    else:
        digest = part(checksum, stat, owner, tree.acls.checksums[acl_id], kind == NULL)
    cursor = tree.cursor
    if cursor is not None:
        cursor.take(index, shard)
    shard[path] = HEAD_AND_STAT.pack(acl_id, owner, cversion, digest, kind, stat) + znode[DATA_AT:]
    tree.digest = (tree.digest - before + digest) & MASK
    return tree.acls.lists[acl_id]


def _drop_large(tree: TreeState, path: bytes) -> None:
    if tree.cursor is not None:
        tree.cursor.keep(path, tree.large[path])
    del tree.large[path]


def _set_data(
    tree: TreeState,
    zxid: int,
    time: int,
    path: bytes,
    data: bytes | None,
    number: int,
    _rest: Any,
    triggers: Triggers,
) -> bytes:
    key = crc32(path)
    index = key & 4095
    shard = tree.shards[index]
    assert path in shard, f"setData of {path!r}, which does not exist"
    znode = shard[path]
    acl_id, owner, cversion, before, kind = HEAD.unpack_from(znode)
    if tree.quotas and is_stats(path):
        data = b""
    length = len(data) if data else 0
    czxid, ctime, middle, length_before, tail = KEPT_BY_SET_DATA.unpack_from(znode, STAT_AT)
    growth = length - length_before
    stat = AFTER_SET_DATA.pack(czxid, zxid, ctime, time, number, middle, length, tail)
    checksum = crc32(data, key) if data else key
    if acl_id == OPEN and owner >= 0 and data is not None:
        digest = checksum << 32 | crc32(stat, checksum)
    else:
        digest = part(checksum, stat, owner, tree.acls.checksums[acl_id], data is None)
    cursor = tree.cursor
    if cursor is not None:
        cursor.take(index, shard)
    if kind == LARGE:
        _drop_large(tree, path)
    kind = data is None
    if data and length > LARGE_BYTES:
        tree.large[path] = data
        kind, data = LARGE, b""
    znode = HEAD_AND_STAT.pack(acl_id, owner, cversion, digest, kind, stat)
    shard[path] = znode + data if data else znode
    tree.digest = (tree.digest - before + digest) & MASK
    tree.data_bytes += growth
    if tree.quotas:
        tree.quota_sums.changed(tree.quotas, path, 0, growth)
        if is_limits(path):
            tree.track_quota(path)
    if triggers is not None:
        triggers.append((DATA, path, NODE_DATA_CHANGED, tree.acls.lists[acl_id]))
    return stat


def _set_acl(
    tree: TreeState,
    zxid: int,
    _time: int,
    path: bytes,
    _data: bytes | None,
    number: int,
    rest: Any,
    _triggers: Triggers,
) -> bytes:
    (acl,) = rest
    index = crc32(path) & 4095
    shard = tree.shards[index]
    assert path in shard, f"setACL of {path!r}, which does not exist"
    znode = shard[path]
    acl_id, owner, cversion, before, kind = HEAD.unpack_from(znode)
    # The new reference first: the list may be the same one, with this znode as its only user.
    new_id = tree.acls.intern(acl)
    if acl_id not in (OPEN, new_id):
        tree.past_acls.ended(path, zxid, tree.acls.lists[acl_id])
    tree.acls.release(acl_id)
    at = STAT_AT + AVERSION_AT
    stat = znode[STAT_AT:at] + INT.pack(number) + znode[at + 4 : DATA_AT]
    digest = part(before >> 32, stat, owner, tree.acls.checksums[new_id], kind == NULL)
    cursor = tree.cursor
    if cursor is not None:
        cursor.take(index, shard)
    shard[path] = HEAD_AND_STAT.pack(new_id, owner, cversion, digest, kind, stat) + znode[DATA_AT:]
    tree.digest = (tree.digest - before + digest) & MASK
    return stat


def _nothing(
    _tree: TreeState,
    _zxid: int,
    _time: int,
    _path: bytes,
    _data: bytes | None,
    _number: int,
    _rest: Any,
    _triggers: Triggers,
) -> None:
    """Nothing: a check was done when it was prepared."""


_BY_EFFECT: Final[dict[Effect, Operation]] = {
    Effect.CREATE: _create,
    Effect.DELETE: _delete,
    Effect.SET_DATA: _set_data,
    Effect.SET_ACL: _set_acl,
    Effect.NOTHING: _nothing,
}
OPERATIONS: Final[dict[int, Operation]] = {
    int(opcode): _BY_EFFECT[opcode.effect] for opcode in OpCode if opcode.effect in _BY_EFFECT
}


def apply_multi(tree: TreeState, txn: Fields, triggers: Triggers, results: list[PartResult]) -> Iterator[None]:
    """Apply all parts of a multi, or none if any was refused, in slices; `results` gets the answer for each part."""
    zxid, time, _, _, _, _, _, _, parts = txn
    kinds = {part[0] for part in parts}
    if ERROR in kinds:
        assert len(kinds) == 1, "a multi that is refused in part"
        results += [(ERROR, number, path, None) for _, number, path, _, _ in parts]
        return
    used = USED.tree
    for some in slices_of(parts):
        left = some if used is None else _left_by(used, tree, zxid, time, some, triggers, results)
        for kind, number, path, data, rest in left:
            stat = OPERATIONS[kind](tree, zxid, time, path, data, number, rest, triggers)
            # A createIfNotExists that found its znode is answered like one that made it.
            results.append((kind if kind != _CHECK or data is None else _CREATE, 0, path, stat))
            if number and kind == _DELETE:
                # The last delete of a removeRecursive: the ones before it get no answers.
                del results[-1 - number : -1]
        yield


def _left_by(
    used: TreePart,
    tree: TreeState,
    zxid: int,
    time: int,
    parts: Sequence[Part],
    triggers: Triggers,
    results: list[PartResult],
) -> Iterator[Part]:
    """The parts that are left to Python, in order. When one comes, those before it are applied."""
    at = 0
    while (at := used.apply_parts(tree, zxid, time, parts, at, triggers, results)) < len(parts):
        yield parts[at]
        at += 1


def create_session(tree: TreeState, txn: Fields) -> None:
    _, _, session, _, _, timeout_ms, _, _, _ = txn
    assert session not in tree.sessions, f"createSession of {session:#x}, which exists"
    tree.sessions[session] = timeout_ms
    tree.digest = (tree.digest + session_part(session, timeout_ms)) & MASK


def close_session(tree: TreeState, txn: Fields, triggers: Triggers) -> Iterator[None]:
    """In slices of its ephemerals."""
    zxid, time, session, _, _, _, _, _, ephemerals = txn
    for paths in slices_of(ephemerals):
        for path in paths:
            assert path in tree.ephemerals.get(session, ()), f"{path!r} is no ephemeral of {session:#x}"
            _delete(tree, zxid, time, path, None, 0, None, triggers)
        yield
    assert session not in tree.ephemerals, f"closeSession of {session:#x} leaves ephemerals"
    assert session in tree.sessions, f"closeSession of {session:#x}, which does not exist"
    tree.digest = (tree.digest - session_part(session, tree.sessions.pop(session))) & MASK
