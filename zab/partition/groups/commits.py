"""OffsetCommit, TxnOffsetCommit, the markers of transactions, and OffsetFetch.

An offset is visible once its record is committed, which is also when its commit is answered; before that the next
coordinator may not have it. A commit in a transaction is answered then, too, but stays invisible until the producer's
marker, which is a record of the same partition.

In CompletingRebalance a commit is refused (27): its partitions may have been given to others. In PreparingRebalance it
is welcome, since members commit before they give partitions up. A transaction is not refused for that: its producer
would take 27 for fatal, and generation and member are checked all the same.

If the log does not say in time whether a record is committed, the client is told 7 and may commit again. The record is
in the log, though: once it is committed after all, its offset is visible here as it would be at the next coordinator.
"""

from __future__ import annotations

from zab.kafka.coordinator_records import OffsetKey, OffsetValue
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import Appending
from zab.partition.coordinator.effects import NO_PRODUCER, Token
from zab.partition.groups.append_errors import error_of_commit
from zab.partition.groups.context import Context
from zab.partition.groups.group import Group, GroupState
from zab.partition.groups.membership import committer_error, epoch_error
from zab.partition.groups.offsets import CommittedOffset
from zab.partition.groups.records import TEXT_BYTES_MAX, Record
from zab.partition.groups.requests import (
    NO_MEMBER,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
    TopicPartition,
    TxnOffsetCommit,
)
from zab.partition.groups.results import CommitResult, FetchedOffset, FetchResult, PartitionError


def refused_commit(request: OffsetCommit | TxnOffsetCommit, error: ErrorCode) -> CommitResult:
    """A commit that fails for every partition."""
    return CommitResult(partitions=tuple(PartitionError(each.topic, each.partition, error) for each in request.offsets))


def commit(context: Context, group: Group | None, token: Token, request: OffsetCommit | TxnOffsetCommit) -> None:
    """Answer once the offsets are committed. None: there is no such group."""
    if group is None:
        if request.generation >= 0:
            context.answer(token, refused_commit(request, ErrorCode.ILLEGAL_GENERATION))
            return
        group = context.create_group(request.group_id)
    error = _error(group, request)
    if error is not ErrorCode.NONE:
        context.answer(token, refused_commit(request, error))
    else:
        # Members of a group that is being converted have no sessions.
        member = None if group.consumer is not None else group.members.get(request.member_id)
        if isinstance(request, OffsetCommit) and member is not None and not member.is_new:
            context.start_session(group, member)
        _append(context, group, token, request)
    context.bury_if_unused(group)


def _error(group: Group, request: OffsetCommit | TxnOffsetCommit) -> ErrorCode:
    in_transaction = isinstance(request, TxnOffsetCommit)
    error = committer_error(
        group, request.generation, request.member_id, request.group_instance_id, in_transaction=in_transaction
    )
    if error is not ErrorCode.NONE:
        return error
    member = None if group.consumer is None else group.consumer.latest.members.get(request.member_id)
    if isinstance(request, OffsetCommit) and request.generation >= 0 and member is not None and member.classic is None:
        return ErrorCode.NONE if request.knows_member_epochs else ErrorCode.UNSUPPORTED_VERSION
    if group.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _append(context: Context, group: Group, token: Token, request: OffsetCommit | TxnOffsetCommit) -> None:
    """Append what can be committed; the other partitions have errors of their own."""
    errors = [_offset_error(context, each) for each in request.offsets]
    taken = [each for each, error in zip(request.offsets, errors, strict=True) if error is ErrorCode.NONE]
    producer_id, producer_epoch, transactional_id = NO_PRODUCER, -1, ""
    if isinstance(request, TxnOffsetCommit):
        producer_id, producer_epoch = request.producer_id, request.producer_epoch
        transactional_id = request.transactional_id

    def answer(error: ErrorCode) -> None:
        found = [error_of_commit(error) if each is ErrorCode.NONE else each for each in errors]
        partitions = (
            PartitionError(each.topic, each.partition, own) for each, own in zip(request.offsets, found, strict=True)
        )
        context.answer(token, CommitResult(partitions=tuple(partitions)))

    if not taken:
        answer(ErrorCode.NONE)
        return
    values = {
        (each.topic, each.partition): OffsetValue(
            offset=each.offset,
            leader_epoch=each.leader_epoch,
            metadata=each.metadata,
            commit_timestamp=context.wall,
        )
        for each in taken
    }
    records = [
        Record(OffsetKey(group=group.group_id, topic=topic, partition=index), value)
        for (topic, index), value in values.items()
    ]
    then = _appending(context, group, values, producer_id)
    then.answer = answer
    group.offsets.begin(producer_id, values)
    context.append(group.partition, records, then, producer_id, producer_epoch, transactional_id)


