"""The comparison of members: what is right passes, and every kind of deviation is named with its place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from datatree.log.epochs import save_mark
from datatree.log.segment import SegmentHeader
from datatree.record import Txn
from datatree.snapshot import SnapshotHeader, SnapshotWriter, load_snapshot, snapshot_path
from datatree.zookeeper.log import LOG_HEADER, encode_record
from tests.datatree.histories import LINEAGE, START
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.damage import Injected
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.member_logs import ensemble, found, history, logs, member
from tests.pipeline.rigs.native_files import LogFrame, NativeLog, rechained, with_body
from tests.pipeline.rigs.version2_files import Version2Log
from zab.host.storage.disk import RealDisk
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.verify import VERIFY, find, find_in_snapshots, verify
from zab.pipeline.verify.findings import Finding
from zab.pipeline.verify.snapshots import examine_snapshot, snapshot_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def deviations(directories: list[Path] | tuple[Path, ...], **options: bool) -> list[Finding]:
    return [one for one in found(directories, **options) if one.deviation]


def kinds(findings: list[Finding]) -> set[tuple[str | None, str]]:
    """(member, kind)"""
    return {(one.member, one.kind) for one in findings}


def log_with(directory: Path, zxid: int) -> NativeLog:
    """The file in which a batch ends at `zxid`."""
    return next(log for log in logs(directory) if zxid in log.offsets)


# ------------------------------------------------------------------------------------------------------- what is right


def test_equal_members_have_nothing_to_complain_about_and_say_what_they_hold(tmp_path: Path) -> None:
    batches = history(40, 60)
    findings = found(ensemble(tmp_path, batches, batches, batches))
    assert [one.kind for one in findings] == ["epoch", "epoch", "holds", "holds", "holds"]
    assert not any(one.deviation for one in findings)
    count = sum(batch.count for batch in batches)
    assert findings[2].sentence.startswith(f"{count} transactions from 0x100000001 to {batches[-1].zxid:#x} in ")
    assert findings[1].sentence.startswith(f"epoch 2 from 0x200000001 to {batches[-1].zxid:#x}; member 1, 2, 3")


def test_files_that_are_cut_otherwise_are_the_same_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = history(40, 60)
    one = member(tmp_path / "one", 1, batches)
    monkeypatch.setattr("tests.pipeline.rigs.member_logs.SEGMENT_BYTES", 1500)
    other = member(tmp_path / "other", 2, batches)
    assert len(logs(one)) < len(logs(other))
    assert deviations([one, other]) == []


def test_a_member_that_lags_and_one_that_keeps_less_are_stated(tmp_path: Path) -> None:
    batches = history(40, 60)
    directories = ensemble(tmp_path, batches, batches, batches[:-7])
    oldest = logs(directories[1])[:2]
    for log in oldest:
        log.path.unlink()
        log.index_path.unlink()
    findings = found(directories)
    assert not any(one.deviation for one in findings)
    assert kinds(findings) >= {("3", "lags"), ("2", "begins")}
    (lag,) = [one for one in findings if one.kind == "lags"]
    newest = logs(directories[2])[-1]
    assert (lag.file, lag.zxid) == (str(newest.path), batches[-8].zxid)
    assert lag.offset == newest.offsets[batches[-8].zxid] + len(batches[-8].raw)


def test_a_tail_that_was_given_up_is_stated_and_one_that_was_committed_is_not(tmp_path: Path) -> None:
    shared = history(20)
    later = history(20, 30)
    tail = history(25, committed=20)
    assert tail[20].first == shared[-1].zxid + 1
    directories = ensemble(tmp_path, later, later, tail, marks={3: shared[-1].zxid})
    findings = found(directories)
    assert not [one for one in findings if one.deviation]
    (given_up,) = [one for one in findings if one.kind == "uncommitted"]
    file = log_with(directories[2], tail[20].zxid)
    assert (given_up.member, given_up.file, given_up.zxid) == ("3", str(file.path), tail[20].first)
    assert given_up.offset == file.offsets[tail[20].zxid]

    save_mark(RealDisk(str(directories[2]), lock=False), LINEAGE, tail[22].zxid)
    (extra,) = deviations(directories)
    assert (extra.member, extra.kind, extra.zxid, extra.offset) == ("3", "extra", tail[20].first, given_up.offset)


def test_files_of_several_ensembles_are_compared_each_with_its_own(tmp_path: Path) -> None:
    one, other = history(20), history(20, seed=2)
    first = ensemble(tmp_path / "first", one, one)
    second = ensemble(tmp_path / "second", other, other)
    names = [*(f"a={path}" for path in first), *(f"b={path}" for path in second)]
    findings = find(inventory(names))
    assert not any(finding.deviation for finding in findings)
    assert {finding.ensemble for finding in findings} == {"a", "b"}
    # Under one name they are found out: same zxid, other bytes, from the first batch on.
    both = find(inventory([f"a={first[0]}", f"a={second[0]}"]))
    assert {(each.member[0], each.kind, each.zxid) for each in both if each.deviation and each.member} == {
        ("1", "differs", one[0].first)
    }


# ----------------------------------------------------------------------------------------------------- what is wrong


def test_a_member_that_lacks_the_end_of_an_epoch_is_found(tmp_path: Path) -> None:
    batches = history(20, 30)
    directories = ensemble(tmp_path, batches, batches, batches)
    log = log_with(directories[0], batches[19].zxid)
    assert batches[20].zxid in log.offsets, "both epochs are in this file"
    log.replace_batch(batches[19].zxid, None)
    log.write()
    (missing,) = deviations(directories, chains=False)
    assert (missing.member, missing.kind, missing.zxid) == ("1", "missing", batches[19].first)
    assert (missing.file, missing.offset) == (str(log.path), log.offsets[batches[20].zxid])
    assert "member 2, 3 has them" in missing.sentence
    # Alone, the chain tells.
    (broken,) = deviations(directories[:1])
    assert (broken.kind, broken.zxid, broken.offset) == ("chain", batches[20].first, log.offsets[batches[20].zxid])


def test_a_forged_record_is_named_to_the_byte(tmp_path: Path) -> None:
    batches = history(20, 60)
    directories = ensemble(tmp_path, batches, batches, batches)
    victim = next(batch for batch in batches[40:] if batch.count == 3)
    log = log_with(directories[1], victim.zxid)
    at = victim.raw.rindex(b"/x2")
    body = bytearray(victim.body)
    body[at - 84 + 20] ^= 1
    log.replace_batch(victim.zxid, with_body(victim, bytes(body)))
    log.write()
    differs, broken = sorted(deviations(directories), key=lambda one: one.kind == "chain")
    assert (differs.member, differs.kind, differs.zxid) == ("2", "differs", victim.first + 1)
    record = at - 50
    assert (differs.file, differs.offset) == (str(log.path), log.offsets[victim.zxid] + record)
    assert (broken.member, broken.kind, broken.zxid) == ("2", "chain", victim.first)


def test_a_forged_history_with_every_chain_mended_is_found_beside_the_others(tmp_path: Path) -> None:
    batches = history(20, 60)
    forged = list(batches)
    victim = forged[45]
    forged[45] = with_body(victim, victim.body[:-20] + b"forged" + victim.body[-14:])
    for at in range(45, len(forged)):
        forged[at] = rechained(forged[at - 1].chain, forged[at])
    directories = ensemble(tmp_path, batches, forged, batches)
    (differs,) = deviations(directories)
    assert (differs.member, differs.kind) == ("2", "differs")
    assert victim.first <= (differs.zxid or 0) <= victim.zxid
    assert deviations(directories[1:2]) == []


def test_other_chains_over_the_same_contents_are_found(tmp_path: Path) -> None:
    batches = history(20, 60)
    other = list(batches)
    other[45] = with_body(batches[45], batches[45].body, chain=bytes(16))
    for at in range(46, len(other)):
        other[at] = rechained(other[at - 1].chain, other[at])
    directories = ensemble(tmp_path, batches, other, batches)
    (chain,) = deviations(directories, chains=False)
    assert (chain.member, chain.kind, chain.zxid) == ("2", "chain", batches[45].first)


def test_two_members_that_differ_are_both_named(tmp_path: Path) -> None:
    batches = history(40)
    forged = list(batches)
    forged[30] = with_body(batches[30], batches[30].body[:-1] + b"\xf7")
    findings = deviations(ensemble(tmp_path, batches, forged), chains=False)
    assert kinds(findings) == {("1", "differs"), ("2", "differs")}
    assert all("without a majority" in one.sentence for one in findings)


def test_a_run_of_batches_that_differ_is_one_finding(tmp_path: Path) -> None:
    batches = history(40)
    forged = list(batches)
    for at in range(20, 30):
        forged[at] = with_body(batches[at], batches[at].body[:-1] + b"\xf7")
    (differs,) = deviations(ensemble(tmp_path, batches, batches, forged), chains=False)
    assert differs.zxid == batches[20].zxid
    assert f"all batches to zxid {batches[29].zxid:#x}" in differs.sentence


def test_a_file_that_does_not_continue_the_one_before_is_found(tmp_path: Path) -> None:
    batches = history(20, 60)
    directories = ensemble(tmp_path, batches, batches, batches)
    log = logs(directories[0])[2]
    log.header.previous = log.header.previous[0], bytes(16)
    log.write()
    (chain, *rest) = deviations(directories[:1], chains=False)
    assert (chain.kind, chain.file, chain.offset, rest) == ("chain", str(log.path), 0, [])


def test_a_snapshot_of_another_history_is_found(tmp_path: Path) -> None:
    batches = history(20, 60)
    directories = ensemble(tmp_path, batches, batches)
    for directory, lineage, chain in (
        (directories[0], LINEAGE, bytes(16)),
        (directories[1], bytes(16), batches[50].chain),
    ):
        header = SnapshotHeader(lineage, batches[50].zxid, chain)
        (directory / snapshot_path(batches[50].zxid)).write_bytes(header.pack() + bytes(100))
    findings = deviations(directories)
    assert kinds(findings) == {("1", "snapshot"), ("2", "snapshot")}
    assert all(one.file and one.file.endswith(f"snapshot.{batches[50].zxid:x}") for one in findings)


def test_an_index_that_says_something_else_is_found(tmp_path: Path) -> None:
    batches = history(20, 60)
    directories = ensemble(tmp_path, batches)
    one, other = logs(directories[0])[1:3]
    one.index_path.write_bytes(other.index_path.read_bytes())
    (index,) = deviations(directories)
    assert (index.kind, index.file) == ("index", str(one.index_path))


def test_an_absurd_amount_of_differences_is_not_read_again_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zab.pipeline.verify.compare.DRILLS_MAX", 1)
    one, other = history(20, 30, 30), history(20, 30, 30, seed=2)
    findings = deviations(ensemble(tmp_path, one, other), chains=False)
    assert [each for each in findings if "since so many differ" in each.sentence]
    assert {each.member for each in findings} == {"1", "2"}


def test_a_file_full_of_holes_is_told_in_a_hundred_lines(tmp_path: Path) -> None:
    batches = history(500)
    (directory,) = ensemble(tmp_path, batches)
    for path in (directory / "version-1").glob("log.*"):
        path.unlink()
    log = NativeLog(directory / "version-1" / "log.100000001", SegmentHeader(LINEAGE, START, 1 << 32 | 1))
    log.frames = [LogFrame(batches[::2], None)]
    log.write()
    gaps = [one for one in deviations([directory], chains=False) if one.kind == "gap"]
    assert len(gaps) == 101
    assert "149 more holes in this file" in gaps[-1].sentence
    broken = [one for one in deviations([directory]) if one.kind == "chain"]
    assert broken == [], "what comes after a hole proves nothing"


def test_a_missing_directory_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="does not exist"):
        found([tmp_path / "none"])


# ----------------------------------------------------------------------------------------- injected into real histories

ZAB, ZOOKEEPER = "zab", pytest.param("zookeeper", marks=pytest.mark.java)


@pytest.fixture
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Directories:
    directories = request.getfixturevalue(f"{request.param}_directories")
    assert isinstance(directories, Directories)
    return directories.copy(tmp_path)


def named(findings: list[Finding], injected: Injected) -> Finding:
    """The deviation that names the place."""
    hits = [
        one
        for one in findings
        if one.file is not None and one.offset is not None and injected.named_by(one.file, one.offset)
    ]
    assert hits, f"{injected} is not among {findings}"
    return hits[0]


@pytest.mark.slow
@pytest.mark.parametrize("copy", [ZAB, ZOOKEEPER], indirect=True)
def test_what_running_ensembles_left_has_no_deviation(copy: Directories) -> None:
    assert deviations(copy.members) == []
    assert deviations(copy.killed) == []
    assert {one.kind for one in found(copy.members)} <= {"holds", "epoch", "installed", "lags", "refused", "torn"}


INJECTORS: dict[str, Callable[[Directories], Injected]] = {
    "a byte of a record": lambda copy: damage.flip_byte(copy, 1),
    "a byte of a header": lambda copy: damage.flip_byte(copy, 1, "header"),
    "a byte of the file's header": lambda copy: damage.flip_byte(copy, 1, "file"),
    "a sector of zeros": lambda copy: damage.zeros(copy, 1),
    "a file cut": lambda copy: damage.truncate(copy, 1),
    "a record removed": lambda copy: damage.remove_record(copy, 1),
    "a record changed": lambda copy: damage.change_record(copy, 1),
    "a file removed": lambda copy: damage.remove_segment(copy, 1),
    "an absurd length": lambda copy: damage.absurd_length(copy, 1),
}
NATIVE_INJECTORS: dict[str, Callable[[Directories], Injected]] = {
    "a byte of a frame": lambda copy: damage.flip_byte(copy, 1, "frame"),
    "a byte of an index": lambda copy: damage.flip_byte(copy, 1, "index"),
    "a record changed, the chain mended": lambda copy: damage.change_record(copy, 1, "chain"),
    "the tail shortened": lambda copy: damage.shorten_tail(copy, 1),
    "an absurd count": lambda copy: damage.absurd_length(copy, 1, "count"),
    "an absurd frame": lambda copy: damage.absurd_length(copy, 1, "frame"),
}


@pytest.mark.slow
@pytest.mark.parametrize("inject", INJECTORS.values(), ids=INJECTORS.keys())
@pytest.mark.parametrize("copy", [ZAB, ZOOKEEPER], indirect=True)
def test_damage_is_named(copy: Directories, inject: Callable[[Directories], Injected]) -> None:
    injected = inject(copy)
    findings = deviations(copy.members)
    if copy.kind != NATIVE and not findings:
        # Where the log goes on after a snapshot, a file that is gone looks like a snapshot that was sent.
        findings = [one for one in found(copy.members) if one.kind == "installed" and one.member == "2"]
        assert injected.what == "a file removed"
    hit = named(findings, injected)
    assert {one.member for one in findings} == {"2"}, "only the member that is damaged is blamed"
    if injected.zxids is not None and hit.zxid is not None and hit.kind != "foreign":
        assert injected.zxids[0] <= hit.zxid <= injected.zxids[1]
    assert len(findings) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("inject", NATIVE_INJECTORS.values(), ids=NATIVE_INJECTORS.keys())
@pytest.mark.parametrize("copy", [ZAB], indirect=True)
def test_damage_of_native_files_is_named(copy: Directories, inject: Callable[[Directories], Injected]) -> None:
    injected = inject(copy)
    findings = deviations(copy.members)
    named(findings, injected)
    assert {one.member for one in findings} == {"2"}
    # Where a chain was mended, snapshots taken before do not have it.
    assert len([one for one in findings if one.kind != "snapshot"]) <= 14


@pytest.mark.slow
@pytest.mark.parametrize("copy", [ZAB, ZOOKEEPER], indirect=True)
def test_segments_with_each_others_content_are_both_named(copy: Directories) -> None:
    one, other = damage.swap_segments(copy, 1)
    findings = deviations(copy.members)
    assert named(findings, one).kind == named(findings, other).kind == "foreign"
    assert {each.member for each in findings} == {"2"}
    assert len(findings) <= 4


@pytest.mark.slow
@pytest.mark.java
def test_a_shortened_tail_of_zookeepers_is_stated_with_its_place(
    zookeeper_directories: Directories, tmp_path: Path
) -> None:
    """Nothing in ZooKeeper's files says that there was more; it may as well be a member that lags."""
    copy = zookeeper_directories.copy(tmp_path)
    injected = damage.shorten_tail(copy, 1)
    findings = found(copy.members)
    assert not [one for one in findings if one.deviation]
    assert named([one for one in findings if one.kind == "lags"], injected).member == "2"


