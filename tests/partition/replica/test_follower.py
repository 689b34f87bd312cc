"""A follower and its leader, each with its log: where the follower cuts, and what it takes."""

import pytest

from tests.partition.one_broker import WALL_MS, a_batch
from tests.partition.replica.states import a_state
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import EpochEndOffset, FetchPartitionData
from zab.kafka.primitives import Uuid
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.partition.replica.follower import Follower, Next
from zab.partition.replica.replica import Isolation, Reader, Replica, ReplicaError
from zab.partition.settings.topic_settings import TopicSettings
from zab.simulator.world.disk import FaultyDisk

PRODUCER = 7


class Side:
    """One broker's replica of the partition, and its storage."""

    def __init__(self, broker_id, **settings):
        texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.id = broker_id
        self.disk = FaultyDisk()
        self.log = Log.create(self.disk, "t-0", TopicSettings().with_changes(texts), b"version: 0\n", WALL_MS)
        self.files = Files(self.disk)
        self.replica = Replica(broker_id, "t", Uuid(b"i" * 16), 0, self.log, lag_max_ms=30_000)
        self.notes = []
        self.follower = None

    def becomes(self, leader, epoch, isr=(1, 2)):
        state = a_state(isr, leader=leader, leader_epoch=epoch, partition_epoch=epoch, replicas=(1, 2))
        assert self.replica.take_state(state, 0)
        self.follower = Follower(self.replica, epoch, self.notes) if leader != self.id else None
        self.store()

    def writes(self, *values, **options):
        for value in values:
            self.replica.append(memoryview(a_batch(value, **options)), 9, 1, WALL_MS)
        self.store()

    def store(self):
        for answer in self.files.perform(self.log.take_effects()):
            self.log.confirmed(answer.token)
        self.replica.advance(1)

    @property
    def bytes(self):
        return b"".join(bytes(self.disk.read(each.path, 0, each.size)) for each in self.log.segments)

    def fetches(self, leader, *, loses=False):
        """One fetch; with `loses`, its answer is lost."""
        asked = self.follower.asks
        answer = leader.answer(self, asked)
        if loses:
            return None
        goes_on = self.follower.take(asked, answer, WALL_MS)
        self.store()
        return goes_on

    def answer(self, follower, asked):
        reader = Reader(follower.id, 100 + follower.id, asked.log_start, is_noted=True, now=1)
        try:
            read = self.replica.read_for(
                *(reader, asked.offset, 1 << 20),
                current_leader_epoch=follower.follower.epoch,
                last_fetched_epoch=asked.last_epoch,
            )
        except ReplicaError as error:
            return a_refusal(error.error)
        self.replica.advance(1)
        records = b"" if read.data is None else self.disk.read(read.data.path, read.data.position, read.data.length)
        epoch, end_offset = read.diverging or (-1, -1)
        return FetchPartitionData(
            partition_index=0,
            error_code=0,
            high_watermark=self.log.high_watermark,
            log_start_offset=read.log_start,
            diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end_offset),
            aborted_transactions=None,
            records=bytes(records),
        )

    def follows(self, leader, rounds=10):
        """Fetch until nothing changes."""
        for _ in range(rounds):
            before = self.follower.asks, self.log.high_watermark
            self.fetches(leader)
            if before == (self.follower.asks, self.log.high_watermark):
                return
        raise AssertionError("it never comes to rest")


def a_refusal(error):
    return FetchPartitionData(
        partition_index=0, error_code=error, high_watermark=-1, aborted_transactions=None, records=None
    )


def two(**settings):
    return Side(1, **settings), Side(2, **settings)


def led_by(leader, epoch, *others):
    leader.becomes(leader.id, epoch)
    for other in others:
        other.becomes(leader.id, epoch)


# ------------------------------------------------------------------------------------------------------ where it cuts


