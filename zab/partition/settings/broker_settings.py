"""The settings of a broker, under Kafka's names: those of `server.properties`.

What holds for topics that say nothing is `TopicSettings`, whose keys have other names in this file.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen

from zab.configuration.fields import (
    BOOLEAN,
    BYTES,
    COUNT,
    COUNT_OR_0,
    INT_MAX,
    LONG_MAX,
    fraction,
    host_name,
    integer,
    setting,
    text_of,
)
from zab.partition.settings.listeners import (
    NAMES_ARE_PROTOCOLS,
    PROTOCOLS,
    Endpoint,
    Protocols,
    endpoints_in,
    protocols_in,
)

BROKER_ID_GENERATED: Final = -1
_MS = integer(1, LONG_MAX)
REPLICATED_BYTES_MAX: Final = 32 << 20
"""The largest batch of a partition with several replicas: a larger one could not travel over a link."""


def _listener_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", text, re.ASCII) or text.upper() in PROTOCOLS:
        raise ValueError(f"{text!r} is no name of a listener for brokers")
    return text.upper()


@frozen(kw_only=True)
class BrokerSettings:
    """The id of the broker, its listeners, and its directory. Times are ms, sizes bytes."""

    broker_id: int = setting(
        "broker.id", BROKER_ID_GENERATED, integer(-1, INT_MAX), "id", "-1: the coordination service assigns an id."
    )
    listeners: tuple[Endpoint, ...] = setting(
        "listeners",
        (Endpoint("PLAINTEXT", "127.0.0.1", 9092),),
        endpoints_in,
        "NAME://HOST:PORT,…",
        "Where clients connect. An empty host means every address of this machine.",
        shown="PLAINTEXT://127.0.0.1:9092",
    )
    advertised_listeners: tuple[Endpoint, ...] | None = setting(
        "advertised.listeners",
        None,
        endpoints_in,
        "NAME://HOST:PORT,…",
        "What clients are told to connect to. None: the listeners.",
    )
    protocols: Protocols = setting(
        "listener.security.protocol.map",
        NAMES_ARE_PROTOCOLS,
        protocols_in,
        "NAME:PROTOCOL,…",
        "The protocol of a listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. By default, its name is its protocol.",
        shown="names are protocols",
    )
    log_directory: str = setting("log.dirs", "broker-data", text_of, "path", "The directory of the logs; only one.")
    rack: str | None = setting(
        "broker.rack", None, text_of, "name", "Replicas of a partition are spread over the racks."
    )
    servers: str = setting(
        *("zookeeper.connect", "127.0.0.1:2181", text_of, "HOST:PORT,…[/PATH]"),
        "The members of the coordination service, and the path below which the brokers' znodes are.",
    )
    session_timeout_ms: int = setting(
        *("zookeeper.session.timeout.ms", 6000, _MS, "ms"),
        "How long after its last contact with the coordination service the broker counts as dead.",
    )
    partition_count: int = setting(
        "num.partitions",
        1,
        integer(1, 10_000),
        "partitions",
        "How many partitions a topic gets if its creator gives no number.",
    )
    replication_factor: int = setting(
        *("default.replication.factor", 1, integer(1, 32_767), "replicas"),
        "How many replicas a partition gets if the topic's creator gives no number.",
    )
    creates_topics: bool = setting(
        *("auto.create.topics.enable", True, BOOLEAN, "true/false"),
        "Whether a topic is created when a client that allows this asks for its metadata.",
    )
    deletes_topics: bool = setting(
        "delete.topic.enable", True, BOOLEAN, "true/false", "Whether clients may delete topics."
    )


@frozen(kw_only=True)
class HttpSettings:
    """The port of metrics and health."""

    port: int = setting(
        *("http.port", 0, integer(0, 65535), "port"),
        "zab only. Where /metrics, /health/live, /health/ready and /status are. 0: there is no such port.",
    )
    host: str = setting(
        *("http.host", "127.0.0.1", host_name, "host"),
        "zab only. The address of that port: by default this machine alone, since it requires no login.",
    )


@frozen(kw_only=True)
class ReplicationSettings:
    """The links to other brokers, and how followers copy leaders."""

    listener_name: str = setting(
        *("inter.broker.listener.name", "REPLICATION", _listener_name, "NAME"),
        "The listener for other brokers: one of `listeners`, else a free port of the first one's host.",
    )
    secret_file: str | None = setting(
        *("broker.secretFile", None, text_of, "path"),
        "The secret by which brokers authenticate each other (`zab secret`). None: links stay within this machine.",
    )
    trust_store: str | None = setting(
        *("broker.ssl.truststore.location", None, text_of, "path"),
        "zab only. The authorities that sign the brokers' certificates, if they differ from those of clients; its "
        "password is that of `ssl.truststore`. For links that use SSL according to `listener.security.protocol.map`.",
        shown="ssl.truststore.location",
    )
    fetch_bytes: int = setting(
        *("replica.fetch.max.bytes", 1 << 20, integer(1, REPLICATED_BYTES_MAX), "bytes"),
        "The most that a follower fetches of one partition at once; one batch may be larger.",
    )
    fetch_response_bytes: int = setting(
        *("replica.fetch.response.max.bytes", 10 << 20, integer(1, REPLICATED_BYTES_MAX), "bytes"),
        "The most that a follower fetches at once.",
    )
    fetch_wait_ms: int = setting(
        *("replica.fetch.wait.max.ms", 500, integer(0, INT_MAX), "ms"),
        "How long a leader that has nothing new keeps a follower waiting.",
    )
    fetch_backoff_ms: int = setting(
        *("replica.fetch.backoff.ms", 1000, integer(0, INT_MAX), "ms"),
        "How long a follower waits after an error before it fetches a partition again.",
    )
    lag_max_ms: int = setting(
        *("replica.lag.time.max.ms", 30_000, _MS, "ms"),
        "A follower that has not caught up for this long is not in sync.",
    )
    link_timeout_ms: int = setting(
        *("replica.socket.timeout.ms", 30_000, _MS, "ms"),
        "A link whose other end has not answered for this long is closed. Longer than the longest wait.",
    )
    gives_leaders_away: bool = setting(
        *("controlled.shutdown.enable", True, BOOLEAN, "true/false"),
        "Whether a broker that stops first hands over leadership of its partitions.",
    )
    shutdown_tries: int = setting(
        *("controlled.shutdown.max.retries", 3, COUNT, "tries"),
        "How often it retries for the partitions that it still leads.",
    )
    shutdown_retry_ms: int = setting(
        "controlled.shutdown.retry.backoff.ms", 5000, _MS, "ms", "How long it waits before it retries."
    )


@frozen(kw_only=True)
class RequestSettings:
    """What a client may ask for at once, and how much of it may wait."""

    request_bytes_max: int = setting(
        "socket.request.max.bytes", 100 << 20, integer(1024, INT_MAX), "bytes", "The largest request."
    )
    queued_bytes_max: int = setting(
        *("queued.max.request.bytes", 256 << 20, integer(1024, LONG_MAX), "bytes"),
        "The limit on requests of all connections that are incomplete or wait. At half of it, large requests wait "
        "for each other; beyond it, the connections that use the most are closed. At least twice the largest request.",
    )
    idle_ms: int = setting(
        "connections.max.idle.ms", 600_000, _MS, "ms", "A connection that is silent for this long is closed."
    )
    connections_max: int = setting(
        *("max.connections", INT_MAX, COUNT, "connections"), "How many connections a broker serves."
    )
    connections_of_address_max: int = setting(
        "max.connections.per.ip",
        INT_MAX,
        COUNT,
        "connections",
        "How many connections from one address a broker serves.",
    )
    fetch_bytes_max: int = setting(
        "fetch.max.bytes", 55 << 20, integer(1024, INT_MAX), "bytes", "The most that one fetch returns."
    )
    fetch_session_slots: int = setting(
        *("max.incremental.fetch.session.cache.slots", 1000, COUNT_OR_0, "sessions"),
        "How many consumers have a fetch session; the others name all their partitions in each fetch.",
    )


@frozen(kw_only=True)
class QuotaSettings:
    """How the use of clients is measured that have quotas."""

    windows_count: int = setting(
        *("quota.window.num", 11, integer(2, 3600), "windows"),
        "Over how many windows the rate of a client is measured.",
    )
    window_seconds: int = setting("quota.window.size.seconds", 1, integer(1, 3600), "s", "How long each window is.")


@frozen(kw_only=True)
class LogSettings:
    """When the logs of a broker are looked after."""

    retention_check_ms: int = setting(
        "log.retention.check.interval.ms", 300_000, _MS, "ms", "How often the broker looks for segments to delete."
    )
    checkpoint_ms: int = setting(
        *("log.flush.offset.checkpoint.interval.ms", 60_000, _MS, "ms"),
        "How often the broker checkpoints up to where logs are on the disk, and where they begin.",
    )
    high_watermark_checkpoint_ms: int = setting(
        *("replica.high.watermark.checkpoint.interval.ms", 5000, _MS, "ms"),
        "How often the broker checkpoints the high watermarks.",
    )
    producer_id_expiration_ms: int = setting(
        *("producer.id.expiration.ms", 86_400_000, _MS, "ms"),
        "How long after its last write a log forgets a producer.",
    )


@frozen(kw_only=True)
class CleanerSettings:
    """The compaction of logs whose `cleanup.policy` has `compact`."""

    is_enabled: bool = setting("log.cleaner.enable", True, BOOLEAN, "true/false", "Whether logs are compacted at all.")
    thread_count: int = setting(
        *("log.cleaner.threads", 1, integer(1, 1), "threads"), "Only 1: one log is compacted at a time, step by step."
    )
    backoff_ms: int = setting(
        "log.cleaner.backoff.ms",
        15_000,
        _MS,
        "ms",
        "How often the broker looks for a log to compact while there is none.",
    )
    map_bytes: int = setting(
        *("log.cleaner.dedupe.buffer.size", 128 << 20, BYTES, "bytes"),
        "The memory for the newest offset of each key, 200 bytes per key. Keys that do not fit wait for the next "
        "round.",
    )
    map_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor", 0.9, fraction, "part", "How much of that memory is used."
    )
    piece_bytes: int = setting(
        *("log.cleaner.io.buffer.size", 512 << 10, integer(1024, INT_MAX), "bytes"),
        "How much of a log compaction reads at a time; a larger batch is read whole.",
    )
    bytes_a_second_max: int = setting(
        *("log.cleaner.io.max.bytes.per.second", LONG_MAX, integer(1, LONG_MAX), "bytes"),
        "How much compaction reads and writes per second, at most.",
    )


def _names_of(text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(each.strip().lower() for each in text.split(",") if each.strip()))
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is none of {', '.join(known)}")
    if not names:
        raise ValueError(f"it names none of {', '.join(known)}")
    return names


def _protocols(text: str) -> tuple[str, ...]:
    names = _names_of(text, ("classic", "consumer"))
    if "classic" not in names:
        raise ValueError("classic cannot be left out")
    return names


def _assignors(text: str) -> tuple[str, ...]:
    return _names_of(text, ("uniform", "range"))


def _migration_policy(text: str) -> str:
    found = _names_of(text, ("disabled", "upgrade", "downgrade", "bidirectional"))
    if len(found) != 1:
        raise ValueError("it is one of disabled, upgrade, downgrade, bidirectional")
    return found[0]


@frozen(kw_only=True)
class GroupSettings:
    """Consumer groups, and the topic that keeps their offsets."""

    session_timeout_min_ms: int = setting(
        "group.min.session.timeout.ms", 6000, _MS, "ms", "The shortest session timeout that a member may ask for."
    )
    session_timeout_max_ms: int = setting(
        "group.max.session.timeout.ms", 1_800_000, _MS, "ms", "The longest session timeout that a member may ask for."
    )
    initial_delay_ms: int = setting(
        *("group.initial.rebalance.delay.ms", 3000, integer(0, LONG_MAX), "ms"),
        "How long an empty group waits for more members before its first generation.",
    )
    members_max: int = setting("group.max.size", INT_MAX, COUNT, "members", "How many members a group may have.")
    protocols: tuple[str, ...] = setting(
        *("group.coordinator.rebalance.protocols", ("classic", "consumer"), _protocols, "names"),
        "The protocols of groups: consumer is KIP-848's, whose partitions the coordinator assigns.",
        shown="classic,consumer",
    )
    consumer_session_timeout_ms: int = setting(
        *("group.consumer.session.timeout.ms", 45_000, _MS, "ms"),
        "How long a member of a group of KIP-848 may be silent.",
    )
    consumer_heartbeat_ms: int = setting(
        *("group.consumer.heartbeat.interval.ms", 5000, integer(1, INT_MAX), "ms"),
        "How often members of groups of KIP-848 are told to send heartbeats.",
    )
    consumer_members_max: int = setting(
        "group.consumer.max.size", INT_MAX, COUNT, "members", "How many members a group of KIP-848 may have."
    )
    consumer_assignors: tuple[str, ...] = setting(
        *("group.consumer.assignors", ("uniform", "range"), _assignors, "names"),
        "The assignors that members of groups of KIP-848 may ask for; a member that asks for none gets the first one.",
        shown="uniform,range",
    )
    migration_policy: str = setting(
        *("group.consumer.migration.policy", "bidirectional", _migration_policy, "name"),
        "Which groups are converted while they have members: upgrade, classic ones when a member of KIP-848's protocol "
        "joins; downgrade, those of KIP-848 when the last such member leaves; bidirectional; disabled.",
    )
    metadata_bytes_max: int = setting(
        "offset.metadata.max.bytes", 4096, BYTES, "bytes", "The longest metadata of a committed offset."
    )
    offsets_partition_count: int = setting(
        "offsets.topic.num.partitions", 50, integer(1, 10_000), "partitions", "Partitions of __consumer_offsets."
    )
    offsets_replication_factor: int = setting(
        *("offsets.topic.replication.factor", 3, integer(1, 32_767), "replicas"),
        "Replicas of its partitions; fewer where there are fewer brokers.",
    )
    offsets_segment_bytes: int = setting(
        "offsets.topic.segment.bytes", 100 << 20, integer(1024, INT_MAX), "bytes", "The size of its segments."
    )
    offsets_retention_minutes: int = setting(
        *("offsets.retention.minutes", 10_080, integer(1, INT_MAX), "minutes"),
        "How long the offsets of a group are kept after the group has become empty.",
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", 5000, _MS, "ms", "How long a commit waits for its replicas."
    )


@frozen(kw_only=True)
class TransactionSettings:
    """Transactions, and the topic that keeps what became of them."""

    timeout_max_ms: int = setting(
        "transaction.max.timeout.ms", 900_000, _MS, "ms", "The longest timeout that a producer may ask for."
    )
    id_expiration_ms: int = setting(
        *("transactional.id.expiration.ms", 604_800_000, _MS, "ms"),
        "How long after its last transaction a transactional id expires.",
    )
    abort_check_ms: int = setting(
        *("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000, _MS, "ms"),
        "How often the coordinator looks for transactions that are open for longer than their timeout.",
    )
    expiry_check_ms: int = setting(
        *("transaction.remove.expired.transaction.cleanup.interval.ms", 3_600_000, _MS, "ms"),
        "How often the coordinator looks for expired transactional ids.",
    )
    partition_count: int = setting(
        *("transaction.state.log.num.partitions", 50, integer(1, 10_000), "partitions"),
        "Partitions of __transaction_state.",
    )
    replication_factor: int = setting(
        *("transaction.state.log.replication.factor", 3, integer(1, 32_767), "replicas"),
        "Replicas of its partitions; fewer where there are fewer brokers.",
    )
    in_sync_min: int = setting(
        *("transaction.state.log.min.isr", 2, integer(1, 32_767), "replicas"),
        "How many of these replicas must have a change; fewer if there are fewer replicas.",
    )
    verifies: bool = setting(
        *("transaction.partition.verification.enable", True, BOOLEAN, "true/false"),
        "Whether a leader asks the coordinator before it appends the first batch of a transaction.",
    )
    segment_bytes: int = setting(
        "transaction.state.log.segment.bytes", 100 << 20, integer(1024, INT_MAX), "bytes", "The size of its segments."
    )
