"""Compares the files of an ensemble's members: holes, ends, epochs, chains, and where the contents differ.

    history = MemberHistory(member, reports)      one member: its files in order, and the findings in them alone
    Comparison(histories, ...)                    all members of an ensemble: findings, and `drills` for a closer look

Invariants: a hole in a history is reported once, with the damage that caused it, if there is any. What one member lacks
is reported for that member; if members contradict each other, for those in the minority. Deliberately not here: the
reading of files (`zab.pipeline.verify.files`), and what differs within a stretch (`zab.pipeline.verify.held`).
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from attrs import define, evolve, field

from datatree.history import Evidence, unread
from zab.pipeline.decoding.arrays import Integers, Mask
from zab.pipeline.decoding.damage import TORN, Damage
from zab.pipeline.member_files import MemberFiles, SnapshotFile
from zab.pipeline.reading.missing import COUNTER, between, follows, proofs
from zab.pipeline.reading.visible import evidence_of
from zab.pipeline.verify.files import Epoch, FileReport, Hole
from zab.pipeline.verify.findings import Drill, Finding, differ

__all__ = ["Comparison", "MemberHistory"]

DRILLS_MAX = 1_000
# How much damage at one place, and how many holes in one file, are reported one by one.
DAMAGE_MAX: Final = 10
HOLES_REPORTED_MAX = 100


@define(eq=False)
class _Lost:
    """A hole in the history of a member, at `offset` of the file of `report`."""

    after: int
    following: int
    report: FileReport
    offset: int


@define(eq=False)
class MemberHistory:
    """One member: what it holds, in order, and the findings in that alone."""

    member: MemberFiles
    reports: list[FileReport]
    findings: list[Finding] = field(factory=list)
    holes: list[_Lost] = field(factory=list)
    """All holes, also those that a snapshot covers."""
    epochs: dict[int, list[tuple[Epoch, FileReport]]] = field(factory=dict)
    first: int | None = None
    last: int | None = None
    mark: int = 0
    transactions: int = 0

    def __attrs_post_init__(self) -> None:
        self.mark = self.member.committed
        for report in self.reports:
            self._read(report)
        self._order()
        self._find_holes()
        self._find_short_end()
        self._check_snapshots()

    @property
    def name(self) -> str:
        return self.member.member

    def finding(
        self, kind: str, sentence: str, report: FileReport | None, offset: int | None, zxid: int | None, **more: bool
    ) -> Finding:
        """A finding about this member; a deviation unless `deviation` is False."""
        file = None if report is None else str(report.span.file.place)
        is_one = more.get("deviation", True)
        return Finding(self.member.ensemble, self.name, file, offset, zxid, kind, is_one, sentence)

    def _add(self, *arguments: object, **more: bool) -> None:
        self.findings.append(self.finding(*arguments, **more))  # type: ignore[arg-type]

    def _read(self, report: FileReport) -> None:
        log = report.span.file
        self.transactions += report.transactions
        self.mark = max(self.mark, report.mark)
        for epoch in report.epochs:
            self.epochs.setdefault(epoch.epoch, []).append((epoch, report))
        for zxid, offset in report.broken:
            self._add("chain", "the batch does not continue the chain of the one before it", report, offset, zxid)
        if report.wrong_index:
            sentence = f"the index is of no use, {report.wrong_index}; nothing is lost with it"
            finding = self.finding("index", sentence, report, 0, None)
            self.findings.append(evolve(finding, file=str(log.index)))
        if log.kind == "version-2" and report.first is not None and report.first != log.first:
            sentence = f"{log.name} begins with zxid {report.first:#x}: its content belongs to another file"
            self._add("foreign", sentence, report, 0, report.first)

    def _order(self) -> None:
        """Find the first and the last zxid, by the contents of the files."""
        filled = [report for report in self.reports if report.first is not None]
        if self.member.kind == "version-2":
            filled.sort(key=lambda report: report.first or 0)
        if filled:
            self.first = filled[0].first
            self.last = max(report.last or 0 for report in filled)

    # ---------------------------------------------------------------------------------------------------------- holes

    def _find_holes(self) -> None:
        """Walk through the files in order; damage explains the hole that it leaves."""
        pending: list[tuple[FileReport, Damage]] = []
        before: FileReport | None = None
        for report in self._in_order():
            damage = sorted(report.damage, key=lambda one: one.offset)
            holes = sorted(report.holes, key=lambda hole: hole.offset)
            if report.first is None:
                pending += [(report, one) for one in damage]
                continue
            boundary = self._boundary(before, report)
            if boundary is not None:
                at_start = [one for one in damage if one.offset <= boundary.offset or one.offset < boundary.start]
                self._hole(boundary, report, pending + [(report, one) for one in at_start])
                damage = [one for one in damage if one not in at_start]
            else:
                self._explain(pending, None)
            for number, hole in enumerate(holes):
                if number == HOLES_REPORTED_MAX:
                    sentence = f"{len(holes) - number} more holes in this file, up to zxid {holes[-1].following:#x}"
                    self._add("gap", sentence, report, hole.offset, hole.after + 1)
                    self.holes += [_Lost(each.after, each.following, report, each.offset) for each in holes[number:]]
                    damage = []
                    break
                mine = [one for one in damage if hole.start <= one.offset <= hole.offset]
                self._hole(hole, report, [(report, one) for one in mine])
                damage = [one for one in damage if one not in mine]
            at_end = [one for one in damage if one.offset >= report.end]
            self._explain([(report, one) for one in damage if one not in at_end], None)
            pending = [(report, one) for one in at_end]
            before = report
        self._explain(pending, None)

    def _in_order(self) -> list[FileReport]:
        if self.member.kind == "native":
            return self.reports
        return sorted(self.reports, key=lambda one: one.span.file.first if one.first is None else one.first)

    def _boundary(self, before: FileReport | None, report: FileReport) -> Hole | None:
        """The hole before this file, if there is one. A native file says what it continues."""
        if before is None or before.last is None or report.first is None:
            return None
        previous = report.span.file.previous
        first_offset = report.epochs[0].offset
        if previous is not None:
            if previous[0] > before.last:
                return Hole(before.last, report.first, 0, first_offset)
            if previous[0] == before.last and previous[1] != before.last_chain:
                sentence = f"{report.span.file.name} does not continue the chain of {before.span.file.name}"
                self._add("chain", sentence, report, 0, report.first)
            return None
        if report.first <= before.last:
            sentence = f"zxid {report.first:#x} comes after {before.last:#x}, with which {before.span.file.name} ends"
            self._add("order", sentence, report, first_offset, report.first)
            return None
        return None if follows(before.last, report.first) else Hole(before.last, report.first, 0, first_offset)

    def _hole(self, hole: Hole, report: FileReport, damage: list[tuple[FileReport, Damage]]) -> None:
        self.holes.append(_Lost(hole.after, hole.following, report, hole.offset))
        if damage:
            self._explain(sorted(damage, key=lambda pair: pair[1].kind == TORN), hole)
            return
        cover = self._snapshot_between(hole)
        if cover is not None:
            sentence = f"{between(hole.after, hole.following)} in the log: {cover.name} replaces them"
            self._add("installed", sentence, report, hole.offset, hole.after + 1, deviation=False)
            return
        sentence = f"{between(hole.after, hole.following)}: the log goes on at {hole.following:#x}"
        self._add("gap", sentence, report, hole.offset, hole.after + 1)

    def _snapshot_between(self, hole: Hole) -> SnapshotFile | None:
        """The snapshot after which the log goes on, if there is one. A native member that is sent a snapshot sets all
        of its log aside; one of ZooKeeper keeps it, and looks like a member that has lost the files in between."""
        if self.member.kind == "native":
            return None
        for snapshot in self.member.snapshots:
            if hole.after < snapshot.zxid < hole.following and follows(snapshot.zxid, hole.following):
                return snapshot
        return None

    def _explain(self, damage: Sequence[tuple[FileReport, Damage]], hole: Hole | None) -> None:
        """Report damage; if it explains a hole, the first one with the zxids that are lost."""
        for number, (report, one) in enumerate(damage):
            if hole is not None and number == 0:
                sentence = f"{one.reason}; {between(hole.after, hole.following)}"
                # An end that later files continue was not torn while it was written.
                kind = "gap" if one.kind == TORN else one.kind
                self._add(kind, sentence, report, one.offset, hole.after + 1)
            elif one.kind == TORN:
                self._add(TORN, f"{one.reason}; it was never acknowledged", report, one.offset, None, deviation=False)
            elif number < DAMAGE_MAX:
                self._add(one.kind, one.reason, report, one.offset, None)
        if len(damage) > DAMAGE_MAX:
            report, last = damage[-1]
            self._add(last.kind, f"{len(damage) - DAMAGE_MAX} more stretches up to here", report, last.offset, None)

    # ------------------------------------------------------------------------------------------------ end and snapshots

    def _find_short_end(self) -> None:
        if self.last is None or self.member.kind != "native":
            return
        newest = max(self.snapshots, key=lambda one: one.zxid, default=None)
        report = self.end_report
        if self.member.committed > self.last:
            told = f"the file committed says that {self.member.committed:#x} was durable"
        elif newest is not None and newest.zxid > self.last:
            told = f"{newest.name} was taken"
        else:
            return
        self._add("shortened", f"the log ends at {self.last:#x}, and {told}", report, report.end, self.last + 1)

    @property
    def snapshots(self) -> list[SnapshotFile]:
        """The snapshots that belong to this member's history."""
        return [one for one in self.member.snapshots if one.lineage in (None, self.member.lineage)]

    @property
    def evidence(self) -> Evidence:
        """What its files prove about the end of its history."""
        snapshot = max((one.zxid for one in self.snapshots), default=None)
        return evidence_of(self.member, self.last or 0, self.mark, snapshot)

    @property
    def end_report(self) -> FileReport:
        """The file that the history ends in."""
        return max((one for one in self.reports if one.last is not None), key=lambda one: one.last or 0)

    @property
    def is_short(self) -> bool:
        """Whether its end is known to be missing."""
        return any(one.kind == "shortened" for one in self.findings)

    def _check_snapshots(self) -> None:
        """Check that native snapshots have the chain that the log has there."""
        chains = {chain.zxid: (chain, report) for report in self.reports for chain in report.chains}
        for snapshot in self.member.snapshots:
            if snapshot.kind != "native":
                continue
            wrong = None
            if snapshot.lineage is None:
                wrong = "its header is damaged"
            elif snapshot.lineage != self.member.lineage:
                wrong = f"it has lineage {snapshot.lineage.hex()}"
            elif snapshot.zxid in chains and chains[snapshot.zxid][0].chain != snapshot.chain:
                wrong = f"its chain differs from that of the log at {snapshot.zxid:#x}"
            if wrong is not None:
                finding = self.finding("snapshot", wrong, None, 0, snapshot.zxid)
                self.findings.append(evolve(finding, file=str(snapshot.place)))

    # --------------------------------------------------------------------------------------- what others ask of it

    def end_of(self, epoch: int) -> int | None:
        """The last zxid that it holds of an epoch."""
        parts = self.epochs.get(epoch)
        return None if parts is None else max(part.last for part, _ in parts)

    def continued(self, epoch: int) -> tuple[Epoch, FileReport] | None:
        """Where its log goes on after an epoch that it holds; None if it does not, or only after a hole."""
        end = self.end_of(epoch)
        later = [each for number, each in self.epochs.items() if number > epoch]
        if end is None or not later or any(hole.after == end for hole in self.holes):
            return None
        return min((part for parts in later for part in parts), key=lambda part: part[0].first)

    def report_of(self, zxid: int) -> FileReport | None:
        """The file that holds a zxid."""
        for report in self.reports:
            if report.first is not None and report.first <= zxid <= (report.last or 0):
                return report
        return None


