"""Counts for the report what clients did: their sessions, and the locks and elections that they held."""

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from zab.pipeline.jobs import locks as locks_job
from zab.pipeline.jobs import sessions as sessions_job
from zab.pipeline.report.counting import Reading, bucket_of, by_ensemble, histogram_of, power_of, top_of, utc
from zab.pipeline.report.facts import ROWS_MAX, LockRow, Locks, Scale, Sessions, Wave
from zab.pipeline.sql import DataFrame, F, Window

if TYPE_CHECKING:
    from pyspark.sql import Row

__all__ = ["locks", "sessions"]


def sessions(reading: Reading, scale: Scale) -> dict[str, Sessions]:
    reading.say("sessions")
    log = reading.log(sessions_job.COLUMNS, past=True)
    lives = sessions_job.sessions(log, bare_closes=reading.bare_closes, **reading.bounds.as_job()).persist()
    try:
        return _lives(lives, scale)
    finally:
        lives.unpersist()


def _lives(lives: DataFrame, scale: Scale) -> dict[str, Sessions]:
    # A session is counted where it was opened and where it ended; rows without a bucket are the totals.
    steps = F.array(
        F.struct(F.lit("there").alias("event"), F.lit(-1).alias("bucket")),
        F.when(
            F.col("opened").isNotNull(),
            F.struct(F.lit("opened").alias("event"), bucket_of(scale, "opened").alias("bucket")),
        ),
        F.when(
            F.col("ended").isNotNull(),
            F.struct(F.lit("ended").alias("event"), bucket_of(scale, "ended").alias("bucket")),
        ),
    )
    events = lives.select("ensemble", "ending", "lived_ms", F.explode(F.array_compact(steps)).alias("step"))
    event, ending = F.col("step.event"), F.col("ending")
    counted = events.rollup("ensemble", F.col("step.bucket").alias("bucket")).agg(
        F.count_if(event == "there").alias("count"),
        F.count_if(event == "opened").alias("opened"),
        F.count_if(event == "ended").alias("ended"),
        F.count_if((event == "ended") & (ending == sessions_job.CLOSED)).alias("closed"),
        F.count_if((event == "ended") & (ending == sessions_job.EXPIRED)).alias("expired"),
        F.count_if((event == "ended") & (ending == sessions_job.UNTOLD)).alias("untold"),
        F.percentile_approx(F.when(event == "ended", F.col("lived_ms")), 0.5).alias("median"),
    )
    by_bucket: dict[str, dict[int, Any]] = defaultdict(dict)
    totals: list[Row] = []
    for row in counted.where("ensemble is not null").collect():
        if row["bucket"] is None:
            totals.append(row)
        else:
            by_bucket[row["ensemble"]][row["bucket"]] = row
    waves = sessions_job.waves(lives, least=2).select("ensemble", "began", "began_zxid", "sessions", "ephemerals")
    largest = by_ensemble(top_of(waves, F.desc("sessions"), ROWS_MAX, "began_zxid").collect())
    found = {}
    for row in totals:
        ensemble = row["ensemble"]
        open_counts, expired_counts = _open_counts(row["count"] - row["opened"], by_bucket[ensemble], scale)
        found[ensemble] = Sessions(
            opened=row["opened"],
            closed=row["closed"],
            expired=row["expired"],
            untold=row["untold"],
            open_at_end=row["count"] - row["closed"] - row["expired"] - row["untold"],
            open_counts=open_counts,
            expired_counts=expired_counts,
            waves=tuple(
                Wave(utc(wave["began"]), wave["sessions"], wave["ephemerals"]) for wave in largest.get(ensemble, [])
            ),
            median_life_ms=row["median"],
        )
    return found


def _open_counts(before: int, buckets: dict[int, Any], scale: Scale) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many are open at the end of each bucket, and how many expire in it; `before` were open before the log."""
    opened, expired, count = [], [], before
    for bucket in range(scale.count):
        row = buckets.get(bucket)
        if row is not None:
            count += row["opened"] - row["ended"]
        opened.append(count)
        expired.append(row["expired"] if row is not None else 0)
    return tuple(opened), tuple(expired)


def locks(reading: Reading) -> dict[str, Locks]:
    reading.say("locks")
    log = reading.log(locks_job.COLUMNS, past=True)
    queue = locks_job.locks(log, bare_closes=reading.bare_closes, **reading.bounds.as_job())
    queue = queue.where("role <> 'other'").persist()
    try:
        return _queues(queue)
    finally:
        queue.unpersist()


def _queues(queue: DataFrame) -> dict[str, Locks]:
    overlapping = locks_job.overlaps(queue).groupBy("ensemble", "lock").agg(F.count("*").alias("overlaps"))
    summary = locks_job.lock_summary(queue).where("turns > 0").join(overlapping, ["ensemble", "lock"], "left")
    of_ensemble = Window.partitionBy("ensemble")
    summary = summary.withColumn("all_turns", F.sum("turns").over(of_ensemble)).withColumn(
        "all_overlaps", F.sum(F.coalesce("overlaps", F.lit(0))).over(of_ensemble)
    )
    rows = by_ensemble(top_of(summary, F.desc("turns"), ROWS_MAX, "lock").collect())
    # Counts by bin, and with no bin the median of all.
    waits = queue.where("handover_ms is not null").rollup("ensemble", power_of(F.col("handover_ms")).alias("bin"))
    middles = waits.agg(
        F.count("*").alias("count"),
        F.percentile_approx("handover_ms", 0.5).alias("median"),
        F.max("handover_ms").alias("longest"),
    )
    bins: dict[str, dict[int, int]] = defaultdict(dict)
    medians: dict[str, Row] = {}
    for row in middles.where("ensemble is not null").collect():
        if row["bin"] is None:
            medians[row["ensemble"]] = row
        else:
            bins[row["ensemble"]][row["bin"]] = row["count"]
    found = {}
    for ensemble, of_locks in rows.items():
        middle = medians.get(ensemble)
        found[ensemble] = Locks(
            rows=tuple(_lock_row(row) for row in of_locks),
            lock_count=of_locks[0]["total"],
            hold_count=of_locks[0]["all_turns"],
            overlap_count=of_locks[0]["all_overlaps"],
            median_handover_ms=None if middle is None else middle["median"],
            longest_handover_ms=None if middle is None else middle["longest"],
            handovers=histogram_of(bins[ensemble]),
        )
    return found


def _lock_row(row: "Row") -> LockRow:
    return LockRow(
        path=row["lock"],
        holds=row["turns"],
        sessions=row["sessions"],
        median_handover_ms=row["handover_ms"],
        longest_handover_ms=row["handover_ms_max"],
        longest_hold_ms=row["held_ms_max"],
        longest_wait_ms=row["waited_ms_max"],
        overlaps=row["overlaps"] or 0,
    )
