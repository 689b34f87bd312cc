"""The data sources `zab.log` and `zab.damage` for Spark: `spark.read.format("zab.log").option("dirs", …).load()`.

    option              value
    dirs                directories, as a JSON list or with commas between them
    zxidMin, zxidMax    decimal, or hexadecimal with 0x; inclusive
    timeMin, timeMax    ms since 1970, or ISO 8601 with a zone (2026-01-02T03:04:05Z); inclusive
    members             all (default), or one: each transaction once
    uncommitted         true: also what a change of leader could still take away

Columns are chosen with `.schema("zxid bigint, path string")`. Filters are deliberately not pushed down: Spark 4.3 keeps
one mutable plan for each `load()`, and would give wrong rows. So a plan without a range reports on standard error how
much it reads, if that is much. For the same reason a DataFrame shows the logs as of its loading; load again to see
more. A wrong option gives one sentence in Spark's exception, without the stack of the worker that found it.

Invariant: the record batches have exactly the schema that was requested.
"""

import base64
import pickle
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from zab.pipeline.decoding.damage import UNREADABLE, Damage
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Inventory, inventory
from zab.pipeline.reading.options import PLAN, Options, told_plainly
from zab.pipeline.reading.planning import Range, Task, plan, read_task, task_batches
from zab.pipeline.reading.snapshot_source import SnapshotSource
from zab.pipeline.reading.spans import Span
from zab.pipeline.schema import DAMAGE, LOG, Column, arrow_schema, ddl
from zab.pipeline.topics.topic_source import TopicSource
from zab.pipeline.workers import begin_stream, begin_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DamageSource", "LogSource", "damage_rows", "large_size", "pack_plan", "plan_of", "register", "size_warning"]

WARNED_BYTES: Final = 1 << 30
"""A plan without a range warns from this size on: some ten seconds of reading."""


def register(spark: "SparkSession") -> None:
    """Register `zab.log`, `zab.damage`, `zab.snapshot`, `zab.topic` and `zab.ledger` with a session."""
    # Workers import this module for every source: they load what ledgers need only to read these.
    from zab.pipeline.ledgers.ledger_source import LedgerSource

    for source in (LogSource, DamageSource, SnapshotSource, TopicSource, LedgerSource):
        spark.dataSource.register(source)


def size_warning(found: Inventory, wanted: Range) -> str | None:
    """The warning for a plan that reads much, if it does: Spark's filters only drop rows after they were read."""
    size = large_size(found, wanted)
    if size is None:
        return None
    return (
        f"this reads all of {size} of logs, whatever is filtered afterwards: give zxid_min, zxid_max, time_min or "
        "time_max, and columns"
    )


def large_size(found: Inventory, wanted: Range) -> str | None:
    """The size of the logs, if it is large and all of it is read."""
    size = sum(log.size for member in found.members for log in member.logs)
    return None if wanted != Range() or size < WARNED_BYTES else f"{size / (1 << 30):.1f} GiB"


def plan_of(options: Options, *, whole_files: bool = False) -> list[Task]:
    """Plan the tasks of a read, with a warning on standard error if it reads much. Raises PipelineError."""
    found = inventory(options.dirs)
    warning = size_warning(found, options.wanted)
    if warning is not None:
        print(f"zab: {warning}", file=sys.stderr, flush=True)
    return plan(
        found,
        options.wanted,
        members=options.members,
        uncommitted=options.uncommitted,
        whole_files=whole_files,
    )


def pack_plan(tasks: Sequence[Task]) -> str:
    return base64.b64encode(pickle.dumps(tuple(tasks))).decode()


def _columns(schema: StructType, known: Sequence[Column], source: str) -> tuple[str, ...]:
    """The names of the requested columns. Raises PipelineError for an unknown one."""
    types = {column.name: column.type for column in known}
    for field in schema.fields:
        if types.get(field.name) != field.dataType.simpleString():
            raise PipelineError(
                f"{source} has no column {field.name} {field.dataType.simpleString()}; "
                f"it has {', '.join(f'{name} {kind}' for name, kind in types.items())}"
            )
    return tuple(schema.names)


class _Source(DataSource):
    """What both data sources have in common."""

    columns: Sequence[Column]

    def schema(self) -> str:
        begin_task()
        return ddl(self.columns)

    def _tasks(self, *, whole_files: bool) -> list[Task]:
        begin_task()
        options = dict(self.options)
        packed = options.get(PLAN)
        if packed is not None:
            return list(pickle.loads(base64.b64decode(packed)))
        return plan_of(Options.parse(options), whole_files=whole_files)


class LogSource(_Source):
    """Transactions, as rows of `schema.LOG`."""

    columns = LOG

    @classmethod
    def name(cls) -> str:
        return "zab.log"

    @told_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        return _LogReader(_columns(schema, LOG, self.name()), self._tasks(whole_files=False))

    @told_plainly()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        begin_stream()
        from zab.pipeline.streaming.stream import LogStreamReader

        return LogStreamReader(dict(self.options), _columns(schema, LOG, self.name()))


class DamageSource(_Source):
    """The damage in the logs, as rows of `schema.DAMAGE`."""

    columns = DAMAGE

    @classmethod
    def name(cls) -> str:
        return "zab.damage"

    @told_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        return _DamageReader(_columns(schema, DAMAGE, self.name()), self._tasks(whole_files=True))


class _Reader(DataSourceReader):
    """One partition for each task."""

    def __init__(self, columns: tuple[str, ...], tasks: list[Task]) -> None:
        self.columns = columns
        self.tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        begin_task()
        # Spark makes a partition without a value out of no partitions.
        task: Task | None = partition.value
        return iter(()) if task is None else self._read(task)

    def _read(self, task: Task) -> Iterator[Any]:
        raise NotImplementedError


class _LogReader(_Reader):
    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        return task_batches(task, self.columns, on_damage=_check_there)


def _check_there(span: Span, damage: Damage) -> None:
    """Raise PipelineError for a file that was removed after the read was planned: its damage cannot be looked up."""
    if damage.kind == UNREADABLE and span.file.problem is None:
        raise PipelineError(f"{span.file.place}: {damage.reason}; read the directory again")


class _DamageReader(_Reader):
    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        for span, found in read_task(task, use_index=False):
            if isinstance(found, Damage):
                yield damage_rows(span, [found]).select(self.columns)


def damage_rows(span: Span, found: Sequence[Damage]) -> pa.RecordBatch:
    """Rows of `schema.DAMAGE`."""
    rows = [
        {
            "ensemble": span.ensemble,
            "member": span.member,
            "file": str(span.file.place),
            "offset": damage.offset,
            "end": damage.end,
            "kind": damage.kind,
            "reason": damage.reason,
        }
        for damage in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(DAMAGE))
