"""What a run of the ledgers' simulator reports. It is here so that commands know it without what ledgers need."""

from __future__ import annotations

from collections import Counter

import attrs

from zab.simulator.ledgers.profile import Profile


@attrs.define
class Report:
    """The report of a run that passed."""

    seed: int
    hash: str
    profile: Profile
    events_count: int
    virtual_ms: int
    counts: Counter[str]
