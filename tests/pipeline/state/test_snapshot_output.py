"""Snapshots written from rows: the bytes that a member would have written, and files that members start from."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from datatree.log.batch import imported
from datatree.log.epochs import load_epochs, load_member
from datatree.recovery.recover import recover
from datatree.snapshot import CHUNK_BYTES, SnapshotWriter, load_snapshot
from datatree.tree import DataTree
from datatree.zookeeper.snapshot import SnapshotZnode
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.full_tree import everything
from tests.datatree.zookeeper.histories import history, states
from tests.pipeline.rigs.trees import as_state, as_znodes
from tests.pipeline.rigs.txn_rows import znode_frame
from tests.rigs.zookeeper_directory import load_directory, to_tree
from zab.pipeline.errors import PipelineError
from zab.pipeline.state import znode_rows
from zab.pipeline.state.snapshot_output import State, found_native, found_version_2, write_native, write_version_2
from zab.pipeline.state.znode_rows import spooled
from zab.simulator.world.disk import FaultyDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINEAGE = bytes(range(16))
TXNS, TREE = history(11, 500)
STATE = states(TXNS)[-1]
CONFIG = SnapshotZnode(b"/zookeeper/config", b"", ((1, b"world", b"anyone"),), 0, 0, 0, 0, -1, 0, -1, 0, 0)


def state_of(state: ZooKeeperState, rows_max: int = 100) -> State:
    return as_state(
        state.zxid, state.sessions, (state.znodes[path] for path in sorted(state.znodes)), rows_max=rows_max
    )


def with_config(state: ZooKeeperState) -> ZooKeeperState:
    znodes = {**state.znodes, CONFIG.path: CONFIG}
    return ZooKeeperState.build((znodes[path] for path in sorted(znodes)), state.sessions, state.zxid)


def files_of(disk: FaultyDisk, directory: str) -> list[str]:
    return disk.list(directory)


def test_native_file_is_the_one_that_a_member_writes() -> None:
    disk, own = FaultyDisk(), FaultyDisk()
    written = write_native(disk, state_of(STATE), LINEAGE)
    assert written.digest == TREE.digest
    writer = SnapshotWriter(own, TREE.begin_snapshot(), LINEAGE, imported(LINEAGE, STATE.zxid, TREE.digest))
    writer.write()
    assert disk.read(written.path) == own.read(writer.path)
    assert (written.path, written.znode_count, written.session_count) == (
        writer.path,
        len(STATE.znodes),
        len(STATE.sessions),
    )
    assert (written.orphans, written.orphan_count) == ((), 0)
    assert {znode.data for znode in STATE.znodes.values()} >= {None, b""}


def test_a_member_recovers_what_was_written() -> None:
    disk = FaultyDisk()
    write_native(disk, state_of(STATE), LINEAGE)
    assert recover(disk, 3).amnesiac
    found_native(disk, LINEAGE, 3, 9)
    recovered = recover(disk, 3)
    assert everything(recovered.tree) == everything(TREE)
    assert not recovered.amnesiac
    assert not recovered.empty
    assert not recovered.damage
    assert not recovered.problems
    assert (recovered.lineage, recovered.mark, recovered.epochs) == (LINEAGE, STATE.zxid, (9, 9))
    assert recovered.last == (STATE.zxid, imported(LINEAGE, STATE.zxid, TREE.digest))
    assert (load_epochs(disk), load_member(disk).server_id) == ((9, 9), 3)
    assert recover(disk, 2).amnesiac


def test_version_2_file_is_the_canonical_one_and_loads() -> None:
    disk = FaultyDisk()
    written = write_version_2(disk, state_of(STATE))
    assert disk.read(written.path) == b"".join(with_config(STATE).snapshot())
    found_version_2(disk, 7)
    assert sorted(disk.list("version-2")) == ["acceptedEpoch", "currentEpoch", f"snapshot.{STATE.zxid:x}"]
    assert disk.read("version-2/currentEpoch") == disk.read("version-2/acceptedEpoch") == b"7"
    loaded = load_directory(disk)
    assert loaded.problems == []
    assert loaded.state == with_config(STATE)
    assert everything(to_tree(loaded.state)) == everything(TREE)


def test_ephemerals_of_no_session_are_left_out() -> None:
    extra = [
        SnapshotZnode(b"/lost", b"x", ((1, b"ip", b"10.9.9.9"),), 5, 5, 5, 5, 0, 0, 0, 0x999, 5),
        SnapshotZnode(b"/zookeeper/lost", b"x", None, 5, 5, 5, 5, 0, 0, 0, 0x998, 5),
    ]
    znodes = {**STATE.znodes, **{each.path: each for each in extra}}
    mixed = ZooKeeperState.build((znodes[path] for path in sorted(znodes)), STATE.sessions, STATE.zxid)
    disk = FaultyDisk()
    written = write_native(disk, state_of(mixed), LINEAGE)
    assert (written.orphans, written.orphan_count) == (("/lost", "/zookeeper/lost"), 2)
    _, tree = load_snapshot(disk, written.path)
    assert everything(tree) == everything(to_tree(mixed))
    assert b"/lost" not in everything(tree)["znodes"]
    again = FaultyDisk()
    write_version_2(again, state_of(mixed))
    assert everything(to_tree(load_directory(again).state)) == everything(tree)


def test_more_orphans_than_are_named() -> None:
    extra = [SnapshotZnode(b"/z%03d" % number, b"", None, 5, 5, 5, 5, 0, 0, 0, 0x999, 5) for number in range(30)]
    znodes = sorted([*STATE.znodes.values(), *extra], key=lambda znode: znode.path)
    written = write_native(FaultyDisk(), as_state(STATE.zxid, STATE.sessions, znodes), LINEAGE)
    assert (len(written.orphans), written.orphan_count) == (10, 30)


def test_a_directory_without_a_configuration_gets_one() -> None:
    """ZooKeeper before 3.5 had none."""
    old = {path: znode for path, znode in STATE.znodes.items() if path != CONFIG.path}
    znodes = [old[path] for path in sorted(old)]
    disk = FaultyDisk()
    written = write_native(disk, as_state(STATE.zxid, STATE.sessions, znodes), LINEAGE)
    assert everything(load_snapshot(disk, written.path)[1]) == everything(TREE)
    first = [znode for znode in znodes if znode.path <= b"/zookeeper"]
    with pytest.raises(PipelineError, match="'/zookeeper/quota' is missing"):
        write_native(FaultyDisk(), as_state(1, {}, first), LINEAGE)


@pytest.mark.parametrize("write", [lambda disk, state: write_native(disk, state, LINEAGE), write_version_2])
def test_what_is_no_tree_is_not_written(write) -> None:
    znodes = [STATE.znodes[path] for path in sorted(STATE.znodes)]
    lonely = evolve(znodes[-1], path=b"/zzz/child")
    for wrong, reason in (
        ([*znodes, lonely], "'/zzz' is missing"),
        ([*znodes, znodes[3]], "comes after"),
        (znodes[1:], "'/' is missing"),
        ([], "'/' is missing"),
    ):
        disk = FaultyDisk()
        with pytest.raises(PipelineError, match=reason):
            write(disk, as_state(STATE.zxid, STATE.sessions, wrong))
        assert disk.list("version-1") == disk.list("version-2") == []


class FullDisk(FaultyDisk):
    """Has no space from the third write on."""

    def open_append(self, path, **options):
        file = super().open_append(path, **options)
        write = file.write

        def full(data: bytes) -> None:
            write(data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

        file.write = full
        return file


@pytest.mark.parametrize("write", [lambda disk, state: write_native(disk, state, LINEAGE), write_version_2])
def test_a_full_disk_leaves_nothing_behind(write) -> None:
    disk = FullDisk()
    with pytest.raises(OSError, match="No space"):
        write(disk, state_of(STATE))
    assert disk.list("version-1") == disk.list("version-2") == []


@pytest.mark.spark
@pytest.mark.slow
def test_rows_that_spark_has_sorted(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several partitions, as many as it takes to keep each small."""
    monkeypatch.setattr(znode_rows, "PARTITION_BYTES", 1000)
    znodes = [STATE.znodes[path] for path in sorted(STATE.znodes)]
    rows = spooled(znode_frame(spark, reversed(znodes), STATE.zxid), tmp_path / "spool")
    for _ in range(2):
        assert [znode for batch in rows() for znode in as_znodes(batch)] == znodes
    disk, own = FaultyDisk(), FaultyDisk()
    written = write_native(disk, State(STATE.zxid, STATE.sessions, rows), LINEAGE)
    assert written == write_native(own, state_of(STATE), LINEAGE)
    assert disk.read(written.path) == own.read(written.path)


