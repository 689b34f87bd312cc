"""Configurations of topics and brokers."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import Kind, array, boolean, int8, int16, int32, nested, request, response, string


@nested
class DescribeConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: tuple[str, ...] | None = array(Kind.STRING, nullable_since=0)


@request(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_since=4)
class DescribeConfigsRequest:
    """`resource_type` 2: a topic, 4: a broker, 8: the loggers of a broker."""

    resources: tuple[DescribeConfigsResource, ...] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean(default=False)
    include_documentation: bool = boolean(since=3, default=False)


@nested
class DescribeConfigsSynonym:
    name: str = string()
    value: str | None = string(nullable_since=0)
    source: int = int8()


@nested
class DescribeConfigsResourceResult:
    name: str = string()
    value: str | None = string(nullable_since=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()
    synonyms: tuple[DescribeConfigsSynonym, ...] = array(DescribeConfigsSynonym)
    config_type: int = int8(since=3, default=0, ignorable=True)
    documentation: str | None = string(since=3, nullable_since=0, default="", ignorable=True)


@nested
class DescribeConfigsResult:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[DescribeConfigsResourceResult, ...] = array(DescribeConfigsResourceResult)


@response(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), flexible_since=4)
class DescribeConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    results: tuple[DescribeConfigsResult, ...] = array(DescribeConfigsResult)


@nested
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable_since=0)


@nested
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[AlterableConfig, ...] = array(AlterableConfig)


@request(ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_since=2)
class AlterConfigsRequest:
    """Replaces whole configurations."""

    resources: tuple[AlterConfigsResource, ...] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@nested
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()


@response(ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_since=2)
class AlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = array(AlterConfigsResourceResponse)


@nested
class IncrementalAlterableConfig:
    """`config_operation` 0: set, 1: delete, 2: append to a list, 3: take out of a list."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable_since=0)


@nested
class IncrementalAlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: tuple[IncrementalAlterableConfig, ...] = array(IncrementalAlterableConfig)


@request(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest:
    """Changes single keys."""

    resources: tuple[IncrementalAlterConfigsResource, ...] = array(IncrementalAlterConfigsResource)
    validate_only: bool = boolean()


@response(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32(default=0)
    responses: tuple[AlterConfigsResourceResponse, ...] = array(AlterConfigsResourceResponse)
