"""The context of the faults of a run with ledgers: its cluster, and the randomness of the run."""

from __future__ import annotations

from random import Random

from zab.simulator.coordination.service import SERVICE
from zab.simulator.ledgers.cluster import LedgerCluster
from zab.simulator.world.cluster import FaultContext


class LedgerFaultContext(FaultContext):
    """The context of the faults of one run."""

    cluster: LedgerCluster

    def __init__(self, cluster: LedgerCluster, rng: Random) -> None:
        super().__init__(cluster, rng)
        self.mended_at_the_end += [self.end_outage, self.empty_disks]

    @property
    def numbers(self) -> list[int]:
        """Everything that has links: bookies, clients, and the coordination service."""
        return [SERVICE, *self.cluster.machines]

    def end_outage(self) -> None:
        if self.cluster.service.is_down:
            self.cluster.service.end_outage()

    def empty_disks(self) -> None:
        """Give every disk room again."""
        for machine in self.cluster.bookies.values():
            machine.disk.capacity_bytes = self.cluster.capacity_bytes
