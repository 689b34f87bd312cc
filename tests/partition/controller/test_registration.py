"""How a broker makes itself known: parents, the cluster's id, its own id, its znode."""

import pytest

from tests.partition.controller.cluster import Cluster
from tests.partition.controller.judges import Judges
from zab.coordination.operations import Create
from zab.partition.controller.effects import Failed, Registered
from zab.partition.controller.registration import Registration
from zab.partition.controller.znodes import (
    CLUSTER_ID,
    PARENTS,
    Broker,
    broker_path,
    decode_cluster_id,
    encode_cluster_id,
)


def lone(seed=3):
    cluster = Cluster(seed, brokers=1)
    Judges(cluster).watch()
    return cluster


def of(cluster, kind):
    return [each for _, each in cluster.effects if isinstance(each, kind)]


def act(cluster, count=300, ms=0):
    for _ in range(count):
        cluster.apply_one(0)
        cluster.take(0)
        cluster.now_ms += ms


def test_the_first_broker_makes_the_parents_and_the_cluster():
    cluster = lone().started()
    assert set(PARENTS) <= set(cluster.tree.znodes)
    (registered,) = of(cluster, Registered)
    znode = cluster.tree.znodes[broker_path(0)]
    assert registered == Registered(0, znode.stat.czxid, decode_cluster_id(cluster.tree.data(CLUSTER_ID)))
    assert len(registered.cluster_id) == 22
    assert znode.stat.ephemeral_owner == cluster.processes[0].session


def test_all_brokers_are_in_the_cluster_that_the_first_one_made(cluster):
    assert len({each.cluster_id for each in of(cluster, Registered)}) == 1
    assert len({each.broker_epoch for each in of(cluster, Registered)}) == 3


def test_a_broker_of_another_cluster_must_not_run():
    cluster = lone()
    operator = cluster.tree.begin_session()
    cluster.tree.before_write = None
    cluster.tree.apply(operator, Create("/cluster"))
    cluster.tree.apply(operator, Create(CLUSTER_ID, encode_cluster_id("ours")))
    cluster.boot(0)
    controller = cluster.processes[0].controller
    controller.registration = Registration(controller.registration.broker, cluster_id="another")
    act(cluster)
    (failed,) = of(cluster, Failed)
    assert "another" in failed.reason
    assert "ours" in failed.reason
    assert controller.step(cluster.now_ms + 10_000) == []


@pytest.mark.parametrize("data", [b"", b'{"version":"1"}'])
def test_a_malformed_cluster_id_is_not_replaced(data):
    cluster = lone()
    operator = cluster.tree.begin_session()
    cluster.tree.before_write = None
    cluster.tree.apply(operator, Create("/cluster"))
    cluster.tree.apply(operator, Create(CLUSTER_ID, data))
    cluster.boot(0)
    act(cluster)
    assert [CLUSTER_ID in each.reason for each in of(cluster, Failed)] == [True]


def test_ids_are_given_out_above_those_that_operators_choose():
    cluster = lone()
    for expected in (1001, 1002):
        cluster.boot(0)
        controller = cluster.processes[0].controller
        controller.registration = Registration(Broker(-1, ("PLAINTEXT://h:1",)))
        act(cluster)
        assert of(cluster, Registered)[-1].broker_id == expected
        assert controller.state.broker_id == expected
        assert controller.registration.broker.id == expected, "it keeps the id in the next session"
        cluster.crash(0, clean=True)


def test_a_broker_waits_for_the_end_of_its_former_session():
    cluster = lone()
    cluster.boot(0)
    act(cluster, 60)
    old = cluster.processes[0].session
    cluster.crash(0)
    cluster.boot(0)
    act(cluster, 100, ms=20)
    assert cluster.processes[0].epoch == -1
    cluster.expire(old)
    act(cluster, 100, ms=20)
    assert cluster.processes[0].epoch == cluster.tree.znodes[broker_path(0)].stat.czxid
    assert of(cluster, Failed) == []


def test_a_duplicate_broker_id_is_found_out_after_five_session_timeouts():
    cluster = lone()
    operator = cluster.tree.begin_session()
    cluster.tree.before_write = None
    for path in ("/brokers", "/brokers/ids"):
        cluster.tree.apply(operator, Create(path))
    cluster.tree.apply(operator, Create(broker_path(0), b"{}", ephemeral=True))
    cluster.boot(0)
    began = cluster.now_ms
    while not of(cluster, Failed) and cluster.now_ms < began + 40_000:
        act(cluster, 1, ms=10)
    assert "duplicate broker id 0" in of(cluster, Failed)[0].reason
    assert 30_000 <= cluster.now_ms - began < 30_500


@pytest.mark.parametrize("applied", [True, False])
def test_the_answer_to_the_registration_is_lost(applied):
    cluster = lone()
    cluster.boot(0)
    process = cluster.processes[0]
    for _ in range(300):
        if process.is_asking and getattr(process.pending[0], "path", "") == broker_path(0):
            break
        cluster.apply_one(0)
        cluster.take(0)
    if applied:
        process.results.append(cluster._apply(process))
    cluster.random.randint = lambda low, high: low
    cluster.lose_connection(0)
    cluster.settle()
    assert cluster.processes[0].epoch == cluster.tree.znodes[broker_path(0)].stat.czxid
    assert len(of(cluster, Registered)) == 1


def test_with_a_new_session_a_broker_registers_again_with_another_epoch():
    cluster = lone().started()
    first = cluster.processes[0].epoch
    cluster.expire(cluster.processes[0].session)
    cluster.settle()
    assert cluster.processes[0].epoch > first
    assert cluster.controllers == [0]
