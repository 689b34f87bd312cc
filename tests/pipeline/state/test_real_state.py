"""The state at the zxid of every snapshot that running ensembles took, put together from an earlier snapshot and the
logs, against that snapshot, znode by znode; and members started from reconstructed snapshots."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from datatree.paths import CONFIG
from datatree.record import Txn
from datatree.snapshot import load_snapshot
from datatree.zookeeper.snapshot import SnapshotReader, SnapshotZnode, cursor_znodes
from datatree.zookeeper.state import ZooKeeperState
from tests.pipeline.rigs.ensembles import NATIVE, Directories
from tests.pipeline.rigs.trees import local_state
from tests.rigs.zookeeper_directory import loaded_state
from zab.cli.files.log_files import Entry, open_log
from zab.host.storage.disk import RealDisk
from zab.pipeline.state.local_state import local_moment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

ZAB, ZOOKEEPER = "zab", pytest.param("zookeeper", marks=pytest.mark.java)


@pytest.fixture(params=[ZAB, ZOOKEEPER])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Directories:
    found = request.getfixturevalue(f"{request.param}_directories")
    assert isinstance(found, Directories)
    return found.copy(tmp_path)


def transactions(directories: Directories) -> dict[int, Txn]:
    """By zxid, from all members."""
    found: dict[int, Txn] = {}
    for member in range(3):
        for path in directories.logs(member):
            found |= {event.txn.zxid: event.txn for event in open_log(path).dump() if isinstance(event, Entry)}
    return found


def load(directories: Directories, path: Path, txns: dict[int, Txn]) -> ZooKeeperState:
    """The content of a snapshot. What ZooKeeper's holds of transactions after its zxid is completed: it is exact at
    the zxid beside its digest, or one later when it was written between that transaction and the noting of its digest;
    this becomes the state's zxid."""
    if directories.kind == NATIVE:
        disk = RealDisk(str(path.parent.parent), lock=False)
        header, tree = load_snapshot(disk, f"{path.parent.name}/{path.name}")
        return ZooKeeperState.build(cursor_znodes(tree.begin_snapshot()), dict(tree.sessions), header.zxid)
    reader = SnapshotReader([path.read_bytes()], str(path))
    zxid = int(path.name.partition(".")[2], 16)
    state = loaded_state(reader, zxid)
    assert reader.digest_zxid is not None
    for later in sorted(one for one in txns if zxid < one <= reader.digest_zxid):
        state.apply(txns[later])
    if reader.digest_zxid and state.digest != reader.digest:
        state.apply(txns[reader.digest_zxid + 1])
    return state


def znodes_of(state: ZooKeeperState) -> dict[bytes, SnapshotZnode]:
    """Without the text that is each member's own."""
    return {path: znode for path, znode in state.znodes.items() if path != CONFIG}


def newest_first(directories: Directories) -> list[tuple[int, list[Path]]]:
    """The zxids of all snapshots, with the members' files of them."""
    found: dict[int, list[Path]] = {}
    for member in range(3):
        for path in directories.snapshots(member):
            found.setdefault(int(path.name.partition(".")[2], 16), []).append(path)
    return sorted(found.items(), reverse=True)


def test_every_snapshot_is_what_the_logs_say(copy: Directories) -> None:
    txns = transactions(copy)
    compared, fuzzy = 0, 0
    for zxid, paths in newest_first(copy):
        kept = {path: load(copy, path, txns) for path in paths}
        for path in paths:
            path.unlink()
        for path, state in kept.items():
            if state.zxid & 0xFFFFFFFF == 0:
                # Before the first transaction of an epoch: there is no such moment in a log.
                continue
            found = local_state(local_moment(copy.members, state.zxid))
            assert found.zxid == state.zxid
            assert znodes_of(found) == znodes_of(state), path
            assert found.sessions == state.sessions, path
            compared += 1
            fuzzy += state.zxid > zxid
    assert compared >= 12
    assert (fuzzy > 0) == (copy.kind != NATIVE)


def test_what_the_clients_read_is_the_state_at_the_end(copy: Directories) -> None:
    found = local_state(local_moment(copy.members))
    assert found.zxid == copy.last_zxid
    held = {path.decode(): znode for path, znode in znodes_of(found).items()}
    assert held.keys() == copy.znodes.keys() - {CONFIG.decode()}
    for path, znode in held.items():
        czxid, mzxid, ctime, mtime, version, _, aversion, _, length, count, pzxid = copy.znodes[path].stat
        assert (znode.czxid, znode.mzxid, znode.ctime, znode.mtime) == (czxid, mzxid, ctime, mtime), path
        assert (znode.version, znode.aversion, znode.pzxid) == (version, aversion, pzxid), path
        assert (znode.data, len(znode.data or b"")) == (copy.znodes[path].data, length), path
        assert len(found.children.get(path.encode(), ())) == count


@pytest.mark.spark
def test_spark_says_the_same(copy: Directories, spark: SparkSession) -> None:
    from zab.pipeline.state.state_of import state_of

    txns = transactions(copy)
    snapshots = newest_first(copy)
    for _, paths in snapshots[: len(snapshots) // 2]:
        state = load(copy, paths[0], txns)
        for path in paths:
            path.unlink()
    found = state_of(spark, [str(path) for path in copy.members], state.zxid)
    rows = {row["path"].encode(): row for row in found.znodes.collect()}
    assert rows.keys() - {CONFIG} == znodes_of(state).keys()
    for path, znode in znodes_of(state).items():
        assert shown(rows[path].asDict()) == expected(state, znode), path
    assert {row["session"]: row["timeout"] for row in found.sessions.collect()} == state.sessions


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """The columns that follow from the znode."""
    names = ("czxid", "mzxid", "pzxid", "version", "children_created", "aversion", "owner", "num_children", "cversion")
    result = {name: row[name] for name in names}
    result["data"] = None if row["data"] is None else bytes(row["data"])
    result |= {name: round(row[name].timestamp() * 1000) for name in ("ctime", "mtime")}
    return result


def expected(state: ZooKeeperState, znode: SnapshotZnode) -> dict[str, Any]:
    count = len(state.children.get(znode.path, ()))
    names = ("czxid", "mzxid", "pzxid", "version", "aversion", "owner", "data", "ctime", "mtime")
    result = {name: getattr(znode, name) for name in names}
    return result | {
        "children_created": znode.cversion,
        "num_children": count,
        "cversion": 2 * znode.cversion - count,
    }
