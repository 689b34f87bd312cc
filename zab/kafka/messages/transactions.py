"""Producers with an id, and their transactions.

These versions have the first flavour of transactions: clients name the partitions of a transaction before they
produce to them, and EndTxn leaves the epoch of the producer as it is.
"""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int16, int32, int64, nested, request, response, string


@request(ApiKey.INIT_PRODUCER_ID, versions=(0, 4), flexible_since=2)
class InitProducerIdRequest:
    """Without a transactional id any broker gives a new producer id, with epoch 0."""

    transactional_id: str | None = string(nullable_since=0)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


@response(ApiKey.INIT_PRODUCER_ID, versions=(0, 4), flexible_since=2)
class InitProducerIdResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()


@nested
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 3), flexible_since=3)
class AddPartitionsToTxnRequest:
    """Sent by clients, before they produce to the partitions."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: tuple[AddPartitionsToTxnTopic, ...] = array(AddPartitionsToTxnTopic)


@nested
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@nested
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = array(AddPartitionsToTxnPartitionResult)


@response(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 3), flexible_since=3)
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    results_by_topic: tuple[AddPartitionsToTxnTopicResult, ...] = array(AddPartitionsToTxnTopicResult)


@request(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 3), flexible_since=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@response(ApiKey.ADD_OFFSETS_TO_TXN, versions=(0, 3), flexible_since=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()


@request(ApiKey.END_TXN, versions=(0, 3), flexible_since=3)
class EndTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@response(ApiKey.END_TXN, versions=(0, 3), flexible_since=3)
class EndTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()


@nested
class TxnOffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=2, default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable_since=0)


@nested
class TxnOffsetCommitRequestTopic:
    name: str = string()
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = array(TxnOffsetCommitRequestPartition)


@request(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 3), flexible_since=3)
class TxnOffsetCommitRequest:
    """Goes to the coordinator of the group, after AddOffsetsToTxn went to that of the transaction."""

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32(since=3, default=-1)
    member_id: str = string(since=3, default="")
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = array(TxnOffsetCommitRequestTopic)


@nested
class TxnOffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@nested
class TxnOffsetCommitResponseTopic:
    name: str = string()
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = array(TxnOffsetCommitResponsePartition)


@response(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 3), flexible_since=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: int = int32(default=0)
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = array(TxnOffsetCommitResponseTopic)
