"""Reassignments: their steps, replaced, cancelled, resumed, by requests and by the legacy znode."""

import pytest
from attrs import evolve

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges, judge_calm
from zab.coordination.operations import Create, Multi, Set
from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import StopReplica, ToBroker
from zab.partition.controller.requests import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ListPartitionReassignments,
    NewPartitions,
    NewTopic,
)
from zab.partition.controller.state import ControllerSettings
from zab.partition.controller.znodes import (
    REASSIGNMENT,
    Assignment,
    TopicPartition,
    TopicZnode,
    encode_reassignment,
    state_path,
    topic_path,
)

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def scene():
    """Four brokers; t-0 and t-1 on 1 and 2."""
    cluster = Cluster(7, brokers=4, settings=ControllerSettings(balances_leaders=False))
    Judges(cluster).watch()
    cluster.started()
    cluster.call(CreateTopics(cluster.token(), (NewTopic("t", assignments={0: (1, 2), 1: (1, 2)}),)))
    return cluster


def move(cluster, target, partition=T0):
    answer = cluster.call(AlterPartitionReassignments(cluster.token(), {partition: target}))
    return answer.partitions[partition].error


def hold(cluster):
    """New replicas do not catch up."""
    cluster.propose = lambda broker_id, *, expand: False


def go_on(cluster):
    del cluster.propose


def written(cluster, partition=T0):
    znode = TopicZnode.decode("t", cluster.tree.data(topic_path("t")))
    return znode.partitions[partition.partition]


def state(cluster, partition=T0):
    return cluster.active().state.partitions[partition]


def deletions(cluster, since):
    return {
        (each.broker_id, replica.partition)
        for _, each in cluster.effects[since:]
        if isinstance(each, ToBroker) and isinstance(each.message, StopReplica)
        for replica in each.message.replicas
        if replica.delete
    }


def test_replicas_are_the_union_until_the_target_is_in_sync(scene):
    hold(scene)
    before = state(scene)
    assert move(scene, (3, 2)) == ErrorCode.NONE
    assert written(scene) == Assignment((3, 2, 1), (3,), (1,))
    assert (state(scene).leader, state(scene).isr) == (before.leader, before.isr)
    assert state(scene).leader_epoch > before.leader_epoch, "all learn the replicas"
    listed = scene.call(ListPartitionReassignments(scene.token())).reassignments
    assert listed == {T0: Assignment((3, 2, 1), (3,), (1,))}
    assert scene.call(ListPartitionReassignments(scene.token(), (T1,))).reassignments == {}
    since, epoch = len(scene.effects), state(scene).leader_epoch
    go_on(scene)
    scene.settle()
    assert written(scene) == Assignment((3, 2))
    assert (state(scene).leader, set(state(scene).isr)) == (3, {3, 2})
    assert state(scene).leader_epoch > epoch
    assert deletions(scene, since) == {(1, T0)}
    judge_calm(scene)


def test_a_leader_in_the_target_stays(scene):
    assert move(scene, (3, 1)) == ErrorCode.NONE
    assert state(scene).leader == 1
    judge_calm(scene)


def test_the_same_replicas_in_another_order(scene):
    before = state(scene).leader_epoch
    assert move(scene, (2, 1)) == ErrorCode.NONE
    assert written(scene) == Assignment((2, 1))
    assert state(scene).leader_epoch > before
    assert move(scene, (2, 1)) == ErrorCode.NONE
    judge_calm(scene)


