"""The faults of an ensemble, in addition to those of the world.

Every fault is one that the service promises to tolerate, so that any failure is a bug: `losses` says how much durable
data may be lost. Without mercy, lasting faults are not mended.

The other modules have the faults, and `zab.simulator.world.faults` decides when and which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from zab.simulator.ensemble.clients.client import Client
from zab.simulator.ensemble.faults.context import Cause, EnsembleFaultContext
from zab.simulator.ensemble.faults.disks import DISK_FAULTS
from zab.simulator.ensemble.faults.elections import ELECTION_FAULTS
from zab.simulator.ensemble.faults.lineages import LINEAGE_FAULTS, put_right
from zab.simulator.ensemble.faults.memberships import MEMBERSHIP_FAULTS
from zab.simulator.ensemble.faults.networks import CONNECTION_FAULTS
from zab.simulator.ensemble.faults.processes import MEMBER_FAULTS
from zab.simulator.ensemble.faults.reshaping import RESHAPING_FAULTS
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.world.faults import FaultInjector, Happened
from zab.simulator.world.machine import Machine
from zab.simulator.world.network_faults import NETWORK_FAULTS
from zab.simulator.world.process_faults import PROCESS_FAULTS

PURGE_TICKS: Final = 3
"""The interval of purges, in addition to those after each snapshot."""


class Faults(FaultInjector[EnsembleFaultContext]):
    """The faults of one run of an ensemble."""

    def __init__(
        self,
        ensemble: Ensemble,
        clients: Sequence[Client],
        rng: Random,
        planned: Sequence[Happened] | None = None,
    ) -> None:
        profile = ensemble.profile
        super().__init__(
            EnsembleFaultContext(ensemble, rng, clients),
            CAUSES,
            profile.faults,
            profile.fault_gap_us,
            planned,
            (lambda: sum(client.acknowledged_count for client in clients)) if profile.lets_clients_work else None,
        )
        self._ensemble = ensemble
        self._clients = clients
        self._profile = profile

    def start(self) -> None:
        super().start()
        self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def _purge(self) -> None:
        """Purge old files regularly. This is no fault."""
        for process in self._ensemble.processes:
            process.turn.purge()
        if not self.is_over:
            self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def end(self) -> None:
        """End the faults, and start what is down. Disks that are full or hang stay so."""
        super().end()
        for client in self._clients:
            client.has_faults = False
            client.wake()

    def before_restart(self) -> None:
        self.retire()
        put_right(self.context)

    def mend(self, machine: Machine) -> None:
        assert isinstance(machine, MemberMachine)
        process = self._ensemble.process(machine.number)
        if process is not None:
            process.ambush = None
        if not machine.is_retired:
            super().mend(machine)

    def retire(self) -> None:
        """Stop servers that are in no present or possible configuration: nobody may need them. The last requested
        configuration may come into force after the faults, and leave some out."""
        if self._profile.retires_removed:
            named = frozenset[int]().union(*(each.servers for each in self._ensemble.observer.configurations.possible))
            for machine in self._ensemble.machines.values():
                if machine.number not in named and not machine.is_retired:
                    machine.is_retired = machine.stays_down = True
                    self._ensemble.observer.count("servers retired")
                    machine.stop(with_power=True)

    def mend_disks(self) -> bool:
        """Mend disks that are full or hang. True: there was one."""
        impaired = [machine for machine in self._ensemble.machines.values() if machine.is_impaired]
        for machine in impaired:
            machine.mend()
        return bool(impaired)


CAUSES: Final[Mapping[str, Cause]] = {
    **PROCESS_FAULTS,
    **NETWORK_FAULTS,
    **MEMBER_FAULTS,
    **DISK_FAULTS,
    **CONNECTION_FAULTS,
    **ELECTION_FAULTS,
    **MEMBERSHIP_FAULTS,
    **RESHAPING_FAULTS,
    **LINEAGE_FAULTS,
}
