"""Brokers come, go and bounce: what they led, what they had, and what they lost."""

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import JudgementError, Judges
from zab.coordination.operations import Create, Delete, Multi, Set
from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import PartitionStates, StopReplica, ToBroker
from zab.partition.controller.requests import (
    AllocateProducerIds,
    AlterPartition,
    ControlledShutdown,
    CreateTopics,
    ElectLeaders,
    NewTopic,
    PartitionChange,
    StopReplicaAnswered,
)
from zab.partition.controller.state import ControllerSettings, PartitionPhase, ReplicaPhase
from zab.partition.controller.znodes import TopicPartition, state_path

T0 = TopicPartition("t", 0)


def create(cluster, *replicas, config=None):
    """A topic t with one partition on these brokers."""
    answer = cluster.call(CreateTopics(cluster.token(), (NewTopic("t", assignments={0: replicas}, config=config),)))
    assert answer.topics["t"].error == ErrorCode.NONE, answer
    return state(cluster)


def state(cluster):
    return cluster.active().state.partitions[T0]


def quiet(cluster):
    """Leaders let nobody into the ISR."""
    cluster.propose = lambda broker_id, *, expand: False


def down(cluster, broker_id, *, clean=False):
    """A broker dies, and its session is over; the others go on."""
    session = cluster.processes[broker_id].session
    cluster.crash(broker_id, clean=clean)
    cluster.expire(session)
    cluster._deliver_watches()
    run(cluster)


def up(cluster, broker_id):
    cluster.boot(broker_id)
    run(cluster)


def run(cluster):
    """What `settle` does, without starting dead brokers."""
    boot, cluster.boot = cluster.boot, lambda broker_id: None
    try:
        cluster.settle()
    finally:
        cluster.boot = boot


def others(cluster):
    """Brokers that are not the controller."""
    return [each for each in cluster.processes if each not in cluster.controllers]


def sent(cluster, since, kind):
    return [
        each for _, each in cluster.effects[since:] if isinstance(each, ToBroker) and isinstance(each.message, kind)
    ]


def test_a_new_partition_is_led_by_its_first_live_replica_and_all_live_ones_are_in_sync(cluster):
    found = create(cluster, 2, 0, 1)
    assert (found.leader, found.leader_epoch, found.isr, found.partition_epoch) == (2, 0, (2, 0, 1), 0)
    assert cluster.active().state.phase(T0) is PartitionPhase.ONLINE
    update = cluster.processes[0].image.partitions[cluster.active().state.topics["t"].topic_id, 0]
    assert update.state == found


def test_when_the_leader_dies_another_replica_in_sync_leads(cluster):
    controller = cluster.controllers[0]
    leader, follower = others(cluster)
    create(cluster, leader, follower, controller)
    since = len(cluster.effects)
    down(cluster, leader)
    found = state(cluster)
    assert (found.leader, found.isr) == (follower, (follower, controller))
    assert found.leader_epoch > 0
    assert all(
        leader not in [b.id for b in each.message.live_brokers] for each in sent(cluster, since, PartitionStates)
    )
    up(cluster, leader)
    assert set(state(cluster).isr) == {leader, follower, controller}


def test_a_dead_follower_leaves_the_isr_but_the_last_member_stays(cluster):
    controller = cluster.controllers[0]
    a, b = others(cluster)
    create(cluster, a, b)
    quiet(cluster)
    down(cluster, b)
    assert (state(cluster).leader, state(cluster).isr) == (a, (a,))
    down(cluster, a, clean=True)
    assert (state(cluster).leader, state(cluster).isr) == (-1, (a,))
    assert cluster.active().state.phase(T0) is PartitionPhase.OFFLINE
    # b is not in sync: it does not lead although it is the only one.
    up(cluster, b)
    assert state(cluster).leader == -1
    up(cluster, a)
    assert (state(cluster).leader, state(cluster).isr) == (a, (a,))
    assert controller in cluster.controllers


