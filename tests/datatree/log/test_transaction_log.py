import errno
from random import Random

import pytest

from datatree.log.batch import genesis
from datatree.log.epochs import load_mark, load_member
from datatree.log.frame import FRAME_HEADER_BYTES, scan
from datatree.log.segment import SEGMENT_HEADER_BYTES, LogDamagedError, index_path, log_files, log_path, read_index
from datatree.log.transaction_log import SPARE, LogFailedError, NotHeldError
from datatree.recovery.retention import purge
from datatree.recovery.stale import set_aside_snapshots
from tests.datatree.histories import LINEAGE, START, Author, fresh_log, held, raws, reopened, snapshot, synchronized
from zab.simulator.world.disk import FaultyDisk, PowerLossError


def test_appended_batches_read_back_unchanged_in_order():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    batches = author.write(20)
    log.append(batches[:7])
    log.append(batches[7:8])
    log.append(batches[8:])
    assert log.last == author.last
    assert held(log) == raws(batches)


def test_one_append_is_one_write():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(1))
    before = disk.operations
    log.append(author.write(5))
    assert disk.operations == before + 1


def test_name_of_a_new_file_is_durable_before_its_first_append_returns():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(3))
    disk.crash(Random(1))
    assert reopened(disk)[0].last == author.last


def test_file_layout_is_the_documented_one():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    one, two = author.write(2)
    log.append([one])
    log.append([two])
    log.idle()
    data = disk.read(log_path(one.first))
    assert data[:8] == b"ZLOG\0\0\0\1"
    assert data[8:24] == LINEAGE
    assert int.from_bytes(data[24:32]) == 0
    assert data[32:48] == genesis(LINEAGE)
    assert int.from_bytes(data[48:56]) == one.first
    at = SEGMENT_HEADER_BYTES
    for synced, raw in ((0, one.raw), (at + FRAME_HEADER_BYTES + len(one.raw), two.raw)):
        assert data[at : at + 4] == b"ZFRM"
        assert int.from_bytes(data[at + 4 : at + 8]) == len(raw)
        assert int.from_bytes(data[at + 8 : at + 16]) == at
        assert int.from_bytes(data[at + 16 : at + 24]) == synced
        at += FRAME_HEADER_BYTES
        assert data[at : at + len(raw)] == raw
        at += len(raw)
    assert int.from_bytes(data[at + 4 : at + 8]) == 0
    assert int.from_bytes(data[at + 16 : at + 24]) == at
    assert len(data) == at + FRAME_HEADER_BYTES


def test_idle_writes_one_frame_until_the_next_append():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.idle()
    assert disk.operations == 0
    log.append(author.write(1))
    log.idle()
    size = log.size_bytes
    log.idle()
    assert log.size_bytes == size
    log.append(author.write(1))
    log.idle()
    assert log.size_bytes > size + FRAME_HEADER_BYTES


def test_files_roll_by_size_and_on_request():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=1000)
    batches = author.write(30)
    for batch in batches:
        log.append([batch])
    assert all(segment.end <= 1000 for segment in log.segments)
    assert len(log.segments) > 5
    log.roll()
    assert log.current_bytes == 0
    more = author.write(1)
    log.append(more)
    assert log_files(disk)[-1] == more[0].first
    assert held(log) == raws(batches + more)


def test_batch_larger_than_a_file_has_one_alone():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=500)
    batches = [author.batch(1, data_bytes=2000) for _ in range(3)]
    log.append(batches)
    log.append(author.write(1))
    assert len(log.segments) == 2
    assert held(log) == raws(author.batches)


