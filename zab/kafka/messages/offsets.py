"""Where a partition begins and ends, and where in it a time or an epoch is; deleting its begin."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import array, int8, int16, int32, int64, nested, request, response, string


@nested
class ListOffsetsPartition:
    """`timestamp` -1: the latest offset; -2: the earliest; -3: that of the largest time; -4: the earliest on disk."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1, ignorable=True)
    timestamp: int = int64()


@nested
class ListOffsetsTopic:
    name: str = string()
    partitions: tuple[ListOffsetsPartition, ...] = array(ListOffsetsPartition)


@request(ApiKey.LIST_OFFSETS, versions=(1, 8), flexible_since=6)
class ListOffsetsRequest:
    """Asks for the first offset of each partition whose time is at least `timestamp`."""

    replica_id: int = int32()
    isolation_level: int = int8(since=2, default=0)
    topics: tuple[ListOffsetsTopic, ...] = array(ListOffsetsTopic)


@nested
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


@nested
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: tuple[ListOffsetsPartitionResponse, ...] = array(ListOffsetsPartitionResponse)


@response(ApiKey.LIST_OFFSETS, versions=(1, 8), flexible_since=6)
class ListOffsetsResponse:
    throttle_time_ms: int = int32(since=2, default=0, ignorable=True)
    topics: tuple[ListOffsetsTopicResponse, ...] = array(ListOffsetsTopicResponse)


@nested
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1)
    leader_epoch: int = int32()


@nested
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: tuple[OffsetForLeaderPartition, ...] = array(OffsetForLeaderPartition)


@request(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest:
    """Where an epoch ends in the leader's log."""

    replica_id: int = int32(since=3, default=-2, ignorable=True)
    topics: tuple[OffsetForLeaderTopic, ...] = array(OffsetForLeaderTopic)


@nested
class OffsetForLeaderPartitionResult:
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@nested
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: tuple[OffsetForLeaderPartitionResult, ...] = array(OffsetForLeaderPartitionResult)


@response(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32(default=0)
    topics: tuple[OffsetForLeaderTopicResult, ...] = array(OffsetForLeaderTopicResult)


@nested
class DeleteRecordsPartition:
    partition_index: int = int32()
    offset: int = int64()


@nested
class DeleteRecordsTopic:
    name: str = string()
    partitions: tuple[DeleteRecordsPartition, ...] = array(DeleteRecordsPartition)


@request(ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest:
    """Offsets below the given ones are deleted; -1: up to the high watermark."""

    topics: tuple[DeleteRecordsTopic, ...] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@nested
class DeleteRecordsPartitionResult:
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@nested
class DeleteRecordsTopicResult:
    name: str = string()
    partitions: tuple[DeleteRecordsPartitionResult, ...] = array(DeleteRecordsPartitionResult)


@response(ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: tuple[DeleteRecordsTopicResult, ...] = array(DeleteRecordsTopicResult)
