"""Whole members whose ensemble is another one all the time, with files that are stale; and rules of it that are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.rigs.known_seed import check_known
from tests.simulator.ensemble.hunting import notices
from zab.protocol import reconfiguration
from zab.simulator.ensemble.scope import Scope
from zab.simulator.ensemble.simulation import Simulation, run
from zab.simulator.world.scope import ScopeError

Patch: TypeAlias = pytest.MonkeyPatch
Variant: TypeAlias = Callable[[Patch], None]

RESHAPING = Scope(focus="reshaping")
SEEDS = 300


@pytest.mark.slow
def test_an_ensemble_that_is_another_one_all_the_time_keeps_every_promise() -> None:
    counts: Counter[str] = Counter()
    for seed in range(5):
        counts.update(run(seed, scope=RESHAPING).counts)
    assert counts["configurations"] > 7
    assert counts["fault: reconfigure_all"] > 7
    assert counts["fault: install"] > 0
    assert counts["writes acknowledged"] > 150


def test_runs_of_this_kind_are_repeatable_and_others_than_those_of_their_seeds() -> None:
    first, again = (run(2, scope=RESHAPING).hash for _ in range(2))
    assert first == again
    assert run(2).hash != first


def test_there_are_servers_that_no_file_of_another_one_names() -> None:
    profiles = [Simulation(seed, scope=RESHAPING).profile for seed in range(12)]
    profile = next(profile for profile in profiles if profile.unlisted)
    named = profile.voters + profile.observers
    assert set(profile.config(1).ensemble.servers) == set(range(1, named + 1))
    assert set(profile.config(named + 1).ensemble.servers) == set(range(1, named + 2))
    assert {profile.has_groups for profile in profiles} == {profile.has_address_books for profile in profiles}
    assert any(dict(profile.further).get("observerMasterPort") for profile in profiles)


def test_an_unknown_focus_is_refused() -> None:
    with pytest.raises(ScopeError, match="changing, recurring, reshaping"):
        Scope(focus="shaping")


def decide_by_what_is_in_force_alone(patch: Patch) -> None:
    """A reconfiguration is proposed no matter who follows."""
    patch.setattr(reconfiguration, "has_quorum_of", lambda _peer, _membership: True)


VARIANTS: dict[Variant, int] = {
    decide_by_what_is_in_force_alone: 60,
}
"""Each with a seed that notices."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.long
def test_a_seed_finds_the_rule_that_is_off(variant: Variant, monkeypatch: Patch) -> None:
    variant(monkeypatch)
    check_known(lambda seed: notices(lambda: run(seed, scope=RESHAPING)), VARIANTS[variant], SEEDS)
