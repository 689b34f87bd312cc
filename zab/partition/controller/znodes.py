"""The znodes of a cluster: their paths, and their JSON as Kafka's brokers with ZooKeeper write it.

    /cluster/id                                 {"version":"1","id":"<22 characters of base64url>"}
    /controller                      ephemeral  {"version":2,"brokerid":1,"timestamp":"<ms>","kraftControllerEpoch":-1}
    /controller_epoch                           the number, as text; every write of a controller checks its version
    /brokers/ids/<id>                ephemeral  who the broker is (`Broker`); its broker epoch is the czxid
    /brokers/seqid                              empty; its version is the number of ids that were given out
    /brokers/epochs/<id>                        {"version":1,"broker_epoch":7}: zab only, see `brokers`
    /brokers/topics/<t>                         the topic's id and the replicas of its partitions (`TopicZnode`)
    /brokers/topics/<t>/partitions/<p>/state    who leads, who is in sync (`PartitionState`); the version is the
                                                partition epoch
    /config/<kind>/<name>                       {"version":1,"config":{"key":"value"}}
    /config/users/<user>/clients/<id>           the same
    /config/changes/config_change_<n>           {"version":2,"entity_path":"topics/<t>"}
    /admin/delete_topics/<t>                    empty: somebody wants the topic deleted
    /admin/reassign_partitions                  {"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…]}]}
    /admin/preferred_replica_election           {"version":1,"partitions":[{"topic":…,"partition":…}]}
    /isr_change_notification/isr_change_<n>     {"version":1,"partitions":[{"topic":…,"partition":…}]}
    /log_dir_event_notification/log_dir_event_<n>  {"version":1,"broker":1,"event":1}
    /latest_producer_id_block                   {"version":1,"broker":1,"block_start":"0","block_end":"999"}
    /feature, /consumers                        for tools that look whether they exist

What is malformed raises MalformedError with path and reason.

Not here: how JSON is read (`znode_json`); who writes what, and when.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from attrs import evolve, field, frozen

from zab.partition.controller.znode_json import (
    LONG_MAX,
    MalformedError,
    Reader,
    ids_in,
    list_in,
    number_in,
    written,
)

__all__ = [
    "BROKERS",
    "CLUSTER_ID",
    "CONFIG_CHANGES",
    "CONTROLLER",
    "CONTROLLER_EPOCH",
    "DELETE_TOPICS",
    "ISR_CHANGES",
    "LOG_DIR_EVENTS",
    "NO_LEADER",
    "PARENTS",
    "PREFERRED_ELECTION",
    "PRODUCER_IDS",
    "REASSIGNMENT",
    "SEQUENCE",
    "TOPICS",
    "Assignment",
    "Broker",
    "MalformedError",
    "PartitionState",
    "ProducerIdBlock",
    "TopicPartition",
    "TopicZnode",
]

BROKERS: Final = "/brokers/ids"
SEQUENCE: Final = "/brokers/seqid"
EPOCHS: Final = "/brokers/epochs"
TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGNMENT: Final = "/admin/reassign_partitions"
PREFERRED_ELECTION: Final = "/admin/preferred_replica_election"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
ISR_CHANGES: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
PRODUCER_IDS: Final = "/latest_producer_id_block"

PARENTS: Final = (
    *("/cluster", "/brokers", BROKERS, SEQUENCE, EPOCHS, TOPICS, "/admin", DELETE_TOPICS, ISR_CHANGES, LOG_DIR_EVENTS),
    *("/config", CONFIG_CHANGES, "/config/topics", "/config/brokers", "/config/users", "/config/clients"),
    *("/config/ips", "/consumers", PRODUCER_IDS),
)
"""Persistent znodes that a cluster has, parents before children."""

NO_LEADER: Final = -1
DEFAULT_NAME: Final = "<default>"


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


# ---------------------------------------------------------------------------------------------------------------- paths


def broker_path(broker_id: int) -> str:
    return f"{BROKERS}/{broker_id}"


def broker_epoch_path(broker_id: int) -> str:
    return f"{EPOCHS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(partition: TopicPartition) -> str:
    return f"{TOPICS}/{partition.topic}/partitions/{partition.partition}"


def state_path(partition: TopicPartition) -> str:
    return f"{partition_path(partition)}/state"


def delete_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def quoted(name: str) -> str:
    """The name of a user or client id as it is in a path."""
    return quote(name, safe="-._").replace("~", "%7E")


def config_path(kind: str, name: str) -> str:
    """kind: topics, brokers, users, clients, ips, or `users/<quoted user>/clients`. Names are quoted, except for
    `<default>`."""
    return f"/config/{kind}/{name if name == DEFAULT_NAME else quoted(name)}"


# -------------------------------------------------------------------------------------------------- brokers, controller


@frozen
class Broker:
    """A registered broker.

    endpoints: `NAME://host:port`. epoch: the czxid of the znode, not in its JSON. previous_epoch: the broker epoch at
    its last clean stop, -1 if that was not clean, None if a broker does not say (zab only).
    """

    id: int
    endpoints: tuple[str, ...]
    security_protocols: Mapping[str, str] = field(factory=dict)
    rack: str | None = None
    epoch: int = -1
    previous_epoch: int | None = None

    def encode(self, now_ms: int) -> bytes:
        host, port = _host_and_port(self.endpoints)
        value: dict[str, object] = {
            "version": 5,
            "host": host,
            "port": port,
            "endpoints": list(self.endpoints),
            "listener_security_protocol_map": dict(self.security_protocols),
            "jmx_port": -1,
            "timestamp": str(now_ms),
            "features": {},
        }
        if self.rack is not None:
            value["rack"] = self.rack
        if self.previous_epoch is not None:
            value["previous_broker_epoch"] = self.previous_epoch
        return written(value)

    @classmethod
    def decode(cls, broker_id: int, data: bytes, czxid: int) -> Broker:
        reader = Reader.of(broker_path(broker_id), data)
        endpoints = reader.get("endpoints", list, [])
        if not endpoints:
            # Versions 1 and 2 have no endpoints.
            endpoints = [f"PLAINTEXT://{reader.get('host', str)}:{reader.number('port', 0)}"]
        if not all(isinstance(each, str) and "://" in each for each in endpoints):
            raise MalformedError(reader.path, f"'endpoints' is {endpoints!r}")
        protocols = reader.get("listener_security_protocol_map", dict, {})
        rack, previous = reader.value.get("rack"), reader.value.get("previous_broker_epoch")
        return cls(
            id=broker_id,
            endpoints=tuple(endpoints),
            security_protocols={str(name): str(protocol) for name, protocol in protocols.items()},
            rack=None if rack is None else reader.get("rack", str),
            epoch=czxid,
            previous_epoch=None if previous is None else reader.number("previous_broker_epoch", -1, high=LONG_MAX),
        )


def _host_and_port(endpoints: tuple[str, ...]) -> tuple[str | None, int]:
    """What clients before listeners read: the first plaintext endpoint."""
    for each in endpoints:
        name, _, address = each.partition("://")
        if name == "PLAINTEXT":
            host, _, port = address.rpartition(":")
            return host.strip("[]"), int(port)
    return None, -1


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return written({"version": 2, "brokerid": broker_id, "timestamp": str(now_ms), "kraftControllerEpoch": -1})


def decode_controller(data: bytes) -> int:
    """The controller's broker id."""
    return Reader.of(CONTROLLER, data).number("brokerid", 0)


