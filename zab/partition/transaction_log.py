"""The transaction coordinator and its log, the topic `__transaction_state`: what it wants, and how that is done.

    answers and appends     as of every coordinator (`coordinator_log`)
    producer ids            out of the blocks of this broker
    markers                 written where the partitions are led (`marker_writer`)

A partition whose topic is deleted needs no marker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from zab.kafka.coordinator_records import decode_transaction_state_key, decode_transaction_value, partition_for
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator_log import CoordinatorLog, InternalTopic
from zab.partition.coordinator_log import Surroundings as LogSurroundings
from zab.partition.image.cluster_image import TRANSACTION_STATE
from zab.partition.records.batch import BatchHeader
from zab.partition.records.record import decode_records
from zab.partition.requests.producer_ids import ProducerIds
from zab.partition.settings.broker_settings import TransactionSettings
from zab.partition.transactions.context import Surroundings
from zab.partition.transactions.coordinator import TransactionCoordinator
from zab.partition.transactions.effects import WantProducerId, WriteMarkers
from zab.partition.transactions.loading import Loaded
from zab.partition.transactions.marker import Marker, MarkerDone
from zab.partition.transactions.transaction import TopicPartition

APPEND_TIMEOUT_MS: Final = 5000
"""After so long a client is told that its change is not committed yet."""


class TransactionLog(CoordinatorLog[TransactionCoordinator]):
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        settings: TransactionSettings,
        surroundings: LogSurroundings,
        producer_ids: ProducerIds,
        write_marker: Callable[[Marker, MarkerDone], None],
        now: int,
        wall: int,
    ) -> None:
        """`write_marker` writes one where its partition is led."""
        self._settings = settings
        self._producer_ids = producer_ids
        self._write_marker = write_marker
        topic = InternalTopic(
            name=TRANSACTION_STATE,
            partition_count=settings.partition_count,
            replication_factor=settings.replication_factor,
            config={
                "cleanup.policy": "compact",
                "segment.bytes": str(settings.segment_bytes),
                "min.insync.replicas": str(settings.in_sync_min),
                "unclean.leader.election.enable": "false",
                "flush.mode": "batch",
            },
            append_timeout_ms=APPEND_TIMEOUT_MS,
            read=_entries,
        )
        of_transactions = Surroundings(settings=settings, partition_for=self.partition_for)
        super().__init__(topic, surroundings, TransactionCoordinator(of_transactions, now, wall), now, wall)

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` in which a transactional id lives."""
        topic = self._surroundings.image().topics.get(TRANSACTION_STATE)
        count = self._settings.partition_count if topic is None else len(topic.partitions)
        return partition_for(transactional_id, count)

    def coordinator_of(self, transactional_id: str) -> int | None:
        """The broker that coordinates a transactional id, if it lives."""
        image = self._surroundings.image()
        topic = image.topics.get(TRANSACTION_STATE)
        state = None if topic is None else topic.partitions.get(self.partition_for(transactional_id))
        return state.leader if state is not None and state.leader in image.brokers else None

    def _do(self, effect: Any) -> None:
        match effect:
            case WantProducerId(token):
                self._producer_ids.give(lambda found: self.coordinator.on_producer_id(token, found))
            case WriteMarkers():
                for topic, index in effect.partitions:
                    marker = Marker(
                        topic=topic,
                        index=index,
                        producer_id=effect.producer_id,
                        producer_epoch=effect.producer_epoch,
                        commits=effect.commits,
                        coordinator_epoch=effect.coordinator_epoch,
                    )
                    self._write_marker(marker, partial(self._marked, effect.marking, (topic, index)))

    def _marked(self, marking: int, partition: TopicPartition, error: ErrorCode) -> None:
        """A partition is gone if this broker does not know it either: a leader that has just started knows none."""
        topic = self._surroundings.image().topics.get(partition[0])
        is_here = topic is not None and partition[1] in topic.partitions
        is_gone = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_here
        self.coordinator.on_marked(marking, partition, ErrorCode.NONE if is_gone else error)


def _entries(data: bytes, position: int, header: BatchHeader) -> Iterable[Loaded]:
    """What a batch of `__transaction_state` means."""
    if header.is_control:
        return
    for record in decode_records(data, position):
        if record.key is not None:
            value = None if record.value is None else decode_transaction_value(record.value)
            yield Loaded(decode_transaction_state_key(record.key), value)
