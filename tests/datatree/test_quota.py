"""Quotas: the text, the sums derived from the tree, and what is refused."""

from random import Random
from zlib import crc32

import pytest

from datatree.errors import ErrorCode as E
from datatree.opcodes import OpCode
from datatree.outcome import Outcome
from datatree.paths import parent
from datatree.prepare import Prepare
from datatree.prepare_settings import PrepareSettings
from datatree.quota import Limits, is_limits, is_stats, quota_path, render
from datatree.record import Txn
from datatree.requests import OPEN_ACL, Body, Create, CreateSession, Multi, PathVersion, SetData
from datatree.tree import DataTree
from datatree.write_request import WriteRequest
from datatree.znode import STAT_LAYOUT, stat_of

SESSION = 1
QUOTA_A = b"/zookeeper/quota/a"
LIMITS = QUOTA_A + b"/zookeeper_limits"
STATS = QUOTA_A + b"/zookeeper_stats"


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        (b"count=5,bytes=1000", Limits(5, 1000)),
        (b"count=5,bytes=1000=;byteHardLimit=2000;countHardLimit=10", Limits(5, 1000, 10, 2000)),
        (b"count=-1,bytes=-1=;countHardLimit=3", Limits(count_hard=3)),
        (b"bytes=7", Limits(total_bytes=7)),
        (b"count=,bytes=x,;,nothing,count", Limits()),
        (b"", Limits()),
        (b"\xff=\xfe", Limits()),
    ],
)
def test_the_text_of_limits(text: bytes, limits: Limits) -> None:
    assert Limits.parse(text) == limits


def test_which_paths_are_quotas() -> None:
    assert is_limits(LIMITS)
    assert is_stats(STATS)
    assert quota_path(LIMITS) == quota_path(STATS) == b"/a"
    assert quota_path(b"/zookeeper/quota/a/b/zookeeper_limits") == b"/a/b"
    # A quota on the root is ignored, and so is the name elsewhere.
    for path in (b"/zookeeper/quota/zookeeper_limits", b"/a/zookeeper_limits", STATS + b"/x", LIMITS + b"x"):
        assert not is_limits(path)
        assert not is_stats(path)


class Leader:
    counts_at_once = True
    """As a member does at the end of a turn, where the tree is small."""

    def __init__(self, **settings: bool) -> None:
        self.tree = DataTree()
        self.prepare = Prepare(self.tree, PrepareSettings(**settings))
        self.zxid = 0
        self.waiting: list[Txn] = []
        self(OpCode.CREATE_SESSION, CreateSession(1))
        for path in (b"/a", b"/zookeeper/quota/a"):
            self.create(path)

    def ask(self, opcode: int, body: Body) -> Txn:
        """Prepare, and leave outstanding."""
        self.zxid += 1
        txn = Txn(*self.prepare.prepare(WriteRequest(SESSION, 1, opcode, body.encode(), ()), self.zxid, 0))
        self.waiting.append(txn)
        return txn

    def apply(self) -> Outcome:
        for txn in self.waiting:
            outcome = Outcome(*self.tree.apply(txn))
        self.waiting.clear()
        self.prepare.applied(self.zxid)
        if self.counts_at_once:
            self.tree.quota_sums.count_all()
        return outcome

    def __call__(self, opcode: int, body: Body) -> Outcome:
        self.ask(opcode, body)
        return self.apply()

    def create(self, path: bytes, data: bytes = b"") -> int:
        return self(OpCode.CREATE, Create(path, data, OPEN_ACL, 0)).error

    def set(self, path: bytes, data: bytes | None) -> int:
        return self(OpCode.SET_DATA, SetData(path, data, -1)).error

    def delete(self, path: bytes) -> int:
        return self(OpCode.DELETE, PathVersion(path, -1)).error

    def shown(self, path: bytes = STATS) -> bytes | None:
        znode = self.tree.get(path)
        assert znode is not None
        data = self.tree.data_of(path, znode)
        assert STAT_LAYOUT.unpack(stat_of(znode))[8] == len(data or b"")
        return data


