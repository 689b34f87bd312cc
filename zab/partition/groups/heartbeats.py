"""Heartbeat, and the end of sessions.

A session ends its timeout after the member's last heartbeat, join, sync or commit. A connection that closes ends
nothing: clients come back on another one. A member that waits for an answer of ours is not expected to send anything,
except for a new one, whose client may be gone without anybody knowing.
"""

from __future__ import annotations

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.groups import classic_members
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.joining import drop_pending
from zab.partition.groups.membership import generation_error
from zab.partition.groups.rebalance import remove_member
from zab.partition.groups.requests import Heartbeat
from zab.partition.groups.results import HeartbeatResult


def heartbeat(context: Context, group: Group | None, token: Token, request: Heartbeat) -> None:
    """A sign of life: in a rebalance its answer says that the member has to join. None: there is no such group."""
    if group is not None and group.consumer is not None:
        classic_members.heartbeat(context, group, group.consumer, token, request)
        return
    error = ErrorCode.UNKNOWN_MEMBER_ID
    if group is not None:
        error = generation_error(group, request.generation, request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE:
            assert group.state is not GroupState.EMPTY, "it has a member"
            member = group.members[request.member_id]
            if not member.is_new:
                context.start_session(group, member)
            if group.state is GroupState.PREPARING_REBALANCE:
                error = ErrorCode.REBALANCE_IN_PROGRESS
    context.answer(token, HeartbeatResult(error=error))


def on_session_due(context: Context, group: Group, member_id: str) -> None:
    """The member was silent for too long."""
    member = group.members[member_id]
    if member.waits and not member.is_new:
        return  # its session begins again with the answer
    remove_member(context, group, member)


def on_pending_due(context: Context, group: Group, member_id: str) -> None:
    """An id that was given out was not used."""
    drop_pending(context, group, member_id)
