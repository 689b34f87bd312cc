"""What a new controller finds, and what it does first."""

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges, judge_calm
from zab.coordination.operations import Children, Create, Exists, Get, Multi, Result, ZooKeeperError
from zab.kafka.errors import ErrorCode
from zab.partition.controller import partition_states, replica_states
from zab.partition.controller.effects import Became, PartitionStates, Resigned, Submit, ToBroker
from zab.partition.controller.requests import CreateTopics, NewTopic
from zab.partition.controller.state import PartitionPhase, Replica, ReplicaPhase
from zab.partition.controller.znodes import (
    Assignment,
    PartitionState,
    TopicPartition,
    TopicZnode,
    broker_epoch_path,
    encode_broker_epoch,
    encode_config,
    partition_path,
    partitions_path,
    state_path,
    topic_path,
)

T0 = TopicPartition("t", 0)


def prepared(*operations, brokers=3):
    """A cluster with these znodes, all of whose brokers stopped cleanly."""
    cluster = Cluster(7, brokers=brokers)
    cluster.boot(0)
    for _ in range(40):
        cluster.apply_one(0)
        cluster.take(0)
        if cluster.processes[0].epoch >= 0:
            break
    cluster.crash(0, clean=True)
    operator = cluster.tree.begin_session()
    for process in cluster.processes.values():
        process.last_epoch = 5
        cluster.tree.apply(operator, Create(broker_epoch_path(process.broker_id), encode_broker_epoch(5)))
    for operation in operations:
        assert cluster.tree.apply(operator, operation).ok, operation
    Judges(cluster).watch()
    return cluster


def topic(replicas, state=None, config=None):
    """The znodes of a topic t with one partition."""
    found = [Create(topic_path("t"), TopicZnode("A" * 21 + "Q", {0: Assignment(replicas)}).encode())]
    if state is not None:
        found += [Create(partitions_path("t")), Create(partition_path(T0)), Create(state_path(T0), state.encode())]
    if config is not None:
        found.append(Create("/config/topics/t", encode_config(config)))
    return found


def state(cluster):
    return cluster.active().state.partitions[T0]


def test_a_list_is_watched_by_the_read_that_it_guards():
    cluster = prepared().started()
    asked = [each for _, effect in cluster.effects if isinstance(effect, Submit) for each in effect.operations]
    for path in ("/brokers/ids", "/brokers/topics", "/admin/delete_topics", "/isr_change_notification"):
        assert {each.watch for each in asked if isinstance(each, Children) and each.path == path} == {True}
    for path in ("/admin/reassign_partitions", "/admin/preferred_replica_election"):
        assert {each.watch for each in asked if isinstance(each, Exists | Get) and each.path == path} == {True}


def test_a_partition_that_has_a_live_leader_is_left_alone():
    before = PartitionState(1, 4, (1, 2), controller_epoch=0)
    cluster = prepared(*topic((1, 2), before)).started()
    assert state(cluster) == before
    judge_calm(cluster)


def test_a_partition_with_a_dead_leader_gets_another():
    cluster = prepared(*topic((7, 2), PartitionState(7, 4, (7, 2)))).started()
    assert (state(cluster).leader, state(cluster).isr) == (2, (2,))
    assert cluster.active().state.replica_phases[Replica(T0, 7)] is ReplicaPhase.OFFLINE


def test_a_dead_follower_leaves_the_isr():
    cluster = prepared(*topic((1, 7), PartitionState(1, 4, (1, 7)))).started()
    assert (state(cluster).leader, state(cluster).isr) == (1, (1,))


def test_a_partition_that_nobody_can_lead_waits():
    cluster = prepared(*topic((7, 8, 1), PartitionState(7, 4, (7, 8)))).started()
    assert (state(cluster).leader, state(cluster).isr) == (-1, (7, 8))
    assert cluster.active().state.phase(T0) is PartitionPhase.OFFLINE


def test_a_half_created_topic_is_completed():
    """A controller died between the creation of the topic and of its partitions."""
    cluster = prepared(*topic((1, 2)), Create(partitions_path("t")), Create(partition_path(T0))).started()
    judge_calm(cluster)


def test_an_elr_that_the_settings_do_not_have_any_longer_is_emptied():
    """The settings were changed while there was no controller."""
    before = PartitionState(1, 4, (1,), elr=(2,))
    cluster = prepared(*topic((1, 2), before, {"min.insync.replicas": "1"}))
    cluster.propose = lambda broker_id, *, expand: False
    cluster.started()
    assert (state(cluster).isr, state(cluster).elr) == ((1,), ())


