"""What a step of the controller leads to, in order.

    Submit                         operations for the coordination service (`coordination`)
    Answer                         to a caller (`requests`)
    ToBroker                       a message on the one ordered channel to a broker, repeated until it arrives or the
                                   broker's epoch has ended; a StopReplica that deletes until it is answered
    Registered                     this broker is alive for the others; its broker epoch
    Became, Resigned, Follows      who is the controller
    ConfigChanged                  settings of a topic or broker are different now
    AccessListsKnown               all access lists are read
    Reported                       for the journal: something is wrong that does not stop the controller
    Failed                         this broker must not run

A broker checks each message before it acts on it:

    controller epoch lower than one that it has seen    STALE_CONTROLLER_EPOCH
    broker epoch not its own                            STALE_BROKER_EPOCH; while it does not know its own, because its
                                                        registration is not answered, it takes no message: the sender
                                                        repeats
    leader epoch of a partition lower than its own      that partition is ignored
    leader epoch equal, partition epoch not higher      ignored; the leader takes an equal one

PartitionStates is what Kafka's LeaderAndIsr and UpdateMetadata are together: every broker gets all, keeps an image and
reacts to differences. The first message to a broker, and the first of a controller, is full: what is not in it is not
in the cluster. The data of a replica is deleted only by a StopReplica, never because it is not in a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import field, frozen

from zab.coordination.driver import Submit
from zab.partition.controller.requests import Answer
from zab.partition.controller.znodes import Assignment, Broker, PartitionState, TopicPartition

LEADER_DURING_DELETION: Final = -2
"""In place of a leader: the topic is being deleted, so clients get UNKNOWN_TOPIC_OR_PARTITION."""


@frozen
class PartitionUpdate:
    """One partition as it is now.

    min_isr: its high watermark does not advance while the ISR is smaller; the leader takes no other number than this
    (`config_changes`). is_new: its log is to be created where there is none.
    """

    partition: int
    state: PartitionState
    assignment: Assignment
    min_isr: int
    is_new: bool = False


@frozen
class TopicUpdate:
    """config: the topic's own settings, all of them."""

    topic: str
    topic_id: str
    partitions: tuple[PartitionUpdate, ...]
    config: Mapping[str, str] = field(factory=dict)


@frozen
class PartitionStates:
    """sequence: 1 for the first message of this controller to this broker epoch, which is full; then one more each
    time.

    removed: ids of topics that are gone from the metadata. live_brokers: all of them, in every message.
    """

    sequence: int
    is_full: bool
    live_brokers: tuple[Broker, ...]
    topics: tuple[TopicUpdate, ...]
    removed: tuple[str, ...] = ()


@frozen
class StoppedReplica:
    partition: TopicPartition
    topic_id: str
    leader_epoch: int
    delete: bool


@frozen
class StopReplica:
    """Stop fetching these partitions; delete: and delete their data, then answer with StopReplicaAnswered."""

    replicas: tuple[StoppedReplica, ...]


@frozen
class ToBroker:
    broker_id: int
    broker_epoch: int
    controller_id: int
    controller_epoch: int
    message: PartitionStates | StopReplica


@frozen
class Registered:
    broker_id: int
    broker_epoch: int
    cluster_id: str


@frozen
class Became:
    """This broker is the controller."""

    epoch: int


@frozen
class Resigned:
    reason: str


@frozen
class Follows:
    """controller_id: None if nobody is."""

    controller_id: int | None


@frozen
class ConfigChanged:
    """entity_path: `topics/<t>`, `brokers/<id>` …. config: all its settings; empty if it has none."""

    entity_path: str
    config: Mapping[str, str]


@frozen
class AccessListsKnown:
    """All access lists are read, so many. Later changes have no effect of their own: the lists are looked at."""

    count: int


@frozen
class Reported:
    text: str


@frozen
class Failed:
    reason: str


Effect: TypeAlias = (
    Submit
    | Answer
    | ToBroker
    | Registered
    | Became
    | Resigned
    | Follows
    | ConfigChanged
    | AccessListsKnown
    | Reported
    | Failed
)
