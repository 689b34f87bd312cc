"""Packs znodes in columns as entries of snapshot files, and computes their part of the tree's digest, for both formats.

    native = NativeEntries(acls, children)
    native.digest(batch)            the sum of the znodes' parts (`datatree.digest`)
    native.of(batch)                what `datatree.snapshot` has between its chunks: znodes, and lists before them
    Version2Entries(acls, children) for ZooKeeper's files (`datatree.zookeeper.snapshot`)

A batch has at least the columns of ZNODE_SCHEMA. The numbers of an entry have fixed offsets, so those of a batch are
packed side by side, and Arrow joins them with paths and data. Only the checksums, by zlib, are computed one by one.

Invariant: acls were interned by rising path, so the ids of their table are those of the file, 1, 2, 3, …
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define

from datatree.acl import OPEN, AclTable
from datatree.digest import SUFFIX
from datatree.snapshot_entries import IS_ZNODE, pack_list
from datatree.znode import CONTAINER_OWNER, STAT_BYTES, TTL_TOP
from datatree.zookeeper.snapshot import OPEN_ACL_ID
from zab.pipeline.decoding.acl_text import parse_acl_text
from zab.pipeline.decoding.arrays import Integers, Mask
from zab.pipeline.decoding.slices import pieces
from zab.pipeline.decoding.version2_digest import digest_of
from zab.pipeline.decoding.znode_layouts import DIGESTED, NATIVE_ZNODE, ZOOKEEPER_STAT

__all__ = ["Entries", "NativeEntries", "Version2Entries", "are_ephemeral"]

_US_PER_MS: Final = 1000
_NOTHING: Final = pa.scalar(b"", pa.binary())
_ROOT: Final = pa.scalar(b"/", pa.binary())
_LENGTH: Final = np.dtype([("length", ">i4")])


def are_ephemeral(owners: Integers) -> Mask:
    """Apply `datatree.znode.is_ephemeral` to each owner."""
    return (owners > 0) | ((owners > CONTAINER_OWNER) & (owners < TTL_TOP))


class Entries(Protocol):
    """The entries and the digest of znodes in one format."""

    def digest(self, batch: pa.RecordBatch) -> int:
        """The part of the tree's digest that the znodes have."""
        ...

    def of(self, batch: pa.RecordBatch) -> list[bytes]:
        """The entries, in the order of the file."""
        ...


@define
class NativeEntries:
    """Entries of native snapshots. children: how many children each parent has."""

    acls: AclTable
    children: Mapping[bytes, int]
    _last_list: int = 0
    """The last list that was written."""

    def digest(self, batch: pa.RecordBatch) -> int:
        heads, lists = self._heads(batch)
        values = _joined(_paths(batch), _data(batch))
        checksums = list(map(crc32, values))
        stats = pieces(heads, NATIVE_ZNODE.itemsize - STAT_BYTES)
        sums = list(map(crc32, stats, checksums))
        acl_checksums = np.array([self.acls.checksums[number] for number in lists.tolist()], np.int64)
        is_null = heads["data_length"] < 0
        for row in np.flatnonzero((acl_checksums > 0) | (heads["owner"] < 0) | is_null).tolist():
            suffix = SUFFIX.pack(int(heads["owner"][row]), int(acl_checksums[row]), bool(is_null[row]))
            sums[row] = crc32(suffix, sums[row])
        return (sum(checksums) << 32) + sum(sums)

    def of(self, batch: pa.RecordBatch) -> list[bytes]:
        heads, lists = self._heads(batch)
        entries = _joined(_fixed(heads), _paths(batch), _data(batch))
        known = np.maximum.accumulate(np.concatenate(([self._last_list], lists)))
        for row in reversed(np.flatnonzero(np.diff(known)).tolist()):
            number = int(lists[row])
            entries.insert(row, pack_list(number, self.acls.lists[number]))
        self._last_list = int(known[-1])
        return entries

    def _heads(self, batch: pa.RecordBatch) -> tuple[Any, Integers]:
        """The fixed part before the path of each znode, and the id of its ACL."""
        heads = _numbers(batch, NATIVE_ZNODE)
        lists = _lists(batch, self.acls)
        heads["kind"] = IS_ZNODE
        heads["acl"] = np.where(lists == OPEN, 0, lists)
        paths = _paths(batch)
        heads["path_length"] = pc.binary_length(paths).to_numpy()
        heads["data_length"] = pc.binary_length(batch.column("data")).fill_null(-1).to_numpy(zero_copy_only=False)
        heads["length"] = np.maximum(heads["data_length"], 0)
        count_of = self.children.get
        counts = np.array([count_of(path, 0) for path in paths.to_pylist()], np.int64)
        heads["num_children"] = counts
        heads["cversion"] = (2 * heads["children_created"].astype(np.int64) - counts).astype(np.int32)
        heads["visible_owner"] = np.where(are_ephemeral(heads["owner"]), heads["owner"], 0)
        return heads, lists


