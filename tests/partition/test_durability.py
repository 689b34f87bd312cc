"""What of a topic that syncs nothing at once survives a power cut, since the broker syncs it from time to time."""

from random import Random

import pytest

from tests.partition.one_broker import OneBroker, a_batch, produce
from zab.kafka.primitives import uuid_text
from zab.partition.controller import znodes
from zab.partition.controller.effects import StoppedReplica
from zab.partition.log.checkpoints import RECOVERY_POINTS, TopicPartition, parse_offsets

CHECKPOINT_MS = 60_000
SEGMENT = {"segment_bytes": "300"}
"""Two batches are a segment."""


def rig_with(count, **settings):
    """A broker whose topic has so many batches, none of them synced by a client's wish."""
    rig = OneBroker()
    rig.create("t", **settings)
    client = rig.client()
    for _ in range(count):
        client.ask(produce("t", a_batch(bytes(60))), 9)
    return rig


def left_after_power_cut(rig, seed):
    rig.restart(crashes=Random(seed))
    return rig.replica("t").log.log_end


def synced_count(rig):
    return rig.replica("t").log.synced_end


def test_a_closed_segment_is_on_the_disk_by_the_next_checkpoint_and_the_one_after_it_says_so():
    rig = rig_with(3, **SEGMENT)
    assert [segment.base_offset for segment in rig.replica("t").log.segments] == [0, 2]
    rig.pass_time(CHECKPOINT_MS)
    assert synced_count(rig) == 2
    rig.pass_time(CHECKPOINT_MS)
    assert parse_offsets(rig.disk.read(RECOVERY_POINTS))[TopicPartition("t", 0)] == 2
    assert left_after_power_cut(rig, 1) >= 2


def test_no_recovery_point_is_above_what_is_synced():
    rig = rig_with(3, **SEGMENT)
    rig.holds = True
    rig.pass_time(2 * CHECKPOINT_MS)
    rig.let_go()
    assert parse_offsets(rig.disk.read(RECOVERY_POINTS))[TopicPartition("t", 0)] == 0


@pytest.mark.parametrize("ms", [0, 1, 500])
def test_flush_ms_bounds_how_long_a_record_is_not_synced(ms):
    rig = rig_with(1, flush_ms=str(ms))
    if ms:
        assert synced_count(rig) == 0
        rig.pass_time(ms - 1)
        assert synced_count(rig) == 0
    rig.pass_time(min(ms, 1))
    assert synced_count(rig) == 1
    assert left_after_power_cut(rig, 1) == 1


def test_flush_ms_counts_again_from_the_next_record_on():
    rig = rig_with(1, flush_ms="500")
    rig.pass_time(2000)
    rig.client().ask(produce("t", a_batch(b"2")), 9)
    rig.pass_time(499)
    assert synced_count(rig) == 1
    rig.pass_time(1)
    assert synced_count(rig) == 2


def test_flush_ms_of_a_topic_that_is_deleted_meanwhile_means_nothing():
    rig = rig_with(1, flush_ms="500")
    stopped = StoppedReplica(znodes.TopicPartition("t", 0), uuid_text(rig.replica("t").topic_id), 0, delete=True)
    rig.broker._local.stop(stopped, rig.now)
    rig.pass_time(2000)
    assert rig.replica("t") is None


def test_flush_messages_syncs_with_the_record_that_completes_the_number():
    rig = rig_with(2, flush_messages="3")
    assert synced_count(rig) == 0
    rig.client().ask(produce("t", a_batch(b"3")), 9)
    assert synced_count(rig) == 3
    assert left_after_power_cut(rig, 1) == 3
