"""The group coordinator and its log, the topic `__consumer_offsets`: appends, loads, and what became of them.

A partition of the topic is loaded when this broker begins to lead it in a new epoch: jobs beside the turns read it, a
part at a time, to the end that the log has then. Until that is done its groups are not available. When another broker
leads it, its groups are forgotten here.

What the coordinator appends is committed when the high watermark has passed it; only then is it told so. Appends that
take longer than `offsets.commit.timeout.ms` are told as timed out, and later what became of them all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from random import Random
from typing import Final
from uuid import UUID

import attrs

from datatree.log.disk import Disk
from zab.kafka.coordinator_records import (
    GroupKey,
    decode_consumer_offsets_key,
    decode_group_value,
    decode_offset_value,
    encode_key,
    encode_value,
    partition_for,
)
from zab.kafka.errors import ErrorCode
from zab.kafka.primitives import ProtocolError
from zab.partition.controller.requests import CreateTopics, NewTopic
from zab.partition.groups.context import Surroundings
from zab.partition.groups.coordinator import GroupCoordinator
from zab.partition.groups.effects import Answer, Append
from zab.partition.groups.records import Loaded, LoadedRecord
from zab.partition.image.cluster_image import CONSUMER_OFFSETS, ClusterImage, Topic
from zab.partition.log.errors import LogError
from zab.partition.records.batch import BatchError, walk
from zab.partition.records.builder import BatchBuilder
from zab.partition.records.record import decode_records
from zab.partition.replica.replica import Replica, ReplicaError
from zab.partition.requests.asking_controller import AskingController
from zab.partition.requests.replicas import Replicas
from zab.partition.settings.broker_config import BrokerConfig
from zab.wire.file_slice import FileSlice

LOAD_BYTES: Final = 1 << 20
"""What one job of a load reads, or one batch."""
CREATE_TIMEOUT_MS: Final = 60_000
NEVER: Final = 1 << 62


@attrs.frozen
class LoadPart:
    """A part of a load, for a job: batches of `__consumer_offsets`."""

    number: int
    leader_epoch: int
    batches: FileSlice
    next_offset: int
    """Where the next part begins."""


@attrs.frozen
class PartLoaded:
    """What the part has; `error` if it cannot be read."""

    part: LoadPart
    entries: tuple[Loaded, ...] = ()
    error: str = ""


@attrs.define(eq=False)
class _Loading:
    replica: Replica
    leader_epoch: int
    offset: int
    """Where the next part begins."""
    end: int
    is_reading: bool = False
    """Whether a job reads a part."""


@attrs.define(eq=False)
class _Appended:
    append_id: int
    leader_epoch: int
    last_offset: int
    late_at: int
    is_late: bool = False


class GroupLog:
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        controller: AskingController,
        image: Callable[[], ClusterImage],
        touched: Callable[[Replica], None],
        rng: Random,
        now: int,
        wall: int,
    ) -> None:
        self.loads: list[LoadPart] = []
        """Parts to be read; the broker empties it."""
        self.notes: list[str] = []
        """Sentences for the journal; the broker empties it."""
        self._config = config
        self._replicas = replicas
        self._controller = controller
        self._image = image
        self._touched = touched
        self._now = now
        self._wall = wall
        self._is_creating = False
        self._loading: dict[int, _Loading] = {}
        self._appended: dict[int, deque[_Appended]] = {}
        self._epochs: dict[int, int] = {}
        """The leader epoch in which each partition was loaded last, or is being loaded."""
        surroundings = Surroundings(
            settings=config.groups,
            partition_for=self._partition_for,
            unique=lambda: str(UUID(bytes=rng.randbytes(16), version=4)),
            has_partition=self._has_partition,
        )
        self.coordinator = GroupCoordinator(surroundings, now, wall)

    def _partition_for(self, group: str) -> int:
        topic = self._image().topics.get(CONSUMER_OFFSETS)
        return partition_for(
            group, self._config.groups.offsets_partition_count if topic is None else len(topic.partitions)
        )

    def _has_partition(self, name: str, index: int) -> bool:
        topic = self._image().topics.get(name)
        return topic is not None and index in topic.partitions

    def create(self) -> None:
        """Have the topic created, unless that is under way."""
        if self._is_creating:
            return
        self._is_creating = True
        groups = self._config.groups
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": str(groups.offsets_segment_bytes),
            "flush.mode": "batch",
        }
        count = min(groups.offsets_replication_factor, max(1, len(self._image().brokers)))
        topic = NewTopic(CONSUMER_OFFSETS, groups.offsets_partition_count, count, config=config)

        def answered(_answer: object) -> None:
            self._is_creating = False

        self._controller.ask(lambda token: CreateTopics(token, (topic,), CREATE_TIMEOUT_MS), answered)

    # ------------------------------------------------------------------------------------------------- leading, loading

    def follow(self, topics: Mapping[str, Topic]) -> None:
        """Load what this broker leads now, and forget what it leads no longer."""
        topic = topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return
        for number, state in topic.partitions.items():
            replica = self._replicas.get(CONSUMER_OFFSETS, number)
            if replica is None or replica.leader is None:
                self._loading.pop(number, None)
                self._appended.pop(number, None)
                self._epochs.pop(number, None)
                self.coordinator.unload(number, state.leader_epoch)
                continue
            if self._epochs.get(number) != replica.leader.epoch:
                self._begin_load(number, replica, replica.leader.epoch)

    def _begin_load(self, number: int, replica: Replica, epoch: int) -> None:
        self._epochs[number] = epoch
        self._appended[number] = deque()
        self.coordinator.begin_load(number, epoch)
        self._loading[number] = _Loading(replica, epoch, replica.log.log_start, replica.log.log_end)
        self._load_on(number)

    def _load_on(self, number: int) -> None:
        """Read the next part, or end."""
        loading = self._loading[number]
        log = loading.replica.log
        try:
            found = log.slice(loading.offset, loading.end, LOAD_BYTES) if loading.offset < loading.end else None
        except (OSError, BatchError, LogError) as error:
            self._give_up(number, str(error))
            return
        if found is not None:
            batches = FileSlice(found.path, found.position, found.length)
            loading.is_reading = True
            self.loads.append(LoadPart(number, loading.leader_epoch, batches, found.first_offset))
        elif log.written_end >= loading.end:
            del self._loading[number]
            self.coordinator.finish_load(number, loading.leader_epoch)

    def loaded(self, done: PartLoaded) -> None:
        """A part was read."""
        number = done.part.number
        loading = self._loading.get(number)
        if loading is None or loading.leader_epoch != done.part.leader_epoch:
            return
        if done.error:
            self._give_up(number, done.error)
            return
        self.coordinator.load(number, loading.leader_epoch, done.entries)
        loading.is_reading = False
        loading.offset = done.part.next_offset
        self._load_on(number)

    def _give_up(self, number: int, reason: str) -> None:
        """The groups of this partition stay unavailable here."""
        del self._loading[number]
        self.notes.append(f"{CONSUMER_OFFSETS}-{number} cannot be loaded, its groups are not available: {reason}")

    # -------------------------------------------------------------------------------------------------------- appends

    def advance(self, now: int, wall: int) -> None:
        """It is `now`: do what is due."""
        self._now, self._wall = now, wall
        self.coordinator.advance(now, wall)

    def next_deadline(self) -> int:
        """When `advance` and `settle` have something to do although nothing happens."""
        late = (each.late_at for appended in self._appended.values() for each in appended if not each.is_late)
        return min(self.coordinator.next_deadline(), min(late, default=NEVER))

    def take_answers(self) -> list[Answer]:
        """Carry out what the coordinator wants, and return its answers."""
        answers = []
        while effects := self.coordinator.take_effects():
            for effect in effects:
                if isinstance(effect, Answer):
                    answers.append(effect)
                else:
                    self._append(effect)
        return answers

    def _append(self, wanted: Append) -> None:
        replica = self._replicas.get(CONSUMER_OFFSETS, wanted.partition)
        try:
            if replica is None or replica.leading().epoch != wanted.leader_epoch:
                raise ReplicaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads the partition")
            builder = BatchBuilder(producer_id=wanted.producer_id, producer_epoch=wanted.producer_epoch)
            for record in wanted.records:
                value = None if record.value is None else encode_value(record.value)
                builder.append(encode_key(record.key), value, self._wall)
            appended = replica.append_own(builder.build(), self._wall)
        except ProtocolError:
            self.coordinator.on_appended(wanted.partition, wanted.append_id, ErrorCode.RECORD_LIST_TOO_LARGE)
            return
        except (ReplicaError, BatchError, LogError) as error:
            self.coordinator.on_appended(wanted.partition, wanted.append_id, error.error)
            return
        late_at = self._now + self._config.groups.offsets_commit_timeout_ms
        waiting = _Appended(wanted.append_id, wanted.leader_epoch, appended.last_offset, late_at)
        self._appended[wanted.partition].append(waiting)
        self._touched(replica)

    def settle(self) -> None:
        """Tell the coordinator what has become of its appends, and go on with loads that wait for the storage."""
        for number in [number for number, loading in self._loading.items() if not loading.is_reading]:
            self._load_on(number)
        for number, waiting in self._appended.items():
            if waiting:
                self._decide(number, waiting)

    def _decide(self, number: int, waiting: deque[_Appended]) -> None:
        replica = self._replicas.get(CONSUMER_OFFSETS, number)
        assert replica is not None
        while waiting and replica.log.high_watermark > waiting[0].last_offset:
            done = waiting.popleft()
            self.coordinator.on_appended(number, done.append_id, done.last_offset)
        while waiting and replica.log.failure is not None:
            self.coordinator.on_appended(number, waiting.popleft().append_id, ErrorCode.KAFKA_STORAGE_ERROR)
        for each in waiting:
            if not each.is_late and each.late_at <= self._now:
                each.is_late = True
                self.coordinator.on_appended(number, each.append_id, ErrorCode.REQUEST_TIMED_OUT)


def load_part(part: LoadPart, disk: Disk) -> PartLoaded:
    """Read a part of `__consumer_offsets`: its records, and where the next part begins. For a job."""
    batches = part.batches
    entries: list[Loaded] = []
    next_offset = part.next_offset
    try:
        data = disk.read(batches.path, batches.position, batches.length)
        for position, header in walk(data):
            next_offset = header.last_offset + 1
            if not header.is_control:
                entries += _records(data, position, header.producer_id if header.is_transactional else -1)
    except (OSError, BatchError, ProtocolError) as error:
        return PartLoaded(part, error=str(error))
    return PartLoaded(attrs.evolve(part, next_offset=next_offset), tuple(entries))


def _records(data: bytes, position: int, producer_id: int) -> list[Loaded]:
    records: list[Loaded] = []
    for record in decode_records(data, position):
        key = None if record.key is None else decode_consumer_offsets_key(record.key)
        value = None
        if key is not None and record.value is not None:
            is_group = isinstance(key, GroupKey)
            value = decode_group_value(record.value) if is_group else decode_offset_value(record.value)
        records.append(LoadedRecord(position=record.offset, key=key, value=value, producer_id=producer_id))
    return records
