"""What goes wrong: one thing after the other, as the profile's weights say, and each is over some time later.

Every fault is within what the service promises to bear, so that any failure is a bug: `losses` says how much of what
was durable may be lost. Without mercy what lasts is never over: a network that is cut or slow, a disk that is slow,
full or hangs, a machine that is down. What is momentary still passes: a process that ended starts, a pause ends.

`process_faults`, `disk_faults`, `network_faults`, `membership_faults`, `reshaping_faults` and `lineage_faults` say what
each of them is. Here is when, and which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import attrs

from zab.simulator.ensemble.clients.client import Client
from zab.simulator.ensemble.faults.context import Cause, FaultContext
from zab.simulator.ensemble.faults.disks import DISK_FAULTS
from zab.simulator.ensemble.faults.elections import ELECTION_FAULTS
from zab.simulator.ensemble.faults.lineages import LINEAGE_FAULTS, put_right
from zab.simulator.ensemble.faults.memberships import MEMBERSHIP_FAULTS
from zab.simulator.ensemble.faults.networks import NETWORK_FAULTS
from zab.simulator.ensemble.faults.processes import PROCESS_FAULTS
from zab.simulator.ensemble.faults.reshaping import RESHAPING_FAULTS
from zab.simulator.ensemble.members.ensemble import Ensemble

PURGE_TICKS: Final = 3
"""Between two times that retention does its work, beside those after each snapshot."""
PATIENCE_TICKS: Final = 20
"""The longest that the next fault waits for clients, where it does."""
WRITES_MIN: Final = 3
"""It waits for so many writes that succeed."""


@attrs.frozen
class Happened:
    """A fault of a run: when, which, and the choices that it had."""

    at_us: int
    kind: str
    choices: Any = attrs.field(repr=False)
    """The state of the generator before it."""


class Faults:
    """The faults of one run. `planned`, if there is any, takes the place of what the generator decides: the faults of
    an earlier run, or some of them."""

    def __init__(
        self,
        ensemble: Ensemble,
        clients: Sequence[Client],
        rng: Random,
        planned: Sequence[Happened] | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._clients = clients
        self._profile = ensemble.profile
        self._rng = rng
        self._kinds = list(ensemble.profile.faults)
        self._weights = list(ensemble.profile.faults.values())
        self._planned = None if planned is None else iter(planned)
        self.happened: list[Happened] = []
        """What has happened so far."""
        self._is_over = False
        self._waits_until = 0
        self._waits_for = 0
        self._context = FaultContext(ensemble, rng, clients)

    def start(self) -> None:
        self._go_on()
        self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def _gap(self) -> int:
        return int(self._profile.fault_gap_us * self._rng.expovariate(1))

    def _next(self) -> None:
        if self._is_over:
            return
        if self._ensemble.schedule.now < self._waits_until and self._acknowledged_count < self._waits_for:
            self._ensemble.schedule.after(self._profile.tick_us, self._next)
            return
        (kind,) = self._rng.choices(self._kinds, self._weights)
        self._happens(Happened(self._ensemble.schedule.now, kind, self._rng.getstate()))
        self._go_on()

    def _go_on(self) -> None:
        """Wait for the next one."""
        schedule = self._ensemble.schedule
        if self._planned is not None:
            following = next(self._planned, None)
            if following is not None:
                schedule.at(following.at_us, self._next_planned, following)
        elif self._kinds:
            if self._profile.lets_clients_work and self._rng.random() < 0.6:
                self._waits_until = schedule.now + self._profile.tick_us * PATIENCE_TICKS
                self._waits_for = self._acknowledged_count + WRITES_MIN
            schedule.after(self._gap(), self._next)

    @property
    def _acknowledged_count(self) -> int:
        return sum(client.acknowledged_count for client in self._clients)

    def _next_planned(self, fault: Happened) -> None:
        if not self._is_over:
            self._rng.setstate(fault.choices)
            self._happens(fault)
            self._go_on()

    def _happens(self, fault: Happened) -> None:
        self.happened.append(fault)
        self._ensemble.trace.say("!", fault.kind)
        if _CAUSE[fault.kind](self._context):
            self._ensemble.observer.count(f"fault: {fault.kind}")

    def _purge(self) -> None:
        """No fault: retention does its work, now and then."""
        for process in self._ensemble.processes:
            process.turn.purge()
        if not self._is_over:
            self._ensemble.schedule.after(self._profile.tick_us * PURGE_TICKS, self._purge)

    def end(self) -> None:
        """Nothing goes wrong any more, and what is down is started. Disks that are full or hang stay so."""
        self._is_over = True
        self._ensemble.network.heal()
        for mend in self._context.mended_at_the_end:
            mend()
        self.retire()
        put_right(self._context)
        for machine in self._ensemble.machines.values():
            machine.stays_down = machine.is_retired
            machine.disk_us = self._profile.disk_us
            machine.loses_power_at = None
            machine.disk.crash_after(None)
            machine.disk.fail_after(None)
            process = self._ensemble.process(machine.number)
            if process is not None:
                process.ambush = process.calls_left = None
                process.paused_until = 0
            elif not machine.is_retired:
                machine.start_after(0)
        for client in self._clients:
            client.has_faults = False
            client.wake()

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


_CAUSE: Final[Mapping[str, Cause]] = {
    **PROCESS_FAULTS,
    **DISK_FAULTS,
    **NETWORK_FAULTS,
    **ELECTION_FAULTS,
    **MEMBERSHIP_FAULTS,
    **RESHAPING_FAULTS,
    **LINEAGE_FAULTS,
}
