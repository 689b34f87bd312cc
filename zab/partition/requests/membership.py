"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: between messages of all versions and what the coordinator knows.

asked(request)              what the coordinator is asked
answered(request, result)   the response, as the version of the request has it
"""

from __future__ import annotations

from typing import Final

from zab.kafka.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from zab.partition.groups import requests as asking
from zab.partition.groups.results import HeartbeatResult, JoinResult, LeaveResult, SyncResult
from zab.partition.requests.request import Request

MEMBER_IDS_SINCE: Final = 4
"""The version of JoinGroup from which on a new member is first told its id."""
NULL_PROTOCOLS_SINCE: Final = 7
SKIPS_ASSIGNMENT_SINCE: Final = 9
SEVERAL_LEAVE_SINCE: Final = 3


def join_asked(request: Request) -> asking.JoinGroup:
    body: JoinGroupRequest = request.body
    return asking.JoinGroup(
        group_id=body.group_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        client_id=request.header.client_id or "",
        client_host=f"/{request.connection.host}",
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple(asking.Protocol(each.name, each.metadata) for each in body.protocols),
        requires_member_id=request.version >= MEMBER_IDS_SINCE,
        may_skip_assignment=request.version >= SKIPS_ASSIGNMENT_SINCE,
    )


def join_answered(request: Request, result: JoinResult) -> JoinGroupResponse:
    has_null = request.version >= NULL_PROTOCOLS_SINCE
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name if has_null else result.protocol_name or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=each.member_id, group_instance_id=each.group_instance_id, metadata=each.metadata
            )
            for each in result.members
        ),
    )


def sync_asked(request: Request) -> asking.SyncGroup:
    body: SyncGroupRequest = request.body
    return asking.SyncGroup(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol_name=body.protocol_name,
        assignments=tuple((each.member_id, each.assignment) for each in body.assignments),
    )


def sync_answered(_request: Request, result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def heartbeat_asked(request: Request) -> asking.Heartbeat:
    body: HeartbeatRequest = request.body
    return asking.Heartbeat(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
    )


def heartbeat_answered(_request: Request, result: HeartbeatResult) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=result.error)


def leave_asked(request: Request) -> asking.LeaveGroup:
    body: LeaveGroupRequest = request.body
    members = [asking.LeavingMember(each.member_id, each.group_instance_id) for each in body.members]
    if request.version < SEVERAL_LEAVE_SINCE:
        members = [asking.LeavingMember(body.member_id)]
    return asking.LeaveGroup(group_id=body.group_id, members=tuple(members))


def leave_answered(request: Request, result: LeaveResult) -> LeaveGroupResponse:
    if request.version < SEVERAL_LEAVE_SINCE:
        return LeaveGroupResponse(error_code=result.only_error)
    members = tuple(
        LeaveGroupMemberResponse(
            member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=each.error
        )
        for each in result.members
    )
    return LeaveGroupResponse(error_code=result.error, members=members)
