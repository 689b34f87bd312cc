"""The state at a moment, without Spark: on the directories of running ensembles, ours and ZooKeeper's.

The proof: at the zxid of each exact snapshot, the state put together from earlier ones and the log is that snapshot,
znode by znode. What differs in a fuzzy snapshot is what was written while it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from datatree.znode import visible_cversion, visible_owner
from datatree.zookeeper.state import ZooKeeperState
from tests.pipeline.rigs import damage
from tests.pipeline.rigs.ensembles import Directories
from tests.pipeline.rigs.trees import local_state
from zab.pipeline.errors import PipelineError
from zab.pipeline.inventory import inventory
from zab.pipeline.member_files import MemberFiles
from zab.pipeline.reading.planning import Range
from zab.pipeline.reading.snapshot_choice import Chosen, examine
from zab.pipeline.state.local_state import LocalLogs, local_moment
from zab.pipeline.state.moment import Moment, moment_of

CONFIG = b"/zookeeper/config"


@pytest.fixture(params=["native", "version-2"])
def directories(request: pytest.FixtureRequest) -> Directories:
    name = {"native": "zab_directories", "version-2": "zookeeper_directories"}[request.param]
    found = request.getfixturevalue(name)
    assert isinstance(found, Directories)
    return found


def dirs_of(directories: Directories) -> list[str]:
    return [f"e={member}" for member in directories.members]


def members_of(dirs: Sequence[str]) -> tuple[MemberFiles, ...]:
    return tuple(inventory(dirs).members)


def without_snapshots(members: Sequence[MemberFiles], zxid: int) -> tuple[MemberFiles, ...]:
    """As if nobody had taken a snapshot at this zxid or later."""
    return tuple(
        evolve(member, snapshots=[file for file in member.snapshots if file.zxid < zxid]) for member in members
    )


def state_at(members: tuple[MemberFiles, ...], at: int) -> tuple[Moment, ZooKeeperState]:
    moment = moment_of(LocalLogs(members), members, at)
    return moment, local_state(moment)


def znodes_of(state: ZooKeeperState) -> dict[bytes, object]:
    return {path: znode for path, znode in state.znodes.items() if path != CONFIG}


def everything(state: ZooKeeperState) -> tuple[int, dict[bytes, object], dict[int, int]]:
    """But for the text of the configuration, which is each member's own."""
    return state.zxid, znodes_of(state), state.sessions


def changing_sessions(members: tuple[MemberFiles, ...], zxid: int) -> set[int]:
    """Sessions that are created or closed at just that moment; none in a snapshot of ours.

    ZooKeeper copies the sessions before it looks which zxid the snapshot is of, in a different thread from the one that
    changes them."""
    if members[0].kind == "native":
        return set()
    rows = LocalLogs(members).batches(("session", "operation"), Range.of(zxid - 5, zxid + 1, None, None))
    return {row["session"] for batch in rows for row in batch.to_pylist() if "Session" in row["operation"]}


def loaded(chosen: Chosen) -> ZooKeeperState:
    """What the snapshot itself holds."""
    moment = Moment((chosen.member,), chosen.file.zxid, None, chosen, (), 0, 0)
    return local_state(moment)


def test_state_at_each_snapshots_zxid_is_that_snapshot(directories: Directories) -> None:
    members = members_of(dirs_of(directories))
    exact_count = fuzzy_count = 0
    bases = set()
    for member in members:
        for file in member.snapshots:
            if not file.zxid:
                continue
            snapshot = examine(member, file)
            assert isinstance(snapshot, Chosen)
            moment, state = state_at(without_snapshots(members, file.zxid), file.zxid)
            assert moment.zxid == file.zxid or not file.zxid & 0xFFFFFFFF
            bases.add(None if moment.base is None else moment.base.file.name)
            if snapshot.examined.exact_from == file.zxid:
                exact_count += 1
                assert znodes_of(state) == znodes_of(loaded(snapshot)), file.name
                differing = state.sessions.items() ^ loaded(snapshot).sessions.items()
                assert {session for session, _ in differing} <= changing_sessions(members, file.zxid), file.name
            else:
                fuzzy_count += 1
    assert exact_count >= 5, (exact_count, fuzzy_count)
    assert (fuzzy_count > 0) == (directories.kind == "version-2")
    assert len(bases) >= 5


