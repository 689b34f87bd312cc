"""Producers and transactions, as an operator sees them."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, int16, int32, int64, nested, request, response, string


@nested
class DescribeProducersTopic:
    name: str = string()
    partition_indexes: tuple[int, ...] = array(Kind.INT32)


@request(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)
class DescribeProducersRequest:
    topics: tuple[DescribeProducersTopic, ...] = array(DescribeProducersTopic)


@nested
class ActiveProducer:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@nested
class DescribeProducersPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    active_producers: tuple[ActiveProducer, ...] = array(ActiveProducer)


@nested
class DescribeProducersTopicResponse:
    name: str = string()
    partitions: tuple[DescribeProducersPartitionResponse, ...] = array(DescribeProducersPartitionResponse)


@response(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)
class DescribeProducersResponse:
    throttle_time_ms: int = int32(default=0)
    topics: tuple[DescribeProducersTopicResponse, ...] = array(DescribeProducersTopicResponse)


@request(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...] = array(Kind.STRING)


@nested
class DescribedTransactionTopic:
    topic: str = string()
    partitions: tuple[int, ...] = array(Kind.INT32)


@nested
class DescribedTransaction:
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: tuple[DescribedTransactionTopic, ...] = array(DescribedTransactionTopic)


@response(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class DescribeTransactionsResponse:
    throttle_time_ms: int = int32(default=0)
    transaction_states: tuple[DescribedTransaction, ...] = array(DescribedTransaction)


@request(ApiKey.LIST_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class ListTransactionsRequest:
    state_filters: tuple[str, ...] = array(Kind.STRING)
    producer_id_filters: tuple[int, ...] = array(Kind.INT64)


@nested
class ListedTransaction:
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@response(ApiKey.LIST_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class ListTransactionsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: tuple[str, ...] = array(Kind.STRING)
    transaction_states: tuple[ListedTransaction, ...] = array(ListedTransaction)
