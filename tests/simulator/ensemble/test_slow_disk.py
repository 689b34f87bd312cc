"""Whole members, of which the one that leads gets a slow disk: another one leads, and all judges are content."""

from __future__ import annotations

from random import Random

import attrs
import pytest

from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.profile import Profile, draw
from zab.simulator.ensemble.simulation import Simulation

PATIENCE_TICKS = 30


def busy(seed: int, rng: Random) -> Profile:
    """Three members without other faults, and clients who write all the time."""
    return attrs.evolve(
        draw(seed, rng),
        voters=3, observers=0, groups=(), weightless=frozenset(), markers=frozenset(), focus="",
        tick_ms=1000, init_limit=10, sync_limit=5, counter_limit=0xFFF00000, drift_ppm=0,
        latency_us=1000, jitter_us=50, disk_us=1000, turn_us=500,
        clients=4, think_us=100_000, client_faults={}, long_data=False, outstanding_count_max=1000, session_ticks=8,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_c8_a_leader_with_a_slow_disk_hands_over_and_who_has_it_then_keeps_it(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(simulation, "draw", busy)
    said: list[str] = []
    run = Simulation(seed, said.append)
    ensemble, schedule = run.ensemble, run.schedule

    def tick() -> None:
        schedule.run_until(schedule.now + run.profile.tick_us)

    for machine in ensemble.machines.values():
        machine.start()
    for client in run.clients:
        client.start()
    while ensemble.leader is None or not all(process.member.serving for process in ensemble.processes):
        tick()
    slow = ensemble.leader
    slow.machine.disk_us = run.profile.tick_us // 3
    ticks = 0
    while ensemble.leader is slow or ensemble.leader is None:
        tick()
        ticks += 1
        assert ticks < PATIENCE_TICKS, "it leads still"
    assert any("the own disk is slow" in line for line in said)
    assert any("the lead is handed over" in line for line in said)
    for _ in range(PATIENCE_TICKS):
        tick()
    assert ensemble.leader is not slow, "it follows, as slowly as it can"
    run.observer.compare_trees()
