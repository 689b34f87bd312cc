"""The figures of a broker: what it says about itself in numbers. Prometheus and `/status` show these.

    BrokerView          what others may look at of a broker, between two of its turns
    life(view)          what it does: starting, recovering, running, stopping
    health(view)        the figures of its replicas that an operator looks at first
    figures(view)       all of them

The names are those that Prometheus' exporter for JMX gives the figures of Kafka with its example configuration for
Kafka (`kafka_server_replicamanager_underreplicatedpartitions`), where Kafka has such a number; ours begin with `zab_`.

Pure. What only the process around the broker knows are its `Surroundings`, which were looked at before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import Final
from urllib.parse import unquote

import attrs

from zab.partition.cleaning import Cleaning
from zab.partition.clients import Clients
from zab.partition.consumer_groups.state import ASSIGNING, EMPTY, RECONCILING, STABLE
from zab.partition.controller.controller import Controller
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import NO_LEADER
from zab.partition.coordinators import Coordinators
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.meters.meters import Meters, TopicMeter
from zab.partition.proposals import Proposals
from zab.partition.quotas.client_quotas import ClientQuotas
from zab.partition.quotas.limits import FETCHED, PRODUCED, WORKED, Entity
from zab.partition.replica.fetcher import Fetchers
from zab.partition.replica.replica import Replica
from zab.partition.requests.fetch import Fetching
from zab.partition.requests.fetch_sessions import FetchSessions
from zab.partition.requests.login import LoginRequests
from zab.partition.requests.offsets import Deleting
from zab.partition.requests.produce import Produced
from zab.partition.requests.replicas import Replicas
from zab.partition.waiting_requests import WaitingRequests
from zab.service.figure import Figure, Kind, Value
from zab.service.summary import Summary
from zab.service.version import shown

SERVER: Final = "kafka_server"
REPLICAS: Final = f"{SERVER}_replicamanager"
TOPICS: Final = f"{SERVER}_brokertopicmetrics"
PURGATORY: Final = f"{SERVER}_delayedoperationpurgatory"
CONTROLLER: Final = "kafka_controller_kafkacontroller"
ELECTIONS: Final = "kafka_controller_controllerstats"
REQUESTS: Final = "kafka_network_requestmetrics"
GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager"
FETCH_SESSIONS: Final = f"{SERVER}_fetchsessioncache"
OPERATIONS: Final = {"Produce": Produced, "Fetch": Fetching, "DeleteRecords": Deleting}
"""What waits, by Kafka's names."""
QUOTAS: Final = {PRODUCED: "produce_byte_rate", FETCHED: "fetch_byte_rate", WORKED: "request_request_time"}
"""What quotas measure, by Kafka's names."""
QUOTA_FIGURES_MAX: Final = 1000
"""How many clients with quotas have lines of their own."""
CONSUMER_STATES: Final = (EMPTY, ASSIGNING, RECONCILING, STABLE)


class Life(IntEnum):
    """What a broker does, by Kafka's numbers (`BrokerState`)."""

    STARTING = 1
    """It is not registered."""
    RECOVERY = 2
    """Its logs are being read."""
    RUNNING = 3
    STOPPING = 6
    """Others are to lead first what it leads."""


@attrs.frozen(kw_only=True)
class Surroundings:
    """What only the process knows. Times are ms, sizes bytes."""

    flushes_ms: Summary = attrs.Factory(Summary)
    """How long each sync of a file of a log took."""
    writes_ms: Summary = attrs.Factory(Summary)
    """How long each cycle of the log thread took: it writes and syncs all that waits."""
    longest_turn_us: int = 0
    free_bytes: int = 0
    failed_handshakes: int = 0
    """TLS handshakes with clients, at all listeners."""
    open_descriptors: int = 0
    max_descriptors: int = 0


