"""A member goes on with a snapshot that it is given: as another history, wholly or not at all (B8 restored members)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from datatree.log.epochs import MemberRecord, load_epochs, load_member, load_record, save_member
from datatree.log.zxid import EPOCH_MAX
from datatree.opcodes import OpCode
from datatree.paths import CONFIG
from datatree.record import Txn
from datatree.recovery.recover import recover
from datatree.recovery.restoring import (
    BEFORE,
    RESTORED,
    Taken,
    drop_foreign,
    hash_of,
    restored_lineage,
    stage,
    take_staged,
)
from datatree.snapshot import SnapshotError, SnapshotHeader, SnapshotWriter, load_snapshot, snapshot_path
from datatree.tree import DataTree
from tests.datatree.histories import LINEAGE, Author, snapshot, synchronized
from tests.datatree.recovery.restoring import given, is_old, lineage_of, lived, received, sent, start
from zab.host.storage.disk import RealDisk
from zab.simulator.world.disk import FaultyDisk, PowerLossError


def restored(disk: FaultyDisk, path: str) -> tuple[SnapshotHeader, Taken]:
    staged = stage(disk, path, lineage_of(disk))
    taken = take_staged(disk, 1)
    assert taken is not None
    return staged, taken


def test_a_member_goes_on_with_what_it_is_given() -> None:
    disk, path = given(Author())
    header, tree = load_snapshot(disk, path)
    staged, taken = restored(disk, path)
    disk.crash(Random(0))
    recovered = recover(disk, 1)
    assert (recovered.amnesiac, recovered.damage, recovered.problems, recovered.pending) == (False, [], [], [])
    assert (recovered.tree.digest, recovered.tree.znode_count) == (tree.digest, tree.znode_count)
    assert recovered.last == (header.zxid, staged.chain)
    assert recovered.beginning == recovered.mark == header.zxid
    assert recovered.lineage == taken.lineage == staged.lineage != LINEAGE
    assert not recovered.founder, "one that holds all of its history is a member like any other"
    assert recovered.session_keys == []


def test_what_it_has_promised_of_epochs_stays() -> None:
    disk, path = given(Author(), accepted=7)
    restored(disk, path)
    assert load_epochs(disk) == (7, 1)


def test_an_epoch_of_the_snapshot_that_is_later_is_over() -> None:
    author = Author(epoch=12)
    author.write(2)
    disk = lived(Author())
    restored(disk, sent(disk, author))
    assert load_epochs(disk) == (12, 12)


def test_what_was_there_is_kept_as_a_member_had_it() -> None:
    author = Author()
    disk, path = given(author, accepted=7)
    _, taken = restored(disk, path)
    disk.crash(Random(0))
    assert taken.before == BEFORE + taken.lineage.hex()
    old = FaultyDisk()
    for name in disk.list(taken.before):
        old.replace(f"version-1/{name}", disk.read(f"{taken.before}/{name}"))
    recovered = recover(old, 1)
    assert (recovered.amnesiac, recovered.damage, recovered.last) == (False, [], author.last)
    assert recovered.epochs == (7, 1)


def test_members_that_are_given_the_same_are_one_ensemble_again() -> None:
    """Whatever each of them had of the history, and had promised."""
    ahead, path = given(Author(), accepted=7)
    behind = FaultyDisk()
    synchronized(behind)
    other = received(behind, ahead.read(path), load_snapshot(ahead, path)[0].zxid)
    assert restored(ahead, path)[0] == restored(behind, other)[0]
    assert recover(ahead).last == recover(behind).last


def test_the_same_state_again_is_another_history() -> None:
    """Else one that still has the first one would take part in the second."""
    disk, path = given(Author())
    data, zxid = disk.read(path), load_snapshot(disk, path)[0].zxid
    _, first = restored(disk, path)
    disk.remove(path)
    _, second = restored(disk, received(disk, data, zxid))
    assert first.lineage != second.lineage
    assert recover(disk, 1).lineage == second.lineage
    assert {first.before, second.before} == {BEFORE + each.lineage.hex() for each in (first, second)}


@pytest.mark.parametrize(
    "other",
    [
        restored_lineage(bytes(16), 1, b"2", b"c"),
        restored_lineage(LINEAGE, 3, b"2", b"c"),
        restored_lineage(LINEAGE, 1, b"3", b"c"),
        restored_lineage(LINEAGE, 1, b"2", b"d"),
    ],
    ids=["lineage", "zxid", "state", "configuration"],
)
def test_its_lineage_follows_from_all_of_it(other: bytes) -> None:
    assert restored_lineage(LINEAGE, 1, b"2", b"c") == restored_lineage(LINEAGE, 1, b"2", b"c") != other


def test_what_is_staged_is_of_the_configuration_in_force() -> None:
    disk, path = given(Author())
    staged = stage(disk, path, LINEAGE, b"server.1=here\nversion=1")
    assert staged.lineage == restored_lineage(LINEAGE, staged.zxid, hash_of(disk, path), b"server.1=here\nversion=1")


def test_of_two_that_were_given_the_later_one_counts() -> None:
    disk, path = given(Author())
    lineage = lineage_of(disk)
    disk_author = Author(seed=9)
    disk_author.write(1)
    stage(disk, path, lineage)
    later = stage(disk, sent(disk, disk_author), lineage)
    taken = take_staged(disk, 1)
    assert taken is not None
    assert (taken.lineage, taken.zxid) == (later.lineage, later.zxid)
    assert take_staged(disk, 1) is None


def test_nobody_is_in_its_ensemble_but_whom_the_file_names() -> None:
    author = Author()
    author.write(1)
    tree, zxid = author.tree, author.last[0] + 1
    tree.apply(Txn(zxid, 0, 0, 0, OpCode.RECONFIG, -1, CONFIG, b"server.1=lost\nversion=1", None))
    other = FaultyDisk()
    path = snapshot(other, tree, author.last[1])
    disk = lived(Author(seed=5))
    restored(disk, received(disk, other.read(path), zxid))
    recovered = recover(disk, 1)
    assert recovered.tree.configuration == b""
    assert recovered.last[0] == recovered.tree.applied == zxid
    assert recovered.tree.digest == recovered.tree.recompute_digest()


# What cannot be gone on with.


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "spoil", [flipped, lambda data: data[:-1], lambda data: data + b"\0"], ids=["flipped", "short", "long"]
)
def test_what_is_not_whole_changes_nothing(spoil: Callable[[bytes], bytes]) -> None:
    disk, path = given(Author())
    data, zxid = disk.read(path), load_snapshot(disk, path)[0].zxid
    disk.remove(path)
    before = disk.image()
    path = received(disk, spoil(data), zxid)
    with pytest.raises(SnapshotError):
        stage(disk, path, LINEAGE)
    disk.remove(path)
    assert take_staged(disk, 1) is None
    assert disk.image() == before


def test_an_ephemeral_of_nobody_is_no_state() -> None:
    """No session that ends would ever remove it."""
    tree = DataTree()
    tree.apply(Txn(1, 0, 77, 0, OpCode.CREATE, 1, b"/e", b"", (None, 77)))
    other, disk = FaultyDisk(), lived(Author())
    path = received(disk, other.read(snapshot(other, tree, bytes(16))), 1)
    with pytest.raises(SnapshotError, match="session 0x4d, but not the session"):
        stage(disk, path, LINEAGE)


def test_a_state_before_any_transaction_is_none() -> None:
    disk, other = lived(Author()), FaultyDisk()
    SnapshotWriter(other, DataTree().begin_snapshot(), LINEAGE, bytes(16)).write()
    with pytest.raises(SnapshotError, match="no transaction"):
        stage(disk, received(disk, other.read(snapshot_path(0)), 0), LINEAGE)


def test_epochs_are_left_for_who_goes_on() -> None:
    author = Author(epoch=EPOCH_MAX // 2 + 1)
    author.write(1)
    disk = lived(Author())
    with pytest.raises(SnapshotError, match="no epoch comes after"):
        stage(disk, sent(disk, author), LINEAGE)


@pytest.mark.parametrize("at", [None, 10, 300, -1])
def test_what_was_staged_and_is_damaged_is_told(at: int | None) -> None:
    """Its own history is not given up for that."""
    disk, path = given(Author())
    staged = stage(disk, path, lineage_of(disk))
    data = bytearray(disk.read(snapshot_path(staged.zxid, RESTORED)))
    if at is None:
        data.clear()
    else:
        data[at] ^= 1
    disk.replace(snapshot_path(staged.zxid, RESTORED), bytes(data))
    before = disk.image()
    with pytest.raises(SnapshotError):
        take_staged(disk, 1)
    assert disk.image() == before


def test_a_snapshot_of_the_same_zxid_that_is_being_written_meanwhile_stays_what_it_is(tmp_path: Path) -> None:
    disk, author = RealDisk(str(tmp_path)), Author()
    author.write(3)
    path = sent(disk, author)
    writer = SnapshotWriter(disk, author.tree.begin_snapshot(), LINEAGE, author.last[1])
    assert not writer.write_slice()
    staged = stage(disk, path, LINEAGE)
    writer.write()
    assert load_snapshot(disk, writer.path)[0] == SnapshotHeader(LINEAGE, *author.last)
    assert load_snapshot(disk, snapshot_path(staged.zxid, RESTORED))[0] == staged
    disk.close()


def test_what_the_disk_does_not_keep_is_not_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that says that nothing is changed does not continue with it at a later start."""
    disk, path = given(Author())

    def fails(directory: str) -> None:
        if directory == RESTORED:
            raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(disk, "sync_directory", fails)
        with pytest.raises(OSError, match="Input/output error"):
            stage(disk, path, LINEAGE)
    assert take_staged(disk, 1) is None


