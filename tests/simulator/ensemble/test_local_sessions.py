"""Whole runs of ensembles with local sessions that become global with their first ephemeral, under every judge."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest

from zab.member.sessions.sessions import Sessions
from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.ensemble.simulation import run

SEEDS = (*range(100), 2105)
"""In the last one a session is said to be over while it becomes one of the ensemble."""
LINES = (
    ("localSessionsEnabled", "true"),
    ("localSessionsUpgradingEnabled", "true"),
    ("readonlymode.enabled", "true"),
)


@pytest.mark.hunt
@pytest.mark.longest
def test_runs_with_local_sessions_are_good_and_reach_what_becomes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: Counter[str] = Counter()

    def with_local(seed: int, rng: Random) -> Profile:
        return attrs.evolve(draw(seed, rng), further=LINES)

    def counted(name: str) -> None:
        method: Callable[..., Any] = getattr(Sessions, name)

        def call(*arguments: Any) -> Any:
            found = method(*arguments)
            reached[name] += 1 if found is None else len(found)
            return found

        monkeypatch.setattr(Sessions, name, call)

    monkeypatch.setattr(simulation, "draw", with_local)
    for name in ("_decide_alone", "_upgraded", "expire_local"):
        counted(name)
    for seed in SEEDS:
        reached.update(run(seed).counts)
    for name in ("_decide_alone", "_upgraded", "expire_local", "sessions moved", "sessions closed", "sessions expired"):
        assert reached[name] > 5, (name, reached)
