"""The job `locks`: who held which lock, or led which election, and when, judged by the znodes of the usual recipes.

    queue = locks(log)          one row for each contender: when it entered, got its turn, and left
    lock_summary(queue)         one row for each lock
    overlaps(queue)             where two may have believed to hold one lock at once

`log` has each transaction once (`members="one"`). A lock is any parent with ephemeral sequential children; its queue
is the order in which they were created. Names say more: kazoo (`<uuid>__lock__`, `__rlock__`), Curator
(`_c_<uuid>-lock-`, `-latch-`, `-lease-`, `__READ__`, `__WRIT__`), and the plain forms of the recipes (`n_`, `lock-`,
`read-`, `write-`). Group membership can look the same: such names have the role `other`.

A contender holds an exclusive lock from the moment when nobody is before it in the queue. A reader holds it when only
readers are before it. A lease is held at once, because the log does not say how many there are. These are the moments
in the log: a client learns that it holds the lock a little later, which no log contains.

A contender that existed before the log begins is known only by its delete, or from `znodes`, rows of snapshots. If it
is in neither, it is not seen, and the contenders after it in the queue seem to hold the lock.
"""

import datetime
from typing import Final

from zab.pipeline.jobs.sessions import EXPIRED, UNTOLD, sessions
from zab.pipeline.jobs.znode_changes import CREATE, DELETE, znode_changes, znode_lives
from zab.pipeline.schema import Column
from zab.pipeline.sql import (
    DataFrame,
    F,
    SqlColumn,
    Window,
    base_name,
    in_range,
    in_subtree,
    milliseconds,
    parent_path,
    sequence_number,
)

__all__ = ["COLUMNS", "LOCKS", "OVERLAPS", "QUEUE", "ZNODE_COLUMNS", "lock_summary", "locks", "overlaps"]

COLUMNS: Final = (
    "ensemble", "zxid", "part", "time", "session", "cxid", "type", "operation",
    "path", "version", "owner", "timeout", "error", "paths",
)  # fmt: skip
"""The columns that it needs of the log."""
ZNODE_COLUMNS: Final = ("ensemble", "path", "owner", "czxid", "ctime")
"""The columns that it needs of snapshots."""

