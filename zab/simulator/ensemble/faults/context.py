"""The context of an ensemble's faults: that of all faults, the profile, and what may still be lost."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeAlias

from zab.protocol.membership import Membership
from zab.quorum.ids import ServerId
from zab.simulator.ensemble.clients.client import Client
from zab.simulator.ensemble.faults.losses import Losses
from zab.simulator.ensemble.judges.history import History
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.machine import MemberMachine
from zab.simulator.world import faults
from zab.simulator.world.cluster import FaultContext


class EnsembleFaultContext(FaultContext):
    """The context of the faults of one run."""

    def __init__(self, ensemble: Ensemble, rng: Random, clients: Sequence[Client] = ()) -> None:
        super().__init__(ensemble, rng)
        self.ensemble = ensemble
        self._clients = clients
        self.profile = ensemble.profile
        self.losses = Losses(ensemble)

    def victim(self) -> MemberMachine:
        """A random machine, often the leader's."""
        machine = self.any_machine()
        assert isinstance(machine, MemberMachine)
        return machine

    def two(self) -> tuple[ServerId, ServerId]:
        one, two = self.two_numbers()
        return ServerId(one), ServerId(two)

    def begin_lineage(self, lineage: bytes, history: History, of_files: Membership) -> None:
        """Begin a lineage: this configuration and this history count from now on."""
        self.ensemble.observer.begin_lineage(lineage, history, of_files)
        for client in self._clients:
            client.begin_anew()


Cause: TypeAlias = faults.Cause[EnsembleFaultContext]
"""Injects a fault. Returns False if it is not possible now."""
