"""The high-water mark against dumb twins: one that tries every position, and for each system its own formula."""

from collections.abc import Iterator
from random import Random

import pytest

from tests.quorum.quorum_kinds import QUORUMS
from zab.quorum.high_water_mark import high_water_mark
from zab.quorum.quorums import AckQuorum, InSync, Majority, Quorum

POSITIONS = 6


def draws(quorum: Quorum, silent: float = 0.1) -> Iterator[tuple[dict[int, int], int]]:
    """Acknowledgements of some of the voters and of a stranger, and a mark that is known."""
    rng = Random(7)
    for _ in range(300):
        acknowledged = {sid: rng.randrange(POSITIONS) for sid in quorum.voters if rng.random() >= silent}
        yield {**acknowledged, 100: rng.randrange(POSITIONS)}, rng.randrange(POSITIONS)


@pytest.mark.parametrize("quorum", QUORUMS)
def test_it_is_the_largest_position_that_a_quorum_has(quorum: Quorum) -> None:
    for acknowledged, before in draws(quorum):
        slow = [
            position
            for position in range(before + 1, POSITIONS)
            if quorum.contains({sid for sid, at in acknowledged.items() if at >= position})
        ]
        assert high_water_mark(quorum, acknowledged, before) == max(slow, default=before)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_of_a_majority_it_is_the_lower_median(size: int) -> None:
    quorum = Majority(frozenset(range(1, size + 1)))
    for acknowledged, before in draws(quorum, silent=0):
        median = sorted(acknowledged[sid] for sid in quorum.voters)[(size - 1) // 2]
        assert high_water_mark(quorum, acknowledged, before) == max(before, median)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_of_an_ack_quorum_it_is_the_n_th_acknowledgement(size: int) -> None:
    """BookKeeper: "when Qa bookies of the write set have an entry and all before it, it is confirmed"."""
    quorum = AckQuorum(frozenset({1, 2, 3}), size)
    for acknowledged, before in draws(quorum, silent=0):
        confirmed = sorted((acknowledged[sid] for sid in quorum.voters), reverse=True)[size - 1]
        assert high_water_mark(quorum, acknowledged, before) == max(before, confirmed)


def test_of_an_in_sync_set_it_is_the_minimum() -> None:
    """Kafka: the smallest log end of the in-sync replicas, and no progress while they are too few."""
    in_sync = frozenset({1, 2, 3})
    for acknowledged, before in draws(InSync(in_sync), silent=0):
        minimum = min(acknowledged[sid] for sid in in_sync)
        assert high_water_mark(InSync(in_sync, 3), acknowledged, before) == max(before, minimum)
        assert high_water_mark(InSync(in_sync, 4), acknowledged, before) == before
