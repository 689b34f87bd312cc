"""A consumer: reads the partitions of its topics from their beginning to their end, and from the beginning again.

It names the leader epoch that it knows and the epoch of the last batch that it has read, as clients since KIP-320 do.
What it is given is shown to the judge. Its position moves on over what it was given, and nothing else may be in
between: no record below the high watermark is left out.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from random import Random
from typing import Any, Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.fetch import FetchPartition, FetchPartitionData, FetchRequest, FetchTopic
from zab.kafka.messages.metadata import MetadataResponse
from zab.kafka.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from zab.kafka.primitives import Uuid
from zab.partition.records.batch import check_crc, walk
from zab.partition.records.record import decode_records
from zab.simulator.brokers.client import Client, Surroundings
from zab.simulator.brokers.judge import Key
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import SafetyError

FETCH_VERSION: Final = 13
LIST_OFFSETS_VERSION: Final = 7
MAX_WAIT_MS: Final = 500
EARLIEST, LATEST = -2, -1
READ_COMMITTED: Final = 1

_EXPECTED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


@attrs.define(eq=False)
class Reading:
    """One partition, from its beginning on."""

    topic: str
    topic_id: Uuid
    index: int
    leader: int = -1
    leader_epoch: int = -1
    position: int = 0
    last_epoch: int = -1
    """The leader epoch of the last batch that it was given."""
    losses: int = 0
    """What the judge knew of losses when it began."""
    found: dict[int, bytes] = attrs.Factory(dict)
    """The values by their offsets."""
    end: int | None = None
    """The high watermark that it was told last."""

    @property
    def key(self) -> Key:
        return bytes(self.topic_id), self.index

    @property
    def is_at_end(self) -> bool:
        return self.end is not None and self.position >= self.end


class Consumer(Client):
    """See the docstring of the module. With `once`, each partition is read once, and then kept."""

    def __init__(
        self,
        cluster: Surroundings,
        number: int,
        rng: Random,
        kept: frozenset[int] | None,
        *,
        topics: Collection[str],
        gap_us: int,
        once: bool = False,
    ) -> None:
        """`topics`: what it reads. `gap_us`: the average time between two fetches."""
        super().__init__(cluster, number, rng, kept)
        self._topics = topics
        self._gap_us = gap_us
        self._once = once
        self.readings: dict[Key, Reading] = {}
        self.has_learned = False
        self._is_asking = False

    def start(self) -> None:
        self._refresh()
        self._go_on()

    def _go_on(self) -> None:
        if self.is_stopped:
            return
        self.later(int(self._gap_us * self.rng.expovariate(1)) + MS, self._go_on)
        draw, kind, size = self.rng.random(), self.rng.random(), self.rng.choice((1, 1000, 10_000, 1 << 20))
        if not self.wishes() or self._is_asking:
            return
        waiting = [each for each in self.readings.values() if not (self._once and each.is_at_end)]
        if not waiting:
            self._refresh()
            return
        reading = waiting[int(draw * len(waiting))]
        if reading.leader < 0 or kind < 0.03:
            self._refresh()
        elif kind < 0.1 and not self._once:
            self._list_offsets(reading)
        else:
            self._fetch(reading, size)

    # -------------------------------------------------------------------------------------------------------- metadata

    def _refresh(self) -> None:
        if not self._is_asking:
            self._is_asking = True
            self.metadata(None, self._learned)

    def _learned(self, answer: MetadataResponse | None) -> None:
        self._is_asking = False
        if answer is None:
            return
        self.has_learned = True
        known = set()
        for topic in answer.topics:
            if topic.name is None or topic.name not in self._topics:
                continue
            for partition in topic.partitions:
                key = (bytes(topic.topic_id), partition.partition_index)
                known.add(key)
                reading = self.readings.get(key)
                if reading is None:
                    reading = self._begin(topic.name, topic.topic_id, partition.partition_index)
                reading.leader, reading.leader_epoch = partition.leader_id, partition.leader_epoch
        self.readings = {key: reading for key, reading in self.readings.items() if key in known}

    def _begin(self, topic: str, topic_id: Uuid, index: int) -> Reading:
        reading = Reading(topic, topic_id, index)
        reading.losses = self.cluster.judge.of(reading.key).losses
        self.readings[reading.key] = reading
        return reading

    # --------------------------------------------------------------------------------------------------------- reading

    def _fetch(self, reading: Reading, size: int) -> None:
        partition = FetchPartition(
            partition=reading.index,
            current_leader_epoch=reading.leader_epoch,
            fetch_offset=reading.position,
            last_fetched_epoch=reading.last_epoch,
            partition_max_bytes=size,
        )
        topic = FetchTopic(topic_id=reading.topic_id, partitions=(partition,))
        body = FetchRequest(max_wait_ms=MAX_WAIT_MS, min_bytes=1, topics=(topic,), isolation_level=READ_COMMITTED)
        self._is_asking = True
        self.ask(reading.leader, body, FETCH_VERSION, partial(self._fetched, reading, reading.position))

    def _fetched(self, reading: Reading, offset: int, answer: Any) -> None:
        self._is_asking = False
        if answer is None:
            reading.leader = -1
            return
        if self.readings.get(reading.key) is not reading or not answer.responses:
            return
        data: FetchPartitionData = answer.responses[0].partitions[0]
        error = ErrorCode(data.error_code)
        if reading.losses != self.cluster.judge.of(reading.key).losses:
            # What it has read may be gone, as the settings allow.
            self._begin(reading.topic, reading.topic_id, reading.index).leader = -1
        elif error in _EXPECTED:
            reading.leader = -1
        elif error is not ErrorCode.NONE:
            text = f"{self.name} is answered {error.name} at {offset} of {reading.topic}-{reading.index}"
            raise SafetyError("fetch is answered with an error that may be", text)
        elif data.diverging_epoch.epoch >= 0:
            text = f"{self.name} at {offset}, epoch {reading.last_epoch}: {data.diverging_epoch}"
            raise SafetyError("ConsistentReadProperty", text)
        else:
            self._take(reading, data)

    def _take(self, reading: Reading, data: FetchPartitionData) -> None:
        records = bytes(data.records or b"")
        reading.end = data.high_watermark
        for at, header in walk(whole_batches(records)):
            check_crc(records, at, header)
            if header.last_offset < reading.position:
                continue
            if header.base_offset > reading.position:
                text = f"{self.name}: after {reading.position} of {reading.topic}-{reading.index} comes {header}"
                raise SafetyError("nothing below the high watermark is left out", text)
            if header.last_offset >= data.high_watermark:
                text = f"{self.name} is given {header.last_offset}, the high watermark is {data.high_watermark}"
                raise SafetyError("consumers read below the high watermark", text)
            for record in decode_records(records, at):
                if record.offset >= reading.position:
                    assert record.value is not None
                    self.cluster.judge.consumed(reading.key, record.offset, record.value)
                    reading.found[record.offset] = record.value
            reading.position, reading.last_epoch = header.last_offset + 1, header.partition_leader_epoch
        if reading.is_at_end and not self._once and self.rng.random() < 0.05:
            self._begin(reading.topic, reading.topic_id, reading.index).leader = reading.leader

    # --------------------------------------------------------------------------------------------------------- offsets

    def _list_offsets(self, reading: Reading) -> None:
        timestamp = self.rng.choice((EARLIEST, LATEST))
        partition = ListOffsetsPartition(
            partition_index=reading.index, current_leader_epoch=reading.leader_epoch, timestamp=timestamp
        )
        topic = ListOffsetsTopic(name=reading.topic, partitions=(partition,))
        body = ListOffsetsRequest(replica_id=-1, topics=(topic,))
        self._is_asking = True
        self.ask(reading.leader, body, LIST_OFFSETS_VERSION, partial(self._listed, reading, timestamp))

    def _listed(self, reading: Reading, timestamp: int, answer: Any) -> None:
        self._is_asking = False
        if answer is None or self.readings.get(reading.key) is not reading:
            return
        found = answer.topics[0].partitions[0]
        error = ErrorCode(found.error_code)
        if error in _EXPECTED:
            reading.leader = -1
        elif error is not ErrorCode.NONE:
            raise SafetyError("ListOffsets is answered with an error that may be", f"{self.name}: {error.name}")
        elif reading.losses == self.cluster.judge.of(reading.key).losses and self.cluster.is_newest(
            reading.topic, bytes(reading.topic_id)
        ):
            if timestamp == LATEST and found.offset < reading.position:
                text = f"{self.name} has read {reading.topic}-{reading.index} to {reading.position}: {found.offset}"
                raise SafetyError("the high watermark never goes back", text)
            if timestamp == EARLIEST and found.offset != 0:
                raise SafetyError("nothing is deleted that nobody deletes", f"{reading.topic} begins at {found.offset}")


def whole_batches(records: bytes) -> bytes:
    """The whole batches at the beginning."""
    end = 0
    while end + 12 <= len(records):
        size = 12 + int.from_bytes(records[end + 8 : end + 12], "big")
        if end + size > len(records):
            break
        end += size
    return records[:end]
