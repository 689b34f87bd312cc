"""What shrinking looks for, and when two runs fail in the same way."""

from collections.abc import Sequence

import pytest

from zab.simulator.world.shrinking import minimal, sentence
from zab.simulator.world.verdict import LivenessError, SafetyError, UndecidedError


@pytest.mark.parametrize("needed", [{3}, {0, 9}, {2, 3, 4}, {0, 5, 6, 7, 8}, set(range(10)), set()])
def test_minimal_leaves_what_is_needed_and_nothing_else(needed: set[int]) -> None:
    tried: list[tuple[int, ...]] = []

    def fails(left: Sequence[int]) -> bool:
        tried.append(tuple(left))
        return needed <= set(left)

    assert set(minimal(range(10), fails)) == needed
    assert len(tried) == len(set(tried)) or len(tried) < 100


def test_minimal_of_what_depends_on_each_other_cannot_be_made_smaller() -> None:
    """Either of two pairs fails, and so does everything."""

    def fails(left: Sequence[int]) -> bool:
        return {1, 8} <= set(left) or {2, 3} <= set(left)

    left = minimal(range(10), fails)
    assert fails(left)
    assert not any(fails([one for one in left if one != out]) for out in left)


def raised_by_a_name() -> Exception:
    try:
        raise KeyError("a bug")
    except KeyError as error:
        return error


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (SafetyError("sync", "c2: a sync returns at 0x1f"), SafetyError("sync", "c1: a sync returns at 0x200"), True),
        (SafetyError("order", "Txn(1, [2, (3)]) of 0xa"), SafetyError("order", "Txn(7) of 0xb"), True),
        (SafetyError("reads", "c1: SET_DATA b'/a' is 4"), SafetyError("reads", "c1: EXISTS b'/b/c' is 5"), True),
        (SafetyError("reads", "stat is 4"), SafetyError("reads", "path is 4"), False),
        (SafetyError("agreement", "x"), SafetyError("total_order", "x"), False),
        (LivenessError("120 ticks: a"), LivenessError("60 ticks: b"), True),
        (LivenessError("x"), UndecidedError("x"), False),
        (raised_by_a_name(), raised_by_a_name(), True),
        (raised_by_a_name(), KeyError("never raised"), False),
        (raised_by_a_name(), SafetyError("KeyError", "x"), False),
    ],
)
def test_a_sentence_is_the_same_whatever_its_numbers_are(one: Exception, other: Exception, is_same: bool) -> None:
    assert (sentence(one) == sentence(other)) is is_same
