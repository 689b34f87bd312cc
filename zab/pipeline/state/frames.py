"""The state at one moment as DataFrames: znodes with their whole Stat, and sessions, out of a log and a snapshot.

    state(log, znodes, at=…)             DataFrame of ZNODES: `znodes` is a snapshot at or below the moment
    session_state(log, sessions, at=…)   DataFrame of SESSIONS
    last_zxid(log, at)                   the zxid that a moment means: the last transaction at or below it

A moment is a zxid, or a time: then it means the last transaction whose time is at or below it. In logs of ours times
never run backwards; in those of ZooKeeper a new leader's clock may be behind; the rule is the same.

    log ──────── at most two events a transaction ─┐
    znodes ───── one event, or two ────────────────┴─ by path, sorted ── replay_batches ── rows

One pass over the log, one shuffle; what a worker holds is one znode and the names of its children
(`zab.pipeline.state.replay`). Refused writes and refused multis change nothing.

The log has to hold every transaction after the snapshot up to the moment, each once. Whether it does is not checked
here (`zab.pipeline.state.moment` plans both). A snapshot of ZooKeeper has to be exact at or below the moment.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from datatree.opcodes import Effect, names_with
from datatree.paths import CONFIG
from datatree.zookeeper.state import ZooKeeperState
from zab.pipeline.decoding.acl_text import acl_text
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.errors import PipelineError
from zab.pipeline.schema import SESSIONS, ZNODES, ddl
from zab.pipeline.sql import F
from zab.pipeline.state import replay
from zab.pipeline.state.replay import BASE_COLUMNS, EVENTS_DDL, replay_batches
from zab.pipeline.workers import map_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["LOG_COLUMNS", "SESSION_COLUMNS", "first_znodes", "last_zxid", "session_state", "state"]

LOG_COLUMNS: Final = (
    "zxid", "time", "session", "operation", "part", "path", "data", "version", "acl", "owner", "timeout", "paths",
)  # fmt: skip
"""What is needed of the log."""
SESSION_COLUMNS: Final = ("zxid", "session", "operation", "timeout")
"""For its sessions."""

_CREATES: Final = names_with(Effect.CREATE)
_DELETES: Final = names_with(Effect.DELETE)
_SETS: Final = names_with(Effect.SET_DATA)
_CLOSE: Final = "closeSession"
_OPERATIONS: Final = (*_CREATES, *_DELETES, *_SETS, "setACL", _CLOSE)

# One event as a struct: the fields that a kind does not have are the same everywhere.
_EVENT: Final = (
    "named_struct('path', {path}, 'part', {part}, 'kind', {kind}, 'time', {time}, 'data', {data}, 'number', {number}, "
    "'acl', {acl}, 'owner', {owner}, 'name', {name})"
)
_PARENT: Final = "if(instr(substr({path}, 2), '/') = 0, '/', substr({path}, 1, length({path}) - length({name}) - 1))"
_NAME: Final = "substring_index({path}, '/', -1)"
_FILE_LABEL: Final = ("ensemble", "member", "snapshot", "zxid")


def _event(kind: int, path: str, **fields: str) -> str:
    given = {
        "part": "part", "time": "CAST(NULL AS timestamp)", "data": "CAST(NULL AS binary)", "number": "0",
        "acl": "CAST(NULL AS string)", "owner": "0L", "name": "CAST(NULL AS string)",
    }  # fmt: skip
    return _EVENT.format(path=path, kind=kind, **(given | fields))


def _parent(path: str) -> str:
    return _PARENT.format(path=path, name=_NAME.format(path=path))


def _child(kind: int, path: str, **fields: str) -> str:
    """The event that a child's path has for its parent."""
    return _event(kind, _parent(path), name=_NAME.format(path=path), **fields)


def _in(names: Iterable[str]) -> str:
    return f"operation IN ({', '.join(map(repr, names))})"