@pytest.mark.slow
@pytest.mark.parametrize("copy", [ZAB, ZOOKEEPER], indirect=True)
def test_a_torn_tail_was_never_promised(copy: Directories) -> None:
    injected = damage.truncate(copy, 1, newest=True)
    if copy.kind == NATIVE:
        # The clean stop said that it was all durable, so it is short, too.
        assert {one.kind for one in deviations(copy.members)} <= {"shortened", "damaged", "index"}
    else:
        assert deviations(copy.members) == []
        named([one for one in found(copy.members) if one.kind == "torn"], injected)


@pytest.mark.slow
def test_a_file_of_another_ensemble_is_named(zab_directories: Directories, tmp_path: Path) -> None:
    """ZooKeeper's files do not say whose they are; ours do."""
    copy = zab_directories.copy(tmp_path)
    source = logs(member(tmp_path / "stranger", 1, history(60)))[0].path
    target = copy.members[1] / "version-1" / source.name
    if target.exists():
        target = target.with_name("log.1000fffff")
    shutil.copy(source, target)
    foreign = [one for one in deviations(copy.members) if one.kind == "foreign"]
    assert [(one.member, one.file) for one in foreign] == [("2", str(target))]


def in_snapshots(copy: Directories) -> list[Finding]:
    members = inventory([str(path) for path in copy.members])
    return find_in_snapshots(members, [examine_snapshot(task) for task in snapshot_tasks(members.members)])


