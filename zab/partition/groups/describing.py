"""DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Iterator

from zab.kafka.errors import ErrorCode
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.requests import ListGroups
from zab.partition.groups.results import CLASSIC, DescribedGroup, DescribedMember, ListedGroup


def described(group_id: str, group: Group | None, error: ErrorCode) -> DescribedGroup:
    """What an administrator sees of a group. None: there is none, or it may not be told."""
    if error is not ErrorCode.NONE:
        return DescribedGroup(group_id=group_id, error=error)
    if group is None:
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
    if types and CLASSIC not in types:
        return
    for partition in context.partitions.values():
        for group in partition.groups.values():
            if not states or group.state.value.lower() in states:
                yield ListedGroup(
                    group_id=group.group_id, protocol_type=group.protocol_type or "", state=group.state.value
                )
