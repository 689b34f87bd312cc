"""A rebalance: all members come together, and a new generation of them begins.

    prepare          wait for every known member to join again, at most for the longest of their rebalance timeouts;
                     a group that was empty waits group.initial.rebalance.delay.ms instead, and so much again while
                     new members come, up to the rebalance timeout
    complete         drop dynamic members that did not join, choose the protocol, answer all joins
    (syncing.py)     the leader brings the assignment, which is stored and handed out
    on_sync_due      members that did not ask for theirs in time are removed, and the next rebalance begins

Static members that did not join stay until their session ends: they are expected to come back.
"""

from __future__ import annotations

from typing import Final

from zab.kafka.coordinator_records import GroupKey
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import Appending
from zab.partition.groups.append_errors import error_of_group
from zab.partition.groups.context import Context, Timer
from zab.partition.groups.group import Group, GroupState, InitialDelay
from zab.partition.groups.member import Member
from zab.partition.groups.records import Record
from zab.partition.groups.requests import NO_MEMBER
from zab.partition.groups.results import JoinResult, SyncResult

__all__ = [
    "complete_if_all_joined",
    "fail_syncs",
    "generation_result",
    "on_join_due",
    "on_sync_due",
    "prepare",
    "prepare_if_possible",
    "remove_member",
    "store",
]


WAIT_AGAIN_MIN_MS: Final = 1000
"""Members may have a rebalance timeout of 0."""


def prepare_if_possible(context: Context, group: Group) -> None:
    """Begin a rebalance, unless one gathers members already."""
    if group.can_rebalance:
        prepare(context, group)


def prepare(context: Context, group: Group) -> None:
    """Begin to gather members."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(context, group, ErrorCode.REBALANCE_IN_PROGRESS)
    context.deadlines.cancel((Timer.SYNC, group, ""))
    was_empty = group.state is GroupState.EMPTY
    group.become(GroupState.PREPARING_REBALANCE, context.wall)
    timeout_ms = group.rebalance_timeout_ms
    if was_empty:
        delay_ms = context.settings.initial_delay_ms
        group.initial_delay = InitialDelay(max(timeout_ms - delay_ms, 0))
        timeout_ms = delay_ms
    context.deadlines.set((Timer.JOIN, group, ""), context.now + timeout_ms)
    complete_if_all_joined(context, group)


def complete_if_all_joined(context: Context, group: Group) -> None:
    """End a rebalance for which nobody is left to wait. The first one of an empty group waits for those that it does
    not know yet."""
    is_gathering = group.state is GroupState.PREPARING_REBALANCE and group.initial_delay is None
    if is_gathering and group.have_all_joined:
        complete(context, group)


def on_join_due(context: Context, group: Group, _: str) -> None:
    """The time to join is over."""
    assert group.state is GroupState.PREPARING_REBALANCE
    delay = group.initial_delay
    if delay is not None and delay.is_joined and delay.left_ms > 0:
        more_ms = min(context.settings.initial_delay_ms, delay.left_ms)
        delay.is_joined = False
        delay.left_ms -= more_ms
        context.deadlines.set((Timer.JOIN, group, ""), context.now + more_ms)
    else:
        complete(context, group)


def complete(context: Context, group: Group) -> None:
    """Begin a generation of those that joined."""
    context.deadlines.cancel((Timer.JOIN, group, ""))
    for member in [each for each in group.members.values() if each.join_token is None and not each.is_static]:
        _remove(context, group, member)
    joined = [each for each in group.members.values() if each.join_token is not None]
    if group.members and not joined:
        # Only static members are left, and none came: wait for one of them, or for the end of their sessions.
        group.initial_delay = None
        wait_ms = max(group.rebalance_timeout_ms, WAIT_AGAIN_MIN_MS)
        context.deadlines.set((Timer.JOIN, group, ""), context.now + wait_ms)
        return
    if joined and group.members[group.leader or ""].join_token is None:
        group.leader = joined[0].member_id
    group.next_generation(context.wall)
    if group.state is GroupState.EMPTY:
        # If this is lost, the members of the generation before seem alive to the next coordinator, until their sessions
        # end there.
        store(context, group, {}, Appending())
        return
    for member in group.members.values():
        context.answer_join(group, member, generation_result(group, member))
        member.is_new = False
        context.start_session(group, member)
    context.deadlines.set((Timer.SYNC, group, ""), context.now + group.rebalance_timeout_ms)


def generation_result(group: Group, member: Member) -> JoinResult:
    """What a member learns about the present generation."""
    return JoinResult(
        member_id=member.member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or NO_MEMBER,
        members=group.joined_members() if member.member_id == group.leader else (),
    )


def store(context: Context, group: Group, assignments: dict[str, bytes], then: Appending) -> None:
    """Append the record of this generation."""
    record = Record(GroupKey(group=group.group_id), group.value(assignments))
    context.append(group.partition, [record], then)


def fail_syncs(context: Context, group: Group, error: ErrorCode) -> None:
    """The generation gets no assignment: answer every sync that waits with this error of the log, or with 27."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync_token is not None:
            context.answer_sync(member, SyncResult(error=error_of_group(error)))
            context.start_session(group, member)


def on_sync_due(context: Context, group: Group, _: str) -> None:
    """The time to sync is over: those that did not are taken for dead."""
    assert group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    if group.pending_sync:
        for member_id in list(group.pending_sync):
            _remove(context, group, group.members[member_id])
        prepare(context, group)


def remove_member(context: Context, group: Group, member: Member) -> None:
    """A member leaves, or its session has ended: the others share its partitions."""
    _remove(context, group, member)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_all_joined(context, group)
    else:
        prepare(context, group)


def _remove(context: Context, group: Group, member: Member) -> None:
    """Its client, if it is there after all, joins as a new member."""
    context.answer_join(group, member, JoinResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
    context.answer_sync(member, SyncResult(error=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    context.end_session(group, member.member_id)
