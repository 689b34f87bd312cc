"""The ticks of members that are killed, and how often a run is tried."""

from __future__ import annotations

TRIES = 5

TICK = {"tickTime": 500}
