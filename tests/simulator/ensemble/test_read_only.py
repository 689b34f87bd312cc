"""Whole runs in which some clients read where there is no quorum, under every judge."""

from collections import Counter
from random import Random

import attrs
import pytest

from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.ensemble.simulation import run

SEEDS = (*range(120), 309)
"""In the last one a reader comes back with a session that has become one of the ensemble."""
FAULTS = {"kill": 3, "power": 3, "bridge": 2, "partition": 6, "one_sided_loss": 2}


def with_readers(seed: int, rng: Random) -> Profile:
    drawn = draw(seed, rng)
    local = (("localSessionsEnabled", "true"), ("localSessionsUpgradingEnabled", "true")) if seed % 3 == 0 else ()
    lines = (("readonlymode.enabled", "true"), *local)
    faults = {kind: weight for kind, weight in drawn.faults.items() if kind in FAULTS} | FAULTS
    return attrs.evolve(drawn, faults=faults, readers=drawn.clients // 2 + 1, further=lines)


@pytest.mark.hunt
@pytest.mark.longest
def test_runs_with_readers_are_good_and_find_servers_without_a_quorum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "draw", with_readers)
    reached: Counter[str] = Counter()
    for seed in SEEDS:
        reached.update(run(seed).counts)
    assert reached["read-only connections"] > 10, reached
    assert reached["reads answered"] > 1000, reached
