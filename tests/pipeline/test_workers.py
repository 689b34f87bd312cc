"""What Spark's Python workers do beside their tasks: nothing that was imported is looked through after each of them."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer, read_int, write_int, write_with_length
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.types import LongType, StructField, StructType

from tests.pipeline.rigs.ensembles import Directories
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.pipeline import workers
from zab.pipeline.reading.log_source import DamageSource, LogSource
from zab.pipeline.reading.snapshot_source import SnapshotSource
from zab.pipeline.workers import begin_task, map_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IMPORTED_MIN = 20_000
"""So many objects at the least that the collector knows come with PySpark and Arrow."""


class Collector:
    """Stands for the garbage collector of a process."""

    def __init__(self) -> None:
        self.times_frozen = 0

    def freeze(self) -> None:
        self.times_frozen += 1


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    found = Collector()
    monkeypatch.setattr(workers, "gc", found)
    monkeypatch.setattr(workers, "_modules_frozen", 0)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    return found


def test_a_worker_freezes_what_it_has_imported_once(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3):
        begin_task()
    assert collector.times_frozen == 1
    monkeypatch.setitem(sys.modules, "imported.by.the.task.before", ModuleType("other"))
    for _ in range(3):
        begin_task()
    assert collector.times_frozen == 2


def test_a_process_that_no_more_tasks_come_to_is_left_alone(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_REUSE_WORKER")
    begin_task()
    assert collector.times_frozen == 0


@pytest.mark.parametrize("kind", [LogSource, DamageSource, SnapshotSource])
def test_each_step_of_a_source_begins_a_task(
    kind: type[DataSource], collector: Collector, zab_directories: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = kind({"dirs": ",".join(map(str, zab_directories.members))})
    assert collector.times_frozen == 0
    source.schema()
    assert collector.times_frozen == 1
    monkeypatch.setattr(workers, "_modules_frozen", 0)
    reader = source.reader(StructType())
    assert collector.times_frozen == 2
    monkeypatch.setattr(workers, "_modules_frozen", 0)
    list(reader.read(InputPartition(None)))
    assert collector.times_frozen == 3


def test_a_step_over_batches_begins_a_task(collector: Collector) -> None:
    batch = pa.RecordBatch.from_pydict({"number": [1, 2]})
    frozen: list[int] = []

    def doubled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        frozen.append(collector.times_frozen)
        for each in batches:
            yield from (each, each)

    frame = SimpleNamespace(mapInArrow=lambda function, schema: (schema, list(function(iter([batch])))))
    assert map_batches(frame, doubled, "number bigint") == ("number bigint", [batch, batch])
    assert frozen == [1]


def frozen_count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"count": pa.array([gc.get_freeze_count()], pa.int64())})


def test_sparks_workers_are_known_by_their_environment(spark: SparkSession) -> None:
    """The variable is Spark's, and nothing but PySpark's sources says what it is for."""
    counts = map_batches(spark.range(2), frozen_count, "count bigint").collect()
    assert min(row["count"] for row in counts) > IMPORTED_MIN


ROWS_IN_BATCH = 10_000


def test_a_streams_process_that_spark_has_left_says_nothing(tmp_path: Path) -> None:
    """Spark stops a stream by closing the connection to it, also while an answer is on its way: that resets it.

    PySpark's process has no other way to end then than by an exception, on the driver's standard error."""
    command = [sys.executable, "-m", runner.__name__]
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        server.settimeout(PATIENCE_SECONDS)
        port = str(server.getsockname()[1])
        environment = {**os.environ, "PYTHON_WORKER_FACTORY_PORT": port, "PYTHON_WORKER_FACTORY_SECRET": "s"}
        process = stack.enter_context(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE))
        connection, _ = server.accept()
        connection.settimeout(PATIENCE_SECONDS)
        with connection, connection.makefile("rwb") as stream:
            assert stream.read(read_int(stream)) == b"s"
            write_with_length(b"ok", stream)
            write_with_length(b"%d.%d" % sys.version_info[:2], stream)
            write_with_length(bytes(tmp_path), stream)
            write_int(0, stream)
            write_with_length(CloudPickleSerializer().dumps(LogSource({"dirs": str(tmp_path)})), stream)
            write_with_length(StructType([StructField("zxid", LongType())]).json().encode(), stream)
            write_int(ROWS_IN_BATCH, stream)
            stream.flush()
            assert (read_int(stream), read_int(stream)) == (process.pid, 0)
            write_int(runner.CHECK_SUPPORTED_FEATURES_ID, stream)
            stream.flush()
            assert connection.recv(1, socket.MSG_PEEK)
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(PATIENCE_SECONDS) != 0
