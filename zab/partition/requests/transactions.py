"""Requests about transactions: handed to the coordinator under a token, and answered when it answers.

AddPartitionsToTxn fails as a whole: if one partition cannot be added, the others are not attempted
(OPERATION_NOT_ATTEMPTED). AddOffsetsToTxn adds the partition of `__consumer_offsets` in which the group lives. Versions
that do not know PRODUCER_FENCED are told INVALID_PRODUCER_EPOCH.

WriteTxnMarkers comes from coordinators, and from operators who end a transaction that hangs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.between_brokers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from zab.kafka.messages.transaction_admin import (
    ActiveProducer,
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from zab.kafka.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from zab.partition.coordinator.effects import Answer
from zab.partition.image.cluster_image import CONSUMER_OFFSETS, INTERNAL, ClusterImage
from zab.partition.replica.replica import ReplicaError
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request
from zab.partition.transactions import requests as asking
from zab.partition.transactions.coordinator import TransactionCoordinator
from zab.partition.transactions.describing import NAMES
from zab.partition.transactions.marker import Marker, MarkerDone
from zab.partition.transactions.results import Described, Descriptions, Done, Initialized, Listed

_NONE: Final = -1
_FENCED_SINCE: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The versions from which on clients know PRODUCER_FENCED."""


class TransactionRequests:
    """See the docstring of the module."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        image: Callable[[], ClusterImage],
        replicas: Replicas,
        group_partition: Callable[[str], int],
        create_offsets: Callable[[], None],
        init_without: Handler,
        write_marker: Callable[[Marker, MarkerDone], None],
    ) -> None:
        """`group_partition`: the partition of `__consumer_offsets` of a group; `create_offsets` has that topic created.
        `init_without` handles InitProducerId of a producer without transactions. `write_marker` writes one as the
        leader of its partition."""
        self._coordinator = coordinator
        self._image = image
        self._replicas = replicas
        self._group_partition = group_partition
        self._create_offsets = create_offsets
        self._init_without = init_without
        self._write_marker = write_marker
        self._count = 0
        self._answers: dict[int, Callable[[Any], None]] = {}
        """What is done with the result of each token."""

    def handlers(self) -> dict[int, Handler]:
        """The handler of each key."""
        return {
            ApiKey.INIT_PRODUCER_ID: self._init,
            ApiKey.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKey.END_TXN: self._end,
            ApiKey.WRITE_TXN_MARKERS: self._write_markers,
            ApiKey.DESCRIBE_PRODUCERS: self._describe_producers,
            ApiKey.DESCRIBE_TRANSACTIONS: self._describe,
            ApiKey.LIST_TRANSACTIONS: self._list,
        }

    def answer(self, answer: Answer) -> None:
        """The coordinator has answered."""
        self._answers.pop(answer.token)(answer.result)

    def _ask(self, request: Request, question: asking.Request, answered: Callable[[Any], Any]) -> None:
        """Ask the coordinator, and answer with what `answered` makes of its result."""

        def answer(result: Any) -> None:
            if request.is_open:
                request.answer(answered(result))

        self._count += 1
        self._answers[self._count] = answer
        self._coordinator.request(self._count, question)

    # ---------------------------------------------------------------------------------------------------- of producers

    def _init(self, request: Request) -> None:
        """Handle InitProducerId."""
        body: InitProducerIdRequest = request.body
        if body.transactional_id is None:
            self._init_without(request)
            return
        expected = None if body.producer_id == _NONE else (body.producer_id, body.producer_epoch)
        question = asking.Initialize(
            transactional_id=body.transactional_id, timeout_ms=body.transaction_timeout_ms, expected=expected
        )

        def answered(result: Initialized) -> InitProducerIdResponse:
            return InitProducerIdResponse(
                error_code=_error(request, result.error), producer_id=result.producer_id, producer_epoch=result.epoch
            )

        self._ask(request, question, answered)

    def _add_partitions(self, request: Request) -> None:
        """Handle AddPartitionsToTxn."""
        body: AddPartitionsToTxnRequest = request.body
        wanted = [(topic.name, index) for topic in body.topics for index in topic.partitions]
        errors = [self._addable(*each) for each in wanted]
        answered = partial(_added, request)
        if any(errors):
            failed = [ErrorCode.OPERATION_NOT_ATTEMPTED if each is ErrorCode.NONE else each for each in errors]
            request.answer(answered(failed))
            return
        question = asking.AddPartitions(
            transactional_id=body.transactional_id,
            producer_id=body.producer_id,
            epoch=body.producer_epoch,
            partitions=tuple(wanted),
        )
        self._ask(request, question, lambda done: answered([_error(request, done.error)] * len(wanted)))

    def _addable(self, name: str, index: int) -> ErrorCode:
        topic = self._image().topics.get(name)
        if topic is None or index not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.INVALID_TOPIC_EXCEPTION if name in INTERNAL else ErrorCode.NONE

    def _add_offsets(self, request: Request) -> None:
        """Handle AddOffsetsToTxn."""
        body: AddOffsetsToTxnRequest = request.body
        if CONSUMER_OFFSETS not in self._image().topics:
            self._create_offsets()
            request.answer(AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        question = asking.AddPartitions(
            transactional_id=body.transactional_id,
            producer_id=body.producer_id,
            epoch=body.producer_epoch,
            partitions=((CONSUMER_OFFSETS, self._group_partition(body.group_id)),),
        )
        self._ask(request, question, lambda done: AddOffsetsToTxnResponse(error_code=_error(request, done.error)))

    def _end(self, request: Request) -> None:
        """Handle EndTxn."""
        body: EndTxnRequest = request.body
        question = asking.End(
            transactional_id=body.transactional_id,
            producer_id=body.producer_id,
            epoch=body.producer_epoch,
            commits=body.committed,
        )

        def answered(done: Done) -> EndTxnResponse:
            return EndTxnResponse(error_code=_error(request, done.error))

        self._ask(request, question, answered)

    # ---------------------------------------------------------------------------------------------------- of operators

    def _describe(self, request: Request) -> None:
        """Handle DescribeTransactions."""
        body: DescribeTransactionsRequest = request.body

        def answered(found: Descriptions) -> DescribeTransactionsResponse:
            return DescribeTransactionsResponse(transaction_states=tuple(map(_described, found.transactions)))

        self._ask(request, asking.Describe(transactional_ids=body.transactional_ids), answered)

    def _list(self, request: Request) -> None:
        """Handle ListTransactions."""
        body: ListTransactionsRequest = request.body
        question = asking.List(states=body.state_filters, producer_ids=body.producer_id_filters)

        def answered(found: Listed) -> ListTransactionsResponse:
            return ListTransactionsResponse(
                error_code=found.error,
                unknown_state_filters=found.unknown_states,
                transaction_states=tuple(
                    ListedTransaction(
                        transactional_id=name,
                        producer_id=state.producer_id,
                        transaction_state=NAMES[state.status],
                    )
                    for name, state in found.transactions
                ),
            )

        self._ask(request, question, answered)

    def _describe_producers(self, request: Request) -> None:
        """Handle DescribeProducers."""
        body: DescribeProducersRequest = request.body
        request.answer(
            DescribeProducersResponse(
                topics=tuple(
                    DescribeProducersTopicResponse(
                        name=topic.name,
                        partitions=tuple(self._producers_of(topic.name, index) for index in topic.partition_indexes),
                    )
                    for topic in body.topics
                )
            )
        )

    def _producers_of(self, name: str, index: int) -> DescribeProducersPartitionResponse:
        try:
            replica = self._replicas.asked(name, index)
            replica.leading()
        except ReplicaError as error:
            return DescribeProducersPartitionResponse(
                partition_index=index, error_code=error.error, error_message=str(error), active_producers=()
            )
        return DescribeProducersPartitionResponse(
            partition_index=index,
            error_code=ErrorCode.NONE,
            active_producers=tuple(
                ActiveProducer(
                    producer_id=producer_id,
                    producer_epoch=state.epoch,
                    last_sequence=state.last_sequence,
                    last_timestamp=state.timestamp,
                    coordinator_epoch=state.coordinator_epoch,
                    current_txn_start_offset=state.transaction_first_offset,
                )
                for producer_id, state in replica.log.producers.states.items()
            ),
        )

    # --------------------------------------------------------------------------------------------------------- markers

    def _write_markers(self, request: Request) -> None:
        """Handle WriteTxnMarkers."""
        body: WriteTxnMarkersRequest = request.body
        marking = _Marking(request, [(each.producer_id, _undecided(each)) for each in body.markers])
        marking.left = 1 + sum(len(topic.partition_indexes) for each in body.markers for topic in each.topics)
        for at, each in enumerate(body.markers):
            for topic in each.topics:
                for index in topic.partition_indexes:
                    marker = Marker(
                        topic=topic.name,
                        index=index,
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        commits=each.transaction_result,
                        coordinator_epoch=each.coordinator_epoch,
                    )
                    self._write_marker(marker, partial(marking.done, at, topic.name, index))
        marking.answer_if_done()


@attrs.define(eq=False)
class _Marking:
    """A WriteTxnMarkers request, and what is known of its markers."""

    request: Request
    results: list[tuple[int, dict[str, dict[int, ErrorCode]]]]
    left: int = 0

    def done(self, at: int, topic: str, index: int, error: ErrorCode) -> None:
        self.results[at][1][topic][index] = error
        self.answer_if_done()

    def answer_if_done(self) -> None:
        self.left -= 1
        if self.left or not self.request.is_open:
            return
        self.request.answer(
            WriteTxnMarkersResponse(
                markers=tuple(
                    WritableTxnMarkerResult(
                        producer_id=producer_id,
                        topics=tuple(
                            WritableTxnMarkerTopicResult(
                                name=name,
                                partitions=tuple(
                                    WritableTxnMarkerPartitionResult(partition_index=index, error_code=error)
                                    for index, error in errors.items()
                                ),
                            )
                            for name, errors in topics.items()
                        ),
                    )
                    for producer_id, topics in self.results
                )
            )
        )


def _undecided(marker: WritableTxnMarker) -> dict[str, dict[int, ErrorCode]]:
    """The partitions of a marker, in its order."""
    return {each.name: dict.fromkeys(each.partition_indexes, ErrorCode.UNKNOWN_SERVER_ERROR) for each in marker.topics}


def _error(request: Request, error: ErrorCode) -> ErrorCode:
    """The error as this version knows it."""
    since = _FENCED_SINCE[ApiKey(request.header.api_key)]
    is_new = error is ErrorCode.PRODUCER_FENCED and request.version < since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else error


def _added(request: Request, errors: Sequence[ErrorCode]) -> AddPartitionsToTxnResponse:
    body: AddPartitionsToTxnRequest = request.body
    left = iter(errors)
    return AddPartitionsToTxnResponse(
        results_by_topic=tuple(
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=next(left))
                    for index in topic.partitions
                ),
            )
            for topic in body.topics
        )
    )


def _described(found: Described) -> DescribedTransaction:
    state = found.state
    if state is None:
        return DescribedTransaction(
            error_code=found.error,
            transactional_id=found.transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=_NONE,
            producer_id=_NONE,
            producer_epoch=_NONE,
            topics=(),
        )
    topics: dict[str, list[int]] = {}
    for name, index in sorted(state.partitions):
        topics.setdefault(name, []).append(index)
    return DescribedTransaction(
        error_code=found.error,
        transactional_id=found.transactional_id,
        transaction_state=NAMES[TransactionStatus(state.status)],
        transaction_timeout_ms=state.timeout_ms,
        transaction_start_time_ms=state.started,
        producer_id=state.producer_id,
        producer_epoch=state.epoch,
        topics=tuple(DescribedTransactionTopic(topic=name, partitions=tuple(topics[name])) for name in topics),
    )
