"""Whole members, of which the one that leads hears some others no more, or is not heard by them, for good.

Another one leads, and keeps the lead, while the links stay as they are.
"""

from __future__ import annotations

from random import Random

import attrs
import pytest

from zab.ids import ServerId
from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.profile import Profile, draw
from zab.simulator.ensemble.simulation import Simulation

PATIENCE_TICKS = 50
"""Several initLimits: who elects and is not heard is believed for one."""
KEPT_TICKS = 30


def of_size(voters: int) -> object:
    def busy(seed: int, rng: Random) -> Profile:
        """Members without other faults, and clients who write all the time."""
        return attrs.evolve(
            draw(seed, rng),
            voters=voters, observers=0, groups=(), weightless=frozenset(), markers=frozenset(), focus="",
            tick_ms=1000, init_limit=10, sync_limit=5, counter_limit=0xFFF00000, drift_ppm=0,
            latency_us=1000, jitter_us=50, disk_us=1000, turn_us=500,
            clients=3, think_us=200_000, client_faults={}, long_data=False, outstanding_count_max=1000, session_ticks=8,
        )  # fmt: skip

    return busy


@pytest.mark.parametrize("is_mute", [False, True], ids=["deaf", "mute"])
@pytest.mark.parametrize(("voters", "lost"), [(3, 2), (5, 4), (5, 3)], ids=["3", "5", "5-some"])
def test_a_leader_that_is_half_deaf_loses_the_lead_for_good(
    monkeypatch: pytest.MonkeyPatch, voters: int, lost: int, is_mute: bool
) -> None:
    monkeypatch.setattr(simulation, "draw", of_size(voters))
    run = Simulation(0, lambda line: None)
    ensemble, schedule = run.ensemble, run.schedule

    def tick() -> None:
        schedule.run_until(schedule.now + run.profile.tick_us)

    def serving() -> set[ServerId]:
        return {process.sid for process in ensemble.processes if process.member.serving}

    for machine in ensemble.machines.values():
        machine.start()
    for client in run.clients:
        client.start()
    while ensemble.leader is None or len(serving()) < voters:
        tick()
    old = ensemble.leader.sid
    others = [sid for sid in run.profile.sids if sid != old]
    for other in others[:lost]:
        ensemble.network.block(*((old, other) if is_mute else (other, old)))
    quorum, ticks = voters // 2 + 1, 0
    while ensemble.leader is None or ensemble.leader.sid == old or len(serving()) < quorum:
        tick()
        ticks += 1
        assert ticks < PATIENCE_TICKS, "nobody else leads"
    new = ensemble.leader
    zxid = new.member.applied
    for _ in range(KEPT_TICKS):
        tick()
        assert ensemble.leader is new
    assert len(serving()) >= quorum
    assert new.member.applied > zxid, "what clients write is committed"
    run.observer.compare_trees()
