"""What a group coordinator answers, without regard to versions of messages: the broker makes responses from these.

Error codes are Kafka's. Fields that an error leaves without meaning have the value that stands for absence.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import Partitions
from zab.partition.consumer_groups.state import ConsumerMember
from zab.partition.groups.requests import NO_GENERATION, NO_LEADER_EPOCH, NO_MEMBER

NO_OFFSET: Final = -1
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
"""The types of groups, as ListGroups names them: of JoinGroup's protocol, and of KIP-848's."""


@frozen(kw_only=True)
class JoinedMember:
    """What the leader is told about a member: its metadata for the chosen protocol."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@frozen(kw_only=True)
class JoinResult:
    """`members` is filled for the leader only. `leader` may be an id that nobody has any longer: see `joining.py`."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = NO_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@frozen(kw_only=True)
class SyncResult:
    """The assignment of one member."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@frozen(kw_only=True)
class HeartbeatResult:
    """Whether the member may go on (0), or has to join again (27)."""

    error: ErrorCode = ErrorCode.NONE


@frozen(kw_only=True)
class ConsumerHeartbeatResult:
    """What a member of KIP-848 is told; `assigned` None: as before. `message` is for humans."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    member_id: str = NO_MEMBER
    epoch: int = 0
    interval_ms: int = 0
    assigned: Partitions | None = None


@frozen(kw_only=True)
class LeftMember:
    """What became of one member that was to leave."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


@frozen(kw_only=True)
class LeaveResult:
    """Versions before 3 name one member and have its error at the top: `only_error`."""

    error: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()

    @property
    def only_error(self) -> ErrorCode:
        """The error of a request that names one member."""
        if self.error is not ErrorCode.NONE or not self.members:
            return self.error
        return self.members[0].error


@frozen
class PartitionError:
    """The outcome for one partition."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE


@frozen(kw_only=True)
class CommitResult:
    """For OffsetCommit and TxnOffsetCommit, in the order of the request."""

    partitions: tuple[PartitionError, ...]


@frozen(kw_only=True)
class FetchedOffset:
    """A committed offset; one that is missing has offset -1 and no error."""

    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@frozen(kw_only=True)
class FetchResult:
    """The error of the whole group is also that of each partition that was asked for: version 1 has only those."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    offsets: tuple[FetchedOffset, ...] = ()


@frozen(kw_only=True)
class DescribedMember:
    """`metadata` is that of the chosen protocol; it and the assignment are empty unless the group is Stable."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@frozen(kw_only=True)
class DescribedGroup:
    """A group that does not exist is Dead, without an error."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@frozen(kw_only=True)
class DescribeResult:
    """In the order of the request."""

    groups: tuple[DescribedGroup, ...]


@frozen(kw_only=True)
class NamedPartitions:
    """Partitions of a topic that exists."""

    topic_id: Uuid
    name: str
    partitions: tuple[int, ...]


@frozen(kw_only=True)
class DescribedConsumer:
    """A member of KIP-848, what it owns, and what it is to own."""

    member: ConsumerMember
    assigned: tuple[NamedPartitions, ...]
    target: tuple[NamedPartitions, ...]


@frozen(kw_only=True)
class DescribedConsumerGroup:
    """A group of KIP-848; with an error there is nothing else."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


@frozen(kw_only=True)
class DescribeConsumersResult:
    """In the order of the request."""

    groups: tuple[DescribedConsumerGroup, ...]


@frozen(kw_only=True)
class ListedGroup:
    """One line of a list of groups."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC


@frozen(kw_only=True)
class ListResult:
    """All groups of the partitions that are loaded; the error says that others are still loading."""

    error: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@frozen(kw_only=True)
class DeleteResult:
    """(group id, error), each group once."""

    groups: tuple[tuple[str, ErrorCode], ...]


@frozen(kw_only=True)
class OffsetDeleteResult:
    """With an error of the whole group, there are no partitions."""

    error: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionError, ...] = ()


Result: TypeAlias = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | ConsumerHeartbeatResult
    | LeaveResult
    | CommitResult
    | FetchResult
    | DescribeResult
    | DescribeConsumersResult
    | ListResult
    | DeleteResult
    | OffsetDeleteResult
)