def shared_snapshot(copy: Directories) -> int:
    """The zxid of the first member's newest snapshot, which becomes the newest one of each.

    Who of the members was catching up when the workload ended has one less than the others.
    """
    newest = copy.snapshots(0)[-1]
    zxid = _zxid_of(newest)
    for number, directory in enumerate(copy.members[1:], start=1):
        for path in copy.snapshots(number):
            if _zxid_of(path) > zxid:
                path.unlink()
        target = directory / copy.version / newest.name
        if not target.exists():
            shutil.copy(newest, target)
    return zxid


def _zxid_of(snapshot: Path) -> int:
    return int(snapshot.name.partition(".")[2], 16)


@pytest.mark.slow
@pytest.mark.parametrize("copy", [ZAB, ZOOKEEPER], indirect=True)
def test_whole_snapshots_pass_and_a_flipped_byte_in_one_is_named(copy: Directories) -> None:
    assert in_snapshots(copy) == []
    injected = damage.flip_byte(copy, 1, "snapshot")
    (damaged,) = in_snapshots(copy)
    assert (damaged.member, damaged.kind, damaged.deviation) == ("2", "snapshot", True)
    assert named([damaged], injected) is damaged


@pytest.mark.slow
def test_a_whole_snapshot_with_another_tree_is_named(zab_directories: Directories, tmp_path: Path) -> None:
    copy = zab_directories.copy(tmp_path)
    zxid = shared_snapshot(copy)
    path = copy.members[1] / snapshot_path(zxid)
    disk = RealDisk(str(copy.members[1]), lock=False)
    header, tree = load_snapshot(disk, snapshot_path(zxid))
    tree.apply(Txn(zxid + 1, 1, 1, 1, 1, 1, b"/forged", b"", (None, 0)))
    tree.applied = zxid
    path.unlink()
    SnapshotWriter(disk, tree.begin_snapshot(), header.lineage, header.chain).write()
    (other,) = in_snapshots(copy)
    assert (other.member, other.kind, other.zxid, other.file) == ("2", "snapshot", zxid, str(path))


