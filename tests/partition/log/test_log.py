"""The log's rules, one at a time."""

import pytest

from tests.partition.log.rig import DIRECTORY, NOW, batch, fresh, headers, marks_of, produced, recovered, split
from zab.kafka.errors import ErrorCode
from zab.partition.log.errors import (
    LogFailedError,
    OffsetOutOfRangeError,
    RecordsTooLargeError,
    UnexpectedOffsetError,
)
from zab.partition.log.file_effects import Append, Confirm, Remove, Rename, Replace, Sync, SyncDirectory
from zab.partition.log.log import Log
from zab.partition.log.segment import RECENT_MAX
from zab.partition.records.batch import BatchError, TimestampType

ONE = len(batch())


def log_names(stored):
    return [name for name in stored.disk.list(DIRECTORY) if name.endswith(".log")]


# Appending.


def test_leader_writes_offsets_and_its_epoch_into_the_batches():
    stored = fresh()
    stored.append(batch([b"1", b"2"]), epoch=3)
    answer = stored.add(batch([b"3"]), batch([b"4", b"5"]), epoch=4)
    assert (answer.base_offset, answer.last_offset, answer.append_time_ms) == (2, 4, -1)
    assert [each[:2] for each in stored.content()] == [(0, 3), (2, 4), (3, 4)]
    assert stored.log.epochs.entries == [(3, 0), (4, 2)]
    assert stored.disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n3 0\n4 2\n"


def test_log_append_time():
    stored = fresh(message_timestamp_type="LogAppendTime")
    answer = stored.add(batch([b"1"]), produced(1, 0, 0), now=NOW + 5)
    assert answer.append_time_ms == NOW + 5
    data = b"".join(each[2] for each in stored.content())
    assert {(header.max_timestamp, header.timestamp_type) for header in headers(data)} == {
        (NOW + 5, TimestampType.LOG_APPEND)
    }
    again = stored.append(produced(1, 0, 0), now=NOW + 9)
    assert (again.is_duplicate, again.append_time_ms) == (True, NOW + 5)
    assert recovered(stored.disk).notes == [], "the checksums are right"


def test_follower_takes_batches_as_they_are():
    stored = fresh()
    data = batch([b"1", b"2"], offset=4, partition_leader_epoch=7) + batch([b"3"], offset=9, partition_leader_epoch=8)
    stored.log.append_as_follower(data, headers(data), NOW)
    stored.store()
    assert stored.content() == split(bytes(data))
    assert stored.log.epochs.entries == [(7, 4), (8, 9)]
    assert stored.log.log_end == 10


@pytest.mark.parametrize("offset", [0, 1])
def test_follower_refuses_offsets_below_its_end(offset):
    stored = fresh()
    stored.add(batch([b"1", b"2"]))
    data = batch([b"3"], offset=2) + batch([b"4"], offset=offset + 1)
    with pytest.raises(UnexpectedOffsetError):
        stored.log.append_as_follower(data, headers(data), NOW)
    assert stored.log.log_end == 2, "all or none"


def test_follower_checks_the_checksum():
    """S21, KAFKA-8722: a bad disk of the leader must not spread."""
    stored = fresh()
    data = batch([b"1"], offset=0)
    data[-1] ^= 1
    with pytest.raises(BatchError, match="CRC"):
        stored.log.append_as_follower(data, headers(data), NOW)
    assert stored.log.log_end == 0


def test_more_than_a_segment_is_refused():
    stored = fresh(segment_bytes=200)
    with pytest.raises(RecordsTooLargeError) as raised:
        stored.append(batch([b"x" * 200]))
    assert raised.value.error is ErrorCode.RECORD_LIST_TOO_LARGE


# Rolling.


def test_segment_ends_before_it_is_too_large():
    stored = fresh(segment_bytes=3 * ONE)
    for _ in range(7):
        stored.add(batch())
    assert log_names(stored) == [f"{offset:020d}.log" for offset in (0, 3, 6)]
    assert [segment.size for segment in stored.log.segments] == [3 * ONE, 3 * ONE, ONE]
    assert {name for name in stored.disk.list(DIRECTORY) if name.endswith(".snapshot")} == {
        f"{offset:020d}.snapshot" for offset in (3, 6)
    }


