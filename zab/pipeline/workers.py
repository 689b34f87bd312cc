"""What the processes in which Spark runs Python do beside their tasks.

PySpark has such a process collect all garbage after each task, and with it look through whatever was ever imported:
65 ms with pandas and Arrow, more than a short task itself takes, and as much for each source that is planned. So a
task that finds more imported than the one before it puts all there is by then out of the collector's sight. A process
that serves one task alone, and the driver, are left as they are.

PySpark's process for the source of a stream ends by an exception when Spark stops the stream. If an answer was on its
way then, the connection is reset, and the exception cannot be told to Spark: it would be printed beside what the
driver says, for a stream that was stopped as it should be.
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
    """To be called first by whatever Spark calls in a worker."""
    global _modules_frozen
    if _IS_REUSED in os.environ and len(sys.modules) > _modules_frozen:
        _modules_frozen = len(sys.modules)
        gc.freeze()


def begin_stream() -> None:
    """To be called first by what Spark calls in the process of a stream's source."""
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
