"""Applying transactions: stats, outcomes, triggers, strictness, and loading a tree back."""

import gc
from typing import Any

import pytest

from datatree import outcome
from datatree.outcome import CHILD, DATA, DELETE, Outcome
from datatree.outcome import NODE_CHILDREN_CHANGED as CHILDREN_CHANGED
from datatree.outcome import NODE_CREATED as CREATED
from datatree.outcome import NODE_DATA_CHANGED as DATA_CHANGED
from datatree.outcome import NODE_DELETED as DELETED
from datatree.record import Txn
from datatree.state import NEARING_COUNT
from datatree.tree import DataTree, TreeError
from datatree.znode import (
    CONTAINER_OWNER,
    DATA_AT,
    HEAD,
    LARGE_BYTES,
    STAT_LAYOUT,
    next_version,
    stat_of,
    ttl_ms,
    ttl_owner,
    visible_cversion,
    wrapped,
)
from tests.datatree.stat_fields import FIELDS

SESSION = 0x0100_0000_0000_0007
OTHER = -0x7E00_0000_0000_0001
READERS = ((1, b"digest", b"bob:hash"),)
ADMINS = ((31, b"ip", b"10.0.0.1"),)


def fields_of(tree: DataTree, path: bytes) -> dict[str, int]:
    znode = tree.get(path)
    assert znode is not None
    return dict(zip(FIELDS, STAT_LAYOUT.unpack(stat_of(znode)), strict=True))


class Driver:
    """Applies transactions with the next zxid, 1,000 ms apart."""

    def __init__(self) -> None:
        self.tree = DataTree()
        self.zxid = 0

    def __call__(
        self,
        kind: int,
        path: bytes = b"",
        data: bytes | None = None,
        number: int = 0,
        rest: Any = None,
        session: int = 1,
    ) -> Outcome:
        self.zxid += 1
        txn = Txn(self.zxid, self.zxid * 1000, session, 1, kind, number, path, data, rest)
        result = Outcome(*self.tree.apply(txn))
        assert self.tree.digest == self.tree.recompute_digest()
        return result

    def create(
        self, path: bytes, data: bytes | None = b"", *, number: int = 1, acl: Any = None, owner: int = 0
    ) -> Outcome:
        return self(1, path, data, number, (acl, owner))


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_an_empty_tree_has_the_reserved_znodes_with_zookeepers_stats() -> None:
    tree = DataTree()
    assert tree.znode_count == 4
    assert {name: value for name, value in fields_of(tree, b"/").items() if value} == {"cversion": -1, "children": 1}
    assert {name: value for name, value in fields_of(tree, b"/zookeeper").items() if value} == {
        "cversion": -2,
        "children": 2,
    }
    assert not any(fields_of(tree, b"/zookeeper/quota").values())
    config = fields_of(tree, b"/zookeeper/config")
    assert {name: value for name, value in config.items() if value} == {"version": -1, "aversion": -1}
    znode = tree.get(b"/zookeeper/config")
    assert znode is not None
    assert tree.acl(znode) == ((1, b"world", b"anyone"),)
    assert tree.digest == tree.recompute_digest() != 0


def test_the_configuration_is_shown_until_one_is_applied_and_is_no_state(driver: Driver) -> None:
    before = driver.tree.digest
    driver.tree.config = b"server.1=a\nversion=0"
    znode = driver.tree.get(b"/zookeeper/config")
    assert znode is not None
    assert driver.tree.data_of(b"/zookeeper/config", znode) == b"server.1=a\nversion=0"
    assert fields_of(driver.tree, b"/zookeeper/config")["length"] == 20
    assert driver.tree.digest == before
    result = driver(16, b"/zookeeper/config", b"server.2=b\nversion=1", -1)
    assert result.triggers == [(DATA, b"/zookeeper/config", DATA_CHANGED, ((1, b"world", b"anyone"),))]
    znode = driver.tree.get(b"/zookeeper/config")
    assert znode is not None
    assert driver.tree.data_of(b"/zookeeper/config", znode) == b"server.2=b\nversion=1"
    assert fields_of(driver.tree, b"/zookeeper/config")["version"] == -1


