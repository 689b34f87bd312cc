"""A producer: batches for the partitions of one topic, sent again until they are acknowledged.

Each partition has a lane: its batches in order. After an error, or without an answer, the lane lets what is under way
come to an end, asks who leads the partition, and sends everything that is not acknowledged again, in order, with the
same sequence numbers. So an idempotent producer loses and repeats nothing, whatever happens; the judge sees to it.

A producer that is not idempotent has no sequence numbers and one batch of a partition under way; what it sends again
may be there twice. With acks=0 it sends nothing again, since it is told nothing.

When the topic is another one of the same name, the lane forgets what was not acknowledged, and begins with a new
producer id. Requests name topics by their names, so a batch may get into the newer topic of the name; the judge hears
only of those that did not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.metadata import MetadataResponse
from zab.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from zab.kafka.messages.transactions import InitProducerIdRequest
from zab.partition.records.builder import encode_batch
from zab.partition.records.record import Record
from zab.simulator.brokers.client import Client, Surroundings
from zab.simulator.brokers.judge import Key, Sent
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

PRODUCE_VERSION: Final = 9
INIT_VERSION: Final = 4
IN_FLIGHT_MAX: Final = 5
"""How many batches of an idempotent producer a leader remembers."""
WAITING_MAX: Final = 8
"""How many batches a lane has that are not acknowledged."""
BACKOFF_US: Final = 100 * MS
PRODUCE_TIMEOUT_MS: Final = 2_000
ALL: Final = -1
"""The `acks` of a producer that waits for every replica in sync."""

GAPS: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""After these a producer tries again."""


@attrs.define(eq=False)
class Batch:
    """Some records of one lane, in one batch."""

    values: list[bytes]
    sequence: int
    timestamp_ms: int
    is_under_way: bool = False
    hits: bool = False
    """Whether the leader had this very topic when it was sent."""


@attrs.define(eq=False)
class Lane:
    """One partition, as its producer sees it."""

    index: int
    topic_id: bytes
    line: str
    """The name of the sequence of its records."""
    leader: int = -1
    batches: deque[Batch] = attrs.Factory(deque)
    """What is not acknowledged, in order."""
    under_way: int = 0
    drains: bool = False
    """Whether nothing is sent until nothing is under way."""
    next_sequence: int = 0
    count: int = 0
    """How many records it has had."""
    has_missed: bool = False
    """Whether a batch was acknowledged that may be in another topic."""


