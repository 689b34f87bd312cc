"""Random runs: two to four brokers compete, answers are lost, sessions expire at any operation, tools write beside
them.

The judges see each write; after each run everything has to come to rest where it should.
"""

import pytest

from tests.partition.controller.storms import run


@pytest.mark.parametrize("seed", range(40))
def test_short_storms(seed):
    run(seed, brokers=2 + seed % 3)


@pytest.mark.parametrize("seed", range(100, 112))
def test_long_storms(seed):
    run(seed, brokers=3 + seed % 2, steps=3000)


@pytest.mark.hunt
@pytest.mark.parametrize("start", range(1000, 1100, 25))
def test_many_storms(start):
    for seed in range(start, start + 25):
        run(seed, brokers=3, steps=900)


def test_a_seed_is_the_same_run_each_time():
    first, second = run(5), run(5)
    assert [str(each) for each in first.effects] == [str(each) for each in second.effects]
    assert first.tree.zxid == second.tree.zxid