class TestSums:
    def test_are_shown_by_the_stats_znode_from_its_creation_on(self) -> None:
        leader = Leader()
        leader.create(b"/a/x", b"12345")
        leader.create(LIMITS, b"count=5,bytes=10")
        leader.create(STATS, b"count=0,bytes=0")
        assert leader.shown() == b"count=2,bytes=5"
        leader.create(b"/a/x/y", b"123")
        assert leader.shown() == b"count=3,bytes=8"
        leader.set(b"/a", b"7654321")
        assert leader.shown() == b"count=3,bytes=15"
        leader.set(b"/a", None)
        leader.delete(b"/a/x/y")
        assert leader.shown() == b"count=2,bytes=5"
        leader.create(b"/ab", b"not below")
        assert leader.shown() == b"count=2,bytes=5"

    def test_change_without_a_trace_in_stat_and_digest(self) -> None:
        leader = Leader()
        leader.create(STATS)
        before = leader.tree.shards, leader.tree.get(STATS)
        assert before[1] is not None
        fields = STAT_LAYOUT.unpack(stat_of(before[1]))
        leader.create(b"/a/x", b"x" * 1000)
        after = leader.tree.get(STATS)
        assert after is not None
        assert STAT_LAYOUT.unpack(stat_of(after))[:8] == fields[:8]
        assert leader.tree.digest == leader.tree.recompute_digest()
        znode = next(shard[STATS] for shard in leader.tree.shards if STATS in shard)
        assert leader.tree.data_of(STATS, znode) == b""

    def test_a_write_of_the_stats_znode_changes_its_stat_alone(self) -> None:
        leader = Leader()
        leader.create(STATS)
        assert leader.set(STATS, b"count=99,bytes=99") == 0
        assert leader.shown() == b"count=1,bytes=0"
        znode = leader.tree.get(STATS)
        assert znode is not None
        assert STAT_LAYOUT.unpack(stat_of(znode))[1:5:3] == (leader.zxid, 1)
        assert leader.tree.data_bytes == 0

    def test_of_nested_quotas_each_cover_their_subtree(self) -> None:
        leader = Leader()
        leader.create(b"/a/b")
        leader.create(b"/zookeeper/quota/a/b")
        leader.create(STATS)
        leader.create(b"/zookeeper/quota/a/b/zookeeper_stats")
        leader.create(b"/a/b/c", b"12")
        assert leader.shown() == b"count=3,bytes=2"
        assert leader.shown(b"/zookeeper/quota/a/b/zookeeper_stats") == b"count=2,bytes=2"

    def test_may_be_of_a_path_that_does_not_exist(self) -> None:
        leader = Leader()
        leader.delete(b"/a")
        leader.create(STATS)
        assert leader.shown() == b"count=0,bytes=0"
        leader.create(b"/a", b"1")
        assert leader.shown() == b"count=1,bytes=1"

    def test_end_with_the_quota(self) -> None:
        leader = Leader()
        leader.create(LIMITS)
        leader.create(STATS)
        leader.delete(STATS)
        assert set(leader.tree.quotas) == {b"/a"}
        leader.delete(LIMITS)
        assert leader.tree.quotas == {}
        assert set(leader.tree.rendered) == {b"/zookeeper/config"}

    @pytest.mark.parametrize("seed", range(4))
    def test_equal_a_count_of_the_subtree_after_random_writes(self, seed: int) -> None:
        random = Random(seed)
        leader = Leader()
        targets = [b"/a", b"/a/b", b"/a/b/c"]
        leaves = [path + leaf for path in targets for leaf in (b"/zookeeper_limits", b"/zookeeper_stats")]
        quotas = [b"/zookeeper/quota" + path for path in targets + leaves]
        paths = [*targets, b"/a/x", b"/a/b/x", b"/a/b/c/x", b"/ab", *quotas]
        for _ in range(400):
            path = random.choice(paths)
            random.choice(
                (
                    lambda p: leader.create(p, b"x" * random.randrange(9)),
                    lambda p: leader.create(p),
                    lambda p: leader.set(p, b"y" * random.randrange(9)),
                    leader.delete,
                )
            )(path)
            stored = {path: znode for shard in leader.tree.shards for path, znode in shard.items()}
            expected = {quota_path(path) for path in stored if is_limits(path) or is_stats(path)}
            assert set(leader.tree.quotas) == expected
            for target, quota in leader.tree.quotas.items():
                below = {path for path in stored if path == target or path.startswith(target + b"/")}
                assert (quota.count, quota.total_bytes) == (
                    len(below),
                    sum(len(leader.tree.data_of(path, stored[path]) or b"") for path in below),
                )
                stats = b"/zookeeper/quota" + target + b"/zookeeper_stats"
                if stats in stored:
                    assert leader.shown(stats) == render(quota.count, quota.total_bytes)


