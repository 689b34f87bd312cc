"""Topics are created and deleted, and get more partitions."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int8, int16, int32, nested, request, response, string, uuid
from zab.kafka.primitives import ZERO_UUID, Uuid


@nested
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: tuple[int, ...] = array(Kind.INT32)


@nested
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable_since=0)


@nested
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: tuple[CreatableReplicaAssignment, ...] = array(CreatableReplicaAssignment)
    configs: tuple[CreatableTopicConfig, ...] = array(CreatableTopicConfig)


@request(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)
class CreateTopicsRequest:
    """-1 for a count is the default of the broker; with assignments both counts are -1."""

    topics: tuple[CreatableTopic, ...] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean(default=False)


@nested
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(nullable_since=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@nested
class CreatableTopicResult:
    name: str = string()
    topic_id: Uuid = uuid(since=7, default=ZERO_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    topic_config_error_code: int = int16(since=5, default=0, ignorable=True, tag=0)
    num_partitions: int = int32(since=5, default=-1, ignorable=True)
    replication_factor: int = int16(since=5, default=-1, ignorable=True)
    configs: tuple[CreatableTopicConfigs, ...] | None = array(
        CreatableTopicConfigs, since=5, nullable_since=0, default=(), ignorable=True
    )


@response(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)
class CreateTopicsResponse:
    throttle_time_ms: int = int32(default=0)
    topics: tuple[CreatableTopicResult, ...] = array(CreatableTopicResult)


@nested
class DeleteTopicState:
    name: str | None = string(nullable_since=0, default=None)
    topic_id: Uuid = uuid()


@request(ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_since=4)
class DeleteTopicsRequest:
    """Until version 5 by name, then by name or id."""

    topics: tuple[DeleteTopicState, ...] = array(DeleteTopicState, since=6, default=())
    topic_names: tuple[str, ...] = array(Kind.STRING, until=5, default=(), ignorable=True)
    timeout_ms: int = int32()


@nested
class DeletableTopicResult:
    name: str | None = string(nullable_since=6)
    topic_id: Uuid = uuid(since=6, default=ZERO_UUID, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)


@response(ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_since=4)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: tuple[DeletableTopicResult, ...] = array(DeletableTopicResult)


@nested
class CreatePartitionsAssignment:
    broker_ids: tuple[int, ...] = array(Kind.INT32)


@nested
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: tuple[CreatePartitionsAssignment, ...] | None = array(CreatePartitionsAssignment, nullable_since=0)


@request(ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_since=2)
class CreatePartitionsRequest:
    """`count` is the new total of a topic."""

    topics: tuple[CreatePartitionsTopic, ...] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@nested
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@response(ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_since=2)
class CreatePartitionsResponse:
    throttle_time_ms: int = int32(default=0)
    results: tuple[CreatePartitionsTopicResult, ...] = array(CreatePartitionsTopicResult)
