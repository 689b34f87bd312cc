"""Several brokers over links, without a host: they replicate, elect, and end with the same logs."""

from random import Random

import pytest

from tests.partition.one_broker import a_batch, metadata, produce
from tests.partition.several_brokers import SeveralBrokers
from zab.coordination.driver import Connected, Expired
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from zab.kafka.messages.topics import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from zab.kafka.messages.transactions import InitProducerIdRequest
from zab.partition.controller.effects import PartitionStates
from zab.partition.controller.requests import ControlledShutdown
from zab.partition.links.messages import Asked, FollowerAsked, Told


def the_same_logs(rig, topic):
    found = [rig.bytes_of(broker_id, topic) for broker_id in rig.brokers]
    assert len(set(found)) == 1, [len(each) for each in found]
    return found[0]


def test_what_all_in_sync_have_is_acknowledged_and_everywhere_the_same():
    rig = SeveralBrokers()
    rig.create("t")
    for number in range(5):
        assert rig.produce("t", b"%d" % number).error_code == ErrorCode.NONE
    assert the_same_logs(rig, "t")
    marks = [each.replica("t").log.high_watermark for each in rig.brokers.values()]
    assert marks == [5, 5, 5], "followers are told without waiting"


def test_a_write_waits_for_a_follower_until_it_is_out_of_sync():
    rig = SeveralBrokers()
    rig.create("t")
    rig.cut(1, 3)
    client = rig.leader("t").client()
    client.send(produce("t", a_batch(b"1"), timeout_ms=60_000), 9)
    assert not client.answers()
    rig.pass_time(29_000)
    assert not client.answers()
    assert set(rig.state("t").in_sync.committed) == {1, 2, 3}
    rig.pass_time(20_000)
    assert client.answers()
    assert set(rig.state("t").in_sync.committed) == {1, 2}
    rig.heal()
    assert set(rig.state("t").in_sync.committed) == {1, 2, 3}
    the_same_logs(rig, "t")


def test_too_few_in_sync_refuse_a_write_that_waits_for_all():
    rig = SeveralBrokers()
    rig.create("t", min_insync_replicas=2)
    rig.crash(2)
    rig.crash(3)
    assert set(rig.state("t").in_sync.committed) == {1}
    assert rig.produce("t", b"1").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert rig.produce("t", b"1", acks=1).error_code == ErrorCode.NONE
    assert rig.leader("t").replica("t").log.high_watermark == 0, "the mark stands still (KIP-966)"


def test_the_set_that_shrinks_meanwhile_is_too_small_after_the_append():
    rig = SeveralBrokers()
    rig.create("t", min_insync_replicas=3)
    rig.cut(1, 3)
    client = rig.leader("t").client()
    client.send(produce("t", a_batch(b"1"), timeout_ms=120_000), 9)
    rig.pass_time(60_000)
    assert not client.answers(), "the mark stands still, and nobody knows yet"
    rig.pass_time(60_000)
    [answer] = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@pytest.mark.parametrize("loses", [False, True])
def test_another_leads_when_the_leader_ends_and_nothing_acknowledged_is_lost(loses):
    rig = SeveralBrokers()
    rig.create("t", flush_mode="batch")
    rig.produce("t", b"1", b"2")
    rig.crash(1, Random(1) if loses else None)
    assert rig.leader("t").broker.id == 2
    assert rig.produce("t", b"3").error_code == ErrorCode.NONE
    rig.start(1)
    rig.pass_time(5000)
    assert set(rig.state("t").in_sync.committed) == {1, 2, 3}
    assert len(the_same_logs(rig, "t"))
    assert rig.leader("t").replica("t").log.high_watermark == 3


def test_what_only_the_dead_leader_had_is_cut_when_it_returns():
    rig = SeveralBrokers()
    rig.create("t")
    rig.produce("t", b"all")
    rig.cut(1, 2)
    rig.cut(1, 3)
    assert rig.produce("t", b"one", b"alone", acks=1).error_code == ErrorCode.NONE
    rig.crash(1)
    rig.links.severed.clear()
    assert rig.produce("t", b"others").error_code == ErrorCode.NONE
    rig.start(1)
    rig.pass_time(5000)
    assert rig.brokers[1].replica("t").log.log_end == 2
    assert b"alone" not in the_same_logs(rig, "t")
    assert any("is cut from 3 to 1" in each for each in rig.brokers[1].reports)


