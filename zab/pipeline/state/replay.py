"""Computes the tree at one moment, in columns, from a snapshot and the changes after it.

    replayed(base, changes, label, …) -> batches        rows of ZNODES by rising path

base are the rows of a snapshot (or `first_znodes`), changes the condensed history after it (`condense`). No change is
applied one by one: the last row of each kind decides a part of each znode.

    part                                comes from
    is there; czxid, ctime, owner       the last create or delete, else the base
    data, version, mzxid, mtime         the last create or setData, else the base
    acl, aversion                       the last create or setACL, else the base
    children_created                    the last create below it that is later than its own, else 0 or the base
    pzxid                               the last create or delete below it, as above
    num_children                        the paths below it that are there

Over an exact snapshot the result is the same as with `datatree.apply`. A snapshot of ZooKeeper is fuzzy: it may have
effects of transactions that the changes contain, too. Everything that such a transaction sets, its row sets again. So
the last row is still right, if the changes reach as far as the effects in the snapshot. If a closeSession does not list
what it deleted (ZooKeeper before 3.6), it deletes all that belongs to its session at the end.

Invariants: a znode's row depends only on the rows of its own path and of the paths one level below. So paths can be
partitioned: `split` gives each partition the rows of its paths and those directly below them. The data of quota sums
(`zookeeper_stats`) is empty in the rows: the sums follow from the znodes, and ZooKeeper writes them without a
transaction.

Deliberately not here: sessions, and which snapshot and which stretch of the logs (`moment`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define

from datatree.paths import CONFIG
from datatree.znode import is_ephemeral
from datatree.zookeeper.state import ZooKeeperState
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.arrays import Integers, Mask
from zab.pipeline.decoding.coding import coded
from zab.pipeline.decoding.slices import parents, timestamps
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.schema import ZNODES, arrow_schema
from zab.pipeline.state.condense import CREATE, DELETE, SET_ACL, SET_DATA, counted, last_of
from zab.pipeline.state.znode_rows import without_sums

__all__ = ["BASE", "first_znodes", "replayed", "split"]

_NAMES: Final = (
    "path", "data", "acl", "owner", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "children_created",
    "aversion",
)  # fmt: skip
BASE: Final = arrow_schema(column for name in _NAMES for column in ZNODES if column.name == name)
"""The columns that a replay needs of a snapshot."""

ROWS_MAX: Final = 8192
BYTES_MAX: Final = 16 << 20
_ZNODE: Final = 0
_COUNTER_MAX: Final = (1 << 31) - 1
_US_PER_MS: Final = 1000
_SCHEMA: Final = arrow_schema(ZNODES)


def first_znodes(*, is_native: bool) -> pa.Table:
    """The znodes of a new ensemble, as BASE."""
    rows = []
    for path, znode in sorted(ZooKeeperState.empty().znodes.items()):
        # The configuration of a native member has version -1 until a reconfiguration.
        version = -1 if path == CONFIG and is_native else znode.version
        rows.append((path.decode(), b"", acl_text(znode.acl), 0, 0, 0, 0, 0, 0, version, 0, znode.aversion))
    columns = zip(zip(*rows, strict=True), BASE.types, strict=True)
    return pa.table([pa.array(column, kind) for column, kind in columns], schema=BASE)


def split(rows: pa.Table, count: int) -> Iterator[pa.Table]:
    """For each of `count` partitions, the rows of its paths, and those directly below them without their data."""
    if count == 1:
        yield rows
        return
    paths = rows.column("path").combine_chunks()
    own = _places(paths.to_pylist(), count)
    above = _places((above or b"/" for above in parents(paths).to_pylist()), count)
    for place in range(count):
        keep = (own == place) | (above == place)
        found = rows.filter(pa.array(keep))
        data = pc.if_else(pa.array(own[keep] == place), found.column("data"), pa.scalar(None, pa.binary()))
        yield found.set_column(rows.schema.get_field_index("data"), rows.schema.field("data"), data)


def _places(paths: Any, count: int) -> Integers:
    codes = (crc32(path if isinstance(path, bytes) else path.encode()) % count for path in paths)
    return np.fromiter(codes, np.int64)


def replayed(
    base: pa.Table,
    changes: Sequence[pa.Table],
    label: Label,
    *,
    is_native: bool,
    closed: Mapping[int, int] | None = None,
    place: tuple[int, int] = (0, 1),
) -> Iterator[pa.RecordBatch]:
    """Rows of ZNODES by rising path, at most ROWS_MAX or about BYTES_MAX at a time.

    base: rows of BASE. changes: of CHANGES, in the order of the history. closed: by session, the zxid of a closeSession
    without a list. place: (number, count) of a partition that `split` made."""
    tree = _Tree.of([base.select(BASE.names), *changes], base.num_rows, is_native=is_native)
    yield from tree.rows(label, closed or {}, place)


@define(eq=False)
class _Tree:
    """The rows of the base and of the changes after it, in this order. `path` and `above` are indexes into `paths`; an
    unknown parent is -1."""

    tables: Sequence[pa.Table]
    base_count: int
    is_native: bool
    paths: pa.Array
    above: Integers
    """The parent of each path."""
    path: Integers
    effect: Any
    number: Integers

    @classmethod
    def of(cls, tables: Sequence[pa.Table], base_count: int, *, is_native: bool) -> "_Tree":
        path, paths = coded([chunk for table in tables for chunk in table.column("path").chunks])
        over = parents(paths).cast(pa.string())
        over = pc.if_else(pc.equal(over, ""), pa.scalar("/"), over)
        above = pc.index_in(over, value_set=paths).fill_null(-1).to_numpy().astype(np.int64)
        # The root is nobody's child.
        above[pc.equal(paths, "/").to_numpy(zero_copy_only=False)] = -1
        tree = cls(tables, base_count, is_native, paths, above, path, None, path)
        tree.effect, tree.number = tree._column(None, "effect"), tree._column("version", "number")
        return tree

    def _column(self, of_base: str | None, of_changes: str | None) -> Any:
        """A column of the base, then of the changes; 0 where the name is None."""
        columns = [np.zeros(self.base_count, np.int64) if of_base is None else _numbers(self.tables[0].column(of_base))]
        for table in self.tables[1:]:
            name = of_changes
            columns.append(np.zeros(table.num_rows, np.int64) if name is None else _numbers(table.column(name)))
        return np.concatenate(columns)

    def _last(self, *effects: int) -> Integers:
        return last_of(self.path, np.isin(self.effect, effects), len(self.paths))

    def rows(self, label: Label, closed: Mapping[int, int], place: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ZNODES (`replayed`)."""
        turn = self._last(_ZNODE, CREATE, DELETE)
        is_there = turn >= 0
        is_there[is_there] = self.effect[turn[is_there]] != DELETE
        closing = self._closing(turn, is_there, closed)
        is_there &= closing == 0
        below = self.above >= 0
        counts = np.bincount(self.above[below & is_there], minlength=len(self.paths))
        created, changed = self._children(turn)
        gone = below & (closing > 0)
        np.maximum.at(changed, self.above[gone], closing[gone])
        shown = np.flatnonzero(is_there)
        if place[1] > 1:
            shown = shown[_places(self.paths.take(pa.array(shown)).to_pylist(), place[1]) == place[0]]
        shown = shown[pc.sort_indices(self.paths.take(pa.array(shown))).to_numpy()]
        last_data, last_acl = self._last(_ZNODE, CREATE, SET_DATA), self._last(_ZNODE, CREATE, SET_ACL)
        yield from self._batches(label, shown, turn, last_data, last_acl, created, changed, counts)

    def _closing(self, turn: Integers, is_there: Mask, closed: Mapping[int, int]) -> Integers:
        """By path, the zxid of the closeSession that deleted it; 0 for none."""
        found = np.zeros(len(turn), np.int64)
        if closed:
            owners, zxids = self._column("owner", "owner"), self._column("czxid", "zxid")
            there = np.flatnonzero(is_there)
            of_closed = there[np.isin(owners[turn[there]], list(closed))]
            for path, row in zip(of_closed.tolist(), turn[of_closed].tolist(), strict=True):
                owner, zxid = int(owners[row]), closed[int(owners[row])]
                if is_ephemeral(owner) and zxid > zxids[row]:
                    found[path] = zxid
        return found

    def _children(self, turn: Integers) -> tuple[Integers, Integers]:
        """By path: children_created and pzxid after the changes of its children."""
        count, over = len(self.paths), self.above[self.path]
        counts, without = counted(self.effect, self.number, is_native=self.is_native)
        is_below = (over >= 0) & (np.arange(len(over)) >= self.base_count)
        last = last_of(over, is_below & counts, count)
        own = self._column("children_created", None)
        created = np.where(turn >= 0, own[turn], 0)
        is_later = last > turn
        created[is_later] = self.number[last[is_later]]
        changing = counts | (self.effect == DELETE)
        if without.any():
            changing |= self._count_up(created, np.flatnonzero(without & is_below), np.maximum(turn, last), over)
        last = last_of(over, is_below & changing, count)
        zxids = self._column("pzxid", "zxid")
        changed = np.where(turn >= 0, zxids[turn], 0)
        is_later = last > turn
        changed[is_later] = np.maximum(changed[is_later], zxids[last[is_later]])
        return created, changed

    def _count_up(self, created: Integers, rows: Integers, since: Integers, over: Integers) -> Mask:
        """Count creates without their parent's counter, up to its largest value; return which of them count."""
        rows = rows[rows > since[over[rows]]]
        rows = rows[np.argsort(over[rows], kind="stable")]
        parent = over[rows]
        begins = np.flatnonzero(np.diff(parent, prepend=-2))
        rank = np.arange(len(rows)) - np.repeat(begins, np.diff(begins, append=len(rows))) + 1
        fits = created[parent] + rank <= _COUNTER_MAX
        np.add.at(created, parent[fits], 1)
        counts = np.zeros(len(over), np.bool_)
        counts[rows[fits]] = True
        return counts

    def _batches(
        self, label: Label, shown: Integers, turn: Integers, last_data: Integers, last_acl: Integers,
        created: Integers, changed: Integers, counts: Integers,
    ) -> Iterator[pa.RecordBatch]:  # fmt: skip
        is_create = self.effect == CREATE
        own_version = np.where(is_create, 0, self.number)
        own_aversion = np.where(is_create, 0, self._column("aversion", "number"))
        zxids = {name: self._column(name, "zxid") for name in ("czxid", "mzxid")}
        times = {name: self._column(name, "time") for name in ("ctime", "mtime")}
        owners = self._column("owner", "owner")
        data, acls = ([c for table in self.tables for c in table.column(name).chunks] for name in ("data", "acl"))
        sizes = np.concatenate([np.empty(0, np.int64), *(_numbers(pc.binary_length(chunk)) for chunk in data)])
        for at in _cut(shown, sizes[last_data[shown]]):
            made, set_at, acl_at, created_at, count = turn[at], last_data[at], last_acl[at], created[at], counts[at]
            paths = self.paths.take(pa.array(at))
            columns = {
                "path": paths,
                "data": without_sums(paths, _gather(data, set_at)),
                "czxid": zxids["czxid"][made],
                "mzxid": zxids["mzxid"][set_at],
                "pzxid": changed[at],
                "ctime": timestamps(times["ctime"][made]),
                "mtime": timestamps(times["mtime"][set_at]),
                "version": own_version[set_at],
                "cversion": _wrapped(2 * created_at - count),
                "children_created": created_at,
                "aversion": own_aversion[acl_at],
                "owner": owners[made],
                "acl": _gather(acls, acl_at),
                "num_children": count,
            }
            yield _batch(label, columns, len(at))


