"""The tree at one moment, path by path: what a snapshot said of a znode, then what happened to it, in order.

A transaction touches a path and its parent, so it becomes at most two *events*, and those of one path suffice to replay
it. No tree is needed, and any number of workers may share the paths.

    kind           of                              what it does to the znode
    ZNODE          a row of the snapshot           is there, with this stat
    CHILD          a row of the snapshot           has this child
    CREATE         create*                         is there, new; if it is there already, it gets the ACL
    DELETE         delete*, closeSession           is gone
    SET_DATA       setData, reconfig               data, version, mzxid, mtime
    SET_ACL        setACL                          ACL, aversion
    CLOSE          closeSession without paths      is gone, if it belongs to that session
    CHILD_CREATED  create* below it                children_created, pzxid; one child more
    CHILD_DELETED  delete*, closeSession below it  pzxid; one child less
    CHILD_CLOSED   closeSession without paths      as CHILD_DELETED, if that child belongs to that session

Events come sorted by path, zxid, part and kind. On a znode that is not there only CREATE has an effect. These are the
rules of `datatree.zookeeper.state`, which make a fuzzy snapshot of ZooKeeper exact. Over an exact snapshot, where every
event does what it says, they are those of `datatree.apply`. With `exact`, children are counted. Without it, their names
are remembered, because a fuzzy snapshot may already hold a child whose creation is still to come. Memory holds one list
of children at a time.

Invariants: a znode's row depends on its own events alone. Data of quota sums (`zookeeper_stats`) is empty in the rows:
the sums follow from the znodes, and ZooKeeper writes them without a transaction.

Deliberately not here: how transactions become events (`zab.pipeline.state.frames`), Spark, and sessions.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from datatree.quota import is_stats
from datatree.znode import visible_cversion, wrapped
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.schema import ZNODES, arrow_schema

__all__ = [
    "BASE_COLUMNS",
    "CHILD",
    "CHILD_CLOSED",
    "CHILD_CREATED",
    "CHILD_DELETED",
    "CLOSE",
    "CREATE",
    "DELETE",
    "EVENTS_DDL",
    "SET_ACL",
    "SET_DATA",
    "ZNODE",
    "Replay",
    "replay_batches",
]

# In the order in which they apply where zxid and part are the same: the snapshot's rows have neither.
ZNODE, CHILD, CREATE, DELETE, SET_DATA, SET_ACL, CLOSE, CHILD_CREATED, CHILD_DELETED, CHILD_CLOSED = range(10)

BASE_COLUMNS: Final = (
    "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "children_created", "aversion", "num_children",
)  # fmt: skip
"""What a ZNODE event has beside path, data, ACL and owner, as a struct; null in the others."""

EVENTS_DDL: Final = (
    "path string, zxid bigint, part int, kind int, time timestamp, data binary, number int, acl string, owner bigint, "
    "name string, base struct<czxid bigint, mzxid bigint, pzxid bigint, ctime timestamp, mtime timestamp, version int, "
    "children_created int, aversion int, num_children int>"
)
"""number: the version that the operation says. name: of the child. owner: of the znode or the child; in CLOSE and
CHILD_CLOSED the session. Numbers are 0 and not null where a kind has none."""

ROWS_MAX: Final = 8192
_BYTES_MAX: Final = 16 << 20
_SCHEMA: Final = arrow_schema(ZNODES)
_TIMES: Final = frozenset({"ctime", "mtime"})


@define
class Replay:
    """One znode's life. `path` is whose; everything starts over with the next path. Times are as given."""

    exact: bool
    path: str = ""
    is_there: bool = False
    data: bytes | None = None
    acl: str = ""
    owner: int = 0
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime: int = 0
    mtime: int = 0
    version: int = 0
    children_created: int = 0
    aversion: int = 0
    children_count: int = 0
    children: dict[str, int] = field(factory=dict)
    """Owner by name; empty with `exact`."""

    def begin(self, path: str) -> None:
        """The next path; nothing is known of it."""
        self.path = path
        self.is_there = False
        self.children_count = 0
        self.children.clear()

    def load(self, data: bytes | None, acl: str, owner: int, base: tuple[int, ...]) -> None:
        """The snapshot's row; `base` in the order of BASE_COLUMNS."""
        self.is_there = True
        self.data, self.acl, self.owner = data, acl, owner
        (
            self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
            self.version, self.children_created, self.aversion, count,
        ) = base  # fmt: skip
        self.children_count = count if self.exact else 0

    def apply(
        self, kind: int, zxid: int, time: int, data: bytes | None, number: int, acl: str, owner: int, name: str
    ) -> None:
        """One event that is not ZNODE, by the table above."""
        if kind == CREATE:
            if self.is_there:
                self.acl = acl
            else:
                self.begin(self.path)
                self.load(data, acl, owner, (zxid, zxid, zxid, time, time, 0, 0, 0, 0))
        elif kind == CHILD:
            self.children[name] = owner
        elif not self.is_there:
            return
        elif kind == SET_DATA:
            self.data, self.version, self.mzxid, self.mtime = data, number, zxid, time
        elif kind == CHILD_CREATED:
            self._child_created(zxid, number, owner, name)
        elif kind == CHILD_DELETED:
            self._child_deleted(zxid, name)
        elif kind == SET_ACL:
            self.acl, self.aversion = acl, number
        elif kind == DELETE or (kind == CLOSE and self.owner == owner):
            self.begin(self.path)
        elif kind == CHILD_CLOSED and self.children.get(name) == owner:
            self._child_deleted(zxid, name)

    def _child_created(self, zxid: int, number: int, owner: int, name: str) -> None:
        if self.exact:
            self.children_count += 1
            self.children_created, self.pzxid = number, zxid
            return
        self.children.setdefault(name, owner)
        created = wrapped(self.children_created + 1) if number == -1 else number
        if created > self.children_created:
            self.children_created, self.pzxid = created, zxid

    def _child_deleted(self, zxid: int, name: str) -> None:
        if self.exact:
            self.children_count -= 1
        else:
            self.children.pop(name, None)
        self.pzxid = max(self.pzxid, zxid)

    def row(self) -> tuple[Any, ...]:
        """The znode as it is now: the columns of ZNODES from `path` on."""
        count = self.children_count if self.exact else len(self.children)
        return (
            self.path, b"" if is_stats(self.path.encode()) else self.data, self.czxid, self.mzxid, self.pzxid,
            self.ctime, self.mtime, self.version, visible_cversion(self.children_created, count),
            self.children_created, self.aversion, self.owner, self.acl, count,
        )  # fmt: skip


