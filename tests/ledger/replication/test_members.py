"""Which entries a member has to have, and arithmetic of runs: by enumeration."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from zab.ledger.quorums.write_sets import write_set
from zab.ledger.replication.members import Run, pieces, share, without


def entries_of(runs: list[Run]) -> list[int]:
    return [entry for first, last in runs for entry in range(first, last + 1)]


@pytest.mark.parametrize("size", range(1, 7))
def test_a_share_is_the_entries_whose_write_set_has_the_index(size: int) -> None:
    for quorum, index in product(range(1, size + 1), range(size)):
        for first, last in product(range(3 * size), range(-1, 3 * size)):
            expected = [entry for entry in range(first, last + 1) if index in write_set(entry, size, quorum)]
            assert entries_of(list(share(first, last, index, size, quorum))) == expected


def test_runs_without_others_are_what_is_left() -> None:
    rng = Random(7)
    for _ in range(3_000):
        some, others = some_runs(rng), some_runs(rng)
        expected = sorted(set(entries_of(some)) - set(entries_of(others)))
        assert entries_of(list(without(some, others))) == expected


def some_runs(rng: Random) -> list[Run]:
    edges = sorted(rng.sample(range(30), 2 * rng.randint(0, 5)))
    return [(edges[at], edges[at + 1] - 1) for at in range(0, len(edges), 2)]


def test_pieces_are_the_same_entries() -> None:
    runs = [(0, 9), (12, 12), (20, 25)]
    assert list(pieces(runs, 4)) == [(0, 3), (4, 7), (8, 9), (12, 12), (20, 23), (24, 25)]
