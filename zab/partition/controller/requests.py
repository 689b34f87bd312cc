"""What callers ask of the controller, and what they are answered. A `token` is the caller's name for its question.

    request                     who asks                        answer
    CreateTopics …              clients, through any broker     the same fields as Kafka's API of that name has
    AlterPartition              the leader of a partition       AlterPartition
    ControlledShutdown          a broker that is to stop        the partitions that it still leads
    AllocateProducerIds         a broker                        a block of ids
    StopReplicaAnswered         a broker, to a StopReplica      none

Every request gets one `Answer`; a broker that is not the controller answers NOT_CONTROLLER. A request with a timeout is
answered REQUEST_TIMED_OUT when it is over, and is done all the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from attrs import frozen

from zab.coordination.driver import Connected, Expired, Results, Suspended, WatchFired
from zab.kafka.errors import ErrorCode
from zab.partition.access.acl_filter import AclFilter
from zab.partition.access.acls import Acl, Resource
from zab.partition.controller.znodes import Assignment, PartitionState, TopicPartition

Token: TypeAlias = Hashable
DEFAULT_COUNT = -1
"""In place of a count of partitions or replicas: the broker's default."""


@frozen
class NewTopic:
    """assignments: the replicas of each partition by its number; if there are any, the counts are DEFAULT_COUNT."""

    name: str
    partition_count: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, tuple[int, ...]] | None = None
    config: Mapping[str, str] | None = None


@frozen
class CreateTopics:
    token: Token
    topics: tuple[NewTopic, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


@frozen
class NewPartitions:
    """count: in all. assignments: the replicas of each new partition."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@frozen
class CreatePartitions:
    token: Token
    topics: tuple[NewPartitions, ...]
    timeout_ms: int = 60_000
    validate_only: bool = False


@frozen
class DeleteTopics:
    """topics: names, or ids where `by_id`."""

    token: Token
    topics: tuple[str, ...]
    timeout_ms: int = 60_000
    by_id: bool = False


@frozen
class PartitionChange:
    """What a leader proposes: the new ISR with each member's broker epoch (-1: not known)."""

    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    recovering: bool = False


@frozen
class AlterPartition:
    """topics: by topic id."""

    token: Token
    broker_id: int
    broker_epoch: int
    topics: Mapping[str, tuple[PartitionChange, ...]]


@frozen
class AlterPartitionReassignments:
    """targets: None cancels."""

    token: Token
    targets: Mapping[TopicPartition, tuple[int, ...] | None]
    timeout_ms: int = 60_000


@frozen
class ListPartitionReassignments:
    """partitions: None is all."""

    token: Token
    partitions: tuple[TopicPartition, ...] | None = None


@frozen
class ElectLeaders:
    """partitions: None is all. unclean: of those without leader, a replica that is not in sync, else the preferred."""

    token: Token
    partitions: tuple[TopicPartition, ...] | None
    unclean: bool = False
    timeout_ms: int = 60_000


@frozen
class ControlledShutdown:
    token: Token
    broker_id: int
    broker_epoch: int


@frozen
class AllocateProducerIds:
    token: Token
    broker_id: int
    broker_epoch: int


@frozen
class AlterConfig:
    """Changes of the settings of one topic, broker, user or client id: a value sets, None takes away.

    kind: topics, brokers, users, clients, or `users/<quoted user>/clients`. name: `<default>` is all brokers, and all
    users or client ids that have no such setting.
    """

    token: Token
    kind: str
    name: str
    changes: Mapping[str, str | None]
    validate_only: bool = False
    replaces_all: bool = False


@frozen
class CreateAcls:
    """Rows for access lists."""

    token: Token
    acls: tuple[tuple[Resource, Acl], ...]


@frozen
class DeleteAcls:
    """Take out of the access lists what these filters mean."""

    token: Token
    filters: tuple[AclFilter, ...]


@frozen
class StopReplicaAnswered:
    """What a broker did with a StopReplica that deletes. NONE: it has no data of the partition."""

    broker_id: int
    broker_epoch: int
    controller_epoch: int
    errors: Mapping[TopicPartition, ErrorCode]


Request: TypeAlias = (
    CreateTopics
    | CreatePartitions
    | DeleteTopics
    | AlterPartition
    | AlterPartitionReassignments
    | ListPartitionReassignments
    | ElectLeaders
    | ControlledShutdown
    | AllocateProducerIds
    | AlterConfig
    | CreateAcls
    | DeleteAcls
)
Input: TypeAlias = Connected | Suspended | Expired | WatchFired | Results | StopReplicaAnswered | Request

# -------------------------------------------------------------------------------------------------------------- answers


@frozen
class Outcome:
    """What became of one element of a request."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@frozen
class TopicOutcome:
    """topic_id: empty if there is none."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: str = ""
    partition_count: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT


@frozen
class PartitionOutcome:
    """state, min_isr: what holds now; None if the error says all."""

    error: ErrorCode
    state: PartitionState | None = None
    min_isr: int | None = None


@frozen
class RemovedAcl:
    """A row that was taken out of a list. filter: the place of the first filter that means it."""

    filter: int
    resource: Resource
    acl: Acl


@frozen
class Answer:
    """error: for the request as a whole; then there is nothing else.

    topics: by name, or by id as asked. partitions: by partition. states: for AlterPartition, by topic id and number.
    remaining: for ControlledShutdown. producer_ids: first, and how many. reassignments: for the list of them.
    outcomes: of each row for access lists. removed: rows of access lists.
    """

    token: Token
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topics: Mapping[str, TopicOutcome] | None = None
    partitions: Mapping[TopicPartition, Outcome] | None = None
    states: Mapping[tuple[str, int], PartitionOutcome] | None = None
    remaining: tuple[TopicPartition, ...] | None = None
    producer_ids: tuple[int, int] | None = None
    reassignments: Mapping[TopicPartition, Assignment] | None = None
    outcomes: tuple[Outcome, ...] | None = None
    removed: tuple[RemovedAcl, ...] | None = None
