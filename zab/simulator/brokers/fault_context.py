"""The context of the faults of brokers: their cluster, and the randomness of the run."""

from __future__ import annotations

from random import Random

from zab.simulator.brokers.cluster import BrokerCluster
from zab.simulator.coordination.service import SERVICE
from zab.simulator.world.cluster import FaultContext


class BrokerFaultContext(FaultContext):
    """The context of the faults of one run."""

    cluster: BrokerCluster

    def __init__(self, cluster: BrokerCluster, rng: Random) -> None:
        super().__init__(cluster, rng)
        self.mended_at_the_end.append(self.end_outage)

    @property
    def numbers(self) -> list[int]:
        """Everything that has links: brokers and the coordination service."""
        return [SERVICE, *self.cluster.machines]

    def end_outage(self) -> None:
        if self.cluster.service.is_down:
            self.cluster.service.end_outage()
