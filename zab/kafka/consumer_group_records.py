"""The records of `__consumer_offsets` in which a coordinator keeps groups of KIP-848.

The last record of a key counts, and a null value is a tombstone. Keys are never flexible, values always are:

| key | version | value | written |
|---|---|---|---|
| `ConsumerGroupKey`: a group | 3 | `ConsumerGroupValue`: its epoch, and a hash of its topics | 0 |
| `MemberKey`: a member of a group | 5 | `MemberValue`: who it is, and what it subscribes to | 0 |
| `TargetKey`: the target of a group | 6 | `TargetValue`: the epoch of the group for which it was computed | 0 |
| `MemberTargetKey`: a member's part of it | 7 | `MemberTargetValue`: the partitions that it is to own | 0 |
| `MemberAssignmentKey`: a member | 8 | `MemberAssignmentValue`: its epoch, what it owns, what it has to give up | 0 |
| `RegexKey`: a regular expression of a group | 16 | `RegexValue`: the topics that match | 0 |

Key 4 kept the partitions of topics in Kafka before 4.1, which has the hash instead: it is neither read nor written.
The layouts are those of Kafka 4.1 (`group-coordinator/src/main/resources/common/message`).
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias

from zab.kafka.declare import Kind, array, bytes_, int8, int32, int64, nested, string, struct, uuid, versioned
from zab.kafka.primitives import Uuid

CONSUMER_GROUP_KEY_VERSION: Final = 3
MEMBER_KEY_VERSION: Final = 5
TARGET_KEY_VERSION: Final = 6
MEMBER_TARGET_KEY_VERSION: Final = 7
MEMBER_ASSIGNMENT_KEY_VERSION: Final = 8
REGEX_KEY_VERSION: Final = 16
VALUE_VERSION: Final = 0


@versioned(versions=(3, 3))
class ConsumerGroupKey:
    """Which group."""

    group_id: str = string()


@versioned(versions=(5, 5))
class MemberKey:
    """Which member of which group."""

    group_id: str = string()
    member_id: str = string()


@versioned(versions=(6, 6))
class TargetKey:
    """The target of which group."""

    group_id: str = string()


@versioned(versions=(7, 7))
class MemberTargetKey:
    """The target of which member."""

    group_id: str = string()
    member_id: str = string()


@versioned(versions=(8, 8))
class MemberAssignmentKey:
    """What which member owns."""

    group_id: str = string()
    member_id: str = string()


@versioned(versions=(16, 16))
class RegexKey:
    """Which regular expression of which group."""

    group_id: str = string()
    regular_expression: str = string()


@versioned(versions=(0, 0), flexible_since=0)
class ConsumerGroupValue:
    """`metadata_hash`: of the topics that members subscribe to; 0: it is not known."""

    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


@nested
class ClassicProtocol:
    """A protocol of JoinGroup."""

    name: str = string()
    metadata: bytes = bytes_()


@nested
class ClassicMemberMetadata:
    """What a member that speaks the classic protocol has said in JoinGroup."""

    session_timeout_ms: int = int32()
    supported_protocols: tuple[ClassicProtocol, ...] = array(ClassicProtocol)


@versioned(versions=(0, 0), flexible_since=0)
class MemberValue:
    """What a member has said about itself; one that speaks the classic protocol, also in JoinGroup."""

    instance_id: str | None = string(nullable_since=0)
    rack_id: str | None = string(nullable_since=0)
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: tuple[str, ...] = array(Kind.STRING)
    subscribed_topic_regex: str | None = string(nullable_since=0)
    rebalance_timeout_ms: int = int32()
    server_assignor: str | None = string(nullable_since=0)
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable_since=0, default=None, tag=0
    )


@versioned(versions=(0, 0), flexible_since=0)
class TargetValue:
    """The target of a group: the epoch of the group that it was computed for."""

    assignment_epoch: int = int32()


@nested
class PartitionsOfTopic:
    """Partitions of one topic."""

    topic_id: Uuid = uuid()
    partitions: tuple[int, ...] = array(Kind.INT32)


@versioned(versions=(0, 0), flexible_since=0)
class MemberTargetValue:
    """What a member is to own."""

    topic_partitions: tuple[PartitionsOfTopic, ...] = array(PartitionsOfTopic)


@enum.unique
class MemberState(enum.IntEnum):
    """How far a member is with what it is to own."""

    STABLE = 0
    """It owns what the target of its epoch says."""
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up, and has not said that it did."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others still own."""


@versioned(versions=(0, 0), flexible_since=0)
class MemberAssignmentValue:
    """`state` is a `MemberState`."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: tuple[PartitionsOfTopic, ...] = array(PartitionsOfTopic)
    partitions_pending_revocation: tuple[PartitionsOfTopic, ...] = array(PartitionsOfTopic)


@versioned(versions=(0, 0), flexible_since=0)
class RegexValue:
    """The topics that matched, at which version of the cluster's metadata, and when, in ms since 1970."""

    topics: tuple[str, ...] = array(Kind.STRING)
    version: int = int64()
    timestamp: int = int64()


Key: TypeAlias = ConsumerGroupKey | MemberKey | TargetKey | MemberTargetKey | MemberAssignmentKey | RegexKey
Value: TypeAlias = (
    ConsumerGroupValue | MemberValue | TargetValue | MemberTargetValue | MemberAssignmentValue | RegexValue
)

KEYS: Final[dict[int, type[Key]]] = {
    CONSUMER_GROUP_KEY_VERSION: ConsumerGroupKey,
    MEMBER_KEY_VERSION: MemberKey,
    TARGET_KEY_VERSION: TargetKey,
    MEMBER_TARGET_KEY_VERSION: MemberTargetKey,
    MEMBER_ASSIGNMENT_KEY_VERSION: MemberAssignmentKey,
    REGEX_KEY_VERSION: RegexKey,
}
"""By the version that says what a key is of."""

VALUES: Final[dict[type, type[Value]]] = {
    ConsumerGroupKey: ConsumerGroupValue,
    MemberKey: MemberValue,
    TargetKey: TargetValue,
    MemberTargetKey: MemberTargetValue,
    MemberAssignmentKey: MemberAssignmentValue,
    RegexKey: RegexValue,
}
"""What the value of a key is."""
