"""What an operator sees of transactions (DescribeTransactions, ListTransactions)."""

from __future__ import annotations

from typing import Final

from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.partition.transactions.context import Context
from zab.partition.transactions.requests import List
from zab.partition.transactions.results import Described, Listed

NAMES: Final = {
    TransactionStatus.EMPTY: "Empty",
    TransactionStatus.ONGOING: "Ongoing",
    TransactionStatus.PREPARE_COMMIT: "PrepareCommit",
    TransactionStatus.PREPARE_ABORT: "PrepareAbort",
    TransactionStatus.COMPLETE_COMMIT: "CompleteCommit",
    TransactionStatus.COMPLETE_ABORT: "CompleteAbort",
    TransactionStatus.DEAD: "Dead",
}
_KNOWN: Final = frozenset({*NAMES.values(), "PrepareEpochFence"})


def described(context: Context, transactional_id: str, error: ErrorCode) -> Described:
    """One of them; `error`: why this broker cannot say anything about it."""
    transaction = context.transaction(transactional_id)
    if error is not ErrorCode.NONE:
        return Described(transactional_id, error)
    if transaction is None:
        return Described(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return Described(transactional_id, ErrorCode.NONE, transaction.state)


def listed(context: Context, request: List) -> Listed:
    """The transactions that the filters let through."""
    unknown = tuple(each for each in request.states if each not in _KNOWN)
    states, producer_ids = frozenset(request.states), frozenset(request.producer_ids)
    found = tuple(
        (transaction.transactional_id, transaction.state)
        for partition in context.partitions.values()
        for transaction in partition.transactions.values()
        if (not states or NAMES[transaction.state.status] in states)
        and (not producer_ids or transaction.state.producer_id in producer_ids)
    )
    return Listed(error=ErrorCode.NONE, unknown_states=unknown, transactions=found)