def _events_of_log() -> str:
    """A transaction's events, as an array of structs."""
    owner, number = "coalesce(owner, 0L)", "coalesce(version, 0)"
    made = _event(replay.CREATE, "path", time="time", data="data", acl="acl", owner=owner)
    below = _child(replay.CHILD_CREATED, "path", number=number, owner=owner)
    gone, left = _event(replay.DELETE, "path"), _child(replay.CHILD_DELETED, "path")
    closed = _event(replay.DELETE, "each", part="number"), _child(replay.CHILD_DELETED, "each", part="number")
    return (
        f"CASE WHEN {_in(_CREATES)} THEN array({made}, {below}) "
        f"WHEN {_in(_DELETES)} THEN array({gone}, {left}) "
        f"WHEN {_in(_SETS)} THEN array({_event(replay.SET_DATA, 'path', time='time', data='data', number=number)}) "
        f"WHEN operation = 'setACL' THEN array({_event(replay.SET_ACL, 'path', acl='acl', number=number)}) "
        f"ELSE flatten(transform(paths, (each, number) -> array({', '.join(closed)}))) END"
    )


def _log_events(log: "DataFrame", above: int, up_to: int) -> "DataFrame":
    changes = log.where((F.col("zxid") > above) & (F.col("zxid") <= up_to) & F.col("operation").isin(*_OPERATIONS))
    changes = changes.withColumn("part", F.coalesce("part", F.lit(0)))
    events = changes.select("zxid", F.explode(F.expr(_events_of_log())).alias("event"))
    return _as_events(events.select("zxid", "event.*"))


def _base_events(znodes: "DataFrame", *, exact: bool) -> "DataFrame":
    base = F.struct(*(F.col(name) for name in BASE_COLUMNS))
    own = _event(replay.ZNODE, "path", data="data", acl="acl", owner="owner")
    rows = znodes.withColumn("zxid", F.lit(-1).cast("bigint")).withColumn("part", F.lit(0)).withColumn("base", base)
    loaded = _as_events(rows.select("zxid", F.expr(own).alias("event"), "base").select("zxid", "event.*", "base"))
    if exact:
        return loaded
    below = rows.where(F.col("path") != "/").select(
        "zxid", F.expr(_child(replay.CHILD, "path", owner="owner")).alias("event")
    )
    return loaded.unionByName(_as_events(below.select("zxid", "event.*")))


def _close_events(log: "DataFrame", znodes: "DataFrame", above: int, up_to: int) -> "DataFrame":
    """Of sessions that were closed without a list of their ephemerals: each znode that was theirs once is asked."""
    lived = (F.col("zxid") > above) & (F.col("zxid") <= up_to)
    closed = log.where(lived & (F.col("operation") == _CLOSE) & F.col("paths").isNull()).select("zxid", "session")
    made = log.where(lived & F.col("operation").isin(*_CREATES)).select("path", "owner")
    owned = made.union(znodes.select("path", "owner")).where(F.col("owner") != 0).distinct()
    rows = owned.join(F.broadcast(closed), F.col("owner") == F.col("session")).withColumn("part", F.lit(0))
    events = F.expr(
        f"array({_event(replay.CLOSE, 'path', owner='session')}, "
        f"{_child(replay.CHILD_CLOSED, 'path', owner='session')})"
    )
    return _as_events(rows.select("zxid", F.explode(events).alias("event")).select("zxid", "event.*"))


def _as_events(rows: "DataFrame") -> "DataFrame":
    """The columns of EVENTS_DDL, in order."""
    columns: list[Column] = []
    for name, kind in (item.split(" ", 1) for item in _split_ddl()):
        column = F.col(name) if name in rows.columns else F.lit(None)
        columns.append(column.cast(kind).alias(name))
    return rows.select(*columns)


def _split_ddl() -> list[str]:
    flat, _, base = EVENTS_DDL.partition(", base ")
    return [*flat.split(", "), f"base {base}"]