def test_an_empty_ensemble_can_be_written() -> None:
    """zxid 0 apart: somebody restores what had nothing but sessions."""
    disk = FaultyDisk()
    empty = ZooKeeperState.empty()
    znodes = [empty.znodes[path] for path in sorted(empty.znodes)]
    write_native(disk, as_state(1 << 32 | 1, {5: 4000}, znodes), LINEAGE)
    found_native(disk, LINEAGE, 1, 1)
    recovered = recover(disk, 1)
    assert recovered.tree.sessions == {5: 4000}
    assert everything(recovered.tree)["znodes"] == everything(DataTree())["znodes"]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rows_max", [1, 7, 8192])
def test_batches_of_any_size_are_written_as_members_write_them(seed: int, rows_max: int) -> None:
    """Random histories, with quotas, containers, TTLs, ephemerals, lists of permissions, null and empty data."""
    txns, tree = history(seed, 300)
    state = states(txns)[-1]
    disk, own = FaultyDisk(), FaultyDisk()
    written = write_native(disk, state_of(state, rows_max), LINEAGE)
    writer = SnapshotWriter(own, tree.begin_snapshot(), LINEAGE, imported(LINEAGE, state.zxid, tree.digest))
    writer.write()
    assert disk.read(written.path) == own.read(writer.path)
    theirs = write_version_2(disk, state_of(state, rows_max))
    assert disk.read(theirs.path) == b"".join(with_config(state).snapshot())


