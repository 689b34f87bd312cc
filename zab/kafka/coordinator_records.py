"""The records in which coordinators keep their state: of `__consumer_offsets` and `__transaction_state`.

Both topics are compacted, so the last record of a key counts, and a null value (None here) is a tombstone. A key is
int16 version and its fields, and the version says what it is the key of; a value is int16 version and its fields:

| topic | key | read | written | value | read | written |
|---|---|---|---|---|---|---|
| `__consumer_offsets` | `OffsetKey`: an offset of a group | 0, 1 | 1 | `OffsetValue` | 0 to 4 | 3 |
| `__consumer_offsets` | `GroupKey`: a group | 2 | 2 | `GroupValue` | 0 to 4 | 3 |
| `__transaction_state` | `TransactionKey`: a transactional id | 0 | 0 | `TransactionValue` | 0, 1 | 0 |

The keys of KIP-848's groups, 3 and 5 to 16, are in `consumer_group_records`. Keys of other versions in
`__consumer_offsets` belong to groups of other kinds: they are skipped, not an error. The last version of each value is
flexible; tagged fields that are not known are skipped.

A coordinator has those groups or transactional ids whose partition of the topic it leads: `partition_for`.
"""

from __future__ import annotations

import enum
from typing import Final, TypeAlias, TypeVar

from zab.kafka import consumer_group_records
from zab.kafka.codec import decode
from zab.kafka.consumer_protocol import with_version
from zab.kafka.declare import Kind, array, bytes_, int8, int16, int32, int64, nested, string, versioned
from zab.kafka.primitives import ProtocolError, Reader

T = TypeVar("T")

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"

OFFSET_KEY_VERSION: Final = 1
GROUP_KEY_VERSION: Final = 2
TRANSACTION_KEY_VERSION: Final = 0
OFFSET_VALUE_VERSION: Final = 3
GROUP_VALUE_VERSION: Final = 3
TRANSACTION_VALUE_VERSION: Final = 0
"""What is written."""


@versioned(versions=(0, 1))
class OffsetKey:
    """Which offset: of a group, in a partition of a topic."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


@versioned(versions=(2, 2))
class GroupKey:
    """Which group."""

    group: str = string()


@versioned(versions=(0, 0))
class TransactionKey:
    """Which transactional id."""

    transactional_id: str = string()


@versioned(versions=(0, 4), flexible_since=4)
class OffsetValue:
    """A committed offset. Times are in ms since 1970; `expire_timestamp` -1: as the broker's retention says."""

    offset: int = int64()
    leader_epoch: int = int32(since=3, default=-1, ignorable=True)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(since=1, until=1, default=-1, ignorable=True)


@nested
class GroupMember:
    """A member of a group. Timeouts are in ms; `rebalance_timeout` -1: the session's."""

    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(since=1, default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


@versioned(versions=(0, 4), flexible_since=4)
class GroupValue:
    """A group as its last generation was stored; without members it is empty. The time is in ms since 1970."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable_since=0)
    leader: str | None = string(nullable_since=0)
    current_state_timestamp: int = int64(since=2, default=-1, ignorable=True)
    members: tuple[GroupMember, ...] = array(GroupMember)


@enum.unique
class TransactionStatus(enum.IntEnum):
    """The states that are stored. Kafka has an eighth, which is only in memory."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6


@nested
class TransactionPartitions:
    """Partitions of one topic."""

    topic: str = string()
    partition_ids: tuple[int, ...] = array(Kind.INT32)


@versioned(versions=(0, 1), flexible_since=1)
class TransactionValue:
    """The state of a transactional id. Times are in ms, and since 1970; `transaction_status` is a `TransactionStatus`.
    The tagged fields belong to the second flavour of transactions."""

    producer_id: int = int64()
    previous_producer_id: int = int64(since=1, default=-1, tag=0)
    next_producer_id: int = int64(since=1, default=-1, tag=1)
    producer_epoch: int = int16()
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: tuple[TransactionPartitions, ...] | None = array(TransactionPartitions, nullable_since=0)
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(since=1, default=0, tag=2)


OffsetsKey: TypeAlias = OffsetKey | GroupKey | consumer_group_records.Key
OffsetsValue: TypeAlias = OffsetValue | GroupValue | consumer_group_records.Value
Key: TypeAlias = OffsetsKey | TransactionKey
Value: TypeAlias = OffsetsValue | TransactionValue

_WRITTEN: Final[dict[type, int]] = {
    OffsetKey: OFFSET_KEY_VERSION,
    GroupKey: GROUP_KEY_VERSION,
    TransactionKey: TRANSACTION_KEY_VERSION,
    OffsetValue: OFFSET_VALUE_VERSION,
    GroupValue: GROUP_VALUE_VERSION,
    TransactionValue: TRANSACTION_VALUE_VERSION,
    **{key: version for version, key in consumer_group_records.KEYS.items()},
    **dict.fromkeys(consumer_group_records.VALUES.values(), consumer_group_records.VALUE_VERSION),
}


def encode_key(key: Key) -> bytes:
    """Raises ProtocolError if a name is too long."""
    return with_version(key, _WRITTEN[type(key)])


def encode_value(value: Value) -> bytes:
    """Raises ProtocolError if a string is too long or a number too large."""
    return with_version(value, _WRITTEN[type(value)])


def decode_consumer_offsets_key(data: bytes | memoryview) -> OffsetsKey | None:
    """None: a key of another kind of group. Raises ProtocolError."""
    reader = Reader(data)
    version = reader.int16()
    if version in (0, 1):
        return decode(OffsetKey, version, reader)
    if version == GROUP_KEY_VERSION:
        return decode(GroupKey, version, reader)
    of_consumer_group = consumer_group_records.KEYS.get(version)
    return None if of_consumer_group is None else decode(of_consumer_group, version, reader)


def decode_consumer_offsets_value(key: OffsetsKey, data: bytes | memoryview) -> OffsetsValue:
    """The value of this key. Raises ProtocolError, also for a version that is not known."""
    if isinstance(key, OffsetKey):
        return decode_offset_value(data)
    if isinstance(key, GroupKey):
        return decode_group_value(data)
    return _decoded(consumer_group_records.VALUES[type(key)], data)


def decode_transaction_state_key(data: bytes | memoryview) -> TransactionKey:
    """Raises ProtocolError, also for a version that is not known."""
    return _decoded(TransactionKey, data)


def decode_offset_value(data: bytes | memoryview) -> OffsetValue:
    """Raises ProtocolError, also for a version that is not known."""
    return _decoded(OffsetValue, data)


def decode_group_value(data: bytes | memoryview) -> GroupValue:
    """Raises ProtocolError, also for a version that is not known."""
    return _decoded(GroupValue, data)


def decode_transaction_value(data: bytes | memoryview) -> TransactionValue:
    """Raises ProtocolError, also for a version or a status that is not known."""
    value = _decoded(TransactionValue, data)
    if value.transaction_status not in TransactionStatus.__members__.values():
        raise ProtocolError(f"transaction status {value.transaction_status} is not known")
    return value


def _decoded(cls: type[T], data: bytes | memoryview) -> T:
    reader = Reader(data)
    return decode(cls, reader.int16(), reader)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, over UTF-16 units: 32 bits, signed."""
    value = 0
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value - (1 << 32) if value >> 31 else value


def partition_for(name: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` to which a group or transactional id belongs.

    Kafka's `Utils.abs`: the absolute value of the hash; 0 for -2**31, whose absolute value no int32 is.
    """
    hashed = abs(java_hash(name))
    return 0 if hashed == 1 << 31 else hashed % partition_count
