"""The in-sync set of a partition, as its leader sees it: who is in it, who joins, who leaves.

    committed       what the controller has written
    maximal         the committed set and everybody whom a change under way may have added

The high watermark is the minimum over the maximal set: any replica that may be elected has everything below it. So an
addition counts from the moment when it is proposed, and a removal only once it is confirmed.

One change is under way at a time. What the answer to it says about its fate:

    INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED     it was not made, and never will be: the committed set holds again
    any other error that names a state              unknown: it stays under way until the controller's state arrives
    no answer, NOT_CONTROLLER, STALE_BROKER_EPOCH   it is sent again

Source: KIP-497, KIP-966; KAFKA-7128 (who may join), KAFKA-13091 (when the mark moves).
"""

from __future__ import annotations

from enum import Enum

import attrs
from attrs import frozen

from zab.kafka.errors import ErrorCode

_PROVES_UNDONE = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
_WAITS_FOR_STATE = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class Fate(Enum):
    """What an error says about a proposed change."""

    UNDONE = "it was not made"
    WAITS_FOR_STATE = "the controller's state will tell"
    SEND_AGAIN = "nobody knows: it is sent again"


def fate_after(error: ErrorCode) -> Fate:
    """What becomes of a proposed change that is answered with this error."""
    if error in _PROVES_UNDONE:
        return Fate.UNDONE
    return Fate.WAITS_FOR_STATE if error in _WAITS_FOR_STATE else Fate.SEND_AGAIN


@frozen
class Proposal:
    """A change of the in-sync set that the controller is asked for."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """The epoch of each member's broker, in the order of `isr`, as its last fetch said; -1: not known."""


@attrs.define
class InSyncSet:
    """The committed set, and the change under way."""

    committed: frozenset[int]
    partition_epoch: int
    proposal: Proposal | None = None

    @property
    def maximal(self) -> frozenset[int]:
        """Everybody who may be in the set now."""
        return self.committed if self.proposal is None else self.committed.union(self.proposal.isr)

    def propose(self, proposal: Proposal) -> None:
        """A change is under way from now on."""
        assert self.proposal is None, "one at a time"
        self.proposal = proposal

    def committed_as(self, isr: frozenset[int], partition_epoch: int) -> bool:
        """The controller has written this. False: it is older than what is known.

        A later state decides the fate of a change under way: a proposal names the partition epoch that it was made
        for, and is refused at any other. The same state once more decides nothing."""
        if partition_epoch < self.partition_epoch:
            return False
        if partition_epoch > self.partition_epoch:
            self.proposal = None
        self.committed, self.partition_epoch = isr, partition_epoch
        return True

    def refused(self, proposal: Proposal, error: ErrorCode) -> Fate | None:
        """The change was answered with an error. None: it is not under way any longer."""
        if proposal is not self.proposal:
            return None
        fate = fate_after(error)
        if fate is Fate.UNDONE:
            self.proposal = None
        return fate
