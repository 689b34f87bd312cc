"""Ensembles whose members start one after the other, with nothing wrong: all serve long before anybody gives up.

A member that is elected in vain, or elects on while others have a leader, would hold that up for the whole initLimit: a
moment in what is virtual time here, and twenty seconds of an operator's.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.simulator.ensemble.start_profile import TICK_MS, profile
from zab.simulator.ensemble.judges.recorder import Recorder
from zab.simulator.ensemble.members.described import described
from zab.simulator.ensemble.members.ensemble import Ensemble
from zab.simulator.ensemble.members.observer import Observer
from zab.simulator.world.schedule import MS, Schedule
from zab.simulator.world.trace import Trace

SEEDS: Final = 120
RESTARTS: Final = 4
APART_US: Final = 400 * MS
"""Members start within so much of each other, as processes do."""
PATIENCE_US: Final = 3 * TICK_MS * MS
LOOK_US: Final = 10 * MS


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
