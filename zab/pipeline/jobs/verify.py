"""The job `verify`: whether an ensemble's members hold one history, and each all of it: `zab pipeline verify DIRS`.

    verify(spark, dirs) -> a row for each finding (VERIFY): deviations, with their places, and what is only stated

One task reads each log file once and reduces it to a few numbers (`verify.files`); the driver combines them
(`verify.compare`); only the stretches of zxids that differ are read again, batch by batch. So the cost is that of
reading the files, and little is sent: two digests for each member and bucket of 65,536 zxids or more.

It checks all checksums; that zxids rise without a gap, in a file and from file to file; where epochs begin and end;
that equal zxids have equal bytes on all members; with `chains`, that every batch continues the one before it; with
`snapshots`, that snapshots are whole and equal on all members (`verify.snapshots`); with `replays`, that the newest
snapshots are what the logs make of older ones (`verify.replay`).

A member that has less at the end (it lags) or at the beginning (it keeps less) does not deviate. ZooKeeper's logs do
not say where they end: a lost tail looks like a lag, and is stated with its place.

Invariants: nothing is written, members may be running. Memory: a window in a worker, the numbers of all buckets in the
driver, at most some 200,000 for each member.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from attrs import evolve

from zab.pipeline.inventory import Dirs, Inventory, inventory
from zab.pipeline.jobs.sharing import as_rows, spread
from zab.pipeline.member_files import MemberFiles, SnapshotFile
from zab.pipeline.reading.spans import Span
from zab.pipeline.schema import Column
from zab.pipeline.verify.compare import Comparison, MemberHistory
from zab.pipeline.verify.expected import Configuration, configuration_in, not_given, several_ensembles
from zab.pipeline.verify.files import FileReport, Held, Task, examine, held
from zab.pipeline.verify.findings import Drill, Finding, in_order
from zab.pipeline.verify.held import compare_held
from zab.pipeline.verify.snapshots import (
    SnapshotReport,
    SnapshotTask,
    compare_snapshots,
    examine_snapshot,
    snapshot_tasks,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["VERIFY", "find", "find_in_snapshots", "findings_of", "verify"]

VERIFY: Final = (
    Column("ensemble", "string", "as in the log"),
    Column("member", "string", "name of the member, as in the log; null if the row concerns all members"),
    Column("file", "string", "full path or URI; null if the row concerns no single file"),
    Column("offset", "bigint", "in the file"),
    Column("zxid", "bigint", "zxid of the transaction, or of the first one, that the row is about"),
    Column("kind", "string", "damaged, gap, differs, ..."),
    Column("deviation", "boolean", "false for a note: it is no fault"),
    Column("sentence", "string", "what was found"),
)

_SHIFT_MIN: Final = 16
_BUCKETS_MAX: Final = 200_000
# The least size of a transaction in a log; it only has to bound the count of buckets.
_TRANSACTION_BYTES: Final = 64
_TAIL_ZXIDS: Final = 1 << 20

_Key: TypeAlias = tuple[str, int, int, bool]
"""A Drill as a key that Spark hashes alike in every process."""
_Ranges: TypeAlias = tuple[Span, list[tuple[Drill, tuple[int, int]]]]
Examine: TypeAlias = Callable[[Sequence[Task]], list[FileReport]]
Configurations: TypeAlias = Callable[[Sequence[SnapshotFile]], list[Configuration | None]]
Look: TypeAlias = Callable[[Sequence[_Ranges]], list[Finding]]


def verify(
    spark: "SparkSession", dirs: Dirs, *, chains: bool = True, snapshots: bool = False, replays: int = 0
) -> "DataFrame":
    """The findings, deviations first: rows of VERIFY. Raises PipelineError.

    chains: hash every batch of native logs. snapshots: read all snapshots. replays: how many of the newest snapshots of
    each ensemble are compared with what the logs make of older ones; this reads all snapshots, too."""
    return as_rows(spark, VERIFY, findings_of(spark, dirs, chains=chains, snapshots=snapshots, replays=replays))


def findings_of(
    spark: "SparkSession", dirs: Dirs, *, chains: bool = True, snapshots: bool = False, replays: int = 0
) -> list[Finding]:
    """The findings of `verify` as a list."""
    context = spark.sparkContext

    def examine_all(tasks: Sequence[Task]) -> list[FileReport]:
        return list(spread(context, tasks, lambda task: task.span.file.size).map(examine).collect())

    def look_into(ranges: Sequence[_Ranges]) -> list[Finding]:
        parts = spread(context, ranges, lambda each: each[0].file.size).flatMap(_read_ranges)
        return list(parts.groupByKey().flatMap(_compare_parts).collect())

    def examine_snapshots(tasks: Sequence[SnapshotTask]) -> list[SnapshotReport]:
        return list(spread(context, tasks, lambda task: task.file.size).map(examine_snapshot).collect())

    def look_for_configurations(files: Sequence[SnapshotFile]) -> list[Configuration | None]:
        return list(spread(context, files, lambda file: file.size).map(configuration_in).collect())

    found = inventory(dirs)
    findings = find(found, examine_all, look_into, look_for_configurations, chains=chains)
    if snapshots or replays:
        reports = examine_snapshots(snapshot_tasks(found.members))
        findings += find_in_snapshots(found, reports)
        if replays:
            from zab.pipeline.verify.replay import verify_replay

            for ensemble, members in found.ensembles.items():
                own = [report for report in reports if report.ensemble == ensemble]
                findings += verify_replay(spark, members, own, newest=replays)
    return in_order(findings)


def examine_here(tasks: Sequence[Task]) -> list[FileReport]:
    """Examine the files in this process, one after the other."""
    return [examine(task) for task in tasks]


def look_here(ranges: Sequence[_Ranges]) -> list[Finding]:
    """Look into the ranges in this process."""
    parts: dict[_Key, list[Held]] = {}
    for each in ranges:
        for key, part in _read_ranges(each):
            parts.setdefault(key, []).append(part)
    return [finding for pair in parts.items() for finding in _compare_parts(pair)]


def look_for_configurations_here(files: Sequence[SnapshotFile]) -> list[Configuration | None]:
    """Read the configurations in this process."""
    return [configuration_in(file) for file in files]


def find(
    found: Inventory,
    examine_all: Examine = examine_here,
    look_into: Look = look_here,
    look_for_configurations: Configurations = look_for_configurations_here,
    *,
    chains: bool = True,
) -> list[Finding]:
    """Every finding in the members' logs, deviations first. `examine_all`, `look_into` and `look_for_configurations`
    do the work, here or in Spark."""
    findings: list[Finding] = []
    tasks: list[Task] = []
    plans: dict[str, tuple[int, tuple[int, ...]]] = {}
    for ensemble, members in found.ensembles.items():
        shift, cuts = plans[ensemble] = _buckets(members)
        zxids = {one.zxid for member in members for one in member.snapshots if one.kind == "native"}
        for member in members:
            for log in member.logs:
                span = Span(member.ensemble, member.member, log)
                tasks.append(Task(span, shift, cuts, tuple(sorted(zxids)), chains))
    reports: dict[tuple[str, str], list[FileReport]] = {}
    for report in examine_all(tasks):
        reports.setdefault((report.span.ensemble, report.span.member), []).append(report)
    ranges: list[_Ranges] = []
    for ensemble, members in found.ensembles.items():
        histories = [MemberHistory(one, _by_name(reports.get((ensemble, one.member), []))) for one in members]
        comparison = Comparison(histories, *plans[ensemble])
        findings += [_located(finding, histories) for finding in comparison.findings]
        ranges += _ranges(comparison.drills, histories)
        logged = [report.configuration for one in histories for report in one.reports]
        known = logged if any(logged) else look_for_configurations(_newest_snapshot(members))
        missing = not_given(ensemble, members, [one for one in known if one is not None])
        findings += [missing] if missing is not None else []
    findings += several_ensembles(list(found.ensembles.items()))
    return in_order([*findings, *_without_echoes(look_into(ranges))])


def _newest_snapshot(members: Sequence[MemberFiles]) -> list[SnapshotFile]:
    """The newest snapshot of all members, by its name; empty if there is none."""
    snapshots = [snapshot for member in members for snapshot in member.snapshots]
    return sorted(snapshots, key=lambda snapshot: snapshot.zxid)[-1:]


def find_in_snapshots(found: Inventory, reports: Sequence[SnapshotReport]) -> list[Finding]:
    """Every finding in the members' snapshots, each by itself and compared with the others."""
    findings: list[Finding] = []
    for ensemble in found.ensembles:
        findings += compare_snapshots([report for report in reports if report.ensemble == ensemble])
    return findings