def replay_batches(batches: Iterable[pa.RecordBatch], label: Label, *, exact: bool) -> Iterator[pa.RecordBatch]:
    """Rows of ZNODES, in the order of the paths, out of batches of sorted events (EVENTS_DDL)."""
    replay = Replay(exact)
    rows = _Rows(label)
    path: str | None = None
    for batch in batches:
        loads = _loads(batch)
        for event_path, kind, zxid, time, data, number, acl, owner, name in _events(batch):
            if event_path != path:
                if path is not None and replay.is_there and rows.add(replay.row()):
                    yield rows.take()
                path = event_path
                replay.begin(event_path)
            if kind == ZNODE:
                replay.load(data, acl, owner, next(loads))
            else:
                replay.apply(kind, zxid, time, data, number, acl, owner, name)
    if path is not None and replay.is_there:
        rows.add(replay.row())
    if rows.count:
        yield rows.take()


def _numbers(column: pa.Array) -> list[int]:
    numbers: list[int] = column.to_numpy(zero_copy_only=False).tolist()
    return numbers


def _events(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    times = batch.column("time").cast(pa.int64()).fill_null(0)
    return zip(
        batch.column("path").to_pylist(),
        _numbers(batch.column("kind")),
        _numbers(batch.column("zxid")),
        _numbers(times),
        batch.column("data").to_pylist(),
        _numbers(batch.column("number")),
        batch.column("acl").to_pylist(),
        _numbers(batch.column("owner")),
        batch.column("name").to_pylist(),
        strict=True,
    )


def _loads(batch: pa.RecordBatch) -> Iterator[tuple[int, ...]]:
    """The structs of the ZNODE events."""
    base = batch.column("base").filter(pc.equal(batch.column("kind"), ZNODE))
    if not len(base):
        return iter(())
    columns = dict(zip((item.name for item in base.type), base.flatten(), strict=True))
    return zip(
        *(_numbers(columns[name].cast(pa.int64()) if name in _TIMES else columns[name]) for name in BASE_COLUMNS),
        strict=True,
    )


class _Rows:
    """Collects rows to a batch of a size that Spark likes."""

    def __init__(self, label: Label) -> None:
        self.count = 0
        self._label = (label.ensemble, label.member, label.snapshot, label.zxid)
        self._held: list[tuple[Any, ...]] = []
        self._bytes = 0

    def add(self, row: tuple[Any, ...]) -> bool:
        """Whether there are enough."""
        self._held.append(row)
        self.count += 1
        self._bytes += len(row[1] or b"")
        return self.count >= ROWS_MAX or self._bytes >= _BYTES_MAX

    def take(self) -> pa.RecordBatch:
        arrays = [
            pa.repeat(pa.scalar(value, kind), self.count)
            for value, kind in zip(self._label, _SCHEMA.types, strict=False)
        ]
        for column, kind in zip(zip(*self._held, strict=True), _SCHEMA.types[len(arrays) :], strict=True):
            arrays.append(_array(column, kind))
        self._held, self.count, self._bytes = [], 0, 0
        return pa.record_batch(arrays, schema=_SCHEMA)


def _array(column: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(np.array(column, np.int64)).cast(kind)
    return pa.array(column, kind)
