"""Produce: batches are appended at once, and answered when they are where the producer wants them.

    acks=0      nobody waits; there is no answer. An error closes the connection, which is all that can be said
    acks=1      the leader has stored them: written, or synced where the topic wants that
    acks=all    every replica in sync has them: the high watermark has passed them

A request waits for all its partitions, each of which is decided once: it has got there, or this broker leads it no
longer, its storage failed, or the time is over. What was appended may be committed later whatever the answer says, so
no error after the append says that nothing was written.

Before the first batch of a transaction is appended to a partition, the coordinator of the transaction is asked whether
the partition is part of it (KIP-890). What it says is true in this turn, in which the batch is appended; so no marker
comes between. If it cannot say so now, the producer tries again (NOT_ENOUGH_REPLICAS, as in Kafka).

Clients may not write to the topics that brokers keep for themselves. Each topic needs the permission Write; that on the
transactional id is the guard's (`zab.partition.guards.topics`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from zab.partition.access.acls import Operation, ResourceType
from zab.partition.image.cluster_image import INTERNAL
from zab.partition.log.errors import LogError
from zab.partition.log.log import Appended
from zab.partition.records.batch import BatchError, read_header, walk
from zab.partition.records.checks import RecordsError
from zab.partition.replica.replica import ALL_IN_SYNC, Replica, ReplicaError
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request
from zab.partition.requests.verification import Verify

NOBODY: Final = 0
_ACKS: Final = (ALL_IN_SYNC, NOBODY, 1)
NO_OFFSET: Final = -1
LEADERS_SINCE: Final = 10
"""The version from which on an answer says who leads the partition instead."""
_MOVED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@attrs.define(eq=False)
class Written:
    """One partition of a request, appended and not decided yet."""

    topic: str
    replica: Replica
    epoch: int
    """The leader epoch in which it was appended."""
    appended: Appended
    waits_for_all: bool

    def error(self) -> ErrorCode | None:
        """NONE: it is where its producer wants it. None: not yet."""
        leader = self.replica.leader
        if self.replica.log.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if leader is None or leader.epoch != self.epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not self.waits_for_all:
            return ErrorCode.NONE if self.replica.stored_end > self.appended.last_offset else None
        if self.replica.log.high_watermark <= self.appended.last_offset:
            return None
        return ErrorCode.NONE if self.replica.has_enough_in_sync else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@attrs.define(eq=False)
class Produced:
    """A request whose partitions are appended; an operation of the purgatory."""

    request: Request
    topics: dict[str, list[PartitionProduceResponse]]
    """What is decided, in the order of the request's topics."""
    waiting: list[Written]

    def keys(self) -> list[tuple[str, int]]:
        """What it waits for."""
        return [written.replica.key for written in self.waiting]

    def try_complete(self) -> bool:
        """Decide what can be decided. True: nothing is left."""
        if self.waiting:
            self.waiting = [written for written in self.waiting if not self._decide(written, written.error())]
        return not self.waiting

    def _decide(self, written: Written, error: ErrorCode | None) -> bool:
        if error is None:
            return False
        self.topics[written.topic].append(_answer(written, error))
        return True

    def complete(self) -> None:
        """Answer the request: what is not decided by now has timed out."""
        for written in self.waiting:
            self._decide(written, ErrorCode.REQUEST_TIMED_OUT)
        responses = tuple(
            TopicProduceResponse(name=name, partition_responses=tuple(answers)) for name, answers in self.topics.items()
        )
        self.request.answer(ProduceResponse(responses=responses))


