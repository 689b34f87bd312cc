"""What the controller decides about a partition, and what tells decisions apart.

    leader epoch        rises with every change of the leader; fences replicas, producers and consumers
    partition epoch     rises with every write of the state; fences proposals of a new in-sync set

Source: KIP-497 (proposals by the leader), KIP-903 (broker epochs), KIP-966 (eligible leader replicas).
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

NO_LEADER = -1
NO_EPOCH = -1


@frozen(kw_only=True)
class PartitionState:
    """The state of one partition; brokers are named by their ids."""

    leader: int
    """NO_LEADER: none of the replicas can lead now."""
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    """The replicas that are in sync."""
    replicas: tuple[int, ...]
    """All replicas, the preferred leader first."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """What a reassignment adds and removes; both are among the replicas until it is done."""
    is_recovering: bool = False
    """Whether the leader was not in sync when it was elected, and others must not join it yet."""
    broker_epochs: Mapping[int, int] = field(factory=dict)
    """The epoch of each replica's broker that is alive and may be in sync."""
    min_isr: int | None = None
    """How many have to be in sync, as the controller counts. None: it has not said."""

    def is_newer_than(self, other: PartitionState, *, leads: bool) -> bool:
        """Whether it supersedes `other`. A leader that proposed it may know its partition epoch already: for it
        (`leads`) the same one counts as new."""
        if self.leader_epoch != other.leader_epoch:
            return self.leader_epoch > other.leader_epoch
        if self.partition_epoch != other.partition_epoch:
            return self.partition_epoch > other.partition_epoch
        return leads