def test_state_at_the_end_is_what_a_client_read(directories: Directories) -> None:
    moment = local_moment(dirs_of(directories))
    assert moment.zxid == directories.last_zxid
    state = local_state(moment)
    found = {path.decode() for path in state.znodes}
    # Ephemerals of sessions that closed when the client had read are gone.
    assert found <= directories.znodes.keys()
    assert len(found) > 0.9 * len(directories.znodes)
    for path, znode in state.znodes.items():
        if path == CONFIG:
            continue
        known, count = directories.znodes[path.decode()], len(state.children.get(path, ()))
        assert znode.data == known.data, path
        stat = (znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.version)
        assert stat == known.stat[:5], path
        assert (znode.aversion, visible_owner(znode.owner)) == known.stat[6:8], path
        if known.stat[9] == count:
            assert (visible_cversion(znode.cversion, count), znode.pzxid) == (known.stat[5], known.stat[10]), path


def test_the_longest_way_is_the_same_state(directories: Directories) -> None:
    """From the beginning of the logs on, without any snapshot."""
    members = members_of(dirs_of(directories))
    bare = tuple(evolve(member, snapshots=[]) for member in members)
    moment, state = state_at(bare, directories.last_zxid)
    assert (moment.base, moment.base_zxid) == (None, 0)
    short = local_state(local_moment(dirs_of(directories)))
    assert everything(state) == everything(short)


def times_and_zxids(directories: Directories) -> list[tuple[datetime, int]]:
    members = members_of(dirs_of(directories))
    batches = LocalLogs(members).batches(("time", "zxid"), Range())
    return [(row["time"], row["zxid"]) for batch in batches for row in batch.to_pylist()]


