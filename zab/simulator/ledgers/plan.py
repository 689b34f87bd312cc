"""What outlives the processes of a client: which of its wishes are kept, and what it has reached."""

from __future__ import annotations

from random import Random

import attrs


@attrs.define(eq=False)
class Plan:
    """One client. `number` is counted from 1; `kept`: only these of its wishes come true; None: all do."""

    number: int
    rng: Random
    kept: frozenset[int] | None = None
    wishes_count: int = 0
    is_stopped: bool = False
    """Whether it begins nothing more."""
    done_count: int = 0
    """How often it reached what it is for."""

    def wishes(self) -> bool:
        """Count a wish. Whether it comes true."""
        self.wishes_count += 1
        return self.kept is None or self.wishes_count in self.kept

    def after(self, average_us: int) -> int:
        """A random time."""
        return int(average_us * self.rng.expovariate(1)) + 1
