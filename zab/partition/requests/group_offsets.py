"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete: between messages of all versions and what the coordinator
knows.

OffsetFetch asks for many groups from version 8 on; each is a question of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from zab.kafka.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from zab.partition.groups import requests as asking
from zab.partition.groups.results import (
    CommitResult,
    FetchedOffset,
    FetchResult,
    OffsetDeleteResult,
    PartitionError,
)
from zab.partition.requests.request import Request

GROUPS_SINCE: Final = 8
"""The version of OffsetFetch from which on it asks for many groups."""
MEMBER_EPOCHS_SINCE: Final = 9
"""The version of OffsetCommit from which on it may have the epoch of a member of KIP-848."""
EPOCHS_SINCE: Final = 5
"""The version of OffsetFetch from which on an offset has its leader epoch."""


def _to_commit(body: OffsetCommitRequest | TxnOffsetCommitRequest) -> tuple[asking.OffsetToCommit, ...]:
    return tuple(
        asking.OffsetToCommit(
            topic=topic.name,
            partition=each.partition_index,
            offset=each.committed_offset,
            leader_epoch=each.committed_leader_epoch,
            metadata=each.committed_metadata or "",
        )
        for topic in body.topics
        for each in topic.partitions
    )


def commit_asked(request: Request) -> asking.OffsetCommit:
    body: OffsetCommitRequest = request.body
    return asking.OffsetCommit(
        group_id=body.group_id,
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        offsets=_to_commit(body),
        knows_member_epochs=request.version >= MEMBER_EPOCHS_SINCE,
    )


def commit_answered(_request: Request, result: CommitResult) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=each.partition, error_code=each.error)
                    for each in partitions
                ),
            )
            for topic, partitions in _by_topic(result.partitions).items()
        )
    )


def txn_commit_asked(request: Request) -> asking.TxnOffsetCommit:
    body: TxnOffsetCommitRequest = request.body
    return asking.TxnOffsetCommit(
        group_id=body.group_id,
        transactional_id=body.transactional_id,
        producer_id=body.producer_id,
        producer_epoch=body.producer_epoch,
        generation=body.generation_id,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        offsets=_to_commit(body),
    )


def txn_commit_answered(_request: Request, result: CommitResult) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=tuple(
            TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=tuple(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition, error_code=each.error)
                    for each in partitions
                ),
            )
            for topic, partitions in _by_topic(result.partitions).items()
        )
    )


def fetches_asked(request: Request) -> list[asking.OffsetFetch]:
    """A question for each group."""
    body: OffsetFetchRequest = request.body
    if request.version < GROUPS_SINCE:
        topics = body.topics
        partitions = None if topics is None else tuple((t.name, each) for t in topics for each in t.partition_indexes)
        fetch = asking.OffsetFetch(group_id=body.group_id, partitions=partitions, require_stable=body.require_stable)
        return [fetch]
    return [
        asking.OffsetFetch(
            group_id=group.group_id,
            partitions=None
            if group.topics is None
            else tuple((topic.name, each) for topic in group.topics for each in topic.partition_indexes),
            require_stable=body.require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
        for group in body.groups
    ]


def fetches_answered(request: Request, results: Sequence[FetchResult]) -> OffsetFetchResponse:
    """The response to all questions of a request, in their order."""
    if request.version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=tuple(map(_group, results)))
    [result] = results
    return OffsetFetchResponse(
        error_code=result.error,
        topics=tuple(
            OffsetFetchResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error,
                    )
                    for each in offsets
                ),
            )
            for topic, offsets in _offsets_by_topic(result.offsets).items()
        ),
    )


def _group(result: FetchResult) -> OffsetFetchResponseGroup:
    if result.error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(group_id=result.group_id, topics=(), error_code=result.error)
    return OffsetFetchResponseGroup(
        group_id=result.group_id,
        error_code=result.error,
        topics=tuple(
            OffsetFetchResponseTopics(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=each.partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error,
                    )
                    for each in offsets
                ),
            )
            for topic, offsets in _offsets_by_topic(result.offsets).items()
        ),
    )


def delete_asked(request: Request) -> asking.OffsetDelete:
    body: OffsetDeleteRequest = request.body
    partitions = tuple((topic.name, each.partition_index) for topic in body.topics for each in topic.partitions)
    return asking.OffsetDelete(group_id=body.group_id, partitions=partitions)


def delete_answered(_request: Request, result: OffsetDeleteResult) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        error_code=result.error,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetDeleteResponsePartition(partition_index=each.partition, error_code=each.error)
                    for each in partitions
                ),
            )
            for topic, partitions in _by_topic(result.partitions).items()
        ),
    )


def _by_topic(partitions: Iterable[PartitionError]) -> dict[str, list[PartitionError]]:
    found: dict[str, list[PartitionError]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found


def _offsets_by_topic(offsets: Iterable[FetchedOffset]) -> dict[str, list[FetchedOffset]]:
    found: dict[str, list[FetchedOffset]] = {}
    for each in offsets:
        found.setdefault(each.topic, []).append(each)
    return found
