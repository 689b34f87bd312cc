"""The job `hotspots`: where writes go, by path, subtree, session and minute; churn, skew, and counters near their end.

    hotspots(log, by="subtree", depth=2)

`log` has each transaction once (`members="one"`). A write is one change of one znode: each part of a multi counts, and
so does each ephemeral that is deleted with its session. Bytes are those of the data written.

`VIEWS` has the columns of each result. Nothing is in any order.

Deliberately not here: reads, which no log has.
"""

from typing import Final

from datatree.opcodes import Effect, types_with
from zab.pipeline.errors import PipelineError
from zab.pipeline.jobs.znode_changes import ACL, CREATE, DELETE, SET, znode_changes, znode_lives
from zab.pipeline.schema import Column
from zab.pipeline.sql import (
    COUNTER_MAX,
    DataFrame,
    F,
    SqlColumn,
    Window,
    milliseconds,
    parent_path,
    sequence_number,
)

__all__ = ["CHURN", "COLUMNS", "COUNTERS", "MINUTES", "PATHS", "SESSIONS", "SKEW", "VIEWS", "hotspots"]

COLUMNS: Final = (
    "ensemble", "zxid", "part", "time", "session", "cxid", "type", "operation",
    "path", "data", "version", "owner", "paths",
)  # fmt: skip
"""The columns that it needs of the log."""

_ENSEMBLE: Final = Column("ensemble", "string", "as in the log")
_WRITES: Final = (
    Column("writes", "bigint", "number of changes of znodes"),
    Column("bytes", "bigint", "bytes of data written"),
    Column("creates", "bigint", "number of creates among the writes"),
    Column("sets", "bigint", "number of writes of data among the writes"),
    Column("acls", "bigint", "number of ACL changes among the writes"),
    Column("deletes", "bigint", "number of deletes among the writes"),
)
_SPAN: Final = (
    Column("first", "timestamp", "time of the first write"),
    Column("last", "timestamp", "time of the last write"),
)

PATHS: Final = (
    _ENSEMBLE,
    Column("path", "string", "path of the znode; with `--by subtree`, root of the subtree"),
    *_WRITES,
    Column("sessions", "bigint", "number of sessions that wrote, with an error of about 5 %"),
    *_SPAN,
)  # fmt: skip
SESSIONS: Final = (
    _ENSEMBLE,
    Column("session", "bigint", "session id; deletes of its ephemerals at its end are not counted as its writes"),
    *_WRITES,
    Column("refused", "bigint", "number of writes that were refused"),
    Column("paths", "bigint", "number of paths that it wrote to, with an error of about 5 %"),
    *_SPAN,
)  # fmt: skip
MINUTES: Final = (
    _ENSEMBLE,
    Column("minute", "timestamp", "start of the minute; minutes without a transaction are left out"),
    *_WRITES,
    Column("refused", "bigint", "number of writes that were refused"),
    Column("sessions", "bigint", "number of sessions that wrote, with an error of about 5 %"),
    Column("opened", "bigint", "number of sessions that were opened"),
    Column("ended", "bigint", "number of sessions that were closed or expired"),
)  # fmt: skip
CHURN: Final = (
    _ENSEMBLE,
    Column("path", "string", "path of the parent"),
    Column("creates", "bigint", "number of children created"),
    Column("deletes", "bigint", "number of children deleted"),
    Column("churn", "bigint", "the smaller of `creates` and `deletes`"),
    Column("ephemerals", "bigint", "number of ephemerals among the created children"),
    Column("short_lived", "bigint", "number of children that existed for less than `short_ms`"),
    Column("lived_ms", "bigint", "median lifetime of the children that were created and deleted within the log"),
)
SKEW: Final = (
    _ENSEMBLE,
    Column("of", "string", "path or session: what the writes are counted by"),
    Column("count", "bigint", "number of paths written to, or of sessions that wrote"),
    Column("writes", "bigint", "total number of writes"),
    Column("top", "string", "path or session with the most writes"),
    Column("top_share", "double", "its share of the writes, 0 to 1"),
    Column("top_percent_share", "double", "share of the busiest 1 % (at least one path or session)"),
    Column(
        "gini", "double", "Gini coefficient: 0 if all have the same number of writes, close to 1 if one has nearly all"
    ),
)
COUNTERS: Final = (
    _ENSEMBLE,
    Column("path", "string", "a parent of sequential znodes"),
    Column("next", "bigint", "number that the next sequential child gets; every create increases it, deletes do not"),
    Column(
        "remaining",
        "bigint",
        "creates left until the counter overflows and names are no longer in order; 0 if it has overflowed",
    ),
    Column("used", "double", "share of the counter's range that is used, 0 to 1"),
    Column("creates", "bigint", "number of children created in this log"),
    Column("sequential", "bigint", "number of sequential children among them"),
    Column("per_day", "double", "creates per day, between the first and the last in this log"),
    Column("runs_out", "timestamp", "time at which it overflows at that rate; null if in more than 100 years"),
)

