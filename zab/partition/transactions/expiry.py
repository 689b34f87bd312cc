"""What time ends: transactions whose producer is too slow, and transactional ids that nobody uses.

    every transaction.abort.timed.out.transaction.cleanup.interval.ms
        abort each transaction that is open for longer than the timeout of its producer, and fence that
    every transaction.remove.expired.transaction.cleanup.interval.ms
        forget each id without an open transaction that has not changed for transactional.id.expiration.ms

Times of transactions come from the wall clock, as they outlive the broker. Tombstones of a partition are appended
`TOMBSTONES_MAX` at a time; the rest follows in the next turn, and what the log refuses at the next check.
"""

from __future__ import annotations

from typing import Final

from zab.kafka.coordinator_records import TransactionKey, TransactionStatus
from zab.partition.coordinator.context import Appending
from zab.partition.transactions.context import Context, StatePartition
from zab.partition.transactions.effects import Record
from zab.partition.transactions.ending import abort
from zab.partition.transactions.transaction import Transaction

TOMBSTONES_MAX: Final = 1000


class Expiry:
    """When to look next."""

    def __init__(self, context: Context) -> None:
        self._timeouts_at = context.now + context.settings.abort_check_ms
        self._expiry_at = context.now + context.settings.expiry_check_ms

    @property
    def due(self) -> int:
        """When `advance` has something to do."""
        return min(self._timeouts_at, self._expiry_at)

    def advance(self, context: Context) -> None:
        """Do what is due."""
        if context.now >= self._timeouts_at:
            self._timeouts_at = context.now + context.settings.abort_check_ms
            for partition in context.partitions.values():
                if not partition.is_full:
                    _abort_slow(context, partition)
        if context.now >= self._expiry_at:
            are_left = [_expire(context, each) for each in context.partitions.values() if not each.is_full]
            self._expiry_at = context.now + (1 if any(are_left) else context.settings.expiry_check_ms)


def _abort_slow(context: Context, partition: StatePartition) -> None:
    for transaction in partition.transactions.values():
        state = transaction.state
        is_open = state.status is TransactionStatus.ONGOING and not transaction.is_busy
        if is_open and state.started + state.timeout_ms <= context.wall:
            abort(context, transaction)


def _expire(context: Context, partition: StatePartition) -> bool:
    """True: there are more."""
    before = context.wall - context.settings.id_expiration_ms
    expired = [
        transaction
        for transaction in partition.transactions.values()
        if transaction.state.is_at_rest and not transaction.is_busy and transaction.state.updated <= before
    ]
    chosen = expired[:TOMBSTONES_MAX]
    if chosen:
        _bury(context, partition, chosen)
    return len(expired) > len(chosen)


def _bury(context: Context, partition: StatePartition, chosen: list[Transaction]) -> None:
    for transaction in chosen:
        transaction.is_dying = True

    def apply(_position: int) -> None:
        for transaction in chosen:
            context.forget(transaction)

    def revert(_: None) -> None:
        for transaction in chosen:
            transaction.is_dying = False

    records = [Record(TransactionKey(transactional_id=each.transactional_id), None) for each in chosen]
    context.append(partition.number, records, Appending(apply=apply, revert=revert))