def test_create_makes_the_znode_and_counts_in_the_parent(driver: Driver) -> None:
    result = driver.create(b"/a", b"data", number=1)
    assert fields_of(driver.tree, b"/a") == dict(zip(FIELDS, (1, 1, 1000, 1000, 0, 0, 0, 0, 4, 0, 1), strict=True))
    assert fields_of(driver.tree, b"/") == dict(zip(FIELDS, (0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1), strict=True))
    znode = driver.tree.get(b"/a")
    assert znode is not None
    assert result == Outcome(
        0, b"/a", stat_of(znode), None, [(DATA, b"/a", CREATED, None), (CHILD, b"/", CHILDREN_CHANGED, None)]
    )
    assert sorted(driver.tree.child_names(b"/")) == [b"a", b"zookeeper"]
    assert driver.tree.znode_count == 5
    assert driver.tree.data_bytes == 4


@pytest.mark.parametrize(
    ("owner", "visible"),
    [(SESSION, SESSION), (OTHER, OTHER), (CONTAINER_OWNER, 0), (ttl_owner(5000), 0), (0, 0)],
)
def test_only_a_session_shows_as_owner(driver: Driver, owner: int, visible: int) -> None:
    driver.create(b"/o", owner=owner)
    assert fields_of(driver.tree, b"/o")["owner"] == visible
    tree = driver.tree
    assert tree.ephemerals == ({owner: {b"/o": None}} if visible else {})
    assert tree.containers == ({b"/o"} if owner == CONTAINER_OWNER else set())
    assert tree.ttls == ({b"/o"} if owner == ttl_owner(5000) else set())
    driver(2, b"/o")
    assert not tree.ephemerals
    assert not tree.containers | tree.ttls


def test_delete_leaves_the_count_of_creations_and_moves_the_visible_one(driver: Driver) -> None:
    driver.create(b"/a", number=1)
    driver.create(b"/a/b", number=1)
    driver.create(b"/a/c", number=2)
    assert (fields_of(driver.tree, b"/a")["cversion"], fields_of(driver.tree, b"/a")["children"]) == (2, 2)
    result = driver(2, b"/a/b")
    assert result.triggers == [(DELETE, b"/a/b", DELETED, None), (CHILD, b"/a", CHILDREN_CHANGED, None)]
    above = fields_of(driver.tree, b"/a")
    assert (above["cversion"], above["children"], above["pzxid"], above["mzxid"]) == (3, 1, 4, 1)
    driver(20, b"/a/c")
    assert fields_of(driver.tree, b"/a")["cversion"] == 4
    assert b"/a" not in driver.tree.children


def test_set_data_changes_data_version_mzxid_mtime_and_length_alone(driver: Driver) -> None:
    driver.create(b"/a", b"data", acl=READERS)
    driver.create(b"/a/b")
    before = fields_of(driver.tree, b"/a")
    result = driver(5, b"/a", b"longer data", 9)
    after = fields_of(driver.tree, b"/a")
    assert after == before | {"mzxid": 3, "mtime": 3000, "version": 9, "length": 11}
    assert result.triggers == [(DATA, b"/a", DATA_CHANGED, READERS)]
    znode = driver.tree.get(b"/a")
    assert znode is not None
    assert result.stat == stat_of(znode)
    assert driver.tree.data_bytes == 11
    driver(5, b"/a", None, 10)
    assert fields_of(driver.tree, b"/a")["length"] == 0
    assert driver.tree.data_bytes == 0


def test_null_and_empty_data_are_different_trees() -> None:
    null, empty = Driver(), Driver()
    null.create(b"/a", None)
    empty.create(b"/a", b"")
    assert null.tree.digest != empty.tree.digest


def test_set_acl_changes_the_list_and_aversion_alone(driver: Driver) -> None:
    driver.create(b"/a", b"data", acl=READERS)
    before = fields_of(driver.tree, b"/a")
    result = driver(7, b"/a", None, 1, (ADMINS,))
    assert fields_of(driver.tree, b"/a") == before | {"aversion": 1}
    assert result.triggers == []
    znode = driver.tree.get(b"/a")
    assert znode is not None
    assert driver.tree.acl(znode) == ADMINS
    # READERS went with its last reference; the list of /zookeeper/config stays.
    assert len(driver.tree.acls) == 2
    driver(7, b"/a", None, 2, (ADMINS,))
    driver(7, b"/a", None, 3, (None,))
    assert len(driver.tree.acls) == 1