@attrs.frozen(kw_only=True, eq=False)
class BrokerView:
    """What others may look at of a broker, between two of its turns."""

    id: int
    epoch: int
    is_open: bool
    """Whether its logs are there."""
    is_stopping: bool
    image: ClusterImage
    replicas: Replicas
    controller: Controller
    meters: Meters
    waiting: WaitingRequests
    proposals: Proposals
    fetchers: Fetchers
    clients: Clients
    fetch_sessions: FetchSessions
    quotas: ClientQuotas
    logins: LoginRequests
    coordinators: Coordinators
    cleaning: Cleaning


@attrs.frozen
class Health:
    """How the replicas of this broker are."""

    partitions: int = 0
    """Replicas that it has."""
    leads: int = 0
    under_replicated: int = 0
    """Partitions that it leads, with a replica that is not in sync."""
    at_min_isr: int = 0
    """Partitions that it leads with as many replicas in sync as have to be, and others that are not."""
    under_min_isr: int = 0
    """Partitions that it leads with too few replicas in sync: writes with acks=all are refused."""
    failed: int = 0
    """Replicas that are not used any longer, since their storage failed."""
    reassigning: int = 0
    """Partitions that it leads and whose replicas are being changed."""


def life(view: BrokerView) -> Life:
    """What it does."""
    if view.is_stopping:
        return Life.STOPPING
    if view.id < 0:
        return Life.STARTING
    return Life.RUNNING if view.is_open else Life.RECOVERY


def health(view: BrokerView) -> Health:
    """See `Health`."""
    counts: Counter[str] = Counter()
    for replica in view.replicas:
        counts["partitions"] += 1
        counts["failed"] += replica.log.failure is not None
        counts.update(_of_leader(replica))
    return Health(**counts)


def _of_leader(replica: Replica) -> Iterator[str]:
    leader = replica.leader
    if leader is None:
        return
    yield "leads"
    state = leader.state
    in_sync, wanted, all_of_them = len(leader.in_sync.committed), replica.min_in_sync, len(state.replicas)
    if in_sync < all_of_them:
        yield "under_replicated"
    if in_sync < wanted:
        yield "under_min_isr"
    elif in_sync == wanted and in_sync < all_of_them:
        yield "at_min_isr"
    if state.adding or state.removing:
        yield "reassigning"


def figures(view: BrokerView, around: Surroundings) -> Iterator[Figure]:
    """All figures, between two turns."""
    yield Figure(Kind.TEXT, "version", shown())
    yield _gauge(f"{SERVER}_kafkaserver_brokerstate", life(view))
    yield _gauge("zab_broker_id", view.id)
    yield from _of_replicas(view)
    yield from _of_topics(view.meters)
    yield from _of_requests(view)
    yield from _of_controller(view)
    yield from _of_coordinators(view.coordinators)
    yield from _of_connections(view, around)
    yield from _of_quotas(view.quotas)
    yield from _of_files(view, around)


def _gauge(name: str, value: Value, **labels: str) -> Figure:
    return Figure(Kind.GAUGE, name, value, labels=tuple(labels.items()))


def _counter(name: str, value: Value, **labels: str) -> Figure:
    return Figure(Kind.COUNTER, f"{name}_total", value, labels=tuple(labels.items()))


def _of_replicas(view: BrokerView) -> Iterator[Figure]:
    found = health(view)
    yield _gauge(f"{REPLICAS}_partitioncount", found.partitions)
    yield _gauge(f"{REPLICAS}_leadercount", found.leads)
    yield _gauge(f"{REPLICAS}_underreplicatedpartitions", found.under_replicated)
    yield _gauge(f"{REPLICAS}_underminisrpartitioncount", found.under_min_isr)
    yield _gauge(f"{REPLICAS}_atminisrpartitioncount", found.at_min_isr)
    yield _gauge(f"{REPLICAS}_offlinereplicacount", found.failed)
    yield _gauge(f"{REPLICAS}_reassigningpartitions", found.reassigning)
    yield _counter(f"{REPLICAS}_isrshrinks", view.proposals.shrink_count)
    yield _counter(f"{REPLICAS}_isrexpands", view.proposals.expand_count)
    yield _counter(f"{REPLICAS}_failedisrupdates", view.proposals.failed_count)
    yield _gauge(f"{SERVER}_replicafetchermanager_maxlag", view.fetchers.max_lag, clientId="Replica")


