"""Recorded client histories as Parquet: the columns, a writer for recorders, and a reader for checks without Spark.

    with HistoryWriter("run.parquet") as writer:
        writer.add(Operation(session, xid, "set", "/x", "ok", b"1", version=3, zxid=zxid, invoked=start, returned=end))

One row is one operation of one client, or one part of a multi. The rules for a recorder:

- Every write to the znodes under test is recorded, also one whose reply never came (`unknown`). What the ensemble does
  by itself (the end of a session deletes its ephemerals) is a row without client and times.
- `invoked` is read before the request is sent, `returned` after its reply was received, both from one clock.
- `operation` counts the requests of a session in the order in which they were sent.
- The more rows have `zxid`, `mzxid` and `version`, the cheaper and more precise the check is.

Invariants: a file gets its name when it is complete; memory holds one row group. Needs pyarrow, not Spark.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from zab.pipeline.errors import PipelineError
from zab.pipeline.history.operation import Operation
from zab.pipeline.schema import Column, arrow_schema

__all__ = ["HISTORY", "HistoryWriter", "check_columns", "check_file", "read_history", "table_of", "write_history"]

HISTORY: Final = (
    Column("history", "string", "name of the run; operations of different runs are never compared"),
    Column("client", "string", "name of the client; null for changes that the ensemble made itself"),
    Column("session", "bigint", "id of the session, 0 for none"),
    Column("operation", "bigint", "number of the request in its session, in the order of sending (the xid)"),
    Column("part", "int", "index within a multi; null for a plain request"),
    Column("kind", "string", "create, set, delete, get, exists or sync; other operations are ignored"),
    Column("path", "string", "path of the znode; for a sequential create, the resulting path"),
    Column("value", "binary", "data written or read"),
    Column("expected", "int", "version that a set or delete requires; null or -1: any"),
    Column("version", "int", "version of the znode after the write, or as read"),
    Column("zxid", "bigint", "zxid in the header of the reply: for a write its own, for a read the last one that "
           "the member had applied"),
    Column("mzxid", "bigint", "mzxid of the znode as read: the write that the read shows"),
    Column("invoked", "bigint", "time before the request was sent, in ns; null if irrelevant"),
    Column("returned", "bigint", "time after the reply was received, in ns; null if there was none, or if irrelevant"),
    Column("status", "string", "ok, failed (certainly without effect) or unknown (no reply)"),
    Column("error", "int", "error code in the reply, negative; for failed"),
)  # fmt: skip

ROWS_PER_GROUP: Final = 65_536
_NAMES: Final = tuple(column.name for column in HISTORY)


class HistoryWriter:
    """Writes one file. It gets its name in `close`; leaving the block with an exception removes it.

    name: of the run, for operations without one; by default the file's name without its suffix.
    Raises PipelineError if the file cannot be written.
    """

    def __init__(self, path: str | Path, *, name: str | None = None) -> None:
        self.path = Path(path)
        self.name = name if name is not None else self.path.stem
        self.count = 0
        self._aside = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self._rows: list[Operation] = []
        try:
            self._file = pq.ParquetWriter(self._aside, arrow_schema(HISTORY), compression="zstd")
        except OSError as error:
            raise PipelineError(f"the history {self.path} cannot be written: {error.strerror or error}") from None

    def add(self, operation: Operation) -> None:
        """Take one operation."""
        self._rows.append(operation)
        self.count += 1
        if len(self._rows) >= ROWS_PER_GROUP:
            self._write_group()

    def extend(self, operations: Iterable[Operation]) -> None:
        """Take these operations, in any order."""
        for operation in operations:
            self.add(operation)

    def _write_group(self) -> None:
        rows, self._rows = self._rows, []
        try:
            self._file.write_batch(_batch_of(rows, self.name))
        except OSError as error:
            raise PipelineError(f"the history {self.path} cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        """Write what is left; the file exists when this returns."""
        try:
            if self._rows:
                self._write_group()
            self._file.close()
            self._aside.replace(self.path)
        except OSError as error:
            raise PipelineError(f"the history {self.path} cannot be written: {error.strerror or error}") from None

    def abandon(self) -> None:
        """Remove the file."""
        self._file.close()
        self._aside.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _batch_of(rows: list[Operation], name: str) -> pa.RecordBatch:
    columns = [pa.array([getattr(row, column.name) for row in rows], column.arrow) for column in HISTORY]
    columns[0] = pa.array([name if row.history is None else row.history for row in rows], pa.string())
    return pa.record_batch(columns, schema=arrow_schema(HISTORY))


def table_of(operations: Iterable[Operation], name: str) -> pa.Table:
    """A history in memory, with the columns of HISTORY. name: of the run, for operations without one."""
    return pa.Table.from_batches([_batch_of(list(operations), name)])


def write_history(path: str | Path, operations: Iterable[Operation], *, name: str | None = None) -> None:
    """Write a whole history at once. Raises PipelineError."""
    with HistoryWriter(path, name=name) as writer:
        writer.extend(operations)


def read_history(paths: Iterable[str | Path]) -> pa.Table:
    """The rows of these files, columns as in HISTORY. Raises PipelineError for files that are not a history."""
    tables = []
    for path in paths:
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid) as error:
            raise PipelineError(f"{path} cannot be read as Parquet: {error}") from None
        check_columns(str(path), table.column_names)
        tables.append(table.select(list(_NAMES)).cast(arrow_schema(HISTORY)))
    if not tables:
        raise PipelineError("no history was given")
    return pa.concat_tables(tables)


def check_file(path: str) -> None:
    """Raise PipelineError for a local path that does not exist; URIs and patterns are left to their reader."""
    if "://" not in path and "*" not in path and not Path(path).exists():
        raise PipelineError(f"{path} does not exist")


def check_columns(what: str, names: Iterable[str]) -> None:
    """Raise PipelineError unless all columns of a history are there."""
    missing = [name for name in _NAMES if name not in set(names)]
    if missing:
        raise PipelineError(f"{what} is no history: it has no column {', '.join(missing)}")
