"""Members of consumer groups: classic ones (join, sync, heartbeat, leave), and those of KIP-848."""

from __future__ import annotations

from zab.kafka.api_key import ApiKey
from zab.kafka.declare import (
    Kind,
    array,
    boolean,
    bytes_,
    int8,
    int16,
    int32,
    nested,
    request,
    response,
    string,
)


@request(ApiKey.FIND_COORDINATOR, versions=(0, 4), flexible_since=3)
class FindCoordinatorRequest:
    """`key_type` 0: a group, 1: a transactional id. From version 4 on for many keys at once."""

    key: str = string(until=3, default="")
    key_type: int = int8(since=1, default=0)
    coordinator_keys: tuple[str, ...] = array(Kind.STRING, since=4, default=())


@nested
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@response(ApiKey.FIND_COORDINATOR, versions=(0, 4), flexible_since=3)
class FindCoordinatorResponse:
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16(until=3, default=0)
    error_message: str | None = string(since=1, until=3, nullable_since=0, default="", ignorable=True)
    node_id: int = int32(until=3, default=0)
    host: str = string(until=3, default="")
    port: int = int32(until=3, default=0)
    coordinators: tuple[Coordinator, ...] = array(Coordinator, since=4, default=())


@nested
class JoinGroupRequestProtocol:
    name: str = string()
    metadata: bytes = bytes_()


@request(ApiKey.JOIN_GROUP, versions=(0, 9), flexible_since=6)
class JoinGroupRequest:
    """`protocols` come in the order of the client's preference."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=0, default=None)
    protocol_type: str = string()
    protocols: tuple[JoinGroupRequestProtocol, ...] = array(JoinGroupRequestProtocol)
    reason: str | None = string(since=8, nullable_since=0, default=None, ignorable=True)


@nested
class JoinGroupResponseMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)
    metadata: bytes = bytes_()


@response(ApiKey.JOIN_GROUP, versions=(0, 9), flexible_since=6)
class JoinGroupResponse:
    """Sent when the generation is formed. Only the leader is told the members."""

    throttle_time_ms: int = int32(since=2, default=0, ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(since=7, nullable_since=0, default=None, ignorable=True)
    protocol_name: str | None = string(nullable_since=7)
    leader: str = string()
    skip_assignment: bool = boolean(since=9, default=False)
    member_id: str = string()
    members: tuple[JoinGroupResponseMember, ...] = array(JoinGroupResponseMember)


@nested
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = bytes_()


@request(ApiKey.SYNC_GROUP, versions=(0, 5), flexible_since=4)
class SyncGroupRequest:
    """Only the leader has assignments to give."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)
    protocol_type: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)
    assignments: tuple[SyncGroupRequestAssignment, ...] = array(SyncGroupRequestAssignment)


@response(ApiKey.SYNC_GROUP, versions=(0, 5), flexible_since=4)
class SyncGroupResponse:
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)
    protocol_name: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)
    assignment: bytes = bytes_()


@request(ApiKey.HEARTBEAT, versions=(0, 4), flexible_since=4)
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)


@response(ApiKey.HEARTBEAT, versions=(0, 4), flexible_since=4)
class HeartbeatResponse:
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()


@nested
class LeaveGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=0, default=None)
    reason: str | None = string(since=5, nullable_since=0, default=None, ignorable=True)


@request(ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_since=4)
class LeaveGroupRequest:
    """Until version 2 for one member, then for many."""

    group_id: str = string()
    member_id: str = string(until=2, default="")
    members: tuple[LeaveGroupMember, ...] = array(LeaveGroupMember, since=3, default=())


@nested
class LeaveGroupMemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=0)
    error_code: int = int16()


@response(ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_since=4)
class LeaveGroupResponse:
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    error_code: int = int16()
    members: tuple[LeaveGroupMemberResponse, ...] = array(LeaveGroupMemberResponse, since=3, default=())
