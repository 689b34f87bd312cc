"""Whole members whose ensemble is reconfigured, and handed over, under faults; and rules of it that are off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeAlias

import attrs
import pytest

from tests.rigs.known_seed import check_known
from tests.simulator.ensemble.hunting import notices
from zab.protocol.membership import Memberships
from zab.quorum.quorums import Quorum
from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, changing, draw
from zab.simulator.ensemble.simulation import Simulation

Patch: TypeAlias = pytest.MonkeyPatch
Variant: TypeAlias = Callable[[Patch], None]

SEEDS = 60


@pytest.fixture(autouse=True)
def _changing(monkeypatch: Patch) -> None:
    """All runs have this focus."""

    def drawn(seed: int, rng: Random) -> Profile:
        return changing(attrs.evolve(draw(seed, rng), groups=()))

    monkeypatch.setattr(simulation, "draw", drawn)


@pytest.mark.slow
def test_an_ensemble_that_changes_keeps_every_promise() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12):
        counts.update(Simulation(seed).run().counts)
    assert counts["configurations"] > 20
    assert counts["fault: hand_over"] > 3
    assert counts["writes acknowledged"] > 100


def decide_by_the_old_one_alone(patch: Patch) -> None:
    """What is outstanding has no say."""
    patch.setattr(Memberships, "_quorum", lambda memberships: memberships.newest.quorum)


def decide_by_the_new_one_alone(patch: Patch) -> None:
    """What is outstanding decides as if it were in force."""

    def quorum(memberships: Memberships) -> Quorum:
        newest, outstanding = memberships.newest, memberships.outstanding
        return newest.quorum if outstanding is None else outstanding.quorum

    patch.setattr(Memberships, "_quorum", quorum)


VARIANTS: dict[Variant, int] = {decide_by_the_old_one_alone: 8, decide_by_the_new_one_alone: 46}
"""Each with a seed that noticed."""


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_rule_that_is_off(variant: Variant, monkeypatch: Patch) -> None:
    variant(monkeypatch)
    check_known(lambda seed: notices(lambda: Simulation(seed).run()), VARIANTS[variant], SEEDS)
