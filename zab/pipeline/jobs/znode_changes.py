"""Derives from a log's rows the changes of znodes, one row for each znode that a transaction changed, and their lives.

    changes = znode_changes(log)        creates, deletes, new data, new ACLs, in any order
    lives = znode_lives(changes)        from each create to the delete that ended it

The parts of a multi are rows already. A closeSession becomes one delete for each ephemeral that it deleted. If the log
does not list them (`paths` is null: ZooKeeper before 3.6, or `closeSessionTxn.enabled=false`), a delete is assumed for
each ephemeral that the session ever created, and dropped unless that znode exists then and belongs to the session. This
needs a second pass over the log; pass `bare_closes=False` if the log is known to have no such closeSession.

    kind      create, set, acl or delete
    order     struct (zxid, part): the order of changes; the deletes of one closeSession are at one moment

All other columns are those of the log, of which `LOG_COLUMNS` are needed. Refused writes and checks are no changes.

Invariants: rows of different ensembles never meet; every window is one of a path, never of everything.
"""

from typing import Final

from datatree.opcodes import Effect, OpCode, types_with
from zab.pipeline.sql import DataFrame, F, SqlColumn, Window

__all__ = ["ACL", "CREATE", "DELETE", "LOG_COLUMNS", "SET", "znode_changes", "znode_lives"]

CREATE: Final = "create"
SET: Final = "set"
ACL: Final = "acl"
DELETE: Final = "delete"

LOG_COLUMNS: Final = (
    "ensemble", "zxid", "part", "time", "session", "cxid", "type", "operation",
    "path", "data", "version", "acl", "owner", "paths",
)  # fmt: skip
"""The columns that `znode_changes` needs of the log; a job that does not use `data` or `acl` may leave these out."""

_KINDS: Final = {
    CREATE: types_with(Effect.CREATE),
    DELETE: types_with(Effect.DELETE),
    SET: types_with(Effect.SET_DATA),
    ACL: types_with(Effect.SET_ACL),
}
_CLOSE_SESSION: Final = int(OpCode.CLOSE_SESSION)


def znode_changes(log: DataFrame, *, bare_closes: bool = True, others: bool = False) -> DataFrame:
    """One row for each change of a znode.

    others: also one row, with neither kind nor path, for each row of the log that changes no znode or closes a
    session."""
    kind: SqlColumn | None = None
    for name, types in _KINDS.items():
        condition = F.col("type").isin(*types)
        kind = F.when(condition, name) if kind is None else kind.when(condition, name)
    assert kind is not None
    is_close = F.col("type") == _CLOSE_SESSION
    listed = F.when(is_close, F.col("paths")).when(kind.isNotNull(), F.array("path"))
    nothing = F.array(F.lit(None).cast("string"))
    # Explode drops a row without a list.
    paths = F.when(is_close | kind.isNull(), F.concat(F.coalesce(listed, F.array()), nothing)).otherwise(listed)
    changes = (
        log.withColumn("kind", F.when(is_close, DELETE).otherwise(kind))
        .withColumn("path", F.explode(paths if others else listed))
        .withColumn("kind", F.when(F.col("path").isNotNull(), F.col("kind")))
        .where(F.lit(True) if others else F.col("path").isNotNull())
        .withColumn("order", F.struct("zxid", F.coalesce("part", F.lit(-1)).alias("part")))
        .drop("paths")
    )
    return _with_assumed_deletes(log, changes, others) if bare_closes else changes


def _with_assumed_deletes(log: DataFrame, changes: DataFrame, others: bool) -> DataFrame:
    is_bare_close = (F.col("type") == _CLOSE_SESSION) & F.col("paths").isNull()
    is_ephemeral = F.col("type").isin(*_KINDS[CREATE]) & (F.col("owner") == F.col("session")) & (F.col("session") != 0)
    # Single columns, not one struct: Spark 4.3.0 loses fields of a struct that is selected beside an explode.
    assumed = (
        log.where(is_bare_close | is_ephemeral)
        .groupBy("ensemble", "session")
        .agg(
            *(F.max(F.when(is_bare_close, F.col(name))).alias(name) for name in ("zxid", "time", "cxid")),
            F.collect_set(F.when(is_ephemeral, F.col("path"))).alias("paths"),
        )
        .where(F.col("zxid").isNotNull())
        .withColumn("path", F.explode("paths"))
        .drop("paths")
        .withColumns(
            {
                "type": F.lit(_CLOSE_SESSION),
                "operation": F.lit("closeSession"),
                "kind": F.lit(DELETE),
                "order": F.struct("zxid", F.lit(-1).alias("part")),
            }
        )
    )
    # Rows without a path would all be in one window.
    key: list[SqlColumn | str] = [
        "ensemble",
        "path",
        *([F.when(F.col("path").isNull(), F.col("zxid"))] if others else []),
    ]
    before = Window.partitionBy(*key).orderBy("order").rowsBetween(Window.unboundedPreceding, -1)
    state = F.when(F.col("kind") == CREATE, F.col("owner")).when(F.col("kind") == DELETE, F.lit(0))
    return (
        changes.withColumn("assumed", F.lit(False))
        .unionByName(assumed.withColumn("assumed", F.lit(True)), allowMissingColumns=True)
        .withColumn("owner_before", F.last(state, ignorenulls=True).over(before))
        .where(~F.col("assumed") | F.coalesce(F.col("owner_before") == F.col("session"), F.lit(False)))
        .drop("assumed", "owner_before")
    )


def znode_lives(changes: DataFrame) -> DataFrame:
    """One row for each create, with its end, and for each delete of a znode whose create is not in the rows.

    ensemble, path; created: struct (order, time, session, owner, version), null if the rows do not have it; deleted:
    struct (order, time, session, cxid, type), null if the znode is still there, and with a null type if only a later
    create says that it must have been deleted."""
    ordered = Window.partitionBy("ensemble", "path").orderBy("order")
    is_delete = F.col("kind") == DELETE
    created = F.when(~is_delete, F.struct("order", "time", "session", "owner", "version"))
    deleted = F.struct(
        "order",
        "time",
        F.when(is_delete, F.col("session")).alias("session"),
        F.when(is_delete, F.col("cxid")).alias("cxid"),
        F.when(is_delete, F.col("type")).alias("type"),
    )
    return (
        changes.where(F.col("kind").isin(CREATE, DELETE))
        .select(
            "ensemble",
            "path",
            is_delete.alias("is_delete"),
            created.alias("created"),
            deleted.alias("own"),
            F.lag(F.lit(True)).over(ordered).isNull().alias("is_first"),
            F.lead(deleted).over(ordered).alias("next"),
        )
        .where(~F.col("is_delete") | F.col("is_first"))
        .select(
            "ensemble",
            "path",
            "created",
            F.when(F.col("is_delete"), F.col("own")).otherwise(F.col("next")).alias("deleted"),
        )
    )
