"""What goes wrong in an ensemble, beside what the world's own faults are.

Every fault is within what the service promises to bear, so that any failure is a bug: `losses` says how much of what
was durable may be lost. Nothing that lasts is mended without mercy.

The modules beside this one say what each fault is, `zab.simulator.world.faults` when, and which.
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
"""Between two times that retention does its work, beside those after each snapshot."""


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
        """No fault: retention does its work, now and then."""
        for process in self._ensemble.processes:
            process.turn.purge()
        if not self.is_over:
            self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def end(self) -> None:
        """Nothing goes wrong any longer, and what is down is started. Disks that are full or hang stay so."""
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
        """Servers that no configuration names, nor one that may come, are put away: nobody may need them. What was
        asked for at last may come into force after the faults, and leave some out."""
        if self._profile.retires_removed:
            named = frozenset[int]().union(*(each.servers for each in self._ensemble.observer.configurations.possible))
            for machine in self._ensemble.machines.values():
                if machine.number not in named and not machine.is_retired:
                    machine.is_retired = machine.stays_down = True
                    self._ensemble.observer.count("servers retired")
                    machine.stop(with_power=True)

    def mend_disks(self) -> bool:
        """Disks that are full or hang take all again: whether there was one."""
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
