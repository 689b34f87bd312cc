"""Loading a partition of `__transaction_state`: the last record of an id wins.

A transaction whose end was decided goes on with its markers. One that is open stays open: its producer may go on, or
its timeout passes.
"""

from __future__ import annotations

from attrs import Factory, define, frozen

from zab.kafka.coordinator_records import TransactionKey, TransactionValue
from zab.partition.transactions.context import Context, StatePartition
from zab.partition.transactions.ending import begin_markers
from zab.partition.transactions.transaction import Transaction, TransactionState, state_of


@frozen
class Loaded:
    """A record of the log."""

    key: TransactionKey
    value: TransactionValue | None


@define(eq=False)
class LoadingPartition:
    """What is known so far of a partition that is being read."""

    number: int
    leader_epoch: int
    states: dict[str, TransactionState] = Factory(dict)

    def apply(self, entry: Loaded) -> None:
        """The next record."""
        if entry.value is None:
            self.states.pop(entry.key.transactional_id, None)
        else:
            self.states[entry.key.transactional_id] = state_of(entry.value)


def finish(context: Context, loading: LoadingPartition) -> None:
    """The end of the log is reached: the transactions live here."""
    partition = StatePartition(loading.number, loading.leader_epoch)
    context.partitions[loading.number] = partition
    for transactional_id, state in loading.states.items():
        transaction = Transaction(transactional_id, loading.number, state)
        partition.transactions[transactional_id] = transaction
        if state.is_ending:
            begin_markers(context, transaction)
