"""JoinGroup: a member comes, comes back, or takes the place of a static one.

    member id "", dynamic      version 4 and later: answered with an id of its own (79), which it has to use within its
                               session timeout; before: added
    member id "", static       unknown instance: added; known: this process takes its place (`_replace`)
    an id that was given out   added
    a member's id              in PreparingRebalance it waits; in CompletingRebalance the answer may have been lost, so
                               it is repeated; in Stable it may be repeated to a follower. New metadata, or a leader in
                               Stable, which has seen something change: rebalance

A static member that restarts does not disturb a Stable group if the chosen protocol stays the same: its new id is
stored, and it gets the present generation. It then asks for the assignment that it had (SyncGroup). A leader must not
compute another one, which nobody would store: version 9 says so (`skip_assignment`), and before that it is told that
its *old* id leads, so that it takes itself for a follower. The process before is fenced (82) at once, whether or not
the new id could be stored: two processes never act as one member. If the log refuses it, the member goes on under its
old id, until its session ends or another process comes. If the log leaves it open, the new id is what it may have.
"""

from __future__ import annotations

from typing import Final

from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import IN_DOUBT, Appending
from zab.partition.coordinator.effects import Token
from zab.partition.groups import classic_members
from zab.partition.groups.append_errors import error_of_group
from zab.partition.groups.consumer_heartbeats import make_classic
from zab.partition.groups.context import Context, Timer
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.member import Member, a_member_id, new_member, rebalance_timeout
from zab.partition.groups.membership import member_error
from zab.partition.groups.rebalance import (
    complete_if_all_joined,
    generation_result,
    prepare,
    prepare_if_possible,
    remove_member,
    store,
)
from zab.partition.groups.records import can_be_stored
from zab.partition.groups.requests import NO_MEMBER, JoinGroup
from zab.partition.groups.results import JoinResult, SyncResult

NEW_MEMBER_TIMEOUT_MS: Final = 300_000
"""How long the join of a new member waits. It has no id yet, so it cannot send heartbeats; and if its client has given
up, it comes back as another new member."""
METADATA_BYTES_MAX: Final = 1 << 20
"""What one member may tell for all its protocols. More could not be stored: it would keep the others from a generation,
too."""