def test_a_broker_that_bounces_is_dead_and_then_new_in_one_event(cluster):
    """KAFKA-7235: it comes back with another broker epoch before the controller looks."""
    a, b = others(cluster)
    create(cluster, a, b)
    quiet(cluster)
    before, epoch = cluster.processes[a].epoch, state(cluster).leader_epoch
    session = cluster.processes[a].session
    cluster.crash(a, clean=True)
    assert session not in cluster.tree.sessions
    cluster.boot(a)
    while cluster.processes[a].epoch < 0:
        cluster.apply_one(a)
        cluster.take(a)
    since = len(cluster.effects)
    run(cluster)
    assert cluster.processes[a].epoch > before
    assert cluster.active().state.brokers[a].epoch == cluster.processes[a].epoch
    assert state(cluster).leader_epoch > epoch, "its replicas begin again"
    assert (state(cluster).leader, state(cluster).isr) == (b, (b,))
    first = sent(cluster, since, PartitionStates)[0]
    to_a = [each for each in sent(cluster, since, PartitionStates) if each.broker_id == a]
    assert (to_a[0].message.is_full, to_a[0].message.sequence) == (True, 1)
    assert to_a[0].broker_epoch == cluster.processes[a].epoch
    assert {each.id: each.epoch for each in first.message.live_brokers}[a] == cluster.processes[a].epoch


def test_answers_of_a_former_life_do_not_count(cluster):
    """S10: with the broker epoch of the former life."""
    a, _ = others(cluster)
    create(cluster, a)
    old = cluster.processes[a].epoch
    down(cluster, a)
    up(cluster, a)
    asked = (
        AllocateProducerIds(cluster.token(), a, old),
        ControlledShutdown(cluster.token(), a, old),
        AlterPartition(cluster.token(), a, old, {}),
    )
    assert [cluster.call(each).error for each in asked] == [ErrorCode.STALE_BROKER_EPOCH] * 3
    controller = cluster.active()
    controller.state.replica_phases[next(iter(controller.state.replica_phases))] = ReplicaPhase.DELETION_STARTED
    stale = StopReplicaAnswered(a, old, controller.state.epoch, {T0: ErrorCode.NONE})
    cluster.processes[cluster.controllers[0]].inbox.append(stale)
    cluster.take(cluster.controllers[0])
    assert set(controller.state.replica_phases.values()) == {ReplicaPhase.DELETION_STARTED}


def test_a_follower_that_returned_with_an_empty_disk_is_not_let_in_by_an_old_proposal(cluster):
    """S11: the leader's proposal names the broker epoch of the former life."""
    a, b = others(cluster)
    found = create(cluster, a, b)
    old = cluster.processes[b].epoch
    down(cluster, b)
    quiet(cluster)
    up(cluster, b)
    found, topic = state(cluster), cluster.active().state.topics["t"]
    for epoch, error in ((old, ErrorCode.INELIGIBLE_REPLICA), (cluster.processes[b].epoch, ErrorCode.NONE)):
        change = PartitionChange(
            0, found.leader_epoch, found.partition_epoch, ((a, cluster.processes[a].epoch), (b, epoch))
        )
        request = AlterPartition(cluster.token(), a, cluster.processes[a].epoch, {topic.topic_id: (change,)})
        assert cluster.call(request).states[topic.topic_id, 0].error == error


# -------------------------------------------------------------------------------------------------------------- KIP-966


def shrunk_to_one(cluster):
    """S12: ISR {a, b} with min ISR 2; b dies cleanly, so the ISR is {a} and the ELR {b}."""
    a, b = others(cluster)
    create(cluster, a, b, config={"min.insync.replicas": "2"})
    quiet(cluster)
    down(cluster, b, clean=True)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).elr) == (a, (a,), (b,))
    return a, b


def test_last_replica_standing(cluster):
    """S12: a dies and loses its log; b had everything that was acknowledged, and leads."""
    a, b = shrunk_to_one(cluster)
    down(cluster, a)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).elr) == (-1, (a,), (b,))
    up(cluster, a)
    found = state(cluster)
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (-1, (), (b,), (a,))
    up(cluster, b)
    found = state(cluster)
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == (b, (b,), (), (a,))


def test_the_elr_is_empty_again_when_enough_are_in_sync(cluster):
    a, b = shrunk_to_one(cluster)
    del cluster.propose
    up(cluster, b)
    assert (set(state(cluster).isr), state(cluster).elr) == ({a, b}, ())


def test_a_clean_stop_costs_a_broker_nothing(cluster):
    a, b = shrunk_to_one(cluster)
    down(cluster, a, clean=True)
    up(cluster, a)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).elr) == (a, (a,), (b,))


