"""What a fault has to work with: the ensemble, its profile, the choices of the run, and what may still be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.clients.client import Client
from zab.simulator.ensemble.faults.losses import Losses
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.machine import MemberMachine


class FaultContext:
    """Of one run."""

    def __init__(self, ensemble: Ensemble, rng: Random, clients: Sequence[Client] = ()) -> None:
        self.ensemble = ensemble
        self._clients = clients
        self.profile = ensemble.profile
        self.rng = rng
        self.losses = Losses(ensemble)
        self.mended_at_the_end: list[Callable[[], None]] = []
        """Called when the faults are over."""

    def victim(self) -> MemberMachine:
        """A machine; often the leader's, where most is at stake."""
        leader = self.ensemble.leader
        if leader is not None and self.rng.random() < 0.3:
            return leader.machine
        return self.rng.choice(list(self.ensemble.machines.values()))

    def two(self) -> tuple[ServerId, ServerId]:
        one, two = self.rng.sample(self.profile.sids, 2)
        return one, two

    def ticks(self, most: float) -> int:
        """A duration in microseconds: mostly short."""
        return int(self.profile.tick_us * most * self.rng.random() ** 2)

    def begin_lineage(self, lineage: bytes, history: History, of_files: Membership) -> None:
        """The one before is over; these configurations and this history are what counts from now on."""
        self.ensemble.observer.begin_lineage(lineage, history, of_files)
        for client in self._clients:
            client.begin_anew()

    def mend_after(self, delay: int, mend: Callable[[], None]) -> None:
        """What lasts is over then. Without mercy it never is."""
        if not self.profile.is_merciless:
            self.ensemble.schedule.after(delay, mend)


Cause: TypeAlias = Callable[[FaultContext], bool]
"""Makes something go wrong; whether it did."""