def _numbers(column: Any) -> Any:
    """A column as numpy integers; times in ms."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64()).to_numpy() // _US_PER_MS
    return column.fill_null(0).to_numpy().astype(np.int64)


def _wrapped(values: Integers) -> Integers:
    """Wrap to 32 bits, as `datatree.znode.wrapped` does."""
    return values.astype(np.int32).astype(np.int64)


def _cut(shown: Integers, sizes: Integers) -> list[Integers]:
    """Cut the paths where there are enough for a batch."""
    group = np.arange(len(shown)) // ROWS_MAX + (np.cumsum(sizes) // BYTES_MAX)
    return [part for part in np.split(shown, np.flatnonzero(np.diff(group)) + 1) if len(part)]


def _gather(chunks: Sequence[pa.Array], at: Integers) -> pa.Array:
    """The values at these indexes of all chunks together, which may be more than one array can hold."""
    ends = np.cumsum([len(chunk) for chunk in chunks])
    which = np.searchsorted(ends, at, "right")
    order = np.argsort(which, kind="stable")
    found = []
    for number in np.unique(which).tolist():
        local = at[which == number] - (ends[number] - len(chunks[number]))
        found.append(chunks[number].take(pa.array(local)))
    if len(found) == 1:
        return found[0]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(found).take(pa.array(back))


def _batch(label: Label, columns: dict[str, Any], count: int) -> pa.RecordBatch:
    arrays = []
    for name, kind in zip(_SCHEMA.names, _SCHEMA.types, strict=True):
        value = columns.get(name)
        if value is None:
            arrays.append(pa.repeat(pa.scalar(getattr(label, name), kind), count))
        else:
            arrays.append(value if isinstance(value, pa.Array) else pa.array(value).cast(kind))
    return pa.record_batch(arrays, schema=_SCHEMA)
