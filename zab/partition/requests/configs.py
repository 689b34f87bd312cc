"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs: the settings of topics and of this broker.

Where a value comes from, the nearest first:

    TOPIC           set for the topic
    BROKER          set for this broker while it runs
    ALL_BROKERS     set for all brokers while they run
    FILE            in the broker's file
    DEFAULT         nowhere

Topics' settings, and the broker's defaults for them, can be changed while brokers run; the controller writes them. What
only the file says is read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeVar

import attrs

from zab.configuration.fields import settings_of
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from zab.kafka.messages.topics import CreatableTopicConfigs
from zab.partition.controller.requests import AlterConfig, Answer
from zab.partition.controller.znodes import DEFAULT_NAME
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.request import Request
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.settings.topic_settings import SettingType, TopicKey, text_of_value, topic_keys

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
SET, DELETE, APPEND, SUBTRACT = range(4)
_KINDS: Final = {TOPIC_RESOURCE: "topics", BROKER_RESOURCE: "brokers"}


class Source(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5


R = TypeVar("R", AlterConfigsResource, IncrementalAlterConfigsResource)


@attrs.define(eq=False)
class BrokerChanges:
    """What is set for brokers while they run, by the names of the settings for brokers."""

    of_all: Mapping[str, str] = attrs.Factory(dict)
    own: Mapping[str, str] = attrs.Factory(dict)


class ConfigRequests:
    """Answers from the image and from the broker's file, and asks the controller for changes."""

    def __init__(
        self,
        config: BrokerConfig,
        changes: BrokerChanges,
        image: Callable[[], ClusterImage],
        broker_id: Callable[[], int],
        controller: AskingController,
    ) -> None:
        self._config = config
        self._changes = changes
        self._image = image
        self._broker_id = broker_id
        self._controller = controller

    # ----------------------------------------------------------------------------------------------------- describing

    def describe(self, request: Request) -> None:
        """Handle DescribeConfigs."""
        body: DescribeConfigsRequest = request.body
        request.answer(DescribeConfigsResponse(results=tuple(self._described(body, each) for each in body.resources)))

    def _described(self, body: DescribeConfigsRequest, asked: DescribeConfigsResource) -> DescribeConfigsResult:
        name, error, message, rows = asked.resource_name, ErrorCode.NONE, None, []
        if asked.resource_type == TOPIC_RESOURCE:
            topic = self._image().topics.get(name)
            if topic is None:
                error, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
            else:
                rows = [self._row(body, key, self._of_topic(key, topic.changes)) for key in topic_keys().values()]
        elif asked.resource_type != BROKER_RESOURCE:
            error, message = ErrorCode.INVALID_REQUEST, f"resource type {asked.resource_type} has no settings here"
        elif name == "":
            chosen = [key for key in topic_keys().values() if key.twin in self._changes.of_all]
            rows = [self._row(body, key, self._of_broker(key, of_all=True), is_twin=True) for key in chosen]
        elif name != str(self._broker_id()):
            error, message = ErrorCode.INVALID_REQUEST, f"broker {name} is to be asked itself"
        else:
            rows = [self._row(body, key, self._of_broker(key), is_twin=True) for key in topic_keys().values()]
            rows += self._of_file(body)
        wanted = asked.configuration_keys
        return DescribeConfigsResult(
            error_code=error,
            error_message=message,
            resource_type=asked.resource_type,
            resource_name=name,
            configs=tuple(row for row in rows if wanted is None or row.name in wanted),
        )

    def of_new_topic(self, changes: Mapping[str, str]) -> tuple[CreatableTopicConfigs, ...]:
        """All settings of a topic that is created with these."""
        found = []
        for key in topic_keys().values():
            _, value, source = self._of_topic(key, changes)[0]
            found.append(
                CreatableTopicConfigs(
                    name=key.name, value=value, read_only=False, config_source=source, is_sensitive=False
                )
            )
        return tuple(found)

    def _of_topic(self, key: TopicKey, changes: Mapping[str, str]) -> list[tuple[str, str, Source]]:
        """Name, value and source of every place that has a value, the nearest first."""
        own = [(key.name, changes[key.name], Source.TOPIC)] if key.name in changes else []
        return [*own, *self._of_broker(key)]

    def _of_broker(self, key: TopicKey, *, of_all: bool = False) -> list[tuple[str, str, Source]]:
        """Name, value and source at this broker. `of_all`: at those that have no value of their own."""
        found = []
        if key.twin in self._changes.own and not of_all:
            found.append((key.twin, self._changes.own[key.twin], Source.BROKER))
        if key.twin in self._changes.of_all:
            found.append((key.twin, self._changes.of_all[key.twin], Source.ALL_BROKERS))
        in_file = getattr(self._config.topics, key.field)
        if in_file != key.default:
            found.append((key.twin, text_of_value(in_file), Source.FILE))
        return [*found, (key.twin, text_of_value(key.default), Source.DEFAULT)]

    @staticmethod
    def _row(
        body: DescribeConfigsRequest,
        key: TopicKey,
        found: list[tuple[str, str, Source]],
        *,
        is_twin: bool = False,
    ) -> DescribeConfigsResourceResult:
        _, value, source = found[0]
        synonyms = found if body.include_synonyms else []
        return DescribeConfigsResourceResult(
            name=key.twin if is_twin else key.name,
            value=value,
            read_only=False,
            config_source=source,
            is_sensitive=False,
            synonyms=tuple(
                DescribeConfigsSynonym(name=name, value=each, source=where) for name, each, where in synonyms
            ),
            config_type=key.type,
            documentation=key.reason if body.include_documentation else None,
        )

    def _of_file(self, body: DescribeConfigsRequest) -> list[DescribeConfigsResourceResult]:
        """What only the file says."""
        rows = []
        for setting in settings_of(BrokerConfig):
            value = setting.of(self._config)
            text = None if value is None or setting.is_secret else _text(value)
            source = Source.DEFAULT if value == setting.default else Source.FILE
            rows.append(
                DescribeConfigsResourceResult(
                    name=setting.key,
                    value=text,
                    read_only=True,
                    config_source=source,
                    is_sensitive=setting.is_secret,
                    synonyms=(DescribeConfigsSynonym(name=setting.key, value=text, source=source),)
                    if body.include_synonyms
                    else (),
                    config_type=_type_of(value),
                    documentation=setting.reason if body.include_documentation else None,
                )
            )
        return rows

    # ------------------------------------------------------------------------------------------------------- altering

    def alter(self, request: Request) -> None:
        """Handle AlterConfigs, which replaces all settings of a resource."""
        body: AlterConfigsRequest = request.body
        changes = {each: {config.name: config.value for config in each.configs} for each in body.resources}
        self._alter(request, body.resources, lambda each: changes[each], AlterConfigsResponse, replaces_all=True)

    def alter_incrementally(self, request: Request) -> None:
        """Handle IncrementalAlterConfigs, which changes single settings."""
        body: IncrementalAlterConfigsRequest = request.body
        self._alter(request, body.resources, self._incremental, IncrementalAlterConfigsResponse, replaces_all=False)

    def _incremental(self, resource: IncrementalAlterConfigsResource) -> dict[str, str | None]:
        """The changes of a resource. Raises ValueError."""
        names = [each.name for each in resource.configs]
        if len(set(names)) < len(names):
            raise ValueError("a setting is named twice")
        changes: dict[str, str | None] = {}
        for each in resource.configs:
            if each.config_operation == DELETE:
                changes[each.name] = None
            elif each.value is None or each.config_operation not in (SET, APPEND, SUBTRACT):
                raise ValueError(f"{each.name}: there is no value, or no such operation")
            elif each.config_operation == SET:
                changes[each.name] = each.value
            else:
                adds = each.config_operation == APPEND
                changes[each.name] = self._listed(resource, each.name, each.value, adds=adds)
        return changes

    def _listed(self, resource: IncrementalAlterConfigsResource, name: str, value: str, *, adds: bool) -> str:
        """A list with these words more, or less. Raises ValueError."""
        present = self._words(resource, name)
        words = [word.strip() for word in value.split(",")]
        after = [*present, *(w for w in words if w not in present)] if adds else [w for w in present if w not in words]
        return ",".join(after)

    def _words(self, resource: IncrementalAlterConfigsResource, name: str) -> list[str]:
        """The words of a list as it is now. Raises ValueError."""
        is_topic = resource.resource_type == TOPIC_RESOURCE
        named = (each for each in topic_keys().values() if name == (each.name if is_topic else each.twin))
        key = next(named, None)
        if key is None or key.type is not SettingType.LIST:
            raise ValueError(f"{name} is no list")
        if is_topic:
            topic = self._image().topics.get(resource.resource_name)
            found = self._of_topic(key, {} if topic is None else topic.changes)
        elif resource.resource_name in ("", str(self._broker_id())):
            found = self._of_broker(key, of_all=not resource.resource_name)
        else:
            raise ValueError(f"broker {resource.resource_name} is to be asked itself")
        return found[0][1].split(",")

    def _alter(
        self,
        request: Request,
        resources: Iterable[R],
        changes_of: Callable[[R], Mapping[str, str | None]],
        response: Callable[..., object],
        *,
        replaces_all: bool,
    ) -> None:
        asked = list(resources)
        answers: dict[int, AlterConfigsResourceResponse] = {}

        def settle(at: int, error: ErrorCode, message: str | None) -> None:
            resource = asked[at]
            answers[at] = AlterConfigsResourceResponse(
                error_code=error,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            answer_if_complete()

        def answer_if_complete() -> None:
            if len(answers) == len(asked):
                request.answer(response(responses=tuple(answers[at] for at in range(len(asked)))))

        for at, resource in enumerate(asked):
            self._alter_one(request, at, resource, changes_of, settle, replaces_all=replaces_all)
        if not asked:
            answer_if_complete()

    def _alter_one(
        self,
        request: Request,
        at: int,
        resource: R,
        changes_of: Callable[[R], Mapping[str, str | None]],
        settle: Callable[[int, ErrorCode, str | None], None],
        *,
        replaces_all: bool,
    ) -> None:
        kind = _KINDS.get(resource.resource_type)
        if kind is None:
            settle(at, ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings here")
            return
        try:
            changes = changes_of(resource)
        except ValueError as error:
            settle(at, ErrorCode.INVALID_CONFIG, str(error))
            return
        name = resource.resource_name or DEFAULT_NAME

        def answered(answer: Answer) -> None:
            settle(at, answer.error, answer.message)

        self._controller.ask(
            lambda token: AlterConfig(
                token, kind, name, changes, validate_only=request.body.validate_only, replaces_all=replaces_all
            ),
            answered,
        )


def _replacing(resource: AlterConfigsResource) -> dict[str, str | None]:
    return {config.name: config.value for config in resource.configs}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, frozenset):
        return ",".join(sorted(value))
    return text_of_value(value)


def _type_of(value: object) -> SettingType:
    if isinstance(value, bool):
        return SettingType.BOOLEAN
    if isinstance(value, int):
        return SettingType.LONG
    return SettingType.LIST if isinstance(value, tuple) else SettingType.STRING
