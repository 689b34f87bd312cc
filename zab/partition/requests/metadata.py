"""Metadata and DescribeCluster: where the brokers are, which topics there are, and who leads what.

Clients are told the address of the listener through which they came. A topic that is asked for and is not there may be
created on the way: this round is answered with LEADER_NOT_AVAILABLE, and the client asks again.

A broker that has just started and was not told of any broker yet closes the connection, and the client asks another
one. An answer without brokers would have librdkafka forget all of those that it knows, for ever.

Who may not describe a topic is not told whether it exists: it is missing where all are asked for, and otherwise
answered TOPIC_AUTHORIZATION_FAILED. To have one created on the way needs Create, on it or on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.metadata import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from zab.kafka.primitives import ZERO_UUID, Uuid
from zab.partition.access.acls import CLUSTER_NAME, Operation, ResourceType
from zab.partition.image.cluster_image import ClusterImage, Topic
from zab.partition.image.partition_state import NO_LEADER, PartitionState
from zab.partition.requests.request import Request
from zab.partition.settings.topic_names import is_valid

NO_OPERATIONS_ASKED = -(1 << 31)
_IDS_SINCE = 12
"""The version from which on a topic may be asked for by its id."""
_NULL_SINCE = 1
"""The version from which on no topics are asked for by an empty list, and all of them by null."""
_ENDPOINT_OF_BROKERS = 1
_UNTOLD = "this broker does not know the cluster yet"


class MetadataRequests:
    """Answers from the image."""

    def __init__(self, image: Callable[[], ClusterImage], create: Callable[[str], None] | None) -> None:
        """`create` begins to create a topic with defaults; None: topics are not created on the way."""
        self._image = image
        self._create = create

    def metadata(self, request: Request) -> None:
        """Handle Metadata."""
        if not self._image().brokers:
            request.close(_UNTOLD)
            return
        request.answer(self.answer(request))

    def answer(self, request: Request) -> MetadataResponse:
        """The answer to Metadata."""
        body: MetadataRequest = request.body
        image, listener = self._image(), request.listener
        topics: Iterable[MetadataResponseTopic]
        if body.topics is None or (request.version < _NULL_SINCE and not body.topics):
            topics = (
                self._topic(request, image, topic)
                for topic in image.topics.values()
                if request.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, is_told=False)
            )
        else:
            topics = (self._asked(request, image, asked) for asked in body.topics)
        brokers = (
            MetadataResponseBroker(node_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.brokers.values()
            if (endpoint := broker.endpoints.get(listener)) is not None
        )
        asks = body.include_cluster_authorized_operations
        return MetadataResponse(
            brokers=tuple(brokers),
            cluster_id=image.cluster_id,
            controller_id=image.controller,
            topics=tuple(topics),
            cluster_authorized_operations=_cluster_operations(request) if asks else NO_OPERATIONS_ASKED,
        )

    def _asked(self, request: Request, image: ClusterImage, asked: MetadataRequestTopic) -> MetadataResponseTopic:
        if request.version >= _IDS_SINCE and (asked.name is None or asked.topic_id != ZERO_UUID):
            # Java's clients send an empty name beside an id.
            topic = image.topic_of(asked.topic_id)
            if topic is None:
                return _error(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
            if not request.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                # An id is nothing secret; the name may be.
                return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, asked.topic_id)
            return self._topic(request, image, topic)
        name = asked.name
        if name is None:
            return _error(ErrorCode.INVALID_REQUEST, "")
        if not request.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        topic = image.topics.get(name)
        if topic is not None:
            return self._topic(request, image, topic)
        if not is_valid(name):
            return _error(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
        if request.body.allow_auto_topic_creation and self._create is not None:
            if not _may_create(request, name):
                return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
            self._create(name)
            return _error(ErrorCode.LEADER_NOT_AVAILABLE, name)
        return _error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)

    def _topic(self, request: Request, image: ClusterImage, topic: Topic) -> MetadataResponseTopic:
        asks = request.body.include_topic_authorized_operations
        return MetadataResponseTopic(
            error_code=ErrorCode.NONE,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=tuple(
                _partition(image, index, state, request.listener) for index, state in sorted(topic.partitions.items())
            ),
            topic_authorized_operations=request.operations(ResourceType.TOPIC, topic.name)
            if asks
            else NO_OPERATIONS_ASKED,
        )

    def describe_cluster(self, request: Request) -> None:
        """Handle DescribeCluster."""
        if not self._image().brokers:
            request.close(_UNTOLD)
            return
        request.answer(self.description(request.body, request.listener))

    def description(self, request: DescribeClusterRequest, listener: str) -> DescribeClusterResponse:
        """The answer to DescribeCluster that came through this listener."""
        image = self._image()
        if request.endpoint_type != _ENDPOINT_OF_BROKERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"endpoint type {request.endpoint_type} is not that of brokers, {_ENDPOINT_OF_BROKERS}",
                endpoint_type=request.endpoint_type,
                cluster_id=image.cluster_id,
                brokers=(),
            )
        brokers = (
            DescribeClusterBroker(broker_id=broker.id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in image.brokers.values()
            if (endpoint := broker.endpoints.get(listener)) is not None
        )
        return DescribeClusterResponse(
            error_code=ErrorCode.NONE,
            cluster_id=image.cluster_id,
            controller_id=image.controller,
            brokers=tuple(brokers),
        )


def _may_create(request: Request, name: str) -> bool:
    of_all = request.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False)
    return of_all or request.may(Operation.CREATE, ResourceType.TOPIC, name)


def _cluster_operations(request: Request) -> int:
    """What a client may do with the cluster; nothing if it may not know."""
    if not request.may(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME, is_told=False):
        return 0
    return request.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _partition(image: ClusterImage, index: int, state: PartitionState, listener: str) -> MetadataResponsePartition:
    leader = state.leader
    broker = image.brokers.get(leader)
    has_leader = broker is not None and listener in broker.endpoints
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=leader if has_leader else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=state.isr,
        offline_replicas=tuple(replica for replica in state.replicas if replica not in image.brokers),
    )


def _error(error: ErrorCode, name: str | None, topic_id: Uuid = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=())
