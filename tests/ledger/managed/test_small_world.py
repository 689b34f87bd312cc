"""Exhaustive searches: two owners break nothing, and which rules have no substitute."""

from tests.ledger.managed.small_world import Rules, explore


def test_no_order_of_events_breaks_a_promise():
    explored = explore(Rules())
    assert explored.broken == "", explored.steps
    assert explored.states > 80


def test_without_a_claim_a_fenced_owner_that_stops_is_enough():
    assert explore(Rules(claims=False)).broken == ""


def test_with_a_claim_a_fenced_owner_that_rolls_is_refused():
    assert explore(Rules(abdicates=False)).broken == ""


def test_m2_without_a_claim_a_fenced_owner_that_rolls_has_its_value_twice():
    explored = explore(Rules(claims=False, abdicates=False))
    assert explored.broken == "a value twice", explored


def test_m7_without_tombstones_what_was_acknowledged_is_lost():
    explored = explore(Rules(tombstones=False))
    assert explored.broken == "acknowledged and lost", explored
    assert "bookies collect 0" in explored.steps