@define
class Version2Entries:
    """Entries of ZooKeeper's snapshots, which do not contain counts of children."""

    acls: AclTable
    children: Mapping[bytes, int]

    def digest(self, batch: pa.RecordBatch) -> int:
        return digest_of(_short(_paths(batch)), _data(batch), _numbers(batch, DIGESTED))

    def of(self, batch: pa.RecordBatch) -> list[bytes]:
        ends = _numbers(batch, ZOOKEEPER_STAT)
        lists = _lists(batch, self.acls)
        ends["acl"] = np.where(lists == OPEN, OPEN_ACL_ID, lists)
        paths = _short(_paths(batch))
        return _joined(_lengths(paths), paths, _lengths(batch.column("data")), _data(batch), _fixed(ends))


def _paths(batch: pa.RecordBatch) -> pa.BinaryArray:
    return batch.column("path").cast(pa.binary())


def _data(batch: pa.RecordBatch) -> pa.BinaryArray:
    return batch.column("data").fill_null(b"")


def _short(paths: pa.BinaryArray) -> pa.BinaryArray:
    """The paths with "" for the root, as in ZooKeeper's files and digest."""
    return pc.if_else(pc.equal(paths, _ROOT), _NOTHING, paths)


def _joined(*columns: pa.BinaryArray) -> list[bytes]:
    values: list[bytes] = pc.binary_join_element_wise(*columns, _NOTHING).to_pylist()
    return values


def _numbers(batch: pa.RecordBatch, layout: np.dtype[Any]) -> Any:
    """Records of this layout, with the numbers of the columns of the same names."""
    records = np.zeros(batch.num_rows, layout)
    for name in layout.names or ():
        if name in batch.schema.names and name != "acl":
            column = batch.column(name)
            if pa.types.is_timestamp(column.type):
                records[name] = column.cast(pa.int64()).to_numpy() // _US_PER_MS
            else:
                records[name] = column.to_numpy()
    return records


def _lists(batch: pa.RecordBatch, acls: AclTable) -> Integers:
    """The id of each znode's ACL."""
    coded = batch.column("acl").dictionary_encode()
    ids = [acls.id_of(parse_acl_text(text)) for text in coded.dictionary.to_pylist()]
    return np.array(ids, np.int64)[coded.indices.to_numpy()] if ids else np.empty(0, np.int64)


def _lengths(values: pa.BinaryArray) -> pa.BinaryArray:
    """Four bytes each: the length, -1 for null."""
    lengths = np.zeros(len(values), _LENGTH)
    lengths["length"] = pc.binary_length(values).fill_null(-1).to_numpy(zero_copy_only=False)
    return _fixed(lengths)


def _fixed(records: Any) -> pa.BinaryArray:
    """The bytes of each record."""
    offsets = np.arange(len(records) + 1, dtype=np.int32) * np.int32(records.dtype.itemsize)
    return pa.Array.from_buffers(
        pa.binary(), len(records), [None, pa.py_buffer(offsets), pa.py_buffer(records.tobytes())]
    )
