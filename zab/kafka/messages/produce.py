"""Appending batches to partitions. `produce_path.py` reads and writes them faster."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import array, int16, int32, int64, nested, records, request, response, string, struct


@nested
class PartitionProduceData:
    """`records` are batches, back to back, as they are stored."""

    index: int = int32()
    records: bytes | memoryview | None = records(nullable_since=0)


@nested
class TopicProduceData:
    name: str = string()
    partition_data: tuple[PartitionProduceData, ...] = array(PartitionProduceData)


@request(ApiKey.PRODUCE, versions=(3, 10), flexible_since=9)
class ProduceRequest:
    """With `acks` 0 there is no response at all. `acks` is -1 (all replicas in sync), 0 or 1."""

    transactional_id: str | None = string(nullable_since=0, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: tuple[TopicProduceData, ...] = array(TopicProduceData)


@nested
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable_since=0, default=None)


@nested
class LeaderIdAndEpoch:
    """-1: not known."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@nested
class PartitionProduceResponse:
    """`base_offset` is that of the first batch; -1 with an error."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1, ignorable=True)
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = array(
        BatchIndexAndErrorMessage, since=8, default=(), ignorable=True
    )
    error_message: str | None = string(since=8, nullable_since=0, default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch, since=10, default=LeaderIdAndEpoch(), tag=0)


@nested
class TopicProduceResponse:
    name: str = string()
    partition_responses: tuple[PartitionProduceResponse, ...] = array(PartitionProduceResponse)


@nested
class NodeEndpoint:
    """Where a broker is that leads a partition, so that the client need not ask."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=0, default=None)


@response(ApiKey.PRODUCE, versions=(3, 10), flexible_since=9)
class ProduceResponse:
    responses: tuple[TopicProduceResponse, ...] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(default=0)
    node_endpoints: tuple[NodeEndpoint, ...] = array(NodeEndpoint, since=10, default=(), tag=0)
