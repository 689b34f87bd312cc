"""Elections: what is read and written, and what an answer that is lost means."""

import json
from random import Random

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges
from zab.coordination.driver import WatchFired
from zab.coordination.operations import Create, Delete, Multi, Set
from zab.kafka.errors import ErrorCode
from zab.partition.controller.effects import Became, Follows, Resigned
from zab.partition.controller.election import elect
from zab.partition.controller.requests import CreateTopics, ListPartitionReassignments, NewTopic
from zab.partition.controller.state import ControllerSettings, ControllerState
from zab.partition.controller.znodes import (
    BROKERS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    TOPICS,
    broker_path,
    encode_controller,
)
from zab.simulator.coordination.znode_tree import ZnodeTree


def became(cluster):
    return [(broker_id, each.epoch) for broker_id, each in cluster.effects if isinstance(each, Became)]


def until(cluster, condition, brokers=None):
    """Let these brokers act until something holds; no messages are delivered."""
    for _ in range(2000):
        if condition():
            return
        for broker_id in brokers if brokers is not None else cluster.processes:
            cluster.apply_one(broker_id)
            cluster.take(broker_id, 5)
    raise AssertionError("it does not happen")


def test_one_of_several_is_elected_and_the_others_follow(cluster):
    ((leader, epoch),) = became(cluster)
    assert epoch == 1
    assert cluster.controllers == [leader]
    assert json.loads(cluster.tree.data(CONTROLLER))["brokerid"] == leader
    assert cluster.tree.data(CONTROLLER_EPOCH) == b"1"
    follows = {broker_id: each.controller_id for broker_id, each in cluster.effects if isinstance(each, Follows)}
    assert follows == {each: leader for each in cluster.processes if each != leader}


def test_the_next_is_elected_when_the_session_of_the_controller_is_over(cluster):
    first = cluster.controllers[0]
    cluster.expire(cluster.processes[first].session)
    cluster._deliver_watches()
    cluster.settle()
    assert [epoch for _, epoch in became(cluster)] == [1, 2]
    assert any(broker_id == first and isinstance(each, Resigned) for broker_id, each in cluster.effects)


@pytest.mark.parametrize("applied", [True, False])
def test_the_answer_to_the_decisive_multi_is_lost(applied):
    """It tells by /controller, the session and the epoch whether it was elected; there is one term of office at
    most."""
    cluster = Cluster(3, brokers=1)
    Judges(cluster).watch()
    cluster.boot(0)
    process = cluster.processes[0]

    def is_decisive():
        return process.is_asking and bool(process.pending) and _is_election(process.pending[0])

    until(cluster, is_decisive)
    if applied:
        process.results.append(cluster._apply(process))
    cluster.random.randint = lambda low, high: low
    cluster.lose_connection(0)
    cluster.settle()
    assert became(cluster) == [(0, 1)]
    assert cluster.tree.data(CONTROLLER_EPOCH) == b"1"


def _is_election(operation):
    return (
        isinstance(operation, Multi)
        and isinstance(operation.parts[0], Create)
        and operation.parts[0].path == CONTROLLER
    )


def test_a_controller_znode_of_an_earlier_life_is_not_this_ones():
    cluster = Cluster(3, brokers=1)
    Judges(cluster).watch()
    cluster.boot(0)
    until(cluster, lambda: cluster.processes[0].is_controller)
    cluster.crash(0)
    cluster.tree.before_write = None
    cluster.tree.apply(cluster.tree.begin_session(), Delete(broker_path(0)))
    cluster.boot(0)
    for _ in range(300):
        cluster.apply_one(0)
        cluster.take(0)
    assert cluster.processes[0].epoch >= 0
    assert not cluster.processes[0].is_controller
    cluster.settle()
    assert became(cluster) == [(0, 1), (0, 2)]


def test_a_deposed_controller_writes_nothing_more_and_resigns_at_once(cluster):
    """Both sessions are alive: only the check of the epoch's version stands between them."""
    old = cluster.controllers[0]
    operator = cluster.tree.begin_session()
    judge = cluster.tree.before_write
    cluster.tree.before_write = None
    cluster.tree.apply(operator, Delete(CONTROLLER))
    cluster.tree.before_write = judge
    cluster._deliver_watches()
    others = [each for each in cluster.processes if each != old]
    cluster.processes[old].inbox.clear()
    until(cluster, lambda: len(became(cluster)) == 2, others)
    assert sorted(cluster.controllers) == sorted([old, became(cluster)[1][0]])
    request = CreateTopics(cluster.token(), (NewTopic("t", 1, 1),))
    cluster.ask(old, request)
    until(cluster, lambda: not cluster.processes[old].is_controller, [old])
    assert cluster.tree.data("/brokers/topics/t") is None
    answers = [each for _, each in cluster.answers if each.token == request.token]
    assert [each.error for each in answers] == [ErrorCode.NOT_CONTROLLER]
    assert cluster.processes[old].reports == [], "that another was elected is no failure"


def test_a_controller_whose_znode_is_deleted_begins_a_new_term():
    only = Cluster(3, brokers=1)
    Judges(only).watch()
    only.started()
    only.tree.before_write = None
    only.tree.apply(only.tree.begin_session(), Delete(CONTROLLER))
    only._deliver_watches()
    only.settle()
    assert became(only) == [(0, 1), (0, 2)]
    assert any(isinstance(each, Resigned) for _, each in only.effects)