def test_events_carry_the_list_that_filters_them(driver: Driver) -> None:
    driver.create(b"/p", acl=READERS)
    assert driver.create(b"/p/c", acl=ADMINS).triggers == [
        (DATA, b"/p/c", CREATED, ADMINS),
        (CHILD, b"/p", CHILDREN_CHANGED, READERS),
    ]
    assert driver(5, b"/p/c", b"x", 1).triggers == [(DATA, b"/p/c", DATA_CHANGED, ADMINS)]
    assert driver(2, b"/p/c").triggers == [
        (DELETE, b"/p/c", DELETED, ADMINS),
        (CHILD, b"/p", CHILDREN_CHANGED, READERS),
    ]


class TestSessions:
    def test_live_in_the_tree_from_create_to_close(self, driver: Driver) -> None:
        empty = driver.tree.digest
        assert driver(-10, number=30_000, session=SESSION) == Outcome(0, b"", None, None, [])
        assert driver.tree.sessions == {SESSION: 30_000}
        assert driver.tree.digest != empty
        driver(-11, rest=(), session=SESSION)
        assert driver.tree.sessions == {}
        assert driver.tree.digest == empty

    def test_the_timeout_is_in_the_digest(self) -> None:
        one, two = Driver(), Driver()
        one(-10, number=30_000, session=SESSION)
        two(-10, number=30_001, session=SESSION)
        assert one.tree.digest != two.tree.digest

    def test_closing_deletes_the_ephemerals_in_the_order_listed(self, driver: Driver) -> None:
        driver(-10, number=30_000, session=SESSION)
        driver.create(b"/z", owner=SESSION, number=1)
        driver.create(b"/a", owner=SESSION, number=2)
        result = driver(-11, rest=(b"/z", b"/a"), session=SESSION)
        assert [trigger[:3] for trigger in result.triggers] == [
            (DELETE, b"/z", DELETED),
            (CHILD, b"/", CHILDREN_CHANGED),
            (DELETE, b"/a", DELETED),
            (CHILD, b"/", CHILDREN_CHANGED),
        ]
        assert driver.tree.ephemerals == {}

    def test_closing_that_leaves_an_ephemeral_is_divergence(self, driver: Driver) -> None:
        driver(-10, number=30_000, session=SESSION)
        driver.create(b"/e", owner=SESSION)
        with pytest.raises(AssertionError, match="leaves ephemerals"):
            driver(-11, rest=(), session=SESSION)

    def test_closing_that_lists_what_it_does_not_own_is_divergence(self, driver: Driver) -> None:
        driver(-10, number=30_000, session=SESSION)
        driver.create(b"/e")
        with pytest.raises(AssertionError, match="is no ephemeral"):
            driver(-11, rest=(b"/e",), session=SESSION)


