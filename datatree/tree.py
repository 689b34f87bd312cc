"""The tree of znodes: the replicated state, and what is derived from it.

State, the same on every member at the same zxid:
- `shards`: path -> znode in 256 dicts, chosen by CRC-32 of the path, so that a snapshot copies a little at a time;
- `sessions`: id -> timeout in ms of every global session;
- `applied`: the zxid of the last transaction applied.

Derived from the znodes, and rebuilt when a snapshot is loaded: `children` (parent -> paths, only for parents that have
some), `ephemerals` (session -> paths), `containers`, `ttls`, `quotas`, `acls`, the digest and the counts.

A million znodes must cost the garbage collector nothing. It forgets tuples of atoms at its first look, and never looks
at dicts of atoms, so the children are dicts without values instead of sets; their keys are the same objects as those of
`shards`, which saves 48 bytes a znode. But a dict comes back to its attention with each write of a fresh tuple, and a
full collection would visit a million znodes again: whoever serves a tree calls `freeze` once after making or loading.

Invariants:
- Only committed transactions are applied, in zxid order, by one function for serving, synchronizing and recovering.
- Applying is a pure function of state and transaction: no clock, no configuration, no order of a set. It is total for
  what `datatree.prepare` makes: a transaction that cannot be applied is a divergence, and an assertion says so.
- `digest == recompute_digest()` and the counts agree with the znodes, after every transaction.
- The four reserved znodes always exist.

Beside the state stands `past_acls`, the lists that guarded paths before, as far as this tree has seen it.

Two znodes show what is not stored in them: the zookeeper_stats of a quota its sums, and /zookeeper/config, until the
first reconfiguration, the text that the server sets as `config`; so a snapshot and the digest do not contain either.

Deliberately not here: reading in the name of a client (permissions, watches), whether a write is allowed
(`datatree.prepare`), and files.
"""

import gc
from typing import Final, cast
from zlib import crc32

from datatree import apply
from datatree.acl import OPEN, READ_ONLY, AclTable
from datatree.cursor import SnapshotCursor
from datatree.digest import DIGEST_VERSION, MASK, part, recompute, session_part
from datatree.outcome import Outcome, PartResult, Trigger
from datatree.past_acls import PastAcls
from datatree.paths import CONFIG, QUOTA, RESERVED, ROOT, ZOOKEEPER, parent
from datatree.quota import Limits, Quota, enclosing, is_limits, is_stats, quota_path
from datatree.record import AclList, Txn
from datatree.znode import (
    CHILDREN_AT,
    CONTAINER_OWNER,
    DATA,
    INT,
    LENGTH_AT,
    STAT_LAYOUT,
    Znode,
    is_ephemeral,
    visible_cversion,
)

__all__ = ["DIGEST_VERSION", "SHARD_COUNT", "DataTree", "Outcome", "TreeError"]

SHARD_COUNT: Final = 256

_NOTHING: Final[dict[bytes, None]] = {}


class TreeError(Exception):
    """What was loaded is not a tree; the text names the path."""