def join(context: Context, group: Group | None, token: Token, request: JoinGroup) -> None:
    """Answer now, or with the next generation. None: there is no such group."""
    settings = context.settings
    if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
        _refuse(context, token, request, ErrorCode.INVALID_SESSION_TIMEOUT)
        return
    names = [each.name for each in request.protocols]
    texts = [request.client_id, request.client_host, request.group_instance_id or "", request.protocol_type, *names]
    if not all(map(can_be_stored, texts)):
        _refuse(context, token, request, ErrorCode.INVALID_REQUEST)
        return
    if sum(len(each.metadata) for each in request.protocols) > METADATA_BYTES_MAX:
        _refuse(context, token, request, ErrorCode.MESSAGE_TOO_LARGE)
        return
    if group is None:
        if request.member_id != NO_MEMBER:
            _refuse(context, token, request, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        group = context.create_group(request.group_id)
    if group.consumer is not None and not make_classic(context, group):
        if group.consumer.latest.members:
            classic_members.join(context, group, group.consumer, token, request)
        else:
            _refuse(context, token, request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    if not _has_room(context, group, request):
        context.answer(token, JoinResult(error=ErrorCode.GROUP_MAX_SIZE_REACHED))
        _drop(context, group, request.member_id)
    elif not group.supports(request.protocol_type, names):
        _refuse(context, token, request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif request.member_id == NO_MEMBER:
        _join_as_new(context, group, token, request)
    else:
        _join_again(context, group, token, request)
    if not group.is_dead:
        complete_if_all_joined(context, group)
        context.bury_if_unused(group)


def _refuse(context: Context, token: Token, request: JoinGroup, error: ErrorCode) -> None:
    context.answer(token, JoinResult(error=error, member_id=request.member_id))


def _has_room(context: Context, group: Group, request: JoinGroup) -> bool:
    """A generation that exists keeps its members. In a rebalance those who come first are in: so a group that has too
    many, as after a change of the setting, gets rid of the last ones."""
    most = context.settings.members_max
    member_id = request.member_id
    if member_id == NO_MEMBER and request.group_instance_id is not None:
        member_id = group.static.get(request.group_instance_id, NO_MEMBER)
    elif member_id == NO_MEMBER and len(group.pending) >= most:
        return False
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return (member is not None and member.join_token is not None) or group.joining_count < most
    return member is not None or len(group.members) < most


def _drop(context: Context, group: Group, member_id: str) -> None:
    """There is no place for it."""
    _forget_pending(context, group, member_id)
    if member_id in group.members:
        remove_member(context, group, group.members[member_id])


def _join_as_new(context: Context, group: Group, token: Token, request: JoinGroup) -> None:
    """A process that has no member id."""
    instance_id = request.group_instance_id
    member_id = a_member_id(request, context.surroundings.unique())
    if instance_id is not None and instance_id in group.static:
        _replace(context, group, token, member_id, request)
    elif instance_id is None and request.requires_member_id:
        group.pending[member_id] = None
        context.deadlines.set((Timer.PENDING, group, member_id), context.now + request.session_timeout_ms)
        context.answer(token, JoinResult(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
    else:
        _add(context, group, token, member_id, request)


def _join_again(context: Context, group: Group, token: Token, request: JoinGroup) -> None:
    """A process that has a member id."""
    if request.member_id in group.pending and request.group_instance_id is None:
        _forget_pending(context, group, request.member_id)
        _add(context, group, token, request.member_id, request)
        return
    error = member_error(group, request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        _refuse(context, token, request, error)
        return
    member = group.members[request.member_id]
    is_same = member.protocols == request.protocols
    is_repeated = group.state is GroupState.COMPLETING_REBALANCE or (
        group.state is GroupState.STABLE and request.member_id != group.leader
    )
    if is_same and is_repeated:
        context.answer(token, generation_result(group, member))
        if not member.waits:
            context.start_session(group, member)
        return
    _update(group, member, request)
    context.wait_for_join(group, member, token)
    prepare_if_possible(context, group)


def _add(context: Context, group: Group, token: Token, member_id: str, request: JoinGroup) -> None:
    """A new member; the others learn of it by a rebalance."""
    member = new_member(member_id, request)
    member.join_token = token
    group.add(member, request.protocol_type)
    if group.initial_delay is not None:
        group.initial_delay.is_joined = True
    context.start_session(group, member, NEW_MEMBER_TIMEOUT_MS)
    prepare_if_possible(context, group)


def _update(group: Group, member: Member, request: JoinGroup) -> None:
    member.rebalance_timeout_ms = rebalance_timeout(request)
    member.session_timeout_ms = request.session_timeout_ms
    group.update(member, request.protocols)


def _forget_pending(context: Context, group: Group, member_id: str) -> None:
    """The id was used, or given back."""
    group.pending.pop(member_id, None)
    context.deadlines.cancel((Timer.PENDING, group, member_id))


def drop_pending(context: Context, group: Group, member_id: str) -> None:
    """An id that was given out will not be used."""
    _forget_pending(context, group, member_id)
    complete_if_all_joined(context, group)
    context.bury_if_unused(group)


# ------------------------------------------------------------------------------------------------------- static members


def _replace(context: Context, group: Group, token: Token, member_id: str, request: JoinGroup) -> None:
    """A process takes the place of a static member."""
    old_leader = group.leader
    member = group.members[group.static[request.group_instance_id or ""]]
    old = Member(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        protocols=member.protocols,
    )
    _take_place(context, group, member, member_id)
    member.client_id, member.client_host = request.client_id, request.client_host
    _update(group, member, request)
    context.wait_for_join(group, member, token)
    if group.state is GroupState.STABLE and group.protocol_name == group.chosen_protocol():
        generation = group.generation

        def answer(error: ErrorCode) -> None:
            if member.join_token != token or group.state is not GroupState.STABLE or group.generation != generation:
                return  # the rebalance that has begun answers it, or another process has taken its place
            if error is ErrorCode.NONE:
                is_leader = group.leader == member.member_id
                skips = is_leader and request.may_skip_assignment
                result = JoinResult(
                    member_id=member.member_id,
                    generation=group.generation,
                    protocol_type=group.protocol_type,
                    protocol_name=group.protocol_name,
                    leader=(group.leader if request.may_skip_assignment else old_leader) or NO_MEMBER,
                    skip_assignment=skips,
                    members=group.joined_members() if skips else (),
                )
                context.answer_join(group, member, result)
                context.start_session(group, member)
            else:
                context.answer_join(group, member, JoinResult(error=error_of_group(error)))
                context.start_session(group, member)
                if error not in IN_DOUBT:
                    _restore(context, group, member, old)

        group.subscribe()
        store(context, group, group.assignments(), Appending(answer=answer))
    elif group.state is not GroupState.PREPARING_REBALANCE:
        prepare(context, group)


def _take_place(context: Context, group: Group, member: Member, member_id: str) -> None:
    """Fence the process that has the place."""
    context.answer_join(group, member, JoinResult(error=ErrorCode.FENCED_INSTANCE_ID, member_id=member.member_id))
    context.answer_sync(member, SyncResult(error=ErrorCode.FENCED_INSTANCE_ID))
    context.end_session(group, member.member_id)
    group.rename(member, member_id)
    context.start_session(group, member, NEW_MEMBER_TIMEOUT_MS if member.is_new else None)


def _restore(context: Context, group: Group, member: Member, old: Member) -> None:
    """The log does not have the new id: it goes on under the old one, until a process comes again."""
    context.end_session(group, member.member_id)
    group.rename(member, old.member_id)
    member.client_id, member.client_host = old.client_id, old.client_host
    member.rebalance_timeout_ms, member.session_timeout_ms = old.rebalance_timeout_ms, old.session_timeout_ms
    group.update(member, old.protocols)
    group.subscribe()
    context.start_session(group, member)
