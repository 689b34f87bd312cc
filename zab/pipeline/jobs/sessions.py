"""The job `sessions`: the life of each session (when it was opened, what it did, how it ended), and waves of expiry.

    lives = sessions(log)
    waves(lives)                    many that expired within a few seconds, and the ephemerals they took along

`log` has each transaction once (`members="one"`). The number of the request says how a session ended: a client's
requests have numbers, the leader's own closeSession of an expired session has 0. A client may begin to count at 0,
though, so a close with number 0 that came before the session could time out is a client's, too. A later one is the
leader's only if the session has shown that it does not count from 0: it wrote, and never with number 0. For the others
the log cannot tell, for example a client on a loaded machine that only read, and closed late: `UNTOLD`.

The log has only the writes of a session. It was last heard at its last write *or later*: reads and pings are not in a
log. So it was silent for at most `silent_ms`; for an expired session that is at least the timeout.

`known`, rows of sessions of snapshots, has sessions that were opened before the log begins.
"""

import datetime
from typing import Final

from zab.pipeline.jobs.znode_changes import CREATE, DELETE, znode_changes
from zab.pipeline.schema import Column
from zab.pipeline.sql import DataFrame, F, SqlColumn, Window, in_range, milliseconds

__all__ = [
    "CLOSED",
    "COLUMNS",
    "EXPIRED",
    "KNOWN_COLUMNS",
    "LISTED_MAX",
    "LIVES",
    "UNTOLD",
    "WAVES",
    "sessions",
    "waves",
]

COLUMNS: Final = (
    "ensemble", "zxid", "part", "time", "session", "cxid", "type", "operation",
    "path", "owner", "timeout", "error", "paths",
)  # fmt: skip
"""The columns that it needs of the log."""
KNOWN_COLUMNS: Final = ("ensemble", "session", "timeout")
"""The columns that it needs of the sessions of snapshots."""

CLOSED: Final = "closed"
EXPIRED: Final = "expired"
UNTOLD: Final = "closed or expired"
"""The log does not say which."""

LIVES: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("session", "bigint", "id"),
    Column("opened", "timestamp", "time of its opening; null if before the beginning of the log"),
    Column("opened_zxid", "bigint", "zxid of its createSession"),
    Column("timeout", "int", "timeout in ms; null if unknown"),
    Column("last", "timestamp", "time of its last write (its opening counts); logs contain no reads and pings"),
    Column("last_zxid", "bigint", "zxid of that write"),
    Column("ended", "timestamp", "time of its end; null if it is still open"),
    Column("ended_zxid", "bigint", "zxid of its closeSession"),
    Column("ending", "string", "closed (by its client), expired, or both if the log does not show which; null if "
           "still open"),
    Column("silent_ms", "bigint", "ms from its last write to its end"),
    Column("lived_ms", "bigint", "ms from its opening to its end"),
    Column("requests", "bigint", "number of write requests; a multi counts as one"),
    Column("refused", "bigint", "number of these that were refused"),
    Column("ephemerals", "bigint", "number of ephemerals that it created"),
    Column("taken", "bigint", "number of ephemerals deleted at its end"),
    Column("taken_paths", "array<string>", "paths of these, sorted; empty if there are none or the session is still "
           "open"),
)  # fmt: skip
WAVES: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("began", "timestamp", "time at which the first of them expired"),
    Column("ended", "timestamp", "time at which the last of them expired"),
    Column("began_zxid", "bigint", "zxid of the first closeSession"),
    Column("ended_zxid", "bigint", "zxid of the last closeSession"),
    Column("sessions", "bigint", "number of sessions that expired"),
    Column("last_heard", "timestamp", "last write of any of them: the cause of the expiries came after it"),
    Column("ephemerals", "bigint", "number of ephemerals deleted with them"),
    Column("session_ids", "array<bigint>", "ids of the sessions, sorted; at most 1,000"),
    Column("paths", "array<string>", "paths of the ephemerals, sorted; at most 1,000"),
)  # fmt: skip

LISTED_MAX: Final = 1000
_OPEN_TYPE: Final = -10
_CLOSE_TYPE: Final = -11
_REFUSED_TYPE: Final = -1
_SESSION_EXPIRED: Final = -112


def sessions(
    log: DataFrame,
    *,
    known: DataFrame | None = None,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    bare_closes: bool = True,
) -> DataFrame:
    """One row for each session that was open at any moment within the bounds, as of the upper bounds.

    bare_closes: see `zab.pipeline.jobs.znode_changes`."""
    until_then = log.where(in_range(until=until, zxid_max=zxid_max))
    rows = znode_changes(until_then, bare_closes=bare_closes, others=True).where(F.col("session") != 0)
    if known is not None:
        rows = rows.unionByName(known.select(*KNOWN_COLUMNS), allowMissingColumns=True)
    lives = _lives(rows)
    is_late_enough = F.col("ended").isNull() | in_range(since=since, zxid_min=zxid_min, time="ended", zxid="ended_zxid")
    return lives.where(is_late_enough)


