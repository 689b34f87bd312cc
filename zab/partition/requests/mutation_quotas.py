"""`controller_mutation_rate`: how many partitions a client may create and delete in a second (KIP-599).

Each topic of a request costs its partitions: those that it gets, or has. Once the client has used more than it may, a
request of a version since which clients know the error is refused topic by topic (THROTTLING_QUOTA_EXCEEDED), with the
time after which it may try again; an older one is carried out, and its client waits afterwards.

It is measured at the broker that is asked, which passes the request on to the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
    DeletableTopicResult,
    DeleteTopicState,
)
from zab.kafka.primitives import ZERO_UUID
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.request import Request
from zab.partition.requests.throttling import Throttling

CREATE_SINCE: Final = 6
CREATE_PARTITIONS_SINCE: Final = 3
DELETE_SINCE: Final = 5
"""The versions of the three requests since which a topic may be refused with this error."""
_EXCEEDED: Final = ErrorCode.THROTTLING_QUOTA_EXCEEDED
_TEXT: Final = "The throttling quota has been exceeded."


class MutationQuotas:
    """Makes handlers that keep to the quota."""

    def __init__(self, throttling: Throttling, image: Callable[[], ClusterImage], partition_count: int) -> None:
        """`partition_count`: of a topic whose creator names none."""
        self._throttling = throttling
        self._image = image
        self._partition_count = partition_count

    def create(self, handler: Handler) -> Handler:
        """CreateTopics."""

        def cost(topic: CreatableTopic) -> int:
            count = topic.num_partitions if topic.num_partitions > 0 else self._partition_count
            return len(topic.assignments) or count

        return self._limited(handler, CREATE_SINCE, "topics", "topics", cost, _not_created)

    def create_partitions(self, handler: Handler) -> Handler:
        """CreatePartitions."""

        def cost(topic: CreatePartitionsTopic) -> int:
            return max(0, topic.count - self._count_of(topic.name))

        return self._limited(handler, CREATE_PARTITIONS_SINCE, "topics", "results", cost, _not_grown)

    def delete(self, handler: Handler) -> Handler:
        """DeleteTopics: by their names, or as topics."""

        def cost(topic: DeleteTopicState) -> int:
            found = self._image().topic_of(topic.topic_id) if topic.name is None else None
            return self._count_of(topic.name or ("" if found is None else found.name))

        topics = self._limited(handler, DELETE_SINCE, "topics", "responses", cost, _not_deleted)
        return self._limited(topics, DELETE_SINCE, "topic_names", "responses", self._count_of, _name_not_deleted)

    def _count_of(self, name: str) -> int:
        topic = self._image().topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def _limited(
        self,
        handler: Handler,
        strict_since: int,
        field: str,
        results: str,
        cost: Callable[[Any], int],
        refusal: Callable[[Any], Any],
    ) -> Handler:
        """`field` of the request has the topics, `results` of the answer what became of them."""

        def handle(request: Request) -> None:
            topics = getattr(request.body, field)
            if topics and self._throttling.limits_mutations and not getattr(request.body, "validate_only", False):
                self._limit(request, request.version >= strict_since, field, results, cost, refusal)
            handler(request)

        return handle

    def _limit(
        self,
        request: Request,
        is_strict: bool,
        field: str,
        results: str,
        cost: Callable[[Any], int],
        refusal: Callable[[Any], Any],
    ) -> None:
        allowed: list[Any] = []
        refused: list[Any] = []
        wait_ms = 0
        for topic in getattr(request.body, field):
            ms, is_allowed = self._throttling.mutated(request, cost(topic), is_strict=is_strict)
            wait_ms = max(wait_ms, ms)
            (allowed if is_allowed else refused).append(topic)
        if not wait_ms:
            return
        before = request.amend

        def amend(answer: Any) -> Any:
            answer = answer if before is None else before(answer)
            added = (*getattr(answer, results), *map(refusal, refused))
            throttle_ms = max(answer.throttle_time_ms, wait_ms)
            return attrs.evolve(answer, throttle_time_ms=throttle_ms, **{results: added})

        request.amend = amend
        request.body = attrs.evolve(request.body, **{field: tuple(allowed)})


def _not_created(topic: CreatableTopic) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=ZERO_UUID,
        error_code=_EXCEEDED,
        error_message=_TEXT,
        num_partitions=-1,
        replication_factor=-1,
        configs=(),
    )


def _not_grown(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=topic.name, error_code=_EXCEEDED, error_message=_TEXT)


def _not_deleted(topic: DeleteTopicState) -> DeletableTopicResult:
    return DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=_EXCEEDED, error_message=_TEXT)


def _name_not_deleted(name: str) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=ZERO_UUID, error_code=_EXCEEDED, error_message=_TEXT)
