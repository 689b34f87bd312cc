"""Whether a request comes from a member of its group, and from the present generation."""

from __future__ import annotations

from zab.kafka.errors import ErrorCode
from zab.partition.groups.consumer_side import ConsumerSide
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.requests import NO_GENERATION, NO_MEMBER


def member_error(group: Group, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """Whether this is a member: by its id, or by an instance id that has this member id now."""
    if group_instance_id is not None:
        owner = group.static.get(group_instance_id)
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if owner == member_id else ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def generation_error(group: Group, generation: int, member_id: str, group_instance_id: str | None) -> ErrorCode:
    """Whether this is a member, in the present generation."""
    error = member_error(group, member_id, group_instance_id)
    if error is ErrorCode.NONE and generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return error


def committer_error(
    group: Group, generation: int, member_id: str, group_instance_id: str | None, in_transaction: bool
) -> ErrorCode:
    """Whether these offsets may be committed: by members of the present generation; by anybody else, such as an
    administrator or a simple consumer, only while the group has no members. Old versions of TxnOffsetCommit do not say
    which member commits, so transactions are believed."""
    if group.consumer is not None:
        return _consumer_error(group.consumer, generation, member_id, group_instance_id, in_transaction)
    is_named = generation >= 0 or member_id != NO_MEMBER or group_instance_id is not None
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if is_named:
        return generation_error(group, generation, member_id, group_instance_id)
    if not in_transaction:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def _consumer_error(
    side: ConsumerSide, epoch: int, member_id: str, group_instance_id: str | None, in_transaction: bool
) -> ErrorCode:
    """Whether they may in a group of KIP-848, where a member has an epoch of its own. A producer takes 113 for fatal,
    and knows 22."""
    if epoch < 0 and side.is_empty:
        return ErrorCode.NONE
    if in_transaction and epoch == NO_GENERATION and member_id == NO_MEMBER and group_instance_id is None:
        return ErrorCode.NONE
    error = epoch_error(side, member_id, epoch)
    return ErrorCode.ILLEGAL_GENERATION if in_transaction and error is ErrorCode.STALE_MEMBER_EPOCH else error


def epoch_error(side: ConsumerSide, member_id: str, epoch: int) -> ErrorCode:
    """Whether this is a member of the group of KIP-848, in its present epoch."""
    member = side.latest.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
