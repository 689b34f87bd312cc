"""Groups, transactions and compacted topics in the simulated world: runs are good, and reach what they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from zab.simulator.brokers.scope import Scope
from zab.simulator.brokers.simulation import run
from zab.simulator.brokers.workload import COMPACTION, FOCUSES, GROUPS, TRANSACTIONS
from zab.simulator.world.scope import ScopeError

REACHED = {
    GROUPS: (
        *("assignments of groups", "commits acknowledged", "committed offsets fetched"),
        *("heartbeats of groups answered", "partitions taken"),
    ),
    TRANSACTIONS: ("transactions committed", "transactions aborted", "producers fenced", "committed records read"),
    COMPACTION: ("writes of keys acknowledged", "passes over keys"),
}
RARE = {
    GROUPS: (
        *("commits refused", "static members fenced", "members that are out", "groups described"),
        *("members told UNKNOWN_MEMBER_ID", "members told STALE_MEMBER_EPOCH", "members told FENCED_MEMBER_EPOCH"),
    ),
    TRANSACTIONS: ("producers crashed", "twins of producers", "transformers fenced", "unstable offsets"),
    COMPACTION: ("tombstones gone",),
}
"""What many runs reach."""
UNSTABLE = 1041
"""A seed in which offsets are fetched while their transaction is open, which few do."""


def reached(focus: str, seeds: Iterable[int], brokers: int | None = None) -> Counter[str]:
    return sum((run(seed, scope=Scope(brokers=brokers, focus=focus)).counts for seed in seeds), Counter[str]())


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.parametrize("focus", FOCUSES)
def test_a_seed_is_good(focus: str) -> None:
    counts = reached(focus, [1], brokers=1)
    for what in REACHED[focus]:
        assert counts[what], what


@pytest.mark.hunt
@pytest.mark.slow
@pytest.mark.longest
@pytest.mark.parametrize("focus", FOCUSES)
def test_many_seeds_are_good_and_reach_what_they_are_for(focus: str) -> None:
    seeds = [*range(1000, 1040), *([UNSTABLE] if focus == TRANSACTIONS else [])]
    counts = reached(focus, seeds)
    for what in (*REACHED[focus], *RARE[focus]):
        assert counts[what], what


def test_a_focus_that_is_none_is_refused() -> None:
    with pytest.raises(ScopeError, match="there are groups, transactions, compaction"):
        Scope(focus="reshaping")
