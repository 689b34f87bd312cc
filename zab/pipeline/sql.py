"""The vocabulary of the jobs: Spark's data frames, functions and windows, and filters that all jobs share."""

import datetime
from typing import Final

from pyspark.sql import Column as SqlColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from zab.pipeline.times import zoned

__all__ = [
    "COUNTER_MAX",
    "DataFrame",
    "F",
    "SqlColumn",
    "Window",
    "base_name",
    "in_range",
    "in_subtree",
    "milliseconds",
    "parent_path",
    "sequence_number",
]

COUNTER_MAX: Final = 2**31 - 1
"""The largest value of the counter that names sequential children: a signed number of 32 bits, which then wraps."""

_MICROSECONDS: Final = 1000


def parent_path(path: SqlColumn) -> SqlColumn:
    """The parent of an absolute path; that of "/" is null."""
    cut = F.regexp_extract(path, r"^(.*)/[^/]+$", 1)
    return F.when(path == "/", None).otherwise(F.when(cut == "", "/").otherwise(cut))


def base_name(path: SqlColumn) -> SqlColumn:
    """The part after the last slash."""
    return F.substring_index(path, "/", -1)


def in_subtree(path: SqlColumn, root: str) -> SqlColumn:
    """Whether a path is `root` or below it."""
    if root == "/":
        return path.isNotNull()
    return (path == root) | path.startswith(root + "/")


def sequence_number(path: SqlColumn, version: SqlColumn) -> SqlColumn:
    """The number in the name of a sequential znode; null for any other name.

    version: of its create, the parent's counter after it; if that is null, any ten digits at the end count."""
    counter = version.cast("bigint")
    number = F.when(counter == -COUNTER_MAX - 1, F.lit(COUNTER_MAX).cast("bigint")).otherwise(counter - 1)
    digits = F.regexp_extract(path, r"(\d{10})$", 1)
    return F.when(path.endswith(F.format_string("%010d", number)), number).when(
        counter.isNull() & (digits != ""), digits.cast("bigint")
    )


def milliseconds(begin: SqlColumn, end: SqlColumn) -> SqlColumn:
    """The milliseconds from one timestamp to another."""
    return ((F.unix_micros(end) - F.unix_micros(begin)) / _MICROSECONDS).cast("bigint")


def in_range(
    *,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    time: str = "time",
    zxid: str = "zxid",
) -> SqlColumn:
    """Whether a row lies within all given, inclusive bounds. Raises PipelineError for a time without a zone."""
    condition = F.lit(True)
    if since is not None:
        condition &= F.col(time) >= F.lit(zoned(since))
    if until is not None:
        condition &= F.col(time) <= F.lit(zoned(until))
    if zxid_min is not None:
        condition &= F.col(zxid) >= zxid_min
    if zxid_max is not None:
        condition &= F.col(zxid) <= zxid_max
    return condition
