"""What all parts of a transaction coordinator share, and the one way in which a state follows another.

The parts (`initializing`, `adding`, `ending`, `expiry`) are functions that get this and a transaction. `change` hands
the next state to the log, and takes it once it is committed; meanwhile the transaction is busy. If the log refuses it,
the old state stays. While the log leaves it open, the transaction stays busy: the record may still be committed.

The table of errors is Kafka's; what is not in it stays as it is.

    the log says                                    the client gets
    UNKNOWN_TOPIC_OR_PARTITION, REQUEST_TIMED_OUT,  COORDINATOR_NOT_AVAILABLE
    NOT_ENOUGH_REPLICAS(_AFTER_APPEND)
    NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR     NOT_COORDINATOR
    MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE        UNKNOWN_SERVER_ERROR
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, TypeAlias

from attrs import Factory, define, evolve, frozen

from zab.kafka.coordinator_records import TransactionKey
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.context import Appending, CoordinatorContext, LedPartition
from zab.partition.coordinator.deadlines import Deadlines
from zab.partition.coordinator.effects import Token
from zab.partition.settings.broker_settings import TransactionSettings
from zab.partition.transactions.effects import Record, WantProducerId, WriteMarkers
from zab.partition.transactions.requests import Initialize
from zab.partition.transactions.transaction import NO_EPOCH, TopicPartition, Transaction, TransactionState

_FOR_CLIENTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def error_for_client(error: ErrorCode) -> ErrorCode:
    """See the top of the file."""
    return _FOR_CLIENTS.get(error, error)


class Timer(Enum):
    """What a deadline is for."""

    MARKERS = 1
    """Markers that failed are tried again."""
    COMPLETE = 2
    """The end of the transaction, which the log did not take, is tried again."""


TimerKey: TypeAlias = tuple[Timer, Transaction]


@define(eq=False)
class StatePartition(LedPartition):
    """A partition of `__transaction_state` that this broker leads."""

    transactions: dict[str, Transaction] = Factory(dict)


@frozen
class Surroundings:
    """What a coordinator is given once."""

    settings: TransactionSettings
    partition_for: Callable[[str], int]
    """Transactional id -> partition of `__transaction_state`."""


class Context(CoordinatorContext[StatePartition]):
    """See the top of the file."""

    def __init__(self, surroundings: Surroundings, now: int, wall: int) -> None:
        super().__init__(now, wall)
        self.settings = surroundings.settings
        self.partition_for = surroundings.partition_for
        self.deadlines: Deadlines[TimerKey] = Deadlines(now)
        self.markings: dict[int, Transaction] = {}
        """The transactions whose markers are being written, by a number that never comes twice."""
        self._marking_count = 0
        self.wanting: dict[Token, Initialize] = {}
        """Requests that wait for a new producer id."""

    def transaction(self, transactional_id: str) -> Transaction | None:
        """What a loaded partition has of this id."""
        partition = self.partitions.get(self.partition_for(transactional_id))
        return None if partition is None else partition.transactions.get(transactional_id)

    def want_producer_id(self, token: Token, request: Initialize) -> None:
        """Have the request come again, with a new producer id."""
        self.wanting[token] = request
        self.effects.append(WantProducerId(token))

    def change(
        self,
        transaction: Transaction,
        state: TransactionState,
        *,
        answer: Callable[[ErrorCode], None] | None = None,
        taken: Callable[[], None] | None = None,
        refused: Callable[[], None] | None = None,
    ) -> None:
        """Let this state follow the present one. `answer` gets NONE or what clients are to be told, once; then one of
        `taken` and `refused` is called, at the latest when the log has decided."""
        assert not transaction.is_busy
        transaction.pending = state = evolve(state, updated=self.wall)

        def apply(_position: int) -> None:
            transaction.become(state)
            transaction.is_fence_failed = False
            if taken is not None:
                taken()

        def revert(_: None) -> None:
            transaction.pending = None
            if refused is not None:
                refused()
            if transaction.state.epoch == NO_EPOCH:
                self.forget(transaction)

        then = Appending(apply=apply, revert=revert)
        if answer is not None:
            told = answer
            then.answer = lambda error: told(error_for_client(error))
        record = Record(TransactionKey(transactional_id=transaction.transactional_id), state.value())
        self.append(transaction.number, [record], then)

    def forget(self, transaction: Transaction) -> None:
        """There is no such id any longer."""
        self.quiet(transaction)
        del self.partitions[transaction.number].transactions[transaction.transactional_id]

    def quiet(self, transaction: Transaction) -> None:
        """Nothing is due for it any longer."""
        for timer in Timer:
            self.deadlines.cancel((timer, transaction))
        self.markings.pop(transaction.marking, None)

    def begin_marking(self, transaction: Transaction) -> None:
        """Its markers are written from now on."""
        self._marking_count += 1
        transaction.marking = self._marking_count
        self.markings[transaction.marking] = transaction

    def write_markers(self, transaction: Transaction, partitions: set[TopicPartition], commits: bool) -> None:
        """Have these written."""
        state = transaction.state
        self.effects.append(
            WriteMarkers(
                marking=transaction.marking,
                coordinator_epoch=self.partitions[transaction.number].leader_epoch,
                producer_id=state.producer_id,
                producer_epoch=state.epoch,
                commits=commits,
                partitions=tuple(sorted(partitions)),
            )
        )