def _of_topics(meters: Meters) -> Iterator[Figure]:
    yield from _of_topic(meters.all_topics)
    for name, meter in meters.topics.items():
        yield from _of_topic(meter, topic=name)


def _of_topic(meter: TopicMeter, **labels: str) -> Iterator[Figure]:
    yield _counter(f"{TOPICS}_bytesin", meter.bytes_in, **labels)
    yield _counter(f"{TOPICS}_bytesout", meter.bytes_out, **labels)
    yield _counter(f"{TOPICS}_messagesin", meter.messages_in, **labels)
    yield _counter(f"{TOPICS}_totalproducerequests", meter.produce_requests, **labels)
    yield _counter(f"{TOPICS}_totalfetchrequests", meter.fetch_requests, **labels)
    yield _counter(f"{TOPICS}_failedproducerequests", meter.failed_produce_requests, **labels)
    yield _counter(f"{TOPICS}_failedfetchrequests", meter.failed_fetch_requests, **labels)


def _of_requests(view: BrokerView) -> Iterator[Figure]:
    meters, waiting = view.meters, view.waiting
    yield _counter(f"{TOPICS}_replicationbytesin", view.fetchers.copied_bytes)
    yield _counter(f"{TOPICS}_replicationbytesout", meters.replication_bytes_out)
    for name, meter in meters.requests.items():
        for version, count in meter.versions.items():
            yield _counter(f"{REQUESTS}_requests", count, request=name, version=str(version))
        labels = (("request", name),)
        yield Figure(Kind.ADVANCED, f"{REQUESTS}_totaltimems", meter.total_ms, labels=labels)
        yield Figure(Kind.BASIC, f"{REQUESTS}_requestbytes", meter.size_bytes, labels=labels)
    for name, kind in OPERATIONS.items():
        yield _gauge(f"{PURGATORY}_purgatorysize", waiting.counts[kind], delayedOperation=name)
        yield _counter(f"{PURGATORY}_expires", waiting.expired_counts[kind], delayedOperation=name)
    sessions = view.fetch_sessions
    yield _gauge(f"{FETCH_SESSIONS}_numincrementalfetchsessions", len(sessions))
    yield _gauge(f"{FETCH_SESSIONS}_numincrementalfetchpartitionscached", sessions.partition_count)
    yield _counter(f"{FETCH_SESSIONS}_incrementalfetchsessionevictions", sessions.evicted_count)


def _of_controller(view: BrokerView) -> Iterator[Figure]:
    controller, state = view.controller, view.controller.state
    yield _gauge(f"{CONTROLLER}_activecontrollercount", int(state.is_active))
    yield _gauge(f"{CONTROLLER}_activebrokercount", len(state.brokers))
    yield _gauge(f"{CONTROLLER}_globaltopiccount", len(state.topics))
    yield _gauge(f"{CONTROLLER}_globalpartitioncount", sum(len(each.assignments) for each in state.topics.values()))
    yield _gauge(f"{CONTROLLER}_topicstodeletecount", len(state.deleting | state.to_delete))
    yield from _of_partitions(state)
    yield _counter(f"{ELECTIONS}_leaderelections", state.elections_count)
    yield _counter(f"{ELECTIONS}_uncleanleaderelections", state.unclean_elections_count)
    yield _gauge("kafka_controller_controllereventmanager_eventqueuesize", controller.queue_size)
    yield _gauge("zab_coordination_connected", int(controller.is_connected))
    yield _counter(f"{SERVER}_sessionexpirelistener_zookeeperdisconnects", controller.suspended_count)
    yield _counter(f"{SERVER}_sessionexpirelistener_zookeeperexpires", controller.expired_count)


