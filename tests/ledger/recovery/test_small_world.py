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
    assert explored.broken.startswith("G1:")
    assert len(explored.steps) == 12


@pytest.mark.slow
def test_a_negative_answer_before_the_fence_is_durable_loses_an_acknowledged_entry():
    """S5."""
    explored = explore(World(negatives_wait=False))
    assert explored.broken.startswith("G1:")
    assert "loses power" in " ".join(explored.steps)


@pytest.mark.slow
def test_an_entry_that_is_not_written_back_has_too_few_copies():
    """S20."""
    assert explore(World(writes_back=False)).broken.startswith("G6:")


@pytest.mark.slow
def test_one_negative_answer_alone_loses_an_acknowledged_entry():
    assert explore(World(proofs_needed=1)).broken.startswith("G1:")


@pytest.mark.slow
def test_without_a_power_loss_early_negative_answers_break_nothing():
    """S5 is easily overlooked."""
    assert explore(World(negatives_wait=False, losses=0)).broken == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "losses", [0, 1, pytest.param(2, marks=pytest.mark.longest), pytest.param(3, marks=pytest.mark.longest)]
)
def test_two_recoverers_break_no_promise(losses):
    explored = explore(World(recoverers=2, losses=losses, is_eager=True))
    assert explored.broken == "", explored.steps
    assert explored.states > 1_500


@pytest.mark.parametrize(
    "broken",
    [{"reads_fence": False}, {"negatives_wait": False}, {"writes_back": False}, {"proofs_needed": 1}],
    ids=str,
)
@pytest.mark.parametrize("recoverers", [1, 2])
def test_what_is_broken_is_found_without_late_answers_too(broken, recoverers):
    """The reduction that two recoverers need hides nothing."""
    assert explore(World(recoverers=recoverers, is_eager=True, **broken)).broken


@pytest.mark.longest
def test_no_order_of_events_breaks_a_promise_with_three_power_losses():
    explored = explore(World(losses=3))
    assert explored.broken == "", explored.steps