class TestMulti:
    def test_applies_its_parts_in_order_with_one_zxid(self, driver: Driver) -> None:
        parts = (
            (15, 1, b"/a", b"x", (READERS, 0)),
            (1, 1, b"/a/b", b"", (None, 0)),
            (5, 1, b"/a", b"xy", None),
            (13, 1, b"/a", None, None),
            (2, 0, b"/a/b", None, None),
        )
        result = driver(14, rest=parts)
        assert result.results is not None
        assert [part[:3] for part in result.results] == [
            (15, 0, b"/a"),
            (1, 0, b"/a/b"),
            (5, 0, b"/a"),
            (13, 0, b"/a"),
            (2, 0, b"/a/b"),
        ]
        stats = [part[3] for part in result.results]
        assert [stat is not None for stat in stats] == [True, True, True, False, False]
        # The stat of a part shows its own moment, before the later parts.
        assert stats[0] is not None
        assert STAT_LAYOUT.unpack(stats[0])[8:10] == (1, 0)
        assert stats[2] is not None
        assert STAT_LAYOUT.unpack(stats[2])[8:10] == (2, 1)
        assert [trigger[:3] for trigger in result.triggers] == [
            (DATA, b"/a", CREATED),
            (CHILD, b"/", CHILDREN_CHANGED),
            (DATA, b"/a/b", CREATED),
            (CHILD, b"/a", CHILDREN_CHANGED),
            (DATA, b"/a", DATA_CHANGED),
            (DELETE, b"/a/b", DELETED),
            (CHILD, b"/a", CHILDREN_CHANGED),
        ]

    def test_refused_changes_nothing_and_answers_each_part(self, driver: Driver) -> None:
        before = driver.tree.digest
        parts = ((-1, 0, b"", None, None), (-1, -101, b"", None, None), (-1, -2, b"", None, None))
        result = driver(14, rest=parts)
        assert result.error == 0
        assert result.results == [(-1, 0, b"", None), (-1, -101, b"", None), (-1, -2, b"", None)]
        assert result.triggers == []
        assert driver.tree.digest == before
        assert driver.tree.applied == driver.zxid

    def test_empty_is_legal(self, driver: Driver) -> None:
        assert driver(14, rest=()).results == []


def test_an_error_changes_nothing_but_the_position(driver: Driver) -> None:
    before = driver.tree.digest
    assert driver(-1, b"/missing", None, -101, (5,)) == Outcome(-101, b"/missing", None, None, [])
    assert driver.tree.digest == before
    assert driver.tree.applied == 1


@pytest.mark.parametrize(
    ("kind", "path", "rest", "why"),
    [
        (1, b"/a", (None, 0), "which exists"),
        (1, b"/missing/a", (None, 0), "does not exist"),
        (2, b"/missing", None, "which does not exist"),
        (2, b"/a", None, "which has children"),
        (5, b"/missing", None, "which does not exist"),
        (7, b"/missing", (None,), "which does not exist"),
        (-10, b"", None, "which exists"),
    ],
)
def test_what_cannot_be_applied_is_divergence(driver: Driver, kind: int, path: bytes, rest: Any, why: str) -> None:
    driver.create(b"/a")
    driver.create(b"/a/b")
    driver(-10, number=1, session=SESSION)
    with pytest.raises(AssertionError, match=why):
        driver(kind, path, None, 1, rest, session=SESSION)


def test_zxids_only_grow(driver: Driver) -> None:
    driver.create(b"/a")
    for txn in (Txn(1, 0, 0, 0, -1, -101, b"", None, (5,)), Txn(1, 0, 0, 0, 1, 1, b"/b", b"", (None, 0))):
        with pytest.raises(AssertionError, match="transaction 0x1 after 0x1"):
            driver.tree.apply(txn)


def test_the_garbage_collector_never_looks_at_znodes_nor_at_what_holds_them(driver: Driver) -> None:
    cursor = driver.tree.begin_snapshot()
    for number in range(1, 6_000):
        driver.tree.apply(Txn(number, 0, 0, 0, 1, number, b"/n%d" % number, b"x", (None, 0)))
    copies = list(cursor._taken.values())
    assert any(copies)
    cursor.close()
    cursor = driver.tree.begin_snapshot()
    runs = cursor.slices()
    next(runs)
    held = [*driver.tree.shards, *driver.tree.children.values(), *copies, *cursor._taken.values()]
    held += runs.gi_frame.f_locals["runs"]
    assert len(held) > 2 * len(driver.tree.shards)
    assert not any(map(gc.is_tracked, held))
    assert not any(gc.is_tracked(znode) for shard in driver.tree.shards for znode in shard.values())


def test_a_change_beside_large_data_does_not_copy_it(driver: Driver) -> None:
    data = bytes(LARGE_BYTES + 1)
    driver.create(b"/a", data)
    held = driver.tree.large[b"/a"]
    driver.create(b"/a/b")
    driver(2, b"/a/b")
    driver(7, b"/a", None, 1, (READERS,))
    znode = driver.tree.get(b"/a")
    assert znode is not None
    assert len(znode) == DATA_AT
    assert driver.tree.data_of(b"/a", znode) is held
    assert fields_of(driver.tree, b"/a")["length"] == len(data)
    assert driver.tree.digest == driver.tree.recompute_digest()