def test_s1_a_restart_does_not_cut_to_the_high_watermark():
    """KIP-101, scenario 1: the mark lags, and what is above it may be acknowledged."""
    a, b = two()
    led_by(b, 0, a)
    b.writes(b"m1")
    a.follows(b)
    b.writes(b"m2")
    a.fetches(b)
    a.fetches(b, loses=True)
    assert (b.log.high_watermark, a.log.high_watermark, a.log.log_end) == (2, 1, 2)
    a.follower = Follower(a.replica, 0, a.notes)
    assert a.follower.asks.offset == 2
    led_by(a, 1, b)
    assert a.log.epochs.entries == [(0, 0), (1, 2)]
    a.writes(b"m3")
    b.follows(a)
    assert (a.bytes, a.log.log_end) == (b.bytes, 3)


def test_s3_two_quick_changes_of_the_leader_leave_equal_logs():
    """KIP-279: the answer says which epoch its offset belongs to."""
    a, b = two()
    led_by(a, 0, b)
    a.writes(*[b"%d" % each for each in range(10)])
    b.follows(a)
    led_by(a, 1, b)
    a.writes(*[b"a%d" % each for each in range(10)])
    led_by(b, 2)
    b.writes(*[b"b%d" % each for each in range(5)])
    led_by(a, 3, b)
    a.writes(*[b"c%d" % each for each in range(5)])
    assert (b.log.log_end, b.log.latest_epoch) == (15, 2)
    assert a.answer(b, b.follower.asks).diverging_epoch == EpochEndOffset(epoch=1, end_offset=20)
    b.fetches(a)
    assert b.log.log_end == 10
    b.follows(a)
    assert a.bytes == b.bytes
    assert b.log.epochs.entries == [(0, 0), (1, 10), (3, 20)]


def test_s15_an_epoch_without_records_is_cut_as_well():
    """KAFKA-7415."""
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1")
    b.follows(a)
    led_by(b, 1)
    led_by(a, 2, b)
    led_by(a, 3, b)
    assert b.log.latest_epoch == 1
    b.follows(a)
    assert b.log.epochs.entries == [(0, 0)]
    a.writes(b"2")
    b.follows(a)
    assert (a.bytes, b.log.epochs.entries) == (b.bytes, [(0, 0), (3, 1)])


def test_an_epoch_of_which_it_has_a_longer_part_is_cut_to_the_leaders_end():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    b.follows(a)
    a.writes(b"3")
    led_by(b, 1, a)
    a.follows(b)
    assert (a.log.log_end, a.bytes) == (2, b.bytes)


def test_records_before_its_first_epoch_are_cut_where_that_begins():
    """All that it has was written in epochs that the leader does not know."""
    a, b = two()
    led_by(a, 1, b)
    a.writes(b"1", b"2", b"3")
    led_by(b, 5)
    b.writes(b"x", b"y", b"z", b"w")
    led_by(a, 6, b)
    b.follows(a)
    assert a.bytes == b.bytes


def test_s24_producers_are_cut_with_the_log():
    """KAFKA-12153: a sequence that was cut away comes again, and is no duplicate."""
    a, b = two()
    led_by(a, 0, b)
    options = {"producer_id": PRODUCER, "producer_epoch": 0}
    a.writes(b"1", base_sequence=0, **options)
    b.follows(a)
    led_by(b, 1)
    b.writes(b"2", base_sequence=1, **options)
    led_by(a, 2, b)
    b.follows(a)
    led_by(b, 3, a)
    b.writes(b"other", base_sequence=1, **options)
    assert b.log.log_end == 2
    a.follows(b)
    assert a.bytes == b.bytes


def test_what_is_cut_below_the_mark_is_said_loudly():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    b.follows(a)
    b.log.update_high_watermark(2)
    empty = Side(1)
    empty.becomes(1, 1)
    b.becomes(1, 1)
    b.follower.take_offsets(0, 0, WALL_MS)
    assert "what was committed is lost here" in b.notes[0]


