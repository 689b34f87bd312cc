"""Checks recorded client histories: `zab pipeline history FILE ... --out X`.

    history(read_histories(spark, files)) -> a row for each violation; none: the history keeps its promises
    check_table(read_history(files))      -> the violations, computed without Spark

Two passes over the rows, each with one shuffle. By session: which reads come after a `sync`, and whether the zxids of
replies fall. By znode: `zab.pipeline.history.znode`. Linearizability is local, so each znode is judged by itself.
Operations of different histories are never compared.

Invariants: a pass holds only the operations of one znode. Deliberately not here: the format (`history.files`).
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from attrs import fields

from zab.pipeline.errors import PipelineError
from zab.pipeline.history.files import HISTORY, check_columns
from zab.pipeline.history.operation import OK, SYNC, UNKNOWN, Operation
from zab.pipeline.history.znode import UNDECIDED, Violation, check_znode
from zab.pipeline.schema import Column, arrow_schema, ddl
from zab.pipeline.workers import map_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["VIOLATIONS", "check_table", "history", "read_histories"]

VIOLATIONS: Final = (
    Column("history", "string", "name of the run"),
    Column("path", "string", "path of the znode"),
    Column("kind", "string", "lost write, write order, stale synced read, non-monotonic read, ..., or undecided"),
    Column("violation", "boolean", "false if undecided: there are too many orders to try all of them"),
    Column("sentence", "string", "what is wrong"),
    Column("witness", "array<string>", "smallest set of operations that shows the violation, by time"),
)

_MARKED: Final = (
    *HISTORY,
    Column("since", "bigint", "when the last sync of the session before the operation was sent, ns"),
    Column("ahead", "string", "the operation whose reply had a higher zxid, of this session and sent before"),
)
_NAMES: Final = tuple(column.name for column in HISTORY)
_FIELDS: Final = tuple(each.name for each in fields(Operation) if each.name != "since")
_ROWS_PER_BATCH: Final = 8_192


def read_histories(spark: "SparkSession", files: Iterable[str]) -> "DataFrame":
    """The operations in these Parquet files or directories of such. Raises PipelineError."""
    from pyspark.errors import AnalysisException

    paths = list(files)
    if not paths:
        raise PipelineError("no history was given")
    try:
        operations = spark.read.parquet(*paths)
    except AnalysisException as error:
        raise PipelineError(f"no history can be read from {', '.join(paths)}: {error.getCondition()}") from None
    check_columns(", ".join(paths), operations.columns)
    return operations


def history(operations: "DataFrame") -> "DataFrame":
    """The violations in these operations, rows of VIOLATIONS. operations: rows of HISTORY."""
    sessions = operations.select(*_NAMES).repartition("history", "session")
    ordered = sessions.sortWithinPartitions("history", "session", "operation", "part")
    marked = map_batches(ordered, mark_sessions, ddl(_MARKED))
    znodes = marked.repartition("history", "path").sortWithinPartitions("history", "path")
    return map_batches(znodes, check_znodes, ddl(VIOLATIONS))


def check_table(table: pa.Table) -> pa.Table:
    """Check a table of HISTORY in memory, without Spark."""
    by_session = table.sort_by([(name, "ascending") for name in ("history", "session", "operation", "part")])
    marked = pa.Table.from_batches(mark_sessions(iter(by_session.to_batches())), arrow_schema(_MARKED))
    by_znode = marked.sort_by([("history", "ascending"), ("path", "ascending")])
    return pa.Table.from_batches(check_znodes(iter(by_znode.to_batches())), arrow_schema(VIOLATIONS))


class _Session:
    """One session, operation by operation."""

    def __init__(self, name: tuple[Any, Any]) -> None:
        self.name = name
        self.since: int | None = None
        self.highest: Operation | None = None

    def ahead(self, one: Operation) -> str | None:
        """Take an answered operation; return the one whose reply had a higher zxid, if there was one."""
        assert one.zxid is not None
        if self.highest is not None and self.highest.zxid is not None and one.zxid < self.highest.zxid:
            return str(self.highest)
        self.highest = one
        return None


def mark_sessions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add `since` and `ahead` to operations that come by session, in the order of sending."""
    session = _Session((None, None))
    for batch in batches:
        since: list[int | None] = []
        ahead: list[str | None] = []
        for one in _operations(batch):
            if (one.history, one.session) != session.name:
                session = _Session((one.history, one.session))
            if one.kind == SYNC and one.status == OK:
                session.since = one.invoked
            since.append(session.since if one.session else None)
            is_answered = one.session and one.zxid is not None and one.status != UNKNOWN
            ahead.append(session.ahead(one) if is_answered else None)
        columns = [*batch.select(list(_NAMES)).columns, pa.array(since, pa.int64()), pa.array(ahead, pa.string())]
        yield pa.record_batch(columns, schema=arrow_schema(_MARKED))


def check_znodes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Check operations that come by znode; rows of VIOLATIONS."""
    rows: list[dict[str, object]] = []
    marked = ((one, ahead) for batch in batches for one, ahead in _marked_operations(batch))
    for name, group in groupby(marked, key=lambda item: (item[0].history, item[0].path)):
        operations = []
        for one, ahead in group:
            operations.append(one)
            if ahead is not None:
                sentence = "the zxid of a session's reply is below that of an earlier one"
                rows.append(_row(name[0], name[1], "non-monotonic read", sentence, [ahead, str(one)]))
        rows += [
            _row(name[0], each.path, each.kind, each.sentence, _shown(each))
            for each in check_znode(name[1], operations)
        ]
        if len(rows) >= _ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(rows, arrow_schema(VIOLATIONS))
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, arrow_schema(VIOLATIONS))


def _row(name: str | None, path: str, kind: str, sentence: str, witness: list[str]) -> dict[str, object]:
    return {
        "history": name,
        "path": path,
        "kind": kind,
        "violation": kind != UNDECIDED,
        "sentence": sentence,
        "witness": witness,
    }


def _shown(violation: Violation) -> list[str]:
    return [str(one) for one in violation.witness]


def _operations(batch: pa.RecordBatch) -> Iterator[Operation]:
    columns = [batch.column(name).to_pylist() for name in _FIELDS]
    for session, operation, kind, path, status, *rest in zip(*columns, strict=True):
        yield Operation(session or 0, operation or 0, kind or "", path or "", status or UNKNOWN, *rest)


def _marked_operations(batch: pa.RecordBatch) -> Iterator[tuple[Operation, str | None]]:
    since, ahead = batch.column("since").to_pylist(), batch.column("ahead").to_pylist()
    for one, synced_at, higher in zip(_operations(batch), since, ahead, strict=True):
        one.since = synced_at
        yield one, higher
