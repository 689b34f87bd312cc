"""Finds the facts of the report with a few aggregations in Spark, of which only small results reach the driver.

    collect(spark, dirs, …) -> list[EnsembleFacts]

The jobs do the work (`hotspots`, `sessions`, `locks`, `verify`); here their results are counted by bucket of time, by
path or by lock, and cut to what a page can hold. Each aggregation reads only the columns that it needs. What clients
did is counted in `clients`.

Invariants: what is collected is bounded by `BUCKETS_MAX` and `ROWS_MAX` for each ensemble, whatever the size of the
directories. Not here: what the facts mean and how they are shown.
"""

import datetime
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from datatree.opcodes import Effect, OpCode, types_with
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.jobs import hotspots as hotspots_job
from zab.pipeline.reading.snapshot_source import choose_tasks, read_tasks
from zab.pipeline.report.clients import locks, sessions
from zab.pipeline.report.counting import (
    Bounds,
    Reading,
    bucket_of,
    by_ensemble,
    histogram_of,
    milliseconds_of,
    power_of,
    top_of,
    utc,
)
from zab.pipeline.report.facts import (
    KINDS,
    ROWS_MAX,
    EnsembleFacts,
    Epoch,
    Health,
    HotPath,
    Locks,
    MemberFacts,
    Scale,
    Sessions,
    Sizes,
    Subtree,
    bucket_milliseconds,
    printable,
)
from zab.pipeline.report.health import health
from zab.pipeline.sql import F, Window
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


def collect(
    spark: "SparkSession",
    dirs: Dirs,
    *,
    bounds: Bounds | None = None,
    uncommitted: bool = False,
    snapshots: bool = False,
    say: Callable[[str], None] = lambda _text: None,
) -> list[EnsembleFacts]:
    """The facts of the ensembles in these directories, largest first. bounds: of what is counted; the health covers all
    files. snapshots: check these, too. say: called with what is counted next. Raises PipelineError, also if there are
    no transactions within the bounds."""
    found = inventory(dirs)
    reading = Reading(spark, dirs, bounds or Bounds(), uncommitted, may_have_bare_closes(dirs), say)
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
        sessions=sessions(reading, scale),
        hot=_hot(reading),
        locks=locks(reading),
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


def _epochs(reading: Reading) -> dict[str, _Epochs]:
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
            tuple(Epoch(r["epoch"], utc(r["since"]), r["first"], r["last"], r["count"]) for r in of_ensemble),
            max(utc(row["until"]) for row in of_ensemble),
        )
        for ensemble, of_ensemble in found.items()
    }


def _scale(epochs: Sequence[_Epochs]) -> Scale:
    """One for all ensembles of the page, so that they can be compared."""
    since = min(milliseconds_of(rows[0].since) for rows, _ in epochs)
    until = max(milliseconds_of(until) for _, until in epochs)
    width = bucket_milliseconds(since, until)
    first = since // width
    begins = datetime.datetime.fromtimestamp(first * width / 1000, datetime.UTC)
    return Scale(begins, width, until // width - first + 1)


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
            values=histogram_of(self.bins),
            written_bytes=self.written_bytes,
            largest_bytes=self.largest[0],
            largest_path=self.largest[1],
            snapshot_zxid=tree.snapshot_zxid,
            znodes=tree.znodes,
            data_bytes=tree.data_bytes,
            subtrees=tree.subtrees,
        )


def _operations(reading: Reading, scale: Scale) -> dict[str, _Operations]:
    reading.say("writes")
    kind = F.lit(None)
    for name, types in _KIND_OF.items():
        kind = F.when(F.col("type").isin(*types), name).otherwise(kind)
    size = F.length("data")
    rows = (
        reading.log(("ensemble", "time", "type", "path", "data"))
        .select("ensemble", kind.alias("kind"), bucket_of(scale).alias("bucket"), size.alias("size"), "path")
        .where("kind is not null")
        .groupBy("ensemble", "kind", "bucket", power_of(F.col("size")).alias("bin"))
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


def _hot(reading: Reading) -> dict[str, tuple[tuple[HotPath, ...], int]]:
    reading.say("hot paths")
    paths = hotspots_job.hotspots(reading.log(hotspots_job.COLUMNS), "path", bare_closes=reading.bare_closes)
    rows = top_of(paths.select("ensemble", "path", "writes", "bytes"), F.desc("writes"), ROWS_MAX, "path").collect()
    return {
        ensemble: (tuple(HotPath(row["path"], row["writes"], row["bytes"] or 0) for row in found), found[0]["total"])
        for ensemble, found in by_ensemble(rows).items()
    }


def _counters(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Sentences about counters of sequential znodes that may run out."""
    counters = hotspots_job.hotspots(reading.log(hotspots_job.COLUMNS), "counters")
    near = counters.where(F.col("used") >= COUNTER_SHARE).select("ensemble", "path", "used")
    found: dict[str, tuple[str, ...]] = {}
    for ensemble, rows in by_ensemble(top_of(near, F.desc("used"), 3, "path").collect()).items():
        found[ensemble] = tuple(
            f"The counter of sequential znodes below {printable(row['path'])} is used up to {row['used']:.0%}."
            for row in rows
        )
    return found


# What is there.


def _trees(reading: Reading, found: Inventory) -> dict[str, Sizes]:
    """The sizes in the newest whole snapshot of each ensemble that has one."""
    reading.say("snapshots")
    sizes = {}
    for ensemble, members in found.ensembles.items():
        if any(member.snapshots for member in members):
            sizes.update(_tree(reading, ensemble, Inventory(members, found.dirs)))
    return sizes


def _tree(reading: Reading, ensemble: str, found: Inventory) -> dict[str, Sizes]:
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
    largest = by_ensemble(top_of(rows, F.desc("bytes"), ROWS_MAX, "subtree").collect()).get(ensemble, [])
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


def _totals(reading: Reading, scale: Scale) -> _Totals:
    rows = (
        reading.log(("ensemble", "zxid", "part", "time"))
        .where(_FIRST_ROWS)
        .groupBy("ensemble", bucket_of(scale).alias("bucket"))
        .agg(F.count("*").alias("count"), F.max("zxid").alias("last"))
        .collect()
    )
    found: _Totals = defaultdict(dict)
    for row in rows:
        found[row["ensemble"]][row["bucket"]] = _Total(row["count"], row["last"])
    return found


def _time_of(totals: _Totals, scale: Scale, ensemble: str, zxid: int) -> datetime.datetime | None:
    """The beginning of the bucket in which a zxid lies; None if it is after all of them."""
    for bucket, total in sorted(totals.get(ensemble, {}).items()):
        if zxid <= total.last_zxid:
            return scale.starts[bucket]
    return None


def _members(reading: Reading, found: Inventory, scale: Scale, totals: _Totals) -> dict[str, tuple[MemberFacts, ...]]:
    """The files of each member, and what share of each bucket's transactions its log holds."""
    reading.say("members")
    rows = (
        reading.log(("ensemble", "member", "zxid", "part", "time"), members="all")
        .where(_FIRST_ROWS)
        .groupBy("ensemble", "member", bucket_of(scale).alias("bucket"))
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
