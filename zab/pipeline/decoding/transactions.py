"""Transactions in columns, from either kind of log, and their rows of `schema.LOG`.

A decoder (`native_rows`, `version2_rows`) says where in a buffer the fields of n transactions are; here they become
record batches with any choice of columns. Only the requested columns are made. A multi becomes one row for each of its
parts (`multi`).

    kind of array   content
    Integers        one value for each transaction
    slice           (starts, ends) in the buffer, for each transaction
    codes           for each transaction, an index into a short list of distinct values; 0 is null

Invariants: rows are in the order of the log; all parts of a multi are in the same record batch. Nothing is checked
here: the decoders have done it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from attrs import define, field, frozen

from datatree.opcodes import TYPES, Effect, OpCode, types_with
from datatree.record import Part
from zab.pipeline.decoding.arrays import Integers, Mask, text_or_none
from zab.pipeline.decoding.multi import PartRows, unpack
from zab.pipeline.decoding.slices import slices, timestamps
from zab.pipeline.schema import LOG

__all__ = [
    "ROWS_MAX",
    "TIME_MS_MAX",
    "Source",
    "Transactions",
    "acls",
    "path_texts",
    "record_batches",
    "validity",
    "values",
]

ROWS_MAX: Final = 16_384
"""Rows of one record batch: the size that Spark reads fastest."""
TIME_MS_MAX: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, which every reader of a timestamp can show."""

_ARROW: Final = {column.name: column.arrow for column in LOG}
_OPERATIONS: Final = {kind: OpCode(kind).spelled for kind in TYPES}
# Opcodes lie between -11 and 21; a table over 256 values takes them modulo 256.
_NAMES: Final = pa.array([_OPERATIONS[kind] for kind in sorted(_OPERATIONS)], pa.string())


def _table(values: dict[int, int]) -> Any:
    table = np.zeros(256, dtype=np.int32)
    for kind, value in values.items():
        table[kind & 0xFF] = value
    return table


_NAME_OF: Final = _table({kind: number for number, kind in enumerate(sorted(_OPERATIONS))})
_HAS_OWNER: Final = _table(dict.fromkeys(types_with(Effect.CREATE), 1)).astype(bool)
_VERSIONED: Final = types_with(Effect.CREATE, Effect.SET_DATA, Effect.SET_ACL, Effect.NOTHING)
_HAS_VERSION: Final = _table(dict.fromkeys(_VERSIONED, 1)).astype(bool)
_ALL: Final = slice(None)


@frozen
class Source:
    """The file that transactions come from: the columns that are the same for all of them."""

    ensemble: str
    member: str
    segment: str


@define(eq=False)
class Transactions:
    """n transactions in columns. `number` is a version, an error code or a timeout, depending on the type."""

    data: bytes
    position: Integers
    zxid: Integers
    time_ms: Integers
    session: Integers
    cxid: Integers
    type: Integers
    number: Integers
    path: tuple[Integers, Integers]
    value: tuple[Integers, Integers]
    has_value: Mask
    owner: Integers
    checksum: Integers
    acl_codes: Integers
    acls: list[str | None] = field(factory=lambda: [None])
    closed: dict[int, list[str] | None] = field(factory=dict)
    """The ephemerals that each closeSession deleted, by row; None where the log does not say."""
    multis: dict[int, tuple[Part, ...]] = field(factory=dict)
    """The parts of each multi, by row."""
    paths: pa.Array | None = None
    """The result of `path_texts`, once it was made."""

    def __len__(self) -> int:
        return len(self.zxid)

    def only(self, keep: Mask) -> "Transactions":
        """The rows where `keep` is set."""
        if keep.all():
            return self
        at = np.cumsum(keep) - 1
        return Transactions(
            data=self.data,
            position=self.position[keep],
            zxid=self.zxid[keep],
            time_ms=self.time_ms[keep],
            session=self.session[keep],
            cxid=self.cxid[keep],
            type=self.type[keep],
            number=self.number[keep],
            path=(self.path[0][keep], self.path[1][keep]),
            value=(self.value[0][keep], self.value[1][keep]),
            has_value=self.has_value[keep],
            owner=self.owner[keep],
            checksum=self.checksum[keep],
            acl_codes=self.acl_codes[keep],
            acls=self.acls,
            closed={int(at[row]): paths for row, paths in self.closed.items() if keep[row]},
            multis={int(at[row]): parts for row, parts in self.multis.items() if keep[row]},
        )


def validity(mask: Mask) -> pa.Buffer | None:
    """The bitmap of an Arrow array that is null where the mask is not set."""
    return None if mask.all() else pa.py_buffer(np.packbits(mask, bitorder="little"))


def _nullable(array: pa.Array, mask: Mask) -> pa.Array:
    """The array, which has no nulls and no offset, with nulls where the mask is not set."""
    bitmap = validity(mask)
    if bitmap is None:
        return array
    return pa.Array.from_buffers(array.type, len(array), [bitmap, *array.buffers()[1:]])


def _plain(values: Any, name: str) -> pa.Array:
    kind = _ARROW[name]
    return pa.array(np.ascontiguousarray(values, dtype=kind.to_pandas_dtype()), kind)