QUEUE: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("lock", "string", "path of the lock: the parent of the contenders' znodes"),
    Column("name", "string", "name of the contender's znode"),
    Column("number", "bigint", "sequence number of that znode"),
    Column("library", "string", "kazoo or curator, judging by the name; otherwise null"),
    Column("role", "string", "lock, read, write, election, lease or other, judging by the name"),
    Column("session", "bigint", "session of the contender"),
    Column("entered", "timestamp", "time of its creation; null if before the beginning of the log"),
    Column("entered_zxid", "bigint", "zxid of its create"),
    Column("ahead", "bigint", "number of contenders in the queue when it entered"),
    Column("held", "boolean", "whether it ever held the lock, or was the leader"),
    Column("acquired", "timestamp", "time at which it acquired the lock; null if it never did, or did before the "
           "beginning of the log"),
    Column("acquired_zxid", "bigint", "zxid of its create, or of the delete that made it the first in the queue"),
    Column("left", "timestamp", "time at which it left; null if it is still there"),
    Column("left_zxid", "bigint", "zxid of its delete"),
    Column("leaving", "string", "released, closed or expired (with its session), removed (by another session), or "
           "unknown"),
    Column("removed_by", "bigint", "the session that removed it"),
    Column("waited_ms", "bigint", "ms from entering until it acquired the lock, or left without it; null while it "
           "waits"),
    Column("held_ms", "bigint", "ms from acquiring the lock until it left"),
    Column("previous", "bigint", "session of the previous holder; null if unknown"),
    Column("previous_leaving", "string", "how the previous holder left"),
    Column("handover_ms", "bigint", "where it had waited: from the last sign of life of the holder before it (its "
           "leaving; if it expired, its last write, at most its timeout earlier) to the turn of this one"),
    Column("free_ms", "bigint", "if it did not have to wait: ms for which the lock had been free"),
    Column("session_ended", "timestamp", "time at which its session ended; null if still open"),
    Column("session_ended_zxid", "bigint", "zxid of the closeSession"),
)  # fmt: skip
LOCKS: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("lock", "string", "path of the lock: the parent of the contenders' znodes"),
    Column("role", "string", "role of most of its contenders"),
    Column("contenders", "bigint", "number of contenders"),
    Column("sessions", "bigint", "number of their sessions, with an error of about 5 %"),
    Column("turns", "bigint", "number of contenders that held it"),
    Column("gave_up", "bigint", "number of contenders that left without having held it"),
    Column("lost", "bigint", "number of turns that ended because the session expired"),
    Column("removed", "bigint", "number of turns that ended because another session deleted the znode"),
    Column("waited_ms", "bigint", "median wait before a turn"),
    Column("waited_ms_max", "bigint", "the maximum"),
    Column("held_ms", "bigint", "median length of a turn"),
    Column("held_ms_max", "bigint", "the maximum"),
    Column("handover_ms", "bigint", "median of the hand-overs to a waiting contender"),
    Column("handover_ms_max", "bigint", "the maximum"),
    Column("ahead_max", "bigint", "length of the longest queue that a contender found"),
    Column("holder", "bigint", "session that holds it at the end of the log; null if none does"),
)  # fmt: skip
OVERLAPS: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("lock", "string", "path of the lock: the parent of the contenders' znodes"),
    Column("name", "string", "name of the holder's znode, which another session removed"),
    Column("session", "bigint", "session of that holder, which was still alive and may have continued as the holder"),
    Column("removed", "timestamp", "time of the removal"),
    Column("removed_zxid", "bigint", "zxid of that delete"),
    Column("removed_by", "bigint", "session that removed it"),
    Column("next_name", "string", "znode of the next holder"),
    Column("next_session", "bigint", "session of the next holder"),
    Column("began", "timestamp", "time at which the next holder acquired the lock"),
    Column("began_zxid", "bigint", "zxid of that"),
    Column("ended", "timestamp", "time by which one of the two no longer held it for certain; null if the log does "
           "not contain it"),
    Column("ended_by", "string", "session ended, entered again, or next left"),
    Column("overlap_ms", "bigint", "maximum duration of the overlap in ms"),
)  # fmt: skip

_CLOSE_TYPE: Final = -11
_BEFORE_THE_LOG: Final = -1
_BEFORE_ALL_PARTS: Final = -2
_LOOKS_SEQUENTIAL: Final = r"\d{9,10}$"
_NUMBER_DIGITS: Final = 10
_CURATOR: Final = r"^_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-"
_ROLES: Final = (
    ("read", r"(__rlock__|__READ__|(^|[-_])read-)$"),
    ("write", r"(__WRIT__|(^|[-_])write-)$"),
    ("election", r"(latch-|(^|[-_])n_|(?i:leader|election)[-_]*)$"),
    ("lease", r"lease-$"),
    ("lock", r"(?i:lock)[-_]*$"),
)


def locks(
    log: DataFrame,
    *,
    znodes: DataFrame | None = None,
    subtree: str | None = None,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    bare_closes: bool = True,
) -> DataFrame:
    """The contenders that were in a queue at any moment within the bounds, as of the upper bounds.

    subtree: locks at or below this path. bare_closes: see `zab.pipeline.jobs.znode_changes`."""
    until_then = log.where(in_range(until=until, zxid_max=zxid_max))
    changes = znode_changes(until_then, bare_closes=bare_closes)
    wanted = F.col("kind").isin(CREATE, DELETE) & F.col("path").rlike(_LOOKS_SEQUENTIAL)
    if subtree is not None:
        wanted &= in_subtree(parent_path(F.col("path")), subtree)
    changes = changes.where(wanted)
    if znodes is not None:
        is_early_enough = in_range(until=until, zxid_max=zxid_max, time="ctime", zxid="czxid")
        changes = _with_seeds(changes, znodes.where(is_early_enough), wanted)
    ends = sessions(until_then, bare_closes=False).select(
        "ensemble",
        "session",
        "timeout",
        "silent_ms",
        "ending",
        F.col("ended").alias("session_ended"),
        F.col("ended_zxid").alias("session_ended_zxid"),
    )
    queue = _turns(_contenders(znode_lives(changes)).join(ends, ["ensemble", "session"], "left"))
    is_late_enough = F.col("left").isNull() | in_range(since=since, zxid_min=zxid_min, time="left", zxid="left_zxid")
    return queue.where(is_late_enough)