# ------------------------------------------------------------------------------------------------------ ZooKeeper's own


def zookeeper_member(directory: Path, number: int, *files: list[Txn]) -> Path:
    version2 = directory / "version-2"
    version2.mkdir(parents=True)
    (directory / "myid").write_text(f"{number}\n")
    for txns in files:
        content = LOG_HEADER + b"".join(encode_record(txn) for txn in txns)
        (version2 / f"log.{txns[0].zxid:x}").write_bytes(content)
    return directory


def sets(*zxids: int) -> list[Txn]:
    return [Txn(zxid, 1000 + zxid, 7, 1, 5, 2, b"/a", b"%x" % zxid, None) for zxid in zxids]


def test_the_end_of_an_epoch_of_zookeepers_is_compared(tmp_path: Path) -> None:
    """No number says that the last transactions of an epoch are missing, only the other members do."""
    epochs = 1 << 32, 2 << 32
    whole = sets(*(epochs[0] + number for number in range(1, 9)), *(epochs[1] + number for number in range(1, 5)))
    short = [txn for txn in whole if txn.zxid not in (epochs[0] + 7, epochs[0] + 8)]
    histories = whole, short, whole
    directories = [zookeeper_member(tmp_path / "z" / f"server{n}", n, txns) for n, txns in enumerate(histories, 1)]
    (missing,) = deviations(directories)
    log = Version2Log.read(next((directories[1] / "version-2").glob("log.*")))
    assert (missing.member, missing.kind, missing.zxid) == ("2", "missing", epochs[0] + 7)
    assert (missing.file, missing.offset) == (str(log.path), log.find(epochs[1] + 1).offset)
    # Where most members do not have them, the one that does has too much.
    histories = whole, short, short
    other = [zookeeper_member(tmp_path / "y" / f"server{n}", n, txns) for n, txns in enumerate(histories, 1)]
    assert kinds(deviations(other)) == {("1", "extra")}


