"""What the log, its snapshots and recovery must not do, one rule a test: unlucky moments, and bytes from elsewhere.

The rules are those that no other test of this room misses when they are taken out (`make mutants`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from datatree.log import epochs
from datatree.log.batch import genesis
from datatree.log.epochs import load_epochs
from datatree.log.frame import FRAME_HEADER_BYTES, pack_frame, read_header, seed_of
from datatree.log.segment import SEGMENT_HEADER_BYTES, Index, SegmentHeader, log_path, read_index
from datatree.log.transaction_log import TransactionLog, write_segment
from datatree.recovery.recover import recover
from datatree.recovery.retention import purge
from datatree.recovery.stale import set_aside_snapshots
from datatree.snapshot import SnapshotHeader, SnapshotWriter, install_snapshot, snapshot_files, snapshot_path
from tests.datatree.histories import LINEAGE, Author, fresh_log, held, raws, reopened, snapshot, synchronized
from tests.datatree.recovery.aged_files import aged
from zab.simulator.world.disk import FaultyDisk, PowerLossError

OTHER_LINEAGE = b"another lineage!"
SEEDS = range(12)


def lived(count: int = 6) -> tuple[FaultyDisk, Author]:
    """A disk with a closed log of so many batches."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    for _ in range(count):
        log.append(author.write(1))
    log.close()
    return disk, author


def upto(author: Author, count: int) -> Author:
    """Another leader that has the first batches of this one."""
    earlier = Author()
    for batch in author.batches[:count]:
        earlier.apply(batch)
    return earlier


# ------------------------------------------------------------------------------------------------- bytes from elsewhere


def test_epochs_that_contradict_each_other_are_none() -> None:
    """Both files are valid, each by itself."""
    disk = FaultyDisk()
    epochs.save_record(disk, epochs.ACCEPTED_EPOCH, "5")
    epochs.save_record(disk, epochs.CURRENT_EPOCH, "7")
    assert load_epochs(disk) is None
    epochs.save_record(disk, epochs.ACCEPTED_EPOCH, "7")
    assert load_epochs(disk) == (7, 7)


def test_a_frame_of_another_file_is_none() -> None:
    """Its bytes stand where they did in that file, as blocks that a file system gives to another file."""
    frame = pack_frame(seed_of(1), 64, 0)
    assert read_header(frame, 0, seed_of(1), 64) == (0, 0)
    assert read_header(frame, 0, seed_of(2), 64) is None


def test_an_index_of_an_earlier_file_of_the_same_name_is_none() -> None:
    index = Index(0)
    index.add(SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES, Author().batch())
    assert read_index(index.pack(1), 1) == index
    assert read_index(index.pack(1), 2) is None


def test_a_snapshot_of_another_lineage_is_not_loaded() -> None:
    disk, author = lived()
    stranger = Author(epoch=9)
    stranger.write(1)
    SnapshotWriter(disk, stranger.tree.begin_snapshot(), OTHER_LINEAGE, stranger.last[1]).write()
    recovered = recover(disk)
    assert not recovered.damage
    assert recovered.snapshot_zxid == 0
    assert recovered.last == author.last
    assert snapshot_files(disk) == []


