"""The judge's own tree: the state that committed transactions make, at every zxid, not only the newest.

A simple twin of `datatree.tree`, written only from the format of transactions (`datatree.record`): dicts, and for each
path the list of its states with their zxids. So the answer to a read at any zxid can be checked, whenever it arrives.

It also lists the triggers of watches in their order, and keeps sessions with their ephemerals.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final, TypeAlias

from attrs import define, evolve

from datatree.opcodes import Effect, OpCode, types_with
from datatree.record import Txn
from datatree.znode import STAT_LAYOUT, is_ephemeral, visible_cversion, visible_owner
from zab.simulator.world.verdict import SafetyError

CREATED, DELETED, CHANGED, CHILDREN_CHANGED = 1, 2, 3, 4
"""Types of watch events, as on the wire."""
DATA, CHILD, DELETE = 0, 1, 2
"""Kinds of triggers: which watches they fire (`datatree.outcome`)."""

_CREATES: Final = types_with(Effect.CREATE)
_DELETES: Final = types_with(Effect.DELETE)
_SETS: Final = types_with(Effect.SET_DATA)
_SET_ACLS: Final = types_with(Effect.SET_ACL)
_RESERVED: Final = frozenset({b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config"})

Trigger: TypeAlias = tuple[int, bytes, int]
"""Kind, path, type of the event."""


@define
class Znode:
    """One state of a znode. `creations` counts the children that were ever created below it."""

    data: bytes | None
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int = 0
    aversion: int = 0
    owner: int = 0
    creations: int = 0
    children_count: int = 0

    def stat(self) -> bytes:
        """The stat of 68 bytes that a client sees."""
        return STAT_LAYOUT.pack(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            visible_cversion(self.creations, self.children_count),
            self.aversion,
            visible_owner(self.owner),
            len(self.data or b""),
            self.children_count,
            self.pzxid,
        )


class Versions:
    """The states of one item, each with its zxid."""

    __slots__ = ("states", "zxids")

    def __init__(self) -> None:
        self.zxids: list[int] = []
        self.states: list[Any] = []

    def put(self, zxid: int, state: Any) -> None:
        if self.zxids and self.zxids[-1] == zxid:
            self.states[-1] = state
        else:
            self.zxids.append(zxid)
            self.states.append(state)

    def at(self, zxid: int) -> Any:
        """The state after this zxid, or None."""
        index = bisect_right(self.zxids, zxid)
        return self.states[index - 1] if index else None


class Model:
    """The judge's tree. `apply` is called once for every committed transaction, in order."""

    def __init__(self) -> None:
        self.znodes: dict[bytes, Znode] = {path: Znode(b"", 0, 0, 0, 0, 0) for path in _RESERVED}
        self.znodes[b"/"].children_count = 1
        self.znodes[b"/zookeeper"].children_count = 2
        self.children: dict[bytes, frozenset[bytes]] = {
            b"/": frozenset({b"zookeeper"}),
            b"/zookeeper": frozenset({b"quota", b"config"}),
        }
        self.sessions: dict[int, int] = {}
        self.ephemerals: dict[int, set[bytes]] = {}
        self.zxid = 0
        """The zxid of the last transaction."""
        self.triggers: list[Trigger] = []
        self.trigger_zxids: list[int] = []
        self._znode_versions: dict[bytes, Versions] = {}
        self._child_versions: dict[bytes, Versions] = {}
        for path, znode in self.znodes.items():
            self._versions(self._znode_versions, path).put(0, znode)
        for path, names in self.children.items():
            self._versions(self._child_versions, path).put(0, names)

    # Reading.

    def znode_at(self, path: bytes, zxid: int) -> Znode | None:
        """The znode as it was after this zxid."""
        versions = self._znode_versions.get(path)
        znode: Znode | None = None if versions is None else versions.at(zxid)
        return znode

    def children_at(self, path: bytes, zxid: int) -> frozenset[bytes]:
        """The names of its children after this zxid."""
        versions = self._child_versions.get(path)
        return (versions.at(zxid) if versions is not None else None) or frozenset()

    def paths(self) -> list[bytes]:
        """Every path that ever existed, except those that servers generate."""
        return [path for path in self._znode_versions if path not in _RESERVED or path == b"/"]

    # Writing.

    def apply(self, txn: Txn) -> None:
        """Apply the next committed transaction."""
        if txn.type == OpCode.MULTI:
            if not any(part[0] == OpCode.ERROR for part in txn.rest):
                for kind, number, path, data, rest in txn.rest:
                    self._change(txn, kind, number, path, data, rest)
        else:
            self._change(txn, txn.type, txn.number, txn.path, txn.data, txn.rest)
        self.zxid = txn.zxid

    def _change(self, txn: Txn, kind: int, number: int, path: bytes, data: bytes | None, rest: Any) -> None:
        if kind in _CREATES:
            self._create(txn, path, data, number, rest[-1])
        elif kind in _DELETES:
            self._delete(txn.zxid, path)
        elif kind in _SETS:
            znode = self._existing(path, txn)
            self._put(path, evolve(znode, data=data, mzxid=txn.zxid, mtime=txn.time, version=number), txn.zxid)
            self._trigger(txn.zxid, DATA, path, CHANGED)
        elif kind in _SET_ACLS:
            self._put(path, evolve(self._existing(path, txn), aversion=number), txn.zxid)
        elif kind == OpCode.CREATE_SESSION:
            if txn.session in self.sessions:
                raise SafetyError("sessions", f"{txn.session:#x} is created twice, again at {txn.zxid:#x}")
            self.sessions[txn.session] = number
        elif kind == OpCode.CLOSE_SESSION:
            self._close_session(txn)

    def _create(self, txn: Txn, path: bytes, data: bytes | None, creations: int, owner: int) -> None:
        if path in self.znodes:
            raise SafetyError("integrity", f"{path!r} is created at {txn.zxid:#x}, and it exists")
        if is_ephemeral(owner):
            if owner not in self.sessions:
                raise SafetyError("ephemerals", f"{path!r} belongs to session {owner:#x}, which does not live")
            self.ephemerals.setdefault(owner, set()).add(path)
        above, _, name = path.rpartition(b"/")
        above = above or b"/"
        zxid = txn.zxid
        self._put(path, Znode(data, zxid, zxid, zxid, txn.time, txn.time, owner=owner), zxid)
        self._set_children(zxid, above, self.children.get(above, frozenset()) | {name}, creations, txn)
        self._trigger(zxid, DATA, path, CREATED)
        self._trigger(zxid, CHILD, above, CHILDREN_CHANGED)

    def _delete(self, zxid: int, path: bytes) -> None:
        znode = self.znodes.pop(path, None)
        if znode is None or self.children.get(path):
            raise SafetyError("integrity", f"{path!r} is deleted at {zxid:#x}, and it has children or does not exist")
        if is_ephemeral(znode.owner):
            self.ephemerals[znode.owner].remove(path)
        self._versions(self._znode_versions, path).put(zxid, None)
        above, _, name = path.rpartition(b"/")
        above = above or b"/"
        parent = self.znodes[above]
        self._set_children(zxid, above, self.children[above] - {name}, parent.creations, None)
        self._trigger(zxid, DELETE, path, DELETED)
        self._trigger(zxid, CHILD, above, CHILDREN_CHANGED)

    def _close_session(self, txn: Txn) -> None:
        if self.sessions.pop(txn.session, None) is None:
            raise SafetyError("sessions", f"{txn.session:#x} is closed at {txn.zxid:#x}, and it does not live")
        for path in txn.rest or ():
            self._delete(txn.zxid, path)
        left = self.ephemerals.pop(txn.session, None)
        if left:
            raise SafetyError("ephemerals", f"{sorted(left)} outlive session {txn.session:#x}")

    def _existing(self, path: bytes, txn: Txn) -> Znode:
        znode = self.znodes.get(path)
        if znode is None:
            raise SafetyError("integrity", f"{path!r} is changed at {txn.zxid:#x}, and it does not exist")
        return znode

    def _put(self, path: bytes, znode: Znode, zxid: int) -> None:
        self.znodes[path] = znode
        self._versions(self._znode_versions, path).put(zxid, znode)

    def _set_children(self, zxid: int, path: bytes, names: frozenset[bytes], creations: int, txn: Txn | None) -> None:
        parent = self.znodes.get(path)
        if parent is None:
            raise SafetyError("integrity", f"a child of {path!r} is created at {zxid:#x}, which does not exist")
        if txn is not None and creations != parent.creations + 1:
            raise SafetyError(
                "integrity", f"{path!r} counts {creations} creations at {zxid:#x}, not one more than before"
            )
        self.children[path] = names
        self._versions(self._child_versions, path).put(zxid, names)
        self._put(path, evolve(parent, pzxid=zxid, creations=creations, children_count=len(names)), zxid)

    def _trigger(self, zxid: int, kind: int, path: bytes, event: int) -> None:
        self.triggers.append((kind, path, event))
        self.trigger_zxids.append(zxid)

    @staticmethod
    def _versions(table: dict[bytes, Versions], path: bytes) -> Versions:
        versions = table.get(path)
        if versions is None:
            versions = table[path] = Versions()
        return versions
