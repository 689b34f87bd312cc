"""Finds the facts of the report: a few aggregations in Spark, of which only small results reach the driver.

    collect(spark, dirs, …) -> list[EnsembleFacts]

The jobs do the work (`hotspots`, `sessions`, `locks`, `verify`); here their results are counted by bucket of time, by
path or by lock, and cut to what a page can hold. Each aggregation reads the columns that it needs and no others.

Invariants: what is collected is bounded by `BUCKETS_MAX` and `ROWS_MAX` for each ensemble, whatever the size of the
directories. Not here: what the facts mean and how they are shown.
"""

import datetime
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from datatree.opcodes import Effect, OpCode, types_with
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.jobs import hotspots as hotspots_job
from zab.pipeline.jobs import locks as locks_job
from zab.pipeline.jobs import sessions as sessions_job
from zab.pipeline.reading.frames import read_log
from zab.pipeline.reading.snapshot_source import choose_tasks, read_tasks
from zab.pipeline.report.facts import (
    KINDS,
    ROWS_MAX,
    EnsembleFacts,
    Epoch,
    Health,
    Histogram,
    HotPath,
    LockRow,
    Locks,
    MemberFacts,
    Scale,
    Sessions,
    Sizes,
    Subtree,
    Wave,
    bucket_milliseconds,
    printable,
)
from zab.pipeline.report.health import health
from zab.pipeline.sql import DataFrame, F, SqlColumn, Window
from zab.pipeline.state.before_the_log import may_have_bare_closes

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = ["ENSEMBLES_MAX", "collect"]

ENSEMBLES_MAX: Final = 12
"""How many ensembles, those with the most transactions, get a part of the page."""

COUNTER_SHARE: Final = 0.1
"""A counter of sequential znodes that is used up to this share is worth a sentence."""

_KIND_OF: Final = {
    "create": types_with(Effect.CREATE),
    "change": types_with(Effect.SET_DATA, Effect.SET_ACL),
    "delete": types_with(Effect.DELETE),
    "session": {int(OpCode.CREATE_SESSION), int(OpCode.CLOSE_SESSION)},
    "refused": {int(OpCode.ERROR)},
}
_FIRST_ROWS: Final = "coalesce(part, 0) = 0"
"""One row of each transaction."""

Rows = list["Row"]


@frozen
class Bounds:
    """Which part of the history; None is all of it."""

    since: datetime.datetime | None = None
    until: datetime.datetime | None = None
    zxid_min: int | None = None
    zxid_max: int | None = None

    def as_job(self) -> dict[str, Any]:
        """As the jobs take them."""
        return {name: getattr(self, name) for name in ("since", "until", "zxid_min", "zxid_max")}

    def as_reading(self, *, past: bool = False) -> dict[str, Any]:
        """As `read_log` takes them. past: without the lower ones."""
        low = {} if past else {"zxid_min": self.zxid_min, "time_min": self.since}
        return {**low, "zxid_max": self.zxid_max, "time_max": self.until}


@frozen
class _Reading:
    """What is read, and how. bare_closes: as the jobs take it. `say` is called with what is being counted."""

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


