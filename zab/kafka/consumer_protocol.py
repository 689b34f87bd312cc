"""What members of a classic consumer group tell each other through the coordinator, which does not look at it.

Format: int16 version, then the fields of that version, never flexible. A member's subscription is the metadata of its
protocols in JoinGroup; its assignment comes with SyncGroup. A version above the highest that is known is read as that
one: later versions only append fields. The coordinator reads subscriptions only for their topics, so that offsets of
subscribed topics do not expire.
"""

from __future__ import annotations

from typing import Final, TypeVar

from zab.kafka.codec import decode, encode
from zab.kafka.declare import Kind, array, bytes_, int32, nested, string, versioned
from zab.kafka.primitives import ProtocolError, Reader

T = TypeVar("T")

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members speak this."""

VERSION_MAX: Final = 3


@nested
class TopicPartitions:
    """Partitions of one topic."""

    topic: str = string()
    partitions: tuple[int, ...] = array(Kind.INT32)


@versioned(versions=(0, VERSION_MAX))
class Subscription:
    """What a member wants, and what it still owns of the generation `generation_id`; -1: it does not say."""

    topics: tuple[str, ...] = array(Kind.STRING)
    user_data: bytes | None = bytes_(nullable_since=0, default=None)
    owned_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions, since=1, default=(), ignorable=True)
    generation_id: int = int32(since=2, default=-1, ignorable=True)
    rack_id: str | None = string(since=3, nullable_since=0, default=None, ignorable=True)


@versioned(versions=(0, VERSION_MAX))
class Assignment:
    """What a member gets."""

    assigned_partitions: tuple[TopicPartitions, ...] = array(TopicPartitions)
    user_data: bytes | None = bytes_(nullable_since=0, default=None)


def encode_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    """With its version before it. Raises ProtocolError."""
    return with_version(subscription, version)


def decode_subscription(data: bytes | memoryview) -> Subscription:
    """Raises ProtocolError."""
    return _decoded(Subscription, data)


def encode_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    """With its version before it. Raises ProtocolError."""
    return with_version(assignment, version)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """Raises ProtocolError."""
    return _decoded(Assignment, data)


def with_version(instance: object, version: int) -> bytes:
    """int16 version, then the fields of `instance` in that version. Raises ProtocolError."""
    out = bytearray(version.to_bytes(2, "big", signed=True))
    encode(instance, version, out)
    return bytes(out)


def _decoded(cls: type[T], data: bytes | memoryview) -> T:
    reader = Reader(data)
    version = reader.int16()
    if version < 0:
        raise ProtocolError(f"{cls.__name__} has no version {version}")
    return decode(cls, min(version, VERSION_MAX), reader)