def first_znodes(spark: "SparkSession", kind: str = "native") -> "DataFrame":
    """The znodes of an ensemble in which nothing has happened yet."""
    began = datetime.fromtimestamp(0, UTC)
    empty = ZooKeeperState.empty()
    rows = []
    for path, znode in sorted(empty.znodes.items()):
        count = len(empty.children.get(path, ()))
        # Our members' own text is version -1 until somebody sets another.
        version = -1 if path == CONFIG and kind == "native" else znode.version
        rows.append(
            (
                *(None, None, None, 0, path.decode(), b"", 0, 0, 0, began, began, version, -count, 0, znode.aversion),
                *(0, acl_text(znode.acl), count),
            )
        )
    return spark.createDataFrame(rows, ddl(ZNODES))


def state(
    log: "DataFrame",
    znodes: "DataFrame | None" = None,
    *,
    at: int | datetime | None = None,
    base_zxid: int | None = None,
    exact: bool = False,
    is_closing_listed: bool = True,
    label: Label | None = None,
) -> "DataFrame":
    """The znodes at a moment, None for the end of the log: columns of ZNODES, sorted by path within a partition.

    log: rows of LOG, at least LOG_COLUMNS, of one ensemble, each transaction once. znodes: rows of one snapshot with
    all columns of ZNODES, None for an ensemble that began empty. base_zxid: that of the snapshot, if it is known.
    exact: the snapshot is one of ours. is_closing_listed: every closeSession says which ephemerals it deleted; logs of
    ZooKeeper before 3.6 do not. label: what the rows say of themselves; zxid alone, if not given.
    """
    up_to = last_zxid(log, at)
    if znodes is None:
        znodes, base_zxid = first_znodes(log.sparkSession), 0
    if base_zxid is None:
        row = znodes.select("zxid").first()
        if row is None:
            raise PipelineError("the snapshot to begin with has no znodes")
        base_zxid = row[0]
    events = _log_events(log, base_zxid, up_to).unionByName(_base_events(znodes, exact=exact))
    if not is_closing_listed:
        events = events.unionByName(_close_events(log, znodes, base_zxid, up_to))
    events = events.repartition("path").sortWithinPartitions("path", "zxid", "part", "kind")
    shown = label or Label(None, None, None, max(up_to, base_zxid))
    return map_batches(events, partial(replay_batches, label=shown, exact=exact), ddl(ZNODES))


def session_state(
    log: "DataFrame",
    sessions: "DataFrame | None" = None,
    *,
    at: int | datetime | None = None,
    base_zxid: int = 0,
    label: Label | None = None,
) -> "DataFrame":
    """The sessions that are open at a moment, with their timeouts: columns of SESSIONS. Arguments as in `state`."""
    up_to = last_zxid(log, at)
    lived = (F.col("zxid") > base_zxid) & (F.col("zxid") <= up_to)
    changes = log.where(lived & F.col("operation").isin("createSession", _CLOSE)).select(
        "session", "zxid", (F.col("operation") != _CLOSE).alias("is_open"), "timeout"
    )
    if sessions is not None:
        known = sessions.select(
            "session", F.lit(-1).cast("bigint").alias("zxid"), F.lit(True).alias("is_open"), "timeout"
        )
        changes = changes.unionByName(known)
    last = changes.groupBy("session").agg(F.max(F.struct("zxid", "is_open", "timeout")).alias("last"))
    shown = label or Label(None, None, None, max(up_to, base_zxid))
    columns = [F.lit(getattr(shown, name)).alias(name) for name in _FILE_LABEL]
    rows = last.where("last.is_open").select(*columns, "session", F.col("last.timeout").alias("timeout"))
    return rows.select(*(F.col(column.name).cast(column.type).alias(column.name) for column in SESSIONS))


def last_zxid(log: "DataFrame", at: int | datetime | None) -> int:
    """The zxid that a moment means: itself, or the last transaction at or below the time, or the last of the log.

    A time without a zone is UTC. Raises PipelineError where the log has no transaction that early."""
    if isinstance(at, int):
        return at
    if at is not None:
        log = log.where(F.col("time") <= F.lit(at if at.tzinfo is not None else at.replace(tzinfo=UTC)))
    row = log.agg(F.max("zxid")).first()
    if row is None or row[0] is None:
        raise PipelineError(f"the log has no transaction at or before {at}" if at else "the log has no transactions")
    last: int = row[0]
    return last
