"""The end of a transaction: it is decided in the log first, then in each of its partitions.

    Ongoing -> Prepare…       the decision; with it committed, the producer is answered, and nothing can change it
    Prepare… -> Complete…     the marker is committed in every partition

Until then the producer begins nothing new (51), and a coordinator that takes over writes the markers again. A partition
may get a marker twice, which ends nothing twice. A marker that fails is tried again after `RETRY_MS`, for ever; only a
leader that knows a newer epoch of the producer or of the coordinator ends that: another coordinator is at work, and
this one waits to be unloaded.

A transaction is aborted from here, with an epoch that nobody has, if its producer is too slow (`expiry`) or another one
takes its place (`initializing`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import evolve

from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.transactions.adding import owner_error
from zab.partition.transactions.context import Context, Timer
from zab.partition.transactions.requests import End
from zab.partition.transactions.results import Done
from zab.partition.transactions.transaction import NO_EPOCH, NO_TIME, TopicPartition, Transaction

RETRY_MS: Final = 100
_FENCED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
_PREPARED: Final = {True: TransactionStatus.PREPARE_COMMIT, False: TransactionStatus.PREPARE_ABORT}
_COMPLETE: Final = {True: TransactionStatus.COMPLETE_COMMIT, False: TransactionStatus.COMPLETE_ABORT}


def end(context: Context, token: Token, request: End) -> None:
    """Answer once the decision is committed. What was decided already is answered by what it was."""
    transaction = context.transaction(request.transactional_id)
    error = owner_error(transaction, request)
    if error is ErrorCode.NONE:
        assert transaction is not None
        if transaction.is_busy:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        elif transaction.state.status is TransactionStatus.ONGOING:
            _prepare(*(context, transaction, lambda error: context.answer(token, Done(error))), commits=request.commits)
            return
        else:
            error = _error_of_repeated(transaction.state.status, request.commits)
    context.answer(token, Done(error))


def _error_of_repeated(status: TransactionStatus, commits: bool) -> ErrorCode:
    if status is _COMPLETE[commits]:
        return ErrorCode.NONE
    return ErrorCode.CONCURRENT_TRANSACTIONS if status is _PREPARED[commits] else ErrorCode.INVALID_TXN_STATE


def abort(
    context: Context,
    transaction: Transaction,
    answer: Callable[[ErrorCode], None] | None = None,
    last_epoch: int = NO_EPOCH,
) -> None:
    """Abort it and fence its producer. `last_epoch`: that of the producer, if it asks for this itself."""
    transaction.fence(last_epoch)

    def refused() -> None:
        transaction.is_fence_failed = True

    _prepare(context, transaction, answer, commits=False, refused=refused)


def _prepare(
    context: Context,
    transaction: Transaction,
    answer: Callable[[ErrorCode], None] | None,
    *,
    commits: bool,
    refused: Callable[[], None] | None = None,
) -> None:
    state = evolve(transaction.state, status=_PREPARED[commits])
    context.change(
        transaction, state, answer=answer, taken=lambda: begin_markers(context, transaction), refused=refused
    )


def begin_markers(context: Context, transaction: Transaction) -> None:
    """The decision is committed: every partition is to know it."""
    context.begin_marking(transaction)
    transaction.unmarked = set(transaction.state.partitions)
    if transaction.unmarked:
        context.write_markers(transaction, transaction.unmarked, _commits(transaction))
    else:
        complete(context, transaction)


def _commits(transaction: Transaction) -> bool:
    return transaction.state.status is TransactionStatus.PREPARE_COMMIT


def marked(context: Context, transaction: Transaction, partition: TopicPartition, error: ErrorCode) -> None:
    """A marker is committed, or could not be written."""
    if partition not in transaction.unmarked or error in _FENCED:
        return
    if error is not ErrorCode.NONE:
        transaction.retries.add(partition)
        if (Timer.MARKERS, transaction) not in context.deadlines:
            context.deadlines.set((Timer.MARKERS, transaction), context.now + RETRY_MS)
        return
    transaction.unmarked.discard(partition)
    transaction.retries.discard(partition)
    if not transaction.unmarked:
        complete(context, transaction)


def retry_markers(context: Context, transaction: Transaction) -> None:
    """Try again what failed."""
    partitions, transaction.retries = transaction.retries, set()
    if partitions:
        context.write_markers(transaction, partitions, _commits(transaction))


def complete(context: Context, transaction: Transaction) -> None:
    """All markers are committed: the producer may begin its next transaction."""
    assert not transaction.unmarked
    context.quiet(transaction)
    state = evolve(transaction.state, status=_COMPLETE[_commits(transaction)], partitions=frozenset(), started=NO_TIME)

    def refused() -> None:
        context.deadlines.set((Timer.COMPLETE, transaction), context.now + RETRY_MS)

    context.change(transaction, state, refused=refused)
