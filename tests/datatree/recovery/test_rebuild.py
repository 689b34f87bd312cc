"""A tree made again from a member's own files: from the snapshot that leads to the digest, whatever else lies there."""

import pytest

from datatree.digest import MASK
from datatree.log.zxid import Zxid
from datatree.record import decode_all
from datatree.recovery.rebuild import Rebuild, Start
from datatree.snapshot import SnapshotHeader, load_snapshot, snapshot_files, snapshot_path, tree_fetch_path
from datatree.tree import DataTree
from tests.datatree.histories import LINEAGE, Author, fresh_log, snapshot
from zab.simulator.ensemble.members.spoiled import is_spoiled, spoil
from zab.simulator.world.disk import FaultyDisk


class Lived:
    """A member's files: some batches, each with the digest that the right tree has there, and snapshots on the way."""

    def __init__(
        self, count: int = 30, snapshots_at: tuple[int, ...] = (10, 20), wrong_at: tuple[int, ...] = ()
    ) -> None:
        self.disk = FaultyDisk()
        self.log = fresh_log(self.disk, segment_bytes=2_000)
        self.tree = DataTree()
        author = Author()
        self.digests: dict[int, int] = {}
        for number in range(1, count + 1):
            (made,) = author.write(1)
            self.log.append([made])
            for txn in decode_all(made.body, made.first, made.count):
                self.tree.apply(txn)
            self.digests[made.zxid] = self.tree.digest
            if number in snapshots_at:
                self.log.roll()
                snapshot(self.disk, self.tree, made.chain)
            if number in wrong_at:
                self.log.roll()
                snapshot(self.disk, self._wrong(), made.chain)

    def _wrong(self) -> DataTree:
        """The tree as it is, except for one stat."""
        path = snapshot(self.disk, self.tree, bytes(16))
        _, tree = load_snapshot(self.disk, path)
        self.disk.remove(path)
        spoil(tree)
        return tree

    @property
    def zxids(self) -> list[int]:
        return list(self.digests)

    def rebuild(self, zxid: int, digest: int | None, until: int, start: Start | None = None) -> Rebuild:
        rebuild = Rebuild(self.disk, self.log, Zxid(zxid), digest, Zxid(until), start)
        while not rebuild.step():
            pass
        rebuild.set_refused_aside()
        return rebuild

    def names(self) -> list[str]:
        return self.disk.list("version-1")


@pytest.mark.parametrize("at", [0, 9, 15, 19, 29])
@pytest.mark.parametrize("is_known", [True, False])
def test_tree_is_that_of_its_position(at: int, is_known: bool) -> None:
    lived = Lived()
    zxid = lived.zxids[at]
    rebuild = lived.rebuild(zxid, lived.digests[zxid] if is_known else None, lived.zxids[-1])
    assert rebuild.tree is not None
    assert rebuild.digest_there == lived.digests[zxid]
    assert rebuild.tree.digest == rebuild.tree.recompute_digest() == lived.digests[lived.zxids[-1]]
    assert rebuild.tree.applied == lived.zxids[-1]
    assert not rebuild.problems


def test_snapshots_that_lead_elsewhere_are_set_aside_and_an_older_one_is_taken() -> None:
    lived = Lived(snapshots_at=(8,), wrong_at=(15, 22))
    zxid = lived.zxids[25]
    rebuild = lived.rebuild(zxid, lived.digests[zxid], lived.zxids[-1])
    assert rebuild.tree is not None
    assert rebuild.tree.digest == lived.digests[lived.zxids[-1]]
    assert not is_spoiled(rebuild.tree)
    assert snapshot_files(lived.disk) == [lived.zxids[7]]
    assert lived.disk.list("version-1.damaged") == [f"snapshot.{lived.zxids[at - 1]:x}" for at in (15, 22)]


def test_snapshot_that_cannot_be_read_is_passed_over_and_stays() -> None:
    lived = Lived()
    path = snapshot_path(lived.zxids[19])
    lived.disk.flip(path, 5_000)
    zxid = lived.zxids[25]
    rebuild = lived.rebuild(zxid, lived.digests[zxid], lived.zxids[-1])
    assert rebuild.tree is not None
    assert lived.disk.exists(path)
    assert any(path in problem for problem in rebuild.problems)


def test_nothing_is_found_where_no_file_leads_there() -> None:
    lived = Lived()
    zxid = lived.zxids[25]
    rebuild = lived.rebuild(zxid, (lived.digests[zxid] + 1) & MASK, lived.zxids[-1])
    assert rebuild.tree is None
    assert len(rebuild.problems) == 3, "two snapshots, and the log from its beginning"


def test_catching_up_goes_on_from_the_tree_that_there_is() -> None:
    lived = Lived()
    first = lived.rebuild(lived.zxids[12], None, lived.zxids[15])
    assert first.tree is not None
    second = lived.rebuild(first.tree.applied, None, lived.zxids[-1], first.tree)
    assert second.tree is first.tree
    assert second.tree.digest == lived.digests[lived.zxids[-1]]


def fetched(lived: Lived, at: int, *, chain: bytes | None = None) -> SnapshotHeader:
    """The snapshot there, as it comes from another member."""
    path = snapshot_path(lived.zxids[at])
    header, _ = load_snapshot(lived.disk, path)
    lived.disk.rename(path, tree_fetch_path(lived.zxids[at]))
    return header if chain is None else SnapshotHeader(header.lineage, header.zxid, chain)


def test_snapshot_of_another_member_comes_in_place_of_the_own_files() -> None:
    lived = Lived(wrong_at=(25,))
    start = fetched(lived, 19)
    rebuild = lived.rebuild(start.zxid, None, lived.zxids[-1], start)
    assert rebuild.tree is not None
    assert rebuild.tree.digest == lived.digests[lived.zxids[-1]]
    assert rebuild.digest_there == lived.digests[start.zxid]
    assert snapshot_files(lived.disk) == [lived.zxids[9], lived.zxids[24]], "its own ones are not looked at"


@pytest.mark.parametrize("harm", ["other chain", "flipped", "gone", "not where the log goes on"])
def test_snapshot_of_another_member_is_believed_only_as_it_was_offered(harm: str) -> None:
    lived = Lived()
    start = fetched(lived, 19, chain=bytes(16) if harm == "other chain" else None)
    path = tree_fetch_path(start.zxid)
    if harm == "flipped":
        lived.disk.flip(path, 5_000)
    elif harm == "gone":
        lived.disk.remove(path)
    elif harm == "not where the log goes on":
        lived.disk.remove(path)
        tree = DataTree()
        tree.applied = start.zxid
        lived.disk.rename(snapshot(lived.disk, tree, bytes(16)), path)
        start = SnapshotHeader(LINEAGE, start.zxid, bytes(16))
    rebuild = lived.rebuild(start.zxid, None, lived.zxids[-1], start)
    assert rebuild.tree is None
    assert len(rebuild.problems) == 1