def path_texts(rows: Transactions) -> pa.Array:
    """The column `path`, with "" for null."""
    if rows.paths is None:
        rows.paths = text_or_none(slices(rows.data, *rows.path))
        assert rows.paths is not None, "paths are checked by the decoder"
    return rows.paths


def _paths(rows: Transactions) -> pa.Array:
    return _nullable(path_texts(rows), rows.path[1] > rows.path[0])


def values(rows: Transactions, at: Integers | slice = _ALL) -> pa.Array:
    """The column `data` of the rows at these indexes, which rise."""
    return _nullable(slices(rows.data, rows.value[0][at], rows.value[1][at]), rows.has_value[at])


def acls(rows: Transactions, at: Integers | slice = _ALL) -> pa.Array:
    """The column `acl` of the rows at these indexes."""
    return pa.array(rows.acls, pa.string()).take(pa.array(rows.acl_codes[at]))


def _closed(rows: Transactions) -> pa.Array:
    kind = _ARROW["paths"]
    counts = np.zeros(len(rows) + 1, dtype=np.int32)
    known = np.zeros(len(rows), dtype=np.bool_)
    texts: list[str] = []
    for row in sorted(rows.closed):
        deleted = rows.closed[row]
        if deleted is not None:
            counts[row + 1] = len(deleted)
            known[row] = True
            texts += deleted
    bounds = np.cumsum(counts, dtype=np.int32)
    buffers = [pa.py_buffer(np.packbits(known, bitorder="little")), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(kind, len(rows), buffers, children=[pa.array(texts, pa.string())])


def _numbers(rows: Transactions, name: str, mask: Mask) -> pa.Array:
    return _nullable(_plain(rows.number, name), mask)


def _errors(rows: Transactions) -> pa.Array:
    return _plain(np.where(rows.type == OpCode.ERROR, rows.number, 0), "error")


_MAKERS: Final[dict[str, Callable[[Transactions], pa.Array]]] = {
    "position": lambda rows: _plain(rows.position, "position"),
    "zxid": lambda rows: _plain(rows.zxid, "zxid"),
    "epoch": lambda rows: _plain(rows.zxid >> 32, "epoch"),
    "counter": lambda rows: _plain(rows.zxid & 0xFFFF_FFFF, "counter"),
    "time": lambda rows: timestamps(rows.time_ms),
    "session": lambda rows: _plain(rows.session, "session"),
    "cxid": lambda rows: _plain(rows.cxid, "cxid"),
    "type": lambda rows: _plain(rows.type, "type"),
    "operation": lambda rows: _NAMES.take(pa.array(_NAME_OF[rows.type & 0xFF])),
    "part": lambda rows: pa.nulls(len(rows), pa.int32()),
    "path": _paths,
    "data": values,
    "version": lambda rows: _numbers(rows, "version", _HAS_VERSION[rows.type & 0xFF]),
    "acl": acls,
    "owner": lambda rows: _nullable(_plain(rows.owner, "owner"), _HAS_OWNER[rows.type & 0xFF]),
    "timeout": lambda rows: _numbers(rows, "timeout", rows.type == OpCode.CREATE_SESSION),
    "error": _errors,
    "paths": _closed,
    "checksum": lambda rows: _plain(rows.checksum, "checksum"),
}


def record_batches(rows: Transactions, source: Source, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of these transactions, at most ROWS_MAX at a time (more only where one multi has more parts)."""
    whole = _table_of(rows, source, columns)
    parts = {row: len(found) for row, found in rows.multis.items() if found}
    start, end = 0, whole.num_rows
    cuts = _part_cuts(rows, parts) if parts else None
    while start < end:
        stop = min(start + ROWS_MAX, end)
        if cuts is not None and stop < end:
            stop = int(cuts[np.searchsorted(cuts, stop, side="right") - 1])
            stop = stop if stop > start else int(cuts[np.searchsorted(cuts, start, side="right")])
        yield whole.slice(start, stop - start)
        start = stop


def _part_cuts(rows: Transactions, parts: dict[int, int]) -> Integers:
    """The rows of the result at which a transaction begins, and the end."""
    counts = np.ones(len(rows), dtype=np.int64)
    for row, count in parts.items():
        counts[row] = count
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))


def _table_of(rows: Transactions, source: Source, columns: Sequence[str]) -> pa.RecordBatch:
    unpacked = unpack(rows.multis, len(rows))
    count = len(rows) if unpacked is None else len(unpacked.order)
    arrays = []
    for name in columns:
        if name in ("ensemble", "member", "segment"):
            arrays.append(pa.repeat(pa.scalar(getattr(source, name), pa.string()), count))
            continue
        array = _MAKERS[name](rows)
        arrays.append(array if unpacked is None else _with_parts(array, name, unpacked))
    schema = pa.schema([pa.field(name, _ARROW[name]) for name in columns])
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_parts(array: pa.Array, name: str, unpacked: PartRows) -> pa.Array:
    own = unpacked.columns.get(name)
    if own is None:
        return array.take(pa.array(unpacked.base))
    if name == "operation":
        own = [_OPERATIONS[kind] for kind in unpacked.columns["type"]]
    return pa.concat_arrays([array, pa.array(own, _ARROW[name])]).take(pa.array(unpacked.order))
