"""The group coordinator and its log, the topic `__consumer_offsets`.

Offsets that are committed with a transaction are records of it: before one is appended, the coordinator of the
transaction is asked whether the partition is part of it (KIP-890), which may be another broker; other records are
appended meanwhile. Markers come to the group coordinator when they are committed, in the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from random import Random
from uuid import UUID

from zab.kafka.coordinator_records import (
    decode_consumer_offsets_key,
    decode_consumer_offsets_value,
    partition_for,
)
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import NO_PRODUCER, Append
from zab.partition.coordinator_log import CoordinatorLog, InternalTopic
from zab.partition.coordinator_log import Surroundings as LogSurroundings
from zab.partition.groups.context import Surroundings
from zab.partition.groups.coordinator import GroupCoordinator
from zab.partition.groups.records import Loaded, LoadedMarker, LoadedRecord
from zab.partition.image.cluster_image import CONSUMER_OFFSETS
from zab.partition.records.batch import BatchHeader
from zab.partition.records.control import ControlType, decode_marker
from zab.partition.records.record import decode_records
from zab.partition.replica.replica import Replica, ReplicaError
from zab.partition.requests.verification import Guard, Verification
from zab.partition.settings.broker_settings import GroupSettings
from zab.partition.transactions.requests import Verify


class GroupLog(CoordinatorLog[GroupCoordinator]):
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        settings: GroupSettings,
        surroundings: LogSurroundings,
        verification: Verification,
        rng: Random,
        now: int,
        wall: int,
    ) -> None:
        self._settings = settings
        self._verification = verification
        topic = InternalTopic(
            name=CONSUMER_OFFSETS,
            partition_count=settings.offsets_partition_count,
            replication_factor=settings.offsets_replication_factor,
            config={
                "cleanup.policy": "compact",
                "segment.bytes": str(settings.offsets_segment_bytes),
                "flush.mode": "batch",
            },
            append_timeout_ms=settings.offsets_commit_timeout_ms,
            read=_entries,
        )
        of_groups = Surroundings(
            settings=settings,
            partition_for=self.partition_for,
            unique=lambda: str(UUID(bytes=rng.randbytes(16), version=4)),
            has_partition=self._has_partition,
            topics=lambda: self._surroundings.image().topics,
        )
        super().__init__(topic, surroundings, GroupCoordinator(of_groups, now, wall), now, wall)

    def partition_for(self, group: str) -> int:
        """The partition of `__consumer_offsets` in which a group lives."""
        topic = self._surroundings.image().topics.get(CONSUMER_OFFSETS)
        return partition_for(group, self._settings.offsets_partition_count if topic is None else len(topic.partitions))

    def _has_partition(self, name: str, index: int) -> bool:
        topic = self._surroundings.image().topics.get(name)
        return topic is not None and index in topic.partitions

    def _append(self, wanted: Append) -> None:
        replica = self._surroundings.replicas.get(CONSUMER_OFFSETS, wanted.partition)
        if replica is None or wanted.producer_id == NO_PRODUCER:
            self._append_verified(wanted, ErrorCode.NONE)
            return
        try:
            guard = Guard.of(replica, wanted.producer_id)
        except ReplicaError as error:
            self._append_verified(wanted, error.error)
            return
        if self._is_open(replica, wanted):
            self._append_verified(wanted, ErrorCode.NONE)
            return
        asked = Verify(
            transactional_id=wanted.transactional_id,
            producer_id=wanted.producer_id,
            epoch=wanted.producer_epoch,
            partitions=((CONSUMER_OFFSETS, wanted.partition),),
        )
        self._verification.ask(asked, partial(self._verified, wanted, guard))

    def _is_open(self, replica: Replica, wanted: Append) -> bool:
        return replica.log.producers.has_open(wanted.producer_id, wanted.producer_epoch)

    def _verified(self, wanted: Append, guard: Guard, errors: Sequence[ErrorCode]) -> None:
        [error] = errors
        if error is ErrorCode.NONE and not guard.holds and not self._is_open(guard.replica, wanted):
            error = ErrorCode.NOT_ENOUGH_REPLICAS
        self._append_verified(wanted, error)

    def marker_appended(self, number: int, last_offset: int, producer_id: int, commits: bool) -> None:
        """A marker is in a partition: tell the coordinator when it is committed."""
        self.watch(number, last_offset, partial(self._marked, number, producer_id, commits))

    def _marked(self, number: int, producer_id: int, commits: bool, outcome: int | ErrorCode) -> None:
        if not isinstance(outcome, ErrorCode):
            self.coordinator.on_marker(number, producer_id, commits)


def _entries(data: bytes, position: int, header: BatchHeader) -> Iterable[Loaded]:
    """What a batch of `__consumer_offsets` means."""
    if header.is_control:
        marker = decode_marker(data, position)
        if marker is not None:
            commits = marker.type is ControlType.COMMIT
            yield LoadedMarker(position=header.base_offset, producer_id=header.producer_id, commits=commits)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
    for record in decode_records(data, position):
        key = None if record.key is None else decode_consumer_offsets_key(record.key)
        value = None
        if key is not None and record.value is not None:
            value = decode_consumer_offsets_value(key, record.value)
        yield LoadedRecord(position=record.offset, key=key, value=value, producer_id=producer_id)
