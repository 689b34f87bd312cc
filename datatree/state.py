"""The contents of a tree: its znodes and sessions, and what is derived from them.

State, the same on every member at the same zxid:
- `shards`: path -> znode in 4096 dicts, chosen by CRC-32 of the path, so that a snapshot copies a little at a time, and
  no dict gets large;
- `large`: path -> data, for znodes with much data (`datatree.znode`);
- `sessions`: id -> timeout in ms of every global session;
- `applied`: the zxid of the last transaction applied.

Derived from the znodes, and rebuilt when a snapshot is loaded: `children` (parent -> paths, only for parents that have
some), `ephemerals` (session -> paths), `nearing` (parent -> children ever created, where they are many), `containers`,
`ttls`, `quotas`, `acls`, the digest and the counts.

Besides the state, it has `past_acls`, the lists that used to guard paths, as far as this tree has seen that.

`told` are virtual znodes, which a member shows and no tree has.

Two kinds of znodes show data that is not stored: the zookeeper_stats of a quota its sums, and /zookeeper/config, until
the first reconfiguration, the text that the server sets as `config`. Snapshots and the digest contain neither.

A million znodes must cost the garbage collector nothing. It does not track dicts of atoms, so a znode is an atom, and
the children are dicts without values instead of sets; their keys are the same objects as those of `shards`, which saves
48 bytes a znode. Very many children are a `Crowd` of such dicts.

Deliberately not here: the operations that change it (`datatree.apply`), and how a tree begins, is loaded, checked and
copied (`datatree.tree`).
"""

from typing import Final
from zlib import crc32

from datatree.acl import OPEN, AclTable
from datatree.crowd import PAGED_COUNT, Children, Crowd
from datatree.cursor import SnapshotCursor
from datatree.past_acls import PastAcls
from datatree.path_map import PathMap
from datatree.paths import CONFIG, ROOT
from datatree.quota import Limits, Quota, is_limits, quota_path
from datatree.quota_sums import QuotaSums
from datatree.record import AclList
from datatree.znode import (
    CHILDREN_AT,
    CONTAINER_OWNER,
    DATA_AT,
    HEAD_AND_STAT,
    HERE,
    INT,
    INT_MAX,
    KIND_AT,
    LENGTH_AT,
    STAT_AT,
    STAT_LAYOUT,
    Znode,
    acl_id_of,
    data_of,
    is_ephemeral,
)

__all__ = ["SHARD_COUNT", "TreeState"]

SHARD_COUNT: Final = 4096
NEARING_COUNT: Final = 1 << 20
"""A parent with this many children ever created is one whose sequence numbers are watched."""

NO_CHILDREN: Final[Children] = {}