def test_what_is_in_the_znode_of_the_controller_cannot_stop_an_election():
    cluster = Cluster(3, brokers=1)
    operator = cluster.tree.begin_session()
    cluster.tree.apply(operator, Create(CONTROLLER, b"nonsense", ephemeral=True))
    cluster.boot(0)
    for _ in range(200):
        cluster.apply_one(0)
        cluster.take(0)
    assert any("/controller" in each for each in cluster.processes[0].reports)
    assert not cluster.processes[0].is_controller
    cluster.settle()
    assert cluster.controllers == [0]


def test_an_epoch_that_is_no_number_is_reported_and_tried_again():
    cluster = Cluster(3, brokers=1)
    operator = cluster.tree.begin_session()
    cluster.tree.apply(operator, Create(CONTROLLER_EPOCH, b"many"))
    cluster.boot(0)
    for _ in range(400):
        cluster.apply_one(0)
        cluster.take(0)
        cluster.now_ms += 10
    assert any("/controller_epoch" in each for each in cluster.processes[0].reports)
    cluster.tree.apply(operator, Set(CONTROLLER_EPOCH, b"41"))
    cluster.settle()
    assert became(cluster)[-1] == (0, 42)


def test_an_event_of_one_term_does_not_stand_for_one_of_the_next():
    """A broker comes while the controller begins its second term; an event of the first one still waits."""
    cluster = Cluster(7, brokers=2)
    Judges(cluster).watch()
    cluster.boot(0)
    process = cluster.processes[0]
    until(cluster, lambda: process.is_controller and process.controller.is_idle, [0])
    cluster.tree.before_write = None
    cluster.tree.apply(cluster.tree.begin_session(), Delete(CONTROLLER))
    cluster._deliver_watches()
    cluster.take(0)
    process.inbox.append(WatchFired(BROKERS))
    until(cluster, lambda: process.is_asking and getattr(process.pending[0], "path", "") == TOPICS, [0])
    assert became(cluster) == [(0, 1), (0, 2)]
    cluster.boot(1)
    until(cluster, lambda: cluster.processes[1].epoch >= 0, [1])
    cluster.settle()
    assert set(cluster.active().state.brokers) == {0, 1}


def test_who_is_not_the_controller_says_so(cluster):
    other = next(each for each in cluster.processes if each not in cluster.controllers)
    request = ListPartitionReassignments(cluster.token())
    cluster.ask(other, request)
    cluster.take(other)
    assert [each.error for _, each in cluster.answers if each.token == request.token] == [ErrorCode.NOT_CONTROLLER]


def test_more_requests_than_may_wait_are_refused():
    cluster = Cluster(7, brokers=1, settings=ControllerSettings(requests_waiting_max=2)).started()
    requests = [CreateTopics(cluster.token(), (NewTopic(name, 1, 1),)) for name in "abc"]
    for request in requests:
        cluster.ask(0, request)
    cluster.settle()
    errors = {each.token: each.error for _, each in cluster.answers}
    assert [errors[each.token] for each in requests] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT]
    assert cluster.call(requests[2]).error == ErrorCode.NONE


def test_watches_of_others_do_not_disturb_a_follower(cluster):
    other = next(each for each in cluster.processes if each not in cluster.controllers)
    cluster.processes[other].inbox.append(WatchFired("/brokers/topics"))
    cluster.take(other)
    assert cluster.processes[other].controller.is_idle


def test_the_model_of_the_service_refuses_as_the_service_does():
    tree = ZnodeTree()
    session = tree.begin_session()
    assert tree.apply(session, Create("/a", b"1")).ok
    refused = tree.apply(session, Multi((Set("/a", b"2"), Create("/a/b/c"))))
    assert [each.error.name for each in refused.parts] == ["OK", "NONODE"]
    assert tree.data("/a") == b"1"


def test_a_controller_that_is_unsure_deletes_no_znode_of_another():
    """Between two of its reads somebody else is elected: what it read of /controller is old."""
    tree = ZnodeTree()
    mine, another = tree.begin_session(), tree.begin_session()
    assert tree.apply(mine, Create(CONTROLLER_EPOCH, b"1")).ok
    assert tree.apply(mine, Create(CONTROLLER, encode_controller(1, 0), ephemeral=True)).ok
    state = ControllerState(broker_id=1, settings=ControllerSettings(), random=Random(1), session_id=mine)
    steps = elect(state)
    asked = next(steps)
    answers = tuple(tree.apply(mine, each) for each in asked)
    tree.apply(another, Delete(CONTROLLER))
    parts = (Create(CONTROLLER, encode_controller(2, 0), ephemeral=True), Set(CONTROLLER_EPOCH, b"2", 0))
    assert tree.apply(another, Multi(parts)).ok
    found = finished(tree, mine, steps, answers)
    assert (found.broker_id, found.is_here) == (2, False)
    assert tree.znodes[CONTROLLER].stat.ephemeral_owner == another


def finished(tree, session, steps, answers):
    """What the rest of the steps return."""
    try:
        while True:
            answers = tuple(tree.apply(session, each) for each in steps.send(answers))
    except StopIteration as end:
        return end.value