def test_what_is_staged_is_for_the_history_that_is_here() -> None:
    """A member that was emptied, to be filled by the others, has no promises left; and what forced recovery has made is
    what somebody wanted."""
    disk, path = given(Author())
    stage(disk, path, lineage_of(disk))
    assert not drop_foreign(disk)
    save_member(disk, MemberRecord(bytes(16), 1))
    assert drop_foreign(disk)
    assert take_staged(disk, 1) is None
    assert load_member(disk) == MemberRecord(bytes(16), 1)
    staged = stage(disk, path, lineage_of(disk))
    for name in disk.list("version-1"):
        disk.remove(f"version-1/{name}")
    assert disk.exists(snapshot_path(staged.zxid, RESTORED))
    assert drop_foreign(disk)
    assert take_staged(disk, 1) is None
    assert disk.list("version-1") == []


# Power cuts.


def test_a_power_cut_while_it_is_staged_leaves_the_one_or_the_other() -> None:
    outcomes = set()
    for point in count(1):
        author = Author()
        disk, path = given(author)
        lineage = lineage_of(disk)
        disk.crash_after(point)
        try:
            staged = stage(disk, path, lineage)
        except PowerLossError:
            disk.crash(Random(point))
        else:
            break
        taken = start(disk)
        assert is_old(disk, author) == (taken is None), point
        outcomes.add(taken is None)
    assert outcomes == {True, False}
    assert staged.lineage == restored_lineage(lineage, staged.zxid, hash_of(disk, path), b"")