def test_batches_that_a_later_file_has_taken_the_place_of_are_void() -> None:
    """A truncation within a frame: what stays of the frame is in a file of its own, and the frame is still there."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(6))
    log.close()
    after = author.cut(4)
    rest = after.write(2)
    write_segment(disk, SegmentHeader(LINEAGE, (after.batches[3].zxid, after.batches[3].chain), rest[0].first), rest)
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert held(log) == raws(after.batches)
    assert log.floor(author.last[0]) == (after.batches[3].zxid, after.batches[3].chain)
    first = log.segments[0]
    assert [batch for _, batch in first.batches(disk, 0)] == author.batches[:4]


# ------------------------------------------------------------------------------------------------------ unlucky moments


def test_a_torn_tail_is_gone_from_the_file_before_the_log_goes_on() -> None:
    """Were it still there, it would be damage as soon as there is a later file."""
    disk, author = lived()
    path = log_path(author.batches[0].first)
    whole = disk.size(path)
    disk.open_append(path, create=False, offset=whole).write(b"torn" * 100)
    recovered, log = reopened(disk)
    assert not recovered.damage
    assert disk.size(path) == whole
    log.append(author.write(1))
    log.close()
    again = recover(disk)
    assert not again.damage
    assert again.last == author.last


@pytest.mark.slow
def test_a_lineage_is_changed_at_any_moment_without_damage() -> None:
    """A snapshot of the old lineage below the old mark, when its log is gone, must not look like a loss."""
    for seed in SEEDS:
        for point in range(1, 80):
            disk, author = lived()
            earlier = upto(author, 3)
            snapshot(disk, earlier.tree, earlier.last[1])
            _, log = reopened(disk)
            log.set_mark(author.last[0])
            done = is_done_before_the_power_goes(disk, point, partial(change_lineage, disk, log))
            disk.crash(Random(seed * 100 + point))
            recovered = recover(disk)
            assert not recovered.damage, (seed, point, recovered.damage)
            if done:
                break
        else:
            raise AssertionError("never done")


def change_lineage(disk: FaultyDisk, log: TransactionLog) -> None:
    log.reset(0, genesis(OTHER_LINEAGE), OTHER_LINEAGE)
    set_aside_snapshots(disk, OTHER_LINEAGE, 0, genesis(OTHER_LINEAGE))


def is_done_before_the_power_goes(disk: FaultyDisk, point: int, work: Callable[[], None]) -> bool:
    disk.crash_after(point)
    try:
        work()
    except PowerLossError:
        return False
    return True


def snapshots_at(*counts: int) -> tuple[FaultyDisk, list[int]]:
    disk, author = lived()
    for count in counts:
        earlier = upto(author, count)
        snapshot(disk, earlier.tree, earlier.last[1])
    return disk, snapshot_files(disk)


def test_snapshots_are_set_aside_newest_first_at_any_moment() -> None:
    """What is left of them is a beginning: an older one is never missing where a newer one is there."""
    for seed in SEEDS:
        for point in range(1, 20):
            disk, zxids = snapshots_at(2, 4, 6)
            done = is_done_before_the_power_goes(
                disk, point, partial(set_aside_snapshots, disk, OTHER_LINEAGE, 0, genesis(OTHER_LINEAGE))
            )
            disk.crash(Random(seed * 100 + point))
            left = snapshot_files(disk)
            assert left == zxids[: len(left)], (seed, point)
            if done:
                assert left == []
                break


def test_a_snapshot_above_the_position_is_set_aside() -> None:
    disk, zxids = snapshots_at(2, 4)
    header = recover(disk)
    assert header.snapshot_zxid == zxids[1]
    chain = next(batch.chain for batch in header.recent if batch.zxid > zxids[0])
    set_aside_snapshots(disk, LINEAGE, zxids[1] - 1, chain)
    assert snapshot_files(disk) == [zxids[0]]


def test_each_file_is_gone_for_good_before_the_next_is_removed() -> None:
    disk, _, log = aged()
    disk.log.clear()
    removed = purge(disk, log).removed
    assert len(removed) > 2
    steps = [step for step in disk.log if ".index" not in step]
    assert steps == [step for path in removed for step in (f"remove {path}", "sync_directory version-1")]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_snapshot_that_is_written_is_there_after_the_power_was_gone(seed: int) -> None:
    disk, author = lived()
    disk.crash(Random(0))
    path = snapshot(disk, author.tree, author.last[1])
    disk.crash(Random(seed))
    assert disk.exists(path)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_snapshot_that_is_installed_is_there_after_the_power_was_gone(seed: int) -> None:
    disk, author = lived()
    path = snapshot(disk, author.tree, author.last[1])
    fetched = f"{path}.fetch"
    disk.rename(path, fetched)
    disk.sync_directory("version-1")
    install_snapshot(disk, fetched, SnapshotHeader(LINEAGE, author.tree.applied, author.last[1]))
    disk.crash(Random(seed))
    assert disk.exists(snapshot_path(author.tree.applied))
