"""One replica of a partition with several: what is served to whom, and what is refused."""

import pytest

from tests.partition.one_broker import WALL_MS, a_batch
from tests.partition.replica.states import a_state
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.log.file_effects import Confirm
from zab.partition.log.files import Files
from zab.partition.log.log import Log
from zab.partition.records.batch import stamp_max_timestamp
from zab.partition.replica.replica import ALL_IN_SYNC, Isolation, Replica, ReplicaError
from zab.partition.settings.topic_settings import TopicSettings
from zab.simulator.world.disk import FaultyDisk


class Rig:
    """A replica on broker 1, and its storage."""

    def __init__(self, **settings):
        texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.disk = FaultyDisk()
        log = Log.create(self.disk, "t-0", TopicSettings().with_changes(texts), b"version: 0\n", WALL_MS)
        self.files = Files(self.disk)
        self.replica = Replica(1, "t", Uuid(b"i" * 16), 0, log, lag_max_ms=30_000)

    def append(self, *values, acks=1):
        appended = self.replica.append(memoryview(a_batch(*values)), 9, acks, WALL_MS)
        self.store()
        return appended

    def store(self):
        effects = self.replica.log.take_effects()
        for answer in self.files.perform(effects):
            self.replica.log.confirmed(answer.token)
        assert any(isinstance(effect, Confirm) for effect in effects)
        self.replica.advance(1)

    def read(self, offset=0, isolation=Isolation.READ_UNCOMMITTED, **others):
        return self.replica.read(offset, 1 << 20, isolation, **others)


def test_a_consumer_gets_what_everybody_has_and_a_follower_what_the_leader_has():
    rig = Rig()
    assert rig.replica.take_state(a_state((1, 2)), 0)
    rig.append(b"1")
    rig.append(b"2")
    assert rig.read().data is None
    assert rig.read(1).data is None, "it is not out of range, either"
    follower = rig.read(is_follower=True).data
    assert follower is not None
    rig.replica.leader.fetched_by(2, 1, offset=1, log_start=0, leader_end=2, broker_epoch=102)
    assert rig.replica.advance(1)
    first = rig.read().data
    assert first is not None
    assert first.length == follower.length // 2
    assert rig.read().high_watermark == 1
    with pytest.raises(ReplicaError) as caught:
        rig.read(3)
    assert caught.value.error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_is_written_for_all_in_sync_needs_enough_of_them():
    rig = Rig(min_insync_replicas=2)
    rig.replica.take_state(a_state((1,)), 0)
    with pytest.raises(ReplicaError) as caught:
        rig.append(b"1", acks=ALL_IN_SYNC)
    assert caught.value.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert rig.replica.log.log_end == 0
    rig.append(b"1", acks=1)
    assert rig.replica.log.high_watermark == 0, "and the mark does not rise"
    assert not rig.replica.has_enough_in_sync
    rig.replica.take_state(a_state((1, 2), partition_epoch=8), 0)
    assert rig.replica.has_enough_in_sync
    rig.append(b"2", acks=ALL_IN_SYNC)


def test_a_replica_that_does_not_lead_serves_nobody():
    rig = Rig()
    rig.replica.take_state(a_state(leader=2), 0)
    with pytest.raises(ReplicaError) as caught:
        rig.append(b"1")
    assert caught.value.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ReplicaError):
        rig.read()
    assert not rig.replica.advance(1)


def test_older_states_are_not_taken():
    rig = Rig()
    assert rig.replica.take_state(a_state(leader_epoch=5), 0)
    assert not rig.replica.take_state(a_state(leader=2, leader_epoch=4, partition_epoch=9), 0)
    assert rig.replica.leader is not None
    leader = rig.replica.leader
    assert rig.replica.take_state(a_state((1, 2), leader_epoch=5, partition_epoch=8), 0)
    assert rig.replica.leader is leader, "it is the same epoch"
    assert rig.replica.take_state(a_state(leader=2, leader_epoch=6), 0)
    assert rig.replica.leader is None


def test_a_leader_notes_its_epoch_at_its_start_also_without_data():
    rig = Rig()
    rig.replica.take_state(a_state(leader_epoch=5), 0)
    rig.append(b"1")
    rig.replica.take_state(a_state(leader_epoch=7), 0)
    rig.replica.take_state(a_state(leader_epoch=9), 0)
    assert rig.replica.log.end_offset_for(9) == (9, 1)
    assert rig.replica.leader.epoch_start == 1


@pytest.mark.parametrize("validation", ["header", "full"])
def test_a_wrong_largest_time_is_corrected_where_records_are_read(validation):
    rig = Rig(record_validation=validation)
    rig.replica.take_state(a_state((1,), replicas=(1,)), 0)
    batch = bytearray(a_batch(b"1"))
    stamp_max_timestamp(batch, 0, WALL_MS + 5)
    rig.replica.append(memoryview(bytes(batch)), 9, 1, WALL_MS)
    rig.store()
    assert rig.replica.newest_timestamp == (WALL_MS if validation == "full" else WALL_MS + 5)
