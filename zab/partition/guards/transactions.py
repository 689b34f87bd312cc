"""Guards of requests about producers and transactions.

A transactional id that its client may not write to is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from typing import Any

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.between_brokers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from zab.kafka.messages.transaction_admin import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
)
from zab.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType
from zab.partition.guards.parts import changed, leave_out, needs, split
from zab.partition.requests.request import Request

_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_ID = ResourceType.TRANSACTIONAL_ID
_FAILED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_GROUP_FAILED = ErrorCode.GROUP_AUTHORIZATION_FAILED
_TOPIC_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NONE = -1


def _id_of(body: Any) -> str:
    return str(body.transactional_id)


def init_producer_id(request: Request) -> bool:
    """Write on the transactional id. Without one: Write on any topic, or IdempotentWrite."""
    body: InitProducerIdRequest = request.body
    if body.transactional_id is not None:
        error, is_allowed = _FAILED, request.may(Operation.WRITE, _ID, body.transactional_id)
    else:
        is_idempotent = request.may(Operation.IDEMPOTENT_WRITE, _CLUSTER, CLUSTER_NAME, is_told=False)
        is_allowed = is_idempotent or request.may_any(Operation.WRITE, _TOPIC)
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    if not is_allowed:
        request.answer(InitProducerIdResponse(error_code=error, producer_id=_NONE, producer_epoch=_NONE))
    return is_allowed


end = needs(Operation.WRITE, _ID, _id_of, lambda _request: EndTxnResponse(error_code=_FAILED))


def add_offsets(request: Request) -> bool:
    """Write on the transactional id, Read on the group."""
    body: AddOffsetsToTxnRequest = request.body
    error = ErrorCode.NONE
    if not request.may(Operation.WRITE, _ID, body.transactional_id):
        error = _FAILED
    elif not request.may(Operation.READ, _GROUP, body.group_id):
        error = _GROUP_FAILED
    if error is not ErrorCode.NONE:
        request.answer(AddOffsetsToTxnResponse(error_code=error))
    return error is ErrorCode.NONE


def add_partitions(request: Request) -> bool:
    """Write on the transactional id, and on all topics: otherwise none is added."""
    body: AddPartitionsToTxnRequest = request.body
    if not request.may(Operation.WRITE, _ID, body.transactional_id):
        errors = dict.fromkeys((topic.name for topic in body.topics), _FAILED)
    else:
        _, refused = split(body.topics, lambda topic: request.may(Operation.WRITE, _TOPIC, topic.name))
        if not refused:
            return True
        errors = dict.fromkeys((topic.name for topic in body.topics), ErrorCode.OPERATION_NOT_ATTEMPTED)
        errors |= dict.fromkeys((topic.name for topic in refused), _TOPIC_FAILED)
    request.answer(
        AddPartitionsToTxnResponse(
            results_by_topic=tuple(
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=tuple(
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=errors[topic.name]
                        )
                        for index in topic.partitions
                    ),
                )
                for topic in body.topics
            )
        )
    )
    return False


def commit_offsets(request: Request) -> bool:
    """Write on the transactional id, Read on the group and on each topic."""
    body: TxnOffsetCommitRequest = request.body
    error = ErrorCode.NONE
    if not request.may(Operation.WRITE, _ID, body.transactional_id):
        error = _FAILED
    elif not request.may(Operation.READ, _GROUP, body.group_id):
        error = _GROUP_FAILED
    if error is not ErrorCode.NONE:
        request.answer(TxnOffsetCommitResponse(topics=_commit_refused(body.topics, error)))
        return False
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.READ, _TOPIC, topic.name))
    leave_out(request, "topics", allowed, "topics", _commit_refused(refused, _TOPIC_FAILED))
    return True


def _commit_refused(topics: tuple[Any, ...], error: ErrorCode) -> tuple[TxnOffsetCommitResponseTopic, ...]:
    return tuple(
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error)
                for each in topic.partitions
            ),
        )
        for topic in topics
    )


def write_markers(request: Request) -> bool:
    """Alter or ClusterAction on the cluster."""
    body: WriteTxnMarkersRequest = request.body
    alters = request.may(Operation.ALTER, _CLUSTER, CLUSTER_NAME, is_told=False)
    if alters or request.may(Operation.CLUSTER_ACTION, _CLUSTER, CLUSTER_NAME):
        return True
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    request.answer(
        WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in body.markers
            )
        )
    )
    return False


def describe(request: Request) -> bool:
    """Describe on each transactional id. Topics that its client may not describe are left out."""
    body: DescribeTransactionsRequest = request.body
    allowed, refused = split(body.transactional_ids, lambda name: request.may(Operation.DESCRIBE, _ID, name))
    added = tuple(
        DescribedTransaction(
            error_code=_FAILED,
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=_NONE,
            producer_id=_NONE,
            producer_epoch=_NONE,
            topics=(),
        )
        for name in refused
    )

    def amended(found: DescribedTransaction) -> DescribedTransaction:
        topics, _ = split(
            found.topics, lambda topic: request.may(Operation.DESCRIBE, _TOPIC, topic.topic, is_told=False)
        )
        return changed(found, topics=topics)

    def amend(answer: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        return changed(answer, transaction_states=(*map(amended, answer.transaction_states), *added))

    request.body, request.amend = changed(body, transactional_ids=allowed), amend
    return True


def list_transactions(request: Request) -> bool:
    """Transactions whose ids its client may not describe are left out."""

    def amend(answer: ListTransactionsResponse) -> ListTransactionsResponse:
        states, _ = split(
            answer.transaction_states,
            lambda each: request.may(Operation.DESCRIBE, _ID, each.transactional_id, is_told=False),
        )
        return changed(answer, transaction_states=states)

    request.amend = amend
    return True
