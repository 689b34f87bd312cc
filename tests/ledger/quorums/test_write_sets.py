"""Write sets, coverage and slots, for all quorums with E <= 6."""

from itertools import pairwise

import pytest

from tests.ledger.quorums.enumeration import QUORUMS, subsets
from zab.ledger.quorums.coverage import absent_needed, can_acknowledge, is_covered
from zab.ledger.quorums.write_sets import write_set, write_sets
from zab.quorum.ids import ServerId
from zab.quorum.quorums import AckQuorum

SHAPES = sorted({(size, writes) for size, writes, _ in QUORUMS})


@pytest.mark.parametrize(("size", "writes"), SHAPES)
def test_an_entry_goes_to_consecutive_indexes_from_its_own_on(size: int, writes: int) -> None:
    for entry in range(3 * size):
        found = write_set(entry, size, writes)
        assert found[0] == entry % size
        assert len(found) == writes == len(set(found))
        assert all((index + 1) % size == following for index, following in pairwise(found))
        assert set(found) <= set(range(size))


@pytest.mark.parametrize(("size", "writes"), SHAPES)
def test_every_index_is_in_as_many_write_sets_as_every_other(size: int, writes: int) -> None:
    held = [index for each in write_sets(size, writes) for index in each]
    assert {held.count(index) for index in range(size)} == {writes}


@pytest.mark.parametrize(("size", "writes"), [(3, 0), (3, 4), (0, 0)])
def test_quorums_that_cannot_be_are_refused(size: int, writes: int) -> None:
    with pytest.raises(ValueError, match="a write quorum of"):
        write_sets(size, writes)


@pytest.mark.parametrize(("size", "writes", "acks"), QUORUMS)
def test_covered_is_that_every_ack_quorum_has_answered(size: int, writes: int, acks: int) -> None:
    """6.2, by the definition: no ack quorum of any entry consists of silent bookies alone."""
    for silent in subsets(size):
        quorums = [AckQuorum(frozenset(map(ServerId, each)), acks) for each in write_sets(size, writes)]
        could_hide = any(quorum.contains(frozenset(map(ServerId, silent))) for quorum in quorums)
        assert is_covered(silent, size, writes, acks) == (not could_hide)


@pytest.mark.parametrize(("size", "writes", "acks"), QUORUMS)
def test_an_entry_is_absent_once_no_ack_quorum_can_have_it(size: int, writes: int, acks: int) -> None:
    needed = absent_needed(writes, acks)
    members = frozenset(map(ServerId, range(writes)))
    quorum = AckQuorum(members, acks)
    for absent in map(frozenset, subsets(writes)):
        assert quorum.contains(members - absent) == (len(absent) < needed)


@pytest.mark.parametrize(("size", "writes", "acks"), QUORUMS)
def test_entries_can_be_acknowledged_as_long_as_every_write_set_has_an_ack_quorum(
    size: int, writes: int, acks: int
) -> None:
    for failed in subsets(size):
        left = frozenset(map(ServerId, set(range(size)) - failed))
        of_each = [AckQuorum(frozenset(map(ServerId, each)), acks) for each in write_sets(size, writes)]
        assert can_acknowledge(failed, size, writes, acks) == all(quorum.contains(left) for quorum in of_each)


@pytest.mark.parametrize(
    ("quorums", "away_max", "away_max_at_best"),
    [
        ((3, 3, 2), 1, 1),
        ((3, 3, 3), 2, 2),
        ((3, 2, 2), 1, 1),
        ((5, 3, 2), 1, 1),
        ((6, 3, 2), 1, 2),
        ((4, 4, 2), 1, 1),
    ],
)
def test_how_many_bookies_may_be_away(quorums: tuple[int, int, int], away_max: int, away_max_at_best: int) -> None:
    """The table of 6.2: any `away_max` may be silent, and some sets of `away_max_at_best`."""
    covered = [silent for silent in subsets(quorums[0]) if is_covered(silent, *quorums)]
    every = [silent for silent in subsets(quorums[0]) if len(silent) == away_max]
    assert all(silent in covered for silent in every)
    assert not all(silent in covered for silent in subsets(quorums[0]) if len(silent) == away_max + 1)
    assert max(map(len, covered)) == away_max_at_best


def test_six_bookies_may_miss_two_that_are_opposite() -> None:
    pairs = [silent for silent in subsets(6) if len(silent) == 2 and is_covered(silent, 6, 3, 2)]
    assert pairs == [{0, 3}, {1, 4}, {2, 5}]


@pytest.mark.parametrize("size", range(1, 7))
def test_where_all_hold_everything_all_but_one_less_than_an_ack_quorum_answer(size: int) -> None:
    """E - Qa + 1 answers, for E = Qw."""
    for acks in range(1, size + 1):
        least = min(size - len(silent) for silent in subsets(size) if is_covered(silent, size, size, acks))
        assert least == size - acks + 1 == absent_needed(size, acks)
