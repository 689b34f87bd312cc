"""Requests that only brokers send: to each other, to the controller, and from it."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int8, int16, int32, int64, nested, request, response, string, uuid
from zab.kafka.primitives import Uuid


@nested
class WritableTxnMarkerTopic:
    name: str = string()
    partition_indexes: tuple[int, ...] = array(Kind.INT32)


@nested
class WritableTxnMarker:
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: tuple[WritableTxnMarkerTopic, ...] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()


@request(ApiKey.WRITE_TXN_MARKERS, versions=(1, 1), flexible_since=1)
class WriteTxnMarkersRequest:
    """`transaction_result` true: commit; false: abort."""

    markers: tuple[WritableTxnMarker, ...] = array(WritableTxnMarker)


@nested
class WritableTxnMarkerPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@nested
class WritableTxnMarkerTopicResult:
    name: str = string()
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = array(WritableTxnMarkerPartitionResult)


@nested
class WritableTxnMarkerResult:
    producer_id: int = int64()
    topics: tuple[WritableTxnMarkerTopicResult, ...] = array(WritableTxnMarkerTopicResult)


@response(ApiKey.WRITE_TXN_MARKERS, versions=(1, 1), flexible_since=1)
class WriteTxnMarkersResponse:
    markers: tuple[WritableTxnMarkerResult, ...] = array(WritableTxnMarkerResult)


@nested
class AlterPartitionBrokerState:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@nested
class AlterPartitionRequestPartition:
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: tuple[int, ...] = array(Kind.INT32, until=2, default=())
    new_isr_with_epochs: tuple[AlterPartitionBrokerState, ...] = array(AlterPartitionBrokerState, since=3, default=())
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@nested
class AlterPartitionRequestTopic:
    topic_id: Uuid = uuid()
    partitions: tuple[AlterPartitionRequestPartition, ...] = array(AlterPartitionRequestPartition)


@request(ApiKey.ALTER_PARTITION, versions=(2, 3), flexible_since=0)
class AlterPartitionRequest:
    """A leader proposes to the controller which replicas are in sync."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: tuple[AlterPartitionRequestTopic, ...] = array(AlterPartitionRequestTopic)


@nested
class AlterPartitionResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: tuple[int, ...] = array(Kind.INT32)
    leader_recovery_state: int = int8(default=0)
    partition_epoch: int = int32()


@nested
class AlterPartitionResponseTopic:
    topic_id: Uuid = uuid()
    partitions: tuple[AlterPartitionResponsePartition, ...] = array(AlterPartitionResponsePartition)


@response(ApiKey.ALTER_PARTITION, versions=(2, 3), flexible_since=0)
class AlterPartitionResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    topics: tuple[AlterPartitionResponseTopic, ...] = array(AlterPartitionResponseTopic)


@request(ApiKey.CONTROLLED_SHUTDOWN, versions=(3, 3), flexible_since=3)
class ControlledShutdownRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@nested
class RemainingPartition:
    topic_name: str = string()
    partition_index: int = int32()


@response(ApiKey.CONTROLLED_SHUTDOWN, versions=(3, 3), flexible_since=3)
class ControlledShutdownResponse:
    error_code: int = int16()
    remaining_partitions: tuple[RemainingPartition, ...] = array(RemainingPartition)


@request(ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0), flexible_since=0)
class AllocateProducerIdsRequest:
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@response(ApiKey.ALLOCATE_PRODUCER_IDS, versions=(0, 0), flexible_since=0)
class AllocateProducerIdsResponse:
    """A block of ids, for one broker to give away."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