def collect(
    spark: "SparkSession",
    dirs: Dirs,
    *,
    bounds: Bounds | None = None,
    uncommitted: bool = False,
    snapshots: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> list[EnsembleFacts]:
    """The facts of the ensembles in these directories, largest first. bounds: of what is counted; the health is that of
    all files. snapshots: these are checked, too. say: called with what comes next. Raises PipelineError, also when
    there are no transactions within the bounds."""
    found = inventory(dirs)
    reading = _Reading(spark, dirs, bounds or Bounds(), uncommitted, may_have_bare_closes(dirs), say)
    epochs = _epochs(reading)
    if not epochs:
        raise PipelineError(f"{found.shown}: there are no transactions to report on within the bounds given")
    counts = {ensemble: sum(epoch.count for epoch in rows) for ensemble, (rows, _) in epochs.items()}
    names = sorted(counts, key=lambda ensemble: (-counts[ensemble], ensemble))[:ENSEMBLES_MAX]
    scale = _scale([epochs[name] for name in names])
    totals = _totals(reading, scale)
    say("health")
    parts = _Parts(
        health=health(spark, dirs, found, partial(_time_of, totals, scale), snapshots=snapshots),
        operations=_operations(reading, scale),
        sessions=_sessions(reading, scale),
        hot=_hot(reading),
        locks=_locks(reading),
        trees=_trees(reading, found),
        members=_members(reading, found, scale, totals),
        counters=_counters(reading),
    )
    return [_facts(name, epochs[name], scale, parts) for name in names]


@frozen
class _Parts:
    """The results by ensemble."""

    operations: "dict[str, _Operations]"
    sessions: dict[str, Sessions]
    hot: dict[str, tuple[tuple[HotPath, ...], int]]
    locks: dict[str, Locks]
    trees: dict[str, Sizes]
    members: dict[str, tuple[MemberFacts, ...]]
    health: dict[str, Health]
    counters: dict[str, tuple[str, ...]]


_Epochs = tuple[tuple[Epoch, ...], datetime.datetime]


def _facts(name: str, epochs: _Epochs, scale: Scale, parts: _Parts) -> EnsembleFacts:
    rows, until = epochs
    operations = parts.operations.get(name, _Operations(scale))
    tree = parts.trees.get(name, Sizes())
    hot, path_count = parts.hot.get(name, ((), 0))
    return EnsembleFacts(
        ensemble=name,
        since=rows[0].since,
        until=until,
        first_zxid=rows[0].first_zxid,
        last_zxid=rows[-1].last_zxid,
        transactions=sum(epoch.count for epoch in rows),
        operations=sum(sum(counts) for counts in operations.counts.values()),
        refused=sum(operations.counts["refused"]),
        scale=scale,
        writes={kind: tuple(counts) for kind, counts in operations.counts.items()},
        epochs=rows,
        sessions=parts.sessions.get(name, Sessions(0, 0, 0, 0)),
        hot=hot,
        path_count=path_count,
        locks=parts.locks.get(name, Locks()),
        sizes=operations.sizes(tree),
        members=parts.members.get(name, ()),
        health=parts.health.get(name, Health()),
        notes=parts.counters.get(name, ()),
    )


# When.


def _epochs(reading: _Reading) -> dict[str, _Epochs]:
    """The epochs of each ensemble, and the time of its last transaction."""
    reading.say("epochs")
    rows = (
        reading.log(("ensemble", "zxid", "part", "time"))
        .where(_FIRST_ROWS)
        .groupBy("ensemble", F.shiftright("zxid", 32).alias("epoch"))
        .agg(
            F.min("time").alias("since"),
            F.max("time").alias("until"),
            F.min("zxid").alias("first"),
            F.max("zxid").alias("last"),
            F.count("*").alias("count"),
        )
        .collect()
    )
    found: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["ensemble"], row["epoch"])):
        found[row["ensemble"]].append(row)
    return {
        ensemble: (
            tuple(Epoch(r["epoch"], _utc(r["since"]), r["first"], r["last"], r["count"]) for r in of_ensemble),
            max(_utc(row["until"]) for row in of_ensemble),
        )
        for ensemble, of_ensemble in found.items()
    }


def _utc(time: datetime.datetime) -> datetime.datetime:
    """Spark's times come without a zone, in that of this process."""
    return time.astimezone(datetime.UTC)


def _milliseconds(time: datetime.datetime) -> int:
    return round(time.timestamp() * 1000)