# ------------------------------------------------------------------------------------------------------ what it takes


@pytest.mark.parametrize(("epoch", "error"), [(3, ErrorCode.UNKNOWN_LEADER_EPOCH), (1, ErrorCode.FENCED_LEADER_EPOCH)])
def test_s5_another_epoch_gets_no_data_and_does_not_count(epoch, error):
    a, b = two()
    led_by(a, 2)
    a.writes(b"1")
    b.becomes(1, epoch)
    assert a.answer(b, b.follower.asks).error_code == error
    assert a.replica.leader.followers[2].log_end == -1
    goes_on = b.follower.take(b.follower.asks, a_refusal(error), WALL_MS)
    assert goes_on is (Next.ON_NEW_STATE if epoch < 2 else Next.LATER)


def test_the_offset_of_a_follower_whose_history_parts_does_not_count():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1")
    b.follows(a)
    led_by(b, 1)
    b.writes(b"x", b"y")
    led_by(a, 2, b)
    assert a.answer(b, b.follower.asks).diverging_epoch.epoch == 0
    assert a.replica.leader.followers[2].log_end == -1
    assert a.log.high_watermark == 1


def test_s6_an_answer_that_comes_after_a_cut_is_dropped():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    b.follows(a)
    asked = b.follower.asks
    a.writes(b"3")
    late = a.answer(b, asked)
    b.log.truncate(1)
    b.store()
    assert b.follower.take(asked, late, WALL_MS) is Next.AT_ONCE
    assert b.log.log_end == 1


def test_an_answer_of_an_earlier_epoch_is_dropped():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1")
    follower, asked = b.follower, b.follower.asks
    late = a.answer(b, asked)
    b.becomes(1, 1)
    follower.take(asked, late, WALL_MS)
    assert b.log.log_end == 0


def test_s7_who_is_below_the_start_of_the_epoch_does_not_join():
    """KAFKA-7128: the mark of a new leader lags."""
    a, b = two()
    a.becomes(1, 0, isr=(1,))
    a.writes(*[b"%d" % each for each in range(10)])
    a.log.update_high_watermark(5)
    a.becomes(1, 1, isr=(1,))
    a.log.high_watermark = 5
    leader = a.replica.leader
    assert leader.epoch_start == 10
    for offset, joins in ((7, False), (10, True)):
        leader.fetched_by(2, 1, offset=offset, log_start=0, leader_end=10, broker_epoch=102)
        proposal = leader.proposal(1, a.replica.position, looks_for_lag=False)
        assert (proposal is not None) is joins
    assert b.log.log_end == 0


def test_s13_a_mark_that_lags_answers_consumers_with_nothing():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    read = a.replica.read(1, 1 << 20, Isolation.READ_UNCOMMITTED)
    assert (read.high_watermark, read.data) == (0, None)


def test_s14_the_mark_is_not_taken_from_an_answer_that_says_that_histories_part():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2", b"3")
    b.follows(a)
    led_by(b, 1)
    b.writes(b"x")
    led_by(a, 2, b)
    b.log.update_high_watermark(1)
    asked = b.follower.asks
    answer = FetchPartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=3,
        log_start_offset=2,
        diverging_epoch=EpochEndOffset(epoch=0, end_offset=3),
        aborted_transactions=None,
        records=b"",
    )
    b.follower.take(asked, answer, WALL_MS)
    assert (b.log.high_watermark, b.log.log_start) == (1, 0)


def test_s21_a_batch_with_a_wrong_checksum_is_not_taken():
    """KAFKA-8722: the bad disk of a leader does not spread."""
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1")
    asked = b.follower.asks
    answer = a.answer(b, asked)
    records = bytearray(answer.records)
    records[-1] ^= 1
    damaged = FetchPartitionData(
        partition_index=0, error_code=0, high_watermark=0, aborted_transactions=None, records=bytes(records)
    )
    assert b.follower.take(asked, damaged, WALL_MS) is Next.LATER
    assert b.log.log_end == 0
    assert "cannot be taken" in b.notes[0]


