"""The tree of znodes: the replicated state, with the operations on the whole tree.

    DataTree()          an empty tree: only the reserved znodes
    bare, install, …    a tree from a snapshot
    apply               the next committed transaction
    begin_snapshot      an exact view of now, to be read while writes continue (`datatree.cursor`)

Invariants:
- Only committed transactions are applied, in zxid order, by one function for serving, synchronizing and recovering.
- Applying is a pure function of state and transaction: no clock, no configuration, no order of a set. Every transaction
  that `datatree.prepare` makes can be applied: if one cannot, the trees have diverged, and an assertion fails.
- `digest == recompute_digest()` and the counts agree with the znodes, after every transaction.
- The four reserved znodes always exist.

Not here: reading on behalf of a client (permissions, watches), whether a write is allowed (`datatree.prepare`), and
files.
"""

from collections.abc import Generator, Iterable
from typing import Final, TypeAlias
from zlib import crc32

from datatree.acl import OPEN, READ_ONLY
from datatree.apply import ERROR, OPERATIONS, apply_multi, close_session, create_session
from datatree.compiled import USED
from datatree.crowd import CROWD_COUNT, Children, Crowd
from datatree.cursor import SnapshotCursor
from datatree.digest import MASK, part, recompute, session_part
from datatree.opcodes import OpCode
from datatree.outcome import Applied, PartResult, Trigger
from datatree.past_acls import PastAcls
from datatree.paths import CONFIG, QUOTA, RESERVED, ROOT, ZOOKEEPER
from datatree.quota import is_limits, is_stats
from datatree.record import AclList, Fields
from datatree.state import NEARING_COUNT, NO_CHILDREN, TreeState
from datatree.znode import (
    CHILDREN_AT,
    HEAD_AND_STAT,
    INT,
    LARGE,
    LARGE_BYTES,
    NULL,
    PZXID_AT,
    STAT_AT,
    STAT_LAYOUT,
    visible_cversion,
)

__all__ = ["DataTree", "Installed", "TreeError"]

_NONE_BELOW: Final = INT.pack(0)
_MULTI: Final = int(OpCode.MULTI)
_CREATE_SESSION: Final = int(OpCode.CREATE_SESSION)
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)


Installed: TypeAlias = tuple[bytes, bytes | None, AclList, bytes, int, int]
"""A znode of a snapshot: path, data, list, stat, stored owner, internal cversion."""


class TreeError(Exception):
    """What was loaded is not a tree; the text names the path."""


