"""The job `audit`: who changed what and when, with the old and the new value of each change.

    audit(log, subtree="/app", since=...)

`log` has each transaction once (`members="one"`). The old value comes from the last change before, which may be before
the bounds: so pass a log that begins earlier, and filter here. Values older than the log are unknown, unless `znodes`,
rows of snapshots, has them. A znode says which transaction wrote its data, so any snapshot will do.

`AUDIT` has the columns of the result.

Deliberately not here: reads, which no log has, and the opening and closing of sessions (`zab.pipeline.jobs.sessions`).
"""

import datetime
from typing import Final

from zab.pipeline.jobs.znode_changes import ACL, CREATE, DELETE, LOG_COLUMNS, SET, znode_changes
from zab.pipeline.schema import Column
from zab.pipeline.sql import DataFrame, F, SqlColumn, Window, in_range, in_subtree

__all__ = ["AUDIT", "COLUMNS", "ZNODE_COLUMNS", "audit"]

COLUMNS: Final = (*LOG_COLUMNS, "error")
"""The columns that it needs of the log."""
ZNODE_COLUMNS: Final = ("ensemble", "path", "data", "mzxid", "mtime", "aversion", "acl")
"""The columns that it needs of snapshots."""

AUDIT: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("zxid", "bigint", "zxid of the transaction that made the change"),
    Column("part", "int", "index within a multi"),
    Column("time", "timestamp", "of the transaction"),
    Column("session", "bigint", "session that made the change; for an ephemeral that closeSession deleted, the "
           "session that ended"),
    Column("cxid", "int", "number of the request in its session; 0 for changes that the ensemble made itself"),
    Column("operation", "string", "as in the log; closeSession for an ephemeral that was deleted with its session"),
    Column("change", "string", "create, set, delete or acl; refused for a write that was refused"),
    Column("path", "string", "path of the znode"),
    Column("old", "binary", "data before the change; null if it was null, unchanged or unknown, or if the znode did "
           "not exist"),
    Column("old_known", "boolean", "whether `old` (for acl: `old_acl`) is known; null for create and refused"),
    Column("new", "binary", "data after the change; null if it is null or unchanged, or if the znode was deleted"),
    Column("version", "int", "new version of the data (create and set) or of the ACL (acl)"),
    Column("old_zxid", "bigint", "zxid of the transaction that wrote the old data; null if unknown, or if the znode "
           "did not exist"),
    Column("old_time", "timestamp", "time of that transaction"),
    Column("old_acl", "string", "ACL before the change, if known; for acl and delete"),
    Column("new_acl", "string", "ACL after the change; for create and acl"),
    Column("owner", "bigint", "for create: the owner, as in the log"),
    Column("error", "int", "error code of a refused write; -2 for a part of a multi that was refused because of "
           "another part; otherwise 0"),
)  # fmt: skip

_SEED: Final = "seed"
_REFUSED: Final = "refused"
_ERROR_TYPE: Final = -1
_AFTER_ALL_PARTS: Final = 2**31 - 1


def audit(
    log: DataFrame,
    *,
    znodes: DataFrame | None = None,
    path: str | None = None,
    subtree: str | None = None,
    session: int | None = None,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    zxid_min: int | None = None,
    zxid_max: int | None = None,
    refused: bool = False,
    bare_closes: bool = True,
) -> DataFrame:
    """The changes within all given bounds, in no order. refused: include the writes that were refused, if the log has
    their path or neither path nor subtree is given. bare_closes: see `zab.pipeline.jobs.znode_changes`."""
    until_then = log.where(in_range(until=until, zxid_max=zxid_max))
    wanted = _path_filter(path, subtree)
    changes = znode_changes(until_then, bare_closes=bare_closes).where(wanted).withColumn("error", F.lit(0))
    if znodes is not None:
        changes = changes.unionByName(_seeds(znodes.where(wanted)), allowMissingColumns=True)
    result = _with_old_values(changes)
    if refused:
        result = result.unionByName(_refusals(until_then.where(wanted)), allowMissingColumns=True)
    result = result.where(in_range(since=since, zxid_min=zxid_min))
    return result if session is None else result.where(F.col("session") == session)


def _path_filter(path: str | None, subtree: str | None) -> SqlColumn:
    condition = F.lit(True)
    if path is not None:
        condition &= F.col("path") == path
    if subtree is not None:
        condition &= in_subtree(F.col("path"), subtree)
    return condition


def _seeds(znodes: DataFrame) -> DataFrame:
    """The contents of snapshots as rows of the transactions that wrote them, which sort after the log's own rows."""
    order = F.struct(F.col("mzxid").alias("zxid"), F.lit(_AFTER_ALL_PARTS).alias("part"))
    # A snapshot does not say when a changed ACL was set.
    acl = F.when(F.col("aversion") == 0, F.col("acl"))
    return znodes.select(
        "ensemble",
        "path",
        "data",
        acl.alias("acl"),
        F.col("mzxid").alias("zxid"),
        F.col("mtime").alias("time"),
        F.lit(_SEED).alias("kind"),
        order.alias("order"),
    )


def _with_old_values(changes: DataFrame) -> DataFrame:
    before = Window.partitionBy("ensemble", "path").orderBy("order").rowsBetween(Window.unboundedPreceding, -1)
    kind = F.col("kind")
    data_state = F.struct(
        (kind != DELETE).alias("is_there"),
        "zxid",
        "time",
        F.when(kind != DELETE, F.col("data")).alias("data"),
    )
    acl_state = F.struct(F.when(kind != DELETE, F.col("acl")).alias("acl"))
    knows_acl = kind.isin(CREATE, ACL, DELETE) | ((kind == _SEED) & F.col("acl").isNotNull())
    old = F.last(F.when(kind != ACL, data_state), ignorenulls=True).over(before)
    old_acl = F.last(F.when(knows_acl, acl_state), ignorenulls=True).over(before)
    has_old = kind.isin(SET, DELETE) & F.col("was.is_there")
    return (
        changes.withColumn("was", old)
        .withColumn("was_acl", old_acl)
        .where(kind != _SEED)
        .select(
            "ensemble",
            "zxid",
            "part",
            "time",
            "session",
            "cxid",
            "operation",
            kind.alias("change"),
            "path",
            F.when(has_old, F.col("was.data")).alias("old"),
            F.when(kind.isin(SET, DELETE), F.col("was").isNotNull())
            .when(kind == ACL, F.col("was_acl.acl").isNotNull())
            .alias("old_known"),
            F.when(kind.isin(CREATE, SET), F.col("data")).alias("new"),
            # A create's own number is its parent's cversion.
            F.when(kind == CREATE, 0).when(kind != DELETE, F.col("version")).alias("version"),
            F.when(has_old, F.col("was.zxid")).alias("old_zxid"),
            F.when(has_old, F.col("was.time")).alias("old_time"),
            F.when(kind.isin(ACL, DELETE), F.col("was_acl.acl")).alias("old_acl"),
            F.when(kind.isin(CREATE, ACL), F.col("acl")).alias("new_acl"),
            F.when(kind == CREATE, F.col("owner")).alias("owner"),
            "error",
        )
    )


def _refusals(log: DataFrame) -> DataFrame:
    return log.where(F.col("type") == _ERROR_TYPE).select(
        "ensemble",
        "zxid",
        "part",
        "time",
        "session",
        "cxid",
        "operation",
        F.lit(_REFUSED).alias("change"),
        "path",
        "error",
    )