@pytest.mark.parametrize("seed", range(4))
def test_after_a_power_cut_at_any_step_the_next_start_goes_on(seed: int) -> None:
    for point in count(1):
        author = Author()
        disk, path = given(author, accepted=7)
        staged = stage(disk, path, lineage_of(disk))
        rng = Random(seed * 1000 + point)
        disk.crash_after(point)
        is_cut = False
        try:
            start(disk)
        except PowerLossError:
            is_cut = True
            disk.crash(rng)
            assert load_record(disk, "acceptedEpoch") == "7", "a promise is never lost"
            disk.crash_after(rng.randint(1, 12))
            try:
                start(disk)
            except PowerLossError:
                disk.crash(rng)
            disk.crash_after(None)
            start(disk)
        disk.crash_after(None)
        disk.crash(rng)
        recovered = recover(disk, 1)
        assert (recovered.amnesiac, recovered.damage, recovered.problems) == (False, [], []), point
        assert recovered.last == (staged.zxid, staged.chain), point
        assert load_member(disk) == MemberRecord(staged.lineage, 1)
        assert load_epochs(disk) == (7, 1)
        before = BEFORE + staged.lineage.hex()
        old = FaultyDisk()
        for name in disk.list(before):
            old.replace(f"version-1/{name}", disk.read(f"{before}/{name}"))
        assert recover(old, 1).last == author.last, point
        if not is_cut:
            break


def test_logs_on_a_disk_of_their_own_stay_there(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path / "data"), str(tmp_path / "log"))
    memory, path = given(Author())
    for name in memory.list("version-1"):
        if f"version-1/{name}" != path:
            disk.replace(f"version-1/{name}", memory.read(f"version-1/{name}"))
    early = Author(seed=9)
    early.write(3)
    stage(disk, sent(disk, early), LINEAGE)
    taken = take_staged(disk, 1)
    assert taken is not None
    assert recover(disk, 1).last[0] == taken.zxid
    assert [each.name for each in (tmp_path / "log" / "version-1").glob("log.*")] == []
    assert list((tmp_path / "log" / taken.before).glob("log.*"))
    assert not list((tmp_path / "data" / taken.before).glob("log.*"))
    disk.close()
