"""Reading through the files of a running member: every damaged byte that counts is found, and nothing else is."""

from __future__ import annotations

import errno

import pytest

from datatree.log import segment as segment_module
from datatree.log.segment import SEGMENT_HEADER_BYTES
from datatree.log.transaction_log import TransactionLog
from datatree.recovery import scrub as module
from datatree.recovery.recover import recover
from datatree.recovery.scrub import Found, Scrub
from datatree.snapshot import snapshot_path
from tests.datatree.histories import START, Author, fresh_log, snapshot, synchronized
from zab.simulator.world.disk import FaultyDisk


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEP_BYTES", 200)


def lived(count: int = 24, snapshots_at: tuple[int, ...] = (8, 16)) -> tuple[FaultyDisk, Author, TransactionLog]:
    """A running member: its log is open."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=900)
    for number in range(1, count + 1):
        log.append(author.write(1))
        if number in snapshots_at:
            snapshot(disk, author.tree, author.last[1])
    return disk, author, log


def scrubbed(disk: FaultyDisk, log: TransactionLog) -> list[Found]:
    scrub = Scrub(disk, log)
    while not scrub.step():
        pass
    return scrub.take()


def test_where_nothing_is_wrong_nothing_is_found_and_all_is_read_in_steps() -> None:
    disk, _, log = lived()
    scrub = Scrub(disk, log)
    steps = 1
    while not scrub.step():
        steps += 1
    assert scrub.take() == []
    assert scrub.read_bytes > log.size_bytes / 2
    assert steps > 20


def test_each_bit_of_the_log_that_counts_is_found_and_says_which_snapshot_is_needed() -> None:
    disk, author, log = lived()
    newest = author.batches[15].zxid
    for segment in log.segments:
        for at in range(0, segment.end, 7):
            disk.flip(segment.path, 8 * at + at % 8)
            [found] = scrubbed(disk, log)
            assert found.path == segment.path
            assert found.offset <= at
            assert found.needs == (segment.last[0] if segment.last[0] > newest else 0)
            assert not found.is_record
            disk.flip(segment.path, 8 * at + at % 8)
    assert scrubbed(disk, log) == []


@pytest.mark.parametrize(("number", "is_newest"), [(8, False), (16, True)])
def test_a_damaged_snapshot_is_set_aside_and_the_newest_is_needed_again(number: int, is_newest: bool) -> None:
    disk, author, log = lived()
    zxid = author.batches[number - 1].zxid
    path = snapshot_path(zxid)
    disk.flip(path, 8 * (disk.size(path) // 2))
    [found] = scrubbed(disk, log)
    assert (found.path, found.needs) == (path, zxid if is_newest else 0)
    assert disk.list("version-1.damaged") == [path.removeprefix("version-1/")]
    assert scrubbed(disk, log) == []
    assert not recover(disk).damage


@pytest.mark.parametrize("let_go", [False, True])
def test_snapshots_stay_where_no_other_is_whole_and_the_log_begins_with_one(let_go: bool) -> None:
    """An error of the disk may pass, and a start needs one of them then."""
    disk, author, log = lived()
    paths = [snapshot_path(author.batches[number - 1].zxid) for number in (8, 16)]
    if let_go:
        oldest = log.segments[0]
        assert oldest.last[0] <= author.batches[7].zxid
        log.release({oldest.path})
        disk.remove(oldest.path)
        assert log.first_position[0] > 0
    for path in paths:
        disk.fail_reads(path)
    assert [found.path for found in scrubbed(disk, log)] == paths
    assert disk.list("version-1.damaged") == ([] if let_go else [path.removeprefix("version-1/") for path in paths])
    for path in paths:
        disk.fail_reads(path, None)
    if let_go:
        disk.fail_reads(paths[0])
        assert [found.path for found in scrubbed(disk, log)] == paths[:1]
        assert disk.list("version-1.damaged") == [paths[0].removeprefix("version-1/")]
    assert not recover(disk).damage


@pytest.mark.parametrize("name", ["acceptedEpoch", "currentEpoch", "member"])
def test_a_damaged_record_is_found(name: str) -> None:
    disk, _, log = lived()
    disk.flip(f"version-1/{name}", 2)
    assert [(found.path, found.is_record) for found in scrubbed(disk, log)] == [(f"version-1/{name}", True)]


def test_a_file_that_the_disk_cannot_read_is_damaged_but_not_for_want_of_descriptors() -> None:
    disk, author, log = lived()
    path = log.segments[0].path
    disk.fail_reads(path, errno.EIO)
    assert [found.path for found in scrubbed(disk, log)] == [path]
    disk.fail_reads(path, errno.EMFILE)
    assert scrubbed(disk, log) == []
    disk.fail_reads(snapshot_path(author.batches[15].zxid), errno.EMFILE)
    assert scrubbed(disk, log) == []
    assert not disk.list("version-1.damaged")


def test_what_is_cut_or_let_go_meanwhile_is_no_damage() -> None:
    disk, author, log = lived(snapshots_at=())
    scrub = Scrub(disk, log)
    for _ in range(3):
        assert not scrub.step()
    oldest = log.segments[1].path
    log.release({log.segments[0].path, oldest})
    disk.remove(oldest)
    log.truncate(author.batches[19].zxid, author.batches[19].chain)
    log.append(author.cut(20).write(3))
    while not scrub.step():
        pass
    assert scrub.take() == []


def test_what_is_replaced_while_it_is_read_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "_READ_BYTES", 300)
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    for _ in range(20):
        log.append(author.write(1))
    scrub = Scrub(disk, log)
    for _ in range(4):
        assert not scrub.step()
    # A file of the same name takes the place of the one that is read.
    log.truncate(*START)
    other = Author(seed=9)
    log.append(other.write(30, data_bytes=33))
    while not scrub.step():
        pass
    assert scrub.take() == []


def test_with_a_snapshot_above_it_the_damage_costs_the_next_start_nothing() -> None:
    disk, author, log = lived(snapshots_at=(8,))
    segment = log.segments[-2]
    disk.flip(segment.path, 8 * (SEGMENT_HEADER_BYTES + 40))
    [found] = scrubbed(disk, log)
    assert found.needs == segment.last[0]
    assert recover(disk).damage
    snapshot(disk, author.tree, author.last[1])
    log.append(author.write(1))
    log.close()
    [found] = scrubbed(disk, log)
    assert not found.needs
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.last == author.last
