"""What a transaction coordinator wants besides answers and appends."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from zab.kafka.coordinator_records import TransactionKey, TransactionValue
from zab.partition.coordinator.effects import Token
from zab.partition.transactions.transaction import TopicPartition


@frozen
class Record:
    """A record of `__transaction_state`; without a value: a tombstone."""

    key: TransactionKey
    value: TransactionValue | None


@frozen(kw_only=True)
class WriteMarkers:
    """Write the marker of this transaction into these partitions, wherever their leaders are. Of each, report to
    `TransactionCoordinator.on_marked` that it is committed, or the error of its leader. A partition whose topic does
    not exist any longer is reported as done."""

    marking: int
    """Names the end of one transaction; no other has the number."""
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition: leaders refuse markers of a coordinator that was replaced."""
    producer_id: int
    producer_epoch: int
    commits: bool
    partitions: tuple[TopicPartition, ...]


@frozen
class WantProducerId:
    """Give `TransactionCoordinator.on_producer_id` an id that nobody has, for this request; None: there is none now."""

    token: Token


Effect: TypeAlias = WriteMarkers | WantProducerId