def test_a_deleted_segment_is_found_where_the_others_have_holes_of_their_own(tmp_path: Path) -> None:
    """Only the first member says how epoch 1 goes on, and says it wrongly."""
    one = [1 << 32 | number for number in range(1, 9)]
    two = [2 << 32 | number for number in range(1, 9)]
    directories = [
        zookeeper_member(tmp_path / "z" / "server1", 1, sets(*one[:5]), sets(*two[:4]), sets(*two[4:])),
        zookeeper_member(tmp_path / "z" / "server2", 2, sets(*one[:5]), sets(*one[5:]), sets(*two[4:])),
        zookeeper_member(tmp_path / "z" / "server3", 3, sets(*one[:5]), sets(*one[5:]), sets(*two[3:])),
    ]
    findings = deviations(directories)
    assert kinds(findings) == {("1", "missing"), ("2", "gap"), ("3", "gap")}
    (missing,) = [finding for finding in findings if finding.kind == "missing"]
    assert missing.zxid == one[5]
    assert missing.sentence.endswith("at the end of epoch 1; member 2, 3 has them")


def test_the_end_of_an_epoch_that_came_as_a_snapshot_is_stated(tmp_path: Path) -> None:
    """Two of three were synchronized by a snapshot: the one that has the end in its log has not too much."""
    one = [1 << 32 | number for number in range(1, 9)]
    two = [2 << 32 | number for number in range(1, 9)]
    directories = [zookeeper_member(tmp_path / "z" / "server1", 1, sets(*one), sets(*two))]
    for number in (2, 3):
        directories.append(zookeeper_member(tmp_path / "z" / f"server{number}", number, sets(*one[:5]), sets(*two)))
        (directories[-1] / "version-2" / f"snapshot.{one[-1]:x}").write_bytes(b"ZKSN" + bytes(60))
    findings = found(directories)
    assert not [finding for finding in findings if finding.deviation]
    stated = [finding for finding in findings if finding.kind == "installed"]
    assert [(finding.member, finding.zxid) for finding in stated] == [("2", one[5]), ("3", one[5])]