def encode_cluster_id(cluster_id: str) -> bytes:
    return written({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    text: str = Reader.of(CLUSTER_ID, data).get("id", str)
    return text


def encode_broker_epoch(epoch: int) -> bytes:
    return written({"version": 1, "broker_epoch": epoch})


def decode_broker_epoch(broker_id: int, data: bytes) -> int:
    return Reader.of(broker_epoch_path(broker_id), data).number("broker_epoch", 0, high=LONG_MAX)


def uuid_bytes(text: str) -> bytes:
    """Raises ValueError."""
    value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a uuid in base64url")
    return value


# ------------------------------------------------------------------------------------------------ topics and partitions


@frozen
class Assignment:
    """The replicas of a partition; the first is the preferred leader.

    During a reassignment they are the target's and the original's together, and adding and removing say which of them
    are only in one of the two.
    """

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.adding)

    def reassigned_to(self, target: tuple[int, ...]) -> Assignment:
        """The assignment that leads from this one, reassigned or not, to these replicas. It is complete if the original
        has the same replicas."""
        removing = tuple(each for each in self.original if each not in target)
        adding = tuple(each for each in target if each not in self.original)
        return Assignment(target + removing, adding, removing)


@frozen
class TopicZnode:
    """topic_id: None if an old writer gave it none."""

    topic_id: str | None
    partitions: Mapping[int, Assignment]

    def encode(self) -> bytes:
        numbers = sorted(self.partitions)
        assignments = [(str(each), self.partitions[each]) for each in numbers]
        return written(
            {
                "version": 3,
                "topic_id": self.topic_id,
                "partitions": {number: each.replicas for number, each in assignments},
                "adding_replicas": {number: each.adding for number, each in assignments if each.adding},
                "removing_replicas": {number: each.removing for number, each in assignments if each.removing},
            }
        )

    @classmethod
    def decode(cls, topic: str, data: bytes) -> TopicZnode:
        reader = Reader.of(topic_path(topic), data)
        adding, removing = (reader.get(key, dict, {}) for key in ("adding_replicas", "removing_replicas"))
        partitions = {}
        for number, replicas in reader.get("partitions", dict).items():
            if not (number.isascii() and number.isdecimal()) or not isinstance(replicas, list) or not replicas:
                raise MalformedError(reader.path, f"partition {number!r} has replicas {replicas!r}")
            all_ids = ids_in(reader.path, number, replicas)
            added, removed = (
                ids_in(reader.path, number, list_in(reader.path, each.get(number, []))) for each in (adding, removing)
            )
            if not {*added, *removed} <= set(all_ids) or {*added} & {*removed} or {*removed} == set(all_ids):
                raise MalformedError(reader.path, f"partition {number}: adding or removing what is no replica")
            partitions[int(number)] = Assignment(all_ids, added, removed)
        if not partitions or sorted(partitions) != list(range(len(partitions))):
            raise MalformedError(reader.path, f"partitions {sorted(partitions)} have gaps")
        return cls(_topic_id(reader), partitions)


def _topic_id(reader: Reader) -> str | None:
    if reader.value.get("topic_id") is None:
        return None
    text: str = reader.get("topic_id", str)
    try:
        uuid_bytes(text)
    except ValueError as error:
        raise MalformedError(reader.path, f"'topic_id': {error}") from error
    return text


@frozen
class PartitionState:
    """The leader of a partition, and which replicas have everything.

    isr: in sync. elr: eligible leaders that are not in sync but had everything when they left, while the ISR is smaller
    than min.insync.replicas (KIP-966). last_known_elr: those that left it by an unclean stop. recovering: the leader
    was elected uncleanly and has not dealt with it yet. partition_epoch: the version of the znode, not in its JSON.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = 0
    recovering: bool = False
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    partition_epoch: int = 0

    @property
    def quorum(self) -> frozenset[int]:
        """All replicas that have everything."""
        return frozenset(self.isr) | frozenset(self.elr)

    def at(self, partition_epoch: int) -> PartitionState:
        return evolve(self, partition_epoch=partition_epoch)

    def encode(self) -> bytes:
        value: dict[str, object] = {
            "version": 1,
            "leader": self.leader,
            "leader_epoch": self.leader_epoch,
            "controller_epoch": self.controller_epoch,
            "isr": self.isr,
        }
        if self.recovering:
            value["leader_recovery_state"] = 1
        if self.elr:
            value["elr"] = self.elr
        if self.last_known_elr:
            value["last_known_elr"] = self.last_known_elr
        return written(value)

    @classmethod
    def decode(cls, partition: TopicPartition, data: bytes, version: int) -> PartitionState:
        reader = Reader.of(state_path(partition), data)
        leader, isr, elr = reader.number("leader", NO_LEADER), reader.ids("isr"), reader.ids("elr", [])
        if set(isr) & set(elr):
            raise MalformedError(reader.path, f"in 'isr' and in 'elr': {sorted(set(isr) & set(elr))}")
        return cls(
            leader=leader,
            leader_epoch=reader.number("leader_epoch", 0),
            isr=isr,
            controller_epoch=reader.number("controller_epoch", 0),
            recovering=reader.number("leader_recovery_state", 0, 0) == 1,
            elr=elr,
            last_known_elr=reader.ids("last_known_elr", []),
            partition_epoch=version,
        )


# ----------------------------------------------------------------------------------------- settings, requests by znodes


def encode_config(config: Mapping[str, str]) -> bytes:
    return written({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    if not data:
        # Kafka creates what is above a client id of a user so.
        return {}
    config = Reader.of(path, data).get("config", dict)
    if not all(isinstance(value, str) for value in config.values()):
        raise MalformedError(path, f"'config' is {config!r}")
    return dict(config)


def encode_config_change(entity_path: str) -> bytes:
    """entity_path: `topics/<t>`, `brokers/<id>`."""
    return written({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes) -> str:
    reader = Reader.of(path, data)
    if "entity_path" in reader.value:
        text: str = reader.get("entity_path", str)
        return text
    return f"{reader.get('entity_type', str)}/{reader.get('entity_name', str)}"


def encode_reassignment(targets: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    partitions = [
        {"topic": each.topic, "partition": each.partition, "replicas": replicas} for each, replicas in targets.items()
    ]
    return written({"version": 1, "partitions": partitions})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    return {_partition(item): item.ids("replicas") for item in Reader.of(REASSIGNMENT, data).objects("partitions")}


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    return written({"version": 1, "partitions": [each._asdict() for each in partitions]})


def decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    """The partitions of an ISR notification, or of a request for preferred leaders."""
    return [_partition(item) for item in Reader.of(path, data).objects("partitions")]


def _partition(item: Reader) -> TopicPartition:
    return TopicPartition(item.get("topic", str), item.number("partition", 0))


def decode_log_dir_event(path: str, data: bytes) -> int:
    """The broker that lost a log directory."""
    return Reader.of(path, data).number("broker", 0)


@frozen
class ProducerIdBlock:
    """Producer ids first … last that one broker gives out."""

    broker: int
    first: int
    last: int

    def encode(self) -> bytes:
        value = {"version": 1, "broker": self.broker, "block_start": str(self.first), "block_end": str(self.last)}
        return written(value)

    @classmethod
    def decode(cls, data: bytes) -> ProducerIdBlock:
        reader = Reader.of(PRODUCER_IDS, data)
        ends = (str(reader.value.get(key)).encode() for key in ("block_start", "block_end"))
        first, last = (number_in(PRODUCER_IDS, each) for each in ends)
        if not 0 <= first <= last:
            raise MalformedError(PRODUCER_IDS, f"from {first} to {last}")
        return cls(reader.number("broker", 0), first, last)
