"""Checks whether a snapshot is what the logs make of an older one: compares the replay znode by znode.

    verify_replay(spark, members, reports, newest=1) -> Findings

The newest whole snapshots of an ensemble are checked. Each is compared with the state (`state.local_state`) to which
the logs lead from an older snapshot, or from the beginning. A snapshot of ZooKeeper that was taken under load is not
exact at its own zxid: then both, it and the older one, are replayed to where it is exact.

Each replay is one Spark task, and is done in its worker: a distributed plan would cost far more than it saves. Its
memory holds the tree, as a member's does.

What belongs to one server and not to the ensemble is not compared: ZooKeeper's text of /zookeeper/config, the sums of
quotas, and the sessions in its snapshots, which it copies at a moment other than the znodes.

Invariants: if the logs do not suffice for a replay, that is always stated.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from attrs import evolve, frozen

from datatree.paths import CONFIG
from datatree.quota import is_stats
from zab.pipeline.decoding.snapshot_rows import Label, SnapshotDamageError
from zab.pipeline.errors import PipelineError
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.snapshot_choice import opened
from zab.pipeline.schema import SESSIONS, ZNODES, arrow_schema
from zab.pipeline.state.local_state import LocalLogs, LocalState, local_state
from zab.pipeline.state.moment import Moment, moment_of
from zab.pipeline.verify.findings import Finding
from zab.pipeline.verify.snapshots import SnapshotReport
from zab.pipeline.workers import begin_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["verify_replay"]

SHOWN_MAX: Final = 10
_COMPARED: Final = (
    "data", "czxid", "mzxid", "pzxid", "ctime", "mtime", "version", "cversion", "children_created", "aversion", "owner",
    "acl", "num_children",
)  # fmt: skip
_TIMES: Final = ("ctime", "mtime")
_BEGAN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US_PER_MS: Final = 1000

Row = tuple[Any, ...]


def verify_replay(
    spark: "SparkSession", members: Sequence[MemberFiles], reports: Sequence[SnapshotReport], *, newest: int = 1
) -> list[Finding]:
    """The findings about one ensemble. reports: of all its snapshots. newest: how many are compared."""
    whole = {report.file.zxid: report for report in reports if report.exact_from is not None}
    replays = [_Replay(tuple(members), whole[zxid]) for zxid in sorted(whole)[-newest:] if newest > 0]
    if not replays:
        return []
    found = spark.sparkContext.parallelize(replays, len(replays)).map(_look).collect()
    return [finding for findings in found for finding in findings]


def _look(replay: "_Replay") -> list[Finding]:
    begin_task()
    return list(replay.findings())


@frozen
class _Replay:
    """One snapshot and the logs that lead to it."""

    members: tuple[MemberFiles, ...]
    report: SnapshotReport

    @property
    def _is_native(self) -> bool:
        return self.report.file.kind == "native"

    @property
    def _at(self) -> int:
        return self.report.exact_from or self.report.file.zxid

    def findings(self) -> Iterator[Finding]:
        """Yield the deviations, then what was compared with what; or why it was not."""
        older = [
            evolve(one, snapshots=[file for file in one.snapshots if file.zxid < self.report.file.zxid])
            for one in self.members
        ]
        try:
            moment, made = self._state(older)
            znodes, sessions = self._held()
        except PipelineError as error:
            yield self.report.finding("replayed", f"it is not compared with the logs: {error}", deviation=False)
            return
        yield from self._told(_different(znodes, dict(_rows(made.batches))))
        if self._is_native:
            yield from self._told(_different(sessions, dict(_session_rows(made.sessions.items()))))
        since = "the beginning" if moment.base is None else moment.base.file.name
        sentence = f"compared with {since} and the {moment.txn_count} transactions after it, up to {self._at:#x}"
        yield self.report.finding("replayed", sentence, deviation=False)

    def _state(self, members: Sequence[MemberFiles]) -> tuple[Moment, LocalState]:
        """The state at which the snapshot is exact, from the files of these members."""
        is_alone = not self._is_native and len(members) == 1
        logs = LocalLogs(tuple(members), is_alone)
        moment = moment_of(logs, members, self._at, uncommitted=is_alone)
        return moment, local_state(moment)

    def _held(self) -> tuple[Iterator[tuple[str, Row]], Iterator[tuple[str, Row]]]:
        """What the snapshot holds, at the zxid where it is exact: rows of znodes and of sessions."""
        file = self.report.file
        if self._at == file.zxid:
            return self._read(), self._read_sessions()
        alone = [
            evolve(one, snapshots=[each for each in one.snapshots if each.place == file.place]) for one in self.members
        ]
        _, state = self._state(alone)
        return _rows(state.batches), _session_rows(state.sessions.items())

    def _read(self) -> Iterator[tuple[str, Row]]:
        schema = arrow_schema(column for column in ZNODES if column.name in ("path", *_COMPARED))
        yield from _rows(self._batches(schema, is_sessions=False))

    def _read_sessions(self) -> Iterator[tuple[str, Row]]:
        for batch in self._batches(arrow_schema(SESSIONS), is_sessions=True):
            columns = (batch.column(name).to_pylist() for name in ("session", "timeout"))
            yield from _session_rows(zip(*columns, strict=True))

    def _batches(self, schema: pa.Schema, *, is_sessions: bool) -> Iterator[pa.RecordBatch]:
        file = self.report.file
        label = Label(self.report.ensemble, self.report.member, file.name, file.zxid)
        try:
            rows = opened(file)
            yield from (rows.sessions if is_sessions else rows.znodes)(schema, label)
        except SnapshotDamageError as error:
            raise PipelineError(f"{error}; it was whole when it was read before") from None

    def _told(self, differences: Sequence[tuple[str, Row | None, Row | None]]) -> Iterator[Finding]:
        for name, held, made in differences[:SHOWN_MAX]:
            yield self.report.finding("snapshot", f"{name}: {_difference(held, made)}")
        if len(differences) > SHOWN_MAX:
            more = len(differences) - SHOWN_MAX
            yield self.report.finding("snapshot", f"{more} more that differ from what the logs make")


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, Row]]:
    """The znodes by path, with the columns of _COMPARED."""
    for batch in batches:
        times = {name: batch.column(name).cast(pa.int64()).to_numpy() // _US_PER_MS for name in _TIMES}
        columns = [times[name].tolist() if name in times else batch.column(name).to_pylist() for name in _COMPARED]
        yield from zip(batch.column("path").to_pylist(), zip(*columns, strict=True), strict=True)


def _session_rows(sessions: Iterable[tuple[int, int]]) -> Iterator[tuple[str, Row]]:
    for session, timeout in sessions:
        yield _session(session), (timeout,)


def _session(number: int) -> str:
    return f"session {number & (1 << 64) - 1:#x}"


def _different(held: Iterator[tuple[str, Row]], made: dict[str, Row]) -> list[tuple[str, Row | None, Row | None]]:
    """(name, as held, as made) of all that differ, by name. Empties `made`."""
    found: list[tuple[str, Row | None, Row | None]] = []
    for name, row in held:
        other = made.pop(name, None)
        if other != row and not _is_of_one_server(name):
            found.append((name, row, other))
    found += ((name, None, row) for name, row in made.items() if not _is_of_one_server(name))
    return sorted(found, key=lambda difference: difference[0])


def _is_of_one_server(name: str) -> bool:
    return name == CONFIG.decode() or is_stats(name.encode())


def _difference(held: Row | None, made: Row | None) -> str:
    if held is None or made is None:
        return "the logs make it, and it is not there" if held is None else "it is there, and the logs do not make it"
    columns = _COMPARED if len(held) > 1 else ("timeout",)
    pairs = [pair for pair in zip(columns, held, made, strict=True) if pair[1] != pair[2]]
    shown = [f"{name} {_value(name, one)}, by the logs {_value(name, other)}" for name, one, other in pairs[:3]]
    return "; ".join(shown) + (f" and {len(pairs) - 3} more" if len(pairs) > 3 else "")


def _value(name: str, value: Any) -> str:
    if name in _TIMES:
        return str(_BEGAN + timedelta(milliseconds=value))
    if isinstance(value, bytes):
        return repr(value[:24]) + ("..." if len(value) > 24 else "")
    return str(value)