def test_a_broker_that_only_lost_its_session_has_lost_nothing(cluster):
    a, b = shrunk_to_one(cluster)
    up(cluster, b)
    assert (state(cluster).isr, state(cluster).elr) == ((a,), (b,))
    for _ in range(2):
        before = cluster.processes[b].epoch
        cluster.expire(cluster.processes[b].session)
        cluster._deliver_watches()
        run(cluster)
        assert cluster.processes[b].epoch > before
        assert (state(cluster).isr, state(cluster).elr, state(cluster).last_known_elr) == ((a,), (b,), ())


def test_an_unclean_replica_is_not_taken_out_twice_by_the_next_controller():
    """It has caught up in the meantime: its epoch is in its znode, so the next controller knows."""
    cluster = Cluster(7)
    Judges(cluster).watch()
    for process in cluster.processes.values():
        # As Kafka's brokers, which say nothing: only b will be unclean.
        process.last_epoch = None
    cluster.started()
    a, b = others(cluster)
    create(cluster, a, b, config={"min.insync.replicas": "2"})
    down(cluster, b)
    up(cluster, b)
    assert set(state(cluster).isr) == {a, b}
    quiet(cluster)
    epoch = state(cluster).partition_epoch
    down(cluster, cluster.controllers[0])
    assert set(state(cluster).isr) == {a, b}
    assert state(cluster).partition_epoch == epoch


def test_an_unclean_replica_is_taken_out_by_the_next_controller_if_this_one_did_not(cluster):
    a, b = others(cluster)
    create(cluster, a, b, config={"min.insync.replicas": "2"})
    quiet(cluster)
    controller = cluster.controllers[0]
    session = cluster.processes[controller].session
    cluster.crash(controller)
    down_session = cluster.processes[b].session
    cluster.crash(b)
    cluster.expire(down_session)
    cluster.boot(b)
    while cluster.processes[b].epoch < 0:
        cluster.apply_one(b)
        cluster.take(b)
    cluster.expire(session)
    cluster._deliver_watches()
    run(cluster)
    assert (state(cluster).isr, state(cluster).last_known_elr) == ((a,), (b,))


def test_an_election_whose_answer_is_lost_is_not_made_twice(cluster):
    controller = cluster.controllers[0]
    a, b = others(cluster)
    create(cluster, a, b)
    before, process = state(cluster), cluster.processes[controller]
    session = cluster.processes[a].session
    cluster.crash(a)
    cluster.expire(session)
    cluster._deliver_watches()
    while not (process.is_asking and isinstance(process.pending[0], Multi)):
        cluster.apply_one(controller)
        cluster.take(controller, 5)
    assert process.pending[0].parts[1].path == state_path(T0)
    process.results.append(cluster._apply(process))
    cluster.random.randint = lambda low, high: low
    cluster.lose_connection(controller)
    quiet(cluster)
    run(cluster)
    found = state(cluster)
    assert (found.leader, found.leader_epoch, found.partition_epoch) == (b, before.leader_epoch + 1, 1)


def test_the_only_replica_leads_again_after_any_stop(cluster):
    a, _ = others(cluster)
    create(cluster, a)
    down(cluster, a)
    up(cluster, a)
    assert (state(cluster).leader, state(cluster).isr) == (a, (a,))


def test_unclean_elections_happen_only_where_they_are_allowed(cluster):
    a, b = others(cluster)
    create(cluster, a, b)
    quiet(cluster)
    down(cluster, b)
    down(cluster, a, clean=True)
    up(cluster, b)
    asked = ElectLeaders(cluster.token(), (T0,))
    boot, cluster.boot = cluster.boot, lambda broker_id: None
    assert cluster.call(asked).partitions[T0].error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    judge = cluster.tree.before_write
    cluster.tree.before_write = None
    answer = cluster.call(ElectLeaders(cluster.token(), (T0, TopicPartition("x", 0)), unclean=True))
    assert [each.error for each in answer.partitions.values()] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (state(cluster).leader, state(cluster).isr, state(cluster).recovering) == (b, (b,), True)
    answer = cluster.call(ElectLeaders(cluster.token(), (T0,), unclean=True))
    assert answer.partitions[T0].error == ErrorCode.ELECTION_NOT_NEEDED
    cluster.tree.before_write, cluster.boot = judge, boot


