"""Topics as a stream: its offsets without Spark and without brokers, then with both, and across a killed driver."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, field
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from tests.rigs.kafka_broker import kafka_broker
from tests.rigs.quick_java import quick_java
from tests.rigs.waiting import LONG_PATIENCE_SECONDS
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import STREAMED
from zab.pipeline.topics.brokers import Fetched, OutOfRangeError, Place, Topic
from zab.pipeline.topics.options import StreamOptions
from zab.pipeline.topics.topic_stream import TopicStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERYTHING = ReadAllAvailable()


@define
class MemoryBrokers:
    """Brokers whose partitions are lists; `begins`: the first offset that is there."""

    ids: dict[str, str] = field(factory=dict)
    logs: dict[Place, list[bytes]] = field(factory=dict)
    begins: dict[Place, int] = field(factory=dict)
    closed: int = 0

    def add(self, topic: str, partition: int, count: int, ident: str = "first") -> None:
        self.ids[topic] = ident
        log = self.logs.setdefault((topic, partition), [])
        log += [b"%d" % (len(log) + number) for number in range(count)]

    def topics(self) -> dict[str, Topic]:
        names = {name for name, _ in self.logs}
        return {
            name: Topic(name, self.ids[name], tuple(n for t, n in sorted(self.logs) if t == name)) for name in names
        }

    def bounds(self, places: Sequence[Place]) -> dict[Place, tuple[int, int]]:
        return {place: (self.begins.get(place, 0), len(self.logs[place])) for place in places}

    def offsets_at(self, times_ms: Mapping[Place, int]) -> dict[Place, int | None]:
        return {place: time if time < len(self.logs[place]) else None for place, time in times_ms.items()}

    def fetch(self, place: Place, start: int, until: int) -> Iterator[Fetched]:
        log = self.logs[place]
        for offset in range(start, until, 3):
            if not self.begins.get(place, 0) <= offset < len(log):
                raise OutOfRangeError
            end = min(until, offset + 3, len(log))
            yield Fetched([(one, one, 0, None, log[one], [("h", b"1")]) for one in range(offset, end)], end)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def brokers() -> MemoryBrokers:
    found = MemoryBrokers()
    found.add("t", 0, 10)
    found.add("t", 1, 4)
    return found


def reader_of(brokers: MemoryBrokers, **options: str) -> TopicStreamReader:
    given = {"kafka.bootstrap.servers": "memory:1", "subscribe": "t", "startingOffsets": "earliest", **options}
    return TopicStreamReader(StreamOptions.parse(given), ("partition", "offset", "value"), lambda _: brokers)


def begun(reader: TopicStreamReader) -> dict[str, Any]:
    offset = reader.latestOffset(reader.initialOffset(), EVERYTHING)
    assert reader.partitions(reader.initialOffset(), offset) == [], "the first batch is empty"
    return offset


def go_on(reader: TopicStreamReader, start: dict[str, Any], limit: ReadLimit = EVERYTHING) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(start, limit)))
    return found


def read(reader: TopicStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert all(row["value"] == b"%d" % row["offset"] for row in rows)
    return [(row["partition"], row["offset"]) for row in rows]


def positions(offset: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: one["partitions"] for name, one in offset["topics"].items()}


def test_offsets_are_the_positions_of_partitions(brokers: MemoryBrokers) -> None:
    reader = reader_of(brokers)
    start = begun(reader)
    assert start == {"version": 1, "topics": {"t": {"id": "first", "partitions": {"0": 0, "1": 0}}}}
    end = go_on(reader, start)
    assert positions(end) == {"t": {"0": 10, "1": 4}}
    assert read(reader, start, end) == [(0, n) for n in range(10)] + [(1, n) for n in range(4)]
    assert go_on(reader, end) == end
    assert reader.reportLatestOffset() == end
    brokers.add("t", 1, 2)
    assert read(reader, end, go_on(reader, end)) == [(1, 4), (1, 5)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingOffsets": "latest"}, {"0": 10, "1": 4}),
        ({"startingOffsets": '{"t": {"0": 3, "1": -1}}'}, {"0": 3, "1": 4}),
        ({"startingOffsets": '{"t": {"0": -2, "1": 2}}'}, {"0": 0, "1": 2}),
        ({"startingTimestamp": "3"}, {"0": 3, "1": 3}),
        ({"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "latest"}, {"0": 7, "1": 4}),
        ({"startingOffsets": '{"t": {"0": 99, "1": 0}}', "failOnDataLoss": "false"}, {"0": 10, "1": 0}),
    ],
)
def test_where_it_starts(brokers: MemoryBrokers, options: dict[str, str], expected: dict[str, int]) -> None:
    assert positions(begun(reader_of(brokers, **options))) == {"t": expected}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "x"}, "no topic x; the topics are t"),
        ({"startingOffsets": '{"t": {"0": 99, "1": 0}}'}, "offset 99 of partition 0 of t is not there"),
        ({"startingOffsets": '{"t": {"0": 1}}'}, "do not name partition 1 of t"),
        ({"startingTimestamp": "7"}, "partition 1 of t: no record has a timestamp"),
        ({"maxOffsetsPerTrigger": "0"}, "no number of offsets"),
        ({"endingOffsets": "latest"}, "a stream of topics has no option endingoffsets"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is missing"),
    ],
)
def test_wrong_options_are_refused(brokers: MemoryBrokers, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence):
        begun(reader_of(brokers, **options))


def test_a_batch_has_so_many_offsets_at_most(brokers: MemoryBrokers) -> None:
    reader = reader_of(brokers, maxOffsetsPerTrigger="6")
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert limit.max_rows == 6
    start, seen = begun(reader), []
    while (end := go_on(reader, start, limit)) != start:
        seen.append(positions(end)["t"])
        start = end
    assert seen == [{"0": 3, "1": 3}, {"0": 8, "1": 4}, {"0": 10, "1": 4}]
    one = go_on(reader, begun(reader), ReadMaxRows(1))
    assert positions(one) == {"t": {"0": 1, "1": 0}}


def test_available_now_ends_where_it_began(brokers: MemoryBrokers) -> None:
    start = begun(reader_of(brokers))
    brokers.add("t", 2, 5)
    reader = reader_of(brokers)
    reader.prepareForTriggerAvailableNow()
    brokers.add("t", 0, 5)
    brokers.add("t", 3, 5)
    end = go_on(reader, start)
    assert positions(end) == {"t": {"0": 10, "1": 4, "2": 0}}
    last = go_on(reader, end)
    assert positions(last) == {"t": {"0": 10, "1": 4, "2": 5}}
    assert go_on(reader, last) == last


def test_a_new_partition_is_read_from_its_beginning(brokers: MemoryBrokers) -> None:
    reader = reader_of(brokers, startingOffsets="latest")
    start = begun(reader)
    brokers.add("t", 2, 3)
    noted = go_on(reader, start)
    assert read(reader, start, noted) == []
    assert read(reader, noted, go_on(reader, noted)) == [(2, 0), (2, 1), (2, 2)]


def test_a_topic_that_was_created_again_is_refused(brokers: MemoryBrokers) -> None:
    reader = reader_of(brokers)
    start = begun(reader)
    end = go_on(reader, start)
    parts = reader.partitions(start, end)
    brokers.ids["t"] = "second"
    for refused in (
        lambda: go_on(reader_of(brokers), end),
        lambda: reader_of(brokers).partitions(start, end),
        lambda: list(reader.read(parts[0])),
    ):
        with pytest.raises(PipelineError, match=r"t was deleted and created again.*first.*second"):
            refused()


def test_what_was_deleted_is_an_error_or_left_out(brokers: MemoryBrokers) -> None:
    strict, lenient = reader_of(brokers), reader_of(brokers, failOnDataLoss="false")
    start = begun(strict)
    planned = go_on(strict, start)
    brokers.begins["t", 0] = 6
    with pytest.raises(PipelineError, match="offset 0 of partition 0 of t is not there, the brokers have 6 to 10"):
        go_on(strict, start)
    with pytest.raises(PipelineError, match="offset 0 of partition 0 of t is no longer there"):
        read(strict, start, planned)
    assert read(lenient, start, planned)[:4] == [(0, 6), (0, 7), (0, 8), (0, 9)]
    assert positions(go_on(lenient, start, ReadMaxRows(2))) == {"t": {"0": 7, "1": 1}}


def test_what_was_taken_away_at_the_end(brokers: MemoryBrokers) -> None:
    strict, lenient = reader_of(brokers), reader_of(brokers, failOnDataLoss="false")
    start = begun(strict)
    end = go_on(strict, start)
    del brokers.logs["t", 0][7:]
    with pytest.raises(PipelineError, match="offset 10 of partition 0 of t is not there, the brokers have 0 to 7"):
        go_on(strict, end)
    assert positions(go_on(lenient, end)) == {"t": {"0": 7, "1": 4}}
    assert [row for row in read(lenient, start, end) if row[0] == 0] == [(0, n) for n in range(7)]


def test_a_partition_that_is_gone(brokers: MemoryBrokers) -> None:
    strict, lenient = reader_of(brokers), reader_of(brokers, failOnDataLoss="false")
    end = go_on(strict, begun(strict))
    del brokers.logs["t", 1]
    with pytest.raises(PipelineError, match="partition 1 of t is gone"):
        go_on(strict, end)
    assert positions(go_on(lenient, end)) == {"t": {"0": 10}}


def test_a_foreign_checkpoint_is_refused(brokers: MemoryBrokers) -> None:
    for offset in ({"version": 2}, {"version": 1}, {"version": 1, "topics": {"t": []}}):
        with pytest.raises(PipelineError, match="checkpoint"):
            go_on(reader_of(brokers), offset)


def test_large_batches_are_read_by_several_tasks(brokers: MemoryBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zab.pipeline.topics.topic_stream.TASK_OFFSETS", 4)
    reader = reader_of(brokers)
    start = begun(reader)
    end = go_on(reader, start)
    assert len(reader.partitions(start, end)) == 4
    assert read(reader, start, end) == [(0, n) for n in range(10)] + [(1, n) for n in range(4)]
    before = brokers.closed
    list(reader.read(reader.partitions(start, end)[0]))
    assert brokers.closed == before + 1


def test_a_reader_travels_without_its_connections() -> None:
    reader = TopicStreamReader(StreamOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}), ("offset",))
    assert reader.brokers is not None
    copy = pickle.loads(pickle.dumps(reader))
    assert (copy.options, copy.columns, copy._brokers) == (reader.options, reader.columns, None)


def test_what_is_read_how() -> None:
    from pyspark.sql.types import LongType, StructField, StructType

    from zab.pipeline.topics.topic_source import TopicSource

    schema = StructType([StructField("offset", LongType())])
    with pytest.raises(PipelineError, match="brokers are read as a stream"):
        TopicSource({"kafka.bootstrap.servers": "a:1"}).reader(schema)
    with pytest.raises(PipelineError, match=r"give it kafka\.bootstrap.servers"):
        TopicSource({"dirs": "/a"}).streamReader(schema)
    other = StructType([StructField("position", LongType())])
    with pytest.raises(PipelineError, match=r"zab\.topic has no column position bigint; it has key binary"):
        TopicSource({"kafka.bootstrap.servers": "a:1"}).streamReader(other)


# With Spark and a broker.

DRIVER = """
import sys
from zab.pipeline.spark_session import job_session
from zab.pipeline.topics.topic_source import TopicSource
address, out, checkpoint = sys.argv[1:]
with job_session("local[2]", memory="512m", is_short=True) as spark:
    spark.dataSource.register(TopicSource)
    source = spark.readStream.format("zab.topic").option("kafka.bootstrap.servers", address)
    source = source.option("subscribe", "kills").option("startingOffsets", "earliest")
    frame = source.option("maxOffsetsPerTrigger", "40").load()
    sink = frame.writeStream.format("parquet").option("path", out).option("checkpointLocation", checkpoint)
    sink.trigger(processingTime="0 seconds").start().awaitTermination()
