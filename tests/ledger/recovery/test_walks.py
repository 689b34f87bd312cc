"""Random walks of the real writer against real recoverers."""

import pytest

from tests.ledger.recovery.walk import Walk


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_no_walk_breaks_a_promise(block):
    """G1 to G4, G6, G9, G10."""
    for seed in range(20 * block, 20 * block + 20):
        Walk(seed).run()


@pytest.mark.long
def test_no_walk_of_many_breaks_a_promise():
    for seed in range(1_000, 4_000):
        Walk(seed).run()
