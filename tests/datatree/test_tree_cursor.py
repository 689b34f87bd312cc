"""Snapshot cursors: exact, sorted, and in small steps, whatever is written meanwhile."""

import threading
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datatree.cursor import SnapshotCursor
from datatree.record import Txn
from datatree.tree import DataTree
from datatree.znode import LARGE_BYTES, Znode, acl_id_of

MUCH = bytes(range(251)) * (LARGE_BYTES // 251 + 1)


def items_of(tree: DataTree) -> list[tuple[bytes, Znode, bytes | None]]:
    return sorted((path, znode, tree.data_of(path, znode)) for shard in tree.shards for path, znode in shard.items())


def with_data(cursor: SnapshotCursor, items: list[tuple[bytes, Znode]]) -> list[tuple[bytes, Znode, bytes | None]]:
    return [(path, znode, cursor.data_of(path, znode)) for path, znode in items]


class Writer:
    """Random creates, deletes and changes below /d, each a transaction."""

    def __init__(self, seed: int) -> None:
        self.tree = DataTree()
        self.random = Random(seed)
        self.names: list[bytes] = []
        self.created = 0
        self.apply(1, b"/d", b"", 1, (None, 0))

    def apply(self, kind: int, path: bytes, data: bytes | None, number: int, rest: object = None) -> None:
        self.tree.apply(Txn(self.tree.applied + 1, 5, 1, 1, kind, number, path, data, rest))

    def write(self, count: int = 1) -> None:
        for _ in range(count):
            choice = self.random.randrange(4) if self.names else 0
            if choice <= 1:
                self.created += 1
                self.names.append(b"/d/%08x" % self.random.getrandbits(32))
                acl = ((self.created % 5 + 1, b"world", b"anyone"),) if choice else None
                self.apply(1, self.names[-1], b"x", self.created, (acl, 0))
            elif choice == 2:
                data = b"y%d" % self.tree.applied
                if self.random.randrange(4) == 0:
                    data = data.ljust(LARGE_BYTES + self.random.choice((0, 1)))
                self.apply(5, self.random.choice(self.names), data, 1)
            else:
                at = self.random.randrange(len(self.names))
                self.names[at], self.names[-1] = self.names[-1], self.names[at]
                self.apply(2, self.names.pop(), None, 0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("writes", [0, 1, 20])
def test_the_slices_are_the_tree_of_the_beginning_while_writes_go_on(seed: int, writes: int) -> None:
    writer = Writer(seed)
    writer.write(3000)
    tree = writer.tree
    before = items_of(tree)
    lists = {path: tree.acl(znode) for path, znode, _ in before}
    assert any(len(data or b"") > LARGE_BYTES for _, _, data in before)
    zxid, digest = tree.applied, tree.digest
    cursor = tree.begin_snapshot()
    found = []
    for items in cursor.slices(count=500):
        assert len(items) <= 2000
        found += with_data(cursor, items)
        writer.write(writes)
    assert found == before
    assert (cursor.zxid, cursor.digest, cursor.znode_count) == (zxid, digest, len(before))
    assert all(cursor.acls[acl_id_of(znode)] == lists[path] for path, znode, _ in found)
    cursor.close()
    assert tree.digest == tree.recompute_digest()


def test_sessions_are_of_the_same_moment() -> None:
    tree = DataTree()
    tree.apply(Txn(1, 0, 7, 0, -10, 500, b"", None, None))
    cursor = tree.begin_snapshot()
    tree.apply(Txn(2, 0, 8, 0, -10, 500, b"", None, None))
    tree.apply(Txn(3, 0, 7, 0, -11, 0, b"", None, ()))
    assert cursor.sessions == {7: 500}
    cursor.close()


def test_a_znode_created_deleted_or_changed_meanwhile_is_shown_as_it_was() -> None:
    writer = Writer(0)
    tree = writer.tree
    writer.apply(1, b"/d/changed", b"before", 1, (None, 0))
    writer.apply(1, b"/d/deleted", b"before", 2, (None, 0))
    cursor = tree.begin_snapshot()
    writer.apply(5, b"/d/changed", b"after", 1)
    writer.apply(2, b"/d/deleted", None, 0)
    writer.apply(1, b"/d/created", b"after", 3, (None, 0))
    writer.apply(7, b"/d/changed", None, 1, (((1, b"world", b"anyone"),),))
    found = {path: znode for items in cursor.slices() for path, znode in items}
    data = {path: cursor.data_of(path, znode) for path, znode in found.items()}
    assert (data[b"/d/changed"], acl_id_of(found[b"/d/changed"])) == (b"before", -1)
    assert data[b"/d/deleted"] == b"before"
    assert b"/d/created" not in found
    cursor.close()


def test_a_parent_comes_before_its_children() -> None:
    tree = DataTree()
    for zxid, path in enumerate((b"/a", b"/a-b", b"/a/b", b"/a.c"), 1):
        number = 1 if path == b"/a/b" else zxid
        tree.apply(Txn(zxid, 0, 0, 0, 1, number, path, b"", (None, 0)))
    cursor = tree.begin_snapshot()
    paths = [path for items in cursor.slices(count=1) for path, _ in items]
    assert paths == sorted(paths)
    assert paths.index(b"/a") < paths.index(b"/a/b")
    cursor.close()


def test_one_at_a_time_and_another_after_it_is_closed() -> None:
    tree = DataTree()
    cursor = tree.begin_snapshot()
    with pytest.raises(AssertionError, match="one snapshot at a time"):
        tree.begin_snapshot()
    cursor.close()
    cursor.close()
    with pytest.raises(AssertionError, match="a closed cursor"):
        next(cursor.slices())
    tree.begin_snapshot().close()


def test_large_data_replaced_or_dropped_meanwhile_is_shown_as_it_was() -> None:
    writer = Writer(0)
    tree = writer.tree
    before = {name: b"/d/%s" % name for name in (b"large", b"to-small", b"deleted", b"made-again", b"beside", b"small")}
    for number, (name, path) in enumerate(before.items(), 1):
        writer.apply(1, path, MUCH if name != b"small" else b"little", number, (None, 0))
    held = tree.large[b"/d/large"]
    cursor = tree.begin_snapshot()
    writer.apply(5, b"/d/large", MUCH[::-1], 1)
    writer.apply(5, b"/d/large", MUCH + b"again", 2)
    writer.apply(5, b"/d/to-small", b"little", 1)
    writer.apply(2, b"/d/deleted", None, 0)
    writer.apply(2, b"/d/made-again", None, 0)
    writer.apply(1, b"/d/made-again", MUCH + b"again", 9, (None, 0))
    writer.apply(1, b"/d/beside/child", b"", 1, (None, 0))
    writer.apply(5, b"/d/small", MUCH, 1)
    writer.apply(5, b"/d/small", MUCH[::-1], 2)
    found = {path: cursor.data_of(path, znode) for items in cursor.slices() for path, znode in items}
    expected = {path: MUCH if name != b"small" else b"little" for name, path in before.items()}
    assert {path: found[path] for path in expected} == expected
    assert found[b"/d/large"] is held, "not a copy"
    cursor.close()
    assert set(tree.large) == {b"/d/large", b"/d/made-again", b"/d/beside", b"/d/small"}
    assert tree.digest == tree.recompute_digest()


def test_writes_copy_nothing_once_the_cursor_is_closed() -> None:
    writer = Writer(1)
    writer.write(100)
    cursor = writer.tree.begin_snapshot()
    cursor.close()
    writer.write(100)
    assert not cursor._taken
    assert not cursor._kept


def test_another_thread_may_read_while_this_one_writes() -> None:
    writer = Writer(2)
    writer.write(5000)
    before = items_of(writer.tree)
    cursor = writer.tree.begin_snapshot()
    found: list[tuple[bytes, Znode, bytes | None]] = []

    def read() -> None:
        for items in cursor.slices(count=200):
            found.extend(with_data(cursor, items))
        cursor.close()

    thread = threading.Thread(target=read)
    thread.start()
    while thread.is_alive():
        writer.write(50)
    thread.join()
    assert found == before


@given(st.sets(st.binary(max_size=3), max_size=60), st.integers(1, 40))
def test_slices_of_any_size_merge_all_runs_in_order(names: set[bytes], count: int) -> None:
    tree = DataTree()
    for zxid, name in enumerate(sorted(names), 1):
        path = b"/" + name.hex().encode() + b"-"
        tree.apply(Txn(zxid, 0, 0, 0, 1, zxid, path, name, (None, 0)))
    cursor = tree.begin_snapshot()
    assert [item for items in cursor.slices(count) for item in with_data(cursor, items)] == items_of(tree)
    cursor.close()
