"""DescribeGroups, ListGroups and DeleteGroups: between messages of all versions and what the coordinator knows."""

from __future__ import annotations

from zab.kafka.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from zab.partition.groups import requests as asking
from zab.partition.groups.results import DeleteResult, DescribeResult, ListResult
from zab.partition.requests.request import Request


def describe_asked(request: Request) -> asking.DescribeGroups:
    body: DescribeGroupsRequest = request.body
    return asking.DescribeGroups(group_ids=body.groups)


def describe_answered(_request: Request, result: DescribeResult) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=tuple(
            DescribedGroup(
                error_code=group.error,
                group_id=group.group_id,
                group_state=group.state,
                protocol_type=group.protocol_type,
                protocol_data=group.protocol_name,
                members=tuple(
                    DescribedGroupMember(
                        member_id=each.member_id,
                        group_instance_id=each.group_instance_id,
                        client_id=each.client_id,
                        client_host=each.client_host,
                        member_metadata=each.metadata,
                        member_assignment=each.assignment,
                    )
                    for each in group.members
                ),
            )
            for group in result.groups
        )
    )


def list_asked(request: Request) -> asking.ListGroups:
    body: ListGroupsRequest = request.body
    return asking.ListGroups(states=frozenset(body.states_filter), types=frozenset(body.types_filter))


def list_answered(_request: Request, result: ListResult) -> ListGroupsResponse:
    groups = tuple(
        ListedGroup(
            group_id=each.group_id,
            protocol_type=each.protocol_type,
            group_state=each.state,
            group_type=each.group_type,
        )
        for each in result.groups
    )
    return ListGroupsResponse(error_code=result.error, groups=groups)


def delete_asked(request: Request) -> asking.DeleteGroups:
    body: DeleteGroupsRequest = request.body
    return asking.DeleteGroups(group_ids=body.groups_names)


def delete_answered(_request: Request, result: DeleteResult) -> DeleteGroupsResponse:
    results = tuple(DeletableGroupResult(group_id=group, error_code=error) for group, error in result.groups)
    return DeleteGroupsResponse(results=results)
