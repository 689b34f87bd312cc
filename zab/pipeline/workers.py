"""What Spark's Python workers do beside their tasks.

PySpark makes a worker collect garbage after each task, which scans everything that was ever imported: 65 ms with pandas
and Arrow, more than a short task itself takes, and as much for each source that is planned. So a task that finds more
modules imported than the one before it freezes all objects (`gc.freeze`). A process that serves only one task, and the
driver, are left as they are.

PySpark's process for the source of a stream ends with an exception when Spark stops the stream. If an answer was under
way, the connection is reset, and the exception cannot be reported to Spark: Python would print it, although the stream
was stopped on purpose.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["begin_stream", "begin_task", "map_batches"]

Batches: TypeAlias = Iterator[pa.RecordBatch]

_IS_REUSED: Final = "SPARK_REUSE_WORKER"
"""The variable by which Spark tells a worker that more tasks will come; its collections depend on it as well."""


_modules_frozen = 0


def begin_task() -> None:
    """Every function that Spark calls in a worker calls this first."""
    global _modules_frozen
    if _IS_REUSED in os.environ and len(sys.modules) > _modules_frozen:
        _modules_frozen = len(sys.modules)
        gc.freeze()


def begin_stream() -> None:
    """Every function that Spark calls in the process of a stream's source calls this first."""
    sys.excepthook = _print_but_for_lost_connections


def _print_but_for_lost_connections(
    kind: type[BaseException], error: BaseException, where: TracebackType | None
) -> None:
    if not isinstance(error, ConnectionError):
        sys.__excepthook__(kind, error, where)


def map_batches(frame: "DataFrame", function: Callable[[Batches], Batches], schema: str) -> "DataFrame":
    """`frame.mapInArrow`: the rows of `schema` (DDL) that `function` makes of each partition's batches in a worker."""
    return frame.mapInArrow(partial(_run, function), schema)


def _run(function: Callable[[Batches], Batches], batches: Batches) -> Batches:
    begin_task()
    return function(batches)
