"""Rules that are off, and the seeds that notice."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import attrs
import pytest

from zab.simulator.ensemble import simulation
from zab.simulator.ensemble.members.profile import Profile, draw
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError


def notices(play: Callable[[], object]) -> bool:
    """Whether a run does not end well."""
    try:
        play()
    except (SafetyError, LivenessError, UndecidedError, AssertionError):
        return True
    return False


def only(faults: dict[str, int], focus: str, patch: pytest.MonkeyPatch) -> None:
    """From here on runs have these faults, and this focus."""

    def drawn(seed: int, rng: Random) -> Profile:
        return attrs.evolve(draw(seed, rng), faults=faults, focus=focus)

    patch.setattr(simulation, "draw", drawn)
