"""What a seed decides for a run with managed ledgers, beside what it decides for every run with ledgers.

Limits are so small that ledgers roll, cursors change their ledgers, and ledgers are trimmed within seconds.
"""

from __future__ import annotations

from random import Random
from typing import Final

import attrs

HOUR_MS: Final = 3_600_000


@attrs.frozen(kw_only=True)
class LogProfile:
    """One log, and who has to do with it."""

    owners: int
    """So many processes want to have the log."""
    readers: int
    """So many read it without having it."""
    open_gap_us: int
    """The average time until a process that does not have the log takes it over."""
    consume_us: int
    """How long a consumer needs for an entry, on average."""
    marks: float
    """How likely a consumer marks all up to an entry as consumed, instead of this one alone."""
    max_entries: int
    max_age_ms: int
    retention_ms: int | None
    retention_bytes: int | None
    cursor_ms: int
    cursor_entries: int
    watches: float
    """How likely an owner watches the list."""
    terminates: bool
    """Whether the log is terminated at the end, and not only closed."""
    deletes: bool
    """Whether it is deleted after that."""
    kills: int
    """So often the process that deletes it is killed."""


def draw(rng: Random, end: Random) -> LogProfile:
    """The log of a seed. `end`: decides what becomes of it."""
    return LogProfile(
        owners=rng.choice((2, 2, 3)),
        readers=rng.choice((0, 1)),
        open_gap_us=rng.choice((500_000, 1_500_000, 4_000_000)),
        consume_us=rng.choice((1_000, 30_000, 200_000)),
        marks=rng.choice((0.0, 0.0, 0.2)),
        max_entries=rng.choice((3, 10, 40)),
        max_age_ms=rng.choice((1_500, HOUR_MS)),
        retention_ms=rng.choice((0, 0, 1_000, 3_000, None)),
        retention_bytes=rng.choice((None, None, 0, 2_000)),
        cursor_ms=rng.choice((0, 100, 1_000)),
        cursor_entries=rng.choice((2, 10, 50_000)),
        watches=rng.choice((0.0, 0.5, 1.0)),
        terminates=rng.random() < 0.3,
        deletes=end.random() < 0.7,
        kills=end.choice((0, 1, 1, 3)),
    )
