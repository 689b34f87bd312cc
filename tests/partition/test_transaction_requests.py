"""Transactions of one broker without a host: from messages to markers, and what consumers are given of them."""

from random import Random

import attrs
import pytest

from tests.partition.one_broker import OneBroker, produce
from tests.partition.read_committed import shown
from tests.partition.transactional import ID, Transactional
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.between_brokers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.group_offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from zab.kafka.messages.topics import DeleteTopicsRequest
from zab.kafka.messages.transaction_admin import (
    DescribeProducersRequest,
    DescribeProducersTopic,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from zab.kafka.messages.transactions import (
    EndTxnRequest,
    InitProducerIdRequest,
)
from zab.kafka.primitives import uuid_text
from zab.partition.controller.effects import LEADER_DURING_DELETION, StoppedReplica, StopReplica, ToBroker
from zab.partition.controller.znodes import TopicPartition
from zab.partition.requests import producer_ids
from zab.partition.transactions.describing import NAMES

LINES = "offsets.topic.num.partitions=2\ntransaction.state.log.num.partitions=3\n"
COMMITTED, UNCOMMITTED = 1, 0


@pytest.fixture
def rig():
    rig = OneBroker(LINES)
    client = rig.client()
    for key_type in (0, 1):
        client.ask(FindCoordinatorRequest(key=ID, key_type=key_type), 2)
        assert client.ask(FindCoordinatorRequest(key=ID, key_type=key_type), 2).node_id == 1
    rig.create("t", 2)
    return rig


@pytest.fixture
def producer(rig):
    producer = Transactional(rig.client())
    assert producer.init() == 0
    return producer


def fetched(rig, isolation=COMMITTED, offset=0, index=0, version=11):
    """(the values that a consumer shows, up to where all is decided)."""
    client = rig.client()
    asked = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        isolation_level=isolation,
        topics=(FetchTopic(topic="t", partitions=(asked,)),),
        forgotten_topics_data=(),
    )
    [part] = client.ask(request, version).responses[0].partitions
    client.leave()
    assert not part.error_code
    aborted = [(each.first_offset, each.producer_id) for each in part.aborted_transactions or ()]
    return shown(bytes(part.records or b""), aborted), part.last_stable_offset


def latest(rig, isolation):
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = (ListOffsetsTopic(name="t", partitions=(asked,)),)
    answer = rig.client().ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics), 5)
    return answer.topics[0].partitions[0].offset


def committed_offset(rig, *, require_stable=False):
    topics = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
    [topic] = rig.client().ask(OffsetFetchRequest(group_id="g", topics=topics, require_stable=require_stable), 7).topics
    [found] = topic.partitions
    return found.committed_offset if not found.error_code else ErrorCode(found.error_code)


# ----------------------------------------------------------------------------------------------- commits and aborts


def test_the_topic_of_transactions_has_the_settings_of_the_file(rig):
    topic = rig.broker.image.topics["__transaction_state"]
    assert sorted(topic.partitions) == [0, 1, 2]
    log = rig.replica("__transaction_state").log
    assert (log.settings.flush_mode, log.settings.min_insync_replicas) == ("batch", 2)
    assert log.settings.is_compacted


def test_what_is_committed_is_seen_once_it_is(rig, producer):
    assert producer.add("t", 0, 1) == [0, 0]
    assert producer.send(b"a", b"b") == producer.send(b"c", index=1) == 0
    assert fetched(rig) == ([], 0)
    assert fetched(rig, UNCOMMITTED)[0] == [b"a", b"b"]
    assert (latest(rig, COMMITTED), latest(rig, UNCOMMITTED)) == (0, 2)
    assert producer.end() == 0
    assert fetched(rig) == ([b"a", b"b"], 3)
    assert fetched(rig, index=1) == ([b"c"], 2)
    assert latest(rig, COMMITTED) == 3


def test_what_is_aborted_is_seen_by_nobody_who_reads_committed(rig, producer):
    producer.add()
    producer.send(b"a")
    assert producer.end(commits=False) == 0
    assert fetched(rig) == ([], 2)
    assert fetched(rig, UNCOMMITTED)[0] == [b"a"]
    producer.add()
    producer.send(b"b")
    assert producer.end() == 0
    assert fetched(rig) == fetched(rig, offset=1) == ([b"b"], 4)


def test_transactions_that_overlap_end_each_by_itself(rig, producer):
    other = Transactional(rig.client(), name="other")
    assert other.init() == 0
    producer.add()
    other.add()
    producer.send(b"a1")
    other.send(b"b1", name="other")
    producer.send(b"a2")
    assert other.end() == 0
    assert fetched(rig) == ([], 0), "an open one holds back what was committed after it began"
    assert producer.end(commits=False) == 0
    assert fetched(rig) == ([b"b1"], 5)


def test_a_read_gets_only_the_aborted_transactions_near_to_it(rig, producer):
    rig.create("many", segment_bytes=1 << 20, index_interval_bytes=0)
    for number in range(20):
        assert producer.add("many") == [0]
        assert producer.send(b"%d" % number * 10, topic="many") == 0
        assert producer.end(commits=False) == 0
    log = rig.replica("many").log
    found = log.slice(0, log.last_stable_offset, 100)
    assert len(log.aborted_in(0, found, log.last_stable_offset)) <= 2
    assert len(log.aborted_in(0, log.slice(0, 40, 1 << 20), 40)) == 20