def _with_seeds(changes: DataFrame, znodes: DataFrame, wanted: SqlColumn) -> DataFrame:
    """Add the ephemerals of snapshots, each as the create that its Stat names."""
    owner = F.col("owner")
    is_ephemeral = (owner != 0) & (owner != F.lit(-(2**63))) & (F.shiftrightunsigned(owner, 40) != 0xFF0000)
    seeds = (
        znodes.where(is_ephemeral)
        .dropDuplicates(["ensemble", "path", "czxid"])
        .select(
            "ensemble",
            "path",
            "owner",
            owner.alias("session"),
            F.col("czxid").alias("zxid"),
            F.col("ctime").alias("time"),
            F.lit(CREATE).alias("kind"),
            F.struct(F.col("czxid").alias("zxid"), F.lit(_BEFORE_ALL_PARTS).alias("part")).alias("order"),
        )
        .where(wanted)
    )
    of_path = Window.partitionBy("ensemble", "path").orderBy("order")
    is_known = (F.lead("kind").over(of_path) == CREATE) & (F.lead("zxid").over(of_path) == F.col("zxid"))
    is_seed = F.col("order.part") == _BEFORE_ALL_PARTS
    return (
        changes.unionByName(seeds, allowMissingColumns=True)
        .withColumn("is_known", F.coalesce(is_known, F.lit(False)))
        .where(~(is_seed & F.col("is_known")))
        .drop("is_known")
    )


def _contenders(lives: DataFrame) -> DataFrame:
    """The lives of znodes with a number at the end that are, or may be, ephemerals."""
    created, deleted = F.col("created"), F.col("deleted")
    owner = F.col("created.owner")
    is_contender = created.isNotNull() & (owner == F.col("created.session")) & (owner != 0)
    number = sequence_number(F.col("path"), F.col("created.version"))
    name = base_name(F.col("path"))
    stem = F.left(name, F.length(name) - _NUMBER_DIGITS)
    role: SqlColumn | None = None
    for word, pattern in _ROLES:
        is_role = stem.rlike(pattern)
        role = F.when(is_role, word) if role is None else role.when(is_role, word)
    assert role is not None
    library = F.when(stem.rlike(r"^[0-9a-f]{32}__r?lock__$"), "kazoo").when(stem.rlike(_CURATOR), "curator")
    return lives.where(number.isNotNull() & (is_contender | created.isNull())).select(
        "ensemble",
        parent_path(F.col("path")).alias("lock"),
        name.alias("name"),
        number.alias("number"),
        role.otherwise("other").alias("role"),
        library.alias("library"),
        is_contender.alias("is_contender"),
        F.coalesce("created.session", "deleted.session").alias("session"),
        F.col("created.order.zxid").alias("entered_zxid"),
        F.col("created.order.part").alias("entered_part"),
        F.col("created.time").alias("entered"),
        F.col("deleted.order.zxid").alias("left_zxid"),
        F.col("deleted.order.part").alias("left_part"),
        F.col("deleted.time").alias("left"),
        F.col("deleted.session").alias("left_by"),
        F.col("deleted.type").alias("left_type"),
        deleted.isNotNull().alias("is_gone"),
    )