def test_segment_ends_by_the_time_of_its_records():
    stored = fresh(segment_ms=1000)
    stored.append(batch(timestamp=NOW), now=NOW)
    stored.append(batch(timestamp=NOW + 1000), now=NOW + 10**6)
    assert len(stored.log.segments) == 1, "the clock does not count where there are timestamps"
    stored.append(batch(timestamp=NOW + 1001), now=NOW)
    assert len(stored.log.segments) == 2


def test_segment_without_timestamps_ends_by_the_clock():
    stored = fresh(segment_ms=1000)
    stored.append(batch(timestamp=-1), now=NOW)
    stored.append(batch(timestamp=-1), now=NOW + 1000)
    assert len(stored.log.segments) == 1
    stored.append(batch(timestamp=-1), now=NOW + 1001)
    assert len(stored.log.segments) == 2


def test_segment_ends_when_an_index_is_full():
    stored = fresh(segment_index_bytes=36, index_interval_bytes=0)
    for number in range(10):
        stored.add(batch(timestamp=NOW + number))
    # Three entries of the time index; the first batch has none.
    assert [segment.base_offset for segment in stored.log.segments] == [0, 4, 8]


def test_segment_ends_before_its_offsets_are_too_large():
    stored = fresh()
    far = (1 << 31) - 1
    data = batch([b"1"], offset=0) + batch([b"2"], offset=far) + batch([b"3"], offset=far + 1)
    stored.log.append_as_follower(data, headers(data), NOW)
    stored.store()
    assert [segment.base_offset for segment in stored.log.segments] == [0, far + 1]
    assert len(stored.content()) == 3
    data = batch([b"4"], offset=1 << 40)
    stored.log.append_as_follower(data, headers(data), NOW)
    stored.store()
    assert stored.log.segments[-1].base_offset == 1 << 40
    again = recovered(stored.disk)
    assert again.content() == stored.content()
    assert len(again.content()) == 4


# What the storage is asked, and what it confirms.


def test_one_request_for_a_turn():
    stored = fresh()
    stored.append(batch())
    stored.append(batch())
    path = f"{DIRECTORY}/{0:020d}.log"
    appends = [effect for effect in stored.log.take_effects() if isinstance(effect, Append)]
    assert [(effect.path, effect.position) for effect in appends] == [(path, 0), (path, ONE)]
    assert stored.log.take_effects() == []


@pytest.mark.parametrize("mode", ["os", "batch"])
def test_what_is_confirmed_is_written_and_in_batch_mode_synced(mode):
    stored = fresh(flush_mode=mode)
    stored.append(batch([b"1", b"2"]))
    effects = stored.log.take_effects()
    assert any(isinstance(effect, Sync) for effect in effects) == (mode == "batch")
    assert (stored.log.written_end, stored.log.synced_end) == (0, 0)
    assert stored.log.slice(0, 2, 1000) is None, "nothing is served before it is written"
    (answer,) = stored.files.perform(effects)
    stored.log.confirmed(answer.token)
    assert (stored.log.written_end, stored.log.synced_end) == (2, 2 if mode == "batch" else 0)
    assert stored.log.slice(0, 2, 1000) is not None


def test_flush_syncs_closed_segments_and_then_writes_their_indexes():
    stored = fresh(segment_bytes=3 * ONE)
    for _ in range(4):
        stored.append(batch())
    stored.store()
    assert stored.log.synced_end == 0
    stored.log.flush()
    effects = stored.log.take_effects()
    assert [type(effect) for effect in effects] == [Sync, Replace, Replace, Confirm]
    assert [effect.path[-16:] for effect in effects[:3]] == ["000000000000.log", "0000000000.index", "000000.timeindex"]
    (answer,) = stored.files.perform(effects)
    stored.log.confirmed(answer.token)
    assert stored.log.synced_end == 3
    stored.log.flush()
    assert stored.log.take_effects() == []


