"""Where a history ends: log files without a transaction, logs in directories of their own, marks beyond what was given.

All tools on the same directories: none of them may take a part of a history for the whole."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datatree.log.epochs import MemberRecord, save_epochs, save_mark, save_member
from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.recovery.recover import examine
from datatree.snapshot import SnapshotWriter
from datatree.tree import DataTree
from datatree.zookeeper.log import LOG_HEADER
from tests.pipeline.rigs.log_builder import FIRST, LINEAGE, in_batches, write_native, write_version2
from tests.pipeline.rigs.member_logs import zxids
from zab.cli.files.log_files import Entry, UnreadableError
from zab.cli.files.member_logs import open_members
from zab.host.storage.disk import RealDisk
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.jobs.verify import find
from zab.pipeline.reading.planning import Range, plan
from zab.pipeline.state.local_state import local_moment
from zab.pipeline.streaming.following import Ensemble

SECOND = (2 << 32) + 1
THIRD = (3 << 32) + 1


def txns(count: int, first: int = FIRST) -> list[Txn]:
    """Znodes below the root, one after the other. A log goes on where another one ends, also in a later epoch."""
    before = {FIRST: 0, SECOND: 50, THIRD: 50}.get(first, first - FIRST)
    times = range(before, before + count)
    return [Txn(first + n - before, n, 1, n, OpCode.CREATE, n + 1, b"/n%d" % n, b"d", (None, 0)) for n in times]


def begun(directory: Path, first: int, *, torn: bool = False) -> None:
    """A log of ZooKeeper as a crash, or a full disk, right after a roll leaves it."""
    content = LOG_HEADER + (b"\x07\x01" * 20 if torn else b"") + bytes(4096)
    (directory / "version-2" / f"log.{first:x}").write_bytes(content)


def theirs(root: Path, files: Sequence[Sequence[Txn]], members: Sequence[int] = (1, 2, 3)) -> list[Path]:
    for member in members:
        write_version2(root / str(member), files, member=member)
    return [root / str(member) for member in members]


def shown(directories: Sequence[Path]) -> list[int]:
    """As `zab log` shows them."""
    return [event.txn.zxid for event in open_members(directories).dump() if isinstance(event, Entry)]


def followed(directories: Sequence[Path]) -> int:
    """As far as `zab pipeline follow` comes."""
    ensemble = Ensemble("e")
    ensemble.settle(inventory(directories).members)
    ensemble.advance()
    return ensemble.latest()


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("which", ["last", "next epoch", "middle epoch"])
def test_a_log_without_a_transaction_says_nothing(tmp_path: Path, which: str, count: int, torn: bool) -> None:
    files = [txns(30), txns(20, FIRST + 30)] + ([txns(10, THIRD)] if which == "middle epoch" else [])
    directories = theirs(tmp_path, files)
    for directory in directories[:count]:
        begun(directory, FIRST + 50 if which == "last" else SECOND, torn=torn)
    expected = [txn.zxid for file in files for txn in file]
    assert zxids(directories) == expected
    assert shown(directories) == expected
    assert followed(directories) == expected[-1]
    moment = local_moment(directories)
    assert (moment.zxid, moment.txn_count) == (expected[-1], len(expected))
    (directory, *_) = directories
    assert local_moment(directory, uncommitted=True).zxid == expected[-1]
    if not torn:
        assert not [one for one in find(inventory(directories)) if one.deviation]


def apart(root: Path, layout: tuple[str, str], directories: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The members' logs in directories of their own, as `dataLogDir` has them."""
    data, logs = [], []
    for number, directory in enumerate(directories, 1):
        version = next(directory.glob("version-*"))
        data.append(root / layout[0].format(number))
        logs.append(root / layout[1].format(number))
        (logs[-1] / version.name).mkdir(parents=True)
        for file in version.glob("log.*"):
            file.rename(logs[-1] / version.name / file.name)
        data[-1].parent.mkdir(parents=True, exist_ok=True)
        shutil.move(directory, data[-1])
    return data, logs


LAYOUTS = [("m{}/data", "m{}/log"), ("data/zk{}", "logs/zk{}"), ("x{}", "y{}")]


def snapshot_of(directory: Path, zxid: int) -> None:
    (directory / "version-2" / f"snapshot.{zxid:x}").write_bytes(b"ZKSN" + bytes(60))
    (directory / "version-2" / "currentEpoch").write_text("1")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_logs_of_zookeeper_in_directories_of_their_own(tmp_path: Path, layout: tuple[str, str]) -> None:
    directories = theirs(tmp_path / "made", [txns(30)])
    write_version2(directories[2], [txns(25)], member=3)
    for directory in directories:
        snapshot_of(directory, FIRST + 9)
    data, logs = apart(tmp_path, layout, directories)
    expected = [txn.zxid for txn in txns(30)]
    both = [f"e={one}" for one in (*data, *logs)]
    assert zxids([Path(one) for one in both]) == expected
    assert shown([*data, *logs]) == expected
    if layout != LAYOUTS[2]:
        found = inventory(both).members
        assert [member.member for member in found] == ["1", "2", "3"]
        assert all(member.log_directory is not None for member in found)
    # The logs of one of three are no majority, whatever directories are named beside it.
    with pytest.raises(
        PipelineError,
        match=r"is one of 3 members, whose log may say.*dataLogDir",
    ):
        local_moment([f"e={one}" for one in (*data, logs[0])])
    for refused in (data, data[:1]):
        with pytest.raises(PipelineError, match="no log: if it has a dataLogDir, name that, too; --at 0x10000000a"):
            local_moment([f"e={one}" for one in refused])
        with pytest.raises(PipelineError, match="snapshots, but no logs; if it has a dataLogDir"):
            plan(inventory([f"e={one}" for one in refused]), Range())
        with pytest.raises(UnreadableError, match="name that, too"):
            shown(refused)
        assert [one.kind for one in find(inventory([f"e={one}" for one in refused])) if one.deviation] == ["unread"]


