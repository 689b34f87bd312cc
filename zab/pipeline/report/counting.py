"""What the parts of the report are counted with: what is read, buckets of time, and the largest of many rows.

Not here: which facts there are (`collect`, `clients`).
"""

import datetime
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from zab.pipeline.inventory import Dirs
from zab.pipeline.reading.frames import read_log
from zab.pipeline.report.facts import Histogram, Scale
from zab.pipeline.sql import DataFrame, F, SqlColumn, Window

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = [
    "Bounds",
    "Reading",
    "Rows",
    "bucket_of",
    "by_ensemble",
    "histogram_of",
    "milliseconds_of",
    "power_of",
    "top_of",
    "utc",
]

Rows = list["Row"]


@frozen
class Bounds:
    """Which part of the history; None is all of it."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    zxid_min: int | None = None
    zxid_max: int | None = None

    def as_job(self) -> dict[str, Any]:
        """The bounds as arguments of the jobs."""
        return {name: getattr(self, name) for name in ("since", "until", "zxid_min", "zxid_max")}

    def as_reading(self, *, past: bool = False) -> dict[str, Any]:
        """The bounds as arguments of `read_log`. past: without the lower ones."""
        low = {} if past else {"zxid_min": self.zxid_min, "time_min": self.since}
        return {**low, "zxid_max": self.zxid_max, "time_max": self.until}


@frozen
class Reading:
    """What is read, and how. bare_closes: the argument of the jobs. `say` is called with what is being counted."""

    spark: "SparkSession"
    dirs: Dirs
    bounds: Bounds
    uncommitted: bool
    bare_closes: bool
    say: Callable[[str], None] = field(default=lambda _text: None)

    def log(self, columns: Sequence[str], *, past: bool = False, members: Any = "one") -> DataFrame:
        return read_log(
            self.spark, self.dirs, columns=columns, members=members, uncommitted=self.uncommitted,
            **self.bounds.as_reading(past=past),
        )  # fmt: skip


def utc(time: datetime.datetime) -> datetime.datetime:
    """Spark's times come without a zone, in that of this process."""
    return time.astimezone(datetime.UTC)


def milliseconds_of(time: datetime.datetime) -> int:
    return round(time.timestamp() * 1000)


def bucket_of(scale: Scale, time: str = "time") -> SqlColumn:
    """The number of the bucket in which a time lies; times outside of the scale lie in the first or last."""
    since = milliseconds_of(scale.since)
    number = F.floor((F.unix_millis(time) - since) / scale.width_ms)
    return F.least(F.greatest(number, F.lit(0)), F.lit(scale.count - 1)).cast("int")


def power_of(value: SqlColumn) -> SqlColumn:
    """The bin of powers of two: 0 for values below 1, else 1 + the power below."""
    return F.when(value < 1, 0).otherwise(F.floor(F.log2(value)) + 1).cast("int")


def histogram_of(bins: dict[int, int]) -> Histogram | None:
    if not bins:
        return None
    last = max(bins)
    edges = (0.0, *(float(1 << power) for power in range(last + 1)))
    return Histogram(edges[: last + 2], tuple(bins.get(index, 0) for index in range(last + 1)))


def top_of(frame: DataFrame, order: SqlColumn, count: int, *ties: str) -> DataFrame:
    """The first rows of each ensemble, and `total`, how many it has."""
    of_ensemble = Window.partitionBy("ensemble")
    place = F.row_number().over(of_ensemble.orderBy(order, *ties))
    return frame.withColumn("total", F.count("*").over(of_ensemble)).withColumn("place", place).where(
        F.col("place") <= count
    )  # fmt: skip


def by_ensemble(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["place"]):
        found[row["ensemble"]].append(row)
    return found
