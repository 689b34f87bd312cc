"""Quorums against their definitions."""

from itertools import chain, combinations

import pytest

from tests.quorum.quorum_kinds import ACK_QUORUMS, INTERSECTING, QUORUMS
from zab.quorum.quorums import AckQuorum, Hierarchical, InSync, Majority, Quorum


def subsets(ids: frozenset[int]) -> list[frozenset[int]]:
    return [frozenset(s) for s in chain.from_iterable(combinations(sorted(ids), n) for n in range(len(ids) + 1))]


@pytest.mark.parametrize("quorum", INTERSECTING)
def test_two_quorums_always_intersect(quorum: Quorum) -> None:
    winning = [s for s in subsets(quorum.voters) if quorum.contains(s)]
    assert winning
    assert all(one & two for one in winning for two in winning)


@pytest.mark.parametrize("quorum", QUORUMS)
def test_who_is_no_voter_changes_nothing(quorum: Quorum) -> None:
    for servers in subsets(quorum.voters):
        assert quorum.contains(servers | {100, 101}) == quorum.contains(servers)


@pytest.mark.parametrize("quorum", QUORUMS)
def test_one_more_server_never_ends_a_quorum(quorum: Quorum) -> None:
    for servers in subsets(quorum.voters):
        assert not quorum.contains(servers) or all(quorum.contains(servers | {server}) for server in quorum.voters)


@pytest.mark.parametrize(("size", "least"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_a_majority_is_more_than_half(size: int, least: int) -> None:
    quorum = Majority(frozenset(range(size)))
    assert quorum.contains(set(range(least)))
    assert not quorum.contains(set(range(least - 1)))


def test_a_hierarchical_quorum_wins_a_majority_of_groups_each_by_weight() -> None:
    quorum = Hierarchical((frozenset({1, 2, 3}), frozenset({4, 5, 6}), frozenset({7, 8, 9})), {4: 5})
    assert quorum.contains({1, 2, 4})
    assert quorum.contains({4, 7, 8})
    assert not quorum.contains({1, 2, 5, 6})
    assert not quorum.contains({1, 2, 3})


def test_half_of_a_groups_weight_wins_nothing() -> None:
    """Two halves of one group would both win it, and two quorums had nobody in common."""
    quorum = Hierarchical((frozenset({1, 2}), frozenset({3, 4}), frozenset({5, 6})), {})
    assert quorum.contains({1, 2, 3, 4})
    assert not quorum.contains({1, 2, 3, 5})
    assert not quorum.contains({1, 3, 5})


def test_a_server_of_weight_zero_is_no_voter() -> None:
    assert Hierarchical((frozenset({1, 2, 3}),), {3: 0}).voters == {1, 2}


def test_a_server_stands_in_one_group() -> None:
    with pytest.raises(AssertionError, match="two groups"):
        Hierarchical((frozenset({1, 2}), frozenset({2, 3})), {})


@pytest.mark.parametrize("quorum", ACK_QUORUMS)
def test_who_fences_a_ledger_meets_every_ack_quorum(quorum: AckQuorum) -> None:
    """BookKeeper: after Qw - Qa + 1 answers no ack quorum is left among the others, and fewer are not enough."""
    fencing = len(quorum.voters) - quorum.size + 1
    for answered in subsets(quorum.voters):
        assert quorum.contains(quorum.voters - answered) == (len(answered) < fencing)


def test_an_in_sync_set_decides_as_a_whole_unless_it_is_too_small() -> None:
    in_sync = frozenset({1, 2, 3})
    assert [len(s) for s in subsets(in_sync) if InSync(in_sync, 3).contains(s)] == [3]
    assert not any(InSync(in_sync, 4).contains(s) for s in subsets(in_sync))
