"""Reading batches of partitions, by consumers and followers. `fetch_request_path.py` and `fetch_response_path.py` read
and write them faster."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import (
    Kind,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    request,
    response,
    string,
    struct,
    uuid,
)
from zab.kafka.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from zab.kafka.primitives import ZERO_UUID, Uuid


@nested
class ReplicaState:
    """Which follower asks, and the epoch of that broker. Until version 14 `FetchRequest.replica_id` says who."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@nested
class FetchPartition:
    """`current_leader_epoch` -1: not to be checked; `last_fetched_epoch` -1: not known."""

    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    partition_max_bytes: int = int32()


@nested
class FetchTopic:
    topic: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[FetchPartition, ...] = array(FetchPartition)


@nested
class ForgottenTopic:
    topic: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.FETCH, versions=(4, 16), flexible_since=12)
class FetchRequest:
    """The order of topics and partitions is the order in which `max_bytes` is spent."""

    cluster_id: str | None = string(since=12, nullable_since=0, default=None, ignorable=True, tag=0)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState = struct(ReplicaState, since=15, default=ReplicaState(), tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    isolation_level: int = int8(default=0)
    session_id: int = int32(since=7, default=0, ignorable=True)
    session_epoch: int = int32(since=7, default=-1, ignorable=True)
    topics: tuple[FetchTopic, ...] = array(FetchTopic)
    forgotten_topics_data: tuple[ForgottenTopic, ...] = array(ForgottenTopic, since=7, default=())
    rack_id: str = string(since=11, default="", ignorable=True)


@nested
class EpochEndOffset:
    """The largest epoch that the leader has in common, and where it ends there."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@nested
class SnapshotId:
    """Only quorums of Kafka itself have snapshots."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@nested
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@nested
class FetchPartitionData:
    """`aborted_transactions` is null unless the consumer reads committed data only. `records` are left out where they
    come from a file (`fetch_response_pieces`)."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = struct(EpochEndOffset, since=12, default=EpochEndOffset(), tag=0)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=12, default=LeaderIdAndEpoch(), tag=1)
    snapshot_id: SnapshotId = struct(SnapshotId, since=12, default=SnapshotId(), tag=2)
    aborted_transactions: tuple[AbortedTransaction, ...] | None = array(AbortedTransaction, nullable_since=0)
    preferred_read_replica: int = int32(since=11, default=-1)
    records: bytes | memoryview | None = records(nullable_since=0, default=b"")


@nested
class FetchableTopicResponse:
    topic: str = string(until=12, default="", ignorable=True)
    topic_id: Uuid = uuid(since=13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[FetchPartitionData, ...] = array(FetchPartitionData)


@response(ApiKey.FETCH, versions=(4, 16), flexible_since=12)
class FetchResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(since=7, default=0, ignorable=True)
    session_id: int = int32(since=7, default=0)
    responses: tuple[FetchableTopicResponse, ...] = array(FetchableTopicResponse)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, since=16, default=(), tag=0)
