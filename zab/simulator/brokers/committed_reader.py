"""A consumer that reads committed: the partitions of one topic from their beginning to their end, and again.

It leaves out markers, and the records of transactions that the answers list as aborted, as client libraries do. Records
of transactions that are open it must not be given at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from zab.kafka.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest, FetchTopic
from zab.partition.records.batch import check_crc, walk
from zab.partition.records.control import ControlType, decode_marker
from zab.partition.records.record import decode_records
from zab.simulator.brokers.consumer import FETCH_VERSION, MAX_WAIT_MS, READ_COMMITTED, whole_batches
from zab.simulator.brokers.judge import Key
from zab.simulator.brokers.scripted_client import Ask, Leader, Script, ScriptedClient
from zab.simulator.brokers.transactions import TransactionJudge
from zab.simulator.world.verdict import SafetyError

AGAIN_SHARE: Final = 0.1
"""How often it begins again at the end of a partition."""


@attrs.define(eq=False)
class CommittedReading:
    """One partition, from its beginning on."""

    index: int
    key: Key
    position: int = 0
    found: dict[int, bytes] = attrs.Factory(dict)
    dropped: set[int] = attrs.Factory(set)
    """The producers whose transactions are being left out."""
    stable_end: int = -1
    end: int = -1

    @property
    def is_at_end(self) -> bool:
        """Whether it has read all that there is, and no transaction holds it back."""
        return self.position >= self.end == self.stable_end >= 0


class CommittedReader(ScriptedClient):
    """See the docstring of the module. With `once` each partition is read once, and then kept."""

    def __init__(
        self, *surroundings: Any, judge: TransactionJudge, topic: str, gap_us: int, once: bool = False
    ) -> None:
        super().__init__(*surroundings)
        self.judge = judge
        self.topic = topic
        self.readings: dict[int, CommittedReading] = {}
        self._gap_us = gap_us
        self._once = once
        self._indexes: Sequence[int] = ()

    def start(self) -> None:
        self.perform(self._main())

    def _main(self) -> Script[None]:
        while not self.is_stopped:
            yield self.pause(self._gap_us)
            if not self.wishes():
                continue
            if not self._indexes:
                self._indexes = yield from self.partitions(self.topic)
            open_ones = [each for each in self._indexes if not (self._once and self._is_read(each))]
            if open_ones:
                yield from self._read(self.rng.choice(open_ones))

    def _is_read(self, index: int) -> bool:
        return index in self.readings and self.readings[index].is_at_end

    def _read(self, index: int) -> Script[None]:
        leader = yield from self.leader(self.topic, index)
        if leader is None:
            return
        reading = self.readings.get(index)
        if reading is None or (reading.is_at_end and self.rng.random() < AGAIN_SHARE):
            reading = self.readings[index] = CommittedReading(index, (bytes(leader.topic_id), index))
        data = yield from self._fetch(leader, reading)
        if data is None:
            self.forget_leader(self.topic, index)
        else:
            self._take(reading, data)

    def _fetch(self, leader: Leader, reading: CommittedReading) -> Script[FetchPartitionData | None]:
        wanted = FetchPartition(
            partition=reading.index,
            current_leader_epoch=leader.epoch,
            fetch_offset=reading.position,
            partition_max_bytes=self.rng.choice((1, 1_000, 10_000)),
        )
        body = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            topics=(FetchTopic(topic_id=leader.topic_id, partitions=(wanted,)),),
            isolation_level=READ_COMMITTED,
        )
        answer = yield Ask(leader.broker, body, FETCH_VERSION)
        if answer is None or not answer.responses or answer.responses[0].partitions[0].error_code:
            return None
        data: FetchPartitionData = answer.responses[0].partitions[0]
        return data

    def _take(self, reading: CommittedReading, data: FetchPartitionData) -> None:
        content = bytes(data.records or b"")
        reading.end, reading.stable_end = data.high_watermark, data.last_stable_offset
        aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        for at, header in walk(whole_batches(content)):
            check_crc(content, at, header)
            if header.last_offset < reading.position:
                continue
            if header.last_offset >= data.last_stable_offset:
                text = f"{self.name} is given {header.last_offset}, the last stable offset is {data.last_stable_offset}"
                raise SafetyError("below the last stable offset", text)
            while aborted and aborted[0][0] <= header.last_offset:
                reading.dropped.add(aborted.pop(0)[1])
            if header.is_control:
                marker = decode_marker(content, at)
                if marker is not None and marker.type is ControlType.ABORT:
                    reading.dropped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in reading.dropped):
                for record in decode_records(content, at):
                    if record.offset >= reading.position:
                        assert record.value is not None
                        reading.found[record.offset] = record.value
                        self.judge.seen(reading.key, record.offset, record.value)
            reading.position = header.last_offset + 1
