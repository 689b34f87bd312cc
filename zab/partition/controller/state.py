"""What the controller knows: brokers, topics, partitions, replicas, and what is to be sent at the end of an event.

Only handlers of the queue change it. What is in the znodes has been read from there or been written there; `partitions`
follows a write only after it is confirmed.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import NamedTuple

from attrs import define, evolve, field, frozen

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid, uuid_text
from zab.partition.controller.effects import Effect, Reported, StoppedReplica
from zab.partition.controller.requests import Answer, Token, TopicOutcome
from zab.partition.controller.znodes import Assignment, Broker, PartitionState, TopicPartition
from zab.partition.settings.topic_settings import InvalidSettingError, TopicSettings, twin_keys


@frozen(kw_only=True)
class ControllerSettings:
    """What a broker's settings say to its controller. requests_waiting_max: further ones get REQUEST_TIMED_OUT, with
    which all callers ask again. has_access_lists: they are followed."""

    partition_count: int = 1
    replication_factor: int = 1
    deletes_topics: bool = True
    balances_leaders: bool = True
    balance_interval_ms: int = 300_000
    imbalance_percent_max: int = 10
    requests_waiting_max: int = 1000
    has_access_lists: bool = False
    topic_defaults: TopicSettings = TopicSettings()


class PartitionPhase(enum.Enum):
    """NEW: has replicas, never had a leader. OFFLINE: has none now."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"


class ReplicaPhase(enum.Enum):
    """OFFLINE: its broker is dead or about to stop, or it leaves the partition. DELETION_INELIGIBLE: it cannot be
    deleted now, and is again offline when its broker returns."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"


class Replica(NamedTuple):
    partition: TopicPartition
    broker_id: int

    def __str__(self) -> str:
        return f"{self.partition} on {self.broker_id}"


@define
class Topic:
    """A topic as its znode says. version: of the znode. config: its own settings; the rest are the brokers'."""

    name: str
    topic_id: str
    version: int
    assignments: dict[int, Assignment]
    config: dict[str, str] = field(factory=dict)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, number) for number in sorted(self.assignments)]


@define
class Pushes:
    """What brokers are to be told at the end of the event."""

    changed: set[TopicPartition] = field(factory=set)
    new: set[TopicPartition] = field(factory=set)
    removed: list[str] = field(factory=list)
    needs_full: set[int] = field(factory=set)
    brokers_changed: bool = False
    stopped: dict[int, list[StoppedReplica]] = field(factory=dict)
    sequences: dict[int, int] = field(factory=dict)
    """The last sequence number by broker."""


