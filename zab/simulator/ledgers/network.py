"""The network of a run with ledgers: connections that fall silent for long while all others go on.

Random delays that are alike for all connections do not reach the orders of events that break fencing: one bookie has to
hear nothing for seconds, while a writer and a recoverer talk to all others. So each direction of a connection falls
silent now and then, for a time with a heavy tail.
"""

from __future__ import annotations

from random import Random
from typing import Final

from zab.simulator.world.network import Network, Pair
from zab.simulator.world.schedule import MS, Schedule

SILENCE_MIN_US: Final = 20 * MS
SILENCE_MAX_US: Final = 20_000 * MS
TAIL: Final = 0.7
"""The exponent of the Pareto distribution of silences: so small that long ones are not rare."""


class TailedNetwork(Network):
    """See the docstring of the module. `silences`: how likely an item finds its direction silent from now on."""

    def __init__(self, schedule: Schedule, rng: Random, latency_us: int, jitter_us: int, silences: float) -> None:
        super().__init__(schedule, rng, latency_us, jitter_us)
        self._silences = silences
        self._silent_until: dict[Pair, int] = {}
        self._tail_rng = Random(rng.random())

    def conditions(self, pair: Pair) -> tuple[int, int]:
        delay, bytes_per_ms = super().conditions(pair)
        if self._silences:
            now = self.schedule.now
            until = self._silent_until.get(pair, 0)
            if until <= now and self._tail_rng.random() < self._silences:
                silence = int(SILENCE_MIN_US * self._tail_rng.paretovariate(TAIL))
                until = self._silent_until[pair] = now + min(silence, SILENCE_MAX_US)
            delay += max(0, until - now)
        return delay, bytes_per_ms

    def heal(self) -> None:
        """The faults are over: no direction falls silent any more."""
        self._silences = 0.0
        self._silent_until.clear()
        super().heal()
