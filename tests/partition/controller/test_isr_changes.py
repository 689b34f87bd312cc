"""AlterPartition: the checks in their order, what is written, who is told."""

import pytest
from attrs import evolve

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges
from zab.coordination.operations import Create, Set
from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import PartitionStates, ToBroker
from zab.partition.controller.requests import AlterPartition, CreateTopics, DeleteTopics, NewTopic, PartitionChange
from zab.partition.controller.znodes import PartitionState, TopicPartition, encode_partitions, state_path

T0 = TopicPartition("t", 0)
LEADER, FOLLOWER, OTHER = 1, 2, 0


@pytest.fixture
def scene():
    """t-0 on 1, 2 and 0, led by 1, all in sync, min ISR 2; no leader changes an ISR by itself."""
    cluster = Cluster(7)
    Judges(cluster).watch()
    cluster.started()
    new = NewTopic("t", assignments={0: (LEADER, FOLLOWER, OTHER)}, config={"min.insync.replicas": "2"})
    cluster.call(CreateTopics(cluster.token(), (new,)))
    cluster.propose = lambda broker_id, *, expand: False
    return cluster


def state(cluster):
    return cluster.active().state.partitions[T0]


def epoch(cluster, broker_id):
    return cluster.processes[broker_id].epoch


def proposal(cluster, *isr):
    """A valid one with this ISR."""
    found = state(cluster)
    return PartitionChange(
        0, found.leader_epoch, found.partition_epoch, tuple((each, epoch(cluster, each)) for each in isr)
    )


def alter(cluster, change, *, sender=LEADER, sender_epoch=None, topic_id=None):
    topic_id = topic_id or cluster.active().state.topics["t"].topic_id
    sender_epoch = epoch(cluster, sender) if sender_epoch is None else sender_epoch
    answer = cluster.call(AlterPartition(cluster.token(), sender, sender_epoch, {topic_id: (change,)}))
    return answer if answer.states is None else answer.states[topic_id, change.partition]


def test_a_proposal_is_written_and_answered_with_what_holds_now(scene):
    outcome = alter(scene, proposal(scene, LEADER))
    assert (outcome.error, outcome.min_isr) == (ErrorCode.NONE, 2)
    found = scene.tree.znodes[state_path(T0)]
    assert PartitionState.decode(T0, found.data, found.stat.version) == outcome.state
    assert (outcome.state.isr, set(outcome.state.elr)) == ((LEADER,), {FOLLOWER, OTHER})
    assert (outcome.state.leader_epoch, outcome.state.partition_epoch) == (0, 1), "a leader's change is no new epoch"
    outcome = alter(scene, proposal(scene, LEADER, OTHER))
    assert (outcome.state.isr, outcome.state.elr) == ((LEADER, OTHER), ())


def test_a_proposal_whose_answer_was_lost_is_a_success(scene):
    """S8: applied already, with an older partition epoch."""
    change = proposal(scene, LEADER, OTHER)
    first = alter(scene, change)
    again = alter(scene, change)
    assert (again.error, again.state) == (ErrorCode.NONE, first.state)
    assert state(scene).partition_epoch == 1


def test_the_whole_request_is_refused_from_another_life(scene):
    assert alter(scene, proposal(scene, LEADER), sender_epoch=1).error == ErrorCode.STALE_BROKER_EPOCH
    assert alter(scene, proposal(scene, LEADER), sender=9, sender_epoch=1).error == ErrorCode.STALE_BROKER_EPOCH


def test_unknown_partitions(scene):
    assert alter(scene, proposal(scene, LEADER), topic_id="A" * 22).error == ErrorCode.UNKNOWN_TOPIC_ID
    change = evolve(proposal(scene, LEADER), partition=5)
    assert alter(scene, change).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


HIGHER = ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("changes", "isr", "sender", "error"),
    [
        # Each line is wrong in all that the lines below it are wrong in: the order counts.
        ({"leader_epoch": 9}, (FOLLOWER, 9), FOLLOWER, HIGHER),
        ({"partition_epoch": 9}, (FOLLOWER, 9), FOLLOWER, HIGHER),
        ({"leader_epoch": 1, "partition_epoch": 0}, (FOLLOWER, 9), FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH),
        ({"partition_epoch": 0}, (FOLLOWER, 9), FOLLOWER, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 0}, (LEADER, FOLLOWER), LEADER, ErrorCode.NONE),
        ({"partition_epoch": 0}, (LEADER, 9), LEADER, ErrorCode.INVALID_UPDATE_VERSION),
        ({}, (LEADER, 9), LEADER, ErrorCode.INVALID_REQUEST),
        ({}, (FOLLOWER, OTHER), LEADER, ErrorCode.INVALID_REQUEST),
        ({}, (LEADER, LEADER), LEADER, ErrorCode.INVALID_REQUEST),
        ({"recovering": True}, (LEADER,), LEADER, ErrorCode.INVALID_REQUEST),
        ({}, (LEADER, OTHER), LEADER, ErrorCode.NONE),
    ],
)
def test_the_checks_are_made_in_their_order(scene, changes, isr, sender, error):
    # Leader epoch 2, partition epoch 2, ISR {LEADER, FOLLOWER}.
    scene.tree.before_write = None
    written = PartitionState(LEADER, 2, (LEADER, FOLLOWER), controller_epoch=1)
    session = scene.processes[0].session
    for _ in range(2):
        assert scene.tree.apply(session, Set(state_path(T0), written.encode())).ok
    scene.active().state.partitions[T0] = written.at(2)
    change = PartitionChange(0, 2, 2, tuple((each, epoch(scene, each) if each < 3 else 7) for each in isr))
    assert alter(scene, evolve(change, **changes), sender=sender).error == error