def _appending(
    context: Context, group: Group, values: dict[TopicPartition, OffsetValue], producer_id: int
) -> Appending:
    def apply(position: int) -> None:
        group.offsets.end(producer_id, values)
        for partition, value in values.items():
            offset = CommittedOffset(value, position)
            if producer_id == NO_PRODUCER:
                group.offsets.put(partition, offset)
            else:
                group.offsets.hold(producer_id, partition, offset)
        if producer_id != NO_PRODUCER:
            context.partitions[group.partition].holders.setdefault(producer_id, {})[group] = None

    def revert(_: None) -> None:
        group.offsets.end(producer_id, values)
        if not group.is_dead:
            context.bury_if_unused(group)

    return Appending(apply=apply, revert=revert)


def _offset_error(context: Context, each: OffsetToCommit) -> ErrorCode:
    if not context.surroundings.has_partition(each.topic, each.partition):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len(each.metadata.encode()) > min(context.settings.metadata_bytes_max, TEXT_BYTES_MAX):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def on_marker(context: Context, number: int, producer_id: int, commits: bool) -> None:
    """A producer's transaction has ended in this partition, and the marker is committed."""
    partition = context.partitions.get(number)
    if partition is not None:
        for group in partition.holders.pop(producer_id, {}):
            if not group.is_dead:
                group.offsets.release(producer_id, commits)
                context.bury_if_unused(group)


def refused_fetch(request: OffsetFetch, error: ErrorCode) -> FetchResult:
    """An error of the whole group."""
    offsets = tuple(
        FetchedOffset(topic=topic, partition=index, error=error) for topic, index in request.partitions or ()
    )
    return FetchResult(group_id=request.group_id, error=error, offsets=offsets)


def fetch(context: Context, group: Group | None, token: Token, request: OffsetFetch) -> None:
    """What is committed. None: there is no such group, so nothing is."""
    side = None if group is None else group.consumer
    if side is not None and (request.member_id is not None or request.member_epoch >= 0):
        error = epoch_error(side, request.member_id or NO_MEMBER, request.member_epoch)
        if error is not ErrorCode.NONE:
            context.answer(token, refused_fetch(request, error))
            return
    wanted = request.partitions
    if wanted is None:
        wanted = () if group is None else tuple(group.offsets.committed)
    offsets = tuple(_fetched(group, each, request.require_stable) for each in wanted)
    context.answer(token, FetchResult(group_id=request.group_id, offsets=offsets))


def _fetched(group: Group | None, partition: TopicPartition, require_stable: bool) -> FetchedOffset:
    topic, index = partition
    if group is None:
        return FetchedOffset(topic=topic, partition=index)
    if require_stable and group.offsets.is_unstable(partition):
        return FetchedOffset(topic=topic, partition=index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    offset = group.offsets.committed.get(partition)
    if offset is None:
        return FetchedOffset(topic=topic, partition=index)
    value = offset.value
    return FetchedOffset(
        topic=topic, partition=index, offset=value.offset, leader_epoch=value.leader_epoch, metadata=value.metadata
    )