def test_stale_notifications_are_deleted():
    cluster = prepared(
        Create("/isr_change_notification/isr_change_", b"{", sequential=True),
        Create("/log_dir_event_notification/log_dir_event_", b"{", sequential=True),
    ).started()
    assert cluster.tree.children("/isr_change_notification") == []
    assert cluster.tree.children("/log_dir_event_notification") == []


def test_every_broker_knows_the_brokers_before_it_hears_of_leaders():
    """KAFKA-4443."""
    cluster = prepared(*topic((1, 2), PartitionState(1, 4, (1, 2)))).started()
    seen = set()
    for _, each in cluster.effects:
        if isinstance(each, ToBroker) and isinstance(each.message, PartitionStates):
            if each.broker_id not in seen:
                assert each.message.is_full
            seen.add(each.broker_id)
            live = {broker.id for broker in each.message.live_brokers}
            leaders = {update.state.leader for found in each.message.topics for update in found.partitions}
            assert leaders <= live


def test_a_write_that_the_service_refuses_ends_the_term_and_another_begins(cluster):
    """A quota, say: the controller gives up, and starts again from the znodes."""
    cluster.tree = Refusing(cluster.tree)
    request = CreateTopics(cluster.token(), (NewTopic("t", 1, 1),))
    answer = cluster.call(request)
    assert answer.error == ErrorCode.NOT_CONTROLLER
    assert sum(isinstance(each, Resigned) for _, each in cluster.effects) == 1
    assert sum(isinstance(each, Became) for _, each in cluster.effects) == 2
    assert any("QUOTAEXCEEDED" in each for process in cluster.processes.values() for each in process.reports)
    assert set(cluster.active().state.topics) == {"t"}
    assert state(cluster).leader >= 0


class Refusing:
    """A tree that refuses the first write below a topic."""

    def __init__(self, tree):
        self._tree = tree
        self._has_refused = False

    def __getattr__(self, name):
        return getattr(self._tree, name)

    def apply(self, session, operation):
        if isinstance(operation, Multi) and not self._has_refused and operation.parts[1].path.endswith("/t/partitions"):
            self._has_refused = True
            return Result(ZooKeeperError.QUOTAEXCEEDED, parts=(Result(), Result(ZooKeeperError.QUOTAEXCEEDED)))
        return self._tree.apply(session, operation)


# ------------------------------------------------------------------------------------------------------- state machines


def test_no_other_transition_of_partitions_is_made(cluster):
    found = cluster.active().state
    allowed = set()
    for phase in PartitionPhase:
        for to in PartitionPhase:
            found.partition_phases[T0] = phase
            if partition_states.move(found, [T0], to):
                allowed.add((phase.name, to.name))
    assert allowed == {
        *(("NON_EXISTENT", "NEW"), ("NEW", "ONLINE"), ("NEW", "OFFLINE"), ("ONLINE", "ONLINE")),
        *(("ONLINE", "OFFLINE"), ("OFFLINE", "ONLINE"), ("OFFLINE", "NON_EXISTENT")),
    }
    assert len(found.effects) == len(PartitionPhase) ** 2 - len(allowed), "each refusal is reported"


def test_no_other_transition_of_replicas_is_made(cluster):
    found, replica = cluster.active().state, Replica(T0, 1)
    allowed = set()
    for phase in ReplicaPhase:
        for to in ReplicaPhase:
            found.replica_phases[replica] = phase
            if replica_states.move(found, [replica], to):
                allowed.add((phase.name, to.name))
    assert allowed == {
        *(("NON_EXISTENT", "NEW"), ("NEW", "ONLINE"), ("ONLINE", "ONLINE"), ("OFFLINE", "ONLINE")),
        *(("DELETION_INELIGIBLE", "ONLINE"), ("NEW", "OFFLINE"), ("ONLINE", "OFFLINE")),
        *(("DELETION_INELIGIBLE", "OFFLINE"), ("OFFLINE", "DELETION_STARTED")),
        *(("DELETION_STARTED", "DELETION_SUCCESSFUL"), ("OFFLINE", "DELETION_INELIGIBLE")),
        *(("DELETION_STARTED", "DELETION_INELIGIBLE"), ("DELETION_SUCCESSFUL", "NON_EXISTENT")),
    }


def test_a_refused_transition_leaves_things_as_they_are(cluster):
    found = cluster.active().state
    assert partition_states.move(found, [T0], PartitionPhase.ONLINE) == []
    assert found.phase(T0) is PartitionPhase.NON_EXISTENT