@pytest.mark.parametrize(
    ("partition", "target", "error"),
    [
        (TopicPartition("t", 9), (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("x", 0), (1,), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (T0, (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, (1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, (1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (T0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_reassignments_that_are_refused(scene, partition, target, error):
    assert move(scene, target, partition) == error
    assert written(scene) == Assignment((1, 2))


def test_a_reassignment_is_cancelled(scene):
    hold(scene)
    move(scene, (3, 0))
    since = len(scene.effects)
    assert move(scene, None) == ErrorCode.NONE
    assert written(scene) == Assignment((1, 2))
    assert (state(scene).leader, state(scene).isr) == (1, (1, 2))
    assert deletions(scene, since) == {(3, T0), (0, T0)}
    go_on(scene)
    scene.settle()
    judge_calm(scene)


def test_one_that_would_leave_nobody_in_sync_is_not_cancelled(scene):
    """The original replica is out of sync: only the new one has everything."""
    scene.call(CreateTopics(scene.token(), (NewTopic("u", assignments={0: (1,)}),)))
    partition, hub = TopicPartition("u", 0), scene.active().state
    hold(scene)
    move(scene, (3, 2), partition)
    scene.tree.before_write = None
    current = evolve(hub.partitions[partition], isr=(3,), leader=3)
    scene.tree.apply(scene.processes[0].session, Set(state_path(partition), current.encode()))
    hub.partitions[partition] = current.at(current.partition_epoch + 1)
    assert move(scene, None, partition) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert hub.assignment(partition).is_reassigned


def test_one_that_replaces_another_keeps_the_first_original(scene):
    hold(scene)
    move(scene, (3, 0))
    since = len(scene.effects)
    assert move(scene, (0, 2)) == ErrorCode.NONE
    assert written(scene) == Assignment((0, 2, 1), (0,), (1,))
    assert deletions(scene, since) == {(3, T0)}
    go_on(scene)
    scene.settle()
    assert written(scene) == Assignment((0, 2))
    judge_calm(scene)


def test_it_waits_for_a_target_that_is_dead(scene):
    target = next(each for each in (3, 0) if each not in scene.controllers)
    session = scene.processes[target].session
    hold(scene)
    move(scene, (target,))
    scene.crash(target)
    scene.expire(session)
    scene._deliver_watches()
    boot, scene.boot = scene.boot, lambda broker_id: None
    scene.settle()
    go_on(scene)
    scene.settle()
    assert written(scene).is_reassigned
    scene.boot = boot
    scene.settle()
    assert written(scene) == Assignment((target,))
    judge_calm(scene)


def test_the_next_controller_goes_on(scene):
    hold(scene)
    move(scene, (3, 2))
    scene.expire(scene.processes[scene.controllers[0]].session)
    scene._deliver_watches()
    scene.settle()
    assert written(scene).is_reassigned
    go_on(scene)
    scene.settle()
    judge_calm(scene)
    assert written(scene) == Assignment((3, 2))


def test_the_assignment_is_written_last(scene):
    """Whichever write a controller dies before, the next one finds a state from which it goes on."""
    hold(scene)
    move(scene, (3, 0))
    go_on(scene)
    order = []
    judge = scene.tree.before_write

    def watch(session, parts):
        order.extend(part.path for part in parts if isinstance(part, Set))
        judge(session, parts)

    scene.tree.before_write = watch
    scene.settle()
    topic, last_state = order.index(topic_path("t")), order.index("/brokers/topics/t/partitions/0/state")
    assert last_state < topic
    assert order[topic + 1 :].count("/brokers/topics/t/partitions/0/state") == 0


def test_a_deletion_waits_for_the_end_and_no_other_reassignment_begins(scene):
    hold(scene)
    move(scene, (3, 2))
    scene.ask(scene.controllers[0], DeleteTopics(scene.token(), ("t",)))
    scene.settle()
    assert scene.active().state.to_delete == {"t"}
    assert move(scene, (0,)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    update = scene.processes[1].image.partitions[scene.active().state.topics["t"].topic_id, 0]
    assert update.state.leader == 1, "it is led meanwhile"
    go_on(scene)
    scene.settle()
    assert scene.active().state.topics == {}
    judge_calm(scene)


def test_a_topic_that_is_reassigned_gets_no_partitions(scene):
    hold(scene)
    move(scene, (3, 2))
    answer = scene.call(CreatePartitions(scene.token(), (NewPartitions("t", 3),)))
    assert answer.topics["t"].error == ErrorCode.REASSIGNMENT_IN_PROGRESS


# --------------------------------------------------------------------------------------------------------------- legacy


def ask(cluster, data):
    cluster.tree.before_write = None
    session = cluster.tree.begin_session()
    assert cluster.tree.apply(session, Create(REASSIGNMENT, data)).ok
    cluster._deliver_watches()


def test_the_legacy_request_stays_until_its_partitions_are_done(scene):
    hold(scene)
    ask(scene, encode_reassignment({T0: (3, 2), T1: (1, 2), TopicPartition("x", 0): (1,)}))
    scene.settle()
    assert scene.tree.data(REASSIGNMENT) == encode_reassignment({T0: (3, 2)})
    assert any("x-0 is left out" in each for each in scene.processes[scene.controllers[0]].reports)
    go_on(scene)
    scene.settle()
    assert scene.tree.data(REASSIGNMENT) is None
    assert written(scene) == Assignment((3, 2))
    # It can be asked again.
    ask(scene, encode_reassignment({T0: (1, 2)}))
    scene.settle()
    assert written(scene) == Assignment((1, 2))
    judge_calm(scene)


def test_a_legacy_request_is_done_when_it_is_cancelled(scene):
    """Also if not all of the original replicas are in sync: there is nothing to wait for."""
    b = next(each for each in (1, 2) if each not in scene.controllers)
    hold(scene)
    session = scene.processes[b].session
    scene.crash(b)
    scene.expire(session)
    scene._deliver_watches()
    scene.settle()
    assert b not in state(scene).isr
    ask(scene, encode_reassignment({T0: (3, 0)}))
    scene.settle()
    assert scene.tree.data(REASSIGNMENT) is not None
    assert move(scene, None) == ErrorCode.NONE
    assert scene.tree.data(REASSIGNMENT) is None
    assert written(scene) == Assignment((1, 2))


def test_a_malformed_legacy_request_is_deleted(scene):
    ask(scene, b"{")
    scene.settle()
    assert scene.tree.data(REASSIGNMENT) is None
    judge_calm(scene)


def test_who_writes_the_topic_beside_the_controller_does_not_lose_it(scene):
    """The write is refused, and the controller begins again from what is there."""
    hold(scene)
    controller = scene.controllers[0]
    request = AlterPartitionReassignments(scene.token(), {T0: (3, 2)})
    scene.ask(controller, request)
    scene.take(controller)
    process = scene.processes[controller]
    assert isinstance(process.pending[0], Multi)
    znode = TopicZnode.decode("t", scene.tree.data(topic_path("t")))
    more = TopicZnode(znode.topic_id, {**znode.partitions, 2: Assignment((0,))})
    judge, scene.tree.before_write = scene.tree.before_write, None
    scene.tree.apply(scene.tree.begin_session(), Set(topic_path("t"), more.encode()))
    scene.tree.before_write = judge
    go_on(scene)
    scene.settle()
    assert TopicZnode.decode("t", scene.tree.data(topic_path("t"))).partitions[2] == Assignment((0,))
    (answer,) = [each for _, each in scene.answers if each.token == request.token]
    assert answer.error == ErrorCode.NOT_CONTROLLER
    assert scene.active().state.partitions["t", 2].leader == 0