def test_a_refused_multi_that_zookeeper_wrote_in_two_ways_is_no_deviation(tmp_path: Path) -> None:
    """Its parts are marked as refused when it is applied, which may be before or after it is logged."""

    def txns(*parts: int) -> list[Txn]:
        sets = tuple((kind, 3, b"/a", b"d", None) for kind in parts)
        multi = Txn(1 << 32 | 2, 1000, 7, 2, 14, 0, b"", None, (*sets, (-1, -103, b"", None, None)))
        return [Txn(1 << 32 | 1, 1000, 7, 1, 5, 2, b"/a", b"d", None), multi]

    logged, applied = txns(5), txns(5)
    directories = [zookeeper_member(tmp_path / "z" / f"server{n}", n, logged) for n in (1, 2)]
    directories.append(zookeeper_member(tmp_path / "z" / "server3", 3, applied))
    path = next((directories[2] / "version-2").glob("log.*"))
    _mark_parts(path)
    findings = found(directories)
    assert not [one for one in findings if one.deviation]
    (refused,) = [one for one in findings if one.kind == "refused"]
    assert (refused.member, refused.zxid, refused.file) == ("3", 1 << 32 | 2, str(path))
    # Another value is another multi.
    other = txns(5)
    other[1] = other[1]._replace(rest=((5, 3, b"/a", b"e", None), other[1].rest[1]))
    shutil.rmtree(directories[2])
    directories[2] = zookeeper_member(tmp_path / "z" / "server3", 3, other)
    assert kinds(deviations(directories)) == {("3", "differs")}