class DataTree:
    """An empty tree has the reserved znodes; `DataTree.bare()` has none, for a snapshot to be loaded into."""

    __slots__ = (
        "acls",
        "applied",
        "children",
        "config",
        "containers",
        "cursor",
        "data_bytes",
        "digest",
        "ephemerals",
        "past_acls",
        "path_bytes",
        "quotas",
        "rendered",
        "sessions",
        "shards",
        "ttls",
        "znode_count",
    )

    def __init__(self) -> None:
        self._clear()
        # As in ZooKeeper: everything 0, but for the cversions, which count the children that nobody created.
        for path, acl, version, children_count in (
            (ROOT, None, 0, 1),
            (ZOOKEEPER, None, 0, 2),
            (QUOTA, None, 0, 0),
            (CONFIG, READ_ONLY, -1, 0),
        ):
            cversion = visible_cversion(0, children_count)
            stat = STAT_LAYOUT.pack(0, 0, 0, 0, version, cversion, version, 0, 0, children_count, 0)
            self.install(path, b"", acl, stat, 0, 0)
        self.finish(0)

    @classmethod
    def bare(cls) -> "DataTree":
        """A tree without any znode: `install` them and the sessions, then `finish`."""
        tree = cls.__new__(cls)
        tree._clear()
        return tree

    def _clear(self) -> None:
        self.shards: list[dict[bytes, Znode]] = [{} for _ in range(SHARD_COUNT)]
        self.sessions: dict[int, int] = {}
        self.applied = 0
        self.children: dict[bytes, dict[bytes, None]] = {}
        self.ephemerals: dict[int, set[bytes]] = {}
        self.containers: set[bytes] = set()
        self.ttls: set[bytes] = set()
        self.quotas: dict[bytes, Quota] = {}
        self.rendered: dict[bytes, Quota | None] = {CONFIG: None}
        self.acls = AclTable()
        self.past_acls = PastAcls(0)
        self.config = b""
        self.digest = 0
        self.znode_count = 0
        self.data_bytes = 0
        self.path_bytes = 0
        self.cursor: SnapshotCursor | None = None

    def freeze(self) -> None:
        """Put everything there is now, the dicts of the tree above all, out of the garbage collector's sight for good.

        What is written to them later stays out of it too, since it never enters them. A tree that is dropped is freed
        all the same, by its reference counts.
        """
        gc.collect()
        for shard in self.shards:
            # The collector may have let go of the dict, and can only freeze what it has: a list makes it take hold.
            cast("dict[bytes, object]", shard)[b""] = []
            del shard[b""]
        gc.freeze()

    # Reading.

    def get(self, path: bytes) -> Znode | None:
        """The znode at `path` as a reader sees it, or None. Its tuple stays as it is for ever."""
        znode = self.shards[crc32(path) & 255].get(path)
        if path in self.rendered and znode is not None:
            return self._render(path, znode)
        return znode

    def _render(self, path: bytes, znode: Znode) -> Znode:
        quota = self.rendered[path]
        data = quota.text() if quota is not None else znode[DATA] or self.config
        stat = znode[2]
        return data, znode[1], stat[:LENGTH_AT] + INT.pack(len(data)) + stat[CHILDREN_AT:], *znode[3:]

    def acl(self, znode: Znode) -> AclList:
        """The list that guards `znode`; None is the open one."""
        return self.acls.lists[znode[1]]

    def child_names(self, path: bytes) -> list[bytes]:
        """The names of the children of `path`, in no order."""
        start = 1 if path == ROOT else len(path) + 1
        return [child[start:] for child in self.children.get(path, _NOTHING)]

    def descendants(self, path: bytes) -> list[bytes]:
        """The paths of all znodes below `path`."""
        found: list[bytes] = []
        pending = [path]
        while pending:
            below = self.children.get(pending.pop(), _NOTHING)
            found += below
            pending += below
        return found

    def descendant_count(self, path: bytes) -> int:
        """How many znodes are below `path`."""
        return self.znode_count - 1 if path == ROOT else len(self.descendants(path))

    # Writing.

    def apply(self, txn: Txn) -> Outcome:
        """Apply the next committed transaction. Its zxid must be above `applied`, which then becomes it."""
        assert txn.zxid > self.applied, f"transaction {txn.zxid:#x} after {self.applied:#x}"
        triggers: list[Trigger] = []
        results: list[PartResult] | None = None
        stat: bytes | None = None
        error = 0
        kind = txn.type
        operation = apply.OPERATIONS.get(kind)
        if operation is not None:
            stat = operation(self, txn.zxid, txn.time, txn.path, txn.data, txn.number, txn.rest, triggers)
        elif kind == apply.ERROR:
            error = txn.number
        elif kind == apply.MULTI:
            results = apply.apply_multi(self, txn, triggers)
        else:
            apply.SESSION_OPERATIONS[kind](self, txn, triggers)
        # Only now: whoever reads `applied` may rely on the whole transaction, all parts of a multi included.
        self.applied = txn.zxid
        return Outcome(error, txn.path, stat, results, triggers)

    def begin_snapshot(self) -> SnapshotCursor:
        """A cursor over the tree as it is now. One at a time; `close` it when it is done or given up."""
        assert self.cursor is None, "one snapshot at a time"
        self.cursor = SnapshotCursor(self)
        return self.cursor

    def end_snapshot(self, cursor: SnapshotCursor) -> None:
        """Called by the cursor when it is closed."""
        assert self.cursor is cursor
        self.cursor = None

    # Loading and checking.

    def install(self, path: bytes, data: bytes | None, acl: AclList, stat: bytes, owner: int, cversion: int) -> None:
        """Put one znode of a snapshot in place. Parents may come later; `finish` checks what is between znodes."""
        shard = self.shards[crc32(path) & 255]
        if path in shard:
            raise TreeError(f"two znodes at {path!r}")
        if is_stats(path):
            data = b""
        acl_id = OPEN if acl is None else self.acls.intern(acl)
        checksum = crc32(data, crc32(path)) if data else crc32(path)
        digest = part(checksum, stat, owner, self.acls.checksums[acl_id], data is None)
        shard[path] = (data, acl_id, stat, owner, cversion, digest)
        self.digest = (self.digest + digest) & MASK
        self.znode_count += 1
        self.data_bytes += len(data) if data else 0
        self.path_bytes += len(path)
        if owner:
            self.own(path, owner)
        if path != ROOT:
            self.children.setdefault(parent(path), {})[path] = None

    def install_session(self, session: int, timeout_ms: int) -> None:
        """Put one session of a snapshot in place."""
        if session in self.sessions:
            raise TreeError(f"session {session:#x} twice")
        self.sessions[session] = timeout_ms
        self.digest = (self.digest + session_part(session, timeout_ms)) & MASK

    def finish(self, zxid: int) -> None:
        """All of a snapshot of `zxid` is in place. Raises TreeError if it is no tree."""
        for path in RESERVED:
            if path not in self.shards[crc32(path) & 255]:
                raise TreeError(f"{path!r} is missing")
        for path in self.children:
            if path not in self.shards[crc32(path) & 255]:
                raise TreeError(f"{path!r} is missing, which has children")
        for shard in self.shards:
            for path, znode in shard.items():
                if INT.unpack_from(znode[2], CHILDREN_AT)[0] != len(self.children.get(path, _NOTHING)):
                    raise TreeError(f"{path!r} does not have the number of children that its stat says")
        for path in self.descendants(QUOTA):
            if is_limits(path) or is_stats(path):
                self.track_quota(path)
        self.applied = zxid
        self.past_acls = PastAcls(zxid)

    def recompute_digest(self) -> int:
        """The digest from the znodes and sessions alone; always equal to `digest`."""
        znodes = (item for shard in self.shards for item in shard.items())
        return recompute(znodes, self.sessions, self.acls.checksums)

    # What `datatree.apply` keeps up to date.

    def own(self, path: bytes, owner: int) -> None:
        """The znode at `path` has come to be, with this stored owner."""
        if is_ephemeral(owner):
            self.ephemerals.setdefault(owner, set()).add(path)
        elif owner == CONTAINER_OWNER:
            self.containers.add(path)
        else:
            self.ttls.add(path)

    def disown(self, path: bytes, owner: int) -> None:
        """The znode at `path`, with this stored owner, is gone."""
        if is_ephemeral(owner):
            paths = self.ephemerals[owner]
            paths.remove(path)
            if not paths:
                del self.ephemerals[owner]
        elif owner == CONTAINER_OWNER:
            self.containers.remove(path)
        else:
            self.ttls.remove(path)

    def count_quota(self, path: bytes, count: int, length_bytes: int) -> None:
        """The subtrees around `path` have gained that many znodes and bytes."""
        for quota in enclosing(self.quotas, path):
            quota.count += count
            quota.total_bytes += length_bytes

    def track_quota(self, path: bytes) -> None:
        """The limits or stats znode `path` exists, or its text has changed."""
        target = quota_path(path)
        quota = self.quotas.get(target)
        if quota is None:
            quota = self.quotas[target] = Quota(target, *self._sums(target), None, False)
        if is_limits(path):
            quota.limits = Limits.parse(self.shards[crc32(path) & 255][path][DATA] or b"")
        else:
            quota.shown = True
            self.rendered[path] = quota

    def untrack_quota(self, path: bytes) -> None:
        """The limits or stats znode `path` is gone."""
        quota = self.quotas[quota_path(path)]
        if is_limits(path):
            quota.limits = None
        else:
            quota.shown = False
            del self.rendered[path]
        if quota.limits is None and not quota.shown:
            del self.quotas[quota.path]

    def _sums(self, path: bytes) -> tuple[int, int]:
        found = [self.shards[crc32(each) & 255].get(each) for each in (path, *self.descendants(path))]
        znodes = [znode for znode in found if znode is not None]
        return len(znodes), sum(len(znode[DATA] or b"") for znode in znodes)