def _turns(contenders: DataFrame) -> DataFrame:
    """Find which contenders of each queue had a turn, and when, from the moments at which those before them left."""
    leaving = (
        F.when(~F.col("is_gone"), None)
        .when(F.col("left_type").isNull(), "unknown")
        .when(F.col("left_type") == _CLOSE_TYPE, F.col("ending"))
        .when(F.col("left_by") == F.col("session"), "released")
        .otherwise("removed")
    )
    # An expired session was silent for its timeout and more; least() passes over what is not known.
    silent = F.when(leaving.isin(EXPIRED, UNTOLD), F.least("silent_ms", "timeout")).otherwise(0)
    moves = contenders.withColumns(
        {"leaving": leaving, "silent": silent, "sign": F.explode(F.array(F.lit(-1), F.lit(1)))}
    ).where((F.col("sign") == 1) | F.col("is_gone"))
    enters = F.col("sign") == 1
    of_lock = Window.partitionBy("ensemble", "lock")
    before = of_lock.orderBy("at", "sign").rowsBetween(Window.unboundedPreceding, -1)
    gone = F.struct(_left().alias("at"), F.col("left").alias("time"), "session", "leaving", "silent")

    def of_those_before(value: SqlColumn) -> SqlColumn:
        everybody = F.max(F.when(enters, value)).over(before)
        writers = F.max(F.when(enters & (F.col("role") != "read"), value)).over(before)
        return F.when(F.col("role") == "read", writers).otherwise(everybody)

    queue = (
        moves.withColumn("at", F.when(enters, _entering()).otherwise(_left()))
        .withColumns(
            {
                "is_lock": F.max("is_contender").over(of_lock),
                "ahead": F.coalesce(F.sum("sign").over(before), F.lit(0)),
                "is_blocked": F.coalesce(of_those_before(~F.col("is_gone")), F.lit(False)),
                "before": of_those_before(F.when(F.col("is_gone"), gone)),
            }
        )
        .where(enters & F.col("is_lock"))
    )
    return _with_durations(queue)


def _entering() -> SqlColumn:
    """The moment when a contender came; those from before the log come first, in the order of their numbers."""
    unseen = F.struct(F.lit(_BEFORE_THE_LOG).cast("bigint").alias("zxid"), F.col("number").alias("part"))
    seen = F.struct(F.col("entered_zxid").alias("zxid"), F.col("entered_part").cast("bigint").alias("part"))
    return F.when(F.col("entered_zxid").isNull(), unseen).otherwise(seen)


def _left() -> SqlColumn:
    return F.struct(F.col("left_zxid").alias("zxid"), F.col("left_part").cast("bigint").alias("part"))


def _with_durations(queue: DataFrame) -> DataFrame:
    before, at, entered, left = (F.col(name) for name in ("before", "at", "entered", "left"))
    is_lease = F.col("role") == "lease"
    had_waited = F.coalesce(~is_lease & (F.col("before.at") > at), F.lit(False))
    turn = F.when(had_waited, F.col("before.at")).otherwise(at)
    held = (is_lease | ~F.col("is_blocked")) & (~F.col("is_gone") | (turn < _left()))
    has_turn = held & (turn["zxid"] != _BEFORE_THE_LOG)
    acquired = F.when(has_turn, F.when(had_waited, F.col("before.time")).otherwise(entered))
    has_previous = held & before.isNotNull() & ~is_lease
    values = {
        "held": held,
        "acquired": acquired,
        "acquired_zxid": F.when(has_turn, turn["zxid"]),
        "removed_by": F.when(F.col("leaving") == "removed", F.col("left_by")),
        "waited_ms": milliseconds(entered, F.when(held, acquired).otherwise(left)),
        "held_ms": F.when(held, milliseconds(acquired, left)),
        "previous": F.when(has_previous, F.col("before.session")),
        "previous_leaving": F.when(has_previous, F.col("before.leaving")),
        "handover_ms": F.when(has_previous & had_waited, F.col("before.silent")),
        "free_ms": F.when(has_previous & ~had_waited, milliseconds(F.col("before.time"), acquired)),
    }
    return queue.select(*(values.get(column.name, F.col(column.name)).alias(column.name) for column in QUEUE))


