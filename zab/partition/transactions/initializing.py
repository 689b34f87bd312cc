"""A producer begins (InitProducerId): it gets an epoch that is newer than that of all before it.

What the producer before it has open is aborted first, with an epoch that nobody has: so the old one is fenced
everywhere, and the new one is told to ask again (51) until that is done. If the epochs of a producer id are used up,
the next producer gets a new id.

A producer that goes on after an error names the id and epoch that it has (KIP-360). It is refused (90) unless they are
the present ones, or those before: then its first request was carried out, and it gets the same answer again.
"""

from __future__ import annotations

from attrs import evolve

from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.transactions.context import Context
from zab.partition.transactions.ending import abort
from zab.partition.transactions.requests import Initialize
from zab.partition.transactions.results import Initialized
from zab.partition.transactions.transaction import NO_EPOCH, NO_ID, NO_TIME, Transaction, TransactionState


def initialize(context: Context, token: Token, request: Initialize, fresh_id: int | None = None) -> None:
    """Answer once the new epoch is committed. `fresh_id`: a producer id that nobody has, if the request wanted one."""
    error = _error(context, request)
    if error is not ErrorCode.NONE:
        context.answer(token, Initialized(error=error))
        return
    transaction = context.transaction(request.transactional_id)
    needs_id = transaction is None or (transaction.state.is_at_rest and _rotates(transaction.state, request.expected))
    if needs_id and fresh_id is None:
        context.want_producer_id(token, request)
        return
    if transaction is None:
        assert fresh_id is not None
        transaction = _created(context, request, fresh_id)
    if not transaction.state.is_at_rest:
        last_epoch = NO_EPOCH if request.expected is None else request.expected[1]
        abort(context, transaction, lambda error: _told_to_wait(context, token, error), last_epoch)
        return
    state = _next(transaction.state, request, fresh_id)

    def answer(error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            context.answer(token, Initialized(producer_id=state.producer_id, epoch=state.epoch))
        else:
            context.answer(token, Initialized(error=error))

    context.change(transaction, state, answer=answer)


def _error(context: Context, request: Initialize) -> ErrorCode:
    if not 0 < request.timeout_ms <= context.settings.timeout_max_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    transaction = context.transaction(request.transactional_id)
    if transaction is None:
        return ErrorCode.NONE
    if transaction.is_busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    state = transaction.state
    if request.expected is not None and not _is_known(state, request.expected):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if state.is_ending else ErrorCode.NONE


def _is_known(state: TransactionState, expected: tuple[int, int]) -> bool:
    """Whether a producer that has this id and epoch may go on."""
    return expected == (state.producer_id, state.epoch) or _is_repeated(state, expected)


def _is_repeated(state: TransactionState, expected: tuple[int, int] | None) -> bool:
    """Whether the request has been carried out before."""
    if expected is None or state.last_epoch == NO_EPOCH:
        return False
    producer_id = state.producer_id if state.previous_producer_id == NO_ID else state.previous_producer_id
    return expected == (producer_id, state.last_epoch)


def _rotates(state: TransactionState, expected: tuple[int, int] | None) -> bool:
    return state.is_exhausted and not _is_repeated(state, expected)


def _created(context: Context, request: Initialize, fresh_id: int) -> Transaction:
    number = context.partition_for(request.transactional_id)
    state = TransactionState(producer_id=fresh_id, timeout_ms=request.timeout_ms)
    transaction = Transaction(request.transactional_id, number, state)
    context.partitions[number].transactions[request.transactional_id] = transaction
    return transaction


def _next(state: TransactionState, request: Initialize, fresh_id: int | None) -> TransactionState:
    """The state in which the producer begins."""
    rest = evolve(
        state,
        timeout_ms=request.timeout_ms,
        status=TransactionStatus.EMPTY,
        partitions=frozenset(),
        started=NO_TIME,
    )
    if _is_repeated(state, request.expected):
        return rest
    last_epoch = NO_EPOCH if request.expected is None else state.epoch
    if state.is_exhausted:
        assert fresh_id is not None
        return evolve(
            rest, producer_id=fresh_id, epoch=0, previous_producer_id=state.producer_id, last_epoch=last_epoch
        )
    return evolve(rest, epoch=state.epoch + 1, previous_producer_id=NO_ID, last_epoch=last_epoch)


def _told_to_wait(context: Context, token: Token, error: ErrorCode) -> None:
    told = ErrorCode.CONCURRENT_TRANSACTIONS if error is ErrorCode.NONE else error
    context.answer(token, Initialized(error=told))