def test_a_transaction_is_answered_when_the_disk_has_the_decision(rig, producer):
    producer.add()
    producer.send(b"a")
    rig.holds = True
    producer.client.send(EndTxnRequest(**producer._who, committed=True), 3)
    assert producer.client.answers() == []
    rig.let_go()
    [answer] = producer.client.answers()
    assert answer.error_code == 0
    assert fetched(rig) == ([b"a"], 2)


# ----------------------------------------------------------------------------------------------------------- refusals


def test_a_batch_whose_partition_was_not_added_is_refused(rig, producer):
    assert producer.send(b"a") == ErrorCode.INVALID_TXN_STATE
    assert producer.add("t", 1) == [0]
    assert producer.send(b"a") == ErrorCode.INVALID_TXN_STATE
    assert producer.send(b"a", index=1) == 0
    assert producer.end() == 0
    assert producer.send(b"late", index=1) == ErrorCode.INVALID_TXN_STATE, "it would open what nobody ends"
    assert producer.send(b"x", index=1, name=None) == ErrorCode.INVALID_TXN_STATE
    assert producer.send(b"x", index=1, name="nobody") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert fetched(rig, index=1) == ([b"a"], 2)


def test_the_verification_of_one_producer_lets_no_other_in(rig, producer):
    """Two batches in one request, of which the first one's producer has a transaction."""
    producer.add()
    other = Transactional(rig.client(), name="other")
    other.init()
    data = producer.batch(b"a") + other.batch(b"b")
    [answer] = producer.client.ask(produce("t", data, transactional_id=ID), 9).responses
    assert answer.partition_responses[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert fetched(rig, UNCOMMITTED)[0] == []


def test_a_producer_writes_nothing_beside_its_transaction(rig, producer):
    producer.add()
    producer.send(b"a")
    assert producer.send(b"b", is_transactional=False) == ErrorCode.INVALID_TXN_STATE


def test_partitions_that_do_not_exist_or_are_internal_fail_the_others(rig, producer):
    assert producer.add("t", 0, 7) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.add("__consumer_offsets", 0) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert producer.end() == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("init", "end", "error"),
    [(4, 2, ErrorCode.PRODUCER_FENCED), (3, 1, ErrorCode.INVALID_PRODUCER_EPOCH)],
    ids=["new", "old"],
)
def test_a_zombie_is_fenced_in_the_words_of_its_version(rig, producer, init, end, error):
    zombie = attrs.evolve(producer, sequences={})
    producer.add()
    producer.send(b"a")
    successor = Transactional(rig.client())
    assert successor.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert successor.init() == 0
    assert successor.epoch == zombie.epoch + 2
    assert zombie.end(version=end) == error
    assert zombie.add(version=end) == [error]
    assert zombie.init(init, producer_id=zombie.producer_id, producer_epoch=zombie.epoch) == error
    assert zombie.send(b"z") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert fetched(rig) == ([], 2)


def test_a_transaction_that_takes_too_long_is_aborted_and_holds_nothing_back(rig, producer):
    producer.add()
    producer.send(b"a")
    rig.pass_time(69_000)
    assert fetched(rig)[1] == 2
    assert producer.send(b"b") == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end() == ErrorCode.PRODUCER_FENCED


def test_a_deleted_topic_does_not_keep_a_transaction_from_its_end(rig, producer):
    rig.create("gone")
    producer.add("gone")
    producer.send(b"a", topic="gone")
    producer.add()
    producer.send(b"b", index=0)
    rig.client().ask(DeleteTopicsRequest(topic_names=("gone",), timeout_ms=1000), 5)
    assert producer.end() == 0
    rig.pass_time(1000)
    assert producer.add() == [0], "it is complete"