def _mark_parts(path: Path) -> None:
    """The first part of the multi in the file becomes a refusal; its body and the lengths stay."""
    log = Version2Log.read(path)
    raw = bytearray(log.records[1].raw)
    part_at = 12 + 32 + 4
    assert raw[part_at : part_at + 4] == (5).to_bytes(4, "big")
    raw[part_at : part_at + 4] = b"\xff\xff\xff\xff"
    from zlib import adler32

    raw[:8] = adler32(bytes(raw[12:-1])).to_bytes(8, "big")
    log.records[1].raw = bytes(raw)
    log.write()


# -------------------------------------------------------------------------------------------------------------- Spark


@pytest.mark.spark
def test_spark_finds_the_same_as_one_process(spark: SparkSession, tmp_path: Path) -> None:
    batches = history(40, 60)
    forged = list(batches)
    forged[70] = with_body(batches[70], batches[70].body[:-1] + b"\xf7")
    directories = [str(path) for path in ensemble(tmp_path, batches, forged, batches[:90])]
    rows = verify(spark, directories).collect()
    expected = find(inventory(directories))
    assert [tuple(row) for row in rows] == [
        tuple(getattr(finding, column.name) for column in VERIFY) for finding in expected
    ]
    assert {row.kind for row in rows} >= {"differs", "chain", "lags"}
    with pytest.raises(PipelineError, match="does not exist"):
        verify(spark, str(tmp_path / "none"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("copy", [ZAB, ZOOKEEPER], indirect=True)
def test_the_newest_snapshots_are_what_the_logs_make_of_older_ones(copy: Directories, spark: SparkSession) -> None:
    rows = verify(spark, [str(path) for path in copy.members], replays=1).collect()
    assert [row for row in rows if row.deviation] == []
    (replayed,) = [row for row in rows if row.kind == "replayed"]
    assert replayed.sentence.startswith("compared with snapshot."), replayed


@pytest.mark.spark
@pytest.mark.slow
def test_a_snapshot_that_the_logs_do_not_lead_to_is_named_with_the_znode(
    zab_directories: Directories, tmp_path: Path, spark: SparkSession
) -> None:
    """On every member, so that comparing them says nothing."""
    copy = zab_directories.copy(tmp_path)
    zxid = shared_snapshot(copy)
    for number, directory in enumerate(copy.members):
        disk = RealDisk(str(directory), lock=False)
        path = directory / snapshot_path(zxid)
        header, tree = load_snapshot(disk, snapshot_path(zxid))
        tree.apply(Txn(zxid + 1, 1, 1, 1, 1, 1, b"/forged", b"", (None, 0)))
        tree.applied = zxid
        path.unlink()
        SnapshotWriter(disk, tree.begin_snapshot(), header.lineage, header.chain).write()
        assert path in copy.snapshots(number)
    places = [str(path) for path in copy.members]
    assert deviations(copy.members) == in_snapshots(copy) == []
    found = [row for row in verify(spark, places, replays=1).collect() if row.deviation]
    assert {row.zxid for row in found} == {zxid}
    sentences = [row.sentence for row in found]
    assert "/forged: it is there, and the logs do not make it" in sentences
    assert any(sentence.startswith("/: ") for sentence in sentences), "its parent counts it"
    assert all(row.file.endswith(f"snapshot.{zxid:x}") for row in found)