@pytest.mark.parametrize("segment_bytes", [600, 4000, 1 << 20])
def test_floor_and_read_agree_with_the_list_of_batches(segment_bytes):
    disk, author = FaultyDisk(), Author(seed=segment_bytes)
    log = fresh_log(disk, segment_bytes=segment_bytes)
    for _ in range(15):
        log.append(author.write(author.rng.randint(1, 4)))
    author.epoch = 2
    log.append(author.write(4))
    ends = [START] + [(batch.zxid, batch.chain) for batch in author.batches]
    asked = {0, 1, author.last[0] + 7, 2 << 32} | {zxid + off for zxid, _ in ends for off in (-1, 0, 1)}
    for zxid in sorted(asked - {-1}):
        assert log.floor(zxid) == max(end for end in ends if end[0] <= zxid)
    for number, (zxid, _) in enumerate(ends):
        for bytes_max in (1, 700, 1 << 30):
            expected, total = [], 0
            for batch in author.batches[number:]:
                total += len(batch.raw)
                if expected and total > bytes_max:
                    break
                expected.append(batch.raw)
            assert raws(log.read(zxid, bytes_max)) == expected
            assert log.read_from(zxid, bytes_max)[0] == ends[number]


def test_reads_begin_near_the_position_in_a_large_file():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append([author.batch(1, data_bytes=5000) for _ in range(200)])
    reads = []
    original = disk.read
    disk.read = lambda path, offset=0, length=None: reads.append(length) or original(path, offset, length)
    target = author.batches[180]
    assert log.floor(target.zxid) == (target.zxid, target.chain)
    assert raws(log.read(target.zxid, 1)) == [author.batches[181].raw]
    assert len(reads) == 2


def test_closed_file_gets_an_index_of_every_batch():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    batches = author.write(10)
    log.append(batches[:4])
    log.append(batches[4:])
    log.close()
    path = log_path(batches[0].first)
    data = disk.read(path)
    index = read_index(disk.read(index_path(path)), int.from_bytes(data[60:64]))
    assert index is not None
    assert [data[offset : offset + 84] for offset in index.offsets] == [batch.raw[:84] for batch in batches]
    assert list(index.zxids) == [batch.zxid for batch in batches]
    assert list(index.times) == [batch.time for batch in batches]
    assert index.end == len(data)


@pytest.mark.parametrize("damage", ["missing", "flipped", "another file's"])
def test_index_that_is_no_use_is_not_used(damage):
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=1000)
    for _ in range(20):
        log.append(author.write(1))
    log.close()
    first, second = (index_path(log_path(first)) for first in log_files(disk)[:2])
    if damage == "missing":
        disk.remove(first)
    elif damage == "flipped":
        disk.flip(first, 8 * 70)
    else:
        disk.replace(first, disk.read(second))
    assert held(reopened(disk)[1]) == raws(author.batches)


def test_preallocated_file_is_used_and_trimmed():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=10_000)
    log.preallocate()
    assert disk.size(SPARE) == 10_000
    log.append(author.write(3))
    assert not disk.exists(SPARE)
    path = log_path(author.batches[0].first)
    assert disk.size(path) == 10_000
    assert held(log) == raws(author.batches)
    recovered = reopened(disk)[0]
    assert recovered.last == author.last
    assert not recovered.problems
    assert disk.size(path) < 10_000


def test_roll_gives_preallocated_space_back():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=10_000)
    log.preallocate()
    log.append(author.write(3))
    log.roll()
    assert disk.size(log_path(author.batches[0].first)) == log.size_bytes < 10_000


# Truncation.


@pytest.mark.parametrize("segment_bytes", [700, 1 << 20])
@pytest.mark.parametrize("kept", range(13))
def test_truncate_cuts_exactly_behind_the_batch_and_appends_read_back(segment_bytes, kept):
    """ZOOKEEPER-1156, -1489: cut right after the record, go on, and read it all again."""
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=segment_bytes)
    batches = author.write(12)
    for start in range(0, 12, 4):
        log.append(batches[start : start + 4])
    position = (batches[kept - 1].zxid, batches[kept - 1].chain) if kept else START
    log.truncate(*position)
    assert log.last == position
    assert held(log) == raws(batches[:kept])
    other = Author(epoch=2, start=position)
    other.children = 500
    log.append(other.write(3, lag=99))
    expected = raws(batches[:kept] + other.batches)
    assert held(log) == expected
    recovered, again = reopened(disk)
    assert not recovered.damage
    assert held(again) == expected


