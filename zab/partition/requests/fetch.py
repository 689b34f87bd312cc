"""Fetch: parts of log files, as they are, from the place that the reader asks for.

A request asks for many partitions, and its order is the order in which `max_bytes` is spent. The first partition that
has data gives at least one batch, however large, so that no reader is stuck; the others stay within the limits.

What there is is answered at once if it is enough (`min_bytes`), if something is wrong with a partition, or if its
history parted from the reader's; a follower also if it does not know the high watermark yet. Otherwise the request
waits for its partitions, until the time is over.

The answer has no bytes of records: they go from the files to the socket (`FileSlice`).

Followers fetch as consumers do, up to the end of the log; that says what they have. Only brokers may: they come over a
link, and name themselves. Whoever does so as a client is refused. A consumer needs Read on each topic.

Fetch sessions (KIP-227) are not kept: each answer says so (session id 0), and clients then send whole requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.fetch_response_path import fetch_response_pieces
from zab.kafka.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from zab.kafka.messages.produce import LeaderIdAndEpoch
from zab.kafka.primitives import ZERO_UUID
from zab.partition.access.acls import Operation, ResourceType
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.log.errors import LogError
from zab.partition.replica.replica import Isolation, Read, Reader, Replica, ReplicaError
from zab.partition.requests.connection import Piece
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request
from zab.wire.file_slice import FileSlice

IDS_SINCE: Final = 13
"""The version from which on topics are named by their ids."""
LEADERS_SINCE: Final = 12
"""The version from which on an answer says who leads a partition instead."""
PARTITIONS_MAX: Final = 10_000
"""How many partitions a request may ask for: it is looked at whole whenever something happens to one of them."""
NO_SESSION: Final = 0
_WHOLE: Final = (0, -1)
"""The session epochs of requests that name all their partitions: it begins a session, or has none."""
_UNKNOWN: Final = -1
_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@attrs.define(eq=False)
class Asked:
    """One partition of a request, found or not."""

    asked: FetchPartition
    replica: Replica | None
    error: ReplicaError | None


@attrs.define(eq=False)
class Fetching:
    """A request, and what it asks for; an operation of the purgatory."""

    request: Request
    topics: list[tuple[FetchTopic, list[Asked]]]
    isolation: Isolation
    bytes_max: int
    follower: ReplicaState | None
    """Which follower asks; None: a consumer."""
    now: Callable[[], int]
    touched: Callable[[Replica], None]
    _is_noted: bool = False
    """Whether the leaders know where the follower is."""
    _answers: list[FetchableTopicResponse] = attrs.Factory(list)
    _slices: list[FileSlice | None] = attrs.Factory(list)
    """What the last look found; a slice, or none, for each partition."""

    def keys(self) -> list[tuple[str, int]]:
        """What it waits for."""
        return [each.replica.key for _, asked in self.topics for each in asked if each.replica is not None]

    def try_complete(self) -> bool:
        """Look what there is. True: it is enough to answer with."""
        body: FetchRequest = self.request.body
        left, gathered, is_urgent = self.bytes_max, 0, False
        self._answers, self._slices = [], []
        for topic, partitions in self.topics:
            datas = []
            for each in partitions:
                data, found = self._read(each, left, has_data=gathered > 0)
                size = 0 if found is None else found.length
                left, gathered = left - size, gathered + size
                is_urgent = is_urgent or self._is_urgent(each, data)
                datas.append(data)
                self._slices.append(found)
            self._answers.append(
                FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=tuple(datas))
            )
        self._is_noted = True
        return is_urgent or gathered >= body.min_bytes or not self._slices

    def _is_urgent(self, each: Asked, data: FetchPartitionData) -> bool:
        """Whether a reader has to know this at once."""
        if data.error_code or data.diverging_epoch.epoch != _UNKNOWN:
            return True
        leader = None if each.replica is None else each.replica.leader
        if self.follower is None or leader is None:
            return False
        return leader.owes_mark(self.follower.replica_id, data.high_watermark)

    def _read(self, each: Asked, left: int, *, has_data: bool) -> tuple[FetchPartitionData, FileSlice | None]:
        """What one partition gives, of `left` bytes that the request has left."""
        asked, replica = each.asked, each.replica
        try:
            if each.error is not None:
                raise each.error
            assert replica is not None
            bytes_max = min(left, asked.partition_max_bytes)
            read = self._look(replica, asked, max(bytes_max, 0 if has_data else 1))
        except (ReplicaError, LogError) as error:
            return self._refusal(each, error), None
        found = read.data
        if found is not None and has_data and found.length > bytes_max:
            found = None
        return _answer(asked.partition, read), found

    def _look(self, replica: Replica, asked: FetchPartition, bytes_max: int) -> Read:
        follower = self.follower
        if follower is None:
            return replica.read(
                asked.fetch_offset,
                bytes_max,
                self.isolation,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
            )
        reader = Reader(
            follower.replica_id, follower.replica_epoch, asked.log_start_offset, not self._is_noted, self.now()
        )
        read = replica.read_for(
            reader,
            asked.fetch_offset,
            bytes_max,
            current_leader_epoch=asked.current_leader_epoch,
            last_fetched_epoch=asked.last_fetched_epoch,
        )
        if not self._is_noted:
            self.touched(replica)
        return read

    def _refusal(self, each: Asked, error: ReplicaError | LogError) -> FetchPartitionData:
        state = None if each.replica is None else each.replica.state
        leader = LeaderIdAndEpoch()
        if self.request.version >= LEADERS_SINCE and error.error in _MOVED and state is not None:
            leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return FetchPartitionData(
            partition_index=each.asked.partition,
            error_code=error.error,
            high_watermark=_UNKNOWN,
            current_leader=leader,
            aborted_transactions=None,
            records=None,
        )

    def complete(self) -> None:
        """Answer with what the last look found."""
        if self.follower is not None:
            self._note_marks(self.follower.replica_id)
        header = self.request.header
        response = FetchResponse(session_id=NO_SESSION, responses=tuple(self._answers))
        sizes = [0 if each is None else each.length for each in self._slices]
        self._count(sizes)
        heads = fetch_response_pieces(header.correlation_id, header.api_version, response, sizes)
        pieces: list[Piece] = []
        for head, found in zip(heads, [*self._slices, None], strict=True):
            pieces.append(head)
            if found is not None:
                pieces.append(found)
        self.request.answer_with(pieces)

    def _count(self, sizes: Sequence[int]) -> None:
        """Note what the answer has of each partition."""
        meters = self.request.meters
        if self.follower is not None:
            meters.replication_bytes_out += sum(sizes)
            return
        left = iter(sizes)
        for (topic, asked), answer in zip(self.topics, self._answers, strict=True):
            for each, data in zip(asked, answer.partitions, strict=True):
                size_bytes = next(left)
                name = topic.topic if each.replica is None else each.replica.topic
                if data.error_code:
                    meters.fetch_failed(name, is_here=each.replica is not None)
                else:
                    meters.fetched(name, size_bytes)

    def _note_marks(self, broker_id: int) -> None:
        for (_, asked), answer in zip(self.topics, self._answers, strict=True):
            for each, data in zip(asked, answer.partitions, strict=True):
                if each.replica is not None and each.replica.leader is not None and not data.error_code:
                    each.replica.leader.told_mark(broker_id, data.high_watermark)


def _answer(index: int, read: Read) -> FetchPartitionData:
    diverging = EpochEndOffset()
    if read.diverging is not None:
        epoch, end_offset = read.diverging
        diverging = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    aborted = read.aborted
    return FetchPartitionData(
        partition_index=index,
        error_code=ErrorCode.NONE,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start,
        diverging_epoch=diverging,
        aborted_transactions=None
        if aborted is None
        else tuple(
            AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in aborted
        ),
        records=None,
    )


def follower_in(body: FetchRequest) -> ReplicaState | None:
    """The follower that a request names; None: a consumer asks."""
    state = body.replica_state
    if state.replica_id >= 0:
        return state
    return ReplicaState(replica_id=body.replica_id) if body.replica_id >= 0 else None


class FetchRequests:
    """Reads, and hands to the purgatory what has to wait."""

    def __init__(
        self,
        replicas: Replicas,
        image: Callable[[], ClusterImage],
        wait: Callable[[Fetching, int], None],
        bytes_max: int,
        now: Callable[[], int],
        touched: Callable[[Replica], None],
    ) -> None:
        """`wait` is given a request and how long it waits at most, in ms. `bytes_max`: `fetch.max.bytes`. `now`:
        monotonic ms. `touched` is given a replica of which a follower has said where it is."""
        self._replicas = replicas
        self._image = image
        self._wait = wait
        self._bytes_max = bytes_max
        self._now = now
        self._touched = touched

    def fetch(self, request: Request) -> None:
        """Handle Fetch."""
        body: FetchRequest = request.body
        error = ErrorCode.NONE
        count = sum(len(topic.partitions) for topic in body.topics)
        if body.session_epoch not in _WHOLE:
            error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        elif body.isolation_level not in tuple(Isolation) or count > PARTITIONS_MAX:
            error = ErrorCode.INVALID_REQUEST
        follower = follower_in(body)
        if follower is not None and not request.is_of_broker(follower.replica_id):
            error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        if error is not ErrorCode.NONE:
            response = FetchResponse(error_code=error, session_id=NO_SESSION, responses=())
            request.answer_with([*fetch_response_pieces(request.header.correlation_id, request.version, response, ())])
            return
        topics = [(topic, [self._asked(request, topic, each) for each in topic.partitions]) for topic in body.topics]
        bytes_max = min(body.max_bytes, self._bytes_max)
        fetching = Fetching(
            *(request, topics, Isolation(body.isolation_level), bytes_max, follower, self._now, self._touched)
        )
        self._wait(fetching, body.max_wait_ms)

    def _asked(self, request: Request, topic: FetchTopic, asked: FetchPartition) -> Asked:
        name, has_id = topic.topic, request.version >= IDS_SINCE
        try:
            if has_id:
                found = self._image().topic_of(topic.topic_id)
                if found is None:
                    raise ReplicaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
                name = found.name
            if not request.may(Operation.READ, ResourceType.TOPIC, name):
                raise ReplicaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it may not read {name}")
            topic_id = topic.topic_id if has_id else ZERO_UUID
            return Asked(asked, self._replicas.asked(name, asked.partition, topic_id), None)
        except ReplicaError as error:
            return Asked(asked, self._replicas.get(name, asked.partition), error)