def _lives(rows: DataFrame) -> DataFrame:
    is_open, is_close = F.col("type") == _OPEN_TYPE, F.col("type") == _CLOSE_TYPE
    is_taken = is_close & (F.col("kind") == DELETE)
    is_refused = F.col("type") == _REFUSED_TYPE
    # Requests after a session's end are refused, and are no sign of life.
    is_alive = F.col("zxid").isNotNull() & ~is_close & ~(is_refused & (F.col("error") == _SESSION_EXPIRED))
    is_request = is_alive & ~is_open & F.coalesce(F.col("part") == 0, F.lit(True))
    is_ephemeral = (F.col("kind") == CREATE) & (F.col("owner") == F.col("session"))
    moment = F.struct("zxid", "time")
    silent = milliseconds(F.col("heard.time"), F.col("end.time"))
    was_closed = (F.col("end.cxid") != 0) | F.coalesce(silent < F.col("timeout"), F.lit(False))
    return (
        rows.groupBy("ensemble", "session")
        .agg(
            F.max(F.when(is_open, moment)).alias("begin"),
            F.max("timeout").alias("timeout"),
            F.max(F.when(is_alive, moment)).alias("heard"),
            F.max(F.when(is_close, F.struct("zxid", "time", "cxid"))).alias("end"),
            F.count_if(is_request).alias("requests"),
            F.count_if(is_request & (F.col("cxid") == 0)).alias("from_0"),
            F.count_if(is_request & is_refused).alias("refused"),
            F.count_if(is_ephemeral).alias("ephemerals"),
            F.count_if(is_taken).alias("taken"),
            F.sort_array(F.collect_list(F.when(is_taken, F.col("path")))).alias("taken_paths"),
        )
        .select(
            "ensemble",
            "session",
            F.col("begin.time").alias("opened"),
            F.col("begin.zxid").alias("opened_zxid"),
            "timeout",
            F.col("heard.time").alias("last"),
            F.col("heard.zxid").alias("last_zxid"),
            F.col("end.time").alias("ended"),
            F.col("end.zxid").alias("ended_zxid"),
            F.when(was_closed, CLOSED)
            .when(F.col("end").isNull(), None)
            .when((F.col("requests") == 0) | (F.col("from_0") > 0), UNTOLD)
            .otherwise(EXPIRED)
            .alias("ending"),
            silent.alias("silent_ms"),
            milliseconds(F.col("begin.time"), F.col("end.time")).alias("lived_ms"),
            "requests",
            "refused",
            "ephemerals",
            "taken",
            "taken_paths",
        )
    )


def waves(lives: DataFrame, *, within_ms: int = 5000, least: int = 3) -> DataFrame:
    """At least `least` sessions that expired one after the other, never more than `within_ms` apart.

    lives: the result of `sessions`."""
    # Neighbours are found among slots of that length, not among sessions: there are far fewer slots, and no two
    # sessions within one are further apart.
    slots = (
        lives.where(F.col("ending") == EXPIRED)
        .groupBy("ensemble", F.floor(F.unix_micros("ended") / (within_ms * 1000)).alias("slot"))
        .agg(
            F.min("ended").alias("began"),
            F.max("ended").alias("ended"),
            F.min("ended_zxid").alias("began_zxid"),
            F.max("ended_zxid").alias("ended_zxid"),
            F.count("*").alias("sessions"),
            F.max("last").alias("last_heard"),
            F.sum("taken").alias("ephemerals"),
            _listed(F.collect_list("session")).alias("session_ids"),
            _listed(F.flatten(F.collect_list("taken_paths"))).alias("paths"),
        )
    )
    in_order = Window.partitionBy("ensemble").orderBy("slot")
    gap = milliseconds(F.lag("ended").over(in_order), F.col("began"))
    begins = F.when(gap <= within_ms, 0).otherwise(1)
    return (
        slots.withColumn("begins", begins)
        .withColumn("wave", F.sum("begins").over(in_order))
        .groupBy("ensemble", "wave")
        .agg(
            F.min("began").alias("began"),
            F.max("ended").alias("ended"),
            F.min("began_zxid").alias("began_zxid"),
            F.max("ended_zxid").alias("ended_zxid"),
            F.sum("sessions").alias("sessions"),
            F.max("last_heard").alias("last_heard"),
            F.sum("ephemerals").alias("ephemerals"),
            _listed(F.flatten(F.collect_list("session_ids"))).alias("session_ids"),
            _listed(F.flatten(F.collect_list("paths"))).alias("paths"),
        )
        .where(F.col("sessions") >= least)
        .drop("wave")
    )


def _listed(values: SqlColumn) -> SqlColumn:
    return F.slice(F.sort_array(values), 1, LISTED_MAX)
