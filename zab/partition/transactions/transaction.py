"""A transactional id: its producer, and how far its transaction is.

A `TransactionState` is what a record of `__transaction_state` keeps, and does not change. A `Transaction` holds the
present one, and the next one while the log decides about it. `TRANSITIONS` is the table of what may follow what:

    Empty, CompleteCommit, CompleteAbort  ->  Empty            a producer begins, or begins again
                                              Ongoing          its first partition
    Ongoing                               ->  Ongoing          one more partition
                                              PrepareCommit    the producer commits
                                              PrepareAbort     it aborts, is too slow, or another one takes its place
    PrepareCommit                         ->  CompleteCommit   all markers are written
    PrepareAbort                          ->  CompleteAbort

The end of an id (Dead) is a tombstone, not a state.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import Factory, define, evolve, frozen

from zab.kafka.coordinator_records import TransactionPartitions, TransactionStatus, TransactionValue

NO_EPOCH: Final = -1
NO_ID: Final = -1
NO_TIME: Final = -1
EPOCH_MAX: Final = 2**15 - 2
"""The last epoch that a producer gets. The one after it only fences."""

TopicPartition: TypeAlias = tuple[str, int]

_RESTS: Final = frozenset(
    {TransactionStatus.EMPTY, TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT}
)
TRANSITIONS: Final[dict[TransactionStatus, frozenset[TransactionStatus]]] = {
    TransactionStatus.EMPTY: _RESTS,
    TransactionStatus.ONGOING: _RESTS | {TransactionStatus.ONGOING},
    TransactionStatus.PREPARE_COMMIT: frozenset({TransactionStatus.ONGOING}),
    TransactionStatus.PREPARE_ABORT: frozenset({TransactionStatus.ONGOING}),
    TransactionStatus.COMPLETE_COMMIT: frozenset({TransactionStatus.PREPARE_COMMIT}),
    TransactionStatus.COMPLETE_ABORT: frozenset({TransactionStatus.PREPARE_ABORT}),
}
"""Each state, with those that it may follow."""


@frozen(kw_only=True)
class TransactionState:
    """What is known of a transactional id. Times are ms since 1970."""

    producer_id: int
    epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    """The id before this one, if its epochs were used up."""
    last_epoch: int = NO_EPOCH
    """The epoch that a producer named which asked for a new one (KIP-360): it may ask again."""
    timeout_ms: int
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started: int = NO_TIME
    updated: int = NO_TIME

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open."""
        return self.status in _RESTS

    @property
    def is_ending(self) -> bool:
        """Whether markers are being written."""
        return self.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left for a producer."""
        return self.epoch >= EPOCH_MAX

    def value(self) -> TransactionValue:
        """The record. Empty ones have no partitions, as in Kafka."""
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(self.partitions):
            topics.setdefault(topic, []).append(index)
        partitions = tuple(TransactionPartitions(topic=each, partition_ids=tuple(topics[each])) for each in topics)
        return TransactionValue(
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.status,
            transaction_partitions=None if self.status is TransactionStatus.EMPTY else partitions,
            transaction_last_update_timestamp_ms=self.updated,
            transaction_start_timestamp_ms=self.started,
        )


def state_of(value: TransactionValue) -> TransactionState:
    """What a record says."""
    return TransactionState(
        producer_id=value.producer_id,
        epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        status=TransactionStatus(value.transaction_status),
        partitions=frozenset(
            (each.topic, index) for each in value.transaction_partitions or () for index in each.partition_ids
        ),
        started=value.transaction_start_timestamp_ms,
        updated=value.transaction_last_update_timestamp_ms,
    )


@define(eq=False)
class Transaction:
    """A transactional id in a loaded partition."""

    transactional_id: str
    number: int
    """The partition of `__transaction_state`."""
    state: TransactionState
    pending: TransactionState | None = None
    """What the log decides about; meanwhile others are told to wait (51)."""
    is_dying: bool = False
    """Whether its tombstone is with the log."""
    is_fence_failed: bool = False
    """Whether the epoch was raised here, and the log did not take it: nobody has that epoch, so it serves again."""
    marking: int = 0
    """Names its end, while markers are written."""
    unmarked: set[TopicPartition] = Factory(set)
    """Partitions whose marker is not committed yet."""
    retries: set[TopicPartition] = Factory(set)
    """Some of them, which are tried again when the time comes."""

    @property
    def is_busy(self) -> bool:
        """Whether the log has yet to decide about a transition."""
        return self.pending is not None or self.is_dying

    def become(self, state: TransactionState) -> None:
        """The log has taken it."""
        assert self.state.status in TRANSITIONS[state.status], (self.state.status, state.status)
        self.state, self.pending = state, None

    def fence(self, last_epoch: int) -> None:
        """From now on the epoch of the producer is over, and nobody has the present one. A producer that had
        `last_epoch` may ask for the next."""
        epoch = self.state.epoch
        if not self.is_fence_failed and epoch <= EPOCH_MAX:
            epoch += 1
        self.state = evolve(self.state, epoch=epoch, previous_producer_id=NO_ID, last_epoch=last_epoch)

    def check(self) -> None:
        """What always holds."""
        state = self.state
        assert state.is_ending or not self.unmarked
        assert self.retries <= self.unmarked
        assert self.unmarked <= state.partitions
        assert state.partitions or state.status is not TransactionStatus.ONGOING
        assert state.epoch <= EPOCH_MAX + 1
