"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: where a partition begins and ends, and where in it a time is.

The first record of a time is found in two steps: the log says in which batch it is, and a job beside the turns reads
and unpacks that batch, which may take long. Everything else is answered at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
)
from zab.partition.image.partition_state import NO_EPOCH
from zab.partition.log.errors import LogError
from zab.partition.replica.record_search import Found, RecordSearch
from zab.partition.replica.replica import Isolation, Replica, ReplicaError
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
_SPECIAL: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8}
"""Since which versions these may be asked for."""
NOT_AVAILABLE_SINCE: Final = 5
"""The version from which on clients know that an offset may not be available yet."""
EPOCHS_SINCE: Final = 4
"""The version from which on an answer says of which leader epoch the offset is."""
UP_TO_HIGH_WATERMARK: Final = -1
_NONE: Final = -1


@attrs.define(eq=False)
class Listing:
    """A ListOffsets request: its answers in order, of which some wait for a job."""

    request: Request
    topics: list[tuple[str, list[ListOffsetsPartitionResponse | None]]]
    waiting_count: int = 0

    def answer_if_complete(self) -> None:
        if not self.waiting_count:
            topics = tuple(
                ListOffsetsTopicResponse(name=name, partitions=tuple(map(self._written, answers)))
                for name, answers in self.topics
            )
            self.request.answer(ListOffsetsResponse(topics=topics))

    def _written(self, answer: ListOffsetsPartitionResponse | None) -> ListOffsetsPartitionResponse:
        """The answer as this version has it."""
        assert answer is not None
        if self.request.version < EPOCHS_SINCE:
            return ListOffsetsPartitionResponse(
                partition_index=answer.partition_index,
                error_code=answer.error_code,
                timestamp=answer.timestamp,
                offset=answer.offset,
            )
        return answer


class OffsetRequests:
    """Answers from the replicas."""

    def __init__(
        self,
        replicas: Replicas,
        search: Callable[[RecordSearch, Callable[[Found | ErrorCode], None]], None],
        wait: Callable[[Deleting, int], None],
        touched: Callable[[Replica], None],
    ) -> None:
        """`search` begins a job, and calls with what it found, or why it could not look. `wait` is given a deletion and
        its timeout in ms; `touched` a replica whose log begins later now."""
        self._replicas = replicas
        self._search = search
        self._wait = wait
        self._touched = touched

    # ---------------------------------------------------------------------------------------------------- ListOffsets

    def list_offsets(self, request: Request) -> None:
        """Handle ListOffsets."""
        body: ListOffsetsRequest = request.body
        listing = Listing(request, [])
        for topic in body.topics:
            answers: list[ListOffsetsPartitionResponse | None] = []
            listing.topics.append((topic.name, answers))
            for asked in topic.partitions:
                try:
                    answer = self._list(listing, answers, topic.name, asked)
                except (ReplicaError, LogError) as error:
                    answer = _listed(asked, error.error)
                if answer is not None:
                    answers.append(answer)
        listing.answer_if_complete()

    def _list(
        self,
        listing: Listing,
        answers: list[ListOffsetsPartitionResponse | None],
        topic: str,
        asked: ListOffsetsPartition,
    ) -> ListOffsetsPartitionResponse | None:
        """The answer for one partition; None: it has its place among the answers, and comes later."""
        body, version = listing.request.body, listing.request.version
        replica = self._replicas.asked(topic, asked.partition_index)
        leader = replica.leading(asked.current_leader_epoch)
        log = replica.log
        if asked.timestamp in (EARLIEST, EARLIEST_LOCAL) and version >= _SPECIAL.get(asked.timestamp, 0):
            return _listed(asked, ErrorCode.NONE, offset=log.log_start, epoch=log.epochs.epoch_of(log.log_start))
        if body.isolation_level not in tuple(Isolation) or version < _SPECIAL.get(asked.timestamp, 0):
            raise ReplicaError(ErrorCode.INVALID_REQUEST, "there is no such time or isolation")
        if body.replica_id >= 0:
            return self._list_for_follower(listing.request, replica, asked)
        bound = replica.bound(Isolation(body.isolation_level))
        if asked.timestamp < MAX_TIMESTAMP:
            raise ReplicaError(ErrorCode.INVALID_REQUEST, f"{asked.timestamp} is no time")
        if log.high_watermark < leader.epoch_start:
            # Consumers may have read further at the leader before.
            is_known = version >= NOT_AVAILABLE_SINCE
            error = ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE
            raise ReplicaError(error, "the high watermark has not reached this leader's epoch")
        if asked.timestamp == LATEST:
            return _listed(asked, ErrorCode.NONE, offset=bound, epoch=log.epochs.epoch_of(bound))
        timestamp = replica.newest_timestamp if asked.timestamp == MAX_TIMESTAMP else asked.timestamp
        search = replica.search(timestamp, bound)
        if search is None:
            return _listed(asked, ErrorCode.NONE)
        at = len(answers)
        answers.append(None)
        listing.waiting_count += 1

        def found(result: Found | ErrorCode) -> None:
            if isinstance(result, ErrorCode):
                answers[at] = _listed(asked, result)
            else:
                epoch = NO_EPOCH if result.offset == _NONE else log.epochs.epoch_of(result.offset)
                answers[at] = _listed(
                    asked, ErrorCode.NONE, timestamp=result.timestamp, offset=result.offset, epoch=epoch
                )
            listing.waiting_count -= 1
            listing.answer_if_complete()

        self._search(search, found)
        return None

    def _list_for_follower(
        self, request: Request, replica: Replica, asked: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        """A follower asks where the log ends, also what is not committed."""
        if not request.is_of_broker(request.body.replica_id):
            raise ReplicaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "only brokers are followers")
        if asked.timestamp != LATEST:
            raise ReplicaError(ErrorCode.INVALID_REQUEST, "a follower asks where the log begins and ends")
        end = replica.log.log_end
        return _listed(asked, ErrorCode.NONE, offset=end, epoch=replica.log.epochs.epoch_of(end))

    # ------------------------------------------------------------------------------------------- OffsetForLeaderEpoch

    def offset_for_leader_epoch(self, request: Request) -> None:
        """Handle OffsetForLeaderEpoch."""
        body: OffsetForLeaderEpochRequest = request.body
        topics = []
        for topic in body.topics:
            results = []
            for asked in topic.partitions:
                epoch, end, error = NO_EPOCH, _NONE, ErrorCode.NONE
                try:
                    replica = self._replicas.asked(topic.topic, asked.partition)
                    replica.leading(asked.current_leader_epoch)
                    epoch, end = replica.log.end_offset_for(asked.leader_epoch)
                except ReplicaError as refusal:
                    error = refusal.error
                results.append(
                    OffsetForLeaderPartitionResult(
                        error_code=error, partition=asked.partition, leader_epoch=epoch, end_offset=end
                    )
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(results)))
        request.answer(OffsetForLeaderEpochResponse(topics=tuple(topics)))

    # -------------------------------------------------------------------------------------------------- DeleteRecords

    def delete_records(self, request: Request) -> None:
        """Handle DeleteRecords."""
        body: DeleteRecordsRequest = request.body
        deleting = Deleting(request, {topic.name: [] for topic in body.topics}, [])
        for topic in body.topics:
            for asked in topic.partitions:
                try:
                    replica = self._replicas.asked(topic.name, asked.partition_index)
                    epoch = replica.leading().epoch
                    if not replica.log.settings.deletes:
                        raise ReplicaError(ErrorCode.POLICY_VIOLATION, "the topic is compacted, not deleted")
                    up_to = replica.log.high_watermark if asked.offset == UP_TO_HIGH_WATERMARK else asked.offset
                    if up_to < 0:
                        raise ReplicaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{up_to} is no offset")
                    if replica.log.advance_start(up_to):
                        self._touched(replica)
                except (ReplicaError, LogError) as error:
                    deleting.topics[topic.name].append(_deleted(asked.partition_index, error.error))
                else:
                    deleting.waiting.append((topic.name, replica, epoch, up_to))
        self._wait(deleting, body.timeout_ms)


