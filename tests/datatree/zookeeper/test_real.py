"""The readers and writers against the real ZooKeeper: its files, its digests, and a server started on what we wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from datatree.tree import DataTree
from datatree.znode import STAT_AT, STAT_LAYOUT
from datatree.zookeeper.files import chunks_of, named_files
from datatree.zookeeper.log import LOG_HEADER, LogReader, encode_record
from datatree.zookeeper.state import ZooKeeperState
from tests.datatree.zookeeper.histories import history
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.zookeeper_data import RealFiles
from tests.rigs.zookeeper_directory import (
    from_cursor,
    load_directory,
    loaded_state,
    open_snapshot,
    to_tree,
    write_directory,
)
from tests.rigs.zookeeper_server import four_letter_word, zookeeper
from zab.host.storage.disk import RealDisk

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def disk(real_files: RealFiles) -> RealDisk:
    return RealDisk(str(real_files.data_directory), lock=False)


def without_stats(state: ZooKeeperState) -> dict:
    """ZooKeeper counts quotas in the data of these znodes, outside of any transaction; the configuration likewise."""
    return {
        path: znode
        for path, znode in state.znodes.items()
        if not path.endswith(b"zookeeper_stats") and path != b"/zookeeper/config"
    }


def content(state: ZooKeeperState) -> tuple[dict, dict[int, int], int]:
    return without_stats(state), state.sessions, state.digest


def test_directory_is_loaded_and_every_stored_digest_agrees(real_files: RealFiles, disk: RealDisk) -> None:
    loaded = load_directory(disk)
    assert loaded.problems == []
    assert loaded.snapshot_zxid > 500
    assert loaded.snapshot_zxid + loaded.replayed_count == loaded.state.zxid > 1500


def test_loaded_tree_is_what_a_client_read(real_files: RealFiles, disk: RealDisk) -> None:
    tree = to_tree(load_directory(disk).state)
    found = {path.decode() for shard in tree.shards for path in shard}
    assert found == real_files.znodes.keys()
    for path, (data, stat) in real_files.znodes.items():
        znode = tree.get(path.encode())
        if path != "/zookeeper/config":
            assert tree.data_of(path.encode(), znode) == data, path
            assert STAT_LAYOUT.unpack_from(znode, STAT_AT) == stat, path


def test_state_rebuilt_from_the_logs_alone_equals_each_snapshot(real_files: RealFiles, disk: RealDisk) -> None:
    """Node by node, ACLs and sessions too; every one of ZooKeeper's digests on the way is the state's."""
    snapshots = {zxid: path for zxid, path in named_files(disk, "version-2", "snapshot") if zxid}
    assert len(snapshots) >= 2
    state = ZooKeeperState.empty()
    digest_count = 0
    early: ZooKeeperState | None = None
    for _, path in named_files(disk, "version-2", "log"):
        for record in LogReader(chunks_of(disk, path), path):
            state.apply(record.txn)
            if record.digest is not None:
                assert record.digest == state.digest, record
                digest_count += 1
            if early is not None:
                early.apply(record.txn)
                assert content(early) == content(state)
                early = None
            if record.txn.zxid in snapshots:
                reader = open_snapshot(disk, snapshots.pop(record.txn.zxid))
                loaded = loaded_state(reader, record.txn.zxid)
                if reader.digest_zxid == record.txn.zxid:
                    assert reader.digest == state.digest
                    if content(loaded) != content(state):
                        # Written while the next transaction was being applied: exact after that one.
                        early = loaded
    assert not snapshots
    assert early is None
    assert digest_count > 1000


def test_every_log_is_written_back_byte_for_byte(real_files: RealFiles) -> None:
    for path in real_files.logs():
        data = path.read_bytes()
        written = [encode_record(record.txn, record.digest) for record in LogReader([data], str(path))]
        assert data.startswith(LOG_HEADER + b"".join(written))


def served(directory: Path) -> dict[str, tuple]:
    """All znodes that a ZooKeeper started on `directory`/server1/data serves."""
    with zookeeper(directory=directory, properties={"extendedTypesEnabled": "true", "skipACL": "yes"}) as ensemble:
        with kazoo_client(ensemble.hosts) as client:
            found = {}
            pending = ["/"]
            while pending:
                path = pending.pop()
                data, stat = client.get(path)
                found[path] = (data, tuple(stat))
                pending += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
            client.create("/written-after", b"")
        # ZooKeeper compares the digest of each transaction that it replays with the one in the log.
        assert "zk_digest_mismatches_count\t0\n" in four_letter_word(ensemble.members[0].client_port, "mntr")
    return found


@pytest.mark.long
def test_real_zookeeper_serves_a_snapshot_and_a_log_that_we_wrote(tmp_path: Path) -> None:
    """A history of ours up to its middle as a snapshot, the rest as a log with digests, which ZooKeeper checks."""
    txns, tree = history(11, 300)
    directory = tmp_path / "server1" / "data" / "version-2"
    directory.mkdir(parents=True)
    disk = RealDisk(str(directory.parent), lock=False)
    half = DataTree()
    for txn in txns[:150]:
        half.apply(txn)
    state = from_cursor(half.begin_snapshot())
    write_directory(disk, state)
    records = []
    for txn in txns[150:]:
        state.apply(txn)
        records.append(encode_record(txn, state.digest if txn.type != -1 else None))
    disk.replace("version-2/log.97", LOG_HEADER + b"".join(records))
    found = served(tmp_path)
    readable = {path.encode(): value for path, value in found.items() if not path.startswith("/zookeeper/")}
    expected = {}
    for shard in tree.shards:
        for path, znode in shard.items():
            if not path.startswith(b"/zookeeper/"):
                expected[path] = (tree.data_of(path, znode), STAT_LAYOUT.unpack_from(znode, STAT_AT))
    assert readable == expected


def test_real_zookeeper_serves_a_real_directory_that_went_through_our_tree(
    real_files: RealFiles, disk: RealDisk, tmp_path: Path
) -> None:
    tree = to_tree(load_directory(disk).state)
    directory = tmp_path / "server1" / "data" / "version-2"
    directory.mkdir(parents=True)
    write_directory(RealDisk(str(directory.parent), lock=False), from_cursor(tree.begin_snapshot()))
    found = served(tmp_path)
    assert {**found, "/zookeeper/config": None} == {**real_files.znodes, "/zookeeper/config": None}
    shutil.rmtree(tmp_path / "server1")