SHORT_MS: Final = 1000
_SECONDS_PER_DAY: Final = 86_400
_FAR_SECONDS: Final = 100 * 365 * _SECONDS_PER_DAY
_REFUSED_TYPE: Final = -1
_OPEN_TYPE: Final = -10
_CLOSE_TYPE: Final = -11


def hotspots(
    log: DataFrame, by: str = "path", *, depth: int = 1, short_ms: int = SHORT_MS, bare_closes: bool = True
) -> DataFrame:
    """One of VIEWS over the whole log that is given.

    depth: of the roots of subtrees; a znode above it is its own root. short_ms: a shorter life counts as short.
    bare_closes: see `zab.pipeline.jobs.znode_changes`. Raises PipelineError for an unknown view or a depth below 1."""
    if by not in VIEWS:
        raise PipelineError(f"there are no hotspots by {by}: it is one of {', '.join(VIEWS)}")
    if depth < 1:
        raise PipelineError(f"a subtree begins at depth 1 or below, not at {depth}")
    if by == "counters":
        return _counters(log)
    slim = log.withColumn("bytes", F.coalesce(F.length("data"), F.lit(0))).drop("data")
    changes = znode_changes(slim, bare_closes=bare_closes, others=by in ("session", "minute"))
    if by == "path":
        return _by_path(changes)
    if by == "subtree":
        return _by_path(changes.withColumn("path", F.substring_index("path", "/", depth + 1)))
    if by == "churn":
        return _churn(changes, short_ms)
    return {"session": _by_session, "minute": _by_minute, "skew": _skew}[by](changes)


def _totals() -> list[SqlColumn]:
    kind = F.col("kind")
    return [
        F.count("kind").alias("writes"),
        F.sum(F.when(kind.isNotNull(), F.col("bytes")).otherwise(0)).alias("bytes"),
        F.count_if(kind == CREATE).alias("creates"),
        F.count_if(kind == SET).alias("sets"),
        F.count_if(kind == ACL).alias("acls"),
        F.count_if(kind == DELETE).alias("deletes"),
    ]


def _refused() -> SqlColumn:
    return F.count_if(F.col("type") == _REFUSED_TYPE).alias("refused")


def _span() -> list[SqlColumn]:
    return [F.min("time").alias("first"), F.max("time").alias("last")]


def _by_path(changes: DataFrame) -> DataFrame:
    sessions = F.approx_count_distinct("session").alias("sessions")
    return changes.groupBy("ensemble", "path").agg(*_totals(), sessions, *_span())


def _by_session(rows: DataFrame) -> DataFrame:
    paths = F.approx_count_distinct("path").alias("paths")
    is_own = (F.col("type") != _CLOSE_TYPE) & (F.col("session") != 0)
    return rows.where(is_own).groupBy("ensemble", "session").agg(*_totals(), _refused(), paths, *_span())


def _by_minute(rows: DataFrame) -> DataFrame:
    writer = F.when(F.col("kind").isNotNull() & (F.col("type") != _CLOSE_TYPE), F.col("session"))
    return rows.groupBy("ensemble", F.date_trunc("minute", "time").alias("minute")).agg(
        *_totals(),
        _refused(),
        F.approx_count_distinct(writer).alias("sessions"),
        F.count_if(F.col("type") == _OPEN_TYPE).alias("opened"),
        F.count_if((F.col("type") == _CLOSE_TYPE) & F.col("kind").isNull()).alias("ended"),
    )


