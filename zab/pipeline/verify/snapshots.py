"""Verifies snapshots: each is whole, and all members have the same one at the same zxid.

    examine_snapshot(task) -> SnapshotReport      one file, every checksum
    compare_snapshots(reports) -> Findings        those of all members of an ensemble

A native snapshot has the same bytes on every member; its trailers are compared, which end with a checksum over all
before. ZooKeeper writes a snapshot while transactions go on, so two with one zxid may differ.

Invariants: memory is a window of one file. Deliberately not here: the replay (`zab.pipeline.verify.replay`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from datatree.snapshot import TRAILER_BYTES
from zab.pipeline.member_files import MemberFiles, SnapshotFile
from zab.pipeline.reading.snapshot_choice import Problem, examine
from zab.pipeline.verify.findings import Finding

__all__ = ["SnapshotReport", "SnapshotTask", "compare_snapshots", "examine_snapshot", "snapshot_tasks"]


@frozen
class SnapshotTask:
    """A snapshot and whose it is."""

    member: MemberFiles
    file: SnapshotFile


@frozen
class SnapshotReport:
    """The result of reading a snapshot. `trailer`: the end of a whole native file. `exact_from`: the lowest zxid at
    which a replay of a whole one is exact."""

    ensemble: str
    member: str
    file: SnapshotFile
    trailer: bytes = b""
    exact_from: int | None = None
    offset: int = 0
    reason: str = ""

    def finding(self, kind: str, sentence: str, *, deviation: bool = True) -> Finding:
        place = str(self.file.place)
        return Finding(self.ensemble, self.member, place, self.offset, self.file.zxid, kind, deviation, sentence)


def snapshot_tasks(members: Iterable[MemberFiles]) -> list[SnapshotTask]:
    """One for each snapshot of the members' own histories."""
    return [
        SnapshotTask(member, file)
        for member in members
        for file in member.snapshots
        if file.lineage is None or member.lineage in (None, file.lineage)
    ]


def examine_snapshot(task: SnapshotTask) -> SnapshotReport:
    """Read all of it."""
    file, names = task.file, (task.member.ensemble, task.member.member)
    found = examine(task.member, file)
    if isinstance(found, Problem):
        return SnapshotReport(*names, file, offset=found.offset, reason=found.reason)
    trailer = b""
    if file.kind == "native":
        try:
            trailer = file.place.read(file.size - TRAILER_BYTES, TRAILER_BYTES)
        except OSError as error:
            return SnapshotReport(*names, file, reason=f"it cannot be read: {error.strerror or error}")
    return SnapshotReport(*names, file, trailer, found.examined.exact_from)


def compare_snapshots(reports: Sequence[SnapshotReport]) -> Iterator[Finding]:
    """Yield which snapshots are damaged or differ between members. reports: those of one ensemble."""
    for report in reports:
        if report.reason:
            yield report.finding("snapshot", report.reason)
    whole = [report for report in reports if report.trailer]
    for zxid in sorted({report.file.zxid for report in whole}):
        same = [report for report in whole if report.file.zxid == zxid]
        counts = Counter(report.trailer for report in same)
        best, most = counts.most_common(1)[0]
        is_majority = 2 * most > len(same)
        for report in same:
            if len(counts) > 1 and not (is_majority and report.trailer == best):
                others = ", ".join(other.member for other in same if other.trailer != report.trailer)
                sentence = f"its tree differs from that in the snapshot of member {others}"
                yield report.finding("snapshot", sentence + ("" if is_majority else ", without a majority"))
