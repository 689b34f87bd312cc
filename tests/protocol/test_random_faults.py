"""Peers under random crashes, partitions and half-done work; the paper's properties hold, and then they make progress.

The simulator does this with whole members and real logs; here a broken rule of the protocol shows in milliseconds.
"""

import pytest

from tests.protocol.random_faults import run, run_with_markers_that_lie


@pytest.mark.parametrize("block", [0, *(pytest.param(block, marks=pytest.mark.longest) for block in range(1, 4))])
def test_properties_hold_under_random_faults_and_progress_returns(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        run(seed)


@pytest.mark.parametrize("block", [0, pytest.param(1, marks=pytest.mark.longest)])
def test_markers_that_lie_found_nothing_where_somebody_has_a_history(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        run_with_markers_that_lie(seed)
