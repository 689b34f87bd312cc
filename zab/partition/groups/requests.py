"""What clients ask a group coordinator, without regard to versions of messages.

The broker makes these from decoded requests. Where versions differ in what a client understands, a field says so
(`JoinGroup.requires_member_id`); fields that an old version lacks have the value that stands for absence.

Times are ms. An id that is absent: "" for a member, None for an instance.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from zab.partition.consumer_groups.heartbeat import MemberHeartbeat

NO_MEMBER: Final = ""
NO_GENERATION: Final = -1
NO_LEADER_EPOCH: Final = -1
NO_TIME: Final = -1

TopicPartition: TypeAlias = tuple[str, int]
"""A topic and the index of a partition."""


@frozen
class Protocol:
    """One way of assigning that a member supports, and what it tells the leader for it."""

    name: str
    metadata: bytes


@frozen(kw_only=True)
class JoinGroup:
    """Become a member, or come back into the next generation. `protocols` is in the order of preference."""

    group_id: str
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1
    """-1, as version 0 has none: the session timeout."""
    protocol_type: str
    protocols: tuple[Protocol, ...]
    requires_member_id: bool = True
    """Version 4 and later: a new dynamic member is first told its id (79)."""
    may_skip_assignment: bool = True
    """Version 9 and later: a leader understands `skip_assignment`."""


@frozen(kw_only=True)
class SyncGroup:
    """Ask for the assignment of this generation; the leader brings it for all members."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment)."""


@frozen(kw_only=True)
class Heartbeat:
    """Say that a member is alive, and learn whether it has to join again."""

    group_id: str
    generation: int
    member_id: str
    group_instance_id: str | None = None


@frozen(kw_only=True)
class ConsumerHeartbeat:
    """Join, stay in or leave a group of KIP-848."""

    group_id: str
    heartbeat: MemberHeartbeat
    requires_member_id: bool = True
    """Version 1 and later: the member chooses its id."""


@frozen
class LeavingMember:
    """A member by its id, or a static one by its instance id alone."""

    member_id: str
    group_instance_id: str | None = None


@frozen(kw_only=True)
class LeaveGroup:
    """Remove members at once, instead of at the end of their sessions."""

    group_id: str
    members: tuple[LeavingMember, ...]


@frozen(kw_only=True)
class OffsetToCommit:
    """Up to where a partition was consumed: `offset` is the next one to read."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


@frozen(kw_only=True)
class OffsetCommit:
    """Commit offsets. Simple consumers have no generation and no member id."""

    group_id: str
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]
    knows_member_epochs: bool = True
    """Version 9 and later: members of groups of KIP-848 may send it."""


@frozen(kw_only=True)
class TxnOffsetCommit:
    """Commit offsets with a producer's transaction: they count once its marker says so. Versions before 3 carry no
    generation and no member id."""

    group_id: str
    transactional_id: str = ""
    producer_id: int
    producer_epoch: int
    generation: int = NO_GENERATION
    member_id: str = NO_MEMBER
    group_instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]


@frozen(kw_only=True)
class OffsetFetch:
    """Read committed offsets of one group."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None
    """None: all that the group has."""
    require_stable: bool = False
    """Refuse (88) what an open transaction may still change."""
    member_id: str | None = None
    member_epoch: int = NO_GENERATION
    """A member of a group of KIP-848 says who it is; None and -1: anybody asks."""


@frozen(kw_only=True)
class DescribeGroups:
    """Describe these groups."""

    group_ids: tuple[str, ...]


@frozen(kw_only=True)
class DescribeConsumerGroups:
    """Describe these groups of KIP-848."""

    group_ids: tuple[str, ...]


@frozen(kw_only=True)
class ListGroups:
    """List the groups that this broker coordinates. An empty filter lets everything through."""

    states: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()


@frozen(kw_only=True)
class DeleteGroups:
    """Delete groups without members, with their offsets."""

    group_ids: tuple[str, ...]


@frozen(kw_only=True)
class OffsetDelete:
    """Delete committed offsets of topics that no member subscribes to."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | ConsumerHeartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | DescribeGroups
    | DescribeConsumerGroups
    | ListGroups
    | DeleteGroups
    | OffsetDelete
)
