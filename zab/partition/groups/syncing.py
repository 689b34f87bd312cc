"""SyncGroup: the leader brings the assignment of its generation, and each member gets its part.

The assignment is handed out once the log has it, so that the next coordinator knows no other. One generation is stored
once: if the leader sends its assignment again before that, the second one waits for the first.
"""

from __future__ import annotations

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import Appending
from zab.partition.coordinator.effects import Token
from zab.partition.groups import classic_members
from zab.partition.groups.context import Context, Timer
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.membership import generation_error
from zab.partition.groups.rebalance import fail_syncs, prepare, store
from zab.partition.groups.requests import SyncGroup
from zab.partition.groups.results import SyncResult


def sync(context: Context, group: Group | None, token: Token, request: SyncGroup) -> None:
    """Answer now, or once the assignment is stored. None: there is no such group."""
    if group is not None and group.consumer is not None:
        classic_members.sync(context, group, group.consumer, token, request)
        return
    error = _error(group, request)
    if group is None or error is not ErrorCode.NONE:
        context.answer(token, SyncResult(error=error))
        return
    member = group.members[request.member_id]
    group.pending_sync.pop(request.member_id, None)
    if not group.pending_sync:
        context.deadlines.cancel((Timer.SYNC, group, ""))
    if group.state is GroupState.STABLE:
        context.answer(token, _result(group, member.assignment))
        context.start_session(group, member)
        return
    context.wait_for_sync(member, token)
    if request.member_id == group.leader and not group.is_storing:
        _store(context, group, dict(request.assignments))


def _error(group: Group | None, request: SyncGroup) -> ErrorCode:
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = generation_error(group, request.generation, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert group.state is not GroupState.EMPTY, "it has a member"
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _result(group: Group, assignment: bytes) -> SyncResult:
    return SyncResult(protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment)


def _store(context: Context, group: Group, brought: dict[str, bytes]) -> None:
    assignments = {member_id: brought.get(member_id, b"") for member_id in group.members}
    generation = group.generation
    group.is_storing = True

    def answer(error: ErrorCode) -> None:
        is_present = group.state is GroupState.COMPLETING_REBALANCE and group.generation == generation
        if group.consumer is not None or not is_present:
            return  # a rebalance or a conversion has begun: it has answered all syncs
        group.is_storing = False
        if error is not ErrorCode.NONE:
            fail_syncs(context, group, error)
            prepare(context, group)
            return
        group.become(GroupState.STABLE, context.wall)
        for member_id, member in group.members.items():
            member.assignment = assignments[member_id]
            if member.sync_token is not None:
                context.answer_sync(member, _result(group, member.assignment))
                context.start_session(group, member)

    store(context, group, assignments, Appending(answer=answer))