def test_the_mark_of_a_follower_may_fall_and_never_passes_its_end():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    b.follows(a)
    assert b.log.high_watermark == 2
    for mark, expected in ((1, 1), (9, 2)):
        answer = FetchPartitionData(
            partition_index=0, error_code=0, high_watermark=mark, aborted_transactions=None, records=b""
        )
        b.follower.take(b.follower.asks, answer, WALL_MS)
        assert b.log.high_watermark == expected


def test_the_log_begins_where_that_of_the_leader_begins():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    b.follows(a)
    a.log.advance_start(1)
    b.follows(a)
    assert b.log.log_start == 1


def test_a_follower_counts_for_what_it_has_synced():
    a, b = two(flush_mode="batch")
    led_by(a, 0, b)
    a.writes(b"1")
    asked = b.follower.asks
    b.follower.take(asked, a.answer(b, asked), WALL_MS)
    assert not b.follower.is_stored
    b.store()
    assert b.follower.is_stored


# -------------------------------------------------------------------------------------------------------- out of range


def test_out_of_range_begins_again_where_the_leader_begins():
    a, b = two()
    led_by(a, 0, b)
    assert b.follower.take(b.follower.asks, a_refusal(ErrorCode.OFFSET_OUT_OF_RANGE), WALL_MS) is Next.AFTER_OFFSETS
    assert b.follower.take_offsets(90, 50, WALL_MS) is Next.AT_ONCE
    assert (b.log.log_start, b.log.log_end, b.log.high_watermark, b.log.epochs.entries) == (50, 50, 50, [])


def test_out_of_range_above_the_leaders_end_is_cut_to_it():
    a, b = two()
    led_by(a, 0, b)
    a.writes(b"1", b"2")
    b.follows(a)
    assert b.follower.take_offsets(1, 0, WALL_MS) is Next.AT_ONCE
    assert b.log.log_end == 1


def test_in_range_meanwhile_is_asked_again_later():
    a, b = two()
    led_by(a, 0, b)
    assert b.follower.take_offsets(5, 0, WALL_MS) is Next.LATER
    assert b.log.log_end == 0


def test_a_follower_of_an_unknown_broker_is_told_that_it_may_know_more():
    a, _ = two()
    a.becomes(1, 0)
    stranger = Side(3)
    stranger.follower = Follower(stranger.replica, 0, [])
    assert a.answer(stranger, stranger.follower.asks).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_former_life_of_a_broker_is_not_noted():
    a, b = two()
    led_by(a, 0, b)
    a.replica.leader.fetched_by(2, 1, offset=0, log_start=0, leader_end=0, broker_epoch=500)
    assert a.answer(b, b.follower.asks).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_was_elected_uncleanly_says_that_it_has_recovered():
    a, _ = two()
    assert a.replica.take_state(a_state((1,), replicas=(1, 2), is_recovering=True), 0)
    leader = a.replica.leader
    proposal = leader.proposal(1, a.replica.position, looks_for_lag=False)
    assert proposal is not None
    assert proposal.isr == (1,)
    recovered = a_state((1,), replicas=(1, 2), partition_epoch=proposal.partition_epoch + 1)
    assert a.replica.take_state(recovered, 1)
    assert leader.proposal(1, a.replica.position, looks_for_lag=False) is None


def test_a_leader_takes_the_number_in_sync_that_the_controller_says():
    a, _ = two(min_insync_replicas=1)
    assert a.replica.take_state(a_state((1,), replicas=(1, 2), min_isr=2), 0)
    a.writes(b"1")
    assert (a.replica.min_in_sync, a.log.high_watermark) == (2, 0)
    a.replica.take_state(a_state((1,), replicas=(1, 2), min_isr=1), 1)
    a.store()
    a.replica.advance(1)
    assert a.log.high_watermark == 1
