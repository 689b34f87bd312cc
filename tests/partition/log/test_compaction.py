"""What compaction keeps, against a dict by key, and each of its rules."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.partition.log.compaction import (
    COMPACTED,
    batches_of_log,
    cleaner_of,
    compact,
    files,
    keyed,
    newest,
    records_of_log,
    steps_of,
)
from tests.partition.log.derived import check_indexes
from tests.partition.log.rig import NOW, fresh, headers, marker, marks_of, recovered
from zab.partition.log.cleanable import cleanable
from zab.partition.log.errors import SegmentAwaitedError
from zab.partition.log.offset_map import ENTRY_BYTES, OffsetMap
from zab.partition.records.batch import BatchError, Codec, walk

DAY_MS = 86_400_000
KEYS = [b"a", b"b", b"c", b"d"]


def a_log(*batches, closes=True, **changes):
    """A log with these batches, committed; all but the last one are in closed segments."""
    stored = fresh(**{**COMPACTED, "segment_bytes": 400, **changes})
    for data in batches:
        stored.add(data, verified=True)
    if closes:
        stored.add(keyed([(b"end", bytes(stored.log.settings.segment_bytes - 80))]))
    stored.commit()
    return stored


def kept(stored):
    """(offset, key, value) below the active segment."""
    end = stored.log.segments[-1].base_offset
    return [(each.offset, each.key, each.value) for each in records_of_log(stored) if each.offset < end]


# ----------------------------------------------------------------------------------------------- against a plain model

PAIRS = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=30))), min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    rounds=st.lists(
        st.tuples(st.lists(st.tuples(PAIRS, st.sampled_from(list(Codec))), max_size=12), st.integers(0, 3 * DAY_MS)),
        min_size=1,
        max_size=4,
    ),
    map_keys=st.sampled_from([1, 2, 100]),
)
def test_every_key_has_its_newest_value_and_every_record_keeps_its_offset(rounds, map_keys):
    stored = fresh(**COMPACTED, segment_bytes=400)
    written, now = [], NOW
    tombstones = {}
    for batches, later in rounds:
        now += later
        for pairs, codec in batches:
            appended = stored.add(keyed(pairs, codec=codec, timestamp=now), now=now)
            for at, (key, value) in enumerate(pairs):
                written.append((appended.base_offset + at, key, value))
        stored.commit()
        before, end = newest(records_of_log(stored)), stored.log.log_end
        compact(stored, now, map_bytes=map_keys * ENTRY_BYTES)
        found = records_of_log(stored)
        offsets = [each.offset for each in found]
        assert offsets == sorted(set(offsets))
        assert {(each.offset, each.key, each.value) for each in found} <= set(written)
        after = newest(found)
        for key, (offset, value) in before.items():
            if value is not None:
                assert after[key] == (offset, value)
            elif key in after:
                assert after[key] == (offset, None)
            else:
                assert now - tombstones[offset] >= DAY_MS, (
                    "a tombstone is there for delete.retention.ms after it was seen"
                )
        for each in found:
            if each.value is None:
                tombstones.setdefault(each.offset, now)
        assert stored.log.log_end == end
        check_indexes(stored)
        again = recovered(stored.disk, marks_of(stored.log), **COMPACTED, segment_bytes=400)
        assert again.log.log_end == end
        assert records_of_log(again) == found
        stored = again
        stored.commit()
        stored.log.cleaned_end = 0 if len(written) % 2 else stored.log.cleaned_end


def test_when_all_is_clean_there_is_one_record_of_each_key():
    stored = a_log(*[keyed([(key, b"%d" % number)]) for number in range(20) for key in KEYS])
    assert compact(stored)
    assert [key for _, key, _ in kept(stored)] == KEYS
    assert not compact(stored), "it is clean"


# ----------------------------------------------------------------------------------------------------------- the rules


def test_records_without_a_key_go():
    stored = a_log(keyed([(None, b"1"), (b"k", b"2")]))
    compact(stored)
    assert kept(stored) == [(1, b"k", b"2")]


def test_base_and_last_offset_codec_and_epoch_of_a_batch_stay():
    first = keyed([(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")], codec=Codec.ZSTD)
    stored = a_log(first, keyed([(b"c", b"5")]))
    compact(stored)
    header = headers(stored.disk.read(stored.log.segments[0].path))[0]
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 3, 2)
    assert (header.codec, header.partition_leader_epoch) == (Codec.ZSTD, 0)
    assert [offset for offset, *_ in kept(stored)] == [1, 2, 4]


def test_a_tombstone_goes_in_the_first_round_after_its_time():
    stored = a_log(keyed([(b"a", b"1")]), keyed([(b"a", None)]))
    compact(stored)
    assert kept(stored) == [(1, b"a", None)]
    header = headers(stored.disk.read(stored.log.segments[0].path))[-1]
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW + DAY_MS
    assert records_of_log(stored)[0].timestamp_ms == NOW
    for later, expected in ((DAY_MS - 1, [(1, b"a", None)]), (DAY_MS, [])):
        stored.log.cleaned_end = 0
        compact(stored, NOW + later)
        assert kept(stored) == expected


def test_the_active_segment_and_what_is_not_committed_stay():
    batches = [keyed([(b"a", bytes(150))]) for _ in range(9)]
    stored = fresh(**COMPACTED, segment_bytes=500)
    for data in batches:
        stored.add(data)
    bases = [segment.base_offset for segment in stored.log.segments]
    assert bases == [0, 2, 4, 6, 8]
    assert cleanable(stored.log, NOW) is None
    stored.log.update_high_watermark(5)
    assert cleanable(stored.log, NOW).end == 4
    stored.commit()
    assert cleanable(stored.log, NOW).end == 8
    compact(stored)
    assert [offset for offset, *_ in batches_of_log(stored)][-2:] == [7, 8]


def test_records_of_an_open_transaction_and_above_stay():
    begins = keyed([(b"a", bytes(200))], producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    stored = a_log(keyed([(b"a", bytes(200))]), keyed([(b"a", bytes(200))]), begins, keyed([(b"a", bytes(200))]))
    assert stored.log.last_stable_offset == 2
    assert cleanable(stored.log, NOW).end <= 2


def test_a_record_younger_than_the_least_lag_stays():
    stored = a_log(keyed([(b"a", bytes(200))], timestamp=NOW - 10_000), keyed([(b"a", bytes(200))]))
    stored.log.settings = attrs.evolve(stored.log.settings, min_compaction_lag_ms=5000)
    assert cleanable(stored.log, NOW).end == 1
    assert cleanable(stored.log, NOW + 5000).end == 2


def test_the_dirty_part_has_to_be_more_than_the_ratio_or_too_old():
    stored = a_log(*[keyed([(b"%d" % number, bytes(200))]) for number in range(4)])
    stored.log.settings = attrs.evolve(stored.log.settings, min_cleanable_dirty_ratio=0.5)
    stored.log.cleaned_end = 2
    assert cleanable(stored.log, NOW) is None
    stored.log.cleaned_end = 1
    assert cleanable(stored.log, NOW).ratio == pytest.approx(0.75)
    stored.log.cleaned_end = 2
    stored.log.settings = attrs.evolve(stored.log.settings, max_compaction_lag_ms=1000)
    assert cleanable(stored.log, NOW + 1000) is None
    assert cleanable(stored.log, NOW + 1001).is_overdue


def test_a_segment_ends_in_time_to_be_compacted():
    stored = fresh(**COMPACTED, max_compaction_lag_ms=1000)
    stored.add(keyed([(b"a", b"1")]))
    stored.add(keyed([(b"a", b"2")], timestamp=NOW + 1001))
    assert len(stored.log.segments) == 2


def test_what_does_not_fit_into_the_map_waits_for_the_next_round():
    stored = a_log(*[keyed([(b"%d" % (number % 6), bytes(50))]) for number in range(24)])
    rounds = 0
    while compact(stored, map_bytes=2 * ENTRY_BYTES):
        rounds += 1
        assert rounds < 20
    assert rounds > 2
    assert [key for _, key, _ in kept(stored)] == [b"%d" % number for number in range(6)]


def test_a_record_above_what_the_map_knows_waits_whatever_it_is():
    stored = a_log(*[keyed([(key, b"")]) for key in (b"a", b"a", b"b", b"c", None)])
    compact(stored, map_bytes=2 * ENTRY_BYTES)
    assert stored.log.cleaned_end == 3
    assert kept(stored) == [(1, b"a", b""), (2, b"b", b""), (3, b"c", b""), (4, None, b"")]
    compact(stored)
    assert kept(stored) == [(1, b"a", b""), (2, b"b", b""), (3, b"c", b"")]


def test_the_map_is_bounded():
    found = OffsetMap(10 * ENTRY_BYTES, 0.5)
    assert [found.put(b"%d" % number, number) for number in range(6)] == [True] * 5 + [False]
    assert found.latest_offset == 4
    assert not found.put(b"0", 9), "nothing more after the first that has no room"


def test_the_last_batch_of_a_producer_stays_without_records_for_its_sequence():
    def data(sequence):
        return keyed([(b"a", b"%d" % sequence)], producer_id=7, producer_epoch=1, base_sequence=sequence)

    stored = a_log(data(0), data(1), keyed([(b"a", b"newer")]), keyed([(b"z", b"")]))
    compact(stored)
    assert batches_of_log(stored)[:-1] == [(1, 1, 0), (2, 2, 1), (3, 3, 1)]
    empty = headers(stored.disk.read(stored.log.segments[0].path))[0]
    assert (empty.producer_id, empty.producer_epoch, empty.last_sequence, empty.max_timestamp) == (7, 1, 1, NOW)
    again = recovered(stored.disk, marks_of(stored.log), **COMPACTED)
    assert again.log.producers.states[7].last_sequence == 1
    assert again.add(data(1)).is_duplicate


def test_the_last_batch_of_a_file_stays_without_records_so_that_there_is_no_gap():
    stored = a_log(*[keyed([(b"a", bytes(200))]) for _ in range(4)], keyed([(b"b", b"")] * 2))
    stored.add(keyed([(b"b", bytes(300))]))
    stored.add(keyed([(b"a", bytes(300))]))
    stored.commit()
    compact(stored)
    for segment, following in zip(stored.log.segments, stored.log.segments[1:], strict=False):
        last = headers(stored.disk.read(segment.path))[-1]
        assert last.last_offset + 1 == following.base_offset
    end = stored.log.log_end
    # The recovery point is an old one: everything is scanned.
    marks = attrs.evolve(marks_of(stored.log), recovery_point=1)
    assert recovered(stored.disk, marks, **COMPACTED).log.log_end == end


def transaction(pid, sequence, *pairs):
    return keyed(pairs, producer_id=pid, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def test_records_of_aborted_transactions_go_and_say_nothing_about_their_keys():
    batches = [keyed([(b"a", b"1")]), transaction(1, 0, (b"a", b"aborted")), marker(1, 0, commits=False)]
    batches += [transaction(1, 1, (b"b", b"2")), marker(1, 0, commits=True), keyed([(b"z", b"")])]
    stored = a_log(*batches)
    compact(stored)
    assert kept(stored) == [(0, b"a", b"1"), (3, b"b", b"2"), (5, b"z", b"")]
    assert [each.first_offset for each in stored.log.aborted_transactions(0, 100)] == [1]


def test_a_marker_goes_after_the_data_of_its_transaction_and_its_time():
    batches = [transaction(1, 0, (b"a", b"aborted")), marker(1, 0, commits=False)]
    batches += [keyed([(b"z", b"")]) for _ in range(2)]
    stored = a_log(*batches)
    stored.log.producers.expire(NOW + 1)
    compact(stored)
    assert (1, 1, 1) in batches_of_log(stored)
    assert list(stored.log.aborted_transactions(0, 100))
    stored.log.cleaned_end = 0
    compact(stored, NOW + 1)
    found = [header for header in headers(stored.disk.read(stored.log.segments[0].path)) if header.is_control]
    assert [(each.has_delete_horizon, each.base_timestamp) for each in found] == [(True, NOW + 1 + DAY_MS)]
    assert not list(stored.log.aborted_transactions(0, 100))
    for later, left in ((DAY_MS, 1), (DAY_MS + 1, 0)):
        stored.log.cleaned_end = 0
        compact(stored, NOW + later)
        assert [each.is_control for each in headers(stored.disk.read(stored.log.segments[0].path))].count(True) == left


def test_the_marker_that_is_all_of_a_producer_stays():
    stored = a_log(marker(1, 3, commits=True), keyed([(b"z", b"")]), keyed([(b"z", b"")]))
    for later in (0, 1, 2 * DAY_MS, 4 * DAY_MS):
        stored.log.cleaned_end = 0
        compact(stored, NOW + later)
    assert batches_of_log(stored)[0][:2] == (0, 0)
    assert headers(stored.disk.read(stored.log.segments[0].path))[0].producer_epoch == 3


def test_small_segments_become_one_and_their_snapshots_go():
    stored = a_log(*[keyed([(b"a", bytes(250))]) for _ in range(6)])
    assert len(stored.log.segments) == 7
    compact(stored)
    assert [segment.base_offset for segment in stored.log.segments] == [0, 1, 2, 3, 4, 5, 6]
    stored.log.cleaned_end = 0
    stored.log.settings = attrs.evolve(stored.log.settings, segment_bytes=1000)
    compact(stored)
    assert [segment.base_offset for segment in stored.log.segments] == [0, 6]
    assert [name for name in files(stored) if name.endswith(".snapshot")] == ["00000000000000000006.snapshot"]
    assert not [name for name in files(stored) if name.endswith((".cleaned", ".swap"))]


# -------------------------------------------------------------------------------- while it is under way


def test_nothing_is_read_of_a_segment_that_is_being_replaced():
    stored = a_log(*[keyed([(b"a", b"%d" % number)]) for number in range(8)])
    cleaner = cleaner_of(stored, NOW)
    for step in steps_of(cleaner, stored):
        if step.data:
            stored.log.compaction.write(step)
        if step.segment is not None:
            stored.log.compaction.replace(step.replaces, step.segment)
            assert stored.log.awaits_files
            assert stored.log.slice(step.base_offset, stored.log.log_end, 1000) is None
            with pytest.raises(SegmentAwaitedError):
                stored.log.find_by_time(NOW, stored.log.log_end)
        stored.store()
        assert not stored.log.awaits_files
        assert stored.log.slice(0, stored.log.log_end, 1000) is not None


def test_a_group_that_was_cut_meanwhile_is_not_replaced():
    stored = a_log(*[keyed([(b"a", bytes(150))]) for _ in range(8)])
    cleaner = cleaner_of(stored, NOW)
    steps = [step for step in steps_of(cleaner, stored) if step.segment is not None]
    assert stored.log.compaction.has(steps[-1].replaces)
    stored.log.truncate(5)
    assert not stored.log.compaction.has(steps[-1].replaces)
    assert stored.log.compaction.has(steps[0].replaces)


def test_truncation_lowers_what_is_clean():
    stored = a_log(*[keyed([(b"a", bytes(150))]) for _ in range(8)])
    compact(stored)
    assert stored.log.cleaned_end == 8
    stored.log.truncate(5)
    assert stored.log.cleaned_end == stored.log.log_end
    stored.log.truncate_fully_and_start_at(100, NOW)
    assert stored.log.cleaned_end == 100


def test_a_damaged_segment_is_not_rewritten():
    stored = a_log(*[keyed([(b"a", b"%d" % number)]) for number in range(8)])
    path = stored.log.segments[0].path
    data = bytearray(stored.disk.read(path))
    data[-1] ^= 1
    stored.disk.replace(path, bytes(data))
    with pytest.raises(BatchError, match="CRC"):
        list(steps_of(cleaner_of(stored, NOW), stored))


def test_a_step_reads_no_more_than_a_piece():
    stored = a_log(*[keyed([(b"%d" % number, bytes(10))]) for number in range(40)], segment_bytes=3000)
    cleaner = cleaner_of(stored, NOW, piece_bytes=1000)
    assert all(step.read_bytes <= 1000 for step in steps_of(cleaner, stored))
    assert [header for _, header in walk(stored.disk.read(stored.log.segments[0].path))]