@pytest.mark.parametrize("segment_bytes", [700, 1 << 20])
@pytest.mark.parametrize("kept", [0, 1, 5, 8, 11])
def test_what_a_truncation_cuts_is_set_aside(segment_bytes, kept):
    """A5: a tail that differs from the leader's is evidence."""
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=segment_bytes)
    batches = author.write(12)
    for start in range(0, 12, 4):
        log.append(batches[start : start + 4])
    log.truncate(*((batches[kept - 1].zxid, batches[kept - 1].chain) if kept else START))
    stale = sorted(int(name[4:-6], 16) for name in disk.list("version-1") if name.endswith(".stale"))
    found = []
    for first in stale:
        for frame in scan(disk.read(f"{log_path(first)}.stale"), first, SEGMENT_HEADER_BYTES).parts:
            found += [batch.raw for batch in frame.batches]
    assert found == raws(batches[kept:])
    assert held(log) == raws(batches[:kept])


@pytest.mark.parametrize("segment_bytes", [700, 1 << 20])
def test_what_conflicts_stays_until_somebody_has_seen_it(segment_bytes):
    """A5: under a name that neither recovery nor retention knows, and that no later conflict takes."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=segment_bytes)
    log.append(author.write(4))
    position = author.last
    kept = raws(author.batches)
    cut = []
    for number in range(3):
        other = Author(epoch=1, seed=100 + number, start=position)
        other.children = 500 + number
        cut += raws(other.write(2, lag=99))
        for batch in other.batches:
            log.append([batch])
        log.truncate(*position, conflict=True)
    names = [name for name in disk.list("version-1") if ".conflict" in name]
    found = []
    for name in names:
        first = int(name.split(".")[1], 16)
        for frame in scan(disk.read(f"version-1/{name}"), first, SEGMENT_HEADER_BYTES).parts:
            found += [batch.raw for batch in frame.batches]
    assert sorted(found) == sorted(cut)
    assert {name.partition(".conflict")[2] for name in names} == {"", ".2", ".3"}
    recovered, again = reopened(disk)
    assert (recovered.damage, recovered.problems) == ([], [])
    assert held(again) == kept
    assert not [name for name in disk.list("version-1") if name.endswith(".stale")]
    tree = author.tree
    for number in range(3):
        tree.applied += 1
        snapshot(disk, tree, bytes([number] * 16))
    purge(disk)
    assert [name for name in disk.list("version-1") if ".conflict" in name] == names


def test_what_conflicts_is_kept_too_where_a_snapshot_takes_its_place():
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(4))
    log.close()
    _, log = reopened(disk)
    log.reset(7 << 32, bytes(16), LINEAGE, conflict=True)
    assert [name for name in disk.list("version-1") if name.startswith("log.")] == ["log.100000001.conflict"]


def test_truncate_refuses_what_is_no_batch_end_of_this_history():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append([author.batch(3), author.batch(3)])
    end = author.batches[0]
    for zxid, chain in (
        (end.zxid - 1, end.chain),
        (end.zxid + 1, end.chain),
        (end.zxid, bytes(16)),
        (author.last[0] + 1, author.last[1]),
    ):
        with pytest.raises(NotHeldError):
            log.truncate(zxid, chain)
    assert held(log) == raws(author.batches)
    log.append(author.write(1))


def test_truncate_below_the_mark_is_a_bug():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(3))
    log.set_mark(author.batches[1].zxid)
    with pytest.raises(AssertionError, match="high-water mark"):
        log.truncate(author.batches[0].zxid, author.batches[0].chain)


@pytest.mark.parametrize("kept", [0, 1, 3, 5, 8])
def test_power_cut_anywhere_in_a_truncation_leaves_the_old_or_a_prefix_never_less_than_the_new(kept):
    for point in range(1, 60):
        disk, author = FaultyDisk(), Author()
        log = fresh_log(disk, segment_bytes=700)
        batches = author.write(12)
        for start in range(0, 12, 3):
            log.append(batches[start : start + 3])
        position = (batches[kept - 1].zxid, batches[kept - 1].chain) if kept else START
        disk.crash_after(point)
        done = True
        try:
            log.truncate(*position)
        except PowerLossError:
            done = False
        disk.crash(Random(point))
        recovered, again = reopened(disk)
        assert not recovered.damage, (point, recovered.damage)
        left = held(again)
        assert left == raws(batches[: len(left)])
        assert len(left) == kept if done else len(left) >= kept
        if done:
            return
    raise AssertionError("the truncation never came to its end")


# Starting over after a snapshot.


def test_reset_sets_everything_aside_and_goes_on_from_the_position():
    """ZOOKEEPER-2832: no record of the old history above the installed snapshot survives."""
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk, segment_bytes=700)
    for _ in range(8):
        log.append(author.write(1))
    old_names = [f"log.{first:x}.stale" for first in log_files(disk)]
    lineage = bytes(16)
    log.reset(0, genesis(lineage), lineage)
    assert log.last == (0, genesis(lineage))
    assert log_files(disk) == []
    assert load_member(disk) is None
    assert load_mark(disk) == (lineage, 0)
    assert set(old_names) < set(disk.list("version-1"))
    other = Author(epoch=3, start=log.last)
    log.append(other.write(2))
    assert held(log) == raws(other.batches)
    disk.crash(Random(3))
    recovered, again = reopened(disk)
    assert (recovered.lineage, recovered.last) == (lineage, other.last)
    assert held(again) == raws(other.batches)


def test_reset_to_a_later_position_of_the_lineage_keeps_the_member_record():
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(2))
    ahead = Author()
    ahead.write(9)
    log.reset(*ahead.last, LINEAGE)
    assert load_member(disk) is not None


def test_reset_to_less_than_was_logged_forgets_the_member_record():
    disk, author = FaultyDisk(), Author()
    synchronized(disk)
    log = fresh_log(disk)
    log.append(author.write(9))
    log.reset(author.batches[3].zxid, author.batches[3].chain, LINEAGE)
    assert load_member(disk) is None


# The mark.


def test_mark_is_never_above_the_durable_end():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(2))
    log.set_mark(author.last[0] + 50)
    assert load_mark(disk) == (LINEAGE, author.last[0])
    log.set_mark(author.batches[0].zxid)
    assert log.mark == author.last[0]


# Failures.


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("point", range(1, 4))
def test_failed_append_is_raised_and_final(error, point):
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    disk.fail_after(point, error)
    batches = author.write(1)
    with pytest.raises(OSError) as raised:
        log.append(batches)
    assert raised.value.errno == error
    assert log.last == START
    for use in (lambda: log.append(batches), log.roll, lambda: log.reset(*START, LINEAGE)):
        with pytest.raises(LogFailedError):
            use()


def test_failed_append_to_an_open_file_is_final_and_not_counted():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(1))
    last = log.last
    for use in (lambda: log.append(author.write(1)), log.idle, log.roll, lambda: log.truncate(*last)):
        disk.fail_after(1)
        with pytest.raises((OSError, LogFailedError)):
            use()
    assert log.last == last
    disk.crash(Random(0))
    assert reopened(disk)[0].last[0] >= last[0]


def test_full_disk_is_an_error_and_leaves_a_torn_tail_that_is_cut():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(3))
    last = log.last
    disk.capacity_bytes -= disk.free_bytes() - 50
    with pytest.raises(OSError, match="No space left") as raised:
        log.append(author.write(3))
    assert raised.value.errno == errno.ENOSPC
    disk.crash(Random(5))
    disk.capacity_bytes = 1 << 40
    recovered, again = reopened(disk)
    assert recovered.last == last
    assert not recovered.damage
    again.append(Author(epoch=2, start=last).write(1, lag=99))


def test_closed_log_refuses_use():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(1))
    log.close()
    with pytest.raises(LogFailedError):
        log.append(author.write(1))


def test_gap_in_numbers_is_a_bug():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    batches = author.write(3)
    log.append(batches[:1])
    with pytest.raises(AssertionError, match="does not follow"):
        log.append(batches[2:])


def test_unreadable_closed_file_is_named_when_it_is_read():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk)
    log.append(author.write(5))
    log.append(author.write(5))
    log.roll()
    log.append(author.write(1))
    path = log_path(author.batches[0].first)
    disk.flip(path, 8 * (disk.size(path) - 10))
    with pytest.raises(LogDamagedError, match=f"{path} at offset .*checksum of the batch body") as raised:
        log.read(0, 1 << 30)
    assert 0 < raised.value.offset < disk.size(path)


def test_position_older_than_the_oldest_file_is_not_held():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=700)
    for _ in range(12):
        log.append(author.write(1))
    gone = log.segments[:2]
    log.release({segment.path for segment in gone})
    assert log.first_position == gone[-1].last
    assert log.floor(gone[0].last[0]) is None
    assert log.read_from(gone[0].last[0], 100) == (None, [])
    with pytest.raises(NotHeldError):
        log.read(0, 100)
    assert log.read(gone[-1].last[0], 1)


def test_file_released_while_it_is_read_is_not_held():
    disk, author = FaultyDisk(), Author()
    log = fresh_log(disk, segment_bytes=700)
    for _ in range(12):
        log.append(author.write(1))
    path = log.segments[0].path
    original = disk.read

    def read(which: str, offset: int = 0, length: int | None = None) -> bytes:
        if which == path and disk.exists(path):
            log.release({path})
            disk.remove(path)
        return original(which, offset, length)

    disk.read = read
    assert log.read_from(author.batches[0].zxid, 100) == (None, [])


@pytest.mark.parametrize("installed_at", [3, 9])
@pytest.mark.parametrize("seed", range(3))
def test_power_cut_anywhere_in_an_installation_leaves_one_history_whole(seed, installed_at):
    """A snapshot is installed at, or below, where the log ends; a member that may hold less than it acknowledged is
    amnesiac."""
    for point in range(1, 80):
        disk, author = FaultyDisk(), Author()
        synchronized(disk)
        log = fresh_log(disk, segment_bytes=700)
        for _ in range(9):
            log.append(author.write(1))
        upto = Author()
        for batch in author.batches[:installed_at]:
            upto.apply(batch)
        disk.crash_after(point)
        done = True
        try:
            snapshot(disk, upto.tree, upto.last[1])
            log.reset(*upto.last, LINEAGE)
            set_aside_snapshots(disk, LINEAGE, *upto.last)
        except PowerLossError:
            done = False
        disk.crash(Random(seed * 100 + point))
        recovered, again = reopened(disk)
        assert not recovered.damage, (point, recovered.damage)
        assert recovered.last[0] >= upto.last[0] or not done
        assert recovered.last == author.last or recovered.amnesiac, point
        assert again.floor(recovered.last[0]) == recovered.last
        if done:
            assert recovered.last == upto.last
            return
    raise AssertionError("never done")


def test_power_cut_anywhere_in_a_change_of_lineage_leaves_an_amnesiac_or_the_old_history():
    for point in range(1, 80):
        disk, author = FaultyDisk(), Author()
        synchronized(disk)
        log = fresh_log(disk, segment_bytes=700)
        for _ in range(9):
            log.append(author.write(1))
        log.set_mark(author.last[0])
        snapshot(disk, author.tree, author.last[1])
        lineage = b"another lineage!"
        disk.crash_after(point)
        done = True
        try:
            log.reset(0, genesis(lineage), lineage)
            set_aside_snapshots(disk, lineage, 0, genesis(lineage))
        except PowerLossError:
            done = False
        disk.crash(Random(point))
        recovered = reopened(disk)[0]
        assert not recovered.damage, (point, recovered.damage)
        assert recovered.amnesiac or recovered.last == author.last, point
        if done:
            assert recovered.empty
            return
    raise AssertionError("never done")
