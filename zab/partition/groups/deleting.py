"""DeleteGroups, OffsetDelete, and the deletion of topics: answered once the tombstones are committed.

A group without members goes with its last offset, however that one is deleted; a group of KIP-848 stays until it
expires.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial

from zab.kafka.consumer_protocol import PROTOCOL_TYPE
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.groups.append_errors import error_of_commit
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.requests import OffsetDelete, TopicPartition
from zab.partition.groups.results import DeleteResult, OffsetDeleteResult, PartitionError
from zab.partition.groups.tombstones import remove


def delete_groups(context: Context, token: Token, groups: Mapping[str, Group | ErrorCode | None]) -> None:
    """Delete those that have no members. An error instead of a group: it is refused already."""
    outcomes: dict[str, ErrorCode] = {}

    def decided(group_id: str, error: ErrorCode) -> None:
        outcomes[group_id] = error_of_commit(error)
        answer_if_all_are()

    def answer_if_all_are() -> None:
        if len(outcomes) == len(groups):
            context.answer(token, DeleteResult(groups=tuple((each, outcomes[each]) for each in groups)))

    if not groups:
        answer_if_all_are()
    for group_id, group in groups.items():
        if isinstance(group, ErrorCode):
            decided(group_id, group)
        elif group is None:
            decided(group_id, ErrorCode.GROUP_ID_NOT_FOUND)
        elif not group.has_no_members:
            decided(group_id, ErrorCode.NON_EMPTY_GROUP)
        else:
            partitions = group.offsets.partitions()
            remove(context, group, partitions, with_group=True, answer=partial(decided, group_id))


def delete_offsets(context: Context, group: Group | None, token: Token, request: OffsetDelete) -> None:
    """Delete offsets of topics that no member subscribes to."""
    if group is None:
        context.answer(token, OffsetDeleteResult(error=ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if group.state is not GroupState.EMPTY and group.protocol_type != PROTOCOL_TYPE:
        context.answer(token, OffsetDeleteResult(error=ErrorCode.NON_EMPTY_GROUP))
        return
    used = frozenset[str]() if group.state is GroupState.EMPTY else group.subscribed
    if group.consumer is not None:
        used = group.consumer.latest.subscribed()
    errors = {
        each: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if used is None or each[0] in used else ErrorCode.NONE
        for each in request.partitions
    }
    known = group.offsets.partitions()

    def answer(error: ErrorCode) -> None:
        partitions = (
            PartitionError(topic, index, error_of_commit(error) if own is ErrorCode.NONE else own)
            for (topic, index), own in errors.items()
        )
        context.answer(token, OffsetDeleteResult(partitions=tuple(partitions)))

    chosen = [each for each, own in errors.items() if own is ErrorCode.NONE and each in known]
    remove(context, group, chosen, with_group=_goes_with(group, chosen), answer=answer)


def _goes_with(group: Group, chosen: Collection[TopicPartition]) -> bool:
    """Whether nothing is left of the group without these offsets."""
    is_unused = group.consumer is None and group.has_no_members and not group.pending
    return is_unused and 0 < len(chosen) == len(group.offsets.partitions())


def _nobody_waits(_: ErrorCode) -> None:
    """What the log refuses stays until it expires."""


def on_topics_deleted(context: Context, topics: Iterable[str]) -> None:
    """Offsets of topics that are gone would be taken for those of new topics with these names."""
    gone = frozenset(topics)
    for partition in list(context.partitions.values()):
        for group in list(partition.groups.values()):
            chosen = [each for each in group.offsets.partitions() if each[0] in gone]
            if chosen:
                remove(context, group, chosen, with_group=_goes_with(group, chosen), answer=_nobody_waits)
