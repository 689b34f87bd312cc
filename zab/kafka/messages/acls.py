"""Access lists: listed, extended, and shortened. Names are as in lists; numbers are Kafka's.

    resource type       1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user
    pattern type        1 any, 2 match, 3 literal, 4 prefixed
    operation           1 any, 2 all, 3 read, … 12 idempotent write
    permission type     1 any, 2 deny, 3 allow

`any` and `match` are for filters alone. In a filter, null is any name, principal or host.
"""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import array, int8, int16, int32, nested, request, response, string

LITERAL = 3


@request(ApiKey.DESCRIBE_ACLS, versions=(0, 3), flexible_since=2)
class DescribeAclsRequest:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable_since=0)
    pattern_type_filter: int = int8(since=1, default=LITERAL)
    principal_filter: str | None = string(nullable_since=0)
    host_filter: str | None = string(nullable_since=0)
    operation: int = int8()
    permission_type: int = int8()


@nested
class AclDescription:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@nested
class DescribeAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=LITERAL)
    acls: tuple[AclDescription, ...] = array(AclDescription)


@response(ApiKey.DESCRIBE_ACLS, versions=(0, 3), flexible_since=2)
class DescribeAclsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resources: tuple[DescribeAclsResource, ...] = array(DescribeAclsResource)


@nested
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(since=1, default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@request(ApiKey.CREATE_ACLS, versions=(0, 3), flexible_since=2)
class CreateAclsRequest:
    creations: tuple[AclCreation, ...] = array(AclCreation)


@nested
class AclCreationResult:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@response(ApiKey.CREATE_ACLS, versions=(0, 3), flexible_since=2)
class CreateAclsResponse:
    """A result for each creation, in their order."""

    throttle_time_ms: int = int32(default=0)
    results: tuple[AclCreationResult, ...] = array(AclCreationResult)


@nested
class DeleteAclsFilter:
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable_since=0)
    pattern_type_filter: int = int8(since=1, default=LITERAL)
    principal_filter: str | None = string(nullable_since=0)
    host_filter: str | None = string(nullable_since=0)
    operation: int = int8()
    permission_type: int = int8()


@request(ApiKey.DELETE_ACLS, versions=(0, 3), flexible_since=2)
class DeleteAclsRequest:
    filters: tuple[DeleteAclsFilter, ...] = array(DeleteAclsFilter)


@nested
class DeleteAclsMatchingAcl:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@nested
class DeleteAclsFilterResult:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    matching_acls: tuple[DeleteAclsMatchingAcl, ...] = array(DeleteAclsMatchingAcl)


@response(ApiKey.DELETE_ACLS, versions=(0, 3), flexible_since=2)
class DeleteAclsResponse:
    """A result for each filter, in their order."""

    throttle_time_ms: int = int32(default=0)
    filter_results: tuple[DeleteAclsFilterResult, ...] = array(DeleteAclsFilterResult)
