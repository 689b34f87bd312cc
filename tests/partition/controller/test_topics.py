"""Topics: created, refused, given more partitions, changed by tools, deleted."""

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import judge_calm
from zab.coordination.operations import Create, Delete, Set
from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import LEADER_DURING_DELETION, StopReplica, ToBroker
from zab.partition.controller.requests import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    StopReplicaAnswered,
)
from zab.partition.controller.state import ControllerSettings, PartitionPhase, Replica, ReplicaPhase
from zab.partition.controller.znodes import (
    Assignment,
    TopicPartition,
    TopicZnode,
    decode_config,
    delete_path,
    topic_path,
)

T0 = TopicPartition("t", 0)


def created(cluster, *topics, **settings):
    return cluster.call(CreateTopics(cluster.token(), topics, **settings)).topics


def operator(cluster, *operations):
    """What a tool does beside the controller."""
    judge, cluster.tree.before_write = cluster.tree.before_write, None
    session = cluster.tree.begin_session()
    for operation in operations:
        assert cluster.tree.apply(session, operation).ok, operation
        cluster._deliver_watches()
    cluster.tree.before_write = judge


def without_boots(cluster):
    cluster.boot = lambda broker_id: None


# ------------------------------------------------------------------------------------------------------------- creating


def test_a_topic_is_created_with_its_settings_and_partitions(cluster):
    outcome = created(cluster, NewTopic("t", 3, 2, config={"retention.ms": "5"}))["t"]
    assert (outcome.error, outcome.partition_count, outcome.replication_factor) == (ErrorCode.NONE, 3, 2)
    znode = TopicZnode.decode("t", cluster.tree.data(topic_path("t")))
    assert znode.topic_id == outcome.topic_id
    assert [len(each.replicas) for each in znode.partitions.values()] == [2, 2, 2]
    assert decode_config("/c", cluster.tree.data("/config/topics/t")) == {"retention.ms": "5"}
    judge_calm(cluster)


def test_counts_that_are_not_named_are_those_of_the_settings(cluster):
    outcome = created(cluster, NewTopic("t"))["t"]
    assert (outcome.partition_count, outcome.replication_factor) == (2, 2)