def test_a_time_means_the_last_transaction_at_or_before_it(directories: Directories) -> None:
    rows = times_and_zxids(directories)
    for time, _ in rows[:: len(rows) // 7]:
        for at in (time, time + timedelta(microseconds=500), time.astimezone(timezone(timedelta(hours=5)))):
            wanted = max(zxid for when, zxid in rows if when <= at)
            assert local_moment(dirs_of(directories), at).zxid == wanted
    assert local_moment(dirs_of(directories), datetime.now(UTC)).zxid == directories.last_zxid
    with pytest.raises(PipelineError, match=r"no transaction of ensemble e at or before 1999.*kept are transactions"):
        local_moment(dirs_of(directories), datetime(1999, 1, 1, tzinfo=UTC))
    with pytest.raises(PipelineError, match=r"1999-01-01T00:00:00 has no time zone; write 1999-01-01T00:00:00Z"):
        local_moment(dirs_of(directories), datetime(1999, 1, 1))


def test_a_zxid_between_epochs_means_the_end_of_the_earlier(directories: Directories) -> None:
    last = max(zxid for _, zxid in times_and_zxids(directories) if zxid >> 32 == 1)
    assert local_moment(dirs_of(directories), 0x1FFFFFFFF).zxid == last
    # ZooKeeper may have taken a snapshot there, before the first transaction of the epoch.
    assert local_moment(dirs_of(directories), 0x200000000).zxid in (last, 0x200000000)


def test_a_zxid_beyond_the_end_is_refused_with_what_is_kept(directories: Directories) -> None:
    with pytest.raises(PipelineError, match=rf"beyond the end.*to {directories.last_zxid:#x}, and snapshots at 0x"):
        local_moment(dirs_of(directories), directories.last_zxid + 1)


def test_a_moment_before_what_is_kept_is_refused(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    for number in range(3):
        for file in [*copy.logs(number)[:4], *copy.snapshots(number)[:3]]:
            file.unlink()
    first = min(int(copy.snapshots(number)[0].name.partition(".")[2], 16) for number in range(3))
    with pytest.raises(PipelineError, match=r"cannot be put together: no snapshot to begin with.*snapshots at 0x"):
        local_moment(dirs_of(copy), first - 1)
    assert local_moment(dirs_of(copy)).zxid == directories.last_zxid


def test_a_hole_in_all_members_is_named(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    middle = directories.writes[len(directories.writes) // 2].zxid
    for number in range(3):
        for file in copy.snapshots(number):
            file.unlink()
        holding = [file for file in copy.logs(number) if int(file.name.partition(".")[2], 16) <= middle][-1]
        holding.unlink()
        holding.with_name(f"{holding.name}.index").unlink(missing_ok=True)
    with pytest.raises(PipelineError, match="missing"):
        local_moment(dirs_of(copy), directories.last_zxid)


def test_a_member_that_lost_files_is_helped_out_by_the_others(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    for file in [*copy.logs(0)[3:6], *copy.snapshots(0)]:
        file.unlink()
        file.with_name(f"{file.name}.index").unlink(missing_ok=True)
    for at in (directories.killed_zxid, directories.last_zxid):
        right = local_state(local_moment(dirs_of(directories), at))
        assert everything(local_state(local_moment(dirs_of(copy), at))) == everything(right)


def test_a_damaged_snapshot_is_passed_over_and_named(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    newest = max(int(file.name.partition(".")[2], 16) for number in range(3) for file in copy.snapshots(number))
    broken = []
    for number in range(3):
        for file in copy.snapshots(number):
            if int(file.name.partition(".")[2], 16) == newest:
                content = bytearray(file.read_bytes())
                content[len(content) // 2] ^= 1
                file.write_bytes(content)
                broken.append(file)
    moment = local_moment(dirs_of(copy))
    assert sorted(str(problem.file.place) for problem in moment.problems) == sorted(map(str, broken))
    assert moment.base is not None
    assert moment.base.file.zxid < newest
    assert everything(local_state(moment)) == everything(local_state(local_moment(dirs_of(directories))))


def test_what_a_kill_left_holds_all_that_was_acknowledged(directories: Directories) -> None:
    """The mark of ours follows the last transactions on disk: up to it they are surely committed, after it perhaps."""
    dirs = [f"e={member}" for member in directories.killed]
    surely, perhaps = local_moment(dirs), local_moment(dirs, uncommitted=True)
    assert surely.zxid <= perhaps.zxid
    assert perhaps.zxid >= directories.killed_zxid
    assert len(local_state(surely).znodes) > 100
    assert local_state(perhaps).zxid == perhaps.zxid


def test_one_member_of_zookeeper_alone_has_to_be_believed(zookeeper_directories: Directories) -> None:
    dirs = [str(zookeeper_directories.members[0])]
    with pytest.raises(PipelineError, match="uncommitted"):
        local_moment(dirs)
    moment = local_moment(dirs, uncommitted=True)
    assert moment.zxid == zookeeper_directories.last_zxid
    assert znodes_of(local_state(moment)) == znodes_of(local_state(local_moment(dirs_of(zookeeper_directories))))


def test_several_ensembles_are_refused(zab_directories: Directories, zookeeper_directories: Directories) -> None:
    dirs = [f"a={zab_directories.members[0]}", f"b={zookeeper_directories.members[0]}"]
    with pytest.raises(PipelineError, match=r"2 ensembles \(a, b\)"):
        local_moment(dirs)


def test_snapshots_alone_are_enough_for_their_own_moment(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    for number in range(3):
        for file in copy.logs(number):
            file.unlink()
    members = members_of(dirs_of(copy))
    exact = max(
        file.zxid
        for member in members
        for file in member.snapshots
        if isinstance(found := examine(member, file), Chosen) and found.examined.exact_from == file.zxid
    )
    moment = local_moment(dirs_of(copy), exact)
    assert (moment.zxid, moment.txn_count, moment.time) == (exact, 0, None)
    assert znodes_of(local_state(moment)) == znodes_of(local_state(local_moment(dirs_of(directories), exact)))
    with pytest.raises(PipelineError, match="beyond the end"):
        local_moment(dirs_of(copy), directories.last_zxid + 1)


def test_the_latest_epoch_counts_what_any_file_says(zab_directories: Directories, tmp_path: Path) -> None:
    """Nothing of the new history may have a zxid that the old one had."""
    assert local_moment(dirs_of(zab_directories), 0x100000010).last_epoch >= 3
    copy = zab_directories.copy(tmp_path)
    (copy.members[1] / "version-1" / "acceptedEpoch").write_text("41\nwhatever\n")
    (copy.members[2] / "version-1" / "currentEpoch").write_text("99999999999999999\n")
    assert local_moment(dirs_of(copy)).last_epoch == 41


@pytest.fixture(scope="module")
def damageable(zab_directories: Directories, tmp_path_factory: pytest.TempPathFactory) -> tuple[Directories, object]:
    """A copy, and the state at the end of what it is a copy of."""
    copy = zab_directories.copy(tmp_path_factory.mktemp("damaged"))
    return copy, local_state(local_moment(dirs_of(zab_directories)))


@settings(max_examples=20)
@given(data=st.data())
def test_no_damage_gives_a_wrong_state(damageable: tuple[Directories, object], data: st.DataObject) -> None:
    """Bytes of one member's files changed at random: the same state, from the other members, or a sentence."""
    copy, right = damageable
    files = [*copy.logs(0), *copy.snapshots(0)]
    whole: dict[Path, bytes] = {}
    for _ in range(data.draw(st.integers(1, 4))):
        file = data.draw(st.sampled_from(files))
        content = bytearray(file.read_bytes())
        whole.setdefault(file, bytes(content))
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
    try:
        assert local_state(local_moment(dirs_of(copy))) == right
    finally:
        for file, found in whole.items():
            file.write_bytes(found)


def test_what_one_member_alone_logged_is_not_shown(directories: Directories, tmp_path: Path) -> None:
    copy = directories.copy(tmp_path)
    damage.uncommitted_tail(copy, member=1)
    assert local_moment(dirs_of(copy)).zxid == directories.last_zxid
