"""What the jobs that verify share in Spark: work that is spread by its bytes, and findings as rows."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from zab.pipeline.reading.planning import TASK_BYTES
from zab.pipeline.schema import Column, arrow_schema, ddl

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["as_rows", "spread"]

T = TypeVar("T")

_SLICES_MAX: Final = 4_096
_SLICES_PER_CORE: Final = 2


def spread(context: "SparkContext", items: Sequence[T], size: Callable[[T], int]) -> "RDD[T]":
    """Give each Spark task about as many bytes: one large file, or many small ones. Starting a task takes as long as
    reading some megabytes."""
    least = context.defaultParallelism * _SLICES_PER_CORE
    count = max(1, min(max(least, sum(map(size, items)) // TASK_BYTES), len(items), _SLICES_MAX))
    largest_first = sorted(items, key=size, reverse=True)
    return context.parallelize([largest_first[number::count] for number in range(count)], count).flatMap(_each)


def _each(items: Sequence[T]) -> Sequence[T]:
    return items


def as_rows(spark: "SparkSession", columns: Sequence[Column], findings: Iterable[object]) -> "DataFrame":
    """Rows with these columns, each of which is a field of a finding; in this order."""
    rows = [{column.name: getattr(finding, column.name) for column in columns} for finding in findings]
    if not rows:
        return spark.createDataFrame([], ddl(columns))
    return spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema(columns)))