def _buckets(members: Sequence[MemberFiles]) -> tuple[int, tuple[int, ...]]:
    """The width of the buckets, as a power of two, and where they are cut: where the members' histories begin."""
    largest = max(sum(log.size for log in member.logs) for member in members) if members else 0
    shift = _SHIFT_MIN
    while largest // _TRANSACTION_BYTES >> shift > _BUCKETS_MAX:
        shift += 1
    return shift, tuple(sorted({member.logs[0].first for member in members if member.logs}))


def _by_name(reports: list[FileReport]) -> list[FileReport]:
    return sorted(reports, key=lambda report: report.span.file.first)


def _ranges(drills: Sequence[Drill], histories: Sequence[MemberHistory]) -> list[_Ranges]:
    """The files that overlap with the stretches to look into."""
    result: list[_Ranges] = []
    for history in histories:
        for report in history.reports:
            if report.first is None or report.last is None:
                continue
            mine = [one for one in drills if one.low <= report.last and report.first <= one.high]
            if mine:
                result.append((report.span, [(one, (one.low, one.high)) for one in sorted(mine, key=lambda x: x.low)]))
    return result


def _read_ranges(ranges: _Ranges) -> Iterator[tuple[_Key, Held]]:
    span, wanted = ranges
    drills: dict[tuple[int, int], list[Drill]] = {}
    for drill, stretch in wanted:
        drills.setdefault(stretch, []).append(drill)
    for stretch, part in held(span, sorted(drills)):
        for drill in drills[stretch]:
            yield (drill.ensemble, drill.low, drill.high, drill.is_chain), part


def _compare_parts(parts: tuple[_Key, Iterable[Held]]) -> list[Finding]:
    key, held_parts = parts
    return list(compare_held(Drill(*key), held_parts))


def _without_echoes(findings: list[Finding]) -> list[Finding]:
    """Leave out chains that differ only because contents before them differ."""
    first: dict[str, int] = {}
    for one in findings:
        if one.kind == "differs":
            first[one.ensemble] = min(first.get(one.ensemble, one.zxid or 0), one.zxid or 0)
    return [one for one in findings if one.kind != "chain" or (one.zxid or 0) < first.get(one.ensemble, 1 << 63)]


def _located(finding: Finding, histories: Sequence[MemberHistory]) -> Finding:
    """Fill in the offset of the finding's zxid in its file, if it was not known yet."""
    if finding.offset is not None or finding.file is None or finding.zxid is None:
        return finding
    for history in histories:
        for report in history.reports:
            if history.name == finding.member and str(report.span.file.place) == finding.file:
                for _, part in held(report.span, [(finding.zxid, finding.zxid + _TAIL_ZXIDS)]):
                    return evolve(finding, offset=int(part.offset[0]))
    return finding
