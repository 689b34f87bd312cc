"""What a seed decides before a run begins: bookies, quorums, clients, delays, limits and faults.

A run has some of the faults, often, and not all of them (swarm testing): so some of them get far without the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Final

import attrs

from zab.simulator.ledgers.logs.profile import LogProfile
from zab.simulator.ledgers.logs.profile import draw as draw_log
from zab.simulator.world.schedule import MS

TICK_US: Final = 100 * MS
ENSEMBLE_MAX: Final = 6
BOOKIES_MAX: Final = 9
QUORUMS: Final = tuple(
    (ensemble, writes, acks)
    for ensemble, writes, acks in product(range(1, ENSEMBLE_MAX + 1), repeat=3)
    if acks <= writes <= ensemble
)
"""All quorums of ensembles of up to ENSEMBLE_MAX bookies: ensemble, write quorum, ack quorum."""

FAULTS: Final[Mapping[str, int]] = {
    "kill": 4,
    "power": 4,
    "blackout": 1,
    "outage": 2,
    "kill_at_effect": 4,
    "pause": 3,
    "pause_client": 4,
    "silence": 4,
    "power_at_operation": 4,
    "disk_error": 2,
    "slow_disk": 3,
    "full_disk": 2,
    "partition": 2,
    "one_way": 3,
    "slow_link": 2,
    "isolate": 2,
    "expire": 3,
    "lose_answers": 4,
    "service_outage": 1,
    "wipe": 5,
}
"""All faults, by their weights."""
WIPES: Final = 30
"""The weight of lost disks in a run that need not keep its promises."""
PAUSES: Final = 8
"""The weight of pauses of clients in a run with a managed ledger."""


@attrs.frozen(kw_only=True)
class Profile:
    """The kind of one run. Times that end in `_us` are microseconds of virtual time."""

    seed: int
    bookies: int
    quorums: tuple[tuple[int, int, int], ...]
    """Writers choose one of these for each ledger."""
    writers: int
    recoverers: int
    readers: int
    fault_ticks: int
    faults: Mapping[str, int]
    """The faults of the run, by their weights."""
    gap_us: int
    """The average time between two faults."""
    append_gap_us: int
    burst: int
    """How many entries are appended at once, at the most."""
    ledger_entries: int
    """How many entries a ledger gets before it is closed, on average."""
    payload_bytes: int
    recover_gap_us: int
    is_v2: bool
    """Whether clients speak v2 with bookies, as far as it goes."""
    keeps_order: bool
    """Whether connections keep the order of messages."""
    silences: float
    explicit_lac_ms: int
    lag: int
    """By so many writes a member of the coordination service may lag."""
    latency_us: int
    jitter_us: int
    disk_us: int
    turn_us: int
    operation_us: int
    drift_ppm: int
    session_timeout_ms: int
    request_timeout_ms: int
    journal_bytes: int
    segment_bytes: int
    flush_ms: int
    gc_ms: int
    deletes: float
    """How likely a recoverer deletes a closed ledger, each time that it looks for one to recover."""
    replicators: int
    """So many processes of auto-recovery."""
    keeps_promises: bool
    """Whether no more disks are lost than promises allow. Otherwise some ledgers can never be closed."""
    log: LogProfile | None = None
    """The managed ledger, if there is one."""
    is_merciless: bool = False

    @property
    def tick_us(self) -> int:
        return TICK_US


def draw(seed: int, rng: Random) -> Profile:
    """The profile of a seed."""
    return _drawn(seed, rng, None)


def with_bookies(profile: Profile, bookies: int) -> Profile:
    """The profile of the same seed for so many bookies."""
    return _drawn(profile.seed, Random(f"{profile.seed}/profile/{bookies}"), bookies)


def with_log(profile: Profile) -> Profile:
    """The profile of the same seed for a managed ledger, and no other ledgers."""
    rng = Random(f"{profile.seed}/log/{profile.bookies}")
    faults = {name: FAULTS[name] for name in profile.faults}
    return attrs.evolve(
        profile,
        log=draw_log(rng, Random(f"{profile.seed}/log/end")),
        writers=0,
        recoverers=1,
        readers=0,
        fault_ticks=rng.choice((40, 80, 120)),
        faults={**faults, "pause_client": PAUSES},
        append_gap_us=rng.choice((20, 80)) * MS,
        burst=rng.choice((1, 4)),
        recover_gap_us=rng.choice((2_000, 6_000, 20_000)) * MS,
        deletes=0.0,
        keeps_promises=True,
        # A reader waits for the last entry.
        explicit_lac_ms=rng.choice((50, 200)),
    )


def _drawn(seed: int, rng: Random, bookies: int | None) -> Profile:
    is_striped = rng.random() < 0.5
    possible = [
        (ensemble, writes, acks)
        for ensemble, writes, acks in QUORUMS
        if (ensemble > writes) == (is_striped and ensemble > 1) and ensemble <= (bookies or ENSEMBLE_MAX)
    ] or [(1, 1, 1)]
    quorums = tuple(rng.choices(possible, k=2))
    if rng.random() < 0.4 and (bookies is None or bookies >= 3):
        quorums = ((3, 2, 2) if is_striped else (3, 3, 2), *quorums)
    share = rng.choice((0.2, 0.4, 0.7))
    faults = {name: weight for name, weight in FAULTS.items() if rng.random() < share}
    request_timeout_ms = rng.choice((300, 1_000, 3_000))
    profile = Profile(
        seed=seed,
        bookies=bookies or min(BOOKIES_MAX, max(ensemble for ensemble, _, _ in quorums) + rng.choice((0, 1, 2, 2, 3))),
        quorums=quorums,
        writers=rng.choice((1, 1, 2)),
        recoverers=rng.choice((1, 2, 2)),
        readers=rng.choice((0, 1, 2)),
        fault_ticks=rng.choice((40, 80, 120)),
        faults=faults or {"kill": 1},
        gap_us=int(TICK_US * rng.choice((3, 8, 20))),
        append_gap_us=rng.choice((5, 20, 80)) * MS,
        burst=rng.choice((1, 3, 12)),
        ledger_entries=rng.choice((5, 30, 150)),
        payload_bytes=rng.choice((0, 20, 300)),
        recover_gap_us=rng.choice((800, 2_000, 6_000)) * MS,
        is_v2=rng.random() < 0.6,
        keeps_order=rng.random() < 0.7,
        silences=rng.choice((0.0, 0.0, 0.002, 0.02)),
        explicit_lac_ms=rng.choice((0, 50, 200)),
        lag=rng.choice((0, 3, 20)),
        latency_us=rng.choice((100, 500, 3_000)),
        jitter_us=rng.choice((50, 500, 5_000)),
        disk_us=rng.choice((200, 2_000, 10_000)),
        turn_us=rng.choice((50, 300)),
        operation_us=rng.choice((100, 1_000, 5_000)),
        drift_ppm=rng.choice((0, 200)),
        session_timeout_ms=rng.choice((1_500, 3_000)),
        request_timeout_ms=request_timeout_ms,
        journal_bytes=rng.choice((2_000, 10_000, 100_000)),
        segment_bytes=rng.choice((1_000, 5_000, 50_000)),
        flush_ms=rng.choice((100, 500, 3_000)),
        gc_ms=rng.choice((300, 1_000, 5_000)),
        deletes=rng.choice((0.0, 0.3, 0.7)),
        keeps_promises=rng.random() < 0.8,
        replicators=rng.choice((0, 0, 1, 2)),
    )
    # A ledger is blocked only if several disks are lost while it is open.
    return profile if profile.keeps_promises else attrs.evolve(profile, faults={**profile.faults, "wipe": WIPES})