def test_each_roll_flushes_what_was_closed_before():
    stored = fresh(segment_bytes=2 * ONE)
    ends = []
    for _ in range(9):
        stored.add(batch())
        ends.append(stored.log.synced_end)
    assert ends == [0, 0, 0, 0, 2, 2, 4, 4, 6]
    assert [segment.is_indexed for segment in stored.log.segments] == [True, True, True, False, False]


def test_flush_messages():
    stored = fresh(flush_messages=3)
    stored.add(batch([b"1", b"2"]))
    assert stored.log.synced_end == 0
    stored.add(batch([b"3"]))
    assert stored.log.synced_end == 3


def test_s19_failed_storage_takes_no_more_until_the_log_is_recovered():
    """KAFKA-10778."""
    stored = fresh()
    stored.add(batch())
    stored.disk.fail_after(1)
    stored.add(batch())
    assert "Input/output error" in (stored.log.failure or "")
    assert stored.log.written_end == 1
    for attempt in (lambda: stored.append(batch()), lambda: stored.log.truncate(0), lambda: stored.log.close()):
        with pytest.raises(LogFailedError) as raised:
            attempt()
        assert raised.value.error is ErrorCode.KAFKA_STORAGE_ERROR
    assert stored.log.take_effects() == []
    assert len(stored.content()) == 1, "what was confirmed is still served"
    again = recovered(stored.disk)
    assert again.log.failure is None
    again.add(batch())
    assert again.log.written_end == again.log.log_end


def test_answers_to_what_was_truncated_confirm_nothing():
    stored = fresh(flush_mode="batch")
    stored.append(batch([b"1", b"2"]))
    first = stored.log.take_effects()
    stored.append(batch([b"3", b"4"]))
    second = stored.log.take_effects()
    stored.log.truncate(2)
    stored.append(batch([b"x", b"y", b"z"]), epoch=1)
    third = stored.log.take_effects()
    ends = []
    for answer in stored.files.perform([*first, *second, *third]):
        stored.log.confirmed(answer.token)
        ends.append((stored.log.written_end, stored.log.synced_end))
    assert ends == [(2, 2), (2, 2), (5, 5)]
    assert [each[:2] for each in stored.content()] == [(0, 0), (2, 1)]


# Reading.


def test_offsets_out_of_range():
    stored = fresh()
    stored.add(batch([b"1", b"2"]))
    stored.commit()
    stored.log.advance_start(1)
    for offset in (0, 3):
        with pytest.raises(OffsetOutOfRangeError):
            stored.log.slice(offset, 2, 1000)
    assert stored.log.slice(2, 2, 1000) is None
    assert stored.log.slice(2, 1, 1000) is None, "S13: beyond the bound, and in the log"
    assert stored.log.slice(1, 2, 1000) is not None, "a batch across the start is readable from its middle"


