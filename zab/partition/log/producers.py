"""What a log knows of its producers, from the headers of their batches: duplicates, gaps, open transactions (KIP-98).

Of each producer the last five batches are kept, since a client has at most five in flight. Every replica has the same
state, so a new leader recognizes duplicates too. States are immutable; `Producers` replaces them, and remembers what it
replaced above the high watermark, so that a truncation takes it back (KAFKA-12153).

    check(header, …)      what a leader does before it appends: the duplicate, None, or an error
    update(header, …)     after any append, of a leader, a follower, or recovery: never refuses
    restore(…)            the batches that the snapshot lacks (`former_batches`)
    truncate(offset)      forget what batches at or above the offset changed

A producer is forgotten `producer.id.expiration.ms` after its last write, never because the head of the log was deleted
(KAFKA-7190), and never while its transaction is open.

Not here: the file of the snapshot (`snapshots`), and whether a transaction may begin (the caller has it verified).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from zab.partition.log.errors import (
    CoordinatorFencedError,
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    OutOfOrderSequenceError,
)
from zab.partition.log.transaction_index import AbortedTransaction
from zab.partition.records.batch import BatchHeader
from zab.partition.records.control import EndMarker

BATCHES_MAX = 5
NO_SEQUENCE = -1
NO_OFFSET = -1
SEQUENCE_MASK = 0x7FFF_FFFF


@attrs.frozen
class ProducedBatch:
    """One batch of a producer, as the log has it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @classmethod
    def of(cls, header: BatchHeader) -> ProducedBatch:
        """The batch with this header, in the log."""
        return cls(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MASK

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


@attrs.frozen
class ProducerState:
    """One producer. `batches` are the newest of this epoch, oldest first."""

    epoch: int
    batches: tuple[ProducedBatch, ...]
    coordinator_epoch: int
    transaction_first_offset: int
    """Where its open transaction begins; -1 if there is none."""
    timestamp: int
    """The time of its last write, ms."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def has_former(self) -> bool:
        """Whether there were batches of this epoch before the only one that is known."""
        return len(self.batches) == 1 and self.batches[0].first_sequence != 0


@attrs.frozen
class CompletedTransaction:
    """A transaction that a marker ended."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the marker."""


class Producers:
    """The producers of one log."""

    def __init__(self, states: Iterable[tuple[int, ProducerState]] = ()) -> None:
        self.states: dict[int, ProducerState] = {}
        """By producer id. Assign only here."""
        self._open: dict[int, int] = {}
        """Producer id → where its open transaction begins."""
        self._undo: deque[tuple[int, int, ProducerState | None]] = deque()
        """(base offset, producer id, the state before that batch), oldest first."""
        self._completed: deque[CompletedTransaction] = deque()
        """Transactions whose marker may still be truncated."""
        for producer_id, state in states:
            self._set(producer_id, state)

    def _set(self, producer_id: int, state: ProducerState | None) -> None:
        if state is None:
            del self.states[producer_id]
        else:
            self.states[producer_id] = state
        if state is not None and state.transaction_first_offset != NO_OFFSET:
            self._open[producer_id] = state.transaction_first_offset
        elif self._open:
            self._open.pop(producer_id, None)

    # Checks.

    def check(self, header: BatchHeader, *, is_verified: bool) -> ProducedBatch | None:
        """What a leader asks about a client's batch of a producer: the batch that it repeats, or None if it is new.

        `is_verified`: the coordinator says that the partition is in the producer's ongoing transaction.

        Raises InvalidProducerEpochError, OutOfOrderSequenceError, InvalidTransactionStateError."""
        return check(self.states.get(header.producer_id), header, is_verified=is_verified)

    def has_open(self, producer_id: int, epoch: int) -> bool:
        """Whether a transaction of this epoch of the producer is open."""
        return producer_id in self._open and self.states[producer_id].epoch == epoch

    def check_marker(self, header: BatchHeader, marker: EndMarker) -> None:
        """What a leader asks about a marker of a coordinator. Raises InvalidProducerEpochError,
        CoordinatorFencedError."""
        state = self.states.get(header.producer_id)
        if state is None:
            return
        if header.producer_epoch < state.epoch:
            raise InvalidProducerEpochError(f"marker of epoch {header.producer_epoch}, known is {state.epoch}")
        if marker.coordinator_epoch < state.coordinator_epoch:
            text = f"marker of coordinator epoch {marker.coordinator_epoch}, known is {state.coordinator_epoch}"
            raise CoordinatorFencedError(text)

    # Changes.

    def restore(self, producer_id: int, batches: tuple[ProducedBatch, ...]) -> None:
        """These are the newest batches of this epoch of a producer, of which only the last one was known."""
        state = self.states[producer_id]
        known = state.batches[-1]
        if batches and (batches[-1].last_offset, batches[-1].last_sequence) == (known.last_offset, known.last_sequence):
            self._set(producer_id, attrs.evolve(state, batches=(*batches[:-1], known)))

    def update(self, header: BatchHeader, marker: EndMarker | None) -> CompletedTransaction | None:
        """Note a batch of a producer that is in the log now, with its offsets; `marker` if it is one. The transaction
        that it ended, if any."""
        producer_id = header.producer_id
        state = self.states.get(producer_id)
        self._undo.append((header.base_offset, producer_id, state))
        self._set(producer_id, after(state, header, marker))
        if marker is None or state is None or state.transaction_first_offset == NO_OFFSET:
            return None
        completed = CompletedTransaction(producer_id, state.transaction_first_offset, header.last_offset)
        self._completed.append(completed)
        return completed

    def forget_undo(self, offset: int) -> None:
        """`truncate` is never called with less than `offset` from now on."""
        while self._undo and self._undo[0][0] < offset:
            self._undo.popleft()

    def forget_completed(self, offset: int) -> None:
        """Transactions whose marker is below `offset` are stable for good."""
        while self._completed and self._completed[0].last_offset < offset:
            self._completed.popleft()

    def truncate(self, offset: int) -> None:
        """Take back every batch at or above `offset`, which is not below what `forget_undo` was told."""
        while self._undo and self._undo[-1][0] >= offset:
            _, producer_id, state = self._undo.pop()
            self._set(producer_id, state)
        while self._completed and self._completed[-1].last_offset >= offset:
            self._completed.pop()

    def expire(self, before_ms: int) -> list[int]:
        """Forget the producers that last wrote before this time and have no open transaction; their ids."""
        gone = [
            producer_id
            for producer_id, state in self.states.items()
            if state.timestamp < before_ms and producer_id not in self._open
        ]
        for producer_id in gone:
            self._set(producer_id, None)
        forgotten = set(gone)
        if forgotten:
            self._undo = deque(each for each in self._undo if each[1] not in forgotten)
        return gone

    def clear(self) -> None:
        """The log is empty."""
        self.states.clear()
        self._open.clear()
        self._undo.clear()
        self._completed.clear()

    # Transactions.

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open, or whose marker is not below the high watermark."""
        if not self._open and not self._completed:
            return None
        unstable = [each.first_offset for each in self._completed if each.last_offset >= high_watermark]
        return min([*unstable, *self._open.values()], default=None)

    def aborted(self, completed: CompletedTransaction) -> AbortedTransaction:
        """The entry of the transaction index for a transaction that a marker has just aborted."""
        stable = min(self._open.values(), default=completed.last_offset + 1)
        return AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)


def check(
    state: ProducerState | None, header: BatchHeader, *, is_verified: bool, has_sequence: bool = True
) -> ProducedBatch | None:
    """See `Producers.check`; `state` is that of the producer before the batch. Without `has_sequence`, the batch is one
    that a coordinator appends for its producer."""
    if state is not None:
        if has_sequence and header.producer_epoch == state.epoch:
            for batch in state.batches:
                if batch.last_sequence == header.last_sequence and batch.first_sequence == header.base_sequence:
                    return batch
        if header.producer_epoch < state.epoch:
            raise InvalidProducerEpochError(f"producer epoch {header.producer_epoch}, known is {state.epoch}")
        is_same_epoch = header.producer_epoch == state.epoch and state.batches
        expected = (state.last_sequence + 1) & SEQUENCE_MASK if is_same_epoch else 0
        if has_sequence and header.base_sequence != expected:
            text = f"producer {header.producer_id} sends sequence {header.base_sequence}, expected is {expected}"
            raise OutOfOrderSequenceError(text)
    is_open = state is not None and state.transaction_first_offset != NO_OFFSET
    if header.is_transactional:
        is_of_epoch = is_open and state is not None and state.epoch == header.producer_epoch
        if not is_of_epoch and not is_verified:
            raise InvalidTransactionStateError(f"producer {header.producer_id} has no transaction here")
    elif is_open:
        raise InvalidTransactionStateError(f"producer {header.producer_id} writes beside its transaction")
    return None


def after(state: ProducerState | None, header: BatchHeader, marker: EndMarker | None) -> ProducerState:
    """The state of a producer after a batch that is in the log."""
    if marker is not None:
        batches = state.batches if state is not None and state.epoch == header.producer_epoch else ()
        return ProducerState(header.producer_epoch, batches, marker.coordinator_epoch, NO_OFFSET, header.max_timestamp)
    batch = ProducedBatch.of(header)
    if state is None:
        first = header.base_offset if header.is_transactional else NO_OFFSET
        return ProducerState(header.producer_epoch, (batch,), -1, first, header.max_timestamp)
    kept = state.batches[-(BATCHES_MAX - 1) :] if state.epoch == header.producer_epoch else ()
    first = state.transaction_first_offset
    if header.is_transactional and first == NO_OFFSET:
        first = header.base_offset
    return ProducerState(header.producer_epoch, (*kept, batch), state.coordinator_epoch, first, header.max_timestamp)