def test_nobody_is_elected_where_no_replica_lives(cluster):
    a, _ = others(cluster)
    create(cluster, a)
    down(cluster, a)
    boot, cluster.boot = cluster.boot, lambda broker_id: None
    answer = cluster.call(ElectLeaders(cluster.token(), (T0,), unclean=True))
    assert answer.partitions[T0].error == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    cluster.boot = boot


# ------------------------------------------------------------------------------------------------------------- messages


def test_a_broker_with_another_address_is_told_to_all(cluster):
    a, _ = others(cluster)
    process = cluster.processes[a]
    broker = cluster.active().state.brokers[a]
    cluster.tree.before_write = None
    changed = broker.encode(1).replace(b"host", b"elsewhere")
    cluster.tree.apply(process.session, Set(f"/brokers/ids/{a}", changed.replace(b'"elsewhere":', b'"host":')))
    cluster._deliver_watches()
    run(cluster)
    for each in cluster.processes.values():
        assert each.image.live[a].endpoints == (f"PLAINTEXT://elsewhere{a}:9092",)
        assert each.image.live[a].epoch == process.epoch


def test_a_malformed_broker_is_reported_and_left_out(cluster):
    operator = cluster.tree.begin_session()
    cluster.tree.before_write = None
    cluster.tree.apply(operator, Create("/brokers/ids/8", b"{}", ephemeral=True))
    cluster.tree.apply(operator, Create("/brokers/ids/x", b"{}", ephemeral=True))
    cluster._deliver_watches()
    for _ in range(50):
        for each in cluster.processes:
            cluster.apply_one(each)
            cluster.take(each)
    assert set(cluster.active().state.brokers) == set(cluster.processes)
    reports = cluster.processes[cluster.controllers[0]].reports
    assert any("/brokers/ids/8" in each for each in reports)
    assert any("/brokers/ids/x" in each for each in reports)


def test_messages_to_a_broker_are_numbered_and_only_the_first_is_full(cluster):
    create(cluster, 0, 1, 2)
    for broker_id in cluster.processes:
        messages = [each.message for each in sent(cluster, 0, PartitionStates) if each.broker_id == broker_id]
        assert [each.sequence for each in messages] == list(range(1, len(messages) + 1))
        assert [each.is_full for each in messages] == [True] + [False] * (len(messages) - 1)
        assert all({b.id for b in each.live_brokers} >= {broker_id} for each in messages)


# ------------------------------------------------------------------------------------------------------------- shutdown


def test_a_controlled_shutdown_moves_leaders_and_leaves_every_isr(cluster):
    a, b = others(cluster)
    create(cluster, a, b)
    quiet(cluster)
    since = len(cluster.effects)
    answer = cluster.call(ControlledShutdown(cluster.token(), a, cluster.processes[a].epoch))
    assert (answer.error, answer.remaining) == (ErrorCode.NONE, ())
    assert (state(cluster).leader, state(cluster).isr) == (b, (b,))
    (stop,) = sent(cluster, since, StopReplica)
    assert stop.broker_id == a
    assert [(each.partition, each.delete) for each in stop.message.replicas] == [(T0, False)]
    # Nobody lets it in again, and it does not lead.
    found, topic = state(cluster), cluster.active().state.topics["t"]
    epochs = tuple((each, cluster.processes[each].epoch) for each in (b, a))
    change = PartitionChange(0, found.leader_epoch, found.partition_epoch, epochs)
    request = AlterPartition(cluster.token(), b, cluster.processes[b].epoch, {topic.topic_id: (change,)})
    assert cluster.call(request).states[topic.topic_id, 0].error == ErrorCode.INELIGIBLE_REPLICA
    elected = cluster.call(ElectLeaders(cluster.token(), (T0,)))
    assert elected.partitions[T0].error == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_leader_without_others_in_sync_keeps_its_partition_and_may_let_others_in(cluster):
    a, b = others(cluster)
    create(cluster, a, b)
    quiet(cluster)
    down(cluster, b)
    up(cluster, b)
    shutdown = ControlledShutdown(cluster.token(), a, cluster.processes[a].epoch)
    assert cluster.call(shutdown).remaining == (T0,)
    found, topic = state(cluster), cluster.active().state.topics["t"]
    assert found.leader == a
    epochs = tuple((each, cluster.processes[each].epoch) for each in (a, b))
    change = PartitionChange(0, found.leader_epoch, found.partition_epoch, epochs)
    request = AlterPartition(cluster.token(), a, cluster.processes[a].epoch, {topic.topic_id: (change,)})
    assert cluster.call(request).states[topic.topic_id, 0].error == ErrorCode.NONE
    again = ControlledShutdown(cluster.token(), a, cluster.processes[a].epoch)
    assert cluster.call(again).remaining == ()
    assert (state(cluster).leader, state(cluster).isr) == (b, (b,))


