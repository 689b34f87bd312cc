"""Clients of compacted topics: a producer that writes a few keys again and again, and a consumer that reads them all.

The producer is idempotent and has one batch under way, which it sends until it is acknowledged. The consumer reads one
partition after the other, from its beginning to its end.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from zab.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from zab.kafka.messages.transactions import InitProducerIdRequest
from zab.partition.records.batch import check_crc, walk
from zab.partition.records.builder import BatchBuilder
from zab.partition.records.record import decode_records
from zab.simulator.brokers.consumer import FETCH_VERSION, MAX_WAIT_MS, whole_batches
from zab.simulator.brokers.keys import NUMBER, Expectation, KeyJudge
from zab.simulator.brokers.producer import ALL, GAPS, INIT_VERSION, PRODUCE_TIMEOUT_MS, PRODUCE_VERSION
from zab.simulator.brokers.scripted_client import BACKOFF_US, Ask, Script, ScriptedClient
from zab.simulator.world.verdict import SafetyError

TOMBSTONE_SHARE: Final = 0.15


class KeyProducer(ScriptedClient):
    """See the docstring of the module."""

    def __init__(self, *surroundings: Any, judge: KeyJudge, topic: str, keys_count: int, gap_us: int) -> None:
        super().__init__(*surroundings)
        self.judge = judge
        self.topic = topic
        self.is_done = False
        self._keys = [f"{self.name}-{number}".encode() for number in range(keys_count)]
        self._gap_us = gap_us
        self._sequences: dict[int, int] = {}

    def start(self) -> None:
        self.perform(self._main())

    def _main(self) -> Script[None]:
        producer_id = yield from self._initialize()
        while not self.is_calm:
            yield self.pause(self._gap_us)
            if not self.wishes():
                continue
            indexes = yield from self.partitions(self.topic)
            if indexes:
                yield from self._write(producer_id, self.rng.choice(indexes))
        self.is_done = True

    def _initialize(self) -> Script[int]:
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            answer = yield Ask(self.rng.choice(self.cluster.broker_ids), body, INIT_VERSION)
            if answer is not None and not answer.error_code:
                return int(answer.producer_id)
            yield self.pause(BACKOFF_US)

    def _write(self, producer_id: int, index: int) -> Script[None]:
        """One batch of a few keys, until it is acknowledged."""
        sequence = self._sequences.get(index, 0)
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
        written = []
        for key in self.rng.sample(self._keys, self.rng.randint(1, min(3, len(self._keys)))):
            is_tombstone = self.rng.random() < TOMBSTONE_SHARE
            number = self.judge.sends(index, key, is_tombstone=is_tombstone)
            value = None if is_tombstone else b"%s=%d" % (key, number) + bytes(self.rng.randint(0, 300))
            builder.append(key, value, self.wall_ms, ((NUMBER, b"%d" % number),))
            written.append((key, number))
        partition = PartitionProduceData(index=index, records=builder.build())
        body = ProduceRequest(
            acks=ALL,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=(TopicProduceData(name=self.topic, partition_data=(partition,)),),
        )
        while True:
            leader = yield from self.leader(self.topic, index)
            answer = None if leader is None else (yield Ask(leader.broker, body, PRODUCE_VERSION))
            if answer is not None:
                result = answer.responses[0].partition_responses[0]
                if result.error_code == ErrorCode.NONE:
                    break
                if result.error_code in GAPS:
                    text = f"batch {sequence} of {self.name} is answered with {ErrorCode(result.error_code).name}"
                    raise SafetyError("idempotence", text)
            self.forget_leader(self.topic, index)
            yield self.pause(BACKOFF_US)
        self._sequences[index] = sequence + len(written)
        for offset, (key, number) in enumerate(written, result.base_offset):
            self.judge.acknowledged(index, key, number, offset)


@attrs.define(eq=False)
class Pass:
    """One reading of a partition, from the beginning to the end."""

    expected: Expectation
    position: int = 0
    last: dict[bytes, int] = attrs.Factory(dict)


class KeyReader(ScriptedClient):
    """See the docstring of the module."""

    def __init__(self, *surroundings: Any, judge: KeyJudge, topic: str, gap_us: int) -> None:
        super().__init__(*surroundings)
        self.judge = judge
        self.topic = topic
        self.good_at: dict[int, int] = {}
        """When the last pass over each partition began that was good."""
        self._gap_us = gap_us

    def start(self) -> None:
        self.perform(self._main())

    def _main(self) -> Script[None]:
        while not self.is_stopped:
            yield self.pause(self._gap_us)
            if not self.wishes():
                continue
            for index in (yield from self.partitions(self.topic)):
                began_at = self.cluster.schedule.now
                if (yield from self._pass(index)):
                    self.good_at[index] = began_at

    def _pass(self, index: int) -> Script[bool]:
        """Whether it has come to a good end."""
        reading = Pass(self.judge.expectation(index))
        while not self.is_stopped:
            leader = yield from self.leader(self.topic, index)
            if leader is None:
                return False
            wanted = FetchPartition(
                partition=index,
                current_leader_epoch=leader.epoch,
                fetch_offset=reading.position,
                partition_max_bytes=self.rng.choice((500, 5_000, 50_000)),
            )
            body = FetchRequest(
                max_wait_ms=MAX_WAIT_MS,
                min_bytes=1,
                topics=(FetchTopic(topic_id=leader.topic_id, partitions=(wanted,)),),
            )
            answer = yield Ask(leader.broker, body, FETCH_VERSION)
            if answer is None or not answer.responses or answer.responses[0].partitions[0].error_code:
                self.forget_leader(self.topic, index)
                return False
            data = answer.responses[0].partitions[0]
            before = reading.position
            self._take(index, reading, bytes(data.records or b""))
            if reading.position >= data.high_watermark or reading.position == before:
                is_whole = reading.position >= max(data.high_watermark, reading.expected.end)
                return is_whole and self.judge.passed(index, reading.expected, reading.last)
        return False

    def _take(self, index: int, reading: Pass, content: bytes) -> None:
        for at, header in walk(whole_batches(content)):
            check_crc(content, at, header)
            if header.last_offset < reading.position:
                continue
            for record in decode_records(content, at):
                if record.offset < reading.position:
                    continue
                key, number = self.judge.seen(index, record)
                if number <= reading.last.get(key, -1):
                    raise SafetyError("key order", f"{key!r}: {number} after {reading.last[key]}, at {record.offset}")
                reading.last[key] = number
            reading.position = header.last_offset + 1
