"""What a transaction coordinator answers."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from zab.kafka.errors import ErrorCode
from zab.partition.transactions.transaction import NO_EPOCH, NO_ID, TransactionState


@frozen(kw_only=True)
class Initialized:
    """The producer's id and epoch, or an error."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH


@frozen
class Done:
    """What became of `AddPartitions` and `End`."""

    error: ErrorCode = ErrorCode.NONE


@frozen
class Described:
    """A transactional id; `state` is None with an error."""

    transactional_id: str
    error: ErrorCode
    state: TransactionState | None = None


@frozen
class Descriptions:
    """What `Describe` asked for, in its order."""

    transactions: tuple[Described, ...]


@frozen(kw_only=True)
class Listed:
    """What `List` asked for: pairs of a transactional id and its state."""

    error: ErrorCode
    unknown_states: tuple[str, ...]
    transactions: tuple[tuple[str, TransactionState], ...]


Result: TypeAlias = Initialized | Done | Descriptions | Listed