def ours(directory: Path, committed: int | None, *, server_id: int = 1) -> Path:
    """A member of ours with fifty transactions; every batch but the last knows that those before it are committed."""
    write_native(directory, [in_batches(txns(50), 5)], member=server_id)
    disk = RealDisk(str(directory), lock=False)
    save_epochs(disk, 1, 1)
    save_member(disk, MemberRecord(LINEAGE, server_id))
    if committed is None:
        (directory / "version-1" / "committed").unlink()
    else:
        save_mark(disk, LINEAGE, committed)
    return directory


def test_a_log_of_ours_in_a_directory_of_its_own(tmp_path: Path) -> None:
    ((data,), (log,)) = apart(tmp_path, LAYOUTS[0], [ours(tmp_path / "made", FIRST + 49)])
    (member,) = inventory([data, log]).members
    assert (member.member, member.committed, len(member.logs)) == ("1", FIRST + 49, 1)
    assert local_moment([data, log]).zxid == local_moment([log, data]).zxid == FIRST + 49
    with pytest.raises(PipelineError, match=f"says that {FIRST + 49:#x} is committed.*name that, too"):
        local_moment(data)
    with pytest.raises(PipelineError, match="name its dataDir, too"):
        local_moment(log)
    for wanted in (Range(), Range(zxid_min=FIRST), Range(time_max=40)):
        with pytest.raises(PipelineError, match="name its dataDir, too"):
            plan(inventory(log), wanted)
        assert plan(inventory([data, log]), wanted)
    # What is named needs no end.
    assert plan(inventory(log), Range(zxid_max=FIRST + 20))
    assert plan(inventory(log), Range(), uncommitted=True)
    assert local_moment(log, FIRST + 20).zxid == FIRST + 20
    assert local_moment(log, datetime.fromtimestamp(0.020, UTC)).zxid == FIRST + 20
    assert [one.kind for one in find(inventory(data)) if one.deviation] == ["unread"]


def cut(directory: Path) -> None:
    """The end of the log is gone, and `committed` says so."""
    (log,) = (one for one in (directory / "version-1").glob("log.*") if one.suffix != ".index")
    log.write_bytes(log.read_bytes()[:-700])
    for index in (directory / "version-1").glob("*.index"):
        index.unlink()


def removed(directory: Path) -> None:
    for file in (directory / "version-1").glob("log.*"):
        file.unlink()


@pytest.mark.parametrize("damage", [cut, removed])
def test_no_reader_goes_on_where_a_member_would_not(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """What a member's start, and so `zab fsck`, calls damage, no other tool takes for a whole history."""
    directory = ours(tmp_path / "one", FIRST + 49)
    assert not examine(RealDisk(str(directory), lock=False)).damage
    damage(directory)
    assert examine(RealDisk(str(directory), lock=False)).damage
    with pytest.raises(PipelineError):
        local_moment(directory)
    assert [one for one in find(inventory(directory)) if one.deviation]


def test_a_log_that_begins_with_zeros_and_goes_on_is_damaged(tmp_path: Path) -> None:
    """Preallocated space is no log yet; a log whose beginning was overwritten is no preallocated space."""
    (directory,) = theirs(tmp_path, [txns(30)], [1])
    log = directory / "version-2" / f"log.{FIRST:x}"
    log.write_bytes(bytes(64) + log.read_bytes()[64:])
    (member,) = inventory(directory).members
    assert [one.problem.kind for one in member.logs if one.problem] == ["damaged"]
    log.write_bytes(bytes(4096))
    with pytest.raises(PipelineError):
        plan(inventory(directory), Range())


def test_what_is_damaged_above_the_mark_may_be_committed(tmp_path: Path) -> None:
    """`committed` is not synced: without it the marks in the log say less than what was acknowledged."""
    directory = ours(tmp_path / "one", None)
    (log,) = (one for one in (directory / "version-1").glob("log.*") if one.suffix != ".index")
    whole = log.read_bytes()
    mark = local_moment(directory).zxid
    assert mark == FIRST + 44
    assert local_moment(directory).logged == FIRST + 49, "what is left out is said"
    assert local_moment(directory, uncommitted=True).logged == 0
    data = bytearray(whole)
    data[-100] ^= 1
    log.write_bytes(data)
    assert examine(RealDisk(str(directory), lock=False)).damage
    with pytest.raises(
        PipelineError, match=f"more than {FIRST + 39:#x} is committed.*body does not match, after {mark:#x}"
    ):
        local_moment(directory)
    assert local_moment(directory, FIRST + 39).zxid == FIRST + 39, "what is named needs no end"
    other = ours(tmp_path / "two", None, server_id=2)
    assert local_moment([directory, other]).zxid == mark, "another member has it whole"


def test_a_snapshot_proves_what_an_old_mark_does_not(tmp_path: Path) -> None:
    directory = ours(tmp_path / "one", FIRST + 9)
    write_native(directory, [in_batches(txns(50), 5)], member=1, mark=FIRST + 9)
    assert zxids([directory])[-1] == FIRST + 9
    tree = DataTree()
    for txn in txns(30):
        tree.apply(txn)
    SnapshotWriter(RealDisk(str(directory), lock=False), tree.begin_snapshot(), LINEAGE, bytes(16)).write()
    assert zxids([directory])[-1] == FIRST + 29