class TestSlices:
    """A quota comes to a subtree that is there: its sums are made a few znodes at a time."""

    def crowded(self, count: int = 50) -> Leader:
        leader = Leader(enforce_quota=True)
        leader.counts_at_once = False
        for number in range(count):
            leader.create(b"/a/%d" % number, b"123")
        return leader

    def test_applying_a_quota_looks_at_nothing_below_it(self) -> None:
        leader = self.crowded()
        sums = leader.tree.quota_sums
        for _ in range(100):
            leader.create(LIMITS, b"count=5")
            leader.delete(LIMITS)
        assert sums.visited_count == 0
        assert not sums.is_due

    def test_looks_at_so_many_znodes_in_a_slice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("datatree.quota_sums.NAMES", 7)
        leader = self.crowded()
        leader.create(STATS)
        sums, seen = leader.tree.quota_sums, []
        while sums.is_due:
            before = sums.visited_count
            sums.count_some()
            seen.append(sums.visited_count - before)
        assert max(seen) == 7
        assert sum(seen) == leader.tree.znode_count
        assert leader.shown() == b"count=51,bytes=150"

    def test_long_paths_count_for_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("datatree.quota_sums.NAMES", 20)
        leader = Leader()
        leader.counts_at_once = False
        path = b""
        for _ in range(300):
            path += b"/d"
            leader.create(path)
        leader.create(STATS)
        deep = leader.tree.quota_sums
        steps = 0
        while deep.is_due:
            deep.count_some()
            steps += 1
        assert steps > leader.tree.znode_count // 20 + 10

    def test_one_round_is_for_all_quotas_that_wait(self) -> None:
        leader = self.crowded()
        for number in range(20):
            leader.create(b"/zookeeper/quota/a/%d" % number)
            leader.create(b"/zookeeper/quota/a/%d/zookeeper_stats" % number)
        leader.create(STATS)
        leader.tree.quota_sums.count_all()
        assert leader.tree.quota_sums.visited_count == leader.tree.znode_count
        assert leader.shown() == b"count=51,bytes=150"
        assert leader.shown(b"/zookeeper/quota/a/7/zookeeper_stats") == b"count=1,bytes=3"

    def test_until_it_is_counted_it_refuses_nothing_and_shows_what_is_unknown(self) -> None:
        leader = self.crowded()
        leader.create(LIMITS, b"count=-1,bytes=-1=;countHardLimit=0")
        leader.create(STATS)
        assert leader.shown() == b"count=-1,bytes=-1"
        assert leader.create(b"/a/x") == 0
        leader.tree.quota_sums.count_all()
        assert leader.create(b"/a/y") == E.QUOTAEXCEEDED
        assert leader.shown() == b"count=52,bytes=150"

    def test_a_tree_that_is_loaded_has_them(self) -> None:
        leader = self.crowded()
        leader.create(STATS)
        loaded = DataTree.bare()
        znodes = {path: znode for shard in leader.tree.shards for path, znode in shard.items()}
        for path, znode in znodes.items():
            loaded.install([(path, leader.tree.data_of(path, znode), None, stat_of(znode), 0, 0)])
        loaded.finish(leader.tree.applied)
        assert loaded.quotas[b"/a"].text() == b"count=51,bytes=150"

    @pytest.mark.parametrize("seed", range(6))
    def test_are_exact_whatever_happens_between_two_slices(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        """Znodes come, go, come back and change on both sides of where the round is, and quotas with them; some share
        the shard that it is in."""
        monkeypatch.setattr("datatree.quota_sums.NAMES", 1)
        random = Random(seed)
        leader = self.crowded(20)
        names = random.sample(range(8000), 60)
        together = [name for name in range(60_000) if crc32(b"/a/%d" % name) & 4095 == 1000]
        paths = [b"/a/%d" % name for name in (*names, *together)]
        quotas = [b"/zookeeper/quota/a/%d" % name for name in names[:5]]
        leaves = [above + leaf for above in [QUOTA_A, *quotas] for leaf in (b"/zookeeper_limits", b"/zookeeper_stats")]
        for path in quotas:
            leader.create(path)
        for _ in range(1500):
            path = random.choice(paths if random.random() < 0.9 else leaves)
            random.choice(
                (lambda p: leader.create(p, b"x" * random.randrange(9)), lambda p: leader.set(p, b"y"), leader.delete)
            )(path)
            for _ in range(random.randrange(3)):
                leader.tree.quota_sums.count_some()
            stored = {path: znode for shard in leader.tree.shards for path, znode in shard.items()}
            for target, quota in leader.tree.quotas.items():
                if quota.is_counted:
                    below = [each for each in stored if each == target or each.startswith(target + b"/")]
                    lengths = sum(len(leader.tree.data_of(each, stored[each]) or b"") for each in below)
                    assert (quota.count, quota.total_bytes) == (len(below), lengths)
        leader.tree.quota_sums.count_all()
        assert all(quota.is_counted for quota in leader.tree.quotas.values())


class TestEnforcement:
    def leader(self, limits: bytes) -> Leader:
        leader = Leader(enforce_quota=True)
        leader.create(LIMITS, limits)
        return leader

    def test_is_off_unless_asked_for(self) -> None:
        leader = Leader()
        leader.create(LIMITS, b"count=-1,bytes=-1=;byteHardLimit=0;countHardLimit=0")
        assert leader.create(b"/a/x", b"x") == 0

    def test_counts_znodes(self) -> None:
        leader = self.leader(b"count=1,bytes=-1=;countHardLimit=2")
        assert leader.create(b"/a/x") == 0
        assert leader.create(b"/a/y") == E.QUOTAEXCEEDED
        assert leader.set(b"/a/x", b"x" * 99) == 0
        assert leader.delete(b"/a/x") == 0
        assert leader.create(b"/a/y") == 0

    def test_counts_bytes(self) -> None:
        leader = self.leader(b"count=-1,bytes=-1=;byteHardLimit=10")
        assert leader.create(b"/a/x", b"x" * 10) == 0
        assert leader.create(b"/a/y", b"x") == E.QUOTAEXCEEDED
        assert leader.create(b"/a/z") == 0
        assert leader.set(b"/a/z", b"x") == E.QUOTAEXCEEDED
        assert leader.set(b"/a/x", b"y" * 10) == 0
        assert leader.set(b"/a/x", b"y" * 9) == 0
        assert leader.set(b"/a/z", b"x") == 0

    def test_soft_limits_refuse_nothing(self) -> None:
        assert self.leader(b"count=0,bytes=0").create(b"/a/x", b"x") == 0

    def test_counts_what_is_outstanding(self) -> None:
        leader = self.leader(b"count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=4")
        codes = [leader.ask(OpCode.CREATE, Create(b"/a/%d" % n, b"123", OPEN_ACL, 0)).number for n in range(5)]
        assert codes == [1, 2, 3, E.QUOTAEXCEEDED, E.QUOTAEXCEEDED]
        leader.ask(OpCode.DELETE, PathVersion(b"/a/0", -1))
        assert leader.ask(OpCode.CREATE, Create(b"/a/n", b"123", OPEN_ACL, 0)).type == 1
        leader.apply()
        assert leader.prepare.outstanding.charged(b"/a") == (0, 0)
        assert leader.create(b"/a/m") == E.QUOTAEXCEEDED

    def test_charges_nothing_for_a_refused_multi(self) -> None:
        leader = self.leader(b"count=-1,bytes=-1=;countHardLimit=3")
        parts = ((OpCode.CREATE, Create(b"/a/x", b"", OPEN_ACL, 0)), (OpCode.CHECK, PathVersion(b"/missing", 0)))
        leader.ask(OpCode.MULTI, Multi(parts))
        assert leader.prepare.outstanding.charged(b"/a") == (0, 0)
        first = leader.ask(OpCode.CREATE, Create(b"/a/x", b"", OPEN_ACL, 0)).zxid
        leader.ask(OpCode.CREATE, Create(b"/a/y", b"", OPEN_ACL, 0))
        for txn in leader.waiting[:2]:
            leader.tree.apply(txn)
        del leader.waiting[:2]
        leader.prepare.applied(first)
        assert leader.prepare.outstanding.charged(b"/a") == (1, 0)

    def test_is_that_of_the_deepest_quota(self) -> None:
        leader = self.leader(b"count=-1,bytes=-1=;countHardLimit=0")
        assert leader.create(b"/a/x") == E.QUOTAEXCEEDED
        leader.set(LIMITS, b"")
        leader.create(b"/a/b")
        leader.create(b"/zookeeper/quota/a/b")
        leader.create(b"/zookeeper/quota/a/b/zookeeper_limits", b"count=-1,bytes=-1=;countHardLimit=2")
        leader.set(LIMITS, b"count=-1,bytes=-1=;countHardLimit=0")
        assert leader.create(b"/a/b/c") == 0
        assert leader.create(b"/a/b/d") == E.QUOTAEXCEEDED
        assert leader.create(b"/a/x") == E.QUOTAEXCEEDED

    def test_comes_before_the_version(self) -> None:
        leader = self.leader(b"count=-1,bytes=-1=;byteHardLimit=0")
        assert leader(OpCode.SET_DATA, SetData(b"/a", b"x", 77)).error == E.QUOTAEXCEEDED


def test_a_quota_on_the_root_is_an_ordinary_znode() -> None:
    leader = Leader(enforce_quota=True)
    path = b"/zookeeper/quota/zookeeper_limits"
    assert parent(path) == b"/zookeeper/quota"
    assert leader.create(path, b"count=-1,bytes=-1=;countHardLimit=0") == 0
    assert leader.tree.quotas == {}
    assert leader.create(b"/x") == 0


def test_a_configuration_is_stored_beside_quotas() -> None:
    leader = Leader()
    leader.create(STATS)
    leader.tree.apply(Txn(99, 0, 0, 0, 16, -1, b"/zookeeper/config", b"version=1", None))
    assert leader.shown(b"/zookeeper/config") == b"version=1"
