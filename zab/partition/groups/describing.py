"""DescribeGroups, ConsumerGroupDescribe and ListGroups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from zab.kafka.consumer_protocol import PROTOCOL_TYPE
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import Uuid
from zab.partition.consumer_groups.assignors import Partitions
from zab.partition.consumer_groups.heartbeat import preferred_assignor
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.requests import ListGroups
from zab.partition.groups.results import (
    CONSUMER,
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    NamedPartitions,
)


def described(group_id: str, group: Group | None, error: ErrorCode) -> DescribedGroup:
    """What an administrator sees of a group. None: there is none, or it may not be told."""
    if error is not ErrorCode.NONE:
        return DescribedGroup(group_id=group_id, error=error)
    if group is None or group.consumer is not None:
        # Kafka's administrators ask for groups of KIP-848 by ConsumerGroupDescribe.
        return DescribedGroup(group_id=group_id, state=GroupState.DEAD.value)
    is_stable = group.state is GroupState.STABLE
    members = (
        DescribedMember(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            metadata=each.metadata(group.protocol_name) if is_stable else b"",
            assignment=each.assignment if is_stable else b"",
        )
        for each in group.members.values()
    )
    return DescribedGroup(
        group_id=group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=group.protocol_name or "" if is_stable else "",
        members=tuple(members),
    )


def listed(context: Context, request: ListGroups) -> Iterator[ListedGroup]:
    """The groups of the loaded partitions that pass the filters, which ignore case."""
    states = {each.lower() for each in request.states}
    types = {each.lower() for each in request.types}
    for partition in context.partitions.values():
        for group in partition.groups.values():
            found = _listed(group)
            if (not states or found.state.lower() in states) and (not types or found.group_type in types):
                yield found


def _listed(group: Group) -> ListedGroup:
    if group.consumer is not None:
        state = group.consumer.group.state
        return ListedGroup(group_id=group.group_id, protocol_type=PROTOCOL_TYPE, state=state, group_type=CONSUMER)
    return ListedGroup(group_id=group.group_id, protocol_type=group.protocol_type or "", state=group.state.value)


def described_consumer_group(
    context: Context, group_id: str, group: Group | None, error: ErrorCode
) -> DescribedConsumerGroup:
    """What an administrator sees of a group of KIP-848: what is committed."""
    if error is not ErrorCode.NONE:
        return DescribedConsumerGroup(group_id=group_id, error=error)
    if group is None or group.consumer is None:
        text = f"group {group_id} is not a consumer group" if group is not None else f"group {group_id} is not found"
        return DescribedConsumerGroup(group_id=group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, message=text)
    known = group.consumer.group
    names = context.topic_names()
    members = (
        DescribedConsumer(
            member=member,
            assigned=_named(names, member.assigned),
            target=_named(names, known.target_of(member.member_id)),
        )
        for member in known.members.values()
    )
    return DescribedConsumerGroup(
        group_id=group_id,
        state=known.state,
        epoch=known.epoch,
        target_epoch=known.target_epoch,
        assignor=preferred_assignor(context.consumer_rules, known),
        members=tuple(members),
    )


def _named(names: Mapping[Uuid, str], partitions: Partitions) -> tuple[NamedPartitions, ...]:
    """With names; without topics that no longer exist."""
    return tuple(
        NamedPartitions(topic_id=topic, name=names[topic], partitions=tuple(sorted(indexes)))
        for topic, indexes in partitions.items()
        if topic in names
    )
