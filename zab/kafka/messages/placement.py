"""Where the replicas of partitions are, which of them leads, and how much room they take."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int8, int16, int32, int64, nested, request, response, string


@nested
class ElectLeadersTopicPartitions:
    topic: str = string()
    partitions: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)
class ElectLeadersRequest:
    """`election_type` 0: the preferred replica, 1: any replica, which may lose data."""

    election_type: int = int8(since=1, default=0)
    topic_partitions: tuple[ElectLeadersTopicPartitions, ...] | None = array(
        ElectLeadersTopicPartitions, nullable_since=0
    )
    timeout_ms: int = int32(default=60000)


@nested
class ElectLeadersPartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@nested
class ReplicaElectionResult:
    topic: str = string()
    partition_result: tuple[ElectLeadersPartitionResult, ...] = array(ElectLeadersPartitionResult)


@response(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)
class ElectLeadersResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=1, default=0)
    replica_election_results: tuple[ReplicaElectionResult, ...] = array(ReplicaElectionResult)


@nested
class ReassignablePartition:
    """`replicas` null: the reassignment is cancelled."""

    partition_index: int = int32()
    replicas: tuple[int, ...] | None = array(Kind.INT32, nullable_since=0, default=None)


@nested
class ReassignableTopic:
    name: str = string()
    partitions: tuple[ReassignablePartition, ...] = array(ReassignablePartition)


@request(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60000)
    topics: tuple[ReassignableTopic, ...] = array(ReassignableTopic)


@nested
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@nested
class ReassignableTopicResponse:
    name: str = string()
    partitions: tuple[ReassignablePartitionResponse, ...] = array(ReassignablePartitionResponse)


@response(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    responses: tuple[ReassignableTopicResponse, ...] = array(ReassignableTopicResponse)


@nested
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60000)
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = array(
        ListPartitionReassignmentsTopics, nullable_since=0, default=None
    )


@nested
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: tuple[int, ...] = array(Kind.INT32)
    adding_replicas: tuple[int, ...] = array(Kind.INT32)
    removing_replicas: tuple[int, ...] = array(Kind.INT32)


@nested
class OngoingTopicReassignment:
    name: str = string()
    partitions: tuple[OngoingPartitionReassignment, ...] = array(OngoingPartitionReassignment)


@response(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    topics: tuple[OngoingTopicReassignment, ...] = array(OngoingTopicReassignment)


@nested
class DescribableLogDirTopic:
    topic: str = string()
    partitions: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 4), flexible_since=2)
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None = array(DescribableLogDirTopic, nullable_since=0)


@nested
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@nested
class DescribeLogDirsTopic:
    name: str = string()
    partitions: tuple[DescribeLogDirsPartition, ...] = array(DescribeLogDirsPartition)


@nested
class DescribeLogDirsResult:
    error_code: int = int16()
    log_dir: str = string()
    topics: tuple[DescribeLogDirsTopic, ...] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1, ignorable=True)
    usable_bytes: int = int64(since=4, default=-1, ignorable=True)


@response(ApiKey.DESCRIBE_LOG_DIRS, versions=(1, 4), flexible_since=2)
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=3, default=0, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...] = array(DescribeLogDirsResult)