class DataTree(TreeState):
    """An empty tree has the reserved znodes; `DataTree.bare()` has none, for loading a snapshot."""

    __slots__ = ("_parents",)

    def __init__(self) -> None:
        self._begin()
        # As in ZooKeeper: everything is 0, except the cversions, which count the initial children.
        for path, acl, version, children_count in (
            (ROOT, None, 0, 1),
            (ZOOKEEPER, None, 0, 2),
            (QUOTA, None, 0, 0),
            (CONFIG, READ_ONLY, -1, 0),
        ):
            cversion = visible_cversion(0, children_count)
            stat = STAT_LAYOUT.pack(0, 0, 0, 0, version, cversion, version, 0, 0, children_count, 0)
            self.install([(path, b"", acl, stat, 0, 0)])
        self.finish(0)

    @classmethod
    def bare(cls) -> "DataTree":
        """A tree without any znode: `install` them and the sessions, then `finish`."""
        tree = cls.__new__(cls)
        tree._begin()
        return tree

    def _begin(self) -> None:
        super().__init__()
        self._parents: set[bytes] = set()
        """While a snapshot is loaded: the paths whose stats say that they have children."""

    # Writing.

    def apply(self, txn: Fields, is_watched: bool = True) -> Applied:
        """Apply the next committed transaction. Its zxid must be above `applied`, which then becomes it. Without
        watches there are no triggers."""
        used = USED.tree
        if used is not None:
            applied: Applied | None = used.apply(self, txn, is_watched)
            if applied is not None:
                return applied
        zxid, time, _, _, kind, number, path, data, rest = txn
        assert zxid > self.applied, f"transaction {zxid:#x} after {self.applied:#x}"
        operation = OPERATIONS.get(kind)
        if operation is not None:
            triggers: list[Trigger] | None = [] if is_watched else None
            stat = operation(self, zxid, time, path, data, number, rest, triggers)
            self.applied = zxid
            return 0, path, stat, None, triggers
        steps = self.apply_in_slices(txn, is_watched)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                whole: Applied = end.value
                return whole

    def apply_in_slices(self, txn: Fields, is_watched: bool = True) -> Generator[None, None, Applied]:
        """Like `apply`, for a transaction that is not an operation on one znode: a generator that yields after each
        slice. Until it ends the tree is between two states: it must not be read, prepared against, or snapshotted."""
        zxid, _, _, _, kind, number, path, _, _ = txn
        assert zxid > self.applied, f"transaction {zxid:#x} after {self.applied:#x}"
        triggers: list[Trigger] | None = [] if is_watched else None
        results: list[PartResult] | None = None
        error = 0
        if kind == ERROR:
            error = number
        elif kind == _MULTI:
            results = []
            yield from apply_multi(self, txn, triggers, results)
        elif kind == _CLOSE_SESSION:
            yield from close_session(self, txn, triggers)
        else:
            assert kind == _CREATE_SESSION, f"a transaction of type {kind}"
            create_session(self, txn)
        # Only now: readers of `applied` may rely on the whole transaction, including all parts of a multi.
        self.applied = zxid
        return error, path, None, results, triggers

    def begin_snapshot(self) -> SnapshotCursor:
        """A cursor over the tree as it is now. One at a time; `close` it when it is done or given up."""
        assert self.cursor is None, "one snapshot at a time"
        self.cursor = SnapshotCursor(
            self.applied,
            self.digest,
            self.znode_count,
            dict(self.sessions),
            dict(self.acls.lists),
            self.shards,
            self.large,
            self._end_snapshot,
        )
        return self.cursor

    def _end_snapshot(self) -> None:
        self.cursor = None

    # Loading and checking.

    def install(self, znodes: Iterable[Installed]) -> None:
        """Install znodes of a snapshot. Parents may come later; `finish` checks the relations between znodes."""
        shards, children, pack = self.shards, self.children, HEAD_AND_STAT.pack
        digests = count = path_bytes = 0
        above_before: bytes | None = None
        siblings: Children = {}
        for path, data, acl, stat, owner, cversion in znodes:
            checksum = crc32(path)
            shard = shards[checksum & 4095]
            above = path[: path.rindex(b"/")]
            if path != ROOT:
                if above != above_before:
                    above_before = above
                    siblings = children.setdefault(above or ROOT, {})
                siblings[path] = None
            if data and above.startswith(QUOTA) and is_stats(path):
                data = b""
            kind: int = data is None
            if data:
                checksum = crc32(data, checksum)
                self.data_bytes += len(data)
                if len(data) > LARGE_BYTES:
                    self.large[path] = data
                    kind, data = LARGE, b""
            if acl is None and owner >= 0 and kind != NULL:
                acl_id = OPEN
                digest = checksum << 32 | crc32(stat, checksum)
            else:
                acl_id = self.acls.intern(acl)
                digest = part(checksum, stat, owner, self.acls.checksums[acl_id], kind == NULL)
            znode = pack(acl_id, owner, cversion, digest, kind, stat)
            if data:
                znode += data
            if shard.setdefault(path, znode) is not znode:
                raise TreeError(f"two znodes at {path!r}")
            digests += digest
            count += 1
            path_bytes += len(path)
            if owner:
                self.own(path, owner)
            if not 0 <= cversion < NEARING_COUNT:
                self.nearing[path] = cversion
            if stat[CHILDREN_AT:PZXID_AT] != _NONE_BELOW:
                self._parents.add(path)
        self.digest = (self.digest + digests) & MASK
        self.znode_count += count
        self.path_bytes += path_bytes

    def install_session(self, session: int, timeout_ms: int) -> None:
        """Install one session of a snapshot."""
        if session in self.sessions:
            raise TreeError(f"session {session:#x} twice")
        self.sessions[session] = timeout_ms
        self.digest = (self.digest + session_part(session, timeout_ms)) & MASK

    def finish(self, zxid: int) -> None:
        """Everything in a snapshot of `zxid` is installed. Raises TreeError if it is not a tree."""
        for path in RESERVED:
            if path not in self.shards[crc32(path) & 4095]:
                raise TreeError(f"{path!r} is missing")
        for path in self.children:
            if path not in self.shards[crc32(path) & 4095]:
                raise TreeError(f"{path!r} is missing, which has children")
        for path in self._parents.union(self.children):
            znode, below = self.shards[crc32(path) & 4095][path], self.children.get(path, NO_CHILDREN)
            if INT.unpack_from(znode, STAT_AT + CHILDREN_AT)[0] != len(below):
                raise TreeError(f"{path!r} does not have the number of children that its stat says")
            if len(below) >= CROWD_COUNT:
                self.children[path] = Crowd(below)
        self._parents.clear()
        for path in self.descendants(QUOTA):
            if is_limits(path) or is_stats(path):
                self.track_quota(path)
        self.quota_sums.count_all()
        self.applied = zxid
        self.past_acls = PastAcls(zxid)

    def recompute_digest(self) -> int:
        """The digest computed from the znodes and sessions alone; always equal to `digest`."""
        znodes = (item for shard in self.shards for item in shard.items())
        return recompute(znodes, self.large, self.sessions, self.acls.checksums)
