"""Producers: duplicates, gaps, epochs, transactions, expiry, and the file of the snapshot."""

import pytest

from tests.partition.log.rig import DIRECTORY, NOW, fresh, headers, marker, marks_of, produced, recovered
from zab.kafka.errors import ErrorCode
from zab.partition.log.errors import LogError
from zab.partition.log.producers import ProducedBatch, ProducerState
from zab.partition.log.snapshots import SnapshotDamagedError, pack_snapshot, parse_snapshot

SNAPSHOT = bytes.fromhex(
    "0001 6a5b3e7c 00000001"
    "0000000000000007 0002 00000009 000000000000000c 00000002 0000018bcfe56800 00000003 ffffffffffffffff"
)
STATE = ProducerState(2, (ProducedBatch(9, 12, 2, NOW),), 3, -1, NOW)


def refused(stored, data, *, verified=False) -> ErrorCode:
    """The error code, with which nothing changed."""
    before = stored.log.log_end, dict(stored.log.producers.states)
    with pytest.raises(LogError) as raised:
        stored.append(data, verified=verified)
    assert before == (stored.log.log_end, stored.log.producers.states)
    return raised.value.error


def test_each_of_the_last_five_batches_is_a_duplicate():
    stored = fresh()
    answers = [stored.add(produced(1, 0, sequence * 2, 2)) for sequence in range(6)]
    for sequence in range(1, 6):
        again = stored.append(produced(1, 0, sequence * 2, 2))
        assert again.is_duplicate
        assert (again.base_offset, again.last_offset) == (answers[sequence].base_offset, answers[sequence].last_offset)
    assert refused(stored, produced(1, 0, 0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "older than the last five"
    for sequence in (10, 11):
        assert refused(stored, produced(1, 0, sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a part of one"
    assert refused(stored, produced(1, 0, 13, 1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "a gap"
    assert stored.log.log_end == 12


def test_duplicate_among_several_batches_appends_nothing():
    stored = fresh()
    stored.add(produced(1, 0, 0, 2))
    again = stored.append(produced(2, 0, 0), produced(1, 0, 0, 2))
    assert (again.is_duplicate, again.base_offset, stored.log.log_end) == (True, 0, 2)


def test_batches_of_one_request_follow_each_other():
    stored = fresh()
    assert stored.append(produced(1, 0, 0, 2), produced(1, 0, 2, 1)).last_offset == 2
    assert stored.log.producers.states[1].last_sequence == 2
    assert stored.append(produced(1, 0, 3), produced(1, 0, 4)).last_offset == 4
    with pytest.raises(LogError):
        stored.append(produced(1, 0, 5), produced(1, 0, 7))
    assert stored.log.log_end == 5, "all or none"


def test_new_epoch_begins_with_sequence_0_and_the_old_one_is_fenced():
    stored = fresh()
    stored.add(produced(1, 0, 5), epoch=0)
    assert refused(stored, produced(1, 1, 6)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    stored.add(produced(1, 1, 0))
    assert refused(stored, produced(1, 0, 6)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(stored, produced(1, 0, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH, "a duplicate of the old epoch too"


def test_sequence_wraps():
    stored = fresh()
    last = (1 << 31) - 1
    stored.add(produced(1, 0, last - 1, 2))
    assert not stored.append(produced(1, 0, 0)).is_duplicate
    assert stored.append(produced(1, 0, last - 1, 2)).is_duplicate
    stored.append(produced(2, 0, last, 3))
    assert stored.log.producers.states[2].last_sequence == 1
    assert stored.append(produced(2, 0, last, 3)).is_duplicate


def test_transactions_need_to_be_verified_once():
    stored = fresh()
    assert refused(stored, produced(1, 0, 0, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    stored.append(produced(1, 0, 0, transactional=True), verified=True)
    stored.append(produced(1, 0, 1, transactional=True))
    assert refused(stored, produced(1, 0, 2)) is ErrorCode.INVALID_TXN_STATE, "it writes beside its transaction"
    stored.append(marker(1, 0, commits=True))
    assert refused(stored, produced(1, 0, 2, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    stored.append(produced(1, 0, 2))


def test_another_epoch_does_not_go_on_in_an_open_transaction():
    stored = fresh()
    stored.append(produced(1, 3, 0, transactional=True), verified=True)
    assert stored.log.producers.has_open(1, 3)
    assert not stored.log.producers.has_open(1, 4)
    assert refused(stored, produced(1, 4, 0, transactional=True)) is ErrorCode.INVALID_TXN_STATE
    stored.append(marker(1, 3, commits=True))
    assert not stored.log.producers.has_open(1, 3)


def test_what_a_coordinator_appends_for_a_producer_has_no_sequence():
    stored = fresh()
    for _ in range(2):
        data = produced(1, 3, 0, transactional=True)
        stored.log.append_as_leader(data, headers(data), 0, NOW, is_verified=True, has_sequence=False)
    assert stored.log.log_end == 2, "none is taken for a duplicate"
    data = produced(1, 2, 0, transactional=True)
    with pytest.raises(LogError) as refusal:
        stored.log.append_as_leader(data, headers(data), 0, NOW, is_verified=True, has_sequence=False)
    assert refusal.value.error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_markers_of_zombies_are_refused():
    stored = fresh()
    stored.append(produced(1, 3, 0, transactional=True), verified=True)
    assert refused(stored, marker(1, 2, commits=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    stored.append(marker(1, 4, commits=False, coordinator_epoch=5))
    state = stored.log.producers.states[1]
    assert (state.epoch, state.coordinator_epoch, state.batches) == (4, 5, ())
    assert refused(stored, marker(1, 4, commits=True, coordinator_epoch=4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    stored.append(marker(9, 0, commits=True))
    assert stored.append(produced(1, 4, 0)).base_offset == 3


def test_last_stable_offset_waits_for_the_oldest_transaction_and_for_its_marker_to_be_committed():
    stored = fresh()
    stored.append(produced(9, 0, 0, 2))
    stored.append(produced(1, 0, 0, transactional=True), verified=True)
    stored.append(produced(2, 0, 0, transactional=True), verified=True)
    stored.commit()
    assert stored.log.last_stable_offset == 2
    stored.append(marker(1, 0, commits=False))
    assert stored.log.last_stable_offset == 2, "the marker is not below the high watermark"
    stored.commit()
    assert stored.log.last_stable_offset == 3
    stored.append(marker(2, 0, commits=True))
    stored.append(produced(9, 0, 2))
    stored.log.update_high_watermark(5)
    assert stored.log.last_stable_offset == 3
    stored.log.update_high_watermark(6)
    assert stored.log.last_stable_offset == 6


def test_aborted_transactions_of_a_range():
    stored = fresh(segment_bytes=200)
    for producer_id in (1, 2):
        stored.append(produced(producer_id, 0, 0, transactional=True), verified=True)
    stored.append(produced(9, 0, 0, 3))
    stored.append(marker(2, 0, commits=True))
    stored.append(marker(1, 0, commits=False))
    stored.append(produced(1, 0, 1, transactional=True), verified=True)
    stored.add(marker(1, 0, commits=False))
    stored.commit()
    assert len(stored.log.segments) > 2

    def found(start: int, end: int) -> list[tuple[int, int]]:
        return [(each.first_offset, each.last_offset) for each in stored.log.aborted_transactions(start, end)]

    assert found(0, 9) == [(0, 6), (7, 8)]
    assert found(0, 7) == [(0, 6)]
    assert found(7, 9) == [(7, 8)]
    assert found(3, 4) == [(0, 6)], "a transaction around the range"
    again = recovered(stored.disk, segment_bytes=200)
    assert list(again.log.aborted_transactions(0, 9)) == list(stored.log.aborted_transactions(0, 9))


def test_truncation_takes_producers_back():
    """KAFKA-12153: from memory above the high watermark, and from the files below it."""
    for committed in (0, 6):
        stored = fresh(segment_bytes=300)
        for sequence in range(8):
            stored.add(produced(1, 0, sequence))
        stored.add(produced(2, 0, 0))
        stored.log.update_high_watermark(committed)
        stored.log.truncate(3)
        stored.store()
        assert list(stored.log.producers.states) == [1]
        assert stored.log.producers.states[1].last_sequence == 2
        assert not stored.append(produced(1, 0, 3)).is_duplicate
        assert not stored.append(produced(2, 0, 7)).is_duplicate, "it is unknown: any sequence is right"


def test_producers_outlive_what_they_wrote():
    """KAFKA-7190."""
    stored = fresh(segment_bytes=200, retention_ms=1000)
    for sequence in range(6):
        stored.add(produced(1, 0, sequence))
    stored.commit()
    stored.log.apply_retention(NOW + 10_000)
    stored.store()
    assert (stored.log.size_bytes, stored.log.log_start) == (0, 6)
    for again in (stored, recovered(stored.disk, marks_of(stored.log), segment_bytes=200)):
        assert again.append(produced(1, 0, 5)).is_duplicate
        assert refused(again, produced(1, 0, 7)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producers_expire_by_time_but_not_within_a_transaction():
    stored = fresh()
    stored.append(produced(1, 0, 0, timestamp=NOW), produced(2, 0, 0, timestamp=NOW + 10))
    stored.append(produced(3, 0, 0, transactional=True, timestamp=NOW), verified=True)
    assert stored.log.producers.expire(NOW + 10) == [1]
    assert set(stored.log.producers.states) == {2, 3}
    stored.append(marker(3, 0, commits=True, timestamp=NOW + 20))
    assert stored.log.producers.expire(NOW + 20) == [2], "a marker is a sign of life (KAFKA-9144)"
    stored.log.truncate(0)
    assert stored.log.producers.states == {}


def test_restart_from_a_snapshot_and_the_batches_after_it():
    """All five are restored from the batches, also after a clean stop, whose snapshot has the last one."""
    stored = fresh()
    for sequence in range(5):
        stored.add(produced(1, 0, sequence))
    again = recovered(stored.disk)
    assert len(again.log.producers.states[1].batches) == 5
    stored.log.close()
    stored.store()
    clean = recovered(stored.disk, marks_of(stored.log), clean=True)
    assert clean.log.producers.states[1].batches == again.log.producers.states[1].batches
    assert clean.append(produced(1, 0, 0)).is_duplicate


def test_snapshot_file():
    data = SNAPSHOT[:2] + pack_snapshot({7: STATE})[2:6] + SNAPSHOT[6:]
    assert pack_snapshot({7: STATE}) == data
    assert parse_snapshot(data) == {7: STATE}
    empty = ProducerState(4, (), 5, -1, NOW)
    assert parse_snapshot(pack_snapshot({1: empty, 7: STATE})) == {1: empty, 7: STATE}
    assert parse_snapshot(pack_snapshot({})) == {}


def test_damaged_snapshot_is_not_believed():
    data = pack_snapshot({7: STATE})
    for size in range(len(data)):
        with pytest.raises(SnapshotDamagedError):
            parse_snapshot(data[:size])
    for at in range(len(data)):
        with pytest.raises(SnapshotDamagedError):
            parse_snapshot(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])


def test_damaged_snapshot_is_replaced_by_an_older_one():
    stored = fresh(segment_bytes=200)
    for sequence in range(6):
        stored.add(produced(1, 0, sequence))
    stored.log.close()
    stored.store()
    names = [name for name in stored.disk.list(DIRECTORY) if name.endswith(".snapshot")]
    for name in names[1:]:
        stored.disk.truncate(f"{DIRECTORY}/{name}", 9)
    again = recovered(stored.disk, marks_of(stored.log), clean=True, segment_bytes=200)
    assert again.log.producers.states[1].last_sequence == 5


def test_followers_and_recovery_refuse_nothing():
    stored = fresh()
    for data in (produced(1, 3, 7, offset=0), produced(1, 1, 2, offset=1), produced(1, 1, 9, offset=2)):
        stored.log.append_as_follower(data, headers(data), NOW)
    state = stored.log.producers.states[1]
    assert (state.epoch, state.last_sequence) == (1, 9)
