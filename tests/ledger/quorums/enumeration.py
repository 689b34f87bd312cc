"""All quorums of small ensembles, and all subsets."""

from itertools import combinations

QUORUMS = [
    (size, writes, acks) for size in range(1, 7) for writes in range(1, size + 1) for acks in range(1, writes + 1)
]
"""E, Qw, Qa for all E <= 6."""


def subsets(size: int) -> list[set[int]]:
    """All subsets of the indexes below `size`."""
    return [set(each) for count in range(size + 1) for each in combinations(range(size), count)]