@define(kw_only=True)
class ControllerState:
    """broker_id: this broker. epoch: the controller epoch, of which `epoch_version` is the version of its znode."""

    broker_id: int
    settings: ControllerSettings
    random: Random
    session_id: int = 0
    now_ms: int = 0
    wall_ms: int = 0
    effects: list[Effect] = field(factory=list)
    is_active: bool = False
    epoch: int = 0
    epoch_version: int = -1

    brokers: dict[int, Broker] = field(factory=dict)
    shutting_down: set[int] = field(factory=set)
    topics: dict[str, Topic] = field(factory=dict)
    names: dict[str, str] = field(factory=dict)
    """The name of a topic by its id."""
    _settings: dict[str, TopicSettings] = field(factory=dict, init=False)
    unreadable: set[str] = field(factory=set)
    """Topics that are left out because a znode of theirs is malformed."""
    partitions: dict[TopicPartition, PartitionState] = field(factory=dict)
    partition_phases: dict[TopicPartition, PartitionPhase] = field(factory=dict)
    replica_phases: dict[Replica, ReplicaPhase] = field(factory=dict)
    deleting: set[str] = field(factory=set)
    """Topics whose deletion has begun: their partitions have no leaders, and their states are not written."""
    to_delete: set[str] = field(factory=set)
    """Topics that wait for the end of a reassignment before their deletion begins."""
    legacy_reassigned: set[TopicPartition] = field(factory=set)
    """What the znode of legacy reassignments has."""
    broker_config: dict[str, str] = field(factory=dict)
    """The dynamic settings of all brokers, by their names for brokers."""
    pushes: Pushes = field(factory=Pushes)
    deadlines: dict[Token, int] = field(factory=dict)
    """When callers that wait are answered REQUEST_TIMED_OUT."""
    waiting: set[Token] = field(factory=set)
    elections_count: int = 0
    unclean_elections_count: int = 0
    """Elections of leaders by this controller, in all its terms; of these, those of replicas that were not in sync."""
    deletion_waits: dict[Token, set[str]] = field(factory=dict)
    """The topics that a caller waits for to be gone."""
    deletion_outcomes: dict[Token, Mapping[str, TopicOutcome]] = field(factory=dict)

    def forget(self) -> None:
        """Everything that belongs to one term of office; callers that wait are told to go elsewhere."""
        for token in sorted(self.waiting, key=repr):
            self.answer(Answer(token, ErrorCode.NOT_CONTROLLER))
        fresh = ControllerState(broker_id=self.broker_id, settings=self.settings, random=self.random)
        for name in (
            *("is_active", "epoch", "epoch_version", "brokers", "shutting_down", "topics", "names", "_settings"),
            *("unreadable", "partitions", "partition_phases", "replica_phases", "deleting", "to_delete"),
            *("legacy_reassigned", "pushes", "broker_config", "deadlines", "waiting", "deletion_waits"),
            "deletion_outcomes",
        ):
            setattr(self, name, getattr(fresh, name))

    # -------------------------------------------------------------------------------------------------------- questions

    @property
    def alive(self) -> frozenset[int]:
        """Brokers that may lead."""
        return frozenset(self.brokers) - self.shutting_down

    def assignment(self, partition: TopicPartition) -> Assignment:
        return self.topics[partition.topic].assignments[partition.partition]

    def has(self, partition: TopicPartition) -> bool:
        topic = self.topics.get(partition.topic)
        return topic is not None and partition.partition in topic.assignments

    def topic_with_id(self, topic_id: str) -> Topic | None:
        return self.topics.get(self.names.get(topic_id, ""))

    def settings_of(self, topic: str) -> TopicSettings:
        """The settings of a topic. One that is unknown or wrong has been reported, and counts as if it were not
        there."""
        if topic not in self._settings:
            self._settings[topic] = self._read_settings(topic)
        return self._settings[topic]

    def _read_settings(self, topic: str) -> TopicSettings:
        defaults = self.settings.topic_defaults
        names = {key.twin: key.name for key in twin_keys().values()}
        of_brokers = {names[key]: value for key, value in self.broker_config.items() if key in names}
        for config in (of_brokers, self.topics[topic].config if topic in self.topics else {}):
            for key, value in config.items():
                with contextlib.suppress(InvalidSettingError):
                    defaults = defaults.with_changes({key: value})
        return defaults

    def min_isr(self, partition: TopicPartition) -> int:
        """min.insync.replicas, but not more than there are replicas."""
        return min(self.settings_of(partition.topic).min_insync_replicas, len(self.assignment(partition).replicas))

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic in self.topics.values():
            yield from topic.partitions

    def replicas_of(self, partition: TopicPartition) -> list[Replica]:
        return [Replica(partition, each) for each in self.assignment(partition).replicas]

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        wanted = set(broker_ids)
        everything = (replica for each in self.all_partitions() for replica in self.replicas_of(each))
        return [replica for replica in everything if replica.broker_id in wanted]

    def is_deleting(self, partition: TopicPartition) -> bool:
        return partition.topic in self.deleting

    def phase(self, partition: TopicPartition) -> PartitionPhase:
        return self.partition_phases.get(partition, PartitionPhase.NON_EXISTENT)

    # ---------------------------------------------------------------------------------------------------------- changes

    def add_topic(self, topic: Topic) -> None:
        """One that was read."""
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name
        self._settings.pop(topic.name, None)

    def forget_settings(self) -> None:
        """Settings of topics or brokers are different now."""
        self._settings.clear()

    def report(self, text: str) -> None:
        self.effects.append(Reported(text))

    def answer(self, answer: Answer) -> None:
        """Answer a caller, unless its time was over."""
        if answer.token in self.waiting:
            self.waiting.discard(answer.token)
            self.deadlines.pop(answer.token, None)
            self.deletion_waits.pop(answer.token, None)
            self.deletion_outcomes.pop(answer.token, None)
            self.effects.append(answer)

    def put(self, partition: TopicPartition, state: PartitionState) -> None:
        """The state of a partition, as it is in its znode."""
        before = self.partitions.get(partition)
        if before is not None and state.leader_epoch > before.leader_epoch:
            self.elections_count += 1
            self.unclean_elections_count += state.recovering and not before.recovering
        self.partitions[partition] = state
        self.pushes.changed.add(partition)

    def assign(self, partition: TopicPartition, assignment: Assignment) -> None:
        self.topics[partition.topic].assignments[partition.partition] = assignment
        self.pushes.changed.add(partition)

    def forget_topic(self, name: str) -> None:
        topic = self.topics.pop(name)
        self.names.pop(topic.topic_id, None)
        self._settings.pop(name, None)
        self.deleting.discard(name)
        self.to_delete.discard(name)
        for partition in topic.partitions:
            self.partitions.pop(partition, None)
            self.partition_phases.pop(partition, None)
            self.pushes.changed.discard(partition)
            self.pushes.new.discard(partition)
            self.legacy_reassigned.discard(partition)
        for replica in [each for each in self.replica_phases if each.partition.topic == name]:
            del self.replica_phases[replica]
        self.pushes.removed.append(topic.topic_id)

    def fresh_topic_id(self) -> str:
        """A random uuid of version 4; not with a dash in front, so that tools do not take it for an option."""
        while True:
            value = bytearray(self.random.randbytes(16))
            value[6], value[8] = value[6] & 0x0F | 0x40, value[8] & 0x3F | 0x80
            text = uuid_text(Uuid(bytes(value)))
            if not text.startswith("-"):
                return text

    def stamped(self, state: PartitionState) -> PartitionState:
        return evolve(state, controller_epoch=self.epoch)


def settings_problem(defaults: TopicSettings, config: Mapping[str, str]) -> str | None:
    """Why these settings of a topic are refused; None if they are not."""
    try:
        defaults.with_changes(config)
    except InvalidSettingError as error:
        return str(error)
    return None