def test_slice_is_whole_batches_below_the_bound_and_at_least_one():
    stored = fresh()
    for _ in range(4):
        stored.add(batch([b"1", b"2"]))
    size = len(batch([b"1", b"2"]))
    log = stored.log

    def sliced(offset: int, bound: int, max_bytes: int) -> tuple[int, int] | None:
        found = log.slice(offset, bound, max_bytes)
        return None if found is None else (found.first_offset, found.length // size)

    assert sliced(0, 8, 1) == (0, 1)
    assert sliced(0, 8, 2 * size) == (0, 2)
    assert sliced(0, 8, 3 * size - 1) == (0, 2)
    assert sliced(3, 8, 10_000) == (2, 3)
    assert sliced(0, 6, 10_000) == (0, 3)
    assert sliced(0, 5, 10_000) == (0, 2), "a batch that ends above the bound is not served"
    assert sliced(4, 5, 10_000) is None


def test_reads_far_from_the_end_use_the_index_and_see_the_same():
    stored = fresh(segment_bytes=1 << 20, index_interval_bytes=4096)
    count = 3 * RECENT_MAX
    for number in range(count):
        stored.append(batch([b"%d" % number], timestamp=NOW + number))
    stored.store()
    stored.add(batch())
    log = stored.log
    assert len(log.segments[0].recent) < 2 * RECENT_MAX
    for offset in (0, 1, 57, 500, RECENT_MAX, count - RECENT_MAX - 1, count - RECENT_MAX, count - 1):
        found = log.slice(offset, log.log_end, 1)
        assert found is not None
        assert found.first_offset == offset
        assert headers(stored.disk.read(found.path, found.position, found.length))[0].base_offset == offset
        bounded = log.slice(0, offset, 1 << 30)
        assert (bounded is None) == (offset == 0)
        if bounded is not None:
            assert headers(stored.disk.read(bounded.path, 0, bounded.length))[-1].last_offset == offset - 1
        by_time = log.find_by_time(NOW + offset, log.log_end)
        assert by_time is not None
        assert by_time.first_offset == offset


def test_s16_bound_in_a_segment_that_was_closed_meanwhile():
    """KAFKA-9196: the high watermark is behind a roll."""
    stored = fresh(segment_bytes=3 * ONE)
    for _ in range(2):
        stored.add(batch())
    stored.commit()
    for _ in range(3):
        stored.add(batch())
    assert [segment.base_offset for segment in stored.log.segments] == [0, 3]
    found = stored.log.slice(0, stored.log.high_watermark, 10_000)
    assert found is not None
    assert found.length == 2 * ONE
    assert stored.log.slice(2, stored.log.high_watermark, 10_000) is None
    stored.log.update_high_watermark(4)
    assert stored.log.slice(2, 4, 10_000).first_offset == 2
    assert stored.log.slice(3, 4, 10_000).first_offset == 3


def test_time_look_up_in_closed_segments_and_with_equal_times():
    stored = fresh(segment_bytes=3 * ONE, index_interval_bytes=0)
    for time in (10, 30, 20, 30, 40, 35, 50):
        stored.add(batch(timestamp=NOW + time))
    stored.log.flush()
    stored.store()
    found = [stored.log.find_by_time(NOW + time, 7) for time in (0, 10, 11, 30, 31, 41, 51)]
    assert [each and each.first_offset for each in found] == [0, 0, 1, 1, 4, 6, None]
    assert stored.log.find_by_time(NOW + 31, 4) is None, "it is not below the bound"


def test_damaged_index_of_a_closed_segment_is_rebuilt_when_it_is_needed():
    stored = fresh(segment_bytes=10 * ONE, index_interval_bytes=0)
    for number in range(25):
        stored.add(batch(timestamp=NOW + number))
    stored.log.close()
    stored.store()
    content = stored.content()
    for base in (0, 10):
        path = f"{DIRECTORY}/{base:020d}.index"
        stored.disk.replace(path, stored.disk.read(path)[::-1])
    again = recovered(stored.disk, marks_of(stored.log), clean=True, segment_bytes=10 * ONE, index_interval_bytes=0)
    assert again.content(1) == content
    assert again.log.find_by_time(NOW + 13, 25).first_offset == 13


def test_few_closed_segments_have_their_indexes_in_memory():
    stored = fresh(segment_bytes=2 * ONE)
    for _ in range(12):
        stored.add(batch())
    stored.log.flush()
    stored.store()
    assert all(segment.offsets is None for segment in stored.log.segments[:-1])
    assert len(stored.content()) == 12
    assert sum(segment.offsets is not None for segment in stored.log.segments[:-1]) == 2


# Cutting.


def test_truncation_cuts_everything_that_is_derived():
    """KAFKA-10706, and no index entry points past the cut."""
    stored = fresh(segment_bytes=10 * ONE, index_interval_bytes=0)
    for number in range(24):
        stored.add(batch(timestamp=NOW + number), epoch=number // 5)
    stored.log.flush()
    stored.store()
    stored.log.truncate(16)
    stored.store()
    assert stored.log.log_end == 16
    assert stored.log.epochs.entries == [(0, 0), (1, 5), (2, 10), (3, 15)]
    assert log_names(stored) == [f"{offset:020d}.log" for offset in (0, 10)]
    assert not stored.disk.exists(f"{DIRECTORY}/{10:020d}.index"), "it said that the segment was synced"
    assert stored.disk.exists(f"{DIRECTORY}/{0:020d}.index")
    active = stored.log.segments[-1]
    assert active.offsets.entries[-1] == (5, 5 * ONE)
    assert active.times.entries[-1] == (NOW + 15, 5)
    assert active.max_timestamp == NOW + 15
    assert (active.size, active.bytes_since_entry) == (6 * ONE, ONE)
    stored.add(batch([b"other"], timestamp=NOW), epoch=9)
    assert stored.content()[-1][:2] == (16, 9)
    assert recovered(stored.disk).content() == stored.content()


def removed_logs(effects):
    """The base offsets of the log files that go; -1 for each sync of the directory."""
    found = []
    for effect in effects:
        path = effect.path if isinstance(effect, Remove) else effect.old if isinstance(effect, Rename) else ""
        if path.endswith(".log"):
            found.append(int(path[-24:-4]))
        elif isinstance(effect, SyncDirectory):
            found.append(-1)
    return found


def test_segments_go_one_by_one_durably_from_the_end_that_is_cut():
    """Or a power cut would leave a hole in a compacted log, where holes are believed."""
    stored = fresh(segment_bytes=2 * ONE, retention_bytes=3 * ONE)
    for _ in range(9):
        stored.add(batch())
    stored.commit()
    stored.log.apply_retention(NOW)
    assert removed_logs(stored.log.take_effects())[:6] == [0, -1, 2, -1, 4, -1]
    stored = fresh(segment_bytes=2 * ONE)
    for _ in range(7):
        stored.add(batch())
    stored.log.truncate(1)
    assert removed_logs(stored.log.take_effects())[:6] == [6, -1, 4, -1, 2, -1]


def test_s24_truncation_below_the_first_segment_begins_again_there():
    """KAFKA-6492, KAFKA-3978."""
    stored = fresh(segment_bytes=2 * ONE, retention_bytes=0)
    for _ in range(5):
        stored.add(produced(1, 0, stored.log.log_end), epoch=2)
    stored.commit()
    stored.log.apply_retention(NOW)
    stored.store()
    start = stored.log.log_start
    assert start == 5
    stored.log.truncate(3)
    stored.store()
    assert (stored.log.log_start, stored.log.high_watermark, stored.log.log_end) == (3, 3, 3)
    assert stored.log.epochs.entries == []
    assert stored.log.producers.states == {}
    stored.add(batch(), epoch=3)
    assert [each[0] for each in stored.content()] == [3]
    assert recovered(stored.disk).content() == stored.content()


def test_s24_truncation_to_a_segment_that_is_empty_then():
    stored = fresh(segment_bytes=2 * ONE)
    for _ in range(5):
        stored.add(batch())
    stored.log.truncate(4)
    stored.store()
    assert [(segment.base_offset, segment.size) for segment in stored.log.segments] == [
        (0, 2 * ONE),
        (2, 2 * ONE),
        (4, 0),
    ]
    assert len(stored.content()) == 4
    stored.log.truncate(0)
    stored.store()
    assert (stored.log.log_end, stored.log.high_watermark, stored.content()) == (0, 0, [])
    stored.add(batch())
    assert len(stored.content()) == 1


def test_truncation_drops_a_batch_that_goes_across_it():
    stored = fresh()
    stored.add(batch([b"1"]), batch([b"2", b"3", b"4"]))
    stored.commit()
    stored.log.truncate(2)
    assert (stored.log.log_end, stored.log.high_watermark) == (1, 1)


def test_truncation_at_the_end_drops_an_epoch_that_began_there():
    stored = fresh()
    stored.add(batch(), epoch=1)
    stored.log.begin_epoch(2)
    assert stored.log.end_offset_for(1) == (1, 1)
    stored.log.truncate(1)
    assert stored.log.epochs.entries == [(1, 0)]


def test_s15_elected_leader_without_data_is_in_the_file():
    """KAFKA-7415."""
    stored = fresh()
    stored.add(batch(), epoch=1)
    stored.log.begin_epoch(2)
    stored.log.begin_epoch(3)
    stored.store()
    assert stored.disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n1 0\n3 1\n"
    assert stored.log.end_offset_for(2) == (1, 1)
    assert stored.log.latest_epoch == 3


def test_restart_at_an_offset_leaves_nothing_of_before():
    stored = fresh(segment_bytes=2 * ONE)
    for _ in range(5):
        stored.append(produced(1, 0, stored.log.log_end), epoch=4)
    stored.log.truncate_fully_and_start_at(100, NOW)
    stored.store()
    assert log_names(stored) == [f"{100:020d}.log"]
    assert stored.disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n0\n"
    log = stored.log
    assert (log.log_start, log.high_watermark, log.log_end, log.written_end) == (100, 100, 100, 100)
    assert log.producers.states == {}
    stored.add(batch())
    assert recovered(stored.disk).log.log_end == 101


# The marks.


def test_start_only_rises_and_not_above_the_high_watermark():
    """KAFKA-5634."""
    stored = fresh()
    stored.add(batch(), batch(), batch(), epoch=2)
    stored.log.update_high_watermark(2)
    with pytest.raises(OffsetOutOfRangeError):
        stored.log.advance_start(3)
    assert stored.log.advance_start(2)
    assert not stored.log.advance_start(1)
    assert stored.log.log_start == 2
    assert stored.log.epochs.entries == [(2, 2)]


def test_high_watermark_stays_within_the_log_and_may_fall():
    stored = fresh()
    stored.add(batch(), batch(), batch())
    assert stored.log.update_high_watermark(9) == 3
    assert stored.log.update_high_watermark(1) == 1
    stored.log.advance_start(1)
    assert stored.log.update_high_watermark(-5) == 1


# Retention.


def filled(**changes):
    stored = fresh(segment_bytes=2 * ONE, **changes)
    for number in range(7):
        stored.add(batch(timestamp=NOW + number * 1000))
    stored.commit()
    return stored


def test_retention_by_time():
    stored = filled(retention_ms=5000)
    assert stored.log.apply_retention(NOW + 6000) == 0, "the newest record of a segment counts"
    assert stored.log.apply_retention(NOW + 8001) == 2
    assert (stored.log.log_start, len(stored.content())) == (4, 3)


def test_retention_by_size():
    stored = filled(retention_bytes=3 * ONE)
    assert stored.log.apply_retention(NOW) == 2
    assert stored.log.size_bytes == 3 * ONE


def test_retention_of_the_active_segment_rolls_first():
    stored = filled(retention_ms=0)
    assert stored.log.apply_retention(NOW + 10**6) == 4
    stored.store()
    assert log_names(stored) == [f"{7:020d}.log"]
    assert (stored.log.log_start, stored.log.log_end) == (7, 7)
    assert stored.log.apply_retention(NOW + 10**6) == 0, "an empty active segment stays"


def test_retention_stops_at_the_high_watermark():
    stored = filled(retention_ms=0)
    stored.log.update_high_watermark(3)
    assert stored.log.apply_retention(NOW + 10**6) == 1


def test_retention_below_the_start_even_of_a_compacted_log():
    stored = filled(retention_ms=0, cleanup_policy=("compact",))
    assert stored.log.apply_retention(NOW + 10**6) == 0
    stored.log.advance_start(5)
    assert stored.log.apply_retention(NOW) == 2
    assert stored.log.segments[0].base_offset == 4


def test_deleted_files_are_renamed_and_removed_later():
    stored = filled(retention_bytes=5 * ONE, file_delete_delay_ms=1000)
    stored.log.flush()
    stored.log.apply_retention(NOW)
    stored.store()
    gone = [name for name in stored.disk.list(DIRECTORY) if name.endswith(".deleted")]
    assert gone == [f"{0:020d}{suffix}.deleted" for suffix in (".index", ".log", ".timeindex")]
    stored.log.remove_deleted(NOW + 999)
    stored.store()
    assert [name for name in stored.disk.list(DIRECTORY) if name.endswith(".deleted")] == gone
    stored.log.remove_deleted(NOW + 1000)
    stored.store()
    assert not [name for name in stored.disk.list(DIRECTORY) if name.endswith(".deleted")]


def test_new_log_has_its_files():
    stored = fresh()
    assert isinstance(stored.log, Log)
    assert stored.disk.list(DIRECTORY) == [f"{0:020d}.log", "partition.metadata"]
