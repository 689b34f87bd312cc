"""Writes an archive of Java's classes: starts Spark, runs a little of everything, and waits until Java has ended.

    python -m zab.pipeline.class_archiving ARCHIVE

`class_archive` says what that is, where it belongs, and runs this in a Python without another session.
"""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types

from zab.pipeline.class_archive import IN_SILENCE
from zab.pipeline.spark_session import job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["write_archive"]


def write_archive(archive: Path, java_options: Sequence[str] = (), classes: Sequence[str] = ()) -> None:
    """To be called where no session runs. Raises PipelineError.

    java_options: a JVM that uses the archive needs the same options about how classes are checked.
    classes: further ones, which no driver loads."""
    options = " ".join([*java_options, f"-XX:ArchiveClassesAtExit={archive}", IN_SILENCE])
    with job_session("local[2]", name="classes", settings={"spark.driver.extraJavaOptions": options}) as spark:
        # PySpark's names: the way to Java, and the process that it runs in.
        gateway = spark.sparkContext._gateway
        assert gateway is not None, "this Python started Java"
        java = gateway.proc
        with tempfile.TemporaryDirectory(prefix="zab-classes-") as directory:
            _exercise(spark, Path(directory))
        for name in classes:
            with contextlib.suppress(Py4JError):
                gateway.jvm.java.lang.Class.forName(name)
    # At the end of its standard input it writes the archive, and ends.
    java.stdin.close()
    java.wait()


def _exercise(spark: "SparkSession", directory: Path) -> None:
    """Do what jobs do: a Python source, Arrow in workers, joins, windows, Parquet, a stream. Writes to `directory`."""
    spark.dataSource.register(_source())
    rows = spark.read.format("zab.classes").load()
    numbers = rows.selectExpr("id", "id % 7 AS k", "encode(id, 'utf-8') AS b", "named_struct('n', id) AS s")
    counted = numbers.groupBy("k").agg({"id": "max", "b": "count"}).join(numbers, "k").orderBy("id")
    ranked = numbers.selectExpr("*", "row_number() OVER (PARTITION BY k ORDER BY id) AS place")
    for frame, name in ((counted, "counted"), (ranked, "ranked")):
        frame.write.parquet(str(directory / name))
        frame.limit(3).write.json(str(directory / f"{name}.json"))
        read = spark.read.parquet(str(directory / name))
        read.filter("k > 3").mapInArrow(_as_they_are, read.schema).toArrow()
    spark.createDataFrame(numbers.toPandas()).rdd.map(len).sum()
    stream = spark.readStream.schema(read.schema).parquet(str(directory / "ranked")).writeStream
    stream = stream.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    stream.format("parquet").start(str(directory / "streamed")).awaitTermination()


def _as_they_are(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def _source() -> type[Any]:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader

    class Reader(DataSourceReader):
        def read(self, partition: object) -> Iterator[Any]:
            yield pa.RecordBatch.from_pydict({"id": [*range(1000)]}, pa.schema([("id", pa.int64())]))

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return "zab.classes"

        def schema(self) -> str:
            return "id bigint"

        def reader(self, schema: object) -> DataSourceReader:
            return Reader()

    return Source


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]))
