"""Topics as DataFrames in Spark: columns, options, what is refused, and that SQL sees what the log has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.rigs.topic_files import NOW, BrokerFiles, batch, marker, produced, rows_of
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import TOPIC

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = [column.name for column in TOPIC]


@pytest.fixture
def broker(tmp_path: Path) -> BrokerFiles:
    """Three partitions of a topic, with headers, nulls and transactions, and an empty topic."""
    files = BrokerFiles(tmp_path / "one")
    for partition in range(3):
        records = [Record(0, NOW, b"k", b"%d" % partition, (("é", b"1"), ("n", None))), Record(1, NOW, None, None)]
        files.add("t", bytearray(encode_batch(records)), *(batch([b"x"] * 5) for _ in range(9)), partition=partition)
    files.add("t", produced(5, 0, 0, transactional=True), marker(5, 0, commits=False))
    files.add("t", produced(5, 0, 1, transactional=True))
    files.log("empty")
    return files.save()


@pytest.mark.spark
def test_spark_has_the_rows_of_the_log(spark: SparkSession, broker: BrokerFiles) -> None:
    from zab.pipeline.topics.topic_source import read_topic

    frame = read_topic(spark, [broker.root])
    assert frame.columns == ALL
    found = [row.asDict(recursive=True) for row in frame.collect()]
    expected = rows_of(broker.root, ALL)
    for row in expected:
        row["timestamp"] = row["timestamp"].astimezone().replace(tzinfo=None)
    key = lambda row: (row["partition"], row["offset"])  # noqa: E731
    assert sorted(found, key=key) == sorted(expected, key=key)
    few = read_topic(spark, [broker.root], "t", columns=["offset", "topic"])
    assert few.columns == ["offset", "topic"]
    assert few.count() == len(expected)
    assert read_topic(spark, [broker.root], ["empty"]).count() == 0
    with pytest.raises(PipelineError, match="there is no column colour"):
        read_topic(spark, [broker.root], columns=["colour"])


@pytest.mark.spark
def test_sparks_own_interface(spark: SparkSession, broker: BrokerFiles) -> None:
    from zab.pipeline.reading.log_source import register

    register(spark)
    reader = spark.read.format("zab.topic").option("dirs", str(broker.root)).option("includeHeaders", "false")
    frame = reader.load()
    assert frame.columns == [name for name in ALL if name != "headers"]
    frame.createOrReplaceTempView("records")
    counted = spark.sql("SELECT partition, count(*), count(key), max(offset) FROM records GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in counted.collect()] == [(0, 49, 1, 49), (1, 47, 1, 46), (2, 47, 1, 46)]
    committed = reader.option("kafka.isolation.level", "read_committed").option("subscribe", "t")
    assert committed.schema("offset bigint").load().count() == 3 * 47
    one = committed.option("startingOffsets", '{"t": {"0": 3, "1": 40, "2": -2}}').schema("partition int").load()
    assert [tuple(row) for row in one.groupBy("partition").count().orderBy("partition").collect()] == [
        (0, 44),
        (1, 7),
        (2, 47),
    ]


@pytest.mark.spark
def test_damage_that_comes_later_ends_the_job_with_a_sentence(spark: SparkSession, broker: BrokerFiles) -> None:
    from zab.pipeline.spark_session import plain_errors
    from zab.pipeline.topics.topic_source import read_topic

    frame = read_topic(spark, [broker.root], columns=["offset"])
    file = broker.segments("t", 1)[0]
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(PipelineError, match=f"{file} (is damaged|has a gap).*damaged=skip"), plain_errors():
        frame.collect()


@pytest.mark.spark
def test_the_program_of_the_page(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = BrokerFiles(tmp_path / "logs")
    files.add("orders", batch([b"tea", b"milk"]), partition=1)
    files.save()
    page = Path(__file__).parents[3] / "docs" / "reference" / "pipeline.md"
    (program,) = re.findall(r"## Topics\n.*?```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    # Relative paths are those of the JVM, which has started elsewhere.
    assert program.count('"logs"') == 2
    exec(compile(program.replace('"logs"', f'"{files.root}"'), "page.py", "exec"), {"__name__": "__main__"})
    out = capsys.readouterr().out
    assert "|        1|    2|" in out
    assert "|     1| milk|" in out


def test_what_the_source_refuses(broker: BrokerFiles) -> None:
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

    from zab.pipeline.topics.topic_source import TopicSource

    for options, schema, sentence in (
        ({}, StructField("offset", LongType()), 'option "dirs" is missing'),
        (
            {"dirs": str(broker.root)},
            StructField("offset", IntegerType()),
            "zab.topic has no column offset int; it has key binary",
        ),
        ({"dirs": str(broker.root)}, StructField("colour", StringType()), "zab.topic has no column colour string"),
        ({"dirs": str(broker.root), "colour": "red"}, StructField("offset", LongType()), "unknown option colour"),
    ):
        with pytest.raises(PipelineError, match=sentence):
            TopicSource(options).reader(StructType([schema]))
