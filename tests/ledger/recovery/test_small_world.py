"""Exhaustive searches: the right recovery breaks nothing, and each broken one is found with the fewest steps."""

import pytest

from tests.ledger.recovery.small_world import World, explore


@pytest.mark.slow
def test_no_order_of_events_breaks_a_promise():
    """G1, G6, G10: 3/3/2, one entry, one recoverer, one power loss."""
    explored = explore(World())
    assert explored.broken == "", explored.steps
    assert explored.states > 25_000


@pytest.mark.slow
def test_a_recovery_that_reads_without_a_fence_loses_an_acknowledged_entry():
    """S1."""
    explored = explore(World(reads_fence=False, losses=0))
    assert explored.broken.startswith("G1")
    assert len(explored.steps) == 12


@pytest.mark.slow
def test_a_negative_answer_before_the_fence_is_durable_loses_an_acknowledged_entry():
    """S5."""
    explored = explore(World(negatives_wait=False))
    assert explored.broken.startswith("G1")
    assert "loses power" in " ".join(explored.steps)


@pytest.mark.slow
def test_an_entry_that_is_not_written_back_has_too_few_copies():
    """S20."""
    assert explore(World(writes_back=False)).broken.startswith("G6")


@pytest.mark.slow
def test_one_negative_answer_alone_loses_an_acknowledged_entry():
    assert explore(World(proofs_needed=1)).broken.startswith("G1")


@pytest.mark.slow
def test_without_a_power_loss_early_negative_answers_break_nothing():
    """S5 is easily overlooked."""
    assert explore(World(negatives_wait=False, losses=0)).broken == ""


@pytest.mark.long
@pytest.mark.parametrize("switch", ["reads_fence", "negatives_wait"])
def test_two_recoverers_find_it_too(switch):
    assert explore(World(recoverers=2, **{switch: False})).broken.startswith("G1")


@pytest.mark.long
@pytest.mark.parametrize("world", [World(losses=3), World(recoverers=2, losses=0)], ids=str)
def test_no_order_of_events_breaks_a_promise_in_a_larger_world(world):
    explored = explore(world)
    assert explored.broken == "", explored.steps
