"""Topics as DataFrames: `read_topic`, and Spark's data source `zab.topic`.

    read_topic(spark, dirs, topics=["orders"])
    spark.read.format("zab.topic").option("dirs", "/a,/b").option("subscribe", "orders").load()
    spark.readStream.format("zab.topic").option("kafka.bootstrap.servers", "host:9092").load()

The rows are those of Spark's own source of Kafka and some more (`schema.TOPIC`); `options` lists the options. Columns
are chosen with `.schema("offset bigint, value binary")`. Filters are not pushed down, as in `log_source`: give offsets
or timestamps. A DataFrame shows the directories as of its loading; load again to see more.
"""

import base64
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, split_dirs
from zab.pipeline.reading.options import PLAN, told_plainly
from zab.pipeline.schema import STREAMED, TOPIC, Column, ddl
from zab.pipeline.topics.options import StreamOptions, TopicOptions, has_headers, is_stream
from zab.pipeline.topics.planning import Task, plan_topics
from zab.pipeline.topics.rows import piece_rows
from zab.pipeline.workers import begin_stream, begin_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TopicSource", "read_topic"]


def read_topic(
    spark: "SparkSession",
    dirs: Dirs,
    topics: str | Iterable[str] | None = None,
    *,
    columns: Iterable[str] | None = None,
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """The records of these topics (None: of all but the brokers' own) in these log directories, as `schema.TOPIC`.

    `columns` are the names of the columns, in their order; fewer cost less. `options`: further ones of `zab.topic`. The
    DataFrame shows the directories as of this call. Raises PipelineError."""
    known = {column.name: column for column in TOPIC}
    chosen = list(known) if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise PipelineError(f"there is no column {name}; there are {', '.join(known)}")
    given = dict(options or {}) | {
        "dirs": json.dumps([text if name is None else f"{name}={text}" for name, text in split_dirs(dirs)])
    }
    if topics is not None:
        given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    packed = base64.b64encode(pickle.dumps(plan_topics(TopicOptions.parse(given), chosen))).decode()
    spark.dataSource.register(TopicSource)
    reader = spark.read.format(TopicSource.name()).schema(ddl(known[name] for name in chosen))
    return reader.options(**given).option(PLAN, packed).load()


class TopicSource(DataSource):
    """Records of topics, as rows of `schema.TOPIC`."""

    @classmethod
    def name(cls) -> str:
        return "zab.topic"

    @told_plainly()
    def schema(self) -> str:
        begin_task()
        has = has_headers(self.options)
        return ddl(column for column in self._columns() if has or column.name != "headers")

    def _columns(self) -> tuple[Column, ...]:
        return STREAMED if is_stream(self.options) else TOPIC

    @told_plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        begin_task()
        if is_stream(self.options):
            raise PipelineError(
                "topics of brokers are read as a stream (readStream; trigger(availableNow=True) reads all there is); "
                'spark.read reads log directories, with the option "dirs"'
            )
        columns = _columns(schema, self._columns())
        packed = dict(self.options).get(PLAN)
        if packed is not None:
            return _TopicReader(columns, list(pickle.loads(base64.b64decode(packed))))
        return _TopicReader(columns, plan_topics(TopicOptions.parse(self.options), columns))

    @told_plainly()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        begin_stream()
        if not is_stream(self.options):
            raise PipelineError(
                "a stream of topics reads from brokers: give it kafka.bootstrap.servers; log directories are read with "
                "spark.read"
            )
        from zab.pipeline.topics.topic_stream import TopicStreamReader

        return TopicStreamReader(StreamOptions.parse(self.options), _columns(schema, self._columns()))


def _columns(schema: StructType, there: Sequence[Column]) -> tuple[str, ...]:
    """The names of the requested columns. Raises PipelineError for an unknown one."""
    known: dict[str, Column] = {column.name: column for column in there}
    for field in schema.fields:
        if field.name not in known or known[field.name].type != field.dataType.simpleString():
            named = ", ".join(f"{column.name} {column.type}" for column in there)
            raise PipelineError(f"zab.topic has no column {field.name} {field.dataType.simpleString()}; it has {named}")
    return tuple(schema.names)


class _TopicReader(DataSourceReader):
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
