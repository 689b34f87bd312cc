"""Consumer groups, as an operator sees them."""

from __future__ import annotations

from zab.kafka.api_key import AUTHORIZED_OPERATIONS_NOT_ASKED, ApiKey
from zab.kafka.declare import Kind, array, boolean, bytes_, int16, int32, nested, request, response, string


@request(ApiKey.DESCRIBE_GROUPS, versions=(0, 5), flexible_since=5)
class DescribeGroupsRequest:
    groups: tuple[str, ...] = array(Kind.STRING)
    include_authorized_operations: bool = boolean(since=3, default=False)


@nested
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable_since=0, default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


@nested
class DescribedGroup:
    error_code: int = int16()
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: tuple[DescribedGroupMember, ...] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=AUTHORIZED_OPERATIONS_NOT_ASKED)


@response(ApiKey.DESCRIBE_GROUPS, versions=(0, 5), flexible_since=5)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    groups: tuple[DescribedGroup, ...] = array(DescribedGroup)


@request(ApiKey.LIST_GROUPS, versions=(0, 5), flexible_since=3)
class ListGroupsRequest:
    states_filter: tuple[str, ...] = array(Kind.STRING, since=4, default=())
    types_filter: tuple[str, ...] = array(Kind.STRING, since=5, default=())


@nested
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4, default="", ignorable=True)
    group_type: str = string(since=5, default="", ignorable=True)


@response(ApiKey.LIST_GROUPS, versions=(0, 5), flexible_since=3)
class ListGroupsResponse:
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
    groups: tuple[ListedGroup, ...] = array(ListedGroup)


@request(ApiKey.DELETE_GROUPS, versions=(0, 2), flexible_since=2)
class DeleteGroupsRequest:
    groups_names: tuple[str, ...] = array(Kind.STRING)


@nested
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@response(ApiKey.DELETE_GROUPS, versions=(0, 2), flexible_since=2)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32(default=0)
    results: tuple[DeletableGroupResult, ...] = array(DeletableGroupResult)