@pytest.mark.parametrize(("member", "epoch_of_member"), [(OTHER, 5), (OTHER, 10_000)])
def test_a_member_in_another_life_is_not_eligible(scene, member, epoch_of_member):
    alter(scene, proposal(scene, LEADER, FOLLOWER))
    change = evolve(proposal(scene, LEADER, FOLLOWER), isr=((LEADER, epoch(scene, LEADER)), (member, epoch_of_member)))
    assert alter(scene, change).error == ErrorCode.INELIGIBLE_REPLICA
    unknown = evolve(change, isr=((LEADER, -1), (member, -1)))
    assert alter(scene, unknown).error == ErrorCode.NONE


def test_a_recovering_leader_recovers_alone(scene):
    scene.tree.before_write = None
    written = PartitionState(LEADER, 3, (LEADER,), controller_epoch=1, recovering=True)
    scene.tree.apply(scene.processes[0].session, Set(state_path(T0), written.encode()))
    scene.active().state.partitions[T0] = written.at(1)
    with_others = evolve(proposal(scene, LEADER, OTHER), recovering=True)
    assert alter(scene, with_others).error == ErrorCode.INVALID_REQUEST
    recovered = alter(scene, proposal(scene, LEADER))
    assert (recovered.error, recovered.state.recovering) == (ErrorCode.NONE, False)


@pytest.mark.parametrize("changes", [{"leader_epoch": -1}, {"partition_epoch": -1}])
def test_a_leader_that_was_refused_gets_the_state_again(scene, changes):
    """S9: it waits for the push, although the controller changed nothing else."""
    since = len(scene.effects)
    outcome = alter(scene, evolve(proposal(scene, LEADER), **changes))
    assert outcome.error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION)
    told = [
        update.state
        for _, each in scene.effects[since:]
        if isinstance(each, ToBroker) and each.broker_id == LEADER and isinstance(each.message, PartitionStates)
        for topic in each.message.topics
        for update in topic.partitions
    ]
    assert told == [state(scene)]


def test_a_znode_that_is_not_what_the_controller_wrote_is_read_again(scene):
    scene.tree.before_write = None
    newer = evolve(state(scene), leader_epoch=4, isr=(LEADER, OTHER))
    scene.tree.apply(scene.processes[0].session, Set(state_path(T0), newer.encode()))
    outcome = alter(scene, proposal(scene, LEADER))
    assert outcome.error == ErrorCode.FENCED_LEADER_EPOCH
    assert state(scene).leader_epoch == 4


def test_a_state_of_a_newer_controller_ends_this_one(scene):
    scene.tree.before_write = None
    newer = evolve(state(scene), controller_epoch=7)
    scene.tree.apply(scene.processes[0].session, Set(state_path(T0), newer.encode()))
    answer = alter(scene, proposal(scene, LEADER))
    assert answer.error == ErrorCode.NOT_CONTROLLER


def test_the_answer_to_the_write_is_lost(scene):
    """The state that is read again has what was to be written, so it was written."""
    change, controller = proposal(scene, LEADER, OTHER), scene.controllers[0]
    topic_id = scene.active().state.topics["t"].topic_id
    request = AlterPartition(scene.token(), LEADER, epoch(scene, LEADER), {topic_id: (change,)})
    scene.ask(controller, request)
    scene.take(controller)
    process = scene.processes[controller]
    process.results.append(scene._apply(process))
    scene.random.randint = lambda low, high: low
    scene.lose_connection(controller)
    scene.settle()
    (answer,) = [each for _, each in scene.answers if each.token == request.token]
    assert answer.states[topic_id, 0].error == ErrorCode.NONE
    assert (state(scene).isr, state(scene).partition_epoch) == ((LEADER, OTHER), 1)


def test_a_topic_that_is_being_deleted_has_no_isr_any_longer(scene):
    change = proposal(scene, LEADER)
    topic_id = scene.active().state.topics["t"].topic_id
    scene._stop_replicas = lambda *_: None
    scene.call(DeleteTopics(scene.token(), ("t",), timeout_ms=500))
    assert alter(scene, change, topic_id=topic_id).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_leader_from_before_alter_partition_writes_itself_and_notifies(scene):
    scene.tree.before_write = None
    session = scene.tree.begin_session()
    newer = evolve(state(scene), isr=(LEADER,))
    scene.tree.apply(session, Set(state_path(T0), newer.encode()))
    scene.tree.apply(session, Create("/isr_change_notification/isr_change_", encode_partitions([T0]), sequential=True))
    scene.tree.apply(session, Create("/isr_change_notification/isr_change_", b"{", sequential=True))
    scene._deliver_watches()
    scene.settle()
    assert state(scene).isr == (LEADER,)
    assert scene.processes[OTHER].image.partitions[scene.active().state.topics["t"].topic_id, 0].state == state(scene)
    assert scene.tree.children("/isr_change_notification") == []


def test_a_lost_log_directory_is_reported(scene):
    session = scene.tree.begin_session()
    scene.tree.before_write = None
    for data in (b'{"version":1,"broker":2,"event":1}', b"{"):
        scene.tree.apply(session, Create("/log_dir_event_notification/log_dir_event_", data, sequential=True))
    scene._deliver_watches()
    scene.settle()
    assert "broker 2 lost a log directory" in scene.processes[scene.controllers[0]].reports
    assert scene.tree.children("/log_dir_event_notification") == []
