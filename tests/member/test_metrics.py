"""Summaries: count, sum, bounds and quantiles, against the values themselves."""

import math

from hypothesis import given
from hypothesis import strategies as st

from zab.member.metrics import Summary

SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)
VALUES = st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 20)), max_size=60)


@given(VALUES)
def test_count_sum_and_bounds_are_exact(values: list[tuple[int, int]]) -> None:
    summary = Summary()
    for value, times in values:
        summary.add(value, times)
    all_values = [value for value, times in values for _ in range(times)]
    assert summary.count == len(all_values)
    assert summary.total == sum(all_values)
    assert summary.least == min(all_values, default=0)
    assert summary.largest == max(all_values, default=0)
    assert summary.average == (sum(all_values) / len(all_values) if all_values else 0.0)


@given(VALUES)
def test_quantiles_are_those_of_the_sorted_values(values: list[tuple[int, int]]) -> None:
    """Up to the rounding: less than 1.6 %, downwards, and none below 128."""
    summary = Summary()
    for value, times in values:
        summary.add(value, times)
    ordered = sorted(value for value, times in values for _ in range(times))
    for share, found in zip(SHARES, summary.quantiles(*SHARES), strict=True):
        exact = ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0
        assert found <= exact
        assert exact - found <= exact / 64
        assert exact >= 128 or found == exact


def test_what_is_kept_is_bounded_by_the_size_of_numbers() -> None:
    summary = Summary()
    for value in range(0, 1 << 20, 7):
        summary.add(value)
    assert len(summary.counts) <= 128 + 13 * 64
