"""The health of the replicas, for the report: the findings of `verify`, with times, as many as a page can hold."""

import datetime
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from zab.pipeline.inventory import Dirs, Inventory
from zab.pipeline.jobs.verify import verify
from zab.pipeline.report.facts import ROWS_MAX, Health, Problem
from zab.pipeline.sql import F, Window

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = ["TimeOf", "health"]

TimeOf = Callable[[str, int], datetime.datetime | None]
"""Finds about when the transaction of an ensemble with this zxid was made; None if that is not known."""

# The page shows these elsewhere, or every healthy ensemble has them.
_UNTOLD: Final = ("holds", "epoch", "replayed")


def health(
    spark: "SparkSession", dirs: Dirs, found: Inventory, time_of: TimeOf, *, snapshots: bool = False
) -> dict[str, Health]:
    """The health of each ensemble in these directories. snapshots: read them, too, and compare them. Raises
    PipelineError."""
    # `verify` returns them in order, which a table of Spark does not keep.
    findings = verify(spark, dirs, snapshots=snapshots).withColumn("order", F.monotonically_increasing_id())
    of_kind = Window.partitionBy("ensemble", "deviation")
    rows = (
        findings.where(~F.col("kind").isin(*_UNTOLD))
        .withColumn("total", F.count("*").over(of_kind))
        .withColumn("place", F.row_number().over(of_kind.orderBy("order")))
        .where(F.col("place") <= ROWS_MAX)
        .collect()
    )
    told: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["place"]):
        told[row["ensemble"], row["deviation"]].append(row)
    return {
        ensemble: Health(
            problems=tuple(_problem(row, time_of) for row in told[ensemble, True]),
            problem_count=told[ensemble, True][0]["total"] if told[ensemble, True] else 0,
            stated=tuple(_problem(row, time_of) for row in told[ensemble, False]),
            checked=_checked(len(members), snapshots=snapshots),
        )
        for ensemble, members in found.ensembles.items()
    }


def _problem(row: "Row", time_of: TimeOf) -> Problem:
    return Problem(
        member=row["member"],
        kind=row["kind"],
        sentence=row["sentence"],
        file=row["file"],
        offset=row["offset"],
        zxid=row["zxid"],
        time=None if row["zxid"] is None else time_of(row["ensemble"], row["zxid"]),
    )


def _checked(members: int, *, snapshots: bool) -> str:
    what = "Checked: all checksums; that no transaction is missing or out of order; the chains of batches"
    if members > 1:
        what += f"; that all {members} members hold the same bytes"
    return f"{what}; that snapshots are what the logs say." if snapshots else f"{what}. Snapshots were not read."
