"""Partitions join a transaction: before anything is written to one, the log knows that it will need a marker.

`verify` is the other side of it (KIP-890): before a leader appends the first batch of a transaction to a partition, it
asks whether the partition is part of it. So what comes late, after the marker, opens nothing that nobody would end.

Limit: `PARTITIONS_MAX` partitions of a transaction; more are refused (INVALID_REQUEST).
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.transactions.context import Context
from zab.partition.transactions.requests import AddPartitions, End, Verify
from zab.partition.transactions.results import Done
from zab.partition.transactions.transaction import Transaction

PARTITIONS_MAX: Final = 10_000


def owner_error(transaction: Transaction | None, request: AddPartitions | End | Verify) -> ErrorCode:
    """Whether the request comes from the producer that has this transactional id now."""
    if transaction is None or transaction.state.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return ErrorCode.NONE if transaction.state.epoch == request.epoch else ErrorCode.PRODUCER_FENCED


def add_partitions(context: Context, token: Token, request: AddPartitions) -> None:
    """Answer once they are committed."""
    transaction = context.transaction(request.transactional_id)
    error = owner_error(transaction, request)
    if error is not ErrorCode.NONE:
        context.answer(token, Done(error))
        return
    assert transaction is not None
    state = transaction.state
    partitions = state.partitions if state.status is TransactionStatus.ONGOING else frozenset()
    wanted = partitions | frozenset(request.partitions)
    if transaction.is_busy or state.is_ending:
        context.answer(token, Done(ErrorCode.CONCURRENT_TRANSACTIONS))
    elif wanted == partitions:
        context.answer(token, Done())
    elif len(wanted) > PARTITIONS_MAX:
        context.answer(token, Done(ErrorCode.INVALID_REQUEST))
    else:
        started = context.wall if state.is_at_rest else state.started
        ongoing = evolve(state, status=TransactionStatus.ONGOING, partitions=wanted, started=started)
        context.change(transaction, ongoing, answer=lambda error: context.answer(token, Done(error)))


def verify(context: Context, request: Verify) -> tuple[ErrorCode, ...]:
    """NONE for each partition that is part of the open transaction of this producer."""
    transaction = context.transaction(request.transactional_id)
    error = owner_error(transaction, request)
    if error is not ErrorCode.NONE:
        return (error,) * len(request.partitions)
    assert transaction is not None
    state = transaction.state
    is_open = state.status is TransactionStatus.ONGOING
    return tuple(
        ErrorCode.NONE if is_open and each in state.partitions else ErrorCode.INVALID_TXN_STATE
        for each in request.partitions
    )
