"""A summary of a value: count, sum, least, largest and quantiles.

One thread adds, and any may read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

_EXACT_BITS: Final = 7
"""A value of so many bits or fewer is kept as it is, a larger one rounded down to so many: by less than 1.6 %."""


@attrs.define
class Summary:
    """The count, sum, minimum, maximum and quantiles of a value."""

    count: int = 0
    total: int = 0
    least: int = 0
    largest: int = 0
    counts: dict[int, int] = attrs.Factory(dict)
    """How often each value was seen, rounded: at most 64 values to each power of two."""

    def add(self, value: int, times: int = 1) -> None:
        """Count `value`, seen so many times. One thread adds, any may read."""
        if not times:
            return
        if value > self.largest:
            self.largest = value
        if value < self.least or not self.count:
            self.least = value
        self.count += times
        self.total += value * times
        shift = value.bit_length() - _EXACT_BITS
        if shift > 0:
            value = value >> shift << shift
        counts = self.counts
        counts[value] = counts.get(value, 0) + times

    @property
    def average(self) -> float:
        return self.total / self.count if self.count else 0.0

    def quantiles(self, *wanted: float) -> list[int]:
        """See `quantiles_of`."""
        return quantiles_of(self.counts.copy(), *wanted)


def quantiles_of(counts: Mapping[int, int], *wanted: float) -> list[int]:
    """Quantiles. `counts` says how often each value was seen. For each of the shares `wanted`, which rise, the
    result has the least value that at least this share of all values does not exceed; 0 where there are no values."""
    found: list[int] = []
    seen = value = 0
    count = sum(counts.values())
    ordered = iter(sorted(counts.items()))
    for share in wanted:
        while seen < share * count:
            value, times = next(ordered)
            seen += times
        found.append(value)
    return found
