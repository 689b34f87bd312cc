"""Rows of ZNODES as a state: the columns needed, and rows that Spark has sorted, spooled on the driver's disk.

    spooled(znodes, file)               the rows of a DataFrame by rising path, which can be iterated repeatedly
    without_sums(paths, data)           the data, without the sums of quotas

Spark sorts; the driver fetches one partition after another, as Arrow batches, and writes them to one file: its memory
holds one partition, and partitions are made small enough for that. Spark compares paths as bytes, as in the files of
members.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from datatree.quota import is_stats
from zab.pipeline.schema import ZNODES, arrow_schema
from zab.pipeline.workers import map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ZNODE_SCHEMA", "spooled", "without_sums"]

_NAMES: Final = (
    "path", "data", "acl", "czxid", "mzxid", "ctime", "mtime", "version", "children_created", "aversion", "owner",
    "pzxid",
)  # fmt: skip
ZNODE_SCHEMA: Final = arrow_schema(column for column in ZNODES if column.name in _NAMES)
"""The columns of ZNODES that writing a snapshot needs; the others follow from these."""

PARTITION_BYTES: Final = 64 << 20
_ROW_BYTES: Final = 150


def without_sums(paths: pa.StringArray, data: pa.BinaryArray) -> pa.BinaryArray:
    """The data of these paths, empty for the sums of quotas, which follow from the znodes."""
    candidates = pc.ends_with(paths, "zookeeper_stats").to_numpy(zero_copy_only=False)
    if not candidates.any():
        return data
    is_sum = [bool(may) and is_stats(path.encode()) for may, path in zip(candidates, paths.to_pylist(), strict=True)]
    return pc.if_else(pa.array(is_sum), pa.scalar(b"", pa.binary()), data)


def spooled(znodes: "DataFrame", file: Path) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Write the rows, sorted by path, to `file` (the caller removes it); return a function that iterates them.

    znodes: rows of ZNODES of one state; evaluated once. Raises OSError."""
    from pyspark import StorageLevel
    from pyspark.sql import functions as F  # noqa: N812

    # Sorting looks at the rows before it moves them; without keeping them, the logs would be read twice.
    kept = znodes.select(*ZNODE_SCHEMA.names).persist(StorageLevel.DISK_ONLY)
    try:
        size = F.octet_length("path") + F.coalesce(F.octet_length("data"), F.lit(0)) + _ROW_BYTES
        row = kept.agg(F.sum(size.cast("bigint"))).first()
        count = 1 + ((row[0] or 0) if row is not None else 0) // PARTITION_BYTES
        ordered = kept.repartitionByRange(count, "path").sortWithinPartitions("path")
        packed = map_batches(ordered, _packed, "batch binary")
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, ZNODE_SCHEMA) as writer:
            for (packet,) in packed.toLocalIterator():
                for batch in pa.ipc.open_stream(bytes(packet)):
                    writer.write_batch(batch)
    finally:
        kept.unpersist()
    return lambda: _read(file)


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one value: rows of Python objects would take ten times as long on their way to the driver."""
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ZNODE_SCHEMA) as writer:
            writer.write_batch(pa.record_batch(batch.columns, schema=ZNODE_SCHEMA))
        yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["batch"])


def _read(file: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(file), "rb") as source, pa.ipc.open_stream(source) as reader:
        yield from reader
