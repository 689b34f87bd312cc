"""What a broker says about itself in numbers."""

from random import Random

import pytest

from tests.partition.asked_broker import asked_broker, fetch
from tests.partition.one_broker import OneBroker, a_batch, produce
from tests.partition.several_brokers import SeveralBrokers
from zab.kafka.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from zab.partition.figures import Life, Surroundings, figures, health, life
from zab.partition.meters.meters import TOPICS_MAX, Meters
from zab.service.figure import Figure, Kind
from zab.service.summary import Summary

TOPICS = "kafka_server_brokertopicmetrics"
REQUESTS = "kafka_network_requestmetrics"


def of(broker):
    """The figures, by name and labels."""
    found = list(figures(broker.view(), Surroundings(free_bytes=7)))
    places = [(each.name, each.labels) for each in found]
    assert len(set(places)) == len(places), "a figure comes twice"
    return {(each.name, *(value for _, value in each.labels)): each.value for each in found}


@pytest.fixture
def rig():
    return OneBroker()


def test_what_producers_write_and_consumers_read_is_counted_in_all_and_for_each_topic(rig):
    rig.create("a")
    rig.create("b")
    client, batch = rig.client(), a_batch(b"one", b"two")
    client.ask(produce("a", batch), 9)
    client.ask(produce("b", batch), 9)
    client.ask(fetch("a", 0), 12)
    found = of(rig.broker)
    assert found[f"{TOPICS}_bytesin_total",] == 2 * len(batch)
    assert found[f"{TOPICS}_bytesin_total", "a"] == len(batch)
    assert (found[f"{TOPICS}_messagesin_total",], found[f"{TOPICS}_messagesin_total", "b"]) == (4, 2)
    assert found[f"{TOPICS}_bytesout_total",] == found[f"{TOPICS}_bytesout_total", "a"] == len(batch)
    assert found[f"{TOPICS}_totalfetchrequests_total", "b"] == 0
    assert found[f"{REQUESTS}_requests_total", "Produce", "9"] == 2
    assert found[f"{REQUESTS}_requests_total", "FetchConsumer", "12"] == 1


def test_a_duplicate_is_not_counted_twice(rig):
    rig.create("a")
    client, batch = rig.client(), a_batch(b"one", producer_id=7, producer_epoch=0, base_sequence=0)
    client.ask(produce("a", batch), 9)
    client.ask(produce("a", batch), 9)
    assert of(rig.broker)[f"{TOPICS}_messagesin_total",] == 1


def test_what_is_refused_is_counted_and_names_no_topic_that_is_not_here(rig):
    rig.create("a")
    client = rig.client()
    client.ask(produce("a", b"no batch"), 9)
    client.ask(produce("nowhere", a_batch(b"one")), 9)
    client.ask(fetch("nowhere", 0), 12)
    client.ask(fetch("a", 99), 12)
    found = of(rig.broker)
    assert found[f"{TOPICS}_failedproducerequests_total",] == 2
    assert found[f"{TOPICS}_failedproducerequests_total", "a"] == 1
    assert found[f"{TOPICS}_failedfetchrequests_total",] == 2
    assert not any("nowhere" in place for place in found)


def test_more_topics_than_the_limit_count_in_the_sums_alone():
    meters = Meters()
    for number in range(TOPICS_MAX + 5):
        meters.produced(f"t{number}", 10, 1)
    assert len(meters.topics) == TOPICS_MAX
    assert meters.all_topics.messages_in == TOPICS_MAX + 5
    meters.topics_deleted(["t0"])
    meters.produced("another", 10, 1)
    assert meters.topics["another"].messages_in == 1


def test_the_time_of_a_request_is_that_until_it_is_answered(rig):
    rig.create("a")
    client = rig.client()
    client.send(fetch("a", 0, max_wait_ms=250), 12)
    assert of(rig.broker)["kafka_server_delayedoperationpurgatory_purgatorysize", "Fetch"] == 1
    rig.pass_time(300)
    client.answers()
    found = of(rig.broker)
    times = found[f"{REQUESTS}_totaltimems", "FetchConsumer"]
    assert isinstance(times, Summary)
    assert (times.count, times.largest) == (1, 250)
    assert found["kafka_server_delayedoperationpurgatory_purgatorysize", "Fetch"] == 0
    assert found["kafka_server_delayedoperationpurgatory_expires_total", "Fetch"] == 1


def test_what_waits_is_forgotten_with_its_connection(rig):
    rig.create("a")
    client = rig.client()
    client.send(fetch("a", 0, max_wait_ms=250), 12)
    client.leave()
    assert of(rig.broker)["kafka_server_delayedoperationpurgatory_purgatorysize", "Fetch"] == 0


def test_connections_are_counted_by_listener_and_those_beyond_the_limit():
    rig = OneBroker("max.connections=1")
    rig.client()
    rig.client()
    found = of(rig.broker)
    assert found["kafka_server_socket_server_metrics_connection_count", "PLAINTEXT"] == 1
    assert found["zab_connections_refused_total",] == 1


def test_groups_and_transactional_ids_are_counted_by_state():
    name = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    found = of(asked_broker().broker)
    assert (found[name,], found[f"{name}stable",], found[f"{name}empty",]) == (2, 1, 1)
    assert found["zab_transactional_ids", "Empty"] == 1
    assert found["zab_coordinator_partitions_loading",] == 0


