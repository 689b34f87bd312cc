"""What a transaction changed, against trees before and after it; and the lists that guarded paths before."""

import pytest

from datatree.past_acls import LISTS_MAX, PastAcls
from datatree.record import Txn
from datatree.tree import DataTree
from datatree.txn_changes import ACL_CHANGED, CREATED, DATA_CHANGED, DELETED, changes_of
from datatree.znode import CONTAINER_OWNER, HEAD, STAT_LAYOUT, stat_of, ttl_owner
from tests.datatree.zookeeper.histories import history

BOB = ((31, b"digest", b"bob:x"),)
EVE = ((31, b"digest", b"eve:x"),)
SESSION = 0x77


def txn(kind, number=0, path=b"", data=None, rest=None, zxid=1, session=SESSION):
    return Txn(zxid, 9, session, 3, kind, number, path, data, rest)


TABLE = [
    (txn(13, 4, b"/a", b""), []),
    (txn(1, 4, b"/a", b"xy", (None, 0)), [(CREATED, 0, b"/a", b"xy", 0, 0)]),
    (txn(15, 4, b"/a", None, (BOB, SESSION)), [(CREATED, 0, b"/a", None, 0, SESSION)]),
    (txn(19, 4, b"/a", b"", (None, CONTAINER_OWNER)), [(CREATED, 0, b"/a", b"", 0, 0)]),
    (txn(21, 4, b"/a", b"", (None, ttl_owner(500))), [(CREATED, 0, b"/a", b"", 0, 0)]),
    (txn(2, 0, b"/a"), [(DELETED, 0, b"/a", None, -1, 0)]),
    (txn(20, 0, b"/a", session=0), [(DELETED, 0, b"/a", None, -1, 0)]),
    (txn(5, 3, b"/a", b"xy"), [(DATA_CHANGED, 0, b"/a", b"xy", 3, 0)]),
    (txn(16, -1, b"/zookeeper/config", b"xy"), [(DATA_CHANGED, 0, b"/zookeeper/config", b"xy", -1, 0)]),
    (txn(7, 2, b"/a", rest=(BOB,)), [(ACL_CHANGED, 0, b"/a", None, 2, 0)]),
    (txn(-11, rest=(b"/a", b"/b")), [(DELETED, 0, b"/a", None, -1, 0), (DELETED, 1, b"/b", None, -1, 0)]),
    (txn(-11, rest=()), []),
    (txn(-10, 4000), []),
    (txn(-1, -101, b"/a", rest=(5,)), []),
    (txn(14, rest=()), []),
    (
        txn(14, rest=((13, 2, b"/a", None, None), (5, 3, b"/a", b"x", None), (2, 0, b"/b", None, None))),
        [(DATA_CHANGED, 1, b"/a", b"x", 3, 0), (DELETED, 2, b"/b", None, -1, 0)],
    ),
    (txn(14, rest=((-1, 0, b"", None, None), (-1, -101, b"", None, None))), []),
]


@pytest.mark.parametrize(("given_txn", "changes"), TABLE)
def test_a_transaction_changes_these_znodes(given_txn, changes):
    assert changes_of(given_txn) == changes


@pytest.mark.parametrize("seed", range(8))
def test_a_tree_follows_from_the_changes_alone(seed):
    """Anyone who applies the changes to a dict ends with the paths, data, versions and owners of the tree."""
    txns, tree = history(seed, 300)
    mirror = {}
    for kind, _, path, data, version, owner in [change for each in txns for change in changes_of(each)]:
        if kind == DELETED:
            del mirror[path]
        elif kind == CREATED:
            assert path not in mirror
            mirror[path] = (data, version, owner)
        elif kind == DATA_CHANGED:
            mirror[path] = (data, version, mirror[path][2])
        else:
            assert path in mirror
    stats = {path: STAT_LAYOUT.unpack(stat_of(tree.get(path))) for path in tree.descendants(b"/")}
    real = {path: (tree.data_of(path, tree.get(path)), stat[4], stat[7]) for path, stat in stats.items()}
    assert {path: row for path, row in real.items() if not path.startswith(b"/zookeeper")} == mirror
    assert len(mirror) > 1


@pytest.mark.parametrize("seed", range(8))
def test_the_lists_of_a_path_are_those_that_guarded_it_since(seed):
    txns, _ = history(seed, 200)
    tree = DataTree()
    guarded: dict[bytes, list[tuple[int, object]]] = {}
    paths = {change[2] for each in txns for change in changes_of(each)}
    for each in txns:
        before = {path: tree.acl(tree.get(path)) for path in paths if tree.get(path) is not None}
        tree.apply(each)
        for path, acl in before.items():
            after = tree.get(path)
            touched = [change for change in changes_of(each) if change[2] == path]
            is_gone = any(change[0] in (DELETED, ACL_CHANGED) for change in touched)
            if acl is not None and (after is None or tree.acl(after) != acl or is_gone):
                guarded.setdefault(path, []).append((each.zxid, acl))
    for path in paths:
        for zxid in (1, 50, 100, 150, 200):
            expected = {acl for ended, acl in guarded.get(path, ()) if ended >= zxid}
            known = set(lists(tree.past_acls, path, zxid))
            # The same list set again has not ended; who asks looks at the present one anyway.
            present = tree.get(path) and tree.acl(tree.get(path))
            assert known <= expected
            assert expected - known <= {present}, (path, zxid)


# ------------------------------------------------------------------------------------------------- lists that ended


def lists(past, path, zxid):
    return list(past.since(path, zxid))


def create(tree, zxid, path, acl):
    tree.apply(txn(1, zxid, path, b"", (acl, 0), zxid=zxid))


