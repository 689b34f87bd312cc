"""A small linearizable tree of znodes: versions, czxids, ephemerals, sequences, sessions, one-shot watches, multis.

    tree = ZnodeTree()
    session = tree.begin_session()
    result = tree.apply(session, Create("/a", b"1", ephemeral=True))
    tree.fired                                      (session, path) of watches that fired, in order

It knows no connections: who uses it decides when a result arrives, or is lost.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from zab.coordination.operations import (
    ANY_VERSION,
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
    ZooKeeperError,
)

Write = Create | Set | Delete | Check


@define
class Znode:
    data: bytes
    stat: Stat
    children: set[str] = field(factory=set)
    sequence: int = 0


class _RefusedError(Exception):
    def __init__(self, error: ZooKeeperError) -> None:
        super().__init__(error.name)
        self.error = error


@define
class ZnodeTree:
    """before_write: called with the session and the parts of each write that will succeed, before it is applied.
    before_change: called with the path of each znode that a write is about to change, children included."""

    znodes: dict[str, Znode] = field(factory=lambda: {"": Znode(b"", Stat())})
    zxid: int = 0
    now_ms: int = 0
    sessions: set[int] = field(factory=set)
    fired: list[tuple[int, str]] = field(factory=list)
    before_write: Callable[[int, tuple[Write, ...]], None] | None = None
    before_change: Callable[[str], None] = lambda _path: None
    _data_watches: dict[str, set[int]] = field(factory=dict)
    _child_watches: dict[str, set[int]] = field(factory=dict)
    _session_count: int = 0

    def begin_session(self) -> int:
        self._session_count += 1
        self.sessions.add(self._session_count)
        return self._session_count

    def end_session(self, session: int) -> None:
        """Closed by its client, or expired."""
        self.sessions.discard(session)
        for watches in (self._data_watches, self._child_watches):
            for each in watches.values():
                each.discard(session)
        for path in [path for path, each in self.znodes.items() if each.stat.ephemeral_owner == session]:
            self.zxid += 1
            self._delete(Delete(path))

    def data(self, path: str) -> bytes | None:
        znode = self.znodes.get(path)
        return None if znode is None else znode.data

    def children(self, path: str) -> list[str]:
        return sorted(self.znodes[path].children) if path in self.znodes else []

    def apply(self, session: int, operation: Operation) -> Result:
        if isinstance(operation, Get | Exists | Children):
            return self.read(session, operation, self.znodes.get(operation.path))
        if session not in self.sessions:
            return Result(ZooKeeperError.SESSIONEXPIRED)
        if isinstance(operation, Sync):
            return Result(path=operation.path)
        try:
            if isinstance(operation, Multi):
                return self._multi(session, operation)
            return self._multi(session, Multi((operation,))).parts[0]
        except _RefusedError as refused:
            return Result(refused.error)

    def read(self, session: int, operation: Get | Exists | Children, znode: Znode | None) -> Result:
        """The result of a read that finds this znode; a member that lags finds an earlier state of it."""
        if session not in self.sessions:
            return Result(ZooKeeperError.SESSIONEXPIRED)
        if operation.watch and (znode is not None or isinstance(operation, Exists)):
            watches = self._child_watches if isinstance(operation, Children) else self._data_watches
            watches.setdefault(operation.path, set()).add(session)
        if znode is None:
            return Result(ZooKeeperError.NONODE)
        if isinstance(operation, Children):
            return Result(path=operation.path, children=tuple(sorted(znode.children)))
        return Result(path=operation.path, data=znode.data if isinstance(operation, Get) else b"", stat=znode.stat)

    def _multi(self, session: int, multi: Multi) -> Result:
        if not self._would_succeed(multi):
            return self._refused(session, multi)
        if self.before_write is not None:
            self.before_write(session, multi.parts)
        self.zxid += 1
        return Result(parts=tuple(self._apply_part(session, part) for part in multi.parts))

    def _refused(self, session: int, multi: Multi) -> Result:
        """The error of the first part that is refused, found on a copy."""
        copy = ZnodeTree(zxid=self.zxid + 1)
        for part in multi.parts:
            for path in (part.path, part.path.rpartition("/")[0]):
                found = self.znodes.get(path)
                if found is not None and path not in copy.znodes:
                    copy.znodes[path] = Znode(found.data, found.stat, set(found.children), found.sequence)
        copy.znodes[""].children |= self.znodes[""].children
        for at, part in enumerate(multi.parts):
            try:
                copy._apply_part(session, part)
            except _RefusedError as refused:
                after = [Result(ZooKeeperError.RUNTIMEINCONSISTENCY)] * (len(multi.parts) - at - 1)
                return Result(refused.error, parts=(*[Result()] * at, Result(refused.error), *after))
        raise AssertionError(f"nothing refuses {multi}")

    def _would_succeed(self, multi: Multi) -> bool:
        """Exact for multis whose parts depend on each other only as parent and child."""
        made: set[str] = set()
        gone: set[str] = set()
        for part in multi.parts:
            there = (part.path in self.znodes or part.path in made) and part.path not in gone
            if isinstance(part, Create):
                parent = part.path.rpartition("/")[0]
                if (there and not part.sequential) or not (parent in self.znodes or parent in made):
                    return False
                if parent in self.znodes and self.znodes[parent].stat.ephemeral_owner:
                    return False
                made.add(part.path)
                continue
            if not there:
                return False
            if part.version not in (ANY_VERSION, self.znodes[part.path].stat.version):
                return False
            if isinstance(part, Delete):
                if {f"{part.path}/{each}" for each in self.znodes[part.path].children} - gone:
                    return False
                gone.add(part.path)
        return True

    def _apply_part(self, session: int, part: Write) -> Result:
        if isinstance(part, Create):
            return self._create(session, part)
        znode = self.znodes.get(part.path)
        if znode is None:
            raise _RefusedError(ZooKeeperError.NONODE)
        if part.version not in (ANY_VERSION, znode.stat.version):
            raise _RefusedError(ZooKeeperError.BADVERSION)
        if isinstance(part, Check):
            return Result(path=part.path)
        if isinstance(part, Delete):
            return self._delete(part)
        self.before_change(part.path)
        stat = znode.stat
        znode.data = part.data
        znode.stat = Stat(stat.version + 1, stat.czxid, stat.ephemeral_owner, stat.ctime_ms)
        self._fire(self._data_watches, part.path)
        return Result(path=part.path, stat=znode.stat)

    def _create(self, session: int, part: Create) -> Result:
        parent_path, _, name = part.path.rpartition("/")
        parent = self.znodes.get(parent_path)
        if parent is None:
            raise _RefusedError(ZooKeeperError.NONODE)
        if parent.stat.ephemeral_owner:
            raise _RefusedError(ZooKeeperError.NOCHILDRENFOREPHEMERALS)
        if part.sequential:
            name += f"{parent.sequence:010}"
        path = f"{parent_path}/{name}"
        if path in self.znodes:
            raise _RefusedError(ZooKeeperError.NODEEXISTS)
        self.before_change(path)
        self.before_change(parent_path)
        parent.sequence += 1
        parent.children.add(name)
        stat = Stat(0, self.zxid, session if part.ephemeral else 0, self.now_ms)
        self.znodes[path] = Znode(part.data, stat)
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, parent_path)
        return Result(path=path, stat=stat)

    def _delete(self, part: Delete) -> Result:
        if self.znodes[part.path].children:
            raise _RefusedError(ZooKeeperError.NOTEMPTY)
        parent, _, name = part.path.rpartition("/")
        self.before_change(part.path)
        self.before_change(parent)
        del self.znodes[part.path]
        self.znodes[parent].children.discard(name)
        self._fire(self._data_watches, part.path)
        self._fire(self._child_watches, part.path)
        self._fire(self._child_watches, parent)
        return Result(path=part.path)

    def fire(self, session: int, operation: Get | Exists | Children) -> None:
        """The watch of this read fires at once: what it found is not so any more."""
        watches = self._child_watches if isinstance(operation, Children) else self._data_watches
        watches[operation.path].discard(session)
        self.fired.append((session, operation.path))

    def _fire(self, watches: dict[str, set[int]], path: str) -> None:
        self.fired.extend((session, path) for session in sorted(watches.pop(path, ())))