def _scale(epochs: Sequence[_Epochs]) -> Scale:
    """One for all ensembles of the page, so that they can be compared."""
    since = min(_milliseconds(rows[0].since) for rows, _ in epochs)
    until = max(_milliseconds(until) for _, until in epochs)
    width = bucket_milliseconds(since, until)
    first = since // width
    begins = datetime.datetime.fromtimestamp(first * width / 1000, datetime.UTC)
    return Scale(begins, width, until // width - first + 1)


def _bucket(scale: Scale, time: str = "time") -> SqlColumn:
    """The number of the bucket that a time lies in; those outside lie in the first or last."""
    since = _milliseconds(scale.since)
    number = F.floor((F.unix_millis(time) - since) / scale.width_ms)
    return F.least(F.greatest(number, F.lit(0)), F.lit(scale.count - 1)).cast("int")


# What was written.


class _Operations:
    """The counts of one ensemble by kind and bucket, and the sizes of the values written."""

    def __init__(self, scale: Scale) -> None:
        self.counts = {kind: [0] * scale.count for kind in KINDS}
        self.written_bytes = 0
        self.largest: tuple[int, str | None] = (0, None)
        self.bins: dict[int, int] = defaultdict(int)

    def add(self, row: "Row") -> None:
        self.counts[row["kind"]][row["bucket"]] += row["count"]
        if row["bin"] is not None:
            self.bins[row["bin"]] += row["count"]
            self.written_bytes += row["bytes"]
            if self.largest[1] is None or row["largest"]["size"] > self.largest[0]:
                self.largest = row["largest"]["size"], row["largest"]["path"]

    def sizes(self, tree: Sizes) -> Sizes:
        """With what the snapshot says."""
        return Sizes(
            values=_histogram(self.bins),
            written_bytes=self.written_bytes,
            largest_bytes=self.largest[0],
            largest_path=self.largest[1],
            snapshot_zxid=tree.snapshot_zxid,
            znodes=tree.znodes,
            data_bytes=tree.data_bytes,
            subtrees=tree.subtrees,
        )


def _bin(value: SqlColumn) -> SqlColumn:
    """The bin of powers of two: 0 for values below 1, else 1 + the power below."""
    return F.when(value < 1, 0).otherwise(F.floor(F.log2(value)) + 1).cast("int")


def _histogram(bins: dict[int, int]) -> Histogram | None:
    if not bins:
        return None
    last = max(bins)
    edges = (0.0, *(float(1 << power) for power in range(last + 1)))
    return Histogram(edges[: last + 2], tuple(bins.get(index, 0) for index in range(last + 1)))


def _operations(reading: _Reading, scale: Scale) -> dict[str, _Operations]:
    reading.say("writes")
    kind = F.lit(None)
    for name, types in _KIND_OF.items():
        kind = F.when(F.col("type").isin(*types), name).otherwise(kind)
    size = F.length("data")
    rows = (
        reading.log(("ensemble", "time", "type", "path", "data"))
        .select("ensemble", kind.alias("kind"), _bucket(scale).alias("bucket"), size.alias("size"), "path")
        .where("kind is not null")
        .groupBy("ensemble", "kind", "bucket", _bin(F.col("size")).alias("bin"))
        .agg(
            F.count("*").alias("count"),
            F.sum("size").alias("bytes"),
            F.max(F.struct("size", "path")).alias("largest"),
        )
        .collect()
    )
    found: dict[str, _Operations] = defaultdict(lambda: _Operations(scale))
    for row in rows:
        found[row["ensemble"]].add(row)
    return found


def _top(frame: DataFrame, order: SqlColumn, count: int, *ties: str) -> DataFrame:
    """The first rows of each ensemble, and `total`, how many it has."""
    of_ensemble = Window.partitionBy("ensemble")
    place = F.row_number().over(of_ensemble.orderBy(order, *ties))
    return frame.withColumn("total", F.count("*").over(of_ensemble)).withColumn("place", place).where(
        F.col("place") <= count
    )  # fmt: skip


def _by_ensemble(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["place"]):
        found[row["ensemble"]].append(row)
    return found


def _hot(reading: _Reading) -> dict[str, tuple[tuple[HotPath, ...], int]]:
    reading.say("hot paths")
    paths = hotspots_job.hotspots(reading.log(hotspots_job.COLUMNS), "path", bare_closes=reading.bare_closes)
    rows = _top(paths.select("ensemble", "path", "writes", "bytes"), F.desc("writes"), ROWS_MAX, "path").collect()
    return {
        ensemble: (tuple(HotPath(row["path"], row["writes"], row["bytes"] or 0) for row in found), found[0]["total"])
        for ensemble, found in _by_ensemble(rows).items()
    }


def _counters(reading: _Reading) -> dict[str, tuple[str, ...]]:
    """Sentences about counters of sequential znodes that may run out."""
    counters = hotspots_job.hotspots(reading.log(hotspots_job.COLUMNS), "counters")
    near = counters.where(F.col("used") >= COUNTER_SHARE).select("ensemble", "path", "used")
    found: dict[str, tuple[str, ...]] = {}
    for ensemble, rows in _by_ensemble(_top(near, F.desc("used"), 3, "path").collect()).items():
        found[ensemble] = tuple(
            f"The counter of sequential znodes below {printable(row['path'])} is used up to {row['used']:.0%}."
            for row in rows
        )
    return found


# Who was there.


def _sessions(reading: _Reading, scale: Scale) -> dict[str, Sessions]:
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
            F.struct(F.lit("opened").alias("event"), _bucket(scale, "opened").alias("bucket")),
        ),
        F.when(
            F.col("ended").isNotNull(), F.struct(F.lit("ended").alias("event"), _bucket(scale, "ended").alias("bucket"))
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
    largest = _by_ensemble(_top(waves, F.desc("sessions"), ROWS_MAX, "began_zxid").collect())
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
                Wave(_utc(wave["began"]), wave["sessions"], wave["ephemerals"]) for wave in largest.get(ensemble, [])
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


def _locks(reading: _Reading) -> dict[str, Locks]:
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
    rows = _by_ensemble(_top(summary, F.desc("turns"), ROWS_MAX, "lock").collect())
    # Counts by bin, and with no bin the median of all.
    waits = queue.where("handover_ms is not null").rollup("ensemble", _bin(F.col("handover_ms")).alias("bin"))
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
            handovers=_histogram(bins[ensemble]),
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


# What is there.


def _trees(reading: _Reading, found: Inventory) -> dict[str, Sizes]:
    """Of the newest whole snapshot of each ensemble that has one."""
    reading.say("snapshots")
    sizes = {}
    for ensemble, members in found.ensembles.items():
        if any(member.snapshots for member in members):
            sizes.update(_tree(reading, ensemble, Inventory(members, found.dirs)))
    return sizes


def _tree(reading: _Reading, ensemble: str, found: Inventory) -> dict[str, Sizes]:
    try:
        tasks = choose_tasks(found, reading.bounds.zxid_max, "one")
    except PipelineError:
        # No snapshot at or below the bound, or none that is whole; `verify` says what is wrong with it.
        return {}
    znodes = read_tasks(reading.spark, tasks, columns=("zxid", "path", "data"))
    rows = (
        znodes.groupBy(F.substring_index("path", "/", 2).alias("subtree"))
        .agg(
            F.max("zxid").alias("zxid"),
            F.count("*").alias("znodes"),
            F.sum(F.coalesce(F.length("data"), F.lit(0))).alias("bytes"),
        )
        .withColumn("ensemble", F.lit(ensemble))
    )
    of_all = Window.partitionBy("ensemble")
    rows = rows.withColumn("all_znodes", F.sum("znodes").over(of_all)).withColumn(
        "all_bytes", F.sum("bytes").over(of_all)
    )
    largest = _by_ensemble(_top(rows, F.desc("bytes"), ROWS_MAX, "subtree").collect()).get(ensemble, [])
    if not largest:
        return {}
    return {
        ensemble: Sizes(
            snapshot_zxid=largest[0]["zxid"],
            znodes=largest[0]["all_znodes"],
            data_bytes=largest[0]["all_bytes"],
            subtrees=tuple(Subtree(row["subtree"] or "/", row["znodes"], row["bytes"]) for row in largest),
        )
    }


@frozen
class _Total:
    """What an ensemble did in one bucket."""

    count: int
    last_zxid: int


_Totals = dict[str, dict[int, _Total]]


def _totals(reading: _Reading, scale: Scale) -> _Totals:
    rows = (
        reading.log(("ensemble", "zxid", "part", "time"))
        .where(_FIRST_ROWS)
        .groupBy("ensemble", _bucket(scale).alias("bucket"))
        .agg(F.count("*").alias("count"), F.max("zxid").alias("last"))
        .collect()
    )
    found: _Totals = defaultdict(dict)
    for row in rows:
        found[row["ensemble"]][row["bucket"]] = _Total(row["count"], row["last"])
    return found


def _time_of(totals: _Totals, scale: Scale, ensemble: str, zxid: int) -> datetime.datetime | None:
    """The beginning of the bucket that a zxid lies in; None if it is after all of them."""
    for bucket, total in sorted(totals.get(ensemble, {}).items()):
        if zxid <= total.last_zxid:
            return scale.starts[bucket]
    return None


def _members(reading: _Reading, found: Inventory, scale: Scale, totals: _Totals) -> dict[str, tuple[MemberFacts, ...]]:
    """The files of each member, and what share of each bucket's transactions its log holds."""
    reading.say("members")
    rows = (
        reading.log(("ensemble", "member", "zxid", "part", "time"), members="all")
        .where(_FIRST_ROWS)
        .groupBy("ensemble", "member", _bucket(scale).alias("bucket"))
        .agg(F.count("*").alias("count"), F.min("zxid").alias("first"), F.max("zxid").alias("last"))
        .collect()
    )
    held: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    for row in rows:
        held[row["ensemble"], row["member"]][row["bucket"]] = row
    facts: dict[str, list[MemberFacts]] = defaultdict(list)
    for member in found.members:
        buckets = held[member.ensemble, member.member]
        of_ensemble = totals.get(member.ensemble, {})
        coverage = tuple(_share(buckets.get(bucket), of_ensemble.get(bucket)) for bucket in range(scale.count))
        facts[member.ensemble].append(
            MemberFacts(
                member=member.member,
                kind="zab" if member.kind == "native" else "ZooKeeper",
                log_count=len(member.logs),
                log_bytes=sum(log.size for log in member.logs),
                snapshot_count=len(member.snapshots),
                snapshot_bytes=sum(snapshot.size for snapshot in member.snapshots),
                first_zxid=min((row["first"] for row in buckets.values()), default=None),
                last_zxid=max((row["last"] for row in buckets.values()), default=None),
                count=sum(row["count"] for row in buckets.values()),
                coverage=coverage,
            )
        )
    return {ensemble: tuple(members) for ensemble, members in facts.items()}


def _share(held: Any, total: _Total | None) -> float | None:
    if total is None:
        return None
    return 0.0 if held is None else min(held["count"] / total.count, 1.0)
