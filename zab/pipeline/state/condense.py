"""Reduces a history to fewer rows that lead to the same state: the last write of each kind to each path, in columns.

    condensed(transactions, is_exact=…, is_native=…) -> tables      rows of CHANGES in the order of the history

A row of CHANGES is one change of one path: a create, a delete, a setData or a setACL, also as part of a multi, and each
path that a closeSession lists. `replay` needs only the last row of each kind. So these rows stay:

    of each path      the last create or delete; after it the last setData and the last setACL
    of each parent    the last create below it (its counter), and the last create or delete below it (its pzxid)

A path that the stretch itself created and that does not exist at its end leaves no row of its own, if the state before
the stretch is exact. A fuzzy snapshot of ZooKeeper may hold such a path already, so there the delete stays. Creates
without their parent's counter (ZooKeeper before 3.3.5) all stay, because they are counted.

Invariant: condensing a condensed history with rows after it gives the same as condensing everything at once. Memory:
the transactions of WINDOW_BYTES of the log, and the rows that stay, which are yielded once they are more than HELD_ROWS
or HELD_BYTES.

Deliberately not here: sessions (`sessions`), and what a row does to a znode (`replay`).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from attrs import frozen

from datatree.opcodes import Effect, OpCode, types_with
from datatree.record import Part
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.arrays import Integers, Mask
from zab.pipeline.decoding.coding import coded
from zab.pipeline.decoding.slices import parents
from zab.pipeline.decoding.transactions import Transactions, acls, path_texts, values

__all__ = ["CHANGES", "CREATE", "DELETE", "SET_ACL", "SET_DATA", "condensed", "counted", "last_of"]

CREATE, DELETE, SET_DATA, SET_ACL = range(1, 5)

CHANGES: Final = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("zxid", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("effect", pa.int8()),
        pa.field("number", pa.int32()),
        pa.field("owner", pa.int64()),
        pa.field("acl", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("is_new", pa.bool_()),
    ]
)
"""time: in ms since 1970. number: for a create, its parent's counter; for setData and setACL, the new version. is_new:
for a create or delete, whether the first one of its path in the condensed stretch was a create."""

WINDOW_BYTES: Final = 96 << 20
HELD_ROWS: Final = 1 << 20
HELD_BYTES: Final = 256 << 20

_NO_CHANGE: Final = 0
_WITHOUT_COUNTER: Final = -1
_EFFECTS: Final = np.zeros(256, np.int8)
for _effect, _code in (
    (Effect.CREATE, CREATE),
    (Effect.DELETE, DELETE),
    (Effect.SET_DATA, SET_DATA),
    (Effect.SET_ACL, SET_ACL),
):
    for _type in types_with(_effect):
        _EFFECTS[_type & 0xFF] = _code


class _Rows(Protocol):
    """Changes whose columns are made when they are needed."""

    @property
    def numbers(self) -> "_Numbers": ...

    @property
    def paths(self) -> list[pa.Array]: ...

    def table(self, keep: Mask, is_new: Mask) -> pa.Table:
        """The rows where `keep` is set, with these values of `is_new`."""
        ...


@frozen
class _Numbers:
    """The columns that decide which rows stay, beside their paths."""

    zxid: Integers
    effect: Any
    number: Integers
    is_new: Mask


@frozen
class _Made:
    """Rows of CHANGES."""

    rows: pa.Table

    @property
    def numbers(self) -> _Numbers:
        zxid, effect, number = (self.rows.column(name).to_numpy() for name in ("zxid", "effect", "number"))
        return _Numbers(zxid, effect, number, self.rows.column("is_new").to_numpy())

    @property
    def paths(self) -> list[pa.Array]:
        chunks: list[pa.Array] = self.rows.column("path").chunks
        return chunks

    def table(self, keep: Mask, is_new: Mask) -> pa.Table:
        kept = self.rows.filter(pa.array(keep))
        return kept.set_column(len(CHANGES) - 1, "is_new", pa.array(is_new[keep]))


@frozen
class _Decoded:
    """Transactions, each of which is one change if it has an effect."""

    rows: Transactions
    effect: Any

    @property
    def numbers(self) -> _Numbers:
        return _Numbers(self.rows.zxid, self.effect, self.rows.number, self.effect == CREATE)

    @property
    def paths(self) -> list[pa.Array]:
        # The replay decides which paths have a znode.
        return [path_texts(self.rows)]

    def table(self, keep: Mask, is_new: Mask) -> pa.Table:
        rows, at = self.rows, np.flatnonzero(keep)
        paths = path_texts(rows).take(pa.array(at))
        columns = [paths, rows.zxid[at], rows.time_ms[at], self.effect[at], rows.number[at].astype(np.int32)]
        columns += [rows.owner[at], acls(rows, at), values(rows, at), is_new[at]]
        return pa.table(list(map(pa.array, columns)), schema=CHANGES)


def condensed(transactions: Iterable[Transactions], *, is_exact: bool, is_native: bool) -> Iterator[pa.Table]:
    """Condense a history. is_exact: the state before its first transaction is exact. is_native: the logs are native."""
    held: pa.Table | None = None
    new: list[_Rows] = []
    size = 0
    for rows in transactions:
        new += _changes(rows)
        size += len(rows.data)
        if size >= WINDOW_BYTES:
            held = _condense(held, new, is_exact=is_exact, is_native=is_native)
            new, size = [], 0
            if held.num_rows > HELD_ROWS or held.nbytes > HELD_BYTES:
                yield held
                held = None
    if new:
        held = _condense(held, new, is_exact=is_exact, is_native=is_native)
    if held is not None and held.num_rows:
        yield held


def _changes(rows: Transactions) -> Iterator[_Rows]:
    """Yield the changes that these transactions are, and those that some of them contain."""
    yield _Decoded(rows, _EFFECTS[rows.type & 0xFF])
    found: list[tuple[Any, ...]] = []
    for row, parts in rows.multis.items():
        found += _of_multi(int(rows.zxid[row]), int(rows.time_ms[row]), parts)
    for row, paths in rows.closed.items():
        zxid, time = int(rows.zxid[row]), int(rows.time_ms[row])
        found += ((path, zxid, time, DELETE, 0, 0, None, None, False) for path in paths or ())
    if found:
        # Sorted by zxid; the changes of one transaction stay in their order.
        found.sort(key=lambda change: change[1])
        columns = zip(zip(*found, strict=True), CHANGES.types, strict=True)
        yield _Made(pa.table([pa.array(column, kind) for column, kind in columns], schema=CHANGES))


def _of_multi(zxid: int, time: int, parts: Sequence[Part]) -> Iterator[tuple[Any, ...]]:
    """Yield the changes of a multi; none if it was refused."""
    if any(kind == OpCode.ERROR for kind, *_ in parts):
        return
    for kind, number, path, data, rest in parts:
        effect = int(_EFFECTS[kind & 0xFF])
        if effect != _NO_CHANGE:
            acl = acl_text(rest[0]) if effect in (CREATE, SET_ACL) else None
            owner = rest[1] if effect == CREATE else 0
            yield path.decode(), zxid, time, effect, number, owner, acl, data, effect == CREATE


def _condense(held: pa.Table | None, new: list[_Rows], *, is_exact: bool, is_native: bool) -> pa.Table:
    pieces: list[_Rows] = [_Made(held), *new] if held is not None else new
    numbers = [piece.numbers for piece in pieces]
    zxid, effect, number, is_new = (
        np.concatenate([getattr(one, name) for one in numbers]) for name in ("zxid", "effect", "number", "is_new")
    )
    path, parent = _coded([chunk for piece in pieces for chunk in piece.paths])
    # Changes contained in transactions come after those that are transactions, so they have to be sorted in.
    is_sorted = len(pieces) == len(new) == 1 or bool((np.diff(zxid) >= 0).all())
    order = None if is_sorted else np.argsort(zxid, kind="stable")
    rows = (
        _Sorted(path, parent, effect, number, is_new)
        if order is None
        else _Sorted(path[order], parent[order], effect[order], number[order], is_new[order])
    )
    keep, is_new = rows.kept(is_exact=is_exact, is_native=is_native)
    if order is not None:
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        keep, is_new = keep[back], is_new[back]
    bounds = np.cumsum([0, *(len(one.zxid) for one in numbers)]).tolist()
    tables = [
        piece.table(keep[begin:end], is_new[begin:end])
        for piece, begin, end in zip(pieces, bounds, bounds[1:], strict=False)
    ]
    result = pa.concat_tables(tables).combine_chunks()
    return result if order is None else result.take(pa.array(np.argsort(zxid[keep], kind="stable")))


def _coded(paths: list[pa.Array]) -> tuple[Integers, Integers]:
    """The path of each row as a number, and its parent's path as a number of its own kind."""
    path, texts = coded(paths)
    above = parents(texts).dictionary_encode().indices.to_numpy().astype(np.int64)
    return path, above[path] if len(above) else path