def test_a_write_that_waits_when_its_leader_is_deposed_is_not_acknowledged():
    """S18: nor is it when the same broker leads again."""
    rig = SeveralBrokers()
    rig.create("t", replicas=(2, 1, 3))
    rig.cut(2, 3)
    rig.cut(2, 1)
    client = rig.brokers[2].client()
    client.send(produce("t", a_batch(b"1"), timeout_ms=60_000), 9)
    assert not client.answers()
    rig.tree.end_session(rig.brokers[2].session)
    rig.run()
    assert rig.leader("t").broker.id == 1
    rig.links.severed.clear()
    broker = rig.brokers[2]
    broker.session = rig.tree.begin_session()
    broker.answers += [Expired(), Connected(broker.session)]
    rig.pass_time(5000)
    [answer] = client.answers()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    the_same_logs(rig, "t")


# ---------------------------------------------------------------------------------------------------------- controller


def test_any_broker_creates_topics_and_gives_out_producer_ids():
    rig = SeveralBrokers()
    client = rig.brokers[3].client()
    topic = CreatableTopic(name="t", num_partitions=3, replication_factor=3, assignments=(), configs=())
    [created] = client.ask(CreateTopicsRequest(topics=(topic,)), 7).topics
    assert (created.error_code, created.num_partitions, created.replication_factor) == (ErrorCode.NONE, 3, 3)
    assert {each.broker.image.topics["t"].id for each in rig.brokers.values()} == {created.topic_id}
    ids = {each.client().ask(_init(), 4).producer_id for each in rig.brokers.values()}
    assert len(ids) == 3


def _init():
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)


def test_a_question_goes_to_the_next_controller_when_the_first_ends():
    rig = SeveralBrokers()
    client = rig.brokers[3].client()
    rig.cut(1, 3)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=2, assignments=(), configs=())
    client.send(CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 7)
    rig.pass_time(3000)
    assert not client.answers()
    rig.crash(1)
    rig.pass_time(3000)
    [answer] = client.answers()
    assert answer.topics[0].error_code == ErrorCode.NONE
    assert rig.controller.broker.id in (2, 3)


def test_a_question_that_nobody_answers_times_out():
    rig = SeveralBrokers()
    client = rig.brokers[3].client()
    rig.cut(1, 3)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=2, assignments=(), configs=())
    client.send(CreateTopicsRequest(topics=(topic,), timeout_ms=3000), 7)
    rig.pass_time(2999)
    assert not client.answers()
    rig.pass_time(1)
    [answer] = client.answers()
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_broker_that_was_cut_off_is_told_everything_once_it_is_reached():
    rig = SeveralBrokers()
    rig.cut(1, 3)
    for number in range(5):
        rig.create(f"t{number}", replicas=(1, 2))
    rig.controller.client().ask(DeleteTopicsRequest(topic_names=("t0",), timeout_ms=1000), 5)
    assert not rig.brokers[3].broker.image.topics
    rig.heal()
    assert set(rig.brokers[3].broker.image.topics) == {"t1", "t2", "t3", "t4"}


def test_a_topic_is_deleted_everywhere():
    rig = SeveralBrokers()
    rig.create("t")
    rig.produce("t", b"1")
    answer = rig.brokers[2].client().ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=5000), 5)
    assert answer.responses[0].error_code == ErrorCode.NONE
    assert all(each.replica("t") is None for each in rig.brokers.values())
    rig.create("t")
    assert rig.produce("t", b"2").base_offset == 0
    the_same_logs(rig, "t")


def test_messages_for_a_former_life_are_not_obeyed():
    """S10."""
    rig = SeveralBrokers()
    rig.create("t")
    [told] = [m for _, to, m in rig.sent if to == 3 and isinstance(m, Told) and _is_full(m)][-1:]
    rig.crash(3)
    rig.start(3)
    broker = rig.brokers[3].broker
    before = broker.image
    broker._neighbours._told(99, 1, Told(told.number + 1000, 0, told.message))
    answers = [message for link, message in broker._neighbours.sends if link == 99]
    assert [each.error for each in answers] == [ErrorCode.STALE_BROKER_EPOCH]
    assert broker.image is before


