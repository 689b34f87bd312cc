"""From files to a log: torn tails, damage, leftovers, clean starts."""

from __future__ import annotations

from random import Random

import pytest

from tests.partition.log.derived import check_indexes
from tests.partition.log.rig import (
    DIRECTORY,
    NOW,
    Stored,
    batch,
    fresh,
    headers,
    marker,
    marks_of,
    produced,
    recovered,
)
from zab.partition.log.paths import SEGMENT_FILES
from zab.partition.log.recovery import Marks
from zab.simulator.world.disk import FaultyDisk, PowerLossError

ONE = len(batch())
SMALL = {"segment_bytes": 3 * ONE, "index_interval_bytes": 0}


def path(base: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base:020d}{suffix}"


def filled(count: int = 8, **changes: object) -> Stored:
    stored = fresh(**{**SMALL, **changes})
    for number in range(count):
        stored.add(batch([b"%05d" % number], timestamp=NOW + number), epoch=number // 3)
    return stored


def copy(stored: Stored) -> FaultyDisk:
    disk = FaultyDisk()
    disk.restore(stored.disk.image())
    return disk


def test_tail_torn_at_any_byte():
    stored = fresh()
    for number in range(3):
        stored.append(produced(1, 0, number), epoch=number)
    stored.store()
    content, data = stored.content(), stored.disk.read(path(0))
    ends = [0, len(data) // 3, len(data) // 3 * 2, len(data)]
    for size in range(len(data) + 1):
        disk = copy(stored)
        disk.truncate(path(0), size)
        again = recovered(disk)
        whole = sum(end <= size for end in ends) - 1
        assert again.content() == content[:whole]
        assert disk.size(path(0)) == ends[whole]
        assert again.log.epochs.entries == [(epoch, epoch) for epoch in range(whole)]
        assert (again.log.producers.states[1].last_sequence if whole else -1) == whole - 1
        assert len(again.notes) == (size != ends[whole])
        again.add(produced(1, 0, whole), epoch=9)
        assert len(again.content()) == whole + 1


def test_any_flipped_bit_ends_the_log_before_that_batch():
    """But for the epoch, which no checksum covers, and offsets that still ascend."""
    stored = fresh()
    for _ in range(3):
        stored.append(batch())
    stored.store()
    content = stored.content()
    for at in range(ONE * 3):
        field = at % ONE
        if field < 8 or 12 <= field < 16:
            continue
        disk = copy(stored)
        disk.flip(path(0), at * 8 + 3)
        assert recovered(disk).content() == content[: at // ONE]


def test_offsets_that_do_not_ascend_end_the_log():
    stored = fresh()
    first, second = batch([b"1"], offset=5), batch([b"2"], offset=5)
    stored.log.append_as_follower(first, headers(first), NOW)
    stored.store()
    stored.disk.replace(path(0), bytes(first + second))
    again = recovered(stored.disk)
    assert again.log.log_end == 6
    assert "offsets 5 to 5 after 5" in again.notes[0]


def test_offset_that_is_too_large_for_the_segment_ends_the_log():
    stored = fresh()
    first, second = batch([b"1"], offset=5), batch([b"2"], offset=1 << 31)
    stored.disk.replace(path(0), bytes(first + second))
    assert recovered(stored.disk).log.log_end == 6


def test_zeros_at_the_end_are_cut_off():
    """A file system may extend a file before the data are there."""
    stored = filled(2)
    stored.disk.replace(path(0), stored.disk.read(path(0)) + bytes(5000))
    assert len(recovered(stored.disk, **SMALL).content()) == 2
    assert stored.disk.size(path(0)) == 2 * ONE


def test_what_follows_a_damaged_batch_is_deleted_with_the_later_segments():
    stored = filled(8)
    stored.disk.flip(path(3), 8 * (ONE + 70))
    again = recovered(stored.disk, **SMALL)
    assert again.log.log_end == 4
    assert [segment.base_offset for segment in again.log.segments] == [0, 3]
    assert not stored.disk.exists(path(6))
    assert not stored.disk.exists(path(6, ".snapshot"))
    assert [note.partition(":")[0] for note in again.notes] == [path(3), path(6)]
    assert again.log.epochs.entries == [(0, 0), (1, 3)]
    check_indexes(again)


def test_gap_between_segments_is_a_lost_tail():
    """The name of the next segment was durable before the end of this one: Kafka would go on with a hole."""
    stored = filled(8)
    stored.disk.truncate(path(3), 2 * ONE)
    again = recovered(stored.disk, **SMALL)
    assert (again.log.log_end, [segment.base_offset for segment in again.log.segments]) == (5, [0, 3])
    compacted = filled(8)
    compacted.disk.truncate(path(3), 2 * ONE)
    kept = recovered(compacted.disk, cleanup_policy=("compact",), **SMALL)
    assert kept.log.log_end == 8, "the cleaner makes gaps"
    assert [each[0] for each in kept.content()] == [0, 1, 2, 3, 4, 6, 7]


def test_gaps_are_believed_as_far_as_the_cleaner_was():
    """A topic that alone is compacted, in a directory that has lost its recovery points."""
    stored = filled(8)
    stored.disk.truncate(path(3), 2 * ONE)
    assert recovered(copy(stored), Marks(cleaned_end=6), **SMALL).log.log_end == 8
    assert recovered(copy(stored), Marks(cleaned_end=5), **SMALL).log.log_end == 5


def test_segments_below_the_recovery_point_are_not_read():
    stored = filled(8)
    stored.log.flush()
    stored.store()
    stored.disk.flip(path(0), 8 * 70)
    stored.disk.flip(path(3), 8 * 70)
    trusting = recovered(copy(stored), Marks(recovery_point=6), **SMALL)
    assert (trusting.log.log_end, trusting.notes) == (8, [])
    assert trusting.log.segments[0].max_timestamp == NOW + 2
    careful = recovered(copy(stored), Marks(recovery_point=5), **SMALL)
    assert careful.log.log_end == 3, "a segment that reaches above it is read"


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("data", [None, b"12345"])
def test_segment_without_whole_indexes_is_read_whatever_the_recovery_point_says(suffix, data):
    """They are written after the segment was synced, and removed before it is cut."""
    stored = filled(8)
    stored.log.flush()
    stored.store()
    if data is None:
        stored.disk.remove(path(3, suffix))
    else:
        stored.disk.replace(path(3, suffix), data)
    stored.disk.flip(path(3), 8 * (ONE + 70))
    again = recovered(stored.disk, Marks(recovery_point=8), **SMALL)
    assert again.log.log_end == 4
    check_indexes(again)


def test_stale_recovery_point_after_a_truncation_does_no_harm():
    """The checkpoint says that everything is synced; the log was cut and written again since."""
    for seed in range(40):
        stored = filled(8)
        stored.log.flush_all()
        stored.store()
        marks = marks_of(stored.log)
        stored.log.truncate(1)
        stored.store()
        for number in range(7):
            stored.append(batch([b"other"], timestamp=NOW + number), epoch=9)
        stored.store()
        content = stored.content()
        stored.disk.crash(Random(seed))
        again = recovered(stored.disk, marks, **SMALL)
        assert again.content() == content[: len(again.content())]
        check_indexes(again)


def test_recovered_segments_are_as_good_as_flushed():
    stored = filled(8)
    content = stored.content()
    again = recovered(stored.disk, **SMALL)
    assert again.log.synced_end == 8
    assert {name[20:] for name in stored.disk.list(DIRECTORY) if name.startswith(f"{3:020d}")} == {
        ".log",
        ".index",
        ".timeindex",
        ".snapshot",
    }
    stored.disk.crash(Random(0))
    assert recovered(stored.disk, marks_of(again.log), **SMALL).content() == content


def test_bytes_that_a_failed_sync_left_in_the_cache_are_written_again():
    for seed in range(20):
        stored = fresh(flush_mode="batch")
        stored.add(batch())
        stored.append(batch(), batch())
        stored.append(batch([b"x" * 600]))
        effects = stored.log.take_effects()
        (created,) = [at for at, effect in enumerate(effects) if type(effect).__name__ == "Sync"]
        stored.files.perform(effects[:created])
        stored.disk.fail_after(1)
        stored.files.perform(effects[created:])
        assert stored.files.failures
        stored.disk.kill()
        again = recovered(stored.disk, Marks(recovery_point=1), flush_mode="batch")
        content = again.content()
        assert (len(content), again.log.synced_end) == (4, 4)
        stored.disk.crash(Random(seed))
        assert recovered(stored.disk, Marks(recovery_point=1), flush_mode="batch").content() == content


# Clean starts.


def test_clean_start_reads_no_batches_but_the_last_ones():
    stored = filled(8)
    stored.log.close()
    stored.store()
    content, marks = stored.content(), marks_of(stored.log)
    reads: list[tuple[str, int, int | None]] = []
    read = stored.disk.read

    def recording(path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path.endswith(".log"):
            reads.append((path, offset, length))
        return read(path, offset, length)

    stored.disk.read = recording
    again = recovered(stored.disk, marks, clean=True, **SMALL)
    del stored.disk.read
    assert reads == [(path(6), 0, 61), (path(6), ONE, ONE)]
    assert again.notes == []
    assert again.content() == content
    assert again.log.epochs.entries == [(0, 0), (1, 3), (2, 6)]
    active = again.log.segments[-1]
    assert (active.max_timestamp, active.first_timestamp) == (NOW + 7, NOW + 6)
    again.add(batch(timestamp=NOW + 50), batch(timestamp=NOW + 60))
    check_indexes(again)


def test_clean_start_with_damaged_indexes_of_the_active_segment_reads_it():
    stored = filled(8)
    stored.log.close()
    stored.store()
    for damage in (b"123", b"\xff" * 8):
        stored.disk.replace(path(6, ".index"), damage)
        again = recovered(copy(stored), marks_of(stored.log), clean=True, **SMALL)
        assert again.log.log_end == 8
        check_indexes(again)


def test_clean_start_that_was_not_one():
    """Somebody copied files, or the flag lies."""
    stored = filled(8)
    stored.log.close()
    stored.store()
    stored.disk.truncate(path(6), ONE + 3)
    again = recovered(stored.disk, marks_of(stored.log), clean=True, **SMALL)
    assert again.log.log_end == 7
    stored = filled(8)
    stored.log.close()
    stored.store()
    stored.disk.replace(path(3), bytes(3 * ONE))
    for offset in (3, 6):
        stored.disk.remove(path(offset, ".snapshot"))
    stored.disk.remove(path(8, ".snapshot"))
    again = recovered(stored.disk, marks_of(stored.log), clean=True, **SMALL)
    assert again.log.log_end == 3
    assert "scan all segments" in again.notes[0]


def test_damaged_epochs_are_derived_again():
    stored = filled(8)
    stored.log.close()
    stored.store()
    stored.disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n")
    again = recovered(stored.disk, marks_of(stored.log), clean=True, **SMALL)
    assert again.log.epochs.entries == [(0, 0), (1, 3), (2, 6)]
    assert "scan all segments" in again.notes[0]
    assert stored.disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n3\n0 0\n1 3\n2 6\n"


# The marks.


def test_marks_are_brought_into_the_log():
    stored = filled(8)
    again = recovered(copy(stored), Marks(0, log_start=4, high_watermark=99), **SMALL)
    assert (again.log.log_start, again.log.high_watermark) == (4, 8)
    assert again.log.epochs.entries == [(1, 4), (2, 6)]
    low = recovered(copy(stored), Marks(0, log_start=4, high_watermark=1), **SMALL)
    assert low.log.high_watermark == 4
    assert low.log.log_end == 8, "nothing is truncated to it"


def test_epoch_that_began_at_the_end_is_dropped():
    """Its leader asks for it again."""
    stored = filled(2)
    stored.log.begin_epoch(7)
    stored.log.close()
    stored.store()
    again = recovered(stored.disk, marks_of(stored.log), clean=True, **SMALL)
    assert again.log.epochs.entries == [(0, 0)]


def test_log_that_ends_below_its_start_begins_there():
    stored = filled(8)
    again = recovered(stored.disk, Marks(0, log_start=50, high_watermark=60), **SMALL)
    log = again.log
    assert (log.log_start, log.high_watermark, log.log_end) == (50, 50, 50)
    assert [name for name in stored.disk.list(DIRECTORY) if name.endswith(".log")] == [f"{50:020d}.log"]
    again.add(batch())
    assert len(again.content()) == 1


def test_empty_directory():
    disk = FaultyDisk()
    again = recovered(disk, Marks(0, log_start=3))
    assert (again.log.log_start, again.log.log_end) == (3, 3)
    again.add(batch())
    disk.crash(Random(1))
    assert disk.exists(path(3))


# What a crash leaves.


def test_orphans_and_unfinished_files_are_removed():
    stored = filled(4)
    disk = stored.disk
    content = stored.content()
    for name in ("77.index", "77.timeindex", "77.txnindex", "0.log.deleted", "9.log.cleaned", "9.index.cleaned"):
        number, suffix = name.split(".", 1)
        disk.replace(f"{DIRECTORY}/{int(number):020d}.{suffix}", b"x")
    disk.replace(f"{DIRECTORY}/leader-epoch-checkpoint.tmp.tmp", b"x")
    disk.replace(path(99, ".snapshot"), b"x")
    before = set(stored.disk.list(DIRECTORY))
    again = recovered(disk, **SMALL)
    assert again.content() == content
    assert before - set(disk.list(DIRECTORY)) >= {
        f"{77:020d}.index",
        f"{77:020d}.timeindex",
        f"{77:020d}.txnindex",
        f"{0:020d}.log.deleted",
        f"{9:020d}.log.cleaned",
        f"{9:020d}.index.cleaned",
        f"{99:020d}.snapshot",
        "leader-epoch-checkpoint.tmp.tmp",
    }


def cleaned_disk(suffix: str) -> tuple[FaultyDisk, bytes]:
    """Segments 0 and 3 were compacted to one, which has this suffix."""
    stored = filled(8)
    data = stored.disk.read(path(0))[:ONE] + stored.disk.read(path(3))[2 * ONE :]
    disk = copy(stored)
    disk.replace(path(0, f".log{suffix}"), data)
    disk.replace(path(0, f".index{suffix}"), b"")
    disk.replace(path(0, f".timeindex{suffix}"), b"")
    return disk, data


def test_complete_swap_takes_the_place_of_what_it_covers():
    disk, data = cleaned_disk(".swap")
    again = recovered(disk, **SMALL)
    assert disk.read(path(0)) == data
    assert [segment.base_offset for segment in again.log.segments] == [0, 6]
    assert [each[0] for each in again.content()] == [0, 5, 6, 7]
    assert not [name for name in disk.list(DIRECTORY) if name.endswith(".swap")]


def test_swap_beside_cleaned_files_is_undone():
    disk, _ = cleaned_disk(".swap")
    disk.replace(path(0, ".log.cleaned"), b"x")
    again = recovered(disk, **SMALL)
    assert [each[0] for each in again.content()] == list(range(8))
    assert not [name for name in disk.list(DIRECTORY) if name.endswith((".swap", ".cleaned"))]


def test_swap_survives_a_power_cut_at_every_step():
    point = 1
    while True:
        disk, data = cleaned_disk(".swap")
        disk.sync_directory(DIRECTORY)
        disk.crash_after(point)
        try:
            recovered(disk, **SMALL)
        except PowerLossError:
            pass
        else:
            break
        disk.crash(Random(point))
        again = recovered(disk, **SMALL)
        assert [each[0] for each in again.content()] == [0, 5, 6, 7]
        assert disk.read(path(0)) == data
        point += 1
    assert point > 10


def test_aborted_transactions_are_derived_again():
    stored = fresh(segment_bytes=300)
    stored.append(produced(1, 0, 0, transactional=True), verified=True)
    for _ in range(5):
        stored.append(batch())
    stored.append(marker(1, 0, commits=False))
    stored.append(produced(1, 0, 1, transactional=True), verified=True)
    stored.store()
    aborted = list(stored.log.aborted_transactions(0, 100))
    assert len(aborted) == 1
    for segment in stored.log.segments:
        file = path(segment.base_offset, ".txnindex")
        if stored.disk.exists(file):
            stored.disk.replace(file, b"garbage")
    stored.disk.replace(path(0, ".txnindex"), b"")
    again = recovered(stored.disk, segment_bytes=300)
    assert list(again.log.aborted_transactions(0, 100)) == aborted
    assert not stored.disk.exists(path(0, ".txnindex"))
    again.commit()
    assert again.log.last_stable_offset == 7
    again.add(marker(1, 0, commits=False))
    assert len(list(again.log.aborted_transactions(0, 100))) == 2


def test_all_suffixes_of_a_segment_are_known():
    assert set(SEGMENT_FILES) == {".log", ".index", ".timeindex", ".txnindex"}
