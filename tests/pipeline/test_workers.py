"""What Spark's Python workers do beside their tasks: nothing that was imported is looked through after each of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.types import StructType

from tests.pipeline.rigs.ensembles import Directories
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
