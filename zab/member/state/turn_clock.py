"""The time of a turn, which all parts of a member read. `Member.step` sets it once, at its beginning."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class TurnClock:
    """When the last turn began."""

    now: int
    """Monotonic ms."""
    wall: int
    """ms since 1970."""