def test_a_broker_that_shuts_down_is_not_elected(cluster):
    """It is eligible and alive, but about to stop."""
    a, b = others(cluster)
    create(cluster, a, b, config={"min.insync.replicas": "2"})
    quiet(cluster)
    cluster.call(ControlledShutdown(cluster.token(), b, cluster.processes[b].epoch))
    assert (state(cluster).isr, state(cluster).elr) == ((a,), (b,))
    down(cluster, a)
    assert (state(cluster).leader, state(cluster).isr, state(cluster).elr) == (-1, (a,), (b,))


def test_partitions_with_one_replica_are_not_in_the_way_of_a_shutdown(cluster):
    a, _ = others(cluster)
    create(cluster, a)
    assert cluster.call(ControlledShutdown(cluster.token(), a, cluster.processes[a].epoch)).remaining == ()


# ------------------------------------------------------------------------------------------------------------ preferred


def moved_away(cluster):
    """The preferred leader was away: another leads."""
    a, b = others(cluster)
    create(cluster, a, b)
    down(cluster, a)
    up(cluster, a)
    assert state(cluster).leader == b
    return a, b


def test_preferred_leaders_are_elected_on_demand():
    cluster = Cluster(7, settings=ControllerSettings(balances_leaders=False))
    Judges(cluster).watch()
    cluster.started()
    a, _ = moved_away(cluster)
    answer = cluster.call(ElectLeaders(cluster.token(), None))
    assert {each: found.error for each, found in answer.partitions.items()} == {T0: ErrorCode.NONE}
    assert state(cluster).leader == a
    assert cluster.call(ElectLeaders(cluster.token(), None)).partitions == {}
    answer = cluster.call(ElectLeaders(cluster.token(), (T0,)))
    assert answer.partitions[T0].error == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(("percent", "moves"), [(99, True), (100, False)])
def test_leaders_are_balanced_when_too_many_are_away(percent, moves):
    settings = ControllerSettings(balance_interval_ms=60_000, imbalance_percent_max=percent)
    cluster = Cluster(7, settings=settings)
    Judges(cluster).watch()
    cluster.started()
    a, b = moved_away(cluster)
    cluster.now_ms += 70_000
    run(cluster)
    assert state(cluster).leader == (a if moves else b)


def test_the_legacy_request_for_preferred_leaders_is_done_and_deleted():
    cluster = Cluster(7, settings=ControllerSettings(balances_leaders=False))
    cluster.started()
    a, _ = moved_away(cluster)
    operator = cluster.tree.begin_session()
    for data in (b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"x","partition":0}]}', b"nonsense"):
        cluster.tree.apply(operator, Create("/admin/preferred_replica_election", data))
        cluster._deliver_watches()
        run(cluster)
        assert cluster.tree.data("/admin/preferred_replica_election") is None
        assert state(cluster).leader == a


# --------------------------------------------------------------------------------------------------------- producer ids


def test_no_block_of_producer_ids_is_given_out_twice(cluster):
    asked = [AllocateProducerIds(cluster.token(), each, cluster.processes[each].epoch) for each in (0, 1, 0)]
    assert [cluster.call(each).producer_ids for each in asked] == [(0, 1000), (1000, 1000), (2000, 1000)]


@pytest.mark.parametrize("data", [b"{", b'{"broker":1,"block_start":"5","block_end":"4"}'])
def test_a_malformed_block_is_not_taken_for_the_beginning(cluster, data):
    cluster.tree.before_write = None
    cluster.tree.apply(cluster.tree.begin_session(), Set("/latest_producer_id_block", data))
    answer = cluster.call(AllocateProducerIds(cluster.token(), 0, cluster.processes[0].epoch))
    assert (answer.error, answer.producer_ids) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_the_judges_notice_a_write_without_the_check(cluster):
    with pytest.raises(JudgementError, match="does not check"):
        cluster.tree.apply(cluster.processes[0].session, Delete("/consumers"))