@pytest.mark.parametrize("length", [LARGE_BYTES, LARGE_BYTES + 1])
def test_what_a_change_may_copy_is_bounded(driver: Driver, length: int) -> None:
    driver.create(b"/created", bytes(length))
    driver.create(b"/set", b"")
    driver(5, b"/set", bytes(length), 1)
    stored = [znode for shard in driver.tree.shards for znode in shard.values()]
    assert max(map(len, stored)) == DATA_AT + (length if length <= LARGE_BYTES else 0)
    assert driver.tree.data_bytes == 2 * length
    driver(5, b"/set", None, 2)
    driver(2, b"/created")
    assert driver.tree.data_bytes == 0
    assert not driver.tree.large


def test_an_id_of_a_list_may_be_any_number_since_none_is_used_twice(driver: Driver) -> None:
    driver.tree.acls._next = (1 << 31) - 1
    for name in (b"/a", b"/b"):
        driver.create(name, acl=((31, b"digest", name),))
    driver(7, b"/a", None, 1, (READERS,))
    for path, acl in {b"/a": READERS, b"/b": ((31, b"digest", b"/b"),)}.items():
        znode = driver.tree.get(path)
        assert znode is not None
        assert driver.tree.acl(znode) == acl
    assert driver.tree.digest == driver.tree.recompute_digest()


def test_descendants(driver: Driver) -> None:
    for path in (b"/a", b"/a/b", b"/a/b/c", b"/ab"):
        driver.create(path)
    assert sorted(driver.tree.descendants(b"/a")) == [b"/a/b", b"/a/b/c"]
    assert driver.tree.descendant_count(b"/a") == 2
    assert driver.tree.descendant_count(b"/") == 7 == len(driver.tree.descendants(b"/"))
    assert driver.tree.descendant_count(b"/missing") == 0


class TestLoading:
    def fill(self, driver: Driver) -> None:
        driver(-10, number=30_000, session=SESSION)
        driver.create(b"/a", b"x", acl=READERS)
        driver.create(b"/a/e", None, owner=SESSION)
        driver.create(b"/c", owner=CONTAINER_OWNER)
        driver.create(b"/t", owner=ttl_owner(5))
        driver.create(b"/zookeeper/quota/a")
        driver.create(b"/zookeeper/quota/a/zookeeper_limits", b"count=5")
        driver.create(b"/zookeeper/quota/a/zookeeper_stats", b"what a client wrote")

    def copy(self, tree: DataTree, leave_out: bytes = b"") -> DataTree:
        loaded = DataTree.bare()
        cursor = tree.begin_snapshot()
        for session, timeout_ms in cursor.sessions.items():
            loaded.install_session(session, timeout_ms)
        for items in cursor.slices():
            for path, znode in items:
                acl_id, owner, cversion, _, _ = HEAD.unpack_from(znode)
                if path != leave_out:
                    data, acl = cursor.data_of(path, znode), cursor.acls[acl_id]
                    loaded.install([(path, data, acl, stat_of(znode), owner, cversion)])
        loaded.finish(cursor.zxid)
        cursor.close()
        return loaded

    def test_gives_the_same_tree(self, driver: Driver) -> None:
        self.fill(driver)
        tree = driver.tree
        tree.quota_sums.count_all()
        loaded = self.copy(tree)
        assert loaded.digest == tree.digest == loaded.recompute_digest()
        for name in ("applied", "sessions", "children", "ephemerals", "containers", "ttls", "quotas"):
            assert getattr(loaded, name) == getattr(tree, name), name
        assert (loaded.znode_count, loaded.data_bytes, loaded.path_bytes) == (
            tree.znode_count,
            tree.data_bytes,
            tree.path_bytes,
        )
        assert loaded.get(b"/zookeeper/quota/a/zookeeper_stats") == tree.get(b"/zookeeper/quota/a/zookeeper_stats")

    def test_and_both_go_on_alike(self, driver: Driver) -> None:
        self.fill(driver)
        loaded = self.copy(driver.tree)
        for txn in (
            Txn(100, 5, SESSION, 1, 5, 1, b"/a", b"y", None),
            Txn(101, 5, SESSION, 1, -11, 0, b"", None, (b"/a/e",)),
        ):
            assert loaded.apply(txn) == driver.tree.apply(txn)
        assert loaded.digest == driver.tree.digest

    @pytest.mark.parametrize(
        ("path", "why"),
        [
            (b"/zookeeper/quota", "'/zookeeper/quota' is missing"),
            (b"/a", "'/a' is missing, which has children"),
            (b"/a/e", "'/a' does not have the number of children"),
        ],
    )
    def test_refuses_what_is_no_tree(self, driver: Driver, path: bytes, why: str) -> None:
        self.fill(driver)
        with pytest.raises(TreeError, match=why):
            self.copy(driver.tree, leave_out=path)

    def test_refuses_what_is_there_twice(self) -> None:
        tree = DataTree()
        with pytest.raises(TreeError, match="two znodes at b'/'"):
            tree.install([(b"/", b"", None, bytes(68), 0, 0)])
        tree.install_session(5, 1)
        with pytest.raises(TreeError, match="session 0x5 twice"):
            tree.install_session(5, 1)


