"""CreateTopics, CreatePartitions and DeleteTopics: the controller does them, for whichever broker is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from zab.kafka.primitives import ZERO_UUID, Uuid, uuid_text
from zab.partition.controller.requests import (
    Answer,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    TopicOutcome,
)
from zab.partition.controller.znodes import uuid_bytes
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.request import Request

IDS_SINCE = 6
"""The version of DeleteTopics from which on a topic may be named by its id."""
AUTO_CREATE_TIMEOUT_MS = 60_000
CREATING_MAX = 100
"""How many topics are created on the way at a time."""


class TopicRequests:
    """Asks the controller."""

    def __init__(
        self,
        controller: AskingController,
        image: Callable[[], ClusterImage],
        settings_of: Callable[[Mapping[str, str]], tuple[CreatableTopicConfigs, ...]],
    ) -> None:
        """`settings_of`: all settings of a topic that is created with these."""
        self._controller = controller
        self._image = image
        self._settings_of = settings_of
        self._creating: set[str] = set()
        """Topics that are being created on the way."""

    def create(self, request: Request) -> None:
        """Handle CreateTopics."""
        body: CreateTopicsRequest = request.body
        names = [topic.name for topic in body.topics]
        twice = {name for name in names if names.count(name) > 1}
        refused = {name: TopicOutcome(ErrorCode.INVALID_REQUEST, f"{name} is asked for twice") for name in twice}
        topics = tuple(_new_topic(topic) for topic in body.topics if topic.name not in refused)

        def answered(answer: Answer) -> None:
            outcomes = {**refused, **_outcomes(answer, [topic.name for topic in topics])}
            config_of = {topic.name: topic.config or {} for topic in topics}
            results = tuple(self._created(name, outcome, config_of.get(name)) for name, outcome in outcomes.items())
            request.answer(CreateTopicsResponse(topics=results))

        self._controller.ask(lambda token: CreateTopics(token, topics, body.timeout_ms, body.validate_only), answered)

    def _created(self, name: str, outcome: TopicOutcome, config: Mapping[str, str] | None) -> CreatableTopicResult:
        return CreatableTopicResult(
            name=name,
            topic_id=Uuid(uuid_bytes(outcome.topic_id)) if outcome.topic_id else ZERO_UUID,
            error_code=outcome.error,
            error_message=outcome.message,
            num_partitions=outcome.partition_count,
            replication_factor=outcome.replication_factor,
            configs=() if outcome.error or config is None else self._settings_of(config),
        )

    def create_on_the_way(self, name: str) -> None:
        """Create this topic with defaults, unless that is under way, or so many are: then who asks again has it
        created."""
        if name not in self._creating and len(self._creating) < CREATING_MAX:
            self._creating.add(name)
            self._controller.ask(
                lambda token: CreateTopics(token, (NewTopic(name),), AUTO_CREATE_TIMEOUT_MS),
                lambda _answer: self._creating.discard(name),
            )

    def create_partitions(self, request: Request) -> None:
        """Handle CreatePartitions."""
        body: CreatePartitionsRequest = request.body
        topics = tuple(
            NewPartitions(
                topic.name,
                topic.count,
                None if topic.assignments is None else tuple(each.broker_ids for each in topic.assignments),
            )
            for topic in body.topics
        )

        def answered(answer: Answer) -> None:
            results = tuple(
                CreatePartitionsTopicResult(name=name, error_code=outcome.error, error_message=outcome.message)
                for name, outcome in _outcomes(answer, [topic.topic for topic in topics]).items()
            )
            request.answer(CreatePartitionsResponse(results=results))

        self._controller.ask(
            lambda token: CreatePartitions(token, topics, body.timeout_ms, body.validate_only), answered
        )

    def delete(self, request: Request) -> None:
        """Handle DeleteTopics: by names, or by ids."""
        body: DeleteTopicsRequest = request.body
        results: list[DeletableTopicResult] = []
        names: list[str] = list(body.topic_names)
        ids: list[str] = []
        for topic in body.topics:
            if topic.name is not None and topic.topic_id != ZERO_UUID:
                message = "a topic is named by its name or by its id"
                results.append(_deleted(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, message))
            elif topic.name is not None:
                names.append(topic.name)
            else:
                ids.append(uuid_text(topic.topic_id))
        left = [kind for kind in (names, ids) if kind]

        def answer_if_complete() -> None:
            if not left:
                request.answer(DeleteTopicsResponse(responses=tuple(results)))

        def of_names(answer: Answer) -> None:
            for name, outcome in _outcomes(answer, names).items():
                topic_id = Uuid(uuid_bytes(outcome.topic_id)) if outcome.topic_id else ZERO_UUID
                results.append(_deleted(name, topic_id, outcome.error, outcome.message))
            left.remove(names)
            answer_if_complete()

        def of_ids(answer: Answer) -> None:
            for text, outcome in _outcomes(answer, ids).items():
                topic_id = Uuid(uuid_bytes(text))
                name = self._image().names.get(topic_id)
                results.append(_deleted(name, topic_id, outcome.error, outcome.message))
            left.remove(ids)
            answer_if_complete()

        if names:
            self._controller.ask(lambda token: DeleteTopics(token, tuple(names), body.timeout_ms), of_names)
        if ids:
            self._controller.ask(lambda token: DeleteTopics(token, tuple(ids), body.timeout_ms, by_id=True), of_ids)
        answer_if_complete()


def _new_topic(topic: CreatableTopic) -> NewTopic:
    assignments = {each.partition_index: each.broker_ids for each in topic.assignments}
    config = {each.name: each.value for each in topic.configs if each.value is not None}
    return NewTopic(topic.name, topic.num_partitions, topic.replication_factor, assignments or None, config or None)


def _outcomes(answer: Answer, names: list[str]) -> dict[str, TopicOutcome]:
    """An outcome for each topic, also if the request was refused as a whole."""
    if answer.error is not ErrorCode.NONE or answer.topics is None:
        return {name: TopicOutcome(answer.error, answer.message) for name in names}
    return dict(answer.topics)


def _deleted(name: str | None, topic_id: Uuid, error: ErrorCode, message: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error, error_message=message)