class Comparison:
    """The members of one ensemble, compared with each other."""

    def __init__(self, histories: Sequence[MemberHistory], shift: int, cuts: Sequence[int]) -> None:
        self.histories = [one for one in histories if one.last is not None]
        self.findings = [finding for one in histories for finding in one.findings]
        self.drills: list[Drill] = []
        self._shift, self._cuts = shift, sorted(cuts)
        for one in histories:
            self._state_extent(one)
        self._find_unread(histories)
        if self.histories:
            for epoch in sorted({epoch for one in self.histories for epoch in one.epochs}):
                self._compare_epoch(epoch)
            self._find_proofs()
            self._compare_buckets()
            self._compare_snapshots()

    def _state_extent(self, one: MemberHistory) -> None:
        if one.last is None:
            sentence = f"no transaction in {len(one.reports)} log files, {len(one.member.snapshots)} snapshots"
            self.findings.append(one.finding("holds", sentence, None, None, None, deviation=False))
            return
        extent = f"from {one.first:#x} to {one.last:#x} in {len(one.reports)} log files"
        sentence = f"{one.transactions} transactions {extent}"
        self.findings.append(one.finding("holds", sentence, None, None, one.last, deviation=False))
        farthest = max(self.histories, key=lambda other: other.last or 0)
        longest = min(self.histories, key=lambda other: other.first or 0)
        if one.last < (farthest.last or 0) and not one.is_short:
            sentence = f"the log ends at {one.last:#x}, that of member {farthest.name} at {farthest.last:#x}"
            report = one.end_report
            self.findings.append(one.finding("lags", sentence, report, report.end, one.last, deviation=False))
        if longest.first is not None and one.first is not None and longest.first < one.first:
            sentence = f"the log begins at {one.first:#x}, that of member {longest.name} at {longest.first:#x}"
            begin = one.report_of(one.first)
            self.findings.append(one.finding("begins", sentence, begin, 0, one.first, deviation=False))

    def _find_unread(self, histories: Sequence[MemberHistory]) -> None:
        """Report what the members say was committed and no given member has, and logs that were not given."""
        reason = unread([one.evidence for one in histories])
        if reason is not None and not any(one.is_short for one in histories):
            ensemble = histories[0].member.ensemble
            self.findings.append(Finding(ensemble, None, None, None, None, "unread", True, reason))

    # --------------------------------------------------------------------------------------------------------- epochs

    def _compare_epoch(self, epoch: int) -> None:
        holders = [one for one in self.histories if epoch in one.epochs]
        ends = {one.name: one.end_of(epoch) or 0 for one in holders}
        firsts = {one.name: min(part.first for part, _ in one.epochs[epoch]) for one in holders}
        self._state_epoch(epoch, firsts, ends)
        settled = [one for one in holders if one.continued(epoch) is not None]
        if not settled:
            return
        counts = Counter(ends[one.name] for one in settled)
        agreed = max(counts, key=lambda end: (counts[end], end))
        # What a majority has was committed, even if their own logs do not go on after it.
        had = sorted((self._had(one, epoch, max(ends.values())) for one in self.histories), reverse=True)
        agreed = max(agreed, had[len(had) // 2])
        for one in settled:
            part = one.continued(epoch)
            assert part is not None
            if ends[one.name] < agreed <= self._had(one, epoch, agreed):
                lost = between(ends[one.name], agreed + 1)
                sentence = f"{lost} at the end of epoch {epoch} in the log: a snapshot replaces them"
                found = one.finding("installed", sentence, part[1], part[0].offset, ends[one.name] + 1, deviation=False)
                self.findings.append(found)
            elif ends[one.name] < agreed:
                others = ", ".join(other.name for other in holders if ends[other.name] >= agreed)
                lost = between(ends[one.name], agreed + 1)
                sentence = f"{lost} at the end of epoch {epoch}; member {others} has them"
                found = one.finding("missing", sentence, part[1], part[0].offset, ends[one.name] + 1)
                self.findings.append(found)
            elif ends[one.name] > agreed:
                sentence = f"at the end of epoch {epoch} it goes on to {ends[one.name]:#x}, the others to {agreed:#x}"
                self._beyond(one, agreed, "extra", sentence, deviation=True)
        for one in holders:
            if one in settled or ends[one.name] <= agreed or one.last != ends[one.name]:
                continue
            tail = f"zxids {agreed + 1:#x} to {ends[one.name]:#x}"
            if one.mark > agreed:
                self._beyond(one, agreed, "extra", f"{tail} were committed by its mark, and no other member has them")
            else:
                sentence = f"{tail} were never committed: the others went on in a later epoch without them"
                self._beyond(one, agreed, "uncommitted", sentence, deviation=False)

    @staticmethod
    def _had(one: MemberHistory, epoch: int, most: int) -> int:
        """The last zxid of an epoch, up to `most`, that the member has or had, judged by its log or a snapshot."""
        snapshots = [file.zxid for file in one.snapshots if file.zxid >> 32 == epoch]
        return min(max([one.end_of(epoch) or 0, *snapshots]), most)

    def _find_proofs(self) -> None:
        """Report what a snapshot of ZooKeeper proves and no log has. The files of native members say it themselves."""
        members = [one.member for one in self.histories]
        if members[0].kind == "native":
            return
        epochs = {epoch for one in self.histories for epoch in one.epochs}
        logged = {epoch: max(one.end_of(epoch) or 0 for one in self.histories) for epoch in epochs}
        first = min(one.first or 0 for one in self.histories)
        for zxid in proofs(members, logged).values():
            if zxid > first:
                last = logged.get(zxid >> 32, zxid >> 32 << 32)
                sentence = f"{between(last, zxid + 1)} in all logs: snapshot.{zxid:x} proves that they existed"
                self.findings.append(Finding(members[0].ensemble, None, None, None, last + 1, "gap", True, sentence))

    def _beyond(self, one: MemberHistory, zxid: int, kind: str, sentence: str, *, deviation: bool = True) -> None:
        """Report a finding about what comes after `zxid`; its offset is found later."""
        report = one.report_of(zxid + 1)
        self.findings.append(one.finding(kind, sentence, report, None, zxid + 1, deviation=deviation))

    def _state_epoch(self, epoch: int, firsts: dict[str, int], ends: dict[str, int]) -> None:
        first = min(firsts.values())
        whole = [name for name, zxid in firsts.items() if zxid & COUNTER == 1]
        sentence = f"epoch {epoch} from {first:#x} to {max(ends.values()):#x}; member {', '.join(sorted(ends))}"
        if len(whole) < len(firsts):
            sentence += f", from its beginning {', '.join(sorted(whole)) or 'none'}"
        ensemble = self.histories[0].member.ensemble
        self.findings.append(Finding(ensemble, None, None, None, first, "epoch", False, sentence))

    # -------------------------------------------------------------------------------------------------------- contents

    def _compare_buckets(self) -> None:
        """Find the buckets in which members differ."""
        columns = [one for one in map(_columns, self.histories) if one is not None]
        if len(columns) < 2:
            return
        starts = np.unique(np.concatenate([column[0] for column in columns]))
        present = np.zeros((len(columns), len(starts)), dtype=np.bool_)
        values = np.zeros((3, len(columns), len(starts)), dtype=np.uint64)
        for number, (start, *rest) in enumerate(columns):
            at = np.searchsorted(starts, start)
            present[number, at] = True
            for which, column in enumerate(rest):
                values[which, number, at] = column
        differs = differ(values[0], present) | differ(values[1], present)
        chains = differ(values[2], present) & ~differs
        ensemble = self.histories[0].member.ensemble
        numbers = np.flatnonzero(differs).tolist()
        for number in numbers[:DRILLS_MAX]:
            self.drills.append(Drill(ensemble, int(starts[number]), self._end_of_bucket(int(starts[number]))))
        if chains.any():
            low = int(starts[int(np.argmax(chains))])
            self.drills.append(Drill(ensemble, low, self._end_of_bucket(low), is_chain=True))
        for number in numbers[DRILLS_MAX:]:
            self._state_differing(int(starts[number]), present[:, number])

    def _end_of_bucket(self, low: int) -> int:
        end = (low >> self._shift) + 1 << self._shift
        return min([end, *(cut for cut in self._cuts if cut > low)]) - 1

    def _state_differing(self, low: int, present: Mask) -> None:
        high = self._end_of_bucket(low)
        sentence = f"zxids {low:#x} to {high:#x} differ; they were not compared one by one, since so many differ"
        names = [one for one in self.histories if one.transactions]
        for one, is_there in zip(names, present.tolist(), strict=True):
            if is_there:
                self.findings.append(one.finding("differs", sentence, one.report_of(low), None, low))

    # ------------------------------------------------------------------------------------------------------- snapshots

    def _compare_snapshots(self) -> None:
        """Check that native snapshots with one zxid have one chain, on all members."""
        known: dict[int, tuple[bytes | None, str]] = {}
        for one in self.histories:
            for logged in (each for report in one.reports for each in report.chains):
                known.setdefault(logged.zxid, (logged.chain, f"the log of member {one.name}"))
        for one in self.histories:
            for snapshot in one.snapshots:
                if snapshot.chain is None:
                    continue
                chain, where = known.setdefault(snapshot.zxid, (snapshot.chain, f"the snapshot of member {one.name}"))
                if chain != snapshot.chain and not any(
                    each.file == str(snapshot.place) and each.kind == "snapshot" for each in self.findings
                ):
                    found = one.finding("snapshot", f"its chain differs from that in {where}", None, 0, snapshot.zxid)
                    self.findings.append(evolve(found, file=str(snapshot.place)))


def _columns(one: MemberHistory) -> tuple[Integers, ...] | None:
    """(start, transactions, content, chain) of all buckets of a member, joined over its files."""
    parts = [report.buckets for report in one.reports if report.buckets is not None]
    if not parts:
        return None
    starts = np.concatenate([part.start for part in parts])
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    at = np.flatnonzero(np.diff(starts, prepend=-1))
    counts = np.add.reduceat(np.concatenate([part.transactions for part in parts])[order], at)
    contents = np.bitwise_xor.reduceat(np.concatenate([part.content for part in parts])[order], at)
    chains = np.bitwise_xor.reduceat(np.concatenate([part.chain for part in parts])[order], at)
    return starts[at], counts, contents, chains
