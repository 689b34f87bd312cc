"""Ensembles whose members start one after the other, with nothing wrong: all serve long before anybody gives up.

Whoever is elected in vain, or elects on while others have a leader, would hold that up for the whole initLimit: a
moment in what is virtual time here, and twenty seconds of an operator's.
"""

from __future__ import annotations

from random import Random
from typing import Final

import attrs
import pytest

from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.described import described
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

SEEDS: Final = 120
RESTARTS: Final = 4
TICK_MS: Final = 2_000
APART_US: Final = 400 * MS
"""Members start within so much of each other, as processes do."""
PATIENCE_US: Final = 3 * TICK_MS * MS
LOOK_US: Final = 10 * MS


def profile(seed: int, rng: Random) -> Profile:
    """Three voters, or five, of which nothing goes wrong."""
    return attrs.evolve(
        draw(seed, Random(f"{seed}/profile")),
        voters=rng.choice((3, 5)),
        observers=0,
        groups=(),
        weightless=frozenset(),
        markers=frozenset(),
        faults={},
        focus="",
        tick_ms=TICK_MS,
        init_limit=10,
        sync_limit=5,
        counter_limit=0xFFF00000,
        latency_us=rng.choice((50, 200, 2_000)),
        jitter_us=rng.choice((50, 2_000, 20_000)),
        disk_us=rng.choice((200, 3_000)),
        turn_us=rng.choice((50, 1_000, 20_000)),
        drift_ppm=200,
    )


def serving_after_us(ensemble: Ensemble) -> int:
    """How long it takes until all members serve."""
    schedule = ensemble.schedule
    since = schedule.now
    while not (
        len(ensemble.processes) == len(ensemble.machines)
        and all(process.member.serving for process in ensemble.processes)
    ):
        schedule.run_until(schedule.now + LOOK_US)
        if schedule.now - since > PATIENCE_US:
            break
    return schedule.now - since


@pytest.mark.parametrize("seeds", [range(first, first + SEEDS // 4) for first in range(0, SEEDS, SEEDS // 4)])
@pytest.mark.long
def test_members_that_start_one_after_the_other_all_serve_soon(seeds: range) -> None:
    for seed in seeds:
        rng = Random(f"cold start/{seed}")
        schedule = Schedule()
        observer = Observer(Recorder())
        ensemble = Ensemble(profile(seed, rng), schedule, Trace(schedule, None, described), observer)
        for start in range(1 + RESTARTS):
            for machine in ensemble.machines.values():
                machine.stays_down = True
                machine.stop(with_power=False)
            for machine in ensemble.machines.values():
                machine.stays_down = False
                machine.start_after(rng.randrange(APART_US))
            took_us = serving_after_us(ensemble)
            assert took_us <= PATIENCE_US, f"seed {seed}, start {start}"
            schedule.run_until(schedule.now + rng.randrange(TICK_MS * MS))
