"""The directories that the pipeline's tests read hold what their clients were told, as the readers of datatree see it.

No part of the pipeline is used here: what it says about the same directories is compared with these facts elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from datatree.opcodes import OpCode
from datatree.record import Txn
from datatree.recovery.recover import recover
from datatree.znode import STAT_AT, STAT_LAYOUT
from tests.pipeline.rigs.ensembles import END_COUNT, NATIVE, Directories
from tests.pipeline.rigs.load import HOSTILE_PATHS, UNICODE_PATH
from tests.pipeline.rigs.native_files import NativeLog
from tests.pipeline.rigs.version2_files import Version2Log
from tests.rigs.zookeeper_directory import load_directory, to_tree
from zab.cli.files.log_files import Damage, Entry, open_log
from zab.host.storage.disk import RealDisk

pytestmark = pytest.mark.slow

# What only a server of its own makes: not in the tree of every member, or not in the clients' view.
_OWN_TEXT = "/zookeeper/config"
_EXPECTED_TYPES = {
    OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.DELETE, OpCode.DELETE_CONTAINER,
    OpCode.SET_DATA, OpCode.SET_ACL, OpCode.MULTI, OpCode.ERROR, OpCode.CREATE_SESSION, OpCode.CLOSE_SESSION,
}  # fmt: skip


@pytest.fixture(params=["zab", pytest.param("zookeeper", marks=pytest.mark.java)])
def directories(request: pytest.FixtureRequest) -> Directories:
    found = request.getfixturevalue(f"{request.param}_directories")
    assert isinstance(found, Directories)
    return found


def transactions(logs: list[Path]) -> Iterator[Txn]:
    """What the formatter tool shows of these files; damage fails the test."""
    for log in logs:
        for event in open_log(log).dump():
            assert not isinstance(event, Damage), event
            if isinstance(event, Entry):
                yield event.txn


def all_transactions(directories: Directories) -> dict[int, Txn]:
    """By zxid, from all members: one that was synchronized with a snapshot lacks what was in it."""
    return {txn.zxid: txn for member in range(3) for txn in transactions(directories.logs(member))}


def test_every_acknowledged_write_is_in_the_logs(directories: Directories) -> None:
    logged = all_transactions(directories)
    assert len(directories.writes) > 1000
    for write in directories.writes:
        txn = logged[write.zxid]
        assert txn.session == write.session
        if write.operation == "error":
            assert (txn.type, txn.number) == (OpCode.ERROR, write.error)
        elif write.operation == "multi":
            assert txn.type == OpCode.MULTI
            assert len(txn.rest) == len(write.parts)
        else:
            assert txn.path.decode() == write.path
            assert txn.data == write.data
    assert {txn.type for txn in logged.values()} == _EXPECTED_TYPES
    assert {write.zxid for write in directories.writes if write.zxid <= directories.killed_zxid}


def test_there_are_several_leaders_snapshots_and_log_files(directories: Directories) -> None:
    epochs = {zxid >> 32 for zxid in all_transactions(directories)}
    assert len(epochs) >= 3
    for member in range(3):
        assert len(directories.snapshots(member)) >= 3
        assert len(directories.logs(member)) >= 5


def test_no_log_has_only_just_begun_at_the_end(directories: Directories) -> None:
    for member in range(3):
        newest = directories.logs(member)[-1]
        if directories.kind == NATIVE:
            assert sum(bool(frame.batches) for frame in NativeLog.read(newest).frames) > END_COUNT
        else:
            assert len(Version2Log.read(newest).records) > END_COUNT


def test_zxids_of_an_epoch_have_no_gap(directories: Directories) -> None:
    zxids = sorted(all_transactions(directories))
    assert zxids[-1] == directories.last_zxid
    for before, after in pairwise(zxids):
        assert after == before + 1 or (after >> 32 > before >> 32 and after & 0xFFFFFFFF == 1)


def test_each_member_holds_the_tree_that_the_clients_read(directories: Directories, tmp_path: Path) -> None:
    for member in directories.copy(tmp_path).members:
        disk = RealDisk(str(member), lock=False)
        if directories.kind == NATIVE:
            tree = recover(disk).tree
        else:
            loaded = load_directory(disk)
            assert loaded.problems == []
            tree = to_tree(loaded.state)
        assert tree.applied == directories.last_zxid
        cursor = tree.begin_snapshot()
        held = {
            path.decode(): (cursor.data_of(path, znode), STAT_LAYOUT.unpack_from(znode, STAT_AT))
            for part in cursor.slices()
            for path, znode in part
        }
        assert held.keys() - {_OWN_TEXT} == directories.znodes.keys() - {_OWN_TEXT}
        for path, znode in directories.znodes.items():
            if path != _OWN_TEXT:
                assert held[path] == (znode.data, znode.stat), path
    assert {UNICODE_PATH, *HOSTILE_PATHS} <= directories.znodes.keys()


def test_what_the_kill_left_has_all_that_was_acknowledged_before(directories: Directories) -> None:
    logged: set[int] = set()
    for member in directories.killed:
        for log in (member / directories.version).glob("log.*"):
            if log.suffix != ".index" and log.name != "log.spare":
                logged.update(event.txn.zxid for event in open_log(log).dump() if isinstance(event, Entry))
    assert logged >= {write.zxid for write in directories.writes if write.zxid <= directories.killed_zxid}


def test_sessions_and_locks_are_as_their_story_says(directories: Directories) -> None:
    logged = all_transactions(directories).values()
    ends = {txn.session: txn for txn in logged if txn.type == OpCode.CLOSE_SESSION}
    for life in directories.lives:
        assert (life.session in ends) == (life.ended != "open")
        if life.ended == "open":
            assert set(life.ephemerals) <= directories.znodes.keys()
        else:
            closed = ends[life.session]
            assert {path.decode() for path in closed.rest} == set(life.ephemerals)
            assert (closed.cxid == 0) == (life.ended == "expired")
    created = {txn.path.decode(): txn for txn in logged if txn.type in (OpCode.CREATE, OpCode.CREATE2)}
    for hold in directories.holds:
        assert created[hold.znode].session == hold.session
    for lock in {hold.lock for hold in directories.holds}:
        holds = [hold for hold in directories.holds if hold.lock == lock]
        assert [hold.znode[-10:] for hold in holds] == sorted(hold.znode[-10:] for hold in holds)
        assert all(before.until <= after.since for before, after in pairwise(holds))