def _is_full(told):
    return isinstance(told.message.message, PartitionStates) and told.message.message.is_full


def test_every_broker_names_all_brokers_and_the_coordinator():
    rig = SeveralBrokers()
    rig.brokers[1].client().ask(FindCoordinatorRequest(key="g", key_type=0), 3)
    rig.pass_time(1000)
    answers = [each.client().ask(metadata(), 12) for each in rig.brokers.values()]
    assert {tuple(sorted(broker.node_id for broker in each.brokers)) for each in answers} == {(1, 2, 3)}
    assert {each.controller_id for each in answers} == {1}
    found = {each.client().ask(FindCoordinatorRequest(key="g", key_type=0), 3).node_id for each in rig.brokers.values()}
    assert len(found) == 1
    topic = rig.brokers[1].broker.image.topics["__consumer_offsets"]
    assert {len(state.replicas) for state in topic.partitions.values()} == {3}


# ----------------------------------------------------------------------------------------------------- who asks what


def test_a_client_is_no_follower():
    rig = SeveralBrokers()
    rig.create("t")
    client = rig.leader("t").client()
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    by_state = FetchRequest(
        replica_state=ReplicaState(replica_id=2, replica_epoch=1),
        max_wait_ms=0,
        min_bytes=0,
        topics=(FetchTopic(topic_id=rig.brokers[1].replica("t").topic_id, partitions=(partition,)),),
    )
    by_id = FetchRequest(
        replica_id=2, max_wait_ms=0, min_bytes=0, topics=(FetchTopic(topic="t", partitions=(partition,)),)
    )
    assert client.ask(by_state, 15).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert client.ask(by_id, 12).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    listed = ListOffsetsRequest(
        replica_id=2,
        topics=(ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(partition_index=0, timestamp=-1),)),),
    )
    assert client.ask(listed, 8).topics[0].partitions[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_broker_asks_as_itself_alone():
    rig = SeveralBrokers()
    rig.create("t")
    controller = rig.controller.broker
    epoch = rig.brokers[3].broker.epoch
    link = next(number for number, (own, other) in rig.links.ends.items() if (own, other) == (1, 2) and number < 0)
    controller._neighbours._asked(link, 2, Asked(5, ControlledShutdown(None, 3, epoch)), rig.now)
    [(_, answered)] = controller._neighbours.sends
    assert answered.answer.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_follower_that_does_not_wait_for_answers_loses_its_link():
    rig = SeveralBrokers()
    rig.create("t")
    link = next(number for number, (own, other) in rig.links.ends.items() if (own, other) == (1, 2) and number < 0)
    asked = next(m for own, to, m in rig.sent if (own, to) == (2, 1) and isinstance(m, FollowerAsked))
    broker = rig.brokers[1].broker
    for _ in range(40):
        broker._neighbours._asked(link, 2, asked, rig.now)
    assert (link, "broker 2 does not wait for answers") in broker._neighbours._dialling.breaks


def test_a_broker_whose_storage_fails_stops_after_others_lead():
    """It led on, and refused every write."""
    rig = SeveralBrokers()
    rig.create("t", min_insync_replicas=2)
    assert rig.produce("t", b"1").error_code == ErrorCode.NONE
    failed = rig.leader("t")
    failed.disk.fail_after(1)
    refused = rig.produce("t", b"2")
    assert refused is None or refused.error_code != ErrorCode.NONE
    rig.pass_time(10_000)
    assert failed.failure is not None
    assert failed.failure.startswith("the storage of t-0 failed: ")
    leader = rig.leader("t")
    assert leader is not failed
    assert failed.replica("t").leader is None
    failed.disk.fail_after(None)
    rig.crash(failed.config.broker.broker_id)
    assert rig.produce("t", b"3").error_code == ErrorCode.NONE
    the_same_logs(rig, "t")


def test_a_broker_without_others_goes_on_with_the_logs_that_are_left():
    rig = SeveralBrokers()
    rig.create("t")
    for broker_id in sorted(set(rig.brokers) - {rig.leader("t").config.broker.broker_id}):
        rig.crash(broker_id)
    alone = rig.leader("t")
    alone.disk.fail_after(1)
    assert rig.produce("t", b"1").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    rig.pass_time(10_000)
    assert alone.failure is None
