"""Fewer rows of a log that lead to the same state: last write per path, in columns and not row by row.

    condensed(batches, exact=…) -> batches      rows of COLUMNS in the order of the history, without those that others
                                                undo; exact: they are to be applied over a state that is exact

A row has no effect on the state after it, whatever that began with, when it is

    setData, setACL             before another one of the same path, or before the path's last delete
    create, delete              of a path that was made and deleted again, in pairs, up to its last delete
    error, check                any

Of the pairs, two kinds stay because of what they say of the parent: the last create below it (its counter of children)
and the last change of its children at all (its pzxid). Over a snapshot of ZooKeeper that is not exact, each path's last
delete stays as well: what the rows make may be there before they do. A closeSession keeps those of its paths whose
delete stays. The others leave the count of children as it is, since creates and deletes of a path take turns. Where
that cannot be relied on, creates and deletes all stay: a closeSession without its list, a create without its parent's
counter (both of old ZooKeepers), a path that is made or deleted twice in a row.

Invariants: condensing what is condensed already, with rows after it, is the same as condensing all at once. Memory:
WINDOW_ROWS and what they leave, which is given away once it is more than HELD_ROWS or HELD_BYTES.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from datatree.opcodes import Effect, OpCode, types_with
from zab.pipeline.decoding.arrays import Integers, Mask
from zab.pipeline.decoding.slices import parents

__all__ = ["COLUMNS", "condensed"]

COLUMNS: Final = (
    "zxid", "time", "session", "type", "operation", "part", "path", "data", "version", "acl", "owner", "timeout",
    "paths",
)  # fmt: skip
"""What a state needs of a log."""

WINDOW_ROWS: Final = 1 << 19
HELD_ROWS: Final = 1 << 20
HELD_BYTES: Final = 256 << 20

_CREATES: Final = sorted(types_with(Effect.CREATE))
_DELETES: Final = sorted(types_with(Effect.DELETE))
_SETS: Final = sorted(types_with(Effect.SET_DATA))
_ACLS: Final = sorted(types_with(Effect.SET_ACL))
_WITHOUT_COUNTER: Final = -1

Batches: TypeAlias = Iterable[pa.RecordBatch]


def condensed(batches: Batches, *, exact: bool) -> Iterator[pa.RecordBatch]:
    """See the module."""
    held: pa.Table | None = None
    new: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        new.append(batch)
        rows += batch.num_rows
        if rows >= WINDOW_ROWS:
            held = _joined(held, new, exact=exact)
            new, rows = [], 0
            if held.num_rows > HELD_ROWS or held.nbytes > HELD_BYTES:
                yield from held.to_batches()
                held = None
    if new:
        held = _joined(held, new, exact=exact)
    if held is not None:
        yield from held.to_batches()


def _joined(held: pa.Table | None, new: list[pa.RecordBatch], *, exact: bool) -> pa.Table:
    added = pa.Table.from_batches(new)
    return _condense(added if held is None else pa.concat_tables([held, added]), exact=exact)


@frozen
class _Changes:
    """The changes of znodes that rows say, in order: the row of each, its path as a number, and its parent's; and its
    type. `from_list`: it is a delete out of the list of a closeSession."""

    row: Integers
    path: Integers
    parent: Integers
    kind: Integers
    from_list: Mask

    def of(self, types: list[int]) -> Mask:
        found: Mask = np.isin(self.kind, types)
        return found


def _condense(rows: pa.Table, *, exact: bool) -> pa.Table:
    rows = rows.combine_chunks()
    types: Integers = rows.column("type").to_numpy()
    is_close = types == OpCode.CLOSE_SESSION
    changes = _changes(rows, types, is_close)
    stays = np.ones(len(changes.row), np.bool_)
    is_delete = changes.of(_DELETES)
    last_delete = _last(changes.path, is_delete)
    places = np.arange(len(changes.row))
    for kinds in (_SETS, _ACLS):
        chosen = changes.of(kinds)
        last = np.maximum(_last(changes.path, chosen), last_delete)
        stays[chosen] = places[chosen] == last[changes.path[chosen]]
    if _takes_turns(rows, types, is_close):
        _drop_pairs(changes, is_delete, stays, exact=exact)
    keeps = (types == OpCode.CREATE_SESSION) | is_close
    own = ~changes.from_list
    keeps[changes.row[own]] = stays[own]
    if changes.from_list.any():
        rows = _with_lists(rows, is_close, stays, changes)
    return rows.filter(pa.array(keeps))


def _changes(rows: pa.Table, types: Integers, is_close: Mask) -> _Changes:
    own = np.flatnonzero(np.isin(types, [*_CREATES, *_DELETES, *_SETS, *_ACLS]))
    paths = rows.column("path").combine_chunks().take(pa.array(own))
    row, kind, from_list = own, types[own], np.zeros(len(own), np.bool_)
    closes = np.flatnonzero(is_close)
    lists = rows.column("paths").combine_chunks().take(pa.array(closes))
    listed = lists.flatten()
    if len(listed):
        counts = lists.value_lengths().fill_null(0).to_numpy()
        of_lists = np.repeat(closes, counts)
        row = np.concatenate((own, of_lists))
        kind = np.concatenate((kind, np.full(len(of_lists), OpCode.DELETE, kind.dtype)))
        from_list = np.concatenate((from_list, np.ones(len(of_lists), np.bool_)))
        order = np.argsort(row, kind="stable")
        paths = pa.concat_arrays([paths, listed]).take(pa.array(order))
        row, kind, from_list = row[order], kind[order], from_list[order]
    coded = paths.dictionary_encode()
    above = parents(coded.dictionary).dictionary_encode().indices.to_numpy()
    path: Integers = coded.indices.to_numpy()
    return _Changes(row, path, above[path], kind, from_list)


def _last(groups: Integers, chosen: Mask) -> Integers:
    """For each group, the place of the last of its members that are chosen; -1 without any."""
    last = np.full(int(groups.max(initial=-1)) + 1, -1, np.int64)
    # Where an index comes more than once, the last value is assigned.
    last[groups[chosen]] = np.flatnonzero(chosen)
    return last


def _takes_turns(rows: pa.Table, types: Integers, is_close: Mask) -> bool:
    """Whether the rows list every delete, and every create says its parent's counter."""
    lists_all = not pc.any(pc.is_null(rows.column("paths").filter(pa.array(is_close)))).as_py()
    versions = rows.column("version").filter(pa.array(np.isin(types, _CREATES)))
    return lists_all and not pc.any(pc.equal(versions, _WITHOUT_COUNTER)).as_py()


