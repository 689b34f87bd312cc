"""The state in ZooKeeper's files: snapshot plus logs, replayed by ZooKeeper's rules.

ZooKeeper's snapshots are fuzzy: they have all transactions up to the zxid in the name and some effects of later ones.
Replaying the log from that zxid on makes the state exact, provided that a transaction can be applied to a tree that has
already seen it, or a later one. So this replay is tolerant, unlike the native one, and is only used for these files:

    case                              rule
    create, parent missing            nothing (a later transaction deleted the parent)
    create, znode there already       it gets the transaction's ACL; the parent as below
    create: parent's stat             only if the transaction's cversion (-1: one more than now) is larger than the
                                      parent's: parent's cversion = it, parent's pzxid = zxid (ZOOKEEPER-3249)
    delete                            parent's pzxid = max(pzxid, zxid), also if the znode is gone (ZOOKEEPER-3125)
    setData, setACL                   nothing if the znode is gone, else every value from the transaction
    closeSession                      delete the paths listed, then what else the session owns (ZOOKEEPER-3145)
    createSession                     set the timeout
    multi                             nothing if a part failed, else each part as above
    check, error                      nothing

`zxid` moves after the whole transaction (ZOOKEEPER-3127).

ZooKeeper's digest of a tree, version 2: the sum modulo 2**64 over all znodes of

    CRC-32 of path ("" for the root) | data | czxid, mzxid, pzxid, ctime, mtime long | version, cversion, aversion int |
    stored ephemeralOwner long

where znodes below /zookeeper do not count. It covers neither ACLs nor sessions.

Invariants: `digest` is that sum at any time. In an exact state every znode but the root has its parent in `znodes`;
while a fuzzy snapshot is catching up, a parent may be missing that a later transaction creates again.

Deliberately not here: checks of permissions and versions (the leader made them), and quota sums, which ZooKeeper keeps
in the data of zookeeper_stats without any transaction.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final
from zlib import crc32

from attrs import define, evolve, field

from datatree.opcodes import Effect, OpCode
from datatree.paths import name, parent
from datatree.record import Txn
from datatree.znode import is_ephemeral, wrapped
from datatree.zookeeper.snapshot import SnapshotZnode, write_snapshot

__all__ = ["READ_ONLY_ACL", "ZooKeeperState", "znode_digest"]

_DIGESTED: Final = struct.Struct(">qqqqqiiiq")
DIGESTED_BYTES: Final = _DIGESTED.size
_MASK: Final = (1 << 64) - 1
RESERVED: Final = b"/zookeeper/"
READ_ONLY_ACL: Final = ((1, b"world", b"anyone"),)
# The znodes of a new ZooKeeper at zxid 0.
_EMPTY: Final = (
    SnapshotZnode(b"/", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    SnapshotZnode(b"/zookeeper", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    SnapshotZnode(b"/zookeeper/config", b"", READ_ONLY_ACL, 0, 0, 0, 0, 0, 0, -1, 0, 0),
    SnapshotZnode(b"/zookeeper/quota", b"", None, 0, 0, 0, 0, 0, 0, 0, 0, 0),
)


def znode_digest(znode: SnapshotZnode) -> int:
    """The znode's part of the tree's digest."""
    if znode.path.startswith(RESERVED):
        return 0
    path = znode.path if znode.path != b"/" else b""
    stat = _DIGESTED.pack(
        znode.czxid, znode.mzxid, znode.pzxid, znode.ctime, znode.mtime,
        znode.version, znode.cversion, znode.aversion, znode.owner,
    )  # fmt: skip
    return crc32(stat, crc32(znode.data or b"", crc32(path)))


@define
class ZooKeeperState:
    """Znodes by path, the names of children by parent, the paths of ephemerals by session, sessions with timeouts."""

    zxid: int = 0
    digest: int = 0
    znodes: dict[bytes, SnapshotZnode] = field(factory=dict)
    sessions: dict[int, int] = field(factory=dict)
    children: dict[bytes, set[bytes]] = field(factory=dict)
    ephemerals: dict[int, set[bytes]] = field(factory=dict)

    @classmethod
    def empty(cls) -> "ZooKeeperState":
        """A new ZooKeeper's state, at zxid 0."""
        return cls.build(_EMPTY, {}, 0)

    @classmethod
    def build(cls, znodes: Iterable[SnapshotZnode], sessions: dict[int, int], zxid: int) -> "ZooKeeperState":
        """The state with these znodes (parents before children), which are copied."""
        state = cls(zxid, sessions=dict(sessions))
        for znode in znodes:
            assert znode.path == b"/" or parent(znode.path) in state.znodes
            state._add(evolve(znode))
        return state

    def snapshot(self) -> Iterator[bytes]:
        """The bytes of the exact snapshot of this state, in slices."""
        znodes = [self.znodes[path] for path in sorted(self.znodes)]
        return write_snapshot(znodes, (znode.acl for znode in znodes), self.sessions, self.zxid, self.digest)

    def apply(self, txn: Txn) -> None:
        """Apply one transaction, by the rules above."""
        if txn.type == OpCode.MULTI:
            if all(kind != OpCode.ERROR for kind, *_ in txn.rest):
                for kind, number, path, data, rest in txn.rest:
                    self._apply(kind, number, path, data, rest, txn)
        else:
            self._apply(txn.type, txn.number, txn.path, txn.data, txn.rest, txn)
        self.zxid = max(self.zxid, txn.zxid)

    def _apply(self, kind: int, number: int, path: bytes, data: bytes | None, rest: Any, txn: Txn) -> None:
        change = _CHANGES.get(kind)
        if change is not None:
            change(self, number, path, data, rest, txn)

    def _create(self, number: int, path: bytes, data: bytes | None, rest: Any, txn: Txn) -> None:
        acl, owner = rest
        above = self.znodes.get(parent(path))
        if above is None:
            return
        znode = self.znodes.get(path)
        if znode is None:
            zxid, time = txn.zxid, txn.time
            self._add(SnapshotZnode(path, data, acl, zxid, zxid, time, time, 0, 0, 0, owner, zxid))
        else:
            znode.acl = acl
        cversion = wrapped(above.cversion + 1) if number == -1 else number
        if cversion > above.cversion:
            self._uncount(above)
            above.cversion, above.pzxid = cversion, txn.zxid
            self._count(above)

    def _set_data(self, number: int, path: bytes, data: bytes | None, _rest: Any, txn: Txn) -> None:
        znode = self.znodes.get(path)
        if znode is not None:
            self._uncount(znode)
            znode.data, znode.version, znode.mzxid, znode.mtime = data, number, txn.zxid, txn.time
            self._count(znode)

    def _set_acl(self, number: int, path: bytes, _data: bytes | None, rest: Any, _txn: Txn) -> None:
        znode = self.znodes.get(path)
        if znode is not None:
            self._uncount(znode)
            znode.acl, znode.aversion = rest[0], number
            self._count(znode)

    def _delete_one(self, _number: int, path: bytes, _data: bytes | None, _rest: Any, txn: Txn) -> None:
        self._delete(path, txn.zxid)

    def _create_session(self, number: int, _path: bytes, _data: bytes | None, _rest: Any, txn: Txn) -> None:
        self.sessions[txn.session] = number

    def _close_session(self, _number: int, _path: bytes, _data: bytes | None, rest: Any, txn: Txn) -> None:
        for path in rest or ():
            self._delete(path, txn.zxid)
        for path in sorted(self.ephemerals.get(txn.session, ())):
            self._delete(path, txn.zxid)
        self.sessions.pop(txn.session, None)

    def _delete(self, path: bytes, zxid: int) -> None:
        above = self.znodes.get(parent(path))
        if above is not None:
            self._uncount(above)
            above.pzxid = max(above.pzxid, zxid)
            self._count(above)
        znode = self.znodes.pop(path, None)
        if znode is None:
            return
        self._uncount(znode)
        siblings = self.children[parent(path)]
        siblings.discard(name(path))
        if not siblings:
            del self.children[parent(path)]
        owned = self.ephemerals.get(znode.owner)
        if owned is not None:
            owned.discard(path)
            if not owned:
                del self.ephemerals[znode.owner]

    def _add(self, znode: SnapshotZnode) -> None:
        path = znode.path
        self.znodes[path] = znode
        if path != b"/":
            self.children.setdefault(parent(path), set()).add(name(path))
        if is_ephemeral(znode.owner):
            self.ephemerals.setdefault(znode.owner, set()).add(path)
        self._count(znode)

    def _count(self, znode: SnapshotZnode) -> None:
        self.digest = (self.digest + znode_digest(znode)) & _MASK

    def _uncount(self, znode: SnapshotZnode) -> None:
        self.digest = (self.digest - znode_digest(znode)) & _MASK


_Change = Callable[[ZooKeeperState, int, bytes, bytes | None, Any, Txn], None]

# Types that change nothing (check, error) are absent.
_BY_EFFECT: Final[dict[Effect, _Change]] = {
    Effect.CREATE: ZooKeeperState._create,
    Effect.DELETE: ZooKeeperState._delete_one,
    Effect.SET_DATA: ZooKeeperState._set_data,
    Effect.SET_ACL: ZooKeeperState._set_acl,
}
_CHANGES: Final[dict[int, _Change]] = {
    **{int(opcode): _BY_EFFECT[opcode.effect] for opcode in OpCode if opcode.effect in _BY_EFFECT},
    int(OpCode.CREATE_SESSION): ZooKeeperState._create_session,
    int(OpCode.CLOSE_SESSION): ZooKeeperState._close_session,
}
