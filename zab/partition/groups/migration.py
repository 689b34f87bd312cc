"""A group with members changes its protocol (`group.consumer.migration.policy`).

    upgrade      a classic group of consumers, when the first member of KIP-848's protocol joins
    downgrade    a group of KIP-848, when the last member of its protocol goes, and others are left

In both directions it is one append, with the tombstones of what the group was. A classic group waits for nobody while
it is converted: a SyncGroup that waits is answered with 27 (join again), a JoinGroup with 14 (send it again), and the
timers of the group stand still. If the log refuses, it goes on as it was, in a rebalance if there was one. After the
way back there is one, too, since a member has gone.

Kafka's `GroupMetadataManager`, 4.1. There, JoinGroup is answered with 27 as well. librdkafka hands that on to the
application as a permanent error; after 14 it sends the request again by itself, as other clients do. Not here: what
converted members own (`zab.partition.consumer_groups.classic`).
"""

from __future__ import annotations

from typing import Final

from zab.kafka.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from zab.kafka.consumer_protocol import PROTOCOL_TYPE
from zab.kafka.coordinator_records import GroupKey
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import ProtocolError
from zab.partition.consumer_groups.classic import ClassicMember, all_are_classic, assignment_of, converted, supports
from zab.partition.consumer_groups.state import ConsumerGroup, ConsumerMember, Draft
from zab.partition.groups.context import Context, Timer
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.member import Member
from zab.partition.groups.rebalance import prepare, prepare_if_possible
from zab.partition.groups.records import Record
from zab.partition.groups.requests import Protocol
from zab.partition.groups.results import JoinResult, SyncResult

_UPGRADES: Final = ("upgrade", "bidirectional")
_DOWNGRADES: Final = ("downgrade", "bidirectional")
JOIN_AGAIN: Final = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
"""The answer to a JoinGroup that is to be sent again. See the top of the file."""


def upgraded(context: Context, group: Group) -> Draft | None:
    """The classic group as one of KIP-848; None: it cannot become one."""
    settings = context.settings
    is_of_consumers = group.protocol_type == PROTOCOL_TYPE
    may = settings.migration_policy in _UPGRADES and len(group.members) <= settings.consumer_members_max
    if not (may and is_of_consumers and group.members):
        return None
    members = [_classic(group, each) for each in group.members.values()]
    try:
        return converted(context.consumer_rules, group.group_id, group.generation, members)
    except ProtocolError:
        return None


def _classic(group: Group, member: Member) -> ClassicMember:
    protocols = tuple(ClassicProtocol(name=each.name, metadata=each.metadata) for each in member.protocols)
    chosen = [each for each in member.protocols if each.name == group.protocol_name] or list(member.protocols)
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(session_timeout_ms=member.session_timeout_ms, supported_protocols=protocols),
        metadata=chosen[0].metadata if chosen else b"",
        assignment=member.assignment,
    )


def suspend(context: Context, group: Group) -> None:
    """The classic group is being converted: nobody waits, and nothing is due."""
    for member in group.members.values():
        context.answer_join(group, member, JoinResult(error=JOIN_AGAIN, member_id=member.member_id))
        context.answer_sync(member, SyncResult(error=ErrorCode.REBALANCE_IN_PROGRESS))
        context.end_session(group, member.member_id)
    for member_id in group.pending:
        context.deadlines.cancel((Timer.PENDING, group, member_id))
    group.pending.clear()
    for timer in (Timer.JOIN, Timer.SYNC):
        context.deadlines.cancel((timer, group, ""))


def resume(context: Context, group: Group) -> None:
    """The log has refused: it is a classic group. Its members come together again, unless it was Stable."""
    for member in group.members.values():
        context.start_session(group, member)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Otherwise those that join would wait for the end of a delay that is over.
        group.initial_delay = None
        context.deadlines.set((Timer.JOIN, group, ""), context.now + group.rebalance_timeout_ms)
    elif group.state is not GroupState.STABLE:
        prepare_if_possible(context, group)


def downgrades(context: Context, before: ConsumerGroup, after: ConsumerGroup) -> bool:
    """Whether the group becomes a classic one: the last member of KIP-848's protocol has gone."""
    settings = context.settings
    return (
        settings.migration_policy in _DOWNGRADES
        and all_are_classic(after)
        and bool(before.members)
        and not all_are_classic(before)
        and len(after.members) <= settings.members_max
        and supports(after, _names(after))
    )


def _names(group: ConsumerGroup) -> list[str]:
    """The protocols of one of the members, which all speak the classic protocol."""
    one = next(iter(group.members.values()))
    return [] if one.classic is None else [each.name for each in one.classic.supported_protocols]


def downgraded(
    context: Context, group: Group, before: ConsumerGroup, after: ConsumerGroup
) -> tuple[Group, list[Record]]:
    """A classic group with the members that are left, and the records of the change. It has the epoch of the group as
    its generation, which is that of members that have taken all their steps."""
    names = context.topic_names()
    made = Group(group.group_id, group.partition)
    members = [_member(each, assignment_of(each, names)) for each in after.members.values()]
    made.take_members(members, before.epoch, context.wall)
    records = [Record(key, None) for key in before.tombstones()]
    return made, [*records, Record(GroupKey(group=group.group_id), made.value(made.assignments()))]


def _member(member: ConsumerMember, assignment: bytes) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(Protocol(each.name, each.metadata) for each in member.classic.supported_protocols),
        assignment=assignment,
        is_new=False,
    )


def become_classic(context: Context, group: Group, made: Group) -> None:
    """The downgrade is committed: the group is what was made, and comes together again."""
    group.consumer = None
    group.take_members(made.members.values(), made.generation, context.wall)
    for member in group.members.values():
        context.start_session(group, member)
    prepare(context, group)