def test_without_ids_of_producers_who_waits_is_told_to_ask_again(rig, monkeypatch):
    monkeypatch.setattr(producer_ids, "WAITING_MAX", 0)
    assert Transactional(rig.client(), name="new").init() == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ------------------------------------------------------------------------------------------------------------ offsets


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_count_with_the_transaction(rig, producer, commits):
    assert producer.commit_offset(4) == ErrorCode.INVALID_TXN_STATE, "they are not part of it"
    assert producer.add_offsets() == 0
    assert producer.commit_offset(5) == producer.commit_offset(6) == 0
    assert committed_offset(rig) == -1
    assert committed_offset(rig, require_stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert producer.end(commits) == 0
    assert committed_offset(rig) == committed_offset(rig, require_stable=True) == (6 if commits else -1)
    assert producer.commit_offset(7) == ErrorCode.INVALID_TXN_STATE, "it would open what nobody ends"


def test_offsets_of_a_zombie_are_refused(rig, producer):
    producer.add_offsets()
    zombie = attrs.evolve(producer)
    assert Transactional(rig.client()).init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert zombie.commit_offset(5) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert committed_offset(rig, require_stable=True) == -1


@pytest.mark.parametrize("crashes", [None, Random(3)], ids=["stopped", "lost power"])
@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_goes_on_after_a_restart(rig, producer, commits, crashes):
    producer.add()
    producer.send(b"a")
    producer.add_offsets()
    producer.commit_offset(5)
    rig.restart()
    producer.client = rig.client()
    assert committed_offset(rig, require_stable=True) is ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched(rig) == ([], 0)
    producer.send(b"b")
    assert producer.end(commits) == 0
    assert fetched(rig)[0] == ([b"a", b"b"] if commits else [])
    assert committed_offset(rig, require_stable=True) == (5 if commits else -1)
    rig.restart(crashes=crashes)
    assert committed_offset(rig, require_stable=True) == (5 if commits else -1)


@pytest.mark.parametrize("seed", range(5))
def test_what_was_decided_survives_a_loss_of_power_before_its_markers(rig, producer, seed):
    rig.create("synced", flush_mode="batch")
    producer.add("synced")
    assert producer.send(b"a", topic="synced") == 0
    producer.add_offsets()
    assert producer.commit_offset(5) == 0
    taken = rig.broker._coordinators.markers.write
    rig.broker._coordinators.markers.write = lambda marker, done: done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert producer.end() == 0
    rig.broker._coordinators.markers.write = taken
    assert committed_offset(rig) == -1
    rig.restart(crashes=Random(seed))
    assert committed_offset(rig, require_stable=True) == 5
    log = rig.replica("synced").log
    assert (log.last_stable_offset, log.log_end) == (2, 2)


def test_a_leader_that_has_just_started_is_asked_again(rig, producer):
    """It knows no topic yet, and says so of one that there is."""
    producer.add()
    assert producer.send(b"a") == 0
    taken = rig.broker._coordinators.markers.write
    rig.broker._coordinators.markers.write = lambda marker, done: done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert producer.end() == 0
    rig.broker._coordinators.markers.write = taken
    assert fetched(rig) == ([], 0)
    rig.pass_time(1000)
    assert fetched(rig)[0] == [b"a"]


# ---------------------------------------------------------------------------------------------------------- operators


def test_a_marker_is_done_when_the_disk_has_it(rig, producer):
    producer.add()
    producer.send(b"a")
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0,)),),
        coordinator_epoch=9,
    )
    rig.holds = True
    client = rig.client()
    client.send(WriteTxnMarkersRequest(markers=(marker,)), 1)
    assert client.answers() == []
    rig.let_go()
    [answer] = client.answers()
    assert answer.markers[0].topics[0].partitions[0].error_code == 0


def test_operators_see_transactions_and_end_one_that_hangs(rig, producer):
    producer.add()
    producer.send(b"a")
    client = rig.client()
    [listed] = client.ask(
        ListTransactionsRequest(state_filters=("Ongoing",), producer_id_filters=()), 0
    ).transaction_states
    assert (listed.transactional_id, listed.producer_id) == (ID, producer.producer_id)
    asked = DescribeTransactionsRequest(transactional_ids=(ID, "nobody"))
    first, second = client.ask(asked, 0).transaction_states
    assert (first.transaction_state, first.topics[0].topic, first.topics[0].partitions) == ("Ongoing", "t", (0,))
    assert first.transaction_state in NAMES.values()
    assert second.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    topics = (DescribeProducersTopic(name="t", partition_indexes=(0, 7)),)
    known, unknown = client.ask(DescribeProducersRequest(topics=topics), 0).topics[0].partitions
    [active] = known.active_producers
    assert (active.producer_id, active.current_txn_start_offset, active.last_sequence) == (producer.producer_id, 0, 0)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    marker = WritableTxnMarker(
        producer_id=active.producer_id,
        producer_epoch=active.producer_epoch,
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name="t", partition_indexes=(0, 7)),),
        coordinator_epoch=active.coordinator_epoch,
    )
    [answer] = client.ask(WriteTxnMarkersRequest(markers=(marker,)), 1).markers
    assert [each.error_code for each in answer.topics[0].partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert fetched(rig) == ([], 2)
    old = attrs.evolve(marker, producer_epoch=-1)
    [answer] = client.ask(WriteTxnMarkersRequest(markers=(old,)), 1).markers
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.ask(WriteTxnMarkersRequest(markers=()), 1).markers == ()


def test_a_coordinator_goes_with_its_replica(rig):
    """The controller has it deleted before it says that somebody else leads, while an append is under way."""
    client, broker = rig.client(), rig.broker
    rig.holds = True
    client.send(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4)
    assert not client.answers()
    topic = broker.image.topics["__transaction_state"]
    stopped = [
        StoppedReplica(TopicPartition(topic.name, index), uuid_text(topic.id), LEADER_DURING_DELETION, delete=True)
        for index in topic.partitions
    ]
    message = StopReplica(tuple(stopped))
    broker._own_controller._take_own(ToBroker(1, broker.epoch, 1, broker._arrivals.controller_epoch, message))
    rig.turn()
    [answer] = client.answers()
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
