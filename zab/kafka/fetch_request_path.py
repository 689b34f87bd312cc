"""Requests of Fetch, read by hand: the same instances as by the codec, in two thirds of the time.

What is usual is read here: few topics, no tagged fields but those of followers. Whatever else comes, be it legal or
not, is read by the codec from the beginning; so both accept the same, and errors have the same text.
"""

from __future__ import annotations

from itertools import starmap
from struct import Struct, error
from typing import Final

from zab.kafka.codec import decode, maker
from zab.kafka.declare import default_of
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from zab.kafka.primitives import UUID_BYTES, Reader, Uuid

SESSIONS_SINCE: Final = 7
RACK_SINCE: Final = 11
FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from

# Of a request: max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch; replica_id before them.
_LIMITS: Final = Struct(">iiibii")
_REPLICA_LIMITS: Final = Struct(">iiiibii")
_REPLICA_LIMITS_4: Final = Struct(">iiiib")
_REPLICA_STATE: Final = Struct(">BBiqB").unpack_from
"""Tag, size, replica_id, replica_epoch, and no tagged fields inside."""

_PLAIN_PARTITION: Final = {
    4: (Struct(">iqi"), maker(FetchPartition, "partition", "fetch_offset", "partition_max_bytes")),
    5: (
        Struct(">iqqi"),
        maker(FetchPartition, "partition", "fetch_offset", "log_start_offset", "partition_max_bytes"),
    ),
    9: (
        Struct(">iiqqi"),
        maker(
            FetchPartition,
            "partition",
            "current_leader_epoch",
            "fetch_offset",
            "log_start_offset",
            "partition_max_bytes",
        ),
    ),
}
"""By the first version that has this layout."""
_PARTITION_12: Final = Struct(">iiqiqiB")
"""With the number of tagged fields."""

_partition: Final = maker(
    FetchPartition,
    "partition",
    "current_leader_epoch",
    "fetch_offset",
    "last_fetched_epoch",
    "log_start_offset",
    "partition_max_bytes",
)
_named_topic: Final = maker(FetchTopic, "topic", "partitions")
_topic: Final = maker(FetchTopic, "topic", "topic_id", "partitions")
_request: Final = maker(
    FetchRequest,
    "replica_id",
    "replica_state",
    "max_wait_ms",
    "min_bytes",
    "max_bytes",
    "isolation_level",
    "session_id",
    "session_epoch",
    "topics",
    "rack_id",
)
_NO_STATE: Final[ReplicaState] = default_of(FetchRequest, "replica_state")
_NO_ID: Final[Uuid] = default_of(FetchTopic, "topic_id")


def decode_fetch_request(version: int, reader: Reader) -> FetchRequest:
    """The request whose body begins where `reader` is; `reader` is then after it. Raises ProtocolError."""
    assert reader.end == len(reader.data)
    at = reader.at
    try:
        read = _read_flexible_request if version >= FLEXIBLE_SINCE else _read_plain_request
        request = read(version, reader)
    except (error, IndexError, UnicodeDecodeError):
        request = None
    if request is None:
        reader.at = at
        return decode(FetchRequest, version, reader)
    return request


def _read_plain_request(version: int, reader: Reader) -> FetchRequest | None:
    data, at = reader.data, reader.at
    left = reader.elements_left
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_SINCE:
        head = _REPLICA_LIMITS.unpack_from(data, at)
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = head
        at += _REPLICA_LIMITS.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _REPLICA_LIMITS_4.unpack_from(data, at)
        at += _REPLICA_LIMITS_4.size
    (topic_count,) = _INT32(data, at)
    at += 4
    left -= topic_count
    if topic_count < 0 or left < 0:
        return None
    packed, make = _PLAIN_PARTITION[4 if version == 4 else 5 if version < 9 else 9]
    topics = []
    for _ in range(topic_count):
        (size,) = _INT16(data, at)
        at += 2 + size
        name = str(data[at - size : at], "utf-8")
        (count,) = _INT32(data, at)
        at += 4
        left -= count
        if size < 0 or count < 0 or left < 0 or at + count * packed.size > reader.end:
            return None
        end = at + count * packed.size
        topics.append(_named_topic(name, tuple(starmap(make, packed.iter_unpack(data[at:end])))))
        at = end
    if version >= SESSIONS_SINCE:
        if _INT32(data, at) != (0,):
            return None
        at += 4
    rack_id = ""
    if version >= RACK_SINCE:
        (size,) = _INT16(data, at)
        at += 2 + size
        if size < 0 or at > reader.end:
            return None
        rack_id = str(data[at - size : at], "utf-8")
    reader.at, reader.elements_left = at, left
    limits = max_wait_ms, min_bytes, max_bytes, isolation_level
    return _request(replica_id, _NO_STATE, *limits, session_id, session_epoch, tuple(topics), rack_id)


def _read_flexible_request(version: int, reader: Reader) -> FetchRequest | None:
    data, at = reader.data, reader.at
    replica_id = -1
    if version < REPLICA_STATE_SINCE:
        (replica_id,) = _INT32(data, at)
        at += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _LIMITS.unpack_from(data, at)
    at += _LIMITS.size
    found = _flexible_topics(version, reader, at)
    if found is None:
        return None
    topics, at = found
    size = data[at + 1]
    # No forgotten topics.
    if data[at] != 1 or not 0 < size < 0x80:
        return None
    at += 1 + size
    rack_id = str(data[at - size + 1 : at], "utf-8")
    state = _NO_STATE
    if data[at] == 1 and version >= REPLICA_STATE_SINCE:
        tag, size, of_replica, replica_epoch, tags = _REPLICA_STATE(data, at + 1)
        if tag != 1 or size != 13 or tags:
            return None
        state = ReplicaState(replica_id=of_replica, replica_epoch=replica_epoch)
        at += 15
    elif data[at]:
        return None
    left = reader.elements_left - len(topics) - sum([len(topic.partitions) for topic in topics])
    if left < 0:
        return None
    reader.at, reader.elements_left = at + 1, left
    limits = max_wait_ms, min_bytes, max_bytes, isolation_level
    return _request(replica_id, state, *limits, session_id, session_epoch, topics, rack_id)


def _flexible_topics(version: int, reader: Reader, at: int) -> tuple[tuple[FetchTopic, ...], int] | None:
    data = reader.data
    topics = []
    count = data[at]
    at += 1
    if not 0 < count < 0x80:
        return None
    for _ in range(count - 1):
        named = _topic_name(version, data, at)
        if named is None:
            return None
        name, topic_id, at = named
        count = data[at]
        at += 1
        size = _PARTITION_12.size * (count - 1)
        if not 0 < count < 0x80 or at + size > reader.end:
            return None
        partitions = []
        for row in _PARTITION_12.iter_unpack(data[at : at + size]):
            index, epoch, offset, last_epoch, start, max_bytes, tags = row
            if tags:
                return None
            partitions.append(_partition(index, epoch, offset, last_epoch, start, max_bytes))
        at += size
        if data[at]:
            return None
        at += 1
        topics.append(_topic(name, topic_id, tuple(partitions)))
    return tuple(topics), at


def _topic_name(version: int, data: bytes | memoryview, at: int) -> tuple[str, Uuid, int] | None:
    """The name or id of a topic in a flexible version, and where it ends."""
    if version >= TOPIC_IDS_SINCE:
        return "", Uuid(bytes(data[at : at + UUID_BYTES])), at + UUID_BYTES
    size = data[at]
    at += size
    return (str(data[at - size + 1 : at], "utf-8"), _NO_ID, at) if 0 < size < 0x80 else None
