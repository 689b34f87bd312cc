"""Requests of the classic protocol in a group of KIP-848: members that are not upgraded yet, while others are.

    JoinGroup    says what the member owns, as a heartbeat of KIP-848 that joins; answered once what is decided about it
                 is committed. It leads nobody: the coordinator assigns
    SyncGroup    gets the partitions of the member; 27 if the group has changed since the member joined
    Heartbeat    27 if the member has another step to go
    LeaveGroup   the member goes

A member that is told to join again, or that has joined, has its rebalance timeout for the next request; else it is out.
Its epoch is its generation. While a classic group is being converted, its members are told to join again, and joins
wait for the end of it.

Kafka's `GroupMetadataManager`, 4.1. Ours: no JoinGroup is answered with 27 (`migration`).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from zab.kafka.consumer_group_records import ClassicMemberMetadata, ClassicProtocol, MemberState
from zab.kafka.consumer_protocol import PROTOCOL_TYPE, Subscription
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import ProtocolError
from zab.partition.consumer_groups.classic import assignment_of, must_join, owned_in, subscription_of, supports
from zab.partition.consumer_groups.heartbeat import MemberHeartbeat
from zab.partition.consumer_groups.state import JOINS, LEAVES, ConsumerGroup, ConsumerMember
from zab.partition.coordinator.effects import Token
from zab.partition.groups.consumer_heartbeats import TOPIC_NAMES_MAX, ask, remove_later, start_session
from zab.partition.groups.consumer_side import Asked, ConsumerSide, Removal
from zab.partition.groups.context import Context, Timer
from zab.partition.groups.group import Group
from zab.partition.groups.member import a_member_id, rebalance_timeout
from zab.partition.groups.requests import NO_MEMBER, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from zab.partition.groups.results import (
    ConsumerHeartbeatResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    SyncResult,
)

_AGAIN: Final = ErrorCode.REBALANCE_IN_PROGRESS


def join(context: Context, group: Group, side: ConsumerSide, token: Token, request: JoinGroup) -> None:
    """Answer once it is decided, and committed."""
    subscription, error = _subscribed(context, side, request)
    member_id = request.member_id
    if subscription is not None and member_id == NO_MEMBER:
        member_id = a_member_id(request, context.surroundings.unique())
        if request.group_instance_id is None and request.requires_member_id:
            error = ErrorCode.MEMBER_ID_REQUIRED
    if subscription is None or error is not ErrorCode.NONE:
        context.answer(token, JoinResult(error=error, member_id=member_id))
        return
    protocols = tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols)
    said = MemberHeartbeat(
        member_id=member_id,
        epoch=JOINS,
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=rebalance_timeout(request),
        topic_names=subscription.topics,
        owned=owned_in(context.consumer_rules, subscription),
        classic=ClassicMemberMetadata(session_timeout_ms=request.session_timeout_ms, supported_protocols=protocols),
    )
    ask(context, group, side, Asked(said, partial(_joined, context, group, token, said)))


def _subscribed(
    context: Context, side: ConsumerSide, request: JoinGroup
) -> tuple[Subscription, ErrorCode] | tuple[None, ErrorCode]:
    """What the member subscribes to; None: it may not join, and why."""
    known, instance_id = side.latest, request.group_instance_id
    is_full = len(known.members) >= context.settings.consumer_members_max
    if side.is_in_doubt:
        return None, ErrorCode.COORDINATOR_NOT_AVAILABLE
    if is_full and request.member_id not in known.members and instance_id not in known.static:
        return None, ErrorCode.GROUP_MAX_SIZE_REACHED
    names = [each.name for each in request.protocols]
    try:
        subscription = subscription_of(each.metadata for each in request.protocols)
    except ProtocolError:
        return None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if len(subscription.topics) > TOPIC_NAMES_MAX:
        return None, ErrorCode.INVALID_REQUEST
    if request.protocol_type != PROTOCOL_TYPE or not supports(known, names, request.member_id):
        return None, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    owner = known.static.get(instance_id or "", request.member_id)
    if request.member_id not in (NO_MEMBER, owner):
        return None, ErrorCode.FENCED_INSTANCE_ID
    return subscription, ErrorCode.NONE


def _joined(
    context: Context, group: Group, token: Token, said: MemberHeartbeat, result: ConsumerHeartbeatResult
) -> None:
    if result.error is not ErrorCode.NONE:
        context.answer(token, JoinResult(error=result.error, member_id=said.member_id))
        return
    assert said.classic is not None
    member_id = said.member_id
    side = group.consumer
    if side is not None and member_id in side.group.members:
        context.deadlines.cancel((Timer.CLASSIC_JOIN, group, member_id))
        _expect(context, group, side, Timer.CLASSIC_SYNC, side.group.members[member_id])
    protocol = said.classic.supported_protocols[0].name
    context.answer(
        token,
        JoinResult(member_id=member_id, generation=result.epoch, protocol_type=PROTOCOL_TYPE, protocol_name=protocol),
    )


def _found(known: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[ConsumerMember | None, ErrorCode]:
    """The member, which speaks the classic protocol; else why it is none."""
    if instance_id is not None and known.static.get(instance_id, member_id) != member_id:
        return None, ErrorCode.FENCED_INSTANCE_ID
    member = known.members.get(member_id)
    if member is None or member.classic is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    return member, ErrorCode.NONE


def sync(context: Context, group: Group, side: ConsumerSide, token: Token, request: SyncGroup) -> None:
    """Answer with what the member owns."""
    known = side.known
    member, error = _found(known, request.member_id, request.group_instance_id)
    if member is None:
        context.answer(token, SyncResult(error=error))
        return
    assert member.classic is not None
    protocol = member.classic.supported_protocols[0].name
    is_other = request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, protocol)
    if request.generation != member.epoch:
        error = ErrorCode.ILLEGAL_GENERATION
    elif side.is_converting:
        error = _AGAIN
    elif is_other:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    elif member.epoch < known.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(context, group, side, member)
        error = _AGAIN
    if error is not ErrorCode.NONE:
        context.answer(token, SyncResult(error=error))
        return
    if side.expected.get(member.member_id) == Timer.CLASSIC_SYNC.value:
        del side.expected[member.member_id]
    context.deadlines.cancel((Timer.CLASSIC_SYNC, group, member.member_id))
    start_session(context, group, member)
    assignment = assignment_of(member, context.topic_names())
    context.answer(token, SyncResult(protocol_type=PROTOCOL_TYPE, protocol_name=protocol, assignment=assignment))


def heartbeat(context: Context, group: Group, side: ConsumerSide, token: Token, request: Heartbeat) -> None:
    """A sign of life."""
    known = side.known
    member, error = _found(known, request.member_id, request.group_instance_id)
    if member is not None and request.generation != member.epoch:
        error = ErrorCode.ILLEGAL_GENERATION
    elif member is not None and side.is_converting:
        error = _AGAIN
    elif member is not None:
        start_session(context, group, member)
        if must_join(known, member):
            _expect_join(context, group, side, member)
            error = _AGAIN
    context.answer(token, HeartbeatResult(error=error))


def _expect_join(context: Context, group: Group, side: ConsumerSide, member: ConsumerMember) -> None:
    """It has been told to join again."""
    if side.expected.get(member.member_id) != Timer.CLASSIC_JOIN.value:
        context.deadlines.cancel((Timer.CLASSIC_SYNC, group, member.member_id))
        _expect(context, group, side, Timer.CLASSIC_JOIN, member)


def _expect(context: Context, group: Group, side: ConsumerSide, timer: Timer, member: ConsumerMember) -> None:
    """The member has its rebalance timeout for the next request."""
    side.expected[member.member_id] = timer.value
    context.deadlines.set((timer, group, member.member_id), context.now + max(member.rebalance_timeout_ms, 0))


def on_classic_due(timer: Timer, context: Context, group: Group, member_id: str) -> None:
    """The member has not joined, or not asked for its assignment, in time."""
    remove_later(context, group, Removal(member_id, timer.value))


def leave(context: Context, group: Group, side: ConsumerSide, token: Token, request: LeaveGroup) -> None:
    """Answer once all are out."""
    left: dict[int, ErrorCode] = {}

    def note(at: int, error: ErrorCode) -> None:
        left[at] = error
        if len(left) == len(request.members):
            members = tuple(
                LeftMember(member_id=each.member_id, group_instance_id=each.group_instance_id, error=left[number])
                for number, each in enumerate(request.members)
            )
            context.answer(token, LeaveResult(members=members))

    def answered(at: int, result: ConsumerHeartbeatResult) -> None:
        note(at, result.error)

    if not request.members:
        context.answer(token, LeaveResult())
    for at, each in enumerate(request.members):
        member_id, error = _leaving(side, each)
        if error is not ErrorCode.NONE:
            note(at, error)
            continue
        said = MemberHeartbeat(member_id=member_id, epoch=LEAVES)
        ask(context, group, side, Asked(said, partial(answered, at)))


def _leaving(side: ConsumerSide, leaving: LeavingMember) -> tuple[str, ErrorCode]:
    known = side.latest
    if side.is_in_doubt or side.is_converting:
        return "", ErrorCode.COORDINATOR_NOT_AVAILABLE
    if leaving.member_id == NO_MEMBER:
        # An administrator removes a static member, of whichever protocol.
        member_id = known.static.get(leaving.group_instance_id or "")
        return member_id or "", ErrorCode.UNKNOWN_MEMBER_ID if member_id is None else ErrorCode.NONE
    _, error = _found(known, leaving.member_id, leaving.group_instance_id)
    return leaving.member_id, error
