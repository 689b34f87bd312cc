"""Fetch: parts of log files, as they are, from the place that the reader asks for.

A request asks for many partitions, and its order is the order in which `max_bytes` is spent. The first partition that
has data gives at least one batch, however large, so that no reader is stuck; the others stay within the limits.

What there is is answered at once if it is enough (`min_bytes`), if something is wrong with a partition, or if its
history parted from the reader's; a follower also if it does not know the high watermark yet. Otherwise the request
waits for its partitions, until the time is over.

The answer has no bytes of records: they go from the files to the socket (`FileSlice`).

Followers fetch as consumers do, up to the end of the log; that says what they have. Only brokers may: they come over a
link, and name themselves. Whoever does so as a client is refused. A consumer needs Read on each topic.

Not here: which partitions a request is about, and which of them its answer has (`fetch_sessions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

import attrs

from zab.kafka.declare import default_of
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
    ReplicaState,
)
from zab.kafka.messages.produce import LeaderIdAndEpoch
from zab.kafka.primitives import Uuid
from zab.partition.access.acls import Operation, ResourceType
from zab.partition.image.cluster_image import ClusterImage
from zab.partition.log.errors import LogError
from zab.partition.replica.replica import Isolation, Read, Reader, Replica, ReplicaError
from zab.partition.requests.connection import Piece
from zab.partition.requests.fetch_sessions import (
    NO_SESSION,
    Asked,
    FetchContext,
    FetchSessionError,
    FetchSessions,
    Found,
    Idle,
    Wanted,
)
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request
from zab.wire.file_slice import FileSlice

IDS_SINCE: Final = 13
"""The version from which on topics are named by their ids."""
LEADERS_SINCE: Final = 12
"""The version from which on an answer says who leads a partition instead."""
_UNKNOWN: Final = -1
_NOT_DIVERGING: Final[EpochEndOffset] = default_of(FetchPartitionData, "diverging_epoch")
"""The very object that is written fast (`zab.kafka.fetch_response_path`)."""
_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@attrs.define(eq=False)
class Fetching:
    """A request, and what it asks for; an operation of the purgatory."""

    request: Request
    context: FetchContext
    asked: list[Asked]
    isolation: Isolation
    bytes_max: int
    follower: ReplicaState | None
    """Which follower asks; None: a consumer."""
    now: Callable[[], int]
    touched: Callable[[Replica], None]
    _is_noted: bool = False
    """Whether the leaders know where the follower is."""
    _found: list[Found] = attrs.Factory(list)
    """What the last look found of each partition."""

    def keys(self) -> list[tuple[str, int]]:
        """What it waits for."""
        return [each.replica.key for each in self.asked if each.replica is not None]

    def try_complete(self) -> bool:
        """Look what there is. True: it is enough to answer with."""
        body: FetchRequest = self.request.body
        left, gathered, is_urgent = self.bytes_max, 0, False
        self._found = []
        for each in self.asked:
            idle = self._still_idle(each)
            if idle is not None:
                self._found.append((each, idle, None))
                continue
            data, records = self._read(each, left, has_data=gathered > 0)
            if records is not None:
                left, gathered = left - records.length, gathered + records.length
            is_urgent = is_urgent or self._is_urgent(each, data)
            self._found.append((each, data, records))
        self._is_noted = True
        return is_urgent or gathered >= min(body.min_bytes, self.bytes_max) or not self._found

    def _still_idle(self, each: Asked) -> FetchPartitionData | None:
        """What the last look at a partition found, if that was nothing and everything is as it was."""
        idle, replica = each.wanted.idle, each.replica
        if idle is None or replica is None or each.error is not None:
            return None
        return idle.data if idle.state == (each.wanted.asked, self.isolation, replica, *replica.marks()) else None

    def _note_idle(self, each: Asked, replica: Replica, data: FetchPartitionData) -> None:
        """Nothing was found in a partition: what there is to read is at its end, and will be if nothing changes."""
        wanted, is_committed = each.wanted, self.isolation is Isolation.READ_COMMITTED
        end = data.last_stable_offset if is_committed else data.high_watermark
        if self.follower is None and wanted.asked.fetch_offset >= end and data.diverging_epoch.epoch == _UNKNOWN:
            wanted.idle = Idle((wanted.asked, self.isolation, replica, *replica.marks()), data)

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
        asked, replica = each.wanted.asked, each.replica
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
        data = _answer(asked.partition, read)
        self._note_idle(each, replica, data)
        return data, found

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
            partition_index=each.wanted.asked.partition,
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
        throttle_ms, is_given = self._throttle()
        selected = self.context.select(self._found) if is_given else self.context.select_nothing()
        self._count(selected.found)
        header = self.request.header
        response = FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=selected.error,
            session_id=selected.session_id,
            responses=_by_topic(selected.found),
        )
        sizes = [0 if records is None else records.length for _, _, records in selected.found]
        heads = fetch_response_pieces(header.correlation_id, header.api_version, response, sizes)
        pieces: list[Piece] = [heads[0]]
        for (_, _, records), head in zip(selected.found, heads[1:], strict=True):
            if records is not None:
                pieces.append(records)
            pieces.append(head)
        self.request.answer_with(pieces)

    def _throttle(self) -> tuple[int, bool]:
        """How long the consumer has to wait because of quotas, and whether it gets what was found."""
        throttling = self.request.throttling
        if throttling is None:
            return 0, True
        wait_ms, is_given = 0, True
        if throttling.limits_fetches:
            size_bytes = sum(0 if records is None else records.length for _, _, records in self._found)
            wait_ms, is_given = throttling.fetched(self.request, size_bytes)
        return max(wait_ms, throttling.answered(self.request)), is_given

    def _count(self, found: Sequence[Found]) -> None:
        """Note what the answer has of each partition."""
        meters = self.request.meters
        if self.follower is not None:
            meters.replication_bytes_out += sum(0 if records is None else records.length for _, _, records in found)
            return
        for asked, data, records in found:
            name = asked.wanted.topic if asked.replica is None else asked.replica.topic
            if data.error_code:
                meters.fetch_failed(name, is_here=asked.replica is not None)
            else:
                meters.fetched(name, 0 if records is None else records.length)

    def _note_marks(self, broker_id: int) -> None:
        for asked, data, _ in self._found:
            if asked.replica is not None and asked.replica.leader is not None and not data.error_code:
                asked.replica.leader.told_mark(broker_id, data.high_watermark)


def _by_topic(found: Iterable[Found]) -> tuple[FetchableTopicResponse, ...]:
    """The partitions of an answer, in their order."""
    topics = groupby(found, lambda each: (each[0].wanted.topic, each[0].wanted.topic_id))
    return tuple(
        FetchableTopicResponse(topic=topic, topic_id=topic_id, partitions=tuple(data for _, data, _ in partitions))
        for (topic, topic_id), partitions in topics
    )


def _answer(index: int, read: Read) -> FetchPartitionData:
    diverging = _NOT_DIVERGING
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
        sessions: FetchSessions,
    ) -> None:
        """`wait` is given a request and how long it waits at most, in ms. `bytes_max`: `fetch.max.bytes`. `now`:
        monotonic ms. `touched` is given a replica of which a follower has said where it is."""
        self._replicas = replicas
        self._image = image
        self._wait = wait
        self._bytes_max = bytes_max
        self._now = now
        self._touched = touched
        self._sessions = sessions

    def fetch(self, request: Request) -> None:
        """Handle Fetch."""
        body: FetchRequest = request.body
        follower = follower_in(body)
        try:
            if follower is not None and not request.is_of_broker(follower.replica_id):
                raise FetchSessionError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if body.isolation_level not in tuple(Isolation):
                raise FetchSessionError(ErrorCode.INVALID_REQUEST)
            context = self._sessions.context_of(
                body, uses_ids=request.version >= IDS_SINCE, is_follower=follower is not None
            )
        except FetchSessionError as error:
            response = FetchResponse(error_code=error.error, session_id=NO_SESSION, responses=())
            request.answer_with([*fetch_response_pieces(request.header.correlation_id, request.version, response, ())])
            return
        asked = self._asked(request, context.partitions())
        bytes_max = min(body.max_bytes, self._bytes_max)
        most = None if request.throttling is None else request.throttling.fetch_bytes_max(request)
        bytes_max = bytes_max if most is None else min(bytes_max, most)
        fetching = Fetching(
            *(request, context, asked, Isolation(body.isolation_level), bytes_max, follower, self._now, self._touched)
        )
        self._wait(fetching, body.max_wait_ms)

    def _asked(self, request: Request, partitions: Iterable[Wanted]) -> list[Asked]:
        found: list[Asked] = []
        topics: dict[str | Uuid, tuple[str, ReplicaError | None]] = {}
        has_ids = request.version >= IDS_SINCE
        for each in partitions:
            known = each.topic_id if has_ids else each.topic
            topic = topics.get(known)
            if topic is None:
                topic = topics[known] = self._topic(request, known)
            (name, error), index = topic, each.asked.partition
            try:
                if error is not None:
                    raise error
                found.append(Asked(each, self._replicas.asked(name, index, each.topic_id), None))
            except ReplicaError as refused:
                found.append(Asked(each, self._replicas.get(name, index), refused))
        return found

    def _topic(self, request: Request, known: str | Uuid) -> tuple[str, ReplicaError | None]:
        """The name of a topic that is known by its name or its id, and why it is not to be read."""
        if isinstance(known, bytes):
            topic = self._image().topic_of(known)
            if topic is None:
                return "", ReplicaError(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
            known = topic.name
        if request.may(Operation.READ, ResourceType.TOPIC, known):
            return known, None
        return known, ReplicaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it may not read {known}")