class TreeState:
    """The state of a tree. A new one is bare: it does not even have the reserved znodes."""

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
        "large",
        "nearing",
        "past_acls",
        "path_bytes",
        "quota_sums",
        "quotas",
        "rendered",
        "sessions",
        "shards",
        "told",
        "ttls",
        "znode_count",
    )

    def __init__(self) -> None:
        self.shards: list[dict[bytes, Znode]] = [{} for _ in range(SHARD_COUNT)]
        self.large: dict[bytes, bytes] = {}
        self.sessions: dict[int, int] = {}
        self.applied = 0
        self.children: dict[bytes, Children] = {}
        self.ephemerals: dict[int, dict[bytes, None]] = {}
        self.containers: set[bytes] = set()
        self.ttls: set[bytes] = set()
        self.quotas: PathMap[Quota] = PathMap()
        self.quota_sums = QuotaSums(self.shards)
        self.nearing: dict[bytes, int] = {}
        self.rendered: dict[bytes, Quota | None] = {CONFIG: None}
        self.told: dict[bytes, Znode] = {}
        self.acls = AclTable()
        self.past_acls = PastAcls(0)
        self.config = b""
        self.digest = 0
        self.znode_count = 0
        self.data_bytes = 0
        self.path_bytes = 0
        self.cursor: SnapshotCursor | None = None

    # Reading.

    def get(self, path: bytes) -> Znode | None:
        """The znode at `path` as a reader sees it, or None."""
        znode = self.shards[crc32(path) & 4095].get(path)
        if path in self.rendered:
            if path in self.told:
                return self.told[path]
            if znode is not None:
                return self._render(path, znode)
        return znode

    def tell(self, path: bytes, data: bytes, children_count: int = 0) -> None:
        """Show readers a virtual znode, which hides a real one at that path."""
        stat = STAT_LAYOUT.pack(0, 0, 0, 0, 0, 0, 0, 0, len(data), children_count, 0)
        self.told[path] = HEAD_AND_STAT.pack(OPEN, 0, 0, 0, HERE, stat) + data
        self.rendered[path] = None

    def _render(self, path: bytes, znode: Znode) -> Znode:
        quota = self.rendered[path]
        data = quota.text() if quota is not None else self.data_of(path, znode) or self.config
        return b"".join(
            (
                znode[:KIND_AT],
                bytes((HERE,)),
                znode[STAT_AT : STAT_AT + LENGTH_AT],
                INT.pack(len(data)),
                znode[STAT_AT + CHILDREN_AT : DATA_AT],
                data,
            )
        )

    @property
    def configuration(self) -> bytes:
        """The version of the ensemble's configuration, from the newest reconfiguration; empty before the first."""
        znode = self.shards[crc32(CONFIG) & 4095].get(CONFIG)
        return (znode is not None and self.data_of(CONFIG, znode)) or b""

    def data_of(self, path: bytes, znode: Znode) -> bytes | None:
        """The data of `znode`, which is at `path`; None if it has none."""
        return data_of(path, znode, self.large)

    def acl(self, znode: Znode) -> AclList:
        """The list that guards `znode`; None for the open one."""
        return self.acls.lists[acl_id_of(znode)]

    def child_names(self, path: bytes) -> list[bytes]:
        """The names of the children of `path`, in no particular order."""
        start = 1 if path == ROOT else len(path) + 1
        return [child[start:] for child in self.children.get(path, NO_CHILDREN)]

    def paged_children(self, path: bytes) -> Children:
        """The children of `path`, in a form that can be paged (`datatree.crowd`)."""
        below = self.children.get(path, NO_CHILDREN)
        if len(below) >= PAGED_COUNT and not isinstance(below, Crowd):
            below = self.children[path] = Crowd(below)
        return below

    def descendants(self, path: bytes) -> list[bytes]:
        """The paths of all znodes below `path`."""
        found: list[bytes] = []
        pending = [path]
        while pending:
            below = self.children.get(pending.pop(), NO_CHILDREN)
            found += below
            pending += below
        return found

    def descendant_count(self, path: bytes) -> int:
        """How many znodes are below `path`."""
        return self.znode_count - 1 if path == ROOT else len(self.descendants(path))

    @property
    def sequence_numbers_left(self) -> int:
        """How many children can still be created below the parent that is closest to the end of the 32-bit sequence
        numbers; 0 if one is beyond it. Parents with few created children count as `NEARING_COUNT`."""
        if not self.nearing:
            return INT_MAX + 1 - NEARING_COUNT
        return max(0, INT_MAX + 1 - max(count & 0xFFFFFFFF for count in self.nearing.values()))

    # What the operations keep up to date.

    def own(self, path: bytes, owner: int) -> None:
        """The znode at `path` was created, with this stored owner."""
        if is_ephemeral(owner):
            self.ephemerals.setdefault(owner, {})[path] = None
        elif owner == CONTAINER_OWNER:
            self.containers.add(path)
        else:
            self.ttls.add(path)

    def disown(self, path: bytes, owner: int) -> None:
        """The znode at `path`, with this stored owner, was deleted."""
        if is_ephemeral(owner):
            paths = self.ephemerals[owner]
            del paths[path]
            if not paths:
                del self.ephemerals[owner]
        elif owner == CONTAINER_OWNER:
            self.containers.remove(path)
        else:
            self.ttls.remove(path)

    def track_quota(self, path: bytes) -> None:
        """The limits or stats znode `path` exists, or its text has changed."""
        target = quota_path(path)
        quota = self.quotas.get(target)
        if quota is None:
            quota = self.quotas[target] = Quota(target)
            self.quota_sums.add(quota)
        if is_limits(path):
            quota.limits = Limits.parse(self.data_of(path, self.shards[crc32(path) & 4095][path]) or b"")
        else:
            quota.shown = True
            self.rendered[path] = quota

    def untrack_quota(self, path: bytes) -> None:
        """The limits or stats znode `path` was deleted."""
        quota = self.quotas[quota_path(path)]
        if is_limits(path):
            quota.limits = None
        else:
            quota.shown = False
            del self.rendered[path]
        if quota.limits is None and not quota.shown:
            del self.quotas[quota.path]
            self.quota_sums.drop(quota)
