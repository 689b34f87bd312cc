"""Quorums against their definitions, and the high-water mark against a slow twin."""

from itertools import chain, combinations
from random import Random

import pytest

from zab.quorum import Hierarchical, Majority, Quorum, high_water_mark


def subsets(ids: frozenset[int]) -> list[frozenset[int]]:
    return [frozenset(s) for s in chain.from_iterable(combinations(sorted(ids), n) for n in range(len(ids) + 1))]


QUORUMS: list[Quorum] = [
    Majority(frozenset({1})),
    Majority(frozenset({1, 2})),
    Majority(frozenset({1, 2, 3})),
    Majority(frozenset({1, 2, 3, 4, 5})),
    Hierarchical((frozenset({1, 2, 3}), frozenset({4, 5, 6}), frozenset({7, 8, 9})), {}),
    Hierarchical((frozenset({1, 2}), frozenset({3, 4, 5})), {1: 3, 5: 0}),
    Hierarchical((frozenset({1, 2, 3}), frozenset({4})), {4: 0}),
]


@pytest.mark.parametrize("quorum", QUORUMS)
def test_two_quorums_always_intersect(quorum: Quorum) -> None:
    winning = [s for s in subsets(quorum.voters) if quorum.contains(s)]
    assert winning
    assert all(one & two for one in winning for two in winning)


@pytest.mark.parametrize("quorum", QUORUMS)
def test_who_is_no_voter_changes_nothing(quorum: Quorum) -> None:
    for servers in subsets(quorum.voters):
        assert quorum.contains(servers | {100, 101}) == quorum.contains(servers)


@pytest.mark.parametrize(("size", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_a_majority_is_more_than_half(size: int, least: int) -> None:
    quorum = Majority(frozenset(range(size)))
    assert quorum.contains(set(range(least)))
    assert not quorum.contains(set(range(least - 1)))


def test_a_hierarchical_quorum_wins_a_majority_of_groups_each_by_weight() -> None:
    quorum = Hierarchical((frozenset({1, 2, 3}), frozenset({4, 5, 6}), frozenset({7, 8, 9})), {4: 5})
    assert quorum.contains({1, 2, 4})
    assert not quorum.contains({1, 2, 5, 6})
    assert not quorum.contains({1, 4, 7, 8}) or quorum.contains({4, 7, 8})
    assert not quorum.contains({1, 2, 3})


def test_a_server_of_weight_zero_is_no_voter() -> None:
    assert Hierarchical((frozenset({1, 2, 3}),), {3: 0}).voters == {1, 2}


@pytest.mark.parametrize("quorum", QUORUMS)
def test_the_high_water_mark_is_the_largest_position_that_a_quorum_has(quorum: Quorum) -> None:
    rng = Random(7)
    for _ in range(300):
        acknowledged = {sid: rng.randrange(6) for sid in quorum.voters if rng.random() < 0.9}
        before = rng.randrange(6)
        slow = [
            position
            for position in range(before + 1, 6)
            if position in acknowledged.values()
            and quorum.contains({sid for sid, at in acknowledged.items() if at >= position})
        ]
        assert high_water_mark(quorum, acknowledged, before) == max(slow, default=before)
