"""Whether partitions are part of a transaction, as its coordinator says (KIP-890, part 1), in the words of producers.

Before a leader appends the first batch of a transaction to a partition, it asks the coordinator of the transaction,
which may be another broker. Otherwise a batch that comes after the end of its transaction would open another one, which
nobody ends.

    coordinator on this broker      its answer is true in this turn, in which the batch is appended
    on another broker               the answer may be older than a marker: `Guard` says whether one has come meanwhile

Not here: what the coordinator says (`zab.partition.transactions.adding`); questions under way (`asking_coordinators`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.log.producers import ProducerState
from zab.partition.replica.replica import Replica
from zab.partition.requests.asking_coordinators import Answered, AskingCoordinators
from zab.partition.transactions.adding import PARTITIONS_MAX
from zab.partition.transactions.requests import Verify

_FOR_PRODUCERS: Final = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_COORDINATOR: ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_ENOUGH_REPLICAS,
}
"""Old clients know few errors of a coordinator in answers to Produce, and retry this one."""


def error_for_producer(error: ErrorCode) -> ErrorCode:
    """What a producer is told for this error of the coordinator."""
    return _FOR_PRODUCERS.get(error, error)


@attrs.frozen
class Guard:
    """What the leader knew of a producer when it asked."""

    replica: Replica
    producer_id: int
    leader_epoch: int
    state: ProducerState | None

    @classmethod
    def of(cls, replica: Replica, producer_id: int) -> Guard:
        """The guard of a question that is asked now. Raises ReplicaError."""
        return cls(replica, producer_id, replica.leading().epoch, replica.log.producers.states.get(producer_id))

    @property
    def holds(self) -> bool:
        """Whether no marker has come since, and nothing else of the producer, in the same epoch of the leader: each
        batch and each marker gives the producer another state."""
        leader = self.replica.leader
        is_same_leader = leader is not None and leader.epoch == self.leader_epoch
        return is_same_leader and self.replica.log.producers.states.get(self.producer_id) is self.state


class Verification:
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        ask_here: Callable[[Verify], tuple[ErrorCode, ...]],
        coordinator_of: Callable[[str], int | None],
        elsewhere: AskingCoordinators,
        *,
        is_enabled: bool,
    ) -> None:
        """`ask_here` asks the coordinator on this broker; `coordinator_of` says which other broker is that of a
        transactional id, if one is."""
        self.is_enabled = is_enabled
        self._ask_here = ask_here
        self._coordinator_of = coordinator_of
        self._elsewhere = elsewhere

    def ask(self, asked: Verify, answered: Answered) -> None:
        """Ask whether these partitions are part of the open transaction of this producer: NONE, or what the producer is
        told. `answered` is called once, now or later."""
        count = len(asked.partitions)
        if not self.is_enabled:
            answered([ErrorCode.NONE] * count)
            return
        if count > PARTITIONS_MAX:
            # No transaction has so many.
            answered([ErrorCode.INVALID_TXN_STATE] * count)
            return
        found = self._ask_here(asked)
        coordinator = self._coordinator_of(asked.transactional_id) if ErrorCode.NOT_COORDINATOR in found else None
        if coordinator is None:
            answered(_for_producer(found))
        else:
            self._elsewhere.ask(coordinator, asked, lambda errors: answered(_for_producer(errors)))


def _for_producer(errors: Sequence[ErrorCode]) -> list[ErrorCode]:
    return [error_for_producer(error) for error in errors]