@pytest.mark.parametrize(
    ("before", "after"), [(0, 1), (-3, -2), (-2, 0), (2**31 - 1, -(2**31)), (-(2**31), -(2**31) + 1)]
)
def test_versions_wrap_and_leave_out_the_one_that_means_any(before: int, after: int) -> None:
    assert next_version(before) == after


def test_counters_wrap_as_javas_do(driver: Driver) -> None:
    assert wrapped(2**31) == -(2**31)
    assert visible_cversion(2**30, 1) == 2**31 - 1
    assert visible_cversion(2**30, 0) == -(2**31)
    driver.create(b"/q")
    driver.create(b"/q/n", number=-(2**31))
    assert fields_of(driver.tree, b"/q")["cversion"] == -1


def test_a_ttl_is_read_back_from_its_owner() -> None:
    assert ttl_ms(ttl_owner(1)) == 1
    assert ttl_ms(ttl_owner(2**40 - 1)) == 2**40 - 1


def test_event_types_are_those_of_the_wire() -> None:
    assert (CREATED, DELETED, DATA_CHANGED, CHILDREN_CHANGED) == (1, 2, 3, 4)
    assert len({outcome.DATA, outcome.CHILD, outcome.DELETE}) == 3


def test_what_is_left_of_the_sequence_numbers_is_that_of_the_nearest_parent(driver: Driver) -> None:
    assert driver.tree.sequence_numbers_left == 2**31 - NEARING_COUNT
    for path in (b"/p", b"/q"):
        driver.create(path)
    driver.create(b"/p/a", number=NEARING_COUNT - 1)
    assert not driver.tree.nearing
    driver.create(b"/p/b", number=2**31 - 5)
    driver.create(b"/q/b", number=2**31 - 50)
    assert driver.tree.sequence_numbers_left == 5
    assert loaded_again(driver.tree).sequence_numbers_left == 5
    for path in (b"/p/a", b"/p/b", b"/p"):
        driver(2, path)
    assert driver.tree.sequence_numbers_left == 50
    driver.create(b"/q/c", number=2**31 - 1)
    assert driver.tree.sequence_numbers_left == 1
    driver.create(b"/q/d", number=-(2**31))
    assert driver.tree.sequence_numbers_left == 0
    assert loaded_again(driver.tree).sequence_numbers_left == 0


def loaded_again(tree: DataTree) -> DataTree:
    loaded = DataTree.bare()
    for shard in tree.shards:
        for path, znode in shard.items():
            _, owner, cversion, _, _ = HEAD.unpack_from(znode)
            loaded.install([(path, tree.data_of(path, znode), tree.acl(znode), stat_of(znode), owner, cversion)])
    for session, timeout_ms in tree.sessions.items():
        loaded.install_session(session, timeout_ms)
    loaded.finish(tree.applied)
    assert loaded.digest == tree.digest
    return loaded
