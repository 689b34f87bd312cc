"""Lists that guarded paths before a tree was loaded: what the files tell is what a tree knows that has seen it all."""

import pytest

from datatree.log.batch import build
from datatree.log.transaction_log import TransactionLog
from datatree.past_acls import LISTS_MAX, PastAcls
from datatree.record import Txn, encode
from datatree.recovery import look_back as module
from datatree.recovery.look_back import LookBack
from datatree.recovery.retention import purge
from datatree.snapshot import SnapshotError, guarded_znodes, load_snapshot, snapshot_files, snapshot_path
from datatree.tree import DataTree
from datatree.txn_changes import changes_of
from tests.datatree.histories import fresh_log, snapshot
from tests.datatree.zookeeper.histories import history
from zab.simulator.world.disk import FaultyDisk

EPOCH = 1 << 32
BOB = ((31, b"digest", b"bob:x"),)
EVE = ((31, b"digest", b"eve:x"),)


class Lived:
    """A member's disk and tree after some hundred transactions, with a snapshot after every so many."""

    def __init__(self, seed: int, count: int = 400, *, snapshot_every: int = 60) -> None:
        self.disk = FaultyDisk()
        self.log = fresh_log(self.disk)
        self.tree = DataTree()
        self.txns = [txn._replace(zxid=EPOCH + txn.zxid) for txn in history(seed, count)[0]]
        self.zxids: list[int] = []
        for start in range(0, count, 10):
            self.append(self.txns[start : start + 10])
            if (start + 10) % snapshot_every == 0:
                self.log.roll()
                snapshot(self.disk, self.tree, self.log.last[1])

    def append(self, txns: list[Txn]) -> None:
        body = b"".join(map(encode, txns))
        made = build(
            self.log.last[1],
            epoch=1,
            first=txns[0].zxid,
            count=len(txns),
            time=1,
            flags=0,
            mark=0,
            applied=0,
            digest=0,
            body=body,
        )
        self.log.append([made])
        for txn in txns:
            self.tree.apply(txn)
        self.zxids.append(made.zxid)

    @property
    def paths(self) -> list[bytes]:
        return sorted({change[2] for txn in self.txns for change in changes_of(txn)})

    def reloaded(self, zxid: int) -> DataTree:
        """The tree as after a start from the snapshot at this zxid."""
        tree = load_snapshot(self.disk, snapshot_path(zxid))[1]
        for txn in self.txns:
            if txn.zxid > zxid:
                tree.apply(txn)
        return tree


def looked_back(log: TransactionLog, upto: int, count_max: int = 1000) -> PastAcls:
    reader = LookBack(log.disk, log, upto, count_max)
    while not reader.read_slice():
        pass
    return reader.past


def known(past: PastAcls, paths: list[bytes], zxids: list[int]) -> dict:
    return {(path, zxid): set(past.since(path, zxid)) for path in paths for zxid in zxids}


@pytest.mark.parametrize("seed", range(4))
def test_a_log_from_the_beginning_tells_everything(seed: int) -> None:
    lived = Lived(seed, snapshot_every=1000)
    past = looked_back(lived.log, lived.zxids[-1])
    assert past.complete_from == 0
    assert past._ended == lived.tree.past_acls._ended
    assert len(past) > 3


@pytest.mark.parametrize("seed", range(4))
def test_the_oldest_snapshot_and_the_log_behind_it_tell_what_they_can(seed: int, monkeypatch) -> None:
    monkeypatch.setattr(module, "SLICE_BYTES", 2000)
    lived = Lived(seed)
    purge(lived.disk, lived.log, keep_count=3)
    kept = snapshot_files(lived.disk)
    assert len(kept) == 3
    assert lived.log.first_position[0] > 0
    tree = lived.reloaded(kept[-1])
    assert tree.past_acls.complete_from == kept[-1]
    tree.past_acls.prepend(looked_back(lived.log, kept[-1]), kept[-1])
    assert tree.past_acls.complete_from == kept[0]
    zxids = list(range(kept[0] + 1, lived.zxids[-1] + 1, 7))
    assert known(tree.past_acls, lived.paths, zxids) == known(lived.tree.past_acls, lived.paths, zxids)
    assert any(known(tree.past_acls, lived.paths, zxids[:1]).values())