def test_groups_whose_partitions_the_coordinator_assigns_are_counted_apart():
    rig = asked_broker()
    joins = {"member_epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": ("t",), "topic_partitions": ()}
    request = ConsumerGroupHeartbeatRequest(group_id="new", member_id="a", **joins)
    assert rig.client().ask(request, 1).member_epoch == 1
    found = of(rig.broker)
    states = ("Empty", "Assigning", "Reconciling", "Stable")
    assert sum(found["zab_consumer_groups", each] for each in states) == 1
    assert found["zab_consumer_groups", "Empty"] == 0
    assert found["kafka_coordinator_group_groupmetadatamanager_numgroups",] == 2


def test_the_life_of_a_broker():
    rig = OneBroker()
    assert life(rig.broker.view()) is Life.RUNNING
    rig.broker.give_leaders_away(lambda: None)
    assert life(rig.broker.view()) is Life.STOPPING
    assert of(rig.broker)["kafka_server_kafkaserver_brokerstate",] == 6


def test_a_broker_that_is_not_registered_yet_starts_and_one_without_logs_recovers(rig):
    broker = rig.broker
    broker._local._directory = None
    assert life(broker.view()) is Life.RECOVERY
    broker.id = -1
    assert life(broker.view()) is Life.STARTING


def test_a_follower_that_ends_makes_its_partitions_under_replicated_until_it_is_back():
    rig = SeveralBrokers()
    rig.create("t", min_insync_replicas=2)
    leader = rig.brokers[1].broker
    assert health(leader.view()).under_replicated == 0
    rig.crash(3)
    rig.pass_time(1000)
    found = health(leader.view())
    assert (found.leads, found.under_replicated, found.at_min_isr, found.under_min_isr) == (1, 1, 1, 0)
    rig.crash(2)
    rig.pass_time(1000)
    found = health(leader.view())
    assert (found.under_replicated, found.at_min_isr, found.under_min_isr) == (1, 0, 1)
    rig.start(2)
    rig.start(3)
    rig.pass_time(5000)
    assert health(leader.view()).under_replicated == 0
    assert of(leader)["kafka_server_replicamanager_isrexpands_total",] >= 1


def test_a_follower_that_lags_shrinks_the_set():
    rig = SeveralBrokers()
    rig.create("t")
    leader = rig.brokers[1].broker
    rig.cut(1, 3)
    rig.brokers[1].client().send(produce("t", a_batch(b"one"), timeout_ms=100_000), 9)
    rig.run()
    rig.pass_time(60_000)
    found = of(leader)
    assert found["kafka_server_replicamanager_isrshrinks_total",] == 1
    assert found["kafka_server_replicamanager_isrexpands_total",] == 0
    assert found["kafka_server_replicamanager_underreplicatedpartitions",] == 1


def test_followers_say_how_much_they_have_copied_and_leaders_how_much_they_sent():
    rig = SeveralBrokers()
    rig.create("t")
    batch = a_batch(b"one")
    rig.brokers[1].client().send(produce("t", batch), 9)
    rig.run()
    assert of(rig.brokers[1].broker)[f"{TOPICS}_replicationbytesout_total",] == 2 * len(batch)
    assert of(rig.brokers[1].broker)[f"{TOPICS}_bytesout_total",] == 0
    found = of(rig.brokers[2].broker)
    assert found[f"{TOPICS}_replicationbytesin_total",] == len(batch)
    assert found["kafka_server_replicafetchermanager_maxlag", "Replica"] == 0


def test_the_controller_alone_counts_topics_and_what_is_offline():
    rig = SeveralBrokers()
    rig.create("t", replicas=(2,))
    rig.create("u", replicas=(2, 3))
    names = [f"kafka_controller_kafkacontroller_{each}" for each in ("activecontrollercount", "globaltopiccount")]
    assert [of(rig.brokers[1].broker)[name,] for name in names] == [1, 2]
    assert [of(rig.brokers[2].broker)[name,] for name in names] == [0, 0]
    rig.crash(2, Random(1))
    rig.pass_time(1000)
    found = of(rig.brokers[1].broker)
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount",] == 1
    assert found["kafka_controller_kafkacontroller_preferredreplicaimbalancecount",] == 1
    assert found["kafka_controller_controllerstats_uncleanleaderelections_total",] == 0
    assert found["kafka_controller_controllerstats_leaderelections_total",] >= 1


def test_an_unclean_election_is_counted():
    rig = SeveralBrokers()
    rig.create("t", replicas=(2, 3), unclean_leader_election_enable="true")
    rig.crash(3)
    rig.pass_time(1000)
    rig.brokers[2].client().send(produce("t", a_batch(b"one")), 9)
    rig.run()
    rig.crash(2)
    rig.start(3)
    rig.pass_time(5000)
    assert of(rig.brokers[1].broker)["kafka_controller_controllerstats_uncleanleaderelections_total",] == 1


def test_a_failed_tls_handshake_is_a_failed_authentication(rig):
    name = "kafka_server_socket_server_metrics_failed_authentication_total"
    found = {each.name: each.value for each in figures(rig.broker.view(), Surroundings(failed_handshakes=2))}
    assert found[name] == 2


def test_counters_end_with_total(rig):
    assert all(
        each.name.endswith("_total") == (each.kind is Kind.COUNTER)
        for each in figures(rig.broker.view(), Surroundings())
        if isinstance(each, Figure)
    )