def _of_partitions(state: ControllerState) -> Iterator[Figure]:
    """Zeros, where this broker is not the controller, as in Kafka."""
    alive = state.brokers
    offline = imbalanced = 0
    for partition, current in state.partitions.items():
        if state.is_deleting(partition) or not state.has(partition):
            continue
        has_leader = current.leader != NO_LEADER and current.leader in alive
        offline += not has_leader
        imbalanced += has_leader and current.leader != state.assignment(partition).replicas[0]
    yield _gauge(f"{CONTROLLER}_offlinepartitionscount", offline)
    yield _gauge(f"{CONTROLLER}_preferredreplicaimbalancecount", imbalanced)


def _of_coordinators(coordinators: Coordinators) -> Iterator[Figure]:
    groups = coordinators.group_counts
    yield _gauge(f"{GROUPS}_numgroups", groups.total())
    for name in ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"):
        yield _gauge(f"{GROUPS}_numgroups{name.lower()}", groups[name])
    of_consumers = coordinators.consumer_group_counts
    for name in CONSUMER_STATES:
        yield _gauge("zab_consumer_groups", of_consumers[name], state=name)
    for name, count in sorted(coordinators.transaction_counts.items()):
        yield _gauge("zab_transactional_ids", count, state=name)
    yield _gauge("zab_coordinator_partitions_loading", coordinators.loading_count)


def _of_connections(view: BrokerView, around: Surroundings) -> Iterator[Figure]:
    for listener, count in sorted(view.clients.counts.items()):
        yield _gauge(f"{SERVER}_socket_server_metrics_connection_count", count, listener=listener)
    yield _counter("zab_connections_refused", view.clients.refused_count)
    yield _counter(f"{SERVER}_socket_server_metrics_successful_authentication", view.logins.done_count)
    failed = view.logins.failed_count + around.failed_handshakes
    yield _counter(f"{SERVER}_socket_server_metrics_failed_authentication", failed)


def _of_quotas(quotas: ClientQuotas) -> Iterator[Figure]:
    """Clients with quotas that used something last."""
    for (key, together), meter in list(quotas.meters.items())[-QUOTA_FIGURES_MAX:]:
        labels = _labels(together)
        yield _gauge(f"{SERVER}_{QUOTAS[key]}", meter.rate.measure(quotas.now), **labels)
        name = QUOTAS[key].partition("_")[0]
        yield _counter("zab_throttled_ms", meter.throttled_ms, quota=name, **labels)

    for together, bucket in list(quotas.buckets.items())[-QUOTA_FIGURES_MAX:]:
        yield _counter("zab_throttled_ms", bucket.throttled_ms, quota="controller_mutation", **_labels(together))


def _labels(entity: Entity) -> dict[str, str]:
    named = {"user": entity.user, "client_id": entity.client}
    return {label: unquote(name) for label, name in named.items() if name is not None}


def _of_files(view: BrokerView, around: Surroundings) -> Iterator[Figure]:
    yield Figure(Kind.ADVANCED, "kafka_log_logflushstats_logflushrateandtimems", around.flushes_ms)
    yield Figure(Kind.ADVANCED, "zab_log_write_ms", around.writes_ms)
    yield _gauge("zab_log_size_bytes", sum(replica.log.size_bytes for replica in view.replicas))
    yield _gauge("zab_log_free_bytes", around.free_bytes)
    yield _gauge("kafka_log_logcleanermanager_uncleanable_partitions_count", view.cleaning.given_up_count)
    yield _counter("zab_log_cleaner_rounds", view.cleaning.rounds_count)
    yield _gauge("zab_max_turn_us", around.longest_turn_us)
    yield _gauge("zab_open_file_descriptors", around.open_descriptors)
    yield _gauge("zab_max_file_descriptors", around.max_descriptors)
