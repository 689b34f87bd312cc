"""A whole data directory: what is loaded, what is refused, and the ways to a `DataTree` and back."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve

from datatree.record import Txn
from datatree.tree import DataTree
from datatree.zookeeper.files import ZooKeeperFileError, file_name
from datatree.zookeeper.log import LOG_HEADER, encode_record
from datatree.zookeeper.snapshot import SnapshotZnode, write_snapshot
from datatree.zookeeper.state import ZooKeeperState, znode_digest
from tests.datatree.zookeeper.histories import fuzzy, history, states
from tests.rigs.zookeeper_directory import from_cursor, is_complete, load_directory, to_tree, write_directory
from zab.simulator.world.disk import FaultyDisk

EPOCH = 1 << 32


def log(disk: FaultyDisk, txns: list[Txn], moments: list[ZooKeeperState] | None = None) -> str:
    """Write these as one log, with digests if there are states (by zxid) to take them from."""
    path = f"version-2/{file_name('log', txns[0].zxid)}"
    digests = [None if moments is None or txn.type == -1 else moments[txn.zxid].digest for txn in txns]
    disk.replace(path, LOG_HEADER + b"".join(map(encode_record, txns, digests)) + bytes(300))
    return path


def snapshot(disk: FaultyDisk, state: ZooKeeperState) -> str:
    return write_directory(disk, state)


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture(scope="module")
def lived() -> tuple[list[Txn], list[ZooKeeperState], DataTree]:
    txns, tree = history(5, 120)
    return txns, states(txns), tree


def test_snapshot_and_the_logs_behind_it_are_loaded(disk, lived) -> None:
    txns, moments, _ = lived
    log(disk, txns[:50], moments)
    log(disk, txns[50:90], moments)
    log(disk, txns[90:], moments)
    snapshot(disk, moments[20])
    path = snapshot(disk, moments[70])
    loaded = load_directory(disk)
    assert loaded.state == moments[-1]
    assert (loaded.snapshot, loaded.snapshot_zxid, loaded.replayed_count) == (path, 70, 50)
    assert loaded.problems == []


@pytest.mark.parametrize("seed", range(8))
def test_fuzzy_snapshot_is_made_exact_and_its_digest_checked(disk, lived, seed: int) -> None:
    txns, moments, _ = lived
    random = Random(seed)
    start = random.randrange(100)
    end = start + 15
    state = ZooKeeperState.build(fuzzy(moments[: end + 1], start, random), moments[start].sessions, start)
    znodes = [state.znodes[path] for path in sorted(state.znodes)]
    lists = (znode.acl for znode in znodes)
    pieces = write_snapshot(znodes, lists, state.sessions, end, moments[end].digest)
    disk.replace(f"version-2/snapshot.{start:x}", b"".join(pieces))
    log(disk, txns, moments)
    loaded = load_directory(disk)
    assert loaded.state == moments[-1]
    assert loaded.problems == []


@pytest.mark.parametrize("noted", range(40, 60))
def test_snapshot_with_the_transaction_after_its_digest_is_exact_one_later(disk, lived, noted: int) -> None:
    """ZooKeeper applies a transaction first, and notes the digest then."""
    txns, moments, _ = lived
    state = moments[noted + 1]
    znodes = [state.znodes[path] for path in sorted(state.znodes)]
    pieces = write_snapshot(znodes, (znode.acl for znode in znodes), state.sessions, noted, moments[noted].digest)
    disk.replace(f"version-2/snapshot.{noted - 9:x}", b"".join(pieces))
    log(disk, txns, moments)
    loaded = load_directory(disk)
    assert loaded.state == moments[-1]
    assert loaded.problems == []


def test_fuzzy_snapshot_without_its_log_is_reported(disk, lived) -> None:
    txns, moments, _ = lived
    znodes = [moments[30].znodes[path] for path in sorted(moments[30].znodes)]
    pieces = write_snapshot(znodes, (znode.acl for znode in znodes), moments[30].sessions, 60, 7)
    disk.replace("version-2/snapshot.1e", b"".join(pieces))
    log(disk, txns[:40])
    (problem,) = load_directory(disk).problems
    assert "effects up to 0x3c, but the logs end at 0x28" in problem


def test_digest_that_does_not_match_is_reported_once(disk, lived) -> None:
    txns, moments, _ = lived
    snapshot(disk, moments[10])
    log(disk, txns, [moments[0]] * 121)
    (problem,) = load_directory(disk).problems
    assert "stored the digest 1371985504, but the state has" in problem


def test_digest_of_the_snapshot_is_checked_too(disk, lived) -> None:
    _, moments, _ = lived
    znodes = [moments[30].znodes[path] for path in sorted(moments[30].znodes)]
    pieces = write_snapshot(znodes, (znode.acl for znode in znodes), moments[30].sessions, 30, 7)
    disk.replace("version-2/snapshot.1e", b"".join(pieces))
    (problem,) = load_directory(disk).problems
    assert problem.startswith("at 0x1e ZooKeeper stored the digest 7")


def test_first_snapshot_of_a_server_has_no_digest(disk) -> None:
    state = ZooKeeperState.empty()
    assert state.digest
    znodes = [state.znodes[path] for path in sorted(state.znodes)]
    disk.replace("version-2/snapshot.0", b"".join(write_snapshot(znodes, (one.acl for one in znodes), {}, 0, 0)))
    assert load_directory(disk).problems == []


def test_digest_of_the_snapshot_that_the_log_does_not_bear_out_is_reported_once(disk, lived) -> None:
    txns, moments, _ = lived
    state = moments[30]
    snapshot(disk, state)
    znodes = [state.znodes[path] for path in sorted(state.znodes)]
    znodes[1] = evolve(znodes[1], data=b"other")
    pieces = write_snapshot(znodes, (znode.acl for znode in znodes), state.sessions, 30, state.digest)
    disk.replace("version-2/snapshot.1e", b"".join(pieces))
    log(disk, txns[:33], moments)
    (problem,) = load_directory(disk).problems
    assert problem.startswith(f"at 0x1e ZooKeeper stored the digest {state.digest}, but")


def test_older_snapshot_stands_in_for_a_damaged_one(disk, lived) -> None:
    txns, moments, _ = lived
    log(disk, txns)
    snapshot(disk, moments[20])
    damaged = bytearray(disk.read(snapshot(disk, moments[70])))
    damaged[200] ^= 1
    disk.replace("version-2/snapshot.46", bytes(damaged))
    disk.replace("version-2/snapshot.50", damaged[:500])
    loaded = load_directory(disk)
    assert loaded.state == moments[-1]
    assert loaded.snapshot_zxid == 20
    assert [problem.partition(" ")[0].strip(":") for problem in loaded.problems] == [
        "version-2/snapshot.50",
        "version-2/snapshot.46",
    ]


def test_no_readable_snapshot_is_an_error(disk, lived) -> None:
    txns, _, _ = lived
    log(disk, txns)
    disk.replace("version-2/snapshot.1", b"this is no snapshot \x00\x00\x00\x01/")
    with pytest.raises(ZooKeeperFileError, match=r"no snapshot is readable.*magic"):
        load_directory(disk)


def test_logs_without_a_snapshot_need_to_be_trusted(disk, lived) -> None:
    txns, moments, _ = lived
    log(disk, txns, moments)
    with pytest.raises(ZooKeeperFileError, match="no snapshot that they continue"):
        load_directory(disk)
    loaded = load_directory(disk, trust_empty=True)
    assert loaded.state == moments[-1]
    assert loaded.problems == []


def test_empty_directory_is_an_error(disk) -> None:
    with pytest.raises(ZooKeeperFileError, match="neither snapshot nor log"):
        load_directory(disk)


def test_deleted_log_in_the_middle_is_found(disk, lived) -> None:
    txns, moments, _ = lived
    snapshot(disk, moments[20])
    log(disk, txns[:50])
    path = log(disk, txns[60:])
    with pytest.raises(ZooKeeperFileError, match="transaction 0x3d does not follow 0x32") as caught:
        load_directory(disk)
    assert (caught.value.file, caught.value.offset) == (path, 16)


def test_deleted_first_log_is_found(disk, lived) -> None:
    txns, moments, _ = lived
    snapshot(disk, moments[20])
    log(disk, txns[30:])
    with pytest.raises(ZooKeeperFileError, match="transaction 0x1f does not follow 0x14"):
        load_directory(disk)


@pytest.mark.parametrize(("first", "is_good"), [(EPOCH + 1, True), (EPOCH + 2, False), (3 * EPOCH + 1, True)])
def test_new_epoch_begins_with_one(disk, first: int, is_good: bool) -> None:
    snapshot(disk, ZooKeeperState.empty())
    log(disk, [Txn(1, 1, 5, 0, -10, 4000, b"", None, None)])
    log(disk, [Txn(first, 1, 6, 0, -10, 5000, b"", None, None)])
    if is_good:
        assert load_directory(disk).state.sessions == {5: 4000, 6: 5000}
    else:
        with pytest.raises(ZooKeeperFileError, match="does not follow"):
            load_directory(disk)


def test_torn_end_of_any_log_is_none_if_the_next_one_continues(disk, lived) -> None:
    txns, moments, _ = lived
    snapshot(disk, moments[20])
    path = log(disk, txns[:50])
    disk.replace(path, disk.read(path).rstrip(b"\0") + encode_record(txns[50])[:-7])
    log(disk, txns[50:])
    assert load_directory(disk).state == moments[-1]


def test_empty_newest_log_is_ignored_and_another_one_not(disk, lived) -> None:
    txns, moments, _ = lived
    snapshot(disk, moments[20])
    log(disk, txns)
    disk.replace("version-2/log.79", b"")
    assert load_directory(disk).state == moments[-1]
    disk.replace("version-2/log.33", b"")
    with pytest.raises(ZooKeeperFileError, match="ends inside the file header"):
        load_directory(disk)


def test_logs_may_be_in_another_directory(disk, lived) -> None:
    txns, moments, _ = lived
    snapshot(disk, moments[20])
    path = log(disk, txns)
    disk.replace("logs/log.1", disk.read(path))
    disk.remove(path)
    assert load_directory(disk, log_directory="logs").state == moments[-1]


def test_tree_of_a_state_is_the_one_that_lived_through_it(disk, lived) -> None:
    _, moments, tree = lived
    state = ZooKeeperState.build(from_cursor(tree.begin_snapshot()).znodes.values(), moments[-1].sessions, 120)
    made = to_tree(state)
    assert (made.digest, made.znode_count, made.applied) == (tree.digest, tree.znode_count, tree.applied)
    assert made.recompute_digest() == tree.digest


def test_way_back_gives_the_same_state(disk, lived) -> None:
    _txns, moments, tree = lived
    path = write_directory(disk, from_cursor(tree.begin_snapshot()))
    assert path == "version-2/snapshot.78"
    assert disk.list("version-2") == ["snapshot.78"]
    loaded = load_directory(disk)
    config = b"/zookeeper/config"
    assert {**loaded.state.znodes, config: None} == {**moments[-1].znodes, config: None}
    assert loaded.state.sessions == tree.sessions
    assert loaded.problems == []
    assert to_tree(loaded.state).digest == tree.digest


def test_tree_leaves_out_what_belongs_to_a_server(disk) -> None:
    state = ZooKeeperState.empty()
    state.znodes[b"/zookeeper/config"].data = b"server.1=old:2888:3888"
    zeros = [0] * 9
    for path in (b"/zookeeper/quota/q", b"/zookeeper/quota/q/zookeeper_limits", b"/zookeeper/quota/q/zookeeper_stats"):
        state._add(SnapshotZnode(path, b"count=3,bytes=7", None, *zeros))
    state._add(SnapshotZnode(b"/q", b"12345", None, *zeros))
    state._add(SnapshotZnode(b"/left", b"", None, *zeros[:7], 0x77, 0))
    tree = to_tree(state)
    assert tree.get(b"/left") is None
    shown = {b"/zookeeper/config": b"", b"/zookeeper/quota/q/zookeeper_stats": b"count=1,bytes=5"}
    assert {path: tree.data_of(path, tree.get(path)) for path in shown} == shown
    assert DataTree().get(b"/zookeeper/config") == tree.get(b"/zookeeper/config")


def test_directory_of_a_zookeeper_without_configuration_znode_is_loaded() -> None:
    state = ZooKeeperState.empty()
    state._delete(b"/zookeeper/config", 0)
    tree = to_tree(state)
    assert tree.digest == DataTree().digest


def test_ephemerals_of_unknown_sessions_are_dropped() -> None:
    state = ZooKeeperState.empty()
    zeros = [0] * 7
    for path, owner in ((b"/a", 5), (b"/b", 5), (b"/c", 6)):
        state._add(SnapshotZnode(path, b"", None, *zeros, owner, 0))
    state.sessions[6] = 4000
    tree = to_tree(state)
    assert [tree.get(path) is not None for path in (b"/a", b"/b", b"/c")] == [False, False, True]
    assert tree.ephemerals.keys() == {6}
    assert state.ephemerals == {6: {b"/c"}}
    assert state.digest == sum(map(znode_digest, state.znodes.values())) % 2**64


def test_unfinished_snapshot_does_not_look_complete(disk) -> None:
    whole = b"".join(ZooKeeperState.empty().snapshot())
    for name, data in (("1", whole), ("2", whole[:-1]), ("3", b""), ("4.gz", whole)):
        disk.replace(f"snapshot.{name}", data)
    assert [is_complete(disk, f"snapshot.{name}") for name in ("1", "2", "3", "4.gz")] == [True, False, False, True]
