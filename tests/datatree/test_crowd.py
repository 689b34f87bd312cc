"""The children of a znode that has very many: a set of paths in small parts."""

import gc

import pytest

from datatree.crowd import CROWD_COUNT, Crowd
from datatree.record import Txn
from datatree.tree import DataTree
from datatree.znode import HEAD, stat_of


def test_it_is_a_set_of_paths() -> None:
    crowd = Crowd([b"/a", b"/b", b"/a"])
    assert len(crowd) == 2
    crowd[b"/c"] = None
    crowd[b"/c"] = None
    assert sorted(crowd) == [b"/a", b"/b", b"/c"]
    assert b"/c" in crowd
    del crowd[b"/c"]
    assert b"/c" not in crowd
    assert len(crowd) == 2
    with pytest.raises(KeyError):
        del crowd[b"/c"]
    assert len(crowd) == 2


def test_no_part_is_large_and_the_garbage_collector_looks_at_none() -> None:
    crowd = Crowd(b"/parent/n-%010d" % number for number in range(100_000))
    assert len(crowd) == 100_000
    assert max(map(len, crowd._parts)) < 2 * 100_000 / len(crowd._parts)
    assert not any(map(gc.is_tracked, crowd._parts))


@pytest.fixture
def tree() -> DataTree:
    """One with as many children of one znode as are not yet a crowd."""
    tree = DataTree()
    apply(tree, 1, b"/p")
    for number in range(1, CROWD_COUNT):
        apply(tree, 1, b"/p/%d" % number, number)
    return tree


def apply(tree: DataTree, kind: int, path: bytes, number: int = 1) -> None:
    zxid = tree.applied + 1
    tree.apply(Txn(zxid, 0, 0, 0, kind, number, path, b"", (None, 0) if kind == 1 else None))


def test_children_become_a_crowd_and_stay_one(tree: DataTree) -> None:
    assert type(tree.children[b"/p"]) is dict
    apply(tree, 1, b"/p/last", CROWD_COUNT)
    crowd = tree.children[b"/p"]
    assert type(crowd) is Crowd
    apply(tree, 2, b"/p/last")
    apply(tree, 1, b"/p/last", CROWD_COUNT + 1)
    assert tree.children[b"/p"] is crowd, "it is not made again at the border"
    assert len(crowd) == CROWD_COUNT
    expected = {b"%d" % number for number in range(1, CROWD_COUNT)} | {b"last"}
    assert set(tree.child_names(b"/p")) == expected
    assert tree.descendant_count(b"/p") == CROWD_COUNT


def test_a_loaded_tree_has_the_same(tree: DataTree) -> None:
    apply(tree, 1, b"/p/last", CROWD_COUNT)
    cursor, loaded = tree.begin_snapshot(), DataTree.bare()
    for items in cursor.slices():
        for path, znode in items:
            _, owner, cversion, _, _ = HEAD.unpack_from(znode)
            loaded.install([(path, cursor.data_of(path, znode), tree.acl(znode), stat_of(znode), owner, cversion)])
    cursor.close()
    loaded.finish(tree.applied)
    assert type(loaded.children[b"/p"]) is Crowd
    assert set(loaded.children[b"/p"]) == set(tree.children[b"/p"])
    assert loaded.digest == tree.digest


def test_the_last_child_leaves_nothing_behind(tree: DataTree) -> None:
    apply(tree, 1, b"/p/last", CROWD_COUNT)
    assert type(tree.children[b"/p"]) is Crowd
    for path in list(tree.children[b"/p"]):
        apply(tree, 2, path)
    assert b"/p" not in tree.children
    apply(tree, 2, b"/p")
    assert tree.digest == tree.recompute_digest()
