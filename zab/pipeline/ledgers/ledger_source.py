"""Ledgers as DataFrames: `read_ledgers`, and Spark's data source `zab.ledger`.

    read_ledgers(spark, dirs, ledgers="3,7-12", metadata="ledgers.json")
    spark.read.format("zab.ledger").option("dirs", "/a,/b").load()
    read_ledgers(spark, (), logs="logs.json")

A row is one entry as one bookie has it (`schema.LEDGER`): of an ensemble of three, each entry has up to three rows; and
another one, without a bookie, if the ledger has a copy in an object store and `logs` says where the lists of logs are.
`options` lists the options. Columns are chosen with `.schema("ledger bigint, entry bigint")`. Filters are not pushed
down, as in `log_source`: name the ledgers. A DataFrame shows the directories, and the lists, as of its loading; load
again to see more.
"""

import base64
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, split_dirs
from zab.pipeline.ledgers.options import LedgerOptions
from zab.pipeline.ledgers.planning import Task, plan_ledgers
from zab.pipeline.ledgers.rows import piece_rows
from zab.pipeline.reading.options import PLAN, told_plainly
from zab.pipeline.schema import LEDGER, ddl
from zab.pipeline.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LedgerSource", "read_ledgers"]


def read_ledgers(
    spark: "SparkSession",
    dirs: Dirs,
    ledgers: str | None = None,
    *,
    metadata: str | None = None,
    logs: str | None = None,
    columns: Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """The entries of these ledgers (None: of all) on the bookies in these directories, as `schema.LEDGER`.

    `metadata`: where the metadata of the ledgers are. `logs`: where the lists of managed ledgers are, whose copies in
    object stores are then read, too; `dirs` may be empty then. `columns` are the names of the columns, in their order;
    fewer cost less. `options`: further ones of `zab.ledger`. The DataFrame shows the directories, and the lists, as of
    this call. Raises PipelineError."""
    known = {column.name: column for column in LEDGER}
    chosen = list(known) if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise PipelineError(f"there is no column {name}; there are {', '.join(known)}")
    given = dict(options or {})
    given |= {"dirs": json.dumps([text for _, text in split_dirs(dirs)])} if dirs or logs is None else {}
    named = {"ledgers": ledgers, "metadata": metadata, "logs": logs}
    given |= {name: value for name, value in named.items() if value is not None}
    packed = base64.b64encode(pickle.dumps(plan_ledgers(LedgerOptions.parse(given)))).decode()
    spark.dataSource.register(LedgerSource)
    reader = spark.read.format(LedgerSource.name()).schema(ddl(known[name] for name in chosen))
    return reader.options(**given).option(PLAN, packed).load()


class LedgerSource(DataSource):
    """Entries of ledgers, as rows of `schema.LEDGER`."""

    @classmethod
    def name(cls) -> str:
        return "zab.ledger"

    def schema(self) -> str:
        begin_task()
        return ddl(LEDGER)

    @told_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        begin_task()
        known = {column.name: column for column in LEDGER}
        for field in schema.fields:
            if field.name not in known or known[field.name].type != field.dataType.simpleString():
                named = ", ".join(f"{column.name} {column.type}" for column in LEDGER)
                raise PipelineError(
                    f"zab.ledger has no column {field.name} {field.dataType.simpleString()}; it has {named}"
                )
        options = dict(self.options)
        packed = options.pop(PLAN, None)
        if packed is not None:
            return _LedgerReader(tuple(schema.names), list(pickle.loads(base64.b64decode(packed))))
        return _LedgerReader(tuple(schema.names), plan_ledgers(LedgerOptions.parse(options)))


class _LedgerReader(DataSourceReader):
    """One partition for each task."""

    def __init__(self, columns: tuple[str, ...], tasks: list[Task]) -> None:
        self.columns = columns
        self.tasks = tasks

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(task) for task in self.tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        begin_task()
        # Spark makes a partition without a value out of no partitions.
        task: Task | None = partition.value
        for piece in () if task is None else task.pieces:
            yield from piece_rows(piece, self.columns)
