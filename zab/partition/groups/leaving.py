"""LeaveGroup: members go, or an administrator removes static ones by their instance ids.

Each member has an error of its own; the group goes into a rebalance once, however many leave.
"""

from __future__ import annotations

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.groups import classic_members
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group
from zab.partition.groups.joining import drop_pending
from zab.partition.groups.membership import member_error
from zab.partition.groups.rebalance import remove_member
from zab.partition.groups.requests import NO_MEMBER, LeaveGroup, LeavingMember
from zab.partition.groups.results import LeaveResult, LeftMember


def leave(context: Context, group: Group | None, token: Token, request: LeaveGroup) -> None:
    """Remove members. None: there is no such group, and none of them is in it."""
    if group is not None and group.consumer is not None:
        classic_members.leave(context, group, group.consumer, token, request)
        return
    left = []
    for each in request.members:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None or group.is_dead else _leave(context, group, each)
        left.append(LeftMember(member_id=each.member_id, group_instance_id=each.group_instance_id, error=error))
    context.answer(token, LeaveResult(members=tuple(left)))


def _leave(context: Context, group: Group, leaving: LeavingMember) -> ErrorCode:
    if leaving.member_id in group.pending:
        drop_pending(context, group, leaving.member_id)
        return ErrorCode.NONE
    member_id = leaving.member_id
    if member_id == NO_MEMBER:
        member_id = group.static.get(leaving.group_instance_id or "", NO_MEMBER)
    error = member_error(group, member_id, leaving.group_instance_id)
    if error is ErrorCode.NONE:
        remove_member(context, group, group.members[member_id])
    return error
