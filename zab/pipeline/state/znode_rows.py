"""Rows of ZNODES as znodes, one after the other, and a state that Spark has sorted, spooled on the driver's disk.

    as_znodes(batch)                    the znodes of one batch
    spooled(znodes, file)               the rows of a DataFrame by rising path, to be iterated as often as needed

Spark sorts; the driver takes partition after partition, each as Arrow batches, and keeps them in one file: its memory
holds one partition, made small enough for that. Paths are compared as bytes, by Spark as in the files of members.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from datatree.zookeeper.snapshot import SnapshotZnode
from zab.pipeline.decoding.acl_text import parse_acl_text
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import ZNODES, arrow_schema
from zab.pipeline.workers import map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ZNODE_SCHEMA", "as_znodes", "spooled"]

_NAMES: Final = (
    "path", "data", "acl", "czxid", "mzxid", "ctime", "mtime", "version", "children_created", "aversion", "owner",
    "pzxid",
)  # fmt: skip
ZNODE_SCHEMA: Final = arrow_schema(column for column in ZNODES if column.name in _NAMES)
"""What is needed of ZNODES to write a snapshot; the rest follows from it."""

PARTITION_BYTES: Final = 64 << 20
_ROW_BYTES: Final = 150
_US_PER_MS: Final = 1000


def as_znodes(batch: pa.RecordBatch) -> Iterator[SnapshotZnode]:
    """The znodes of a batch that has at least the columns of ZNODE_SCHEMA. Raises PipelineError for a text that is no
    ACL."""
    columns: list[Any] = []
    for name in _NAMES:
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            columns.append((column.cast(pa.int64()).to_numpy(zero_copy_only=False) // _US_PER_MS).tolist())
        elif pa.types.is_integer(column.type):
            columns.append(column.to_numpy(zero_copy_only=False).tolist())
        else:
            columns.append(column.to_pylist())
    try:
        for path, data, acl, *stat in zip(*columns, strict=True):
            yield SnapshotZnode(path.encode(), data, parse_acl_text(acl), *stat)
    except ValueError as error:
        raise PipelineError(f"the state cannot be written: {error}") from None


def spooled(znodes: "DataFrame", file: Path) -> Callable[[], Iterator[SnapshotZnode]]:
    """Write the rows, sorted by path, to `file` (the caller removes it), and return what iterates them.

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


def _read(file: Path) -> Iterator[SnapshotZnode]:
    with pa.OSFile(str(file), "rb") as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield from as_znodes(batch)
