"""Logs as DataFrames: the Python interface of the data sources `zab.log` and `zab.damage`."""

import json
import warnings
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from zab.pipeline.errors import PipelineError, WholeLogWarning
from zab.pipeline.inventory import Dirs, inventory
from zab.pipeline.reading.log_source import DamageSource, LogSource, pack_plan, register, size_warning
from zab.pipeline.reading.options import PLAN
from zab.pipeline.reading.planning import Members, Range, plan
from zab.pipeline.schema import DAMAGE, LOG, Column, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_damage", "read_log", "register"]


def _read(
    spark: "SparkSession", source: str, dirs: Dirs, known: Iterable[Column], names: Iterable[str] | None,
    wanted: Range, members: Members, uncommitted: bool,
) -> "DataFrame":  # fmt: skip
    columns = {column.name: column for column in known}
    chosen = list(columns) if names is None else list(names)
    for name in chosen:
        if name not in columns:
            raise PipelineError(f"there is no column {name}; there are {', '.join(columns)}")
    found = inventory(dirs)
    warning = size_warning(found, wanted)
    if warning is not None:
        warnings.warn(warning, WholeLogWarning, stacklevel=3)
    tasks = plan(found, wanted, members=members, uncommitted=uncommitted, whole_files=source == DamageSource.name())
    register(spark)
    reader = spark.read.format(source).schema(ddl(columns[name] for name in chosen))
    return reader.option("dirs", json.dumps(found.dirs)).option(PLAN, pack_plan(tasks)).load()


def read_log(
    spark: "SparkSession",
    dirs: Dirs,
    *,
    columns: Iterable[str] | None = None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    time_min: datetime | int | None = None,
    time_max: datetime | int | None = None,
    members: Members = "all",
    uncommitted: bool = False,
) -> "DataFrame":
    """The transactions in the logs of these directories, one row each (a multi: one for each part), as `schema.LOG`.

    `columns` are the names of the columns, in their order; fewer cost less. The bounds are inclusive; times are
    datetimes with a zone or ms since 1970. `members`: "all" gives every member's log, "one" gives each transaction of
    an ensemble once. Without `uncommitted`, nothing is shown that a change of leader could take away (`visible`). The
    DataFrame shows the logs as of this call. Filters on it only drop rows after they were read: to read less, give
    bounds and `columns`. A large log without bounds causes a WholeLogWarning. Raises PipelineError."""
    wanted = Range.of(zxid_min, zxid_max, time_min, time_max)
    return _read(spark, LogSource.name(), dirs, LOG, columns, wanted, members, uncommitted)


def read_damage(
    spark: "SparkSession",
    dirs: Dirs,
    *,
    columns: Iterable[str] | None = None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    time_min: datetime | int | None = None,
    time_max: datetime | int | None = None,
    members: Members = "all",
    uncommitted: bool = False,
) -> "DataFrame":
    """The damage in the logs of these directories, one row each, as `schema.DAMAGE`: bytes that cannot be read, and
    missing transactions. Files that lie outside of the bounds are skipped, all others are read as a whole. Raises
    PipelineError."""
    wanted = Range.of(zxid_min, zxid_max, time_min, time_max)
    return _read(spark, DamageSource.name(), dirs, DAMAGE, columns, wanted, members, uncommitted)
