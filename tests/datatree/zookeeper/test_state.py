"""The tolerant replay: equal to the strict tree on a whole history, and exact over every fuzzy snapshot of one."""

from __future__ import annotations

from random import Random
from zlib import crc32

import pytest
from attrs import evolve

from datatree.record import Txn
from datatree.zookeeper.snapshot import SnapshotZnode, cursor_znodes
from datatree.zookeeper.state import ZooKeeperState, znode_digest
from tests.datatree.zookeeper.histories import copy_of, fuzzy, history, states

OPEN = None
READ_ONLY = ((1, b"world", b"anyone"),)


def assert_same(one: ZooKeeperState, other: ZooKeeperState) -> None:
    assert one.znodes == other.znodes
    assert one.sessions == other.sessions
    assert one.children == other.children
    assert one.ephemerals == other.ephemerals
    assert (one.zxid, one.digest) == (other.zxid, other.digest)


def state_with(*paths: bytes, owner: int = 0) -> ZooKeeperState:
    state = ZooKeeperState.empty()
    for zxid, path in enumerate(paths, 1):
        state.apply(Txn(zxid, zxid, owner, 0, 1, -1, path, b"", (OPEN, owner)))
    return state


def test_empty_tree_has_zookeepers_digest() -> None:
    """The number that ZooKeeper 3.9 logs after the first session of a new ensemble."""
    assert ZooKeeperState.empty().digest == 1371985504


def test_digest_of_a_znode_is_zookeepers() -> None:
    znode = SnapshotZnode(b"/a", b"data", READ_ONLY, 1, 2, 3, 4, 5, 6, 7, 8, 9)
    packed = b"/adata" + b"".join(v.to_bytes(8, "big") for v in (1, 2, 9, 3, 4))
    packed += b"".join(v.to_bytes(4, "big") for v in (5, 6, 7)) + (8).to_bytes(8, "big")
    assert znode_digest(znode) == crc32(packed)
    assert znode_digest(evolve(znode, path=b"/zookeeper/a")) == 0
    assert znode_digest(evolve(znode, path=b"/", data=None)) == crc32(packed[6:])


@pytest.mark.parametrize("seed", range(6))
def test_replay_agrees_with_the_strict_tree(seed: int) -> None:
    txns, tree = history(seed, 400)
    state = ZooKeeperState.empty()
    for txn in txns:
        state.apply(txn)
    cursor = tree.begin_snapshot()
    strict = {znode.path: znode for znode in cursor_znodes(cursor)}
    cursor.close()
    for path in strict.keys() - {b"/zookeeper/config"}:
        assert strict[path] == state.znodes[path]
    assert strict.keys() == state.znodes.keys()
    assert state.sessions == tree.sessions
    assert state.ephemerals == {owner: set(paths) for owner, paths in tree.ephemerals.items()}
    assert {path: names for path in strict if (names := set(tree.child_names(path)))} == state.children
    assert state.digest == sum(map(znode_digest, state.znodes.values())) % 2**64


@pytest.mark.parametrize("seed", range(40))
def test_replay_makes_a_fuzzy_snapshot_exact(seed: int) -> None:
    random = Random(seed)
    txns, _ = history(seed, 150)
    moments = states(txns)
    start = random.randrange(110)
    state = ZooKeeperState.build(fuzzy(moments, start, random), moments[start].sessions, start)
    for txn in txns[start:]:
        state.apply(txn)
    assert_same(state, moments[-1])


def test_fuzzy_snapshots_of_these_tests_differ_from_the_exact_ones() -> None:
    """Else the test above would prove nothing."""
    differing = 0
    for seed in range(40):
        random = Random(seed)
        moments = states(history(seed, 150)[0])
        start = random.randrange(110)
        znodes = {znode.path: znode for znode in fuzzy(moments, start, random)}
        differing += znodes != moments[start].znodes
    assert differing > 20


@pytest.mark.parametrize("seed", range(10))
def test_replaying_a_window_twice_changes_nothing(seed: int) -> None:
    txns, _ = history(seed, 120)
    moments = states(txns)
    state = copy_of(moments[-1])
    for txn in txns[60:]:
        state.apply(txn)
    assert_same(state, moments[-1])


def test_create_under_a_missing_parent_is_skipped() -> None:
    state = state_with(b"/a")
    state.apply(Txn(5, 5, 1, 0, 1, 1, b"/gone/x", b"", (OPEN, 0)))
    assert b"/gone/x" not in state.znodes
    assert state.zxid == 5


@pytest.mark.parametrize("kind", [1, 15, 19, 21])
def test_create_of_what_exists_sets_acl_and_raises_the_parents_cversion(kind: int) -> None:
    state = state_with(b"/a", b"/a/x")
    state.apply(Txn(9, 9, 1, 0, kind, 7, b"/a/x", b"other", (READ_ONLY, 0)))
    assert (state.znodes[b"/a/x"].acl, state.znodes[b"/a/x"].data) == (READ_ONLY, b"")
    assert (state.znodes[b"/a"].cversion, state.znodes[b"/a"].pzxid) == (7, 9)


def test_3249_replayed_create_never_lowers_the_parents_cversion() -> None:
    state = state_with(b"/a", b"/a/x", b"/a/y")
    state.apply(Txn(2, 2, 1, 0, 1, 1, b"/a/z", b"", (OPEN, 0)))
    assert (state.znodes[b"/a"].cversion, state.znodes[b"/a"].pzxid) == (2, 3)
    assert state.zxid == 3


def test_3125_replayed_delete_of_what_is_gone_raises_the_parents_pzxid() -> None:
    state = state_with(b"/a")
    state.apply(Txn(8, 8, 1, 0, 2, 0, b"/a/gone", None, None))
    assert state.znodes[b"/a"].pzxid == 8
    state.apply(Txn(4, 4, 1, 0, 2, 0, b"/a/gone", None, None))
    assert state.znodes[b"/a"].pzxid == 8


def test_3145_close_session_deletes_what_it_lists_even_if_it_is_gone() -> None:
    state = state_with(b"/a")
    state.apply(Txn(8, 8, 5, 0, -11, 0, b"", None, (b"/a/gone",)))
    assert state.znodes[b"/a"].pzxid == 8


def test_close_session_of_an_old_file_deletes_all_of_the_session() -> None:
    state = state_with(b"/a", b"/b", owner=5)
    state.apply(Txn(3, 3, 5, 0, -10, 4000, b"", None, None))
    state.apply(Txn(8, 8, 5, 0, -11, 0, b"", None, None))
    assert state.znodes.keys().isdisjoint({b"/a", b"/b"})
    assert not state.ephemerals
    assert not state.sessions


def test_3127_failed_multi_changes_nothing_and_zxid_moves_after_a_whole_one() -> None:
    state = state_with(b"/a")
    create = (1, 2, b"/m", b"", (OPEN, 0))
    state.apply(Txn(2, 2, 1, 0, 14, 0, b"", None, (create, (-1, -101, b"", None, None))))
    assert b"/m" not in state.znodes
    state.apply(Txn(3, 3, 1, 0, 14, 0, b"", None, (create, (2, 0, b"/a", None, None))))
    assert state.znodes.keys() & {b"/a", b"/m"} == {b"/m"}
    assert state.zxid == 3


def test_set_data_and_set_acl_of_what_is_gone_are_skipped() -> None:
    state = state_with(b"/a")
    before = copy_of(state)
    state.apply(Txn(1, 2, 1, 0, 5, 9, b"/gone", b"x", None))
    state.apply(Txn(1, 2, 1, 0, 7, 9, b"/gone", None, (READ_ONLY,)))
    assert_same(state, before)
