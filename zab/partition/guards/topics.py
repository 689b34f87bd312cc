"""Guards of requests about topics and their partitions.

What is refused of a request does not reach its handler, and is in the answer after what is allowed, with
TOPIC_AUTHORIZATION_FAILED. Whether a topic exists is told only to those who may describe it.
"""

from __future__ import annotations

from collections.abc import Callable

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopicResult,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from zab.kafka.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from zab.kafka.messages.topics import (
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from zab.kafka.messages.transaction_admin import (
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersTopicResponse,
)
from zab.kafka.primitives import ZERO_UUID
from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType
from zab.partition.guards.parts import REFUSED, changed, leave_out, split
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.requests.request import Request

_TOPIC = ResourceType.TOPIC
_FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_NONE = -1
_ACKS_OF_NOBODY = 0


def produce(request: Request) -> bool:
    """Write on the transactional id, if there is one; its handler asks for each topic."""
    body: ProduceRequest = request.body
    name = body.transactional_id
    if name is None or request.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return True
    if body.acks == _ACKS_OF_NOBODY:
        request.close("a produce with acks=0 failed")
        return False
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    request.answer(
        ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=tuple(
                        PartitionProduceResponse(
                            index=each.index, error_code=error, base_offset=_NONE, error_message=REFUSED
                        )
                        for each in topic.partition_data
                    ),
                )
                for topic in body.topic_data
            )
        )
    )
    return False


def list_offsets(request: Request) -> bool:
    """Describe on each topic."""
    body: ListOffsetsRequest = request.body
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.DESCRIBE, _TOPIC, topic.name))
    added = tuple(
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=tuple(
                ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=_FAILED)
                for each in topic.partitions
            ),
        )
        for topic in refused
    )
    leave_out(request, "topics", allowed, "topics", added)
    return True


def offset_for_leader_epoch(request: Request) -> bool:
    """Describe on each topic, or ClusterAction."""
    body: OffsetForLeaderEpochRequest = request.body
    if request.may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False):
        return True
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.DESCRIBE, _TOPIC, topic.topic))
    added = tuple(
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=tuple(
                OffsetForLeaderPartitionResult(error_code=_FAILED, partition=each.partition)
                for each in topic.partitions
            ),
        )
        for topic in refused
    )
    leave_out(request, "topics", allowed, "topics", added)
    return True


def delete_records(request: Request) -> bool:
    """Delete on each topic."""
    body: DeleteRecordsRequest = request.body
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.DELETE, _TOPIC, topic.name))
    added = tuple(
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=tuple(
                DeleteRecordsPartitionResult(
                    partition_index=each.partition_index, low_watermark=_NONE, error_code=_FAILED
                )
                for each in topic.partitions
            ),
        )
        for topic in refused
    )
    leave_out(request, "topics", allowed, "topics", added)
    return True


def describe_producers(request: Request) -> bool:
    """Read on each topic."""
    body: DescribeProducersRequest = request.body
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.READ, _TOPIC, topic.name))
    added = tuple(
        DescribeProducersTopicResponse(
            name=topic.name,
            partitions=tuple(
                DescribeProducersPartitionResponse(
                    partition_index=index, error_code=_FAILED, error_message=REFUSED, active_producers=()
                )
                for index in topic.partition_indexes
            ),
        )
        for topic in refused
    )
    leave_out(request, "topics", allowed, "topics", added)
    return True


# ------------------------------------------------------------------------------------------------------- administration


def create_topics(request: Request) -> bool:
    """Create on the cluster or on each topic. Only who has DescribeConfigs on a topic is told its settings."""
    body: CreateTopicsRequest = request.body
    creates_all = request.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False)
    allowed, refused = split(
        body.topics, lambda topic: creates_all or request.may(Operation.CREATE, _TOPIC, topic.name)
    )
    added = tuple(
        CreatableTopicResult(name=name, error_code=_FAILED, error_message=REFUSED)
        for name in dict.fromkeys(topic.name for topic in refused)
    )
    if refused and not allowed:
        request.answer(CreateTopicsResponse(topics=added))
        return False

    def amend(answer: CreateTopicsResponse) -> CreateTopicsResponse:
        topics = tuple(_without_settings(request, each) for each in answer.topics)
        return changed(answer, topics=topics + added)

    request.body, request.amend = changed(body, topics=allowed), amend
    return True


def _without_settings(request: Request, result: CreatableTopicResult) -> CreatableTopicResult:
    if result.error_code or request.may(Operation.DESCRIBE_CONFIGS, _TOPIC, result.name, is_told=False):
        return result
    return changed(
        result, topic_config_error_code=_FAILED, num_partitions=_NONE, replication_factor=_NONE, configs=None
    )


def create_partitions(request: Request) -> bool:
    """Alter on each topic."""
    body: CreatePartitionsRequest = request.body
    allowed, refused = split(body.topics, lambda topic: request.may(Operation.ALTER, _TOPIC, topic.name))
    added = tuple(
        CreatePartitionsTopicResult(name=topic.name, error_code=_FAILED, error_message=REFUSED) for topic in refused
    )
    leave_out(request, "topics", allowed, "results", added)
    return True


def delete_topics(image: Callable[[], ClusterImage]) -> Callable[[Request], bool]:
    """Delete on each topic. The name of a topic that is given by its id is told to those who may describe it."""

    def guard(request: Request) -> bool:
        body: DeleteTopicsRequest = request.body
        added: list[DeletableTopicResult] = []
        names, refused_names = split(body.topic_names, lambda name: request.may(Operation.DELETE, _TOPIC, name))
        added += [DeletableTopicResult(name=name, error_code=_FAILED, error_message=REFUSED) for name in refused_names]
        topics: list[DeleteTopicState] = []
        for topic in body.topics:
            by_id = image().topic_of(topic.topic_id) if topic.name is None else None
            name = topic.name if by_id is None else by_id.name
            # A topic that is not there is none that anybody is kept from.
            if name is None or request.may(Operation.DELETE, _TOPIC, name):
                topics.append(topic)
                continue
            is_shown = topic.name is not None or request.may(Operation.DESCRIBE, _TOPIC, name, is_told=False)
            added.append(
                DeletableTopicResult(
                    name=name if is_shown else None,
                    topic_id=topic.topic_id if topic.name is None else ZERO_UUID,
                    error_code=_FAILED,
                    error_message=REFUSED,
                )
            )

        def amend(answer: DeleteTopicsResponse) -> DeleteTopicsResponse:
            return changed(answer, responses=answer.responses + tuple(added))

        if added:
            request.body, request.amend = changed(body, topic_names=names, topics=tuple(topics)), amend
        return True

    return guard