class Producer(Client):
    """See the docstring of the module."""

    def __init__(
        self,
        cluster: Surroundings,
        number: int,
        rng: Random,
        kept: frozenset[int] | None,
        *,
        topic: str,
        is_idempotent: bool,
        acks: int,
        is_promised: bool,
        in_flight_max: int,
        gap_us: int,
    ) -> None:
        """`gap_us`: the average time between two batches. `is_promised`: whether what is acknowledged is there for
        ever. `in_flight_max`: how many batches of a partition are under way."""
        super().__init__(cluster, number, rng, kept)
        self.topic = topic
        self.acknowledged_count = 0
        self._is_idempotent = is_idempotent
        self._acks = acks
        self._is_promised = is_promised
        self._gap_us = gap_us
        self._in_flight_max = in_flight_max
        self._lanes: dict[int, Lane] = {}
        self._producer_id = -1
        self._producer_epoch = -1
        self._life = 0
        """Counts producer ids."""
        self._is_asking = False

    def start(self) -> None:
        self._refresh()
        self.later(int(self._gap_us * self.rng.random()), self._go_on)

    @property
    def waiting_count(self) -> int:
        """Batches that are not acknowledged."""
        return sum(len(lane.batches) for lane in self._lanes.values())

    def _go_on(self) -> None:
        if self.is_stopped:
            return
        self.later(int(self._gap_us * self.rng.expovariate(1)), self._go_on)
        draw, count, size = self.rng.random(), self.rng.randint(1, 4), int(self.rng.random() ** 4 * 1500)
        if self.wishes() and self._lanes:
            lane = self._lanes[sorted(self._lanes)[int(draw * len(self._lanes))]]
            if len(lane.batches) < WAITING_MAX:
                self.write(lane, count, size)

    def write(self, lane: Lane, count: int, size_bytes: int) -> None:
        """Add a batch of so many records to a lane, and send what can be sent."""
        values = []
        for _ in range(count):
            lane.count += 1
            value = f"{lane.line}.{lane.count} ".encode() + bytes(size_bytes)
            self.cluster.judge.sends(
                value, Sent(self.topic, lane.index, lane.line, lane.count, is_idempotent=self._is_idempotent)
            )
            values.append(value)
        lane.batches.append(Batch(values, lane.next_sequence, self.wall_ms))
        lane.next_sequence += count
        self._pump(lane)

    def write_everywhere(self) -> None:
        """Add a record to every lane that has nothing to send: what is acknowledged shows that it is served."""
        for lane in self._lanes.values():
            if not lane.batches:
                self.write(lane, 1, 0)

    # -------------------------------------------------------------------------------------------------------- metadata

    def _refresh(self) -> None:
        """Ask who leads the partitions, and for a producer id if there is none."""
        if self._is_asking:
            return
        self._is_asking = True
        if self._is_idempotent and self._producer_id < 0:
            body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            self.ask(self.rng.choice(self.cluster.broker_ids), body, INIT_VERSION, self._initialized)
        else:
            self.metadata([self.topic], self._learned)

    def _initialized(self, answer: Any) -> None:
        if answer is not None and not answer.error_code:
            self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
        self._again_soon()

    def _again_soon(self) -> None:
        self._is_asking = False
        self.later(int(BACKOFF_US * (0.5 + self.rng.random())), self._refresh)

    def _learned(self, answer: MetadataResponse | None) -> None:
        topic = None if answer is None or not answer.topics else answer.topics[0]
        if topic is None or topic.error_code:
            self._again_soon()
            return
        if self._is_idempotent and self._producer_id < 0:
            self._again_soon()
            return
        self._is_asking = False
        if any(lane.topic_id != topic.topic_id for lane in self._lanes.values()):
            self._begin_anew()
            return
        has_all = True
        for partition in topic.partitions:
            lane = self._lanes.get(partition.partition_index)
            if lane is None:
                line = f"{self.name}/{self._life}/{partition.partition_index}"
                lane = self._lanes[partition.partition_index] = Lane(
                    partition.partition_index, bytes(topic.topic_id), line
                )
            lane.leader = partition.leader_id
            has_all = has_all and lane.leader >= 0
            self._pump(lane)
        if not has_all:
            self._again_soon()

    def _begin_anew(self) -> None:
        """Forget all lanes and the producer id."""
        self._lanes = {}
        self._producer_id = -1
        self._life += 1
        self._refresh()

    # --------------------------------------------------------------------------------------------------------- sending

    def _pump(self, lane: Lane) -> None:
        """Send what can be sent."""
        if lane.drains or self._lanes.get(lane.index) is not lane or (self._is_idempotent and self._producer_id < 0):
            return
        if lane.leader < 0:
            if lane.batches:
                self._refresh()
            return
        for batch in lane.batches:
            if lane.drains or lane.under_way >= self._in_flight_max:
                return
            if not batch.is_under_way:
                batch.is_under_way = True
                lane.under_way += 1
                self._send(lane, batch)

    def _send(self, lane: Lane, batch: Batch) -> None:
        records = [Record(at, batch.timestamp_ms, None, value) for at, value in enumerate(batch.values)]
        data = encode_batch(
            records,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=batch.sequence if self._is_idempotent else -1,
        )
        batch.hits = self.cluster.has_topic(lane.leader, self.topic, lane.index, lane.topic_id)
        partition = PartitionProduceData(index=lane.index, records=data)
        body = ProduceRequest(
            acks=self._acks,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=(TopicProduceData(name=self.topic, partition_data=(partition,)),),
        )
        if self._acks == 0:
            self.tell(lane.leader, body, PRODUCE_VERSION)
            self.later(0, self._told, lane, batch)
        else:
            self.ask(lane.leader, body, PRODUCE_VERSION, partial(self._answered, lane, batch))

    def _told(self, lane: Lane, batch: Batch) -> None:
        """A batch was sent for which there is no answer."""
        lane.under_way -= 1
        self.acknowledged_count += 1
        lane.batches.remove(batch)
        if self.rng.random() < 0.1:
            lane.leader = -1
        self._pump(lane)

    def _answered(self, lane: Lane, batch: Batch, answer: Any) -> None:
        batch.is_under_way = False
        lane.under_way -= 1
        if self._lanes.get(lane.index) is not lane:
            return
        result = None if answer is None else answer.responses[0].partition_responses[0]
        error = None if result is None else ErrorCode(result.error_code)
        if result is not None and error is ErrorCode.NONE:
            self._acknowledged(lane, batch, result.base_offset)
        elif error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            lane.batches.remove(batch)
        elif error in GAPS and lane.batches[0] is batch:
            # Everything before it is acknowledged.
            if self.cluster.is_newest(self.topic, lane.topic_id) and not lane.has_missed:
                self.cluster.judge.gap(_key(lane), batch.values[0], error.name)
            self._begin_anew()
            return
        elif error is None or error in _EXPECTED or error in GAPS:
            lane.drains = True
        else:
            raise SafetyError("produce is answered with an error that may be", f"{self.name}: {error.name}")
        if lane.drains and not lane.under_way:
            self.later(int(BACKOFF_US * (0.5 + self.rng.random())), self._resume, lane)
        self._pump(lane)

    def _acknowledged(self, lane: Lane, batch: Batch, base_offset: int) -> None:
        lane.batches.remove(batch)
        self.acknowledged_count += 1
        if base_offset >= 0 and batch.hits and self.cluster.is_newest(self.topic, lane.topic_id):
            self.cluster.judge.acknowledged(_key(lane), base_offset, batch.values, is_promise=self._is_promised)
        else:
            lane.has_missed = True

    def _resume(self, lane: Lane) -> None:
        """Send again what is not acknowledged."""
        lane.drains = False
        lane.leader = -1
        if self._lanes.get(lane.index) is lane:
            self._refresh()

    def lanes(self) -> Sequence[Lane]:
        """One for each partition that it knows."""
        return list(self._lanes.values())


def _key(lane: Lane) -> Key:
    return lane.topic_id, lane.index