def test_brokers_learn_the_settings_of_a_topic(cluster):
    created(cluster, NewTopic("t", 1, 1, config={"retention.ms": "5"}))
    updates = [
        topic
        for _, each in cluster.effects
        if isinstance(each, ToBroker) and not isinstance(each.message, StopReplica)
        for topic in each.message.topics
    ]
    assert updates
    assert all(each.config == {"retention.ms": "5"} for each in updates)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(".", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a/b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("ä", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a\n", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("a" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("the.one", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic("the_one", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 10_001, 1), ErrorCode.INVALID_PARTITIONS),
        (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", 1, -1, {0: (1,)}), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", -1, 1, {0: (1,)}), ErrorCode.INVALID_REQUEST),
        (NewTopic("t", assignments={1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: ()}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: (1, 1)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: (9,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", assignments={0: (1, 2), 1: (1,)}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic("t", 1, 1, config={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("t", 1, 1, config={"retention.ms": "x"}), ErrorCode.INVALID_CONFIG),
        (NewTopic("a" * 249, 1, 1), ErrorCode.NONE),
    ],
)
def test_topics_that_are_refused(cluster, topic, error):
    created(cluster, NewTopic("the_one", 1, 1))
    before = cluster.tree.children("/brokers/topics")
    assert created(cluster, topic)[topic.name].error == error
    assert (cluster.tree.children("/brokers/topics") == before) == (error != ErrorCode.NONE)


def test_one_that_is_refused_does_not_stop_the_others(cluster):
    twice = NewTopic("c", 1, 1)
    outcomes = created(cluster, NewTopic("a", 0, 1), NewTopic("b", 1, 1), twice, twice)
    assert {name: each.error for name, each in outcomes.items()} == {
        "a": ErrorCode.INVALID_PARTITIONS,
        "b": ErrorCode.NONE,
        "c": ErrorCode.INVALID_REQUEST,
    }


def test_validation_alone_writes_nothing(cluster):
    outcome = created(cluster, NewTopic("t", 2, 3), validate_only=True)["t"]
    assert (outcome.error, outcome.partition_count, outcome.topic_id) == (ErrorCode.NONE, 2, "")
    assert cluster.tree.data(topic_path("t")) is None


def test_settings_that_a_deleted_topic_left_are_replaced(cluster):
    operator(cluster, Create("/config/topics/t", b'{"version":1,"config":{"retention.ms":"7"}}'))
    assert created(cluster, NewTopic("t", 1, 1))["t"].error == ErrorCode.NONE
    assert decode_config("/c", cluster.tree.data("/config/topics/t")) == {}


def test_who_waits_too_long_is_told_and_the_topic_is_created_all_the_same(cluster):
    request = CreateTopics(cluster.token(), (NewTopic("t", 1, 1),), timeout_ms=100)
    controller = cluster.controllers[0]
    cluster.ask(controller, request)
    cluster.take(controller)
    assert cluster.active().deadline_ms == cluster.now_ms + 100
    cluster.now_ms += 100
    cluster.take(controller)
    cluster.settle()
    answers = [each.error for _, each in cluster.answers if each.token == request.token]
    assert answers == [ErrorCode.REQUEST_TIMED_OUT]
    judge_calm(cluster)
    assert cluster.tree.data(topic_path("t")) is not None


def test_a_topic_without_live_replica_waits_for_one(cluster):
    operator(cluster, Create(topic_path("t"), TopicZnode(None, {0: Assignment((7,))}).encode()))
    cluster.settle()
    state = cluster.active().state
    assert state.phase(T0) is PartitionPhase.NEW
    assert T0 not in state.partitions
    assert len(state.topics["t"].topic_id) == 22


# ---------------------------------------------------------------------------------------------------------------- tools


def test_a_topic_that_a_tool_creates_gets_an_id_and_leaders(cluster):
    operator(cluster, Create(topic_path("t"), b'{"version":1,"partitions":{"0":[1,2],"1":[2,0]}}'))
    cluster.settle()
    judge_calm(cluster)
    assert len(TopicZnode.decode("t", cluster.tree.data(topic_path("t"))).topic_id) == 22


def test_partitions_that_a_tool_adds_get_leaders(cluster):
    created(cluster, NewTopic("t", assignments={0: (1, 2)}))
    znode = TopicZnode.decode("t", cluster.tree.data(topic_path("t")))
    more = TopicZnode(znode.topic_id, {**znode.partitions, 1: Assignment((2, 0))})
    operator(cluster, Set(topic_path("t"), more.encode()))
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.partitions["t", 1].leader == 2


def test_replicas_that_a_tool_changes_are_changed_back(cluster):
    created(cluster, NewTopic("t", assignments={0: (1, 2)}))
    znode = TopicZnode.decode("t", cluster.tree.data(topic_path("t")))
    operator(cluster, Set(topic_path("t"), TopicZnode(znode.topic_id, {0: Assignment((0,))}).encode()))
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.assignment(T0).replicas == (1, 2)


def test_a_topic_that_a_tool_deletes_is_forgotten(cluster):
    created(cluster, NewTopic("t", 1, 1))
    paths = [each for each in cluster.tree.znodes if each.startswith(topic_path("t"))]
    operator(cluster, *[Delete(each) for each in sorted(paths, reverse=True)])
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.topics == {}


def test_a_malformed_topic_is_left_out_and_does_not_stop_others(cluster):
    good = TopicZnode(None, {0: Assignment((1,))}).encode()
    operator(cluster, Create(topic_path("bad"), b"{"), Create(topic_path("good"), good))
    cluster.settle()
    state = cluster.active().state
    assert (set(state.topics), state.unreadable) == ({"good"}, {"bad"})
    assert state.partitions["good", 0].leader == 1
    assert any(topic_path("bad") in each for each in cluster.processes[cluster.controllers[0]].reports)
    assert created(cluster, NewTopic("bad", 1, 1))["bad"].error == ErrorCode.TOPIC_ALREADY_EXISTS
    # Also for the next controller; and once somebody mends it, it is there.
    cluster.expire(cluster.processes[cluster.controllers[0]].session)
    cluster._deliver_watches()
    cluster.settle()
    assert set(cluster.active().state.topics) == {"good"}
    operator(cluster, Set(topic_path("bad"), TopicZnode(None, {0: Assignment((2,))}).encode()))
    cluster.settle()
    judge_calm(cluster)
    assert set(cluster.active().state.topics) == {"good", "bad"}


def test_a_topic_with_a_malformed_state_is_left_out(cluster):
    created(cluster, NewTopic("a", 2, 1), NewTopic("b", 1, 1))
    operator(cluster, Set(topic_path("a") + "/partitions/1/state", b"[]"))
    cluster.expire(cluster.processes[cluster.controllers[0]].session)
    cluster._deliver_watches()
    cluster.settle()
    assert set(cluster.active().state.topics) == {"b"}


# ------------------------------------------------------------------------------------------------------ more partitions


def test_a_topic_gets_more_partitions(cluster):
    created(cluster, NewTopic("t", 1, 2))
    answer = cluster.call(CreatePartitions(cluster.token(), (NewPartitions("t", 3),)))
    assert answer.topics["t"].error == ErrorCode.NONE
    judge_calm(cluster)
    assert [len(each.replicas) for each in cluster.active().state.topics["t"].assignments.values()] == [2, 2, 2]
    answer = cluster.call(CreatePartitions(cluster.token(), (NewPartitions("t", 4, ((2, 0),)),)))
    assert cluster.active().state.assignment(TopicPartition("t", 3)).replicas == (2, 0)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (NewPartitions("x", 3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (NewPartitions("t", 2), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", 1), ErrorCode.INVALID_PARTITIONS),
        (NewPartitions("t", 3, ((1,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((1, 1),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((1, 2), (1, 2))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewPartitions("t", 3, ((1, 8),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_more_partitions_that_are_refused(cluster, asked, error):
    created(cluster, NewTopic("t", 2, 2))
    answer = cluster.call(CreatePartitions(cluster.token(), (asked,)))
    assert answer.topics[asked.topic].error == error
    assert len(cluster.active().state.topics["t"].assignments) == 2


# ------------------------------------------------------------------------------------------------------------- deleting


def test_a_topic_is_deleted_with_all_that_it_has(cluster):
    created(cluster, NewTopic("t", 2, 3), NewTopic("u", 1, 1))
    topic_id = cluster.active().state.topics["t"].topic_id
    since = len(cluster.effects)
    answer = cluster.call(DeleteTopics(cluster.token(), ("t", "x")))
    assert {name: each.error for name, each in answer.topics.items()} == {
        "t": ErrorCode.NONE,
        "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert not [each for each in cluster.tree.znodes if each.endswith("/t") or "/t/" in each]
    judge_calm(cluster)
    to_brokers = [each for _, each in cluster.effects[since:] if isinstance(each, ToBroker)]
    leaders = [
        update.state.leader
        for each in to_brokers
        if not isinstance(each.message, StopReplica)
        for topic in each.message.topics
        for update in topic.partitions
    ]
    assert set(leaders) == {LEADER_DURING_DELETION}
    stopped = [r for each in to_brokers if isinstance(each.message, StopReplica) for r in each.message.replicas]
    assert len(stopped) == 6
    assert all(each.delete and each.topic_id == topic_id for each in stopped)


def test_a_topic_is_deleted_by_its_id(cluster):
    topic_id = created(cluster, NewTopic("t", 1, 1))["t"].topic_id
    answer = cluster.call(DeleteTopics(cluster.token(), (topic_id, "A" * 22), by_id=True))
    assert [each.error for each in answer.topics.values()] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    assert cluster.active().state.topics == {}


def test_a_topic_of_the_same_name_is_another_topic(cluster):
    """S22: with another id; what was sent for the old one does not concern it."""
    first = created(cluster, NewTopic("t", 1, 1))["t"].topic_id
    cluster.call(DeleteTopics(cluster.token(), ("t",)))
    second = created(cluster, NewTopic("t", 1, 1))["t"].topic_id
    assert first != second
    judge_calm(cluster)


def test_a_deletion_waits_for_dead_brokers(cluster):
    a, b = [each for each in cluster.processes if each not in cluster.controllers]
    created(cluster, NewTopic("t", assignments={0: (a, b)}))
    session = cluster.processes[a].session
    cluster.crash(a)
    cluster.expire(session)
    cluster._deliver_watches()
    boot = cluster.boot
    without_boots(cluster)
    request = DeleteTopics(cluster.token(), ("t",), timeout_ms=1000)
    assert cluster.call(request).error == ErrorCode.REQUEST_TIMED_OUT
    state = cluster.active().state
    assert state.replica_phases == {
        Replica(T0, a): ReplicaPhase.DELETION_INELIGIBLE,
        Replica(T0, b): ReplicaPhase.DELETION_SUCCESSFUL,
    }
    assert cluster.tree.data(delete_path("t")) is not None
    assert created(cluster, NewTopic("t", 1, 1))["t"].error == ErrorCode.TOPIC_ALREADY_EXISTS
    cluster.boot = boot
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.topics == {}


def test_a_replica_that_cannot_be_deleted_waits_for_the_next_life_of_its_broker(cluster):
    a, _ = [each for each in cluster.processes if each not in cluster.controllers]
    created(cluster, NewTopic("t", assignments={0: (a,)}))
    stop_replicas = Cluster._stop_replicas

    def fails(process, sent, message):
        errors = {each.partition: ErrorCode.KAFKA_STORAGE_ERROR for each in message.replicas}
        answered = StopReplicaAnswered(process.broker_id, process.epoch, sent.controller_epoch, errors)
        cluster.processes[sent.controller_id].inbox.append(answered)

    cluster._stop_replicas = fails
    cluster.call(DeleteTopics(cluster.token(), ("t",), timeout_ms=1000))
    assert cluster.active().state.replica_phases == {Replica(T0, a): ReplicaPhase.DELETION_INELIGIBLE}
    cluster._stop_replicas = lambda *args: stop_replicas(cluster, *args)
    session = cluster.processes[a].session
    cluster.crash(a)
    cluster.expire(session)
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.topics == {}


def test_the_next_controller_goes_on_with_a_deletion(cluster):
    created(cluster, NewTopic("t", 2, 2))
    cluster.ask(cluster.controllers[0], DeleteTopics(cluster.token(), ("t",)))
    while cluster.tree.data(delete_path("t")) is None:
        cluster.take(cluster.controllers[0])
        cluster.apply_one(cluster.controllers[0])
    cluster.expire(cluster.processes[cluster.controllers[0]].session)
    cluster._deliver_watches()
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.topics == {}


def test_a_tool_asks_for_a_deletion(cluster):
    created(cluster, NewTopic("t", 1, 1))
    operator(cluster, Create(delete_path("t")), Create(delete_path("unknown")))
    cluster.settle()
    judge_calm(cluster)
    assert cluster.active().state.topics == {}


def test_deletion_can_be_switched_off():
    cluster = Cluster(7, settings=ControllerSettings(deletes_topics=False)).started()
    created(cluster, NewTopic("t", 1, 1))
    answer = cluster.call(DeleteTopics(cluster.token(), ("t",)))
    assert answer.topics["t"].error == ErrorCode.TOPIC_DELETION_DISABLED
    operator(cluster, Create(delete_path("t")))
    cluster.settle()
    assert set(cluster.active().state.topics) == {"t"}
    assert cluster.tree.children("/admin/delete_topics") == []
