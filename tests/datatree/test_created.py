"""The children that a znode will have: what the tree says, and what is outstanding on top of it."""

from __future__ import annotations

from random import Random

import pytest

from datatree.created import Created
from datatree.opcodes import OpCode
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.record import Txn
from datatree.requests import OPEN_ACL, Create, CreateSession, Multi, PathLimit, PathVersion
from datatree.slices import PARTS
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from tests.datatree.leading import Leader, S

PATHS = [b"/a", b"/a/1", b"/a/2", b"/a/3", b"/a/1/x", b"/c", b"/c/1"]


def children(leader: Leader, path: bytes) -> set[bytes]:
    change = leader.prepare.outstanding.view(path)
    assert change is not None
    found = [child for child in leader.prepare.outstanding.children(path, change[5]) if child is not None]
    assert len(found) == len(set(found)) == change[5]
    return set(found)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_what_the_views_say(seed: int) -> None:
    random = Random(seed)
    leader = Leader(keeper_extensions=True)
    for _ in range(150):
        path = random.choice(PATHS)
        match random.randrange(8):
            case 0 | 1 | 2:
                leader.create(path)
            case 3:
                leader.delete(path)
            case 4:
                leader.multi((OpCode.CREATE, Create(path, b"", OPEN_ACL, 0)), (OpCode.CHECK, PathVersion(b"/no", 0)))
            case 5:
                leader(OpCode.REMOVE_RECURSIVE, PathLimit(path, 3))
            case 6:
                count = random.randrange(len(leader.waiting) + 1)
                for txn in leader.waiting[:count]:
                    leader.tree.apply(txn)
                del leader.waiting[:count]
                leader.prepare.applied(leader.tree.applied)
            case _:
                leader.set(path)
        if random.random() < 0.5:
            above = random.choice([path for path in PATHS if leader.prepare.outstanding.view(path)] or [b"/a/b"])
            if leader.prepare.outstanding.view(above) is not None:
                known = [*PATHS, b"/a/b"]
                below = {each for each in known if each.rpartition(b"/")[0] == above}
                assert children(leader, above) == {each for each in below if leader.prepare.outstanding.view(each)}


def test_what_comes_after_a_rollback_is_found() -> None:
    leader = Leader(keeper_extensions=True)
    leader.create(b"/a/1")
    whole = (OpCode.REMOVE_RECURSIVE, PathLimit(b"/a", 9))
    refused = (OpCode.CHECK, PathVersion(b"/no", -1))
    leader.multi(*((OpCode.CREATE, Create(b"/a/%d" % n, b"", OPEN_ACL, 0)) for n in range(2, 6)), whole, refused)
    leader.create(b"/a/7")
    assert children(leader, b"/a") == {b"/a/b", b"/a/1", b"/a/7"}


@pytest.mark.long
def test_what_is_kept_does_not_grow_with_what_is_applied() -> None:
    leader = Leader(keeper_extensions=True)
    created = leader.prepare.outstanding._created
    for number in range(3_000):
        leader.create(b"/a/n", flags=2)
        assert children(leader, b"/a")
        # One is always outstanding.
        if number:
            leader.tree.apply(leader.waiting.pop(0))
            leader.prepare.applied(leader.tree.applied)
    kept = sum(map(len, created._by_parent.values()))
    assert 0 < kept <= 1_100


def test_nothing_is_kept_where_nobody_asks() -> None:
    leader = Leader()
    leader.create(b"/a/1")
    created = leader.prepare.outstanding._created
    assert (created.known_count, created._by_parent) == (0, {})
    assert list(created.below(b"/a")) == [b"/a/1"]
    leader.apply()
    leader.create(b"/a/2")
    assert list(created.below(b"/a")) == [b"/a/2"]
    assert isinstance(created, Created)


def test_a_large_removal_is_prepared_in_slices() -> None:
    tree = DataTree()
    prepare = Prepare(tree, PrepareSettings(keeper_extensions=True))
    count = 4 * PARTS
    parts = tuple((1, Create(b"/m%s" % name, b"", OPEN_ACL, 0)) for name in [b"", *(b"/%d" % n for n in range(count))])
    requests = [(OpCode.CREATE_SESSION, CreateSession(30_000)), (OpCode.MULTI, Multi(parts))]
    for zxid, (opcode, body) in enumerate(requests, 1):
        tree.apply(Txn(*prepare.prepare(WriteRequest(S, 0, opcode, body.encode(), ()), zxid, 1)))
    prepare.applied(tree.applied)
    asked = WriteRequest(S, 0, OpCode.REMOVE_RECURSIVE, PathLimit(b"/m", 0xFFFF_FFFF).encode(), ())
    assert prepare.is_long(asked)
    largest, before = 0, 0
    for _ in prepare.prepare_in_slices(asked, 3, 1):
        largest, before = max(largest, len(prepare.outstanding) - before), len(prepare.outstanding)
    assert largest == 2 * PARTS, "a znode and its parent"
    assert len(prepare.outstanding) == 2 * (count + 1)