def lock_summary(queue: DataFrame) -> DataFrame:
    """One row for each lock. queue: the result of `locks`."""
    held, leaving = F.col("held"), F.col("leaving")
    waited, turn = F.when(held, F.col("waited_ms")), F.when(held, F.col("held_ms"))
    return queue.groupBy("ensemble", "lock").agg(
        F.mode("role").alias("role"),
        F.count("*").alias("contenders"),
        F.approx_count_distinct("session").alias("sessions"),
        F.count_if(held).alias("turns"),
        F.count_if(~held & F.col("left").isNotNull()).alias("gave_up"),
        F.count_if(held & (leaving == "expired")).alias("lost"),
        F.count_if(held & (leaving == "removed")).alias("removed"),
        F.percentile_approx(waited, 0.5).alias("waited_ms"),
        F.max(waited).alias("waited_ms_max"),
        F.percentile_approx(turn, 0.5).alias("held_ms"),
        F.max(turn).alias("held_ms_max"),
        F.percentile_approx("handover_ms", 0.5).alias("handover_ms"),
        F.max("handover_ms").alias("handover_ms_max"),
        F.max("ahead").alias("ahead_max"),
        F.max(F.when(held & F.col("left").isNull(), F.col("session"))).alias("holder"),
    )


def overlaps(queue: DataFrame) -> DataFrame:
    """The turns that another session ended by deleting the holder's znode, if the next turn came while the holder's
    session lived and had not entered the queue again. queue: the result of `locks`."""
    of_session = Window.partitionBy("ensemble", "lock", "session").orderBy("entered_zxid")
    of_lock = Window.partitionBy("ensemble", "lock").orderBy("acquired_zxid", "entered_zxid", "number")
    following = F.struct("name", "session", "role", "acquired", "acquired_zxid", "left", "left_zxid")
    again = F.struct(F.col("entered").alias("time"), F.col("entered_zxid").alias("zxid"))
    ends = F.array_compact(
        F.array(
            _ending(F.col("again.zxid"), F.col("again.time"), "entered again", F.col("left_zxid")),
            _ending(F.col("session_ended_zxid"), F.col("session_ended"), "session ended", F.col("left_zxid")),
            _ending(F.col("next.left_zxid"), F.col("next.left"), "next left", F.col("left_zxid")),
        )
    )
    is_conflict = (F.col("next.session") != F.col("session")) & ~(
        (F.col("role") == "read") & (F.col("next.role") == "read")
    )
    is_open = F.col("end").isNull() | (F.col("end.zxid") > F.col("next.acquired_zxid"))
    return (
        queue.withColumn("again", F.lead(again).over(of_session))
        .where(F.col("held") & (F.col("role") != "lease"))
        .withColumn("next", F.lead(following).over(of_lock))
        .where((F.col("leaving") == "removed") & F.col("next").isNotNull() & is_conflict)
        .withColumn("end", F.array_min(ends))
        .where(is_open)
        .select(
            "ensemble",
            "lock",
            "name",
            "session",
            F.col("left").alias("removed"),
            F.col("left_zxid").alias("removed_zxid"),
            "removed_by",
            F.col("next.name").alias("next_name"),
            F.col("next.session").alias("next_session"),
            F.col("next.acquired").alias("began"),
            F.col("next.acquired_zxid").alias("began_zxid"),
            F.col("end.time").alias("ended"),
            F.col("end.by").alias("ended_by"),
            milliseconds(F.col("next.acquired"), F.col("end.time")).alias("overlap_ms"),
        )
    )


def _ending(zxid: SqlColumn, time: SqlColumn, by: str, after: SqlColumn) -> SqlColumn:
    """An event that ends an overlap, if it happened after the removal; else null."""
    return F.when(zxid > after, F.struct(zxid.alias("zxid"), time.alias("time"), F.lit(by).alias("by")))
