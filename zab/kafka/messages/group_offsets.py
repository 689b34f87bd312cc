"""Offsets that consumer groups have committed."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int16, int32, int64, nested, request, response, string


@nested
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable_since=0)


@nested
class OffsetCommitRequestTopic:
    name: str = string()
    partitions: tuple[OffsetCommitRequestPartition, ...] = array(OffsetCommitRequestPartition)


@request(ApiKey.OFFSET_COMMIT, versions=(2, 9), flexible_since=8)
class OffsetCommitRequest:
    """Generation -1 and member "" are a consumer that no group manages."""

    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=7, nullable_since=0, default=None)
    retention_time_ms: int = int64(until=4, default=-1, ignorable=True)
    topics: tuple[OffsetCommitRequestTopic, ...] = array(OffsetCommitRequestTopic)


@nested
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@nested
class OffsetCommitResponseTopic:
    name: str = string()
    partitions: tuple[OffsetCommitResponsePartition, ...] = array(OffsetCommitResponsePartition)


@response(ApiKey.OFFSET_COMMIT, versions=(2, 9), flexible_since=8)
class OffsetCommitResponse:
    throttle_time_ms: int = int32(since=3, default=0, ignorable=True)
    topics: tuple[OffsetCommitResponseTopic, ...] = array(OffsetCommitResponseTopic)


@nested
class OffsetFetchRequestTopic:
    name: str = string()
    partition_indexes: tuple[int, ...] = array(Kind.INT32)


@nested
class OffsetFetchRequestTopics:
    name: str = string()
    partition_indexes: tuple[int, ...] = array(Kind.INT32)


@nested
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string(since=9, nullable_since=0, default=None, ignorable=True)
    member_epoch: int = int32(since=9, default=-1, ignorable=True)
    topics: tuple[OffsetFetchRequestTopics, ...] | None = array(OffsetFetchRequestTopics, nullable_since=0)


@request(ApiKey.OFFSET_FETCH, versions=(1, 9), flexible_since=6)
class OffsetFetchRequest:
    """Until version 7 for one group, then for many. `topics` null: all of them."""

    group_id: str = string(until=7, default="")
    topics: tuple[OffsetFetchRequestTopic, ...] | None = array(
        OffsetFetchRequestTopic, until=7, nullable_since=2, default=()
    )
    groups: tuple[OffsetFetchRequestGroup, ...] = array(OffsetFetchRequestGroup, since=8, default=())
    require_stable: bool = boolean(since=7, default=False)


@nested
class OffsetFetchResponsePartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=5, default=-1, ignorable=True)
    metadata: str | None = string(nullable_since=0)
    error_code: int = int16()


@nested
class OffsetFetchResponseTopic:
    name: str = string()
    partitions: tuple[OffsetFetchResponsePartition, ...] = array(OffsetFetchResponsePartition)


@nested
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable_since=0)
    error_code: int = int16()


@nested
class OffsetFetchResponseTopics:
    name: str = string()
    partitions: tuple[OffsetFetchResponsePartitions, ...] = array(OffsetFetchResponsePartitions)


@nested
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: tuple[OffsetFetchResponseTopics, ...] = array(OffsetFetchResponseTopics)
    error_code: int = int16(default=0)


@response(ApiKey.OFFSET_FETCH, versions=(1, 9), flexible_since=6)
class OffsetFetchResponse:
    """A partition without a committed offset has offset -1, and no error."""

    throttle_time_ms: int = int32(since=3, default=0, ignorable=True)
    topics: tuple[OffsetFetchResponseTopic, ...] = array(OffsetFetchResponseTopic, until=7, default=())
    error_code: int = int16(since=2, until=7, default=0, ignorable=True)
    groups: tuple[OffsetFetchResponseGroup, ...] = array(OffsetFetchResponseGroup, since=8, default=())


@nested
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@nested
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: tuple[OffsetDeleteRequestPartition, ...] = array(OffsetDeleteRequestPartition)


@request(ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteRequest:
    group_id: str = string()
    topics: tuple[OffsetDeleteRequestTopic, ...] = array(OffsetDeleteRequestTopic)


@nested
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@nested
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: tuple[OffsetDeleteResponsePartition, ...] = array(OffsetDeleteResponsePartition)


@response(ApiKey.OFFSET_DELETE, versions=(0, 0))
class OffsetDeleteResponse:
    error_code: int = int16()
    throttle_time_ms: int = int32(default=0)
    topics: tuple[OffsetDeleteResponseTopic, ...] = array(OffsetDeleteResponseTopic)
