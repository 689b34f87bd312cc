"""Whole members to which nothing happens but what a test does, while clients write all the time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs
import pytest

from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.ensemble.simulation import Simulation


class Calm(Simulation):
    """A run that a test moves on, tick by tick. Members and clients are started, and all members serve."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int, say: Callable[[str], None], **changes: int) -> None:
        """changes: of the profile, `voters` and what else."""

        def drawn(seed: int, rng: Random) -> Profile:
            calm = attrs.evolve(
                draw(seed, rng),
                observers=0, groups=(), weightless=frozenset(), markers=frozenset(), focus="",
                tick_ms=1000, init_limit=10, sync_limit=5, counter_limit=0xFFF00000, drift_ppm=0,
                latency_us=1000, jitter_us=50, disk_us=1000, turn_us=500,
                client_faults={}, long_data=False, outstanding_count_max=1000, session_ticks=8,
            )  # fmt: skip
            return attrs.evolve(calm, **changes)

        monkeypatch.setattr(simulation, "draw", drawn)
        super().__init__(seed, say)
        for machine in self.ensemble.machines.values():
            machine.start()
        for client in self.clients:
            client.start()
        while self.ensemble.leader is None or self.serving_count < self.profile.voters:
            self.tick()

    @property
    def serving_count(self) -> int:
        return sum(process.member.serving for process in self.ensemble.processes)

    def tick(self) -> None:
        self.schedule.run_until(self.schedule.now + self.profile.tick_us)