def last_of(groups: Integers, chosen: Mask, count: int) -> Integers:
    """For each of `count` groups, the index of its last chosen member; -1 without any."""
    last = np.full(count, -1, np.int64)
    # If an index occurs more than once, numpy assigns the last value.
    last[groups[chosen]] = np.flatnonzero(chosen)
    return last


def counted(effect: Any, number: Integers, *, is_native: bool) -> tuple[Mask, Mask]:
    """Which rows are creates with their parent's counter, and which are creates without it.

    In ZooKeeper the counter stays as it is after 2**31 - 1: the number of a create is negative then, and does not
    change its parent."""
    is_create: Mask = effect == CREATE
    if is_native:
        return is_create, np.zeros(len(effect), np.bool_)
    return is_create & (number >= 0), is_create & (number == _WITHOUT_COUNTER)


@frozen
class _Sorted:
    """Rows in the order of the history."""

    path: Integers
    parent: Integers
    effect: Any
    number: Integers
    is_new: Mask

    def kept(self, *, is_exact: bool, is_native: bool) -> tuple[Mask, Mask]:
        """Which rows stay, and their values of `is_new`."""
        count = int(self.path.max(initial=-1)) + 1
        is_delete: Mask = self.effect == DELETE
        is_turn = is_delete | (self.effect == CREATE)
        turn = last_of(self.path, is_turn, count)
        keep = np.zeros(len(self.path), np.bool_)
        for effect in (SET_DATA, SET_ACL):
            last = last_of(self.path, self.effect == effect, count)
            keep[last[last > turn]] = True
        counts, without = counted(self.effect, self.number, is_native=is_native)
        keep |= without
        above = int(self.parent.max(initial=-1)) + 1
        for chosen in (counts, counts | is_delete):
            last = last_of(self.parent, chosen, above)
            keep[last[last >= 0]] = True
        turns = np.flatnonzero(is_turn)
        began_new = np.zeros(count, np.bool_)
        # In reverse, so that the first one is assigned last.
        began_new[self.path[turns[::-1]]] = self.is_new[turns[::-1]]
        needed = turn[turn >= 0]
        if is_exact:
            is_told = np.zeros(count, np.bool_)
            is_told[self.path[keep]] = True
            paths = self.path[needed]
            needed = needed[~(is_delete[needed] & began_new[paths]) | is_told[paths]]
        keep[needed] = True
        return keep, began_new[self.path] & is_turn