"""


def numbers(directory: Path) -> set[int]:
    if not directory.exists():
        return set()
    names = (name.removesuffix(".compact") for name in os.listdir(directory))
    return {int(name) for name in names if name.isdecimal()}


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.longest
def test_each_record_once_across_a_killed_driver(spark: SparkSession, tmp_path: Path) -> None:
    from kafka import KafkaProducer

    from zab.pipeline.reading.log_source import register

    out, checkpoint, log = tmp_path / "out", tmp_path / "checkpoint", tmp_path / "driver.log"
    offsets, commits = checkpoint / "offsets", checkpoint / "commits"
    with kafka_broker(tmp_path / "broker") as broker:
        producer = KafkaProducer(bootstrap_servers=broker.address)
        for number in range(400):
            producer.send("kills", b"%d" % number, headers=[("h", b"%d" % number)])
        producer.flush()
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(quick_java("spark"))}
        command = [sys.executable, "-c", DRIVER, broker.address, str(out), str(checkpoint)]
        with log.open("wb") as output:
            driver = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
        try:
            deadline = time.monotonic() + LONG_PATIENCE_SECONDS
            while not (len(numbers(commits)) > 2 and numbers(offsets) - numbers(commits)):
                assert driver.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.002)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        written = len(numbers(commits))
        assert written < 11, "it was killed on the way"
        for number in range(400, 500):
            producer.send("kills", b"%d" % number)
        producer.close()
        register(spark)
        source = spark.readStream.format("zab.topic").option("kafka.bootstrap.servers", broker.address)
        frame = source.option("subscribe", "kills").option("maxOffsetsPerTrigger", "100").load()
        assert frame.columns == [column.name for column in STREAMED]
        sink = frame.writeStream.format("parquet").option("path", str(out))
        sink = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        sink.start().awaitTermination()
        rows = spark.read.parquet(str(out)).collect()
    assert sorted(int(row.value) for row in rows) == [*range(500)]
    assert all(row.offset == int(row.value) for row in rows)
    headed = [row for row in rows if int(row.value) < 400]
    assert all([(one.key, bytes(one.value)) for one in row.headers] == [("h", bytes(row.value))] for row in headed)
    assert len(numbers(commits)) > written


@pytest.mark.cluster
@pytest.mark.spark
@pytest.mark.longest
def test_the_program_of_the_page(spark: SparkSession, tmp_path: Path) -> None:
    from kafka import KafkaProducer

    page = Path(__file__).parents[3] / "docs" / "reference" / "pipeline.md"
    found = re.findall(r"### A stream from brokers\n\n```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    (program,) = found
    # Relative paths are those of the JVM, which has started elsewhere.
    for named, given in (("rows", f"{tmp_path}/rows"), ("done", f"{tmp_path}/done")):
        assert program.count(f'"{named}"') == 1
        program = program.replace(f'"{named}"', f'"{given}"')
    assert "127.0.0.1:9092" in program
    with kafka_broker(tmp_path / "broker") as broker:
        producer = KafkaProducer(bootstrap_servers=broker.address)
        for values in ([b"tea", b"milk"], [b"salt"]):
            for value in values:
                producer.send("orders", value)
            producer.flush()
            exec(compile(program.replace("127.0.0.1:9092", broker.address), "page.py", "exec"), {})
        producer.close()
    rows = spark.read.parquet(f"{tmp_path}/rows").orderBy("offset").collect()
    assert [(row.offset, bytes(row.value)) for row in rows] == [(0, b"tea"), (1, b"milk"), (2, b"salt")]