@attrs.define(eq=False)
class Deleting:
    """A DeleteRecords request, which waits until all live replicas have dropped the records; an operation of the
    purgatory."""

    request: Request
    topics: dict[str, list[DeleteRecordsPartitionResult]]
    waiting: list[tuple[str, Replica, int, int]]
    """Topic, replica, the leader epoch at the start, and the offset up to which is deleted."""

    def keys(self) -> list[tuple[str, int]]:
        """What it waits for."""
        return [replica.key for _, replica, _, _ in self.waiting]

    def try_complete(self) -> bool:
        """Decide what can be decided. True: nothing is left."""
        self.waiting = [each for each in self.waiting if not self._decide(*each)]
        return not self.waiting

    def _decide(self, topic: str, replica: Replica, epoch: int, up_to: int) -> bool:
        leader = replica.leader
        if leader is None or leader.epoch != epoch:
            self.topics[topic].append(_deleted(replica.index, ErrorCode.NOT_LEADER_OR_FOLLOWER))
            return True
        low_watermark = leader.low_watermark(replica.log.log_start)
        if low_watermark < up_to:
            return False
        self.topics[topic].append(_deleted(replica.index, ErrorCode.NONE, low_watermark))
        return True

    def complete(self) -> None:
        """Answer the request: what is not decided by now has timed out."""
        for topic, replica, _, _ in self.waiting:
            self.topics[topic].append(_deleted(replica.index, ErrorCode.REQUEST_TIMED_OUT))
        results = tuple(
            DeleteRecordsTopicResult(name=name, partitions=tuple(partitions))
            for name, partitions in self.topics.items()
        )
        self.request.answer(DeleteRecordsResponse(topics=results))


def _listed(
    asked: ListOffsetsPartition, error: ErrorCode, *, timestamp: int = _NONE, offset: int = _NONE, epoch: int = NO_EPOCH
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=error, timestamp=timestamp, offset=offset, leader_epoch=epoch
    )


def _deleted(index: int, error: ErrorCode, low_watermark: int = _NONE) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error)
