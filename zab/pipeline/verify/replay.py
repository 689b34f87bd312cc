"""Whether a snapshot is what the logs make of the one before it: the replay, compared znode by znode.

    verify_replay(spark, members, reports, newest=1) -> Findings

The newest whole snapshots of an ensemble are looked at. Each is compared with the state (`state.frames`) that the logs
lead to from an older snapshot, or from the beginning. A snapshot of ZooKeeper that was taken under load is exact at no
zxid of its own: then both, it and the older one, are replayed to where it is exact.

What belongs to one server and not to the ensemble is left out: ZooKeeper's text of /zookeeper/config and the sums of
quotas. So are the sessions in its snapshots, which it copies at another moment than the znodes.

Invariants: where logs do not suffice for a replay, that is stated, never passed over. Memory is Spark's.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from datatree.paths import CONFIG
from zab.pipeline.decoding.snapshot_rows import Label
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import MemberFiles
from zab.pipeline.reading.snapshot_source import SnapshotTask, read_tasks
from zab.pipeline.schema import ZNODES
from zab.pipeline.sql import F
from zab.pipeline.state.state_of import StateAt, state_of_members
from zab.pipeline.verify.findings import Finding
from zab.pipeline.verify.snapshots import SnapshotReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["verify_replay"]

SHOWN_MAX: Final = 10
_LABELS: Final = ("ensemble", "member", "snapshot", "zxid", "path")
_COMPARED: Final = tuple(column.name for column in ZNODES if column.name not in _LABELS)
_STATS: Final = "/zookeeper_stats"


def verify_replay(
    spark: "SparkSession", members: Sequence[MemberFiles], reports: Sequence[SnapshotReport], *, newest: int = 1
) -> Iterator[Finding]:
    """The findings of one ensemble. reports: of all its snapshots. newest: how many are compared."""
    whole = {report.file.zxid: report for report in reports if report.exact_from is not None}
    for zxid in sorted(whole)[-newest:] if newest > 0 else []:
        yield from _Replay(spark, members, whole[zxid]).findings()


class _Replay:
    """One snapshot and the logs that lead to it."""

    def __init__(self, spark: "SparkSession", members: Sequence[MemberFiles], report: SnapshotReport) -> None:
        self._spark = spark
        self._members = members
        self._report = report
        self._is_native = report.file.kind == "native"
        self._at = report.exact_from or report.file.zxid

    def findings(self) -> Iterator[Finding]:
        file = self._report.file
        older = [
            evolve(one, snapshots=[each for each in one.snapshots if each.zxid < file.zxid]) for one in self._members
        ]
        try:
            made = self._state(older)
            held = self._held()
        except PipelineError as error:
            yield self._report.finding("replayed", f"it is not compared with the logs: {error}", deviation=False)
            return
        rows = _different(held[0], made.znodes, "path", _COMPARED)
        rows = rows.where(~F.col("path").isin(CONFIG.decode()) & ~F.col("path").endswith(_STATS))
        yield from self._told(rows, "path")
        if self._is_native:
            yield from self._told(_different(held[1], made.sessions, "session", ("timeout",)), "session")
        moment = made.moments[0]
        since = "the beginning" if moment.base is None else moment.base.file.name
        sentence = f"compared with {since} and the {moment.txn_count} transactions after it, up to {self._at:#x}"
        yield self._report.finding("replayed", sentence, deviation=False)

    def _state(self, members: Sequence[MemberFiles]) -> StateAt:
        """The state where the snapshot is exact, from what these members have."""
        is_alone = not self._is_native and len(members) == 1
        return state_of_members(self._spark, members, self._at, uncommitted=is_alone)

    def _held(self) -> tuple["DataFrame", "DataFrame"]:
        """What the snapshot holds, where it is exact."""
        report = self._report
        if self._at == report.file.zxid:
            tasks = [SnapshotTask(report.file, Label(report.ensemble, report.member, report.file.name, self._at))]
            return read_tasks(self._spark, tasks), read_tasks(self._spark, tasks, sessions=True)
        alone = [
            evolve(one, snapshots=[each for each in one.snapshots if each.place == report.file.place])
            for one in self._members
        ]
        state = self._state(alone)
        return state.znodes, state.sessions

    def _told(self, rows: "DataFrame", key: str) -> Iterator[Finding]:
        found = rows.orderBy(key).limit(SHOWN_MAX + 1).collect()
        for row in found[:SHOWN_MAX]:
            yield self._report.finding("snapshot", f"{_named(key, row[key])}: {_difference(row)}")
        if len(found) > SHOWN_MAX:
            yield self._report.finding("snapshot", f"{rows.count() - SHOWN_MAX} more that the logs make otherwise")


def _different(held: "DataFrame", made: "DataFrame", key: str, columns: Sequence[str]) -> "DataFrame":
    """Rows of the key, `held` and `made`, where the columns are not the same."""
    one = held.select(key, F.struct(*columns).alias("held"))
    other = made.select(key, F.struct(*columns).alias("made"))
    return one.join(other, key, "full_outer").where(~F.col("held").eqNullSafe(F.col("made")))


def _named(key: str, value: Any) -> str:
    return f"session {value & (1 << 64) - 1:#x}" if key == "session" else str(value)


def _difference(row: Any) -> str:
    held, made = row["held"], row["made"]
    if held is None or made is None:
        return "the logs make it, and it is not there" if held is None else "it is there, and the logs do not make it"
    names = [name for name in held.asDict() if held[name] != made[name]]
    shown = [f"{name} {_value(held[name])}, by the logs {_value(made[name])}" for name in names[:3]]
    return "; ".join(shown) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _value(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return repr(bytes(value[:24])) + ("..." if len(value) > 24 else "")
    return str(value)