def test_a_list_that_ended_counts_for_what_was_before_its_end():
    tree = DataTree()
    create(tree, 1, b"/a", BOB)
    tree.apply(txn(7, 1, b"/a", rest=(EVE,), zxid=2))
    tree.apply(txn(2, 0, b"/a", zxid=3))
    past = tree.past_acls
    assert lists(past, b"/a", 1) == [BOB, EVE]
    assert lists(past, b"/a", 2) == [BOB, EVE]
    assert lists(past, b"/a", 3) == [EVE]
    assert lists(past, b"/a", 4) == []
    assert lists(past, b"/b", 1) == []


def test_the_open_list_and_the_same_list_again_are_not_noted():
    tree = DataTree()
    create(tree, 1, b"/a", None)
    create(tree, 2, b"/b", BOB)
    tree.apply(txn(7, 1, b"/b", rest=(BOB,), zxid=3))
    assert len(tree.past_acls) == 0
    tree.apply(txn(7, 1, b"/a", rest=(BOB,), zxid=4))
    tree.apply(txn(2, 0, b"/b", zxid=5))
    assert (lists(tree.past_acls, b"/a", 1), lists(tree.past_acls, b"/b", 1)) == ([], [BOB])


def test_all_deletes_of_a_multi_and_of_a_closed_session_are_noted():
    tree = DataTree()
    tree.apply(txn(-10, 4000, zxid=1))
    for zxid, path in enumerate((b"/a", b"/b"), 2):
        tree.apply(txn(1, zxid, path, b"", (BOB, SESSION), zxid=zxid))
    create(tree, 4, b"/c", EVE)
    tree.apply(txn(-11, rest=(b"/a", b"/b"), zxid=5))
    tree.apply(txn(14, rest=((2, 0, b"/c", None, None),), zxid=6))
    assert [lists(tree.past_acls, path, 5) for path in (b"/a", b"/b", b"/c")] == [[BOB], [BOB], [EVE]]


def test_a_list_that_ends_again_is_held_once():
    past = PastAcls(0)
    for zxid in range(1, 100):
        past.ended(b"/lock", zxid, BOB if zxid % 2 else EVE)
    assert lists(past, b"/lock", 1) == [BOB, EVE] or lists(past, b"/lock", 1) == [EVE, BOB]
    assert lists(past, b"/lock", 99) == [BOB]
    assert past.complete_from == 0


def test_more_paths_than_the_limit_forget_the_oldest_and_say_so():
    past = PastAcls(7, count_max=20)
    for zxid in range(10, 30):
        past.ended(b"/%d" % zxid, zxid, BOB)
    assert (len(past), past.complete_from) == (20, 7)
    past.ended(b"/10", 30, EVE)
    assert (len(past), past.complete_from) == (20, 7)
    past.ended(b"/31", 31, BOB)
    assert len(past) == 19
    assert past.complete_from == 12
    assert lists(past, b"/10", 1) == [BOB, EVE]
    assert lists(past, b"/11", 1) == []


def test_more_lists_of_a_path_than_the_limit_forget_the_oldest_and_say_so():
    past = PastAcls(0)
    for zxid in range(1, LISTS_MAX + 1):
        past.ended(b"/a", zxid, ((31, b"digest", b"u%d:x" % zxid),))
    assert past.complete_from == 0
    past.ended(b"/a", LISTS_MAX + 1, BOB)
    assert past.complete_from == 1
    assert len(lists(past, b"/a", 2)) == LISTS_MAX


def test_more_bytes_of_paths_than_the_limit_forget_the_oldest_and_say_so(monkeypatch):
    """A path may have as many bytes as a request."""
    monkeypatch.setattr("datatree.past_acls.BYTES_MAX", 10_000)
    past = PastAcls(0)
    for zxid in range(1, 30):
        past.ended(b"/%02d" % zxid + bytes(980), zxid, BOB)
        assert past.bytes <= 10_000
    assert len(past) == 9
    assert past.complete_from == 20


def test_more_bytes_of_lists_than_the_limit_forget_the_oldest_and_say_so(monkeypatch):
    monkeypatch.setattr("datatree.past_acls.BYTES_MAX", 10_000)
    past = PastAcls(0)
    for zxid in range(1, 30):
        past.ended(b"/%02d" % (zxid // 3), zxid, ((31, b"digest", b"%02d:" % zxid + bytes(888)),))
        assert past.bytes <= 10_000
    assert past.complete_from == 20
    older = PastAcls(0)
    for zxid in range(1, 10):
        older.ended(b"/older%02d" % zxid + bytes(600), zxid, BOB)
    known = PastAcls(10)
    for zxid in range(11, 20):
        known.ended(b"/%02d" % zxid + bytes(600), zxid, BOB)
    known.prepend(older, 10)
    assert known.bytes <= 10_000
    assert 0 < known.complete_from < 10


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_bytes_are_those_of_what_is_held(seed):
    txns, _ = history(seed, 200)
    tree = DataTree()
    for each in txns:
        tree.apply(each)
    held = tree.past_acls
    assert len(held)
    held.count_max = 1
    held.ended(b"/the-last-one", 1 << 40, BOB)
    assert len(held) == 1
    only = PastAcls(0)
    only.ended(b"/the-last-one", 1, BOB)
    assert held.bytes == only.bytes


def test_a_loaded_tree_knows_nothing_from_before_its_snapshot():
    tree = DataTree.bare()
    empty = DataTree()
    for path in (b"/", b"/zookeeper", b"/zookeeper/quota", b"/zookeeper/config"):
        znode = empty.get(path)
        _, owner, cversion, _, _ = HEAD.unpack_from(znode)
        tree.install([(path, empty.data_of(path, znode), empty.acl(znode), stat_of(znode), owner, cversion)])
    tree.finish(0x100000005)
    assert tree.past_acls.complete_from == 0x100000005
