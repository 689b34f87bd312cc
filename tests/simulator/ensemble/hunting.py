"""Rules that are off, and the seeds that notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import attrs
import pytest

from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError


def some_seed_notices(play: Callable[[int], object], seeds: Sequence[int]) -> None:
    """The first of them noticed once; if a change of the code moved that to another one, the search goes on."""
    for seed in seeds:
        try:
            play(seed)
        except (SafetyError, LivenessError, UndecidedError, AssertionError):
            return
    pytest.fail(f"{len(seeds)} seeds did not notice")


def only(faults: dict[str, int], focus: str, patch: pytest.MonkeyPatch) -> None:
    """From here on runs have these faults, and this focus."""

    def drawn(seed: int, rng: Random) -> Profile:
        return attrs.evolve(draw(seed, rng), faults=faults, focus=focus)

    patch.setattr(simulation, "draw", drawn)