def test_the_znodes_of_a_snapshot_that_are_not_open() -> None:
    lived = Lived(3)
    zxid = snapshot_files(lived.disk)[-1]
    tree = load_snapshot(lived.disk, snapshot_path(zxid))[1]
    expected = {path: tree.acl(tree.get(path)) for path in [b"/", *tree.descendants(b"/")]}
    found = dict(row for rows in guarded_znodes(lived.disk, snapshot_path(zxid)) for row in rows)
    assert found == {path: acl for path, acl in expected.items() if acl is not None}
    assert len(found) > 1


def spoil(disk: FaultyDisk, path: str, offset: int) -> None:
    data = bytearray(disk.read(path))
    data[offset] ^= 0xFF
    disk.replace(path, bytes(data))


def test_a_damaged_snapshot_is_passed_over_for_the_next() -> None:
    lived = Lived(1)
    purge(lived.disk, lived.log, keep_count=3)
    kept = snapshot_files(lived.disk)
    spoil(lived.disk, snapshot_path(kept[0]), 120)
    with pytest.raises(SnapshotError):
        list(guarded_znodes(lived.disk, snapshot_path(kept[0])))
    assert looked_back(lived.log, kept[-1]).complete_from == kept[1]


def test_nothing_is_found_where_nothing_older_is_kept_or_readable() -> None:
    lived = Lived(1)
    purge(lived.disk, lived.log, keep_count=3)
    kept = snapshot_files(lived.disk)
    assert looked_back(lived.log, kept[0]).complete_from == kept[0]
    for segment in lived.log.segments:
        if segment.previous[0] == kept[0]:
            spoil(lived.disk, segment.path, 300)
    past = looked_back(lived.log, kept[-1])
    assert (len(past), past.complete_from) == (0, kept[-1])


def test_files_that_go_while_they_are_read_end_it() -> None:
    lived = Lived(1)
    upto = lived.zxids[-1]
    reader = LookBack(lived.disk, lived.log, upto, 1000)
    purge(lived.disk, lived.log, keep_count=3)
    for zxid in snapshot_files(lived.disk):
        lived.disk.remove(snapshot_path(zxid))
    assert reader.read_slice()
    assert reader.past.complete_from == upto


def test_more_guarded_znodes_than_the_limit_end_it(monkeypatch) -> None:
    lived = Lived(1)
    monkeypatch.setattr(module, "GUARDED_COUNT_MAX", 1)
    past = looked_back(lived.log, lived.zxids[-1])
    assert (len(past), past.complete_from) == (0, lived.zxids[-1])


def test_what_is_found_is_bounded_as_what_is_noted() -> None:
    lived = Lived(1, snapshot_every=1000)
    past = looked_back(lived.log, lived.zxids[-1], count_max=3)
    assert len(past) <= 3
    assert past.complete_from > 0


def test_what_was_before_stands_before_what_came_later() -> None:
    older, past = PastAcls(3), PastAcls(10)
    older.ended(b"/a", 5, BOB)
    older.ended(b"/b", 6, EVE)
    older.ended(b"/a", 7, EVE)
    past.ended(b"/c", 11, BOB)
    past.ended(b"/a", 12, BOB)
    past.prepend(older, 10)
    assert past.complete_from == 3
    assert list(past.since(b"/a", 1)) == [EVE, BOB]
    assert list(past.since(b"/a", 8)) == [BOB]
    assert (list(past.since(b"/b", 1)), list(past.since(b"/c", 1))) == ([EVE], [BOB])
    assert list(past._ended) == [b"/b", b"/c", b"/a"]


def test_what_does_not_reach_up_to_it_is_of_no_use() -> None:
    older, past = PastAcls(3), PastAcls(10)
    older.ended(b"/a", 5, BOB)
    past.prepend(older, 9)
    assert (len(past), past.complete_from) == (0, 10)


def test_together_they_keep_to_the_limits() -> None:
    older, past = PastAcls(0, 20), PastAcls(50, 20)
    for zxid in range(1, 20):
        older.ended(b"/%d" % zxid, zxid, BOB)
    for zxid in range(51, 61):
        past.ended(b"/%d" % zxid, zxid, BOB)
    past.prepend(older, 50)
    assert len(past) <= 20
    assert past.complete_from >= 9
    older, past = PastAcls(0), PastAcls(50)
    for number in range(1, LISTS_MAX):
        older.ended(b"/a", number, ((31, b"digest", b"u%d:x" % number),))
        past.ended(b"/a", 50 + number, ((31, b"digest", b"v%d:x" % number),))
    past.prepend(older, 50)
    assert len(list(past.since(b"/a", 0))) == LISTS_MAX
    assert past.complete_from == LISTS_MAX - 2