def test_many_chunks_are_cut_where_members_cut_them() -> None:
    big = [
        SnapshotZnode(b"/zz%04d" % number, bytes(number * 9), None, 5, 5, 5, 5, 0, 0, 0, 0, 5) for number in range(900)
    ]
    znodes = {**STATE.znodes, **{each.path: each for each in big}}
    state = ZooKeeperState.build((znodes[path] for path in sorted(znodes)), STATE.sessions, STATE.zxid)
    tree, disk, own = to_tree(state), FaultyDisk(), FaultyDisk()
    written = write_native(disk, state_of(state, 64), LINEAGE)
    writer = SnapshotWriter(own, tree.begin_snapshot(), LINEAGE, imported(LINEAGE, state.zxid, tree.digest))
    writer.write()
    assert disk.read(written.path) == own.read(writer.path)
    assert len(own.read(writer.path)) > 10 * CHUNK_BYTES
    assert disk.read(write_version_2(disk, state_of(state, 64)).path) == b"".join(with_config(state).snapshot())


def test_sums_of_quotas_follow_from_the_znodes() -> None:
    """ZooKeeper writes them without a transaction: what a snapshot of its says is old."""
    stats, above = b"/zookeeper/quota/old/zookeeper_stats", b"/zookeeper/quota/old"
    made = [SnapshotZnode(path, b"count=7,bytes=9", None, 5, 5, 5, 5, 0, 0, 0, 0, 5) for path in (above, stats)]
    znodes = sorted([*STATE.znodes.values(), *made], key=lambda znode: znode.path)
    disk = FaultyDisk()
    written = write_native(disk, as_state(STATE.zxid, STATE.sessions, znodes), LINEAGE)
    emptied = [evolve(znode, data=b"") if znode.path == stats else znode for znode in znodes]
    again = write_native(FaultyDisk(), as_state(STATE.zxid, STATE.sessions, emptied), LINEAGE)
    assert written == again