class ProduceRequests:
    """Appends, and hands to the purgatory what has to wait."""

    def __init__(
        self,
        replicas: Replicas,
        wall_ms: Callable[[], int],
        wait: Callable[[Produced, int], None],
        touched: Callable[[Replica], None],
        verify: Verify,
    ) -> None:
        """`wait` is given a request and its timeout in ms, and answers it when it is complete; `touched` is given a
        replica that was appended to; `verify` asks the coordinator of a transaction."""
        self._replicas = replicas
        self._wall_ms = wall_ms
        self._wait = wait
        self._touched = touched
        self._verify = verify

    def produce(self, request: Request) -> None:
        """Handle Produce."""
        body: ProduceRequest = request.body
        topics: dict[str, list[PartitionProduceResponse]] = {topic.name: [] for topic in body.topic_data}
        waiting: list[Written] = []
        has_errors = False
        for topic in body.topic_data:
            for partition in topic.partition_data:
                records = partition.records
                written = self._append(request, topic.name, partition.index, records, body.acks)
                if isinstance(written, Written):
                    waiting.append(written)
                else:
                    has_errors = True
                    topics[topic.name].append(written)
        if body.acks == NOBODY:
            if has_errors:
                request.close("a produce with acks=0 failed")
            else:
                request.answer_with([])
            return
        self._wait(Produced(request, topics, waiting), body.timeout_ms)

    def _append(
        self, request: Request, topic: str, index: int, records: bytes | memoryview | None, acks: int
    ) -> Written | PartitionProduceResponse:
        """Append to one partition, or say why not."""
        try:
            if acks not in _ACKS:
                raise ReplicaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is none of -1, 0 and 1")
            if not request.may(Operation.WRITE, ResourceType.TOPIC, topic):
                raise ReplicaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it may not write to {topic}")
            if topic in INTERNAL:
                raise ReplicaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only brokers write to {topic}")
            replica = self._replicas.asked(topic, index)
            leader = replica.leading()
            data = memoryview(records or b"")
            is_verified = self._is_verified(request, replica, data)
            appended = replica.append(data, request.version, acks, self._wall_ms(), is_verified=is_verified)
        except (ReplicaError, BatchError, LogError) as error:
            request.meters.produce_failed(topic, is_here=self._replicas.get(topic, index) is not None)
            return self._refusal(request.version, topic, index, error)
        if not appended.is_duplicate:
            request.meters.produced(topic, len(data), appended.last_offset - appended.base_offset + 1)
            self._touched(replica)
        return Written(topic, replica, leader.epoch, appended, acks == ALL_IN_SYNC)

    def _is_verified(self, request: Request, replica: Replica, data: memoryview) -> bool:
        """Whether the partition is known to be part of the transaction of these batches. Raises ReplicaError,
        BatchError."""
        transactional_id = request.body.transactional_id
        if transactional_id is None:
            if request.is_checked and any(each.is_transactional for _, each in walk(data)):
                # Otherwise a client that may write to the topic could add to the transactions of others.
                error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                raise ReplicaError(error, "a transaction has a transactional id")
            return False
        header = read_header(data)
        if not header.is_transactional or replica.log.producers.has_open(header.producer_id, header.producer_epoch):
            return False
        owner = header.producer_id, header.producer_epoch
        if any((each.producer_id, each.producer_epoch) != owner for _, each in walk(data)):
            return False
        error = self._verify(
            *(transactional_id, header.producer_id, header.producer_epoch, replica.topic, replica.index)
        )
        if error is not ErrorCode.NONE:
            raise ReplicaError(error, "the partition is not known to be part of the transaction")
        return True

    def _refusal(
        self, version: int, topic: str, index: int, error: ReplicaError | BatchError | LogError
    ) -> PartitionProduceResponse:
        records = error.record_errors if isinstance(error, RecordsError) else []
        replica = self._replicas.get(topic, index)
        state = None if replica is None else replica.state
        leader = LeaderIdAndEpoch()
        if version >= LEADERS_SINCE and error.error in _MOVED and state is not None:
            leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
        return PartitionProduceResponse(
            index=index,
            error_code=error.error,
            base_offset=NO_OFFSET,
            error_message=str(error),
            record_errors=tuple(
                BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why) for at, why in records
            ),
            current_leader=leader,
        )


def _answer(written: Written, error: ErrorCode) -> PartitionProduceResponse:
    """What a decided partition is answered with."""
    replica, appended = written.replica, written.appended
    if error is not ErrorCode.NONE:
        return PartitionProduceResponse(index=replica.index, error_code=error, base_offset=NO_OFFSET)
    return PartitionProduceResponse(
        index=replica.index,
        error_code=error,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=replica.log.log_start,
    )
