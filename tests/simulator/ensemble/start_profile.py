"""Ensembles whose members start one after the other."""

from __future__ import annotations

from random import Random
from typing import Final

import attrs

from zab.simulator.ensemble.members.profile import Profile, draw

TICK_MS: Final = 2_000


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
