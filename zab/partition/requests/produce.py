"""Produce: batches are appended at once, and answered when they are where the producer wants them.

    acks=0      nobody waits; there is no answer. An error closes the connection, which is all that can be said
    acks=1      the leader has stored them: written, or synced where the topic wants that
    acks=all    every replica in sync has them: the high watermark has passed them

A request waits for all its partitions, each of which is decided once: it has got there, or this broker leads it no
longer, its storage failed, or the time is over. What was appended may be committed later whatever the answer says, so
no error after the append says that nothing was written.

Before the first batch of a transaction is appended to a partition, the coordinator of the transaction is asked whether
the partition is part of it (`verification`). If that is on another broker, the whole request waits for its answer, and
the connection with it, so that later batches come after this one. If it cannot say so now, or a marker has come
meanwhile, the producer tries again (NOT_ENOUGH_REPLICAS, as in Kafka).

Of a producer that the log does not know, the first batch may have any sequence. So the lowest one that was refused in
this way is remembered: what comes after it in the producer's line does not take its place (OUT_OF_ORDER_SEQUENCE).

Limits: requests that wait for coordinators have `queued.max.request.bytes` in all; a further one is answered
NOT_ENOUGH_REPLICAS. `REFUSED_MAX` sequences are remembered, the newest.

Clients may not write to the topics that brokers keep for themselves. Each topic needs the permission Write; that on the
transactional id is the guard's (`zab.partition.guards.topics`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
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
from zab.partition.log.incoming import Appended
from zab.partition.records.batch import BatchError, BatchHeader, read_header, walk
from zab.partition.records.checks import RecordsError
from zab.partition.replica.replica import ALL_IN_SYNC, Replica, ReplicaError
from zab.partition.requests.replicas import Replicas
from zab.partition.requests.request import Request
from zab.partition.requests.verification import Guard, Verification
from zab.partition.transactions.requests import Verify
from zab.partition.transactions.transaction import TopicPartition

NOBODY: Final = 0
_ACKS: Final = (ALL_IN_SYNC, NOBODY, 1)
NO_OFFSET: Final = -1
LEADERS_SINCE: Final = 10
"""The version from which on an answer says who leads the partition instead."""
REFUSED_MAX: Final = 10_000
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
        self.request.answer(ProduceResponse(responses=responses, throttle_time_ms=self._throttle_ms()))

    def _throttle_ms(self) -> int:
        throttling = self.request.throttling
        return 0 if throttling is None else throttling.produced(self.request)


@attrs.define
class _Verifying:
    """A request whose coordinators have been asked."""

    request: Request
    size_bytes: int
    left: int
    """How many questions are not answered."""
    guards: dict[TopicPartition, Guard] = attrs.Factory(dict)
    errors: dict[TopicPartition, ErrorCode] = attrs.Factory(dict)
    """What was answered."""

    def error(self, partition: TopicPartition) -> ErrorCode:
        """Whether the first batch for this partition may be appended: NONE, or what its producer is told."""
        error = self.errors.get(partition, ErrorCode.NOT_ENOUGH_REPLICAS)
        is_outdated = error is ErrorCode.NONE and not self.guards[partition].holds
        return ErrorCode.NOT_ENOUGH_REPLICAS if is_outdated else error


class ProduceRequests:
    """Appends, and hands to the purgatory what has to wait."""

    def __init__(
        self,
        replicas: Replicas,
        wall_ms: Callable[[], int],
        wait: Callable[[Produced, int], None],
        touched: Callable[[Replica], None],
        verification: Verification,
        waiting_bytes_max: int,
    ) -> None:
        """`wait` is given a request and its timeout in ms, and answers it when it is complete; `touched` is given a
        replica that was appended to; `waiting_bytes_max`: how much may wait for coordinators of transactions."""
        self._replicas = replicas
        self._wall_ms = wall_ms
        self._wait = wait
        self._touched = touched
        self._verification = verification
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting_bytes = 0
        """The size of the requests that wait for coordinators."""
        self._refused: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        """The epoch, and the lowest sequence that was refused since it could not be verified, of each producer that a
        log does not know."""

    def produce(self, request: Request) -> None:
        """Handle Produce."""
        questions, guards = self._unverified(request)
        if not questions:
            self._append_all(request, None)
            return
        body: ProduceRequest = request.body
        size_bytes = sum(len(each.records or b"") for topic in body.topic_data for each in topic.partition_data)
        verifying = _Verifying(request, size_bytes, len(questions), guards)
        if self._waiting_bytes and self._waiting_bytes + size_bytes > self._waiting_bytes_max:
            self._append_all(request, verifying)
            return
        self._waiting_bytes += size_bytes
        request.hold_up()
        for asked in questions:
            self._verification.ask(asked, partial(self._verified, verifying, asked))

    def _unverified(self, request: Request) -> tuple[list[Verify], dict[TopicPartition, Guard]]:
        """What the coordinators of transactions are to be asked before this request is looked at further."""
        body: ProduceRequest = request.body
        wanted: dict[tuple[int, int], dict[TopicPartition, None]] = {}
        guards: dict[TopicPartition, Guard] = {}
        for topic in body.topic_data if body.transactional_id is not None and body.acks in _ACKS else ():
            for partition in topic.partition_data:
                try:
                    replica = self._writable(request, topic.name, partition.index)
                    header = _first_of_transaction(replica, memoryview(partition.records or b""))
                    if header is not None:
                        guards[replica.key] = Guard.of(replica, header.producer_id)
                        wanted.setdefault((header.producer_id, header.producer_epoch), {})[replica.key] = None
                except (ReplicaError, BatchError):
                    # It is refused when it is to be appended.
                    continue
        questions = [
            Verify(transactional_id=body.transactional_id or "", producer_id=id_, epoch=epoch, partitions=tuple(each))
            for (id_, epoch), each in wanted.items()
        ]
        return questions, guards

    def _verified(self, verifying: _Verifying, asked: Verify, errors: Sequence[ErrorCode]) -> None:
        verifying.errors.update(zip(asked.partitions, errors, strict=True))
        verifying.left -= 1
        if verifying.left:
            return
        self._waiting_bytes -= verifying.size_bytes
        if verifying.request.is_open:
            self._append_all(verifying.request, verifying)
            verifying.request.let_on()

    def _append_all(self, request: Request, verifying: _Verifying | None) -> None:
        body: ProduceRequest = request.body
        topics: dict[str, list[PartitionProduceResponse]] = {topic.name: [] for topic in body.topic_data}
        waiting: list[Written] = []
        has_errors = False
        for topic in body.topic_data:
            for partition in topic.partition_data:
                records = partition.records
                written = self._append(request, topic.name, partition.index, records, verifying)
                if isinstance(written, Written):
                    waiting.append(written)
                else:
                    has_errors = True
                    topics[topic.name].append(written)
        if body.acks == NOBODY:
            if has_errors:
                request.close("a produce with acks=0 failed")
            else:
                if request.throttling is not None:
                    request.throttling.produced(request)
                request.answer_with([])
            return
        self._wait(Produced(request, topics, waiting), body.timeout_ms)

    def _append(
        self,
        request: Request,
        topic: str,
        index: int,
        records: bytes | memoryview | None,
        verifying: _Verifying | None,
    ) -> Written | PartitionProduceResponse:
        """Append to one partition, or say why not."""
        acks = request.body.acks
        try:
            if acks not in _ACKS:
                raise ReplicaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is none of -1, 0 and 1")
            replica = self._writable(request, topic, index)
            leader = replica.leading()
            data = memoryview(records or b"")
            is_verified = self._is_verified(request, replica, data, verifying)
            appended = replica.append(data, request.version, acks, self._wall_ms(), is_verified=is_verified)
        except (ReplicaError, BatchError, LogError) as error:
            request.meters.produce_failed(topic, is_here=self._replicas.get(topic, index) is not None)
            return self._refusal(request.version, topic, index, error)
        if not appended.is_duplicate:
            request.meters.produced(topic, len(data), appended.last_offset - appended.base_offset + 1)
            self._touched(replica)
        return Written(topic, replica, leader.epoch, appended, acks == ALL_IN_SYNC)

    def _writable(self, request: Request, topic: str, index: int) -> Replica:
        """The replica, to which the client may write. Raises ReplicaError."""
        if not request.may(Operation.WRITE, ResourceType.TOPIC, topic):
            raise ReplicaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it may not write to {topic}")
        if topic in INTERNAL:
            raise ReplicaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"only brokers write to {topic}")
        return self._replicas.asked(topic, index)

    def _is_verified(self, request: Request, replica: Replica, data: memoryview, verifying: _Verifying | None) -> bool:
        """Whether the partition is known to be part of the transaction of these batches. Raises ReplicaError,
        BatchError."""
        transactional_id = request.body.transactional_id
        if transactional_id is None:
            if request.is_checked and any(each.is_transactional for _, each in walk(data)):
                # Otherwise a client that may write to the topic could add to the transactions of others.
                error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                raise ReplicaError(error, "a transaction has a transactional id")
            return False
        header = _first_of_transaction(replica, data)
        if header is None:
            return False
        error = ErrorCode.NOT_ENOUGH_REPLICAS if verifying is None else verifying.error(replica.key)
        self._keep_in_line(replica, header, error)
        if error is not ErrorCode.NONE:
            raise ReplicaError(error, "the partition is not known to be part of the transaction")
        return True

    def _keep_in_line(self, replica: Replica, header: BatchHeader, error: ErrorCode) -> None:
        """Let no later batch of an unknown producer take the place of one that it is to send again. Raises
        ReplicaError."""
        if header.producer_id in replica.log.producers.states:
            return
        line, sequence = (replica.key, header.producer_id), header.base_sequence
        epoch, lowest = self._refused.pop(line, (header.producer_epoch, sequence))
        if epoch != header.producer_epoch:
            lowest = sequence
        is_ahead = error is ErrorCode.NONE and sequence > lowest
        if is_ahead or error is ErrorCode.NOT_ENOUGH_REPLICAS:
            self._refused[line] = header.producer_epoch, min(lowest, sequence)
            if len(self._refused) > REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
        if is_ahead:
            text = f"producer {header.producer_id} sends sequence {sequence}, {lowest} was to be sent again"
            raise ReplicaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)

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


def _first_of_transaction(replica: Replica, data: memoryview) -> BatchHeader | None:
    """The header of the first of these batches, if they belong to one producer, whose transaction is not open in the
    partition. Raises BatchError."""
    header = read_header(data)
    if not header.is_transactional or replica.log.producers.has_open(header.producer_id, header.producer_epoch):
        return None
    owner = header.producer_id, header.producer_epoch
    is_of_one = all((each.producer_id, each.producer_epoch) == owner for _, each in walk(data))
    return header if is_of_one else None


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