def _drop_pairs(changes: _Changes, is_delete: Mask, stays: Mask, *, exact: bool) -> None:
    """Clear `stays` of the creates and deletes that undo each other."""
    is_turn = is_delete | changes.of(_CREATES)
    turns = np.flatnonzero(is_turn)
    if not len(turns):
        return
    turns = turns[np.argsort(changes.path[turns], kind="stable")]
    path, deletes = changes.path[turns], is_delete[turns]
    begins = np.flatnonzero(np.diff(path, prepend=-1))
    counts = np.diff(begins, append=len(turns))
    number = np.arange(len(turns)) - np.repeat(begins, counts)
    # Of each path: the place of its last delete among its turns, and whether they are turns.
    last = np.maximum.reduceat(np.where(deletes, number, -1), begins)
    is_repeated = (number > 0) & (deletes == np.roll(deletes, 1))
    irregular = np.logical_or.reduceat(is_repeated, begins)
    needed_create = np.zeros(len(changes.row), np.bool_)
    last_creates = _last(changes.parent, is_turn & ~is_delete)
    needed_create[last_creates[last_creates >= 0]] = True
    needed = needed_create.copy()
    last_turns = _last(changes.parent, is_turn)
    needed[last_turns[last_turns >= 0]] = True
    there = begins + np.maximum(last, 0)
    before = np.maximum(there - 1, 0)
    # Turns that begin with a create end with their delete as they began: without the znode. Else that delete stays.
    is_odd = last % 2 == 1
    pair_needed = needed[turns[there]] | needed_create[turns[before]]
    from_odd = np.where(pair_needed | (not exact), last - 1, last + 1)
    from_even = np.where(needed_create[turns[before]] & (last > 0), last - 2, last)
    begin = np.where((last < 0) | irregular, 0, np.where(is_odd, from_odd, from_even))
    stays[turns] = number >= np.repeat(begin, counts)


def _with_lists(rows: pa.Table, is_close: Mask, stays: Mask, changes: _Changes) -> pa.Table:
    """The rows with the paths of closeSessions whose deletes stay."""
    paths: Any = rows.column("paths").combine_chunks()
    kept = stays[changes.from_list]
    counts = np.zeros(len(is_close) + 1, np.int32)
    np.add.at(counts, changes.row[changes.from_list][kept] + 1, 1)
    listed = paths.take(pa.array(np.flatnonzero(is_close))).flatten().filter(pa.array(kept))
    is_known = pa.py_buffer(np.packbits(paths.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    offsets = pa.py_buffer(np.cumsum(counts, dtype=np.int32))
    made = pa.Array.from_buffers(paths.type, len(paths), [is_known, offsets], children=[listed])
    return rows.set_column(rows.schema.get_field_index("paths"), rows.schema.field("paths"), made)