def _churn(changes: DataFrame, short_ms: int) -> DataFrame:
    lived = F.when(F.col("deleted.type").isNotNull(), milliseconds(F.col("created.time"), F.col("deleted.time")))
    creates, deletes = F.count("created"), F.count("deleted.type")
    is_ephemeral = (F.col("created.owner") == F.col("created.session")) & (F.col("created.owner") != 0)
    return (
        znode_lives(changes)
        .withColumn("lived", lived)
        .where(F.col("path") != "/")
        .groupBy("ensemble", parent_path(F.col("path")).alias("path"))
        .agg(
            creates.alias("creates"),
            deletes.alias("deletes"),
            F.least(creates, deletes).alias("churn"),
            F.count_if(is_ephemeral).alias("ephemerals"),
            F.count_if(F.col("lived") < short_ms).alias("short_lived"),
            F.percentile_approx("lived", 0.5).alias("lived_ms"),
        )
    )


def _skew(changes: DataFrame) -> DataFrame:
    """The skew, from a histogram (how many have how many writes) that is short whatever the count of paths."""
    kinds = F.array(
        F.struct(F.lit("path").alias("of"), F.col("path").alias("name")),
        F.struct(F.lit("session").alias("of"), F.format_string("0x%x", "session").alias("name")),
    )
    is_own = (F.col("type") != _CLOSE_TYPE) & (F.col("session") != 0)
    histogram = (
        changes.select("ensemble", is_own.alias("is_own"), F.explode(kinds).alias("key"))
        .where((F.col("key.of") == "path") | F.col("is_own"))
        .groupBy("ensemble", "key.of", "key.name")
        .agg(F.count("*").alias("each"))
        .groupBy("ensemble", "of", "each")
        .agg(F.count("*").alias("n"), F.min("name").alias("name"))
    )
    group = Window.partitionBy("ensemble", "of")
    below = group.orderBy("each").rowsBetween(Window.unboundedPreceding, -1)
    each, n, rank, count = (F.col(name).cast("double") for name in ("each", "n", "rank", "count"))
    top = F.ceil(count / 100)
    of_top = F.greatest(F.lit(0), F.least(n, top - (count - rank - n)))
    writes = F.sum(each * n)
    return (
        histogram.withColumn("rank", F.coalesce(F.sum("n").over(below), F.lit(0)))
        .withColumn("count", F.sum("n").over(group))
        .groupBy("ensemble", "of")
        .agg(
            F.max("count").alias("count"),
            F.sum(F.col("each") * F.col("n")).alias("writes"),
            F.max_by("name", "each").alias("top"),
            (F.max(each) / writes).alias("top_share"),
            (F.sum(each * of_top) / writes).alias("top_percent_share"),
            (F.sum(each * n * (rank * 2 + n - count)) / (F.max(count) * writes)).alias("gini"),
        )
    )


def _counters(log: DataFrame) -> DataFrame:
    number = sequence_number(F.col("path"), F.col("version"))
    order = F.struct("zxid", F.coalesce("part", F.lit(-1)))
    latest = F.max_by(F.coalesce(F.col("version").cast("bigint"), number + 1), order)
    seconds = (F.unix_micros(F.max("time")) - F.unix_micros(F.min("time"))) / 1e6
    remaining = F.when(F.col("next") < 0, 0).otherwise(F.lit(COUNTER_MAX).cast("bigint") - F.col("next") + 1)
    until = F.col("remaining") / F.col("per_day") * _SECONDS_PER_DAY
    return (
        log.where(F.col("type").isin(*types_with(Effect.CREATE)) & (F.col("path") != "") & (F.col("path") != "/"))
        .groupBy("ensemble", parent_path(F.col("path")).alias("path"))
        .agg(
            latest.alias("next"),
            F.count("*").alias("creates"),
            F.count(number).alias("sequential"),
            F.when(seconds > 0, F.count("*") / seconds * _SECONDS_PER_DAY).alias("per_day"),
            F.max("time").alias("last"),
        )
        .where(F.col("sequential") > 0)
        .withColumn("remaining", remaining)
        .withColumn("used", 1 - F.col("remaining") / (COUNTER_MAX + 1))
        .withColumn(
            "runs_out",
            F.when(until < _FAR_SECONDS, F.timestamp_micros(F.unix_micros("last") + (until * 1e6).cast("bigint"))),
        )
        .select(*(column.name for column in COUNTERS))
    )


VIEWS: Final[dict[str, tuple[Column, ...]]] = {
    "path": PATHS,
    "subtree": PATHS,
    "session": SESSIONS,
    "minute": MINUTES,
    "churn": CHURN,
    "skew": SKEW,
    "counters": COUNTERS,
}
"""The values of `by`, with the columns of the result."""
