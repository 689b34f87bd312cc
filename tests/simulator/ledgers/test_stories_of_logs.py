"""The stories of managed ledgers have a good end, and each is noticed when the rule is broken that it is about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulator.ledgers import broken_ledgers
from tests.simulator.ledgers import broken_logs as broken
from tests.simulator.ledgers import stories_of_logs as stories
from zab.simulator.world.verdict import SafetyError

STORIES = [story for name, story in vars(stories).items() if getattr(story, "__module__", "") == stories.__name__]
STORIES = [story for story in STORIES if not story.__name__.startswith(("_", "is_"))]

Variant = Callable[[pytest.MonkeyPatch], None]
VARIANTS: list[tuple[Variant, Callable[[], None], str]] = [
    (broken.claim_again_and_append_again, stories.m2_a_fenced_owner_rolls_before_the_new_one_has_a_ledger, "outcomes"),
    (
        broken.append_again_without_the_end,
        stories.m9_a_repair_closes_a_ledger_with_appends_that_one_bookie_has,
        "outcomes",
    ),
    (broken_ledgers.forget_tombstones, stories.m7_bookies_have_forgotten_the_empty_ledger, "G8"),
    (broken.drop_an_empty_ledger_before_the_list, stories.m7_the_ledger_of_the_old_owner_is_empty, "G12"),
    (broken.forget_the_recovered_ledger, stories.m7_the_ledger_of_the_old_owner_is_empty, "G12"),
    (broken.delete_ledgers_before_the_list, stories.m8_an_owner_trims_while_another_one_claims, "G12"),
]
"""Each with the story that notices it, and the rule that is broken."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_has_a_good_end(story: Callable[[], None]) -> None:
    story()


@pytest.mark.parametrize(("variant", "story", "rule"), VARIANTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_story_notices_the_broken_variant(
    variant: Variant, story: Callable[[], None], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant(monkeypatch)
    with pytest.raises(SafetyError) as found:
        story()
    assert found.value.rule == rule


def test_m15_an_owner_that_goes_on_after_a_lost_list_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It breaks no rule of the judges, since its next roll is refused: the story sees that its trim has no answer."""
    broken.go_on_after_a_lost_list(monkeypatch)
    with pytest.raises(AssertionError, match="still not after"):
        stories.m15_a_trim_notices_that_another_owner_has_the_log()


def test_m11_cursors_that_are_not_claimed_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger of a's cursor is not fenced: what a stores after b's takeover is lost, and a is told it is stored."""
    broken.leave_cursors_unclaimed(monkeypatch)
    with pytest.raises(AssertionError):
        stories.m11_a_cursor_of_the_old_owner_is_written_after_a_takeover()


def test_without_a_claim_a_fenced_owner_that_stops_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim and fence are two defences for one thing."""
    broken.take_over_without_a_claim(monkeypatch)
    stories.m1_an_owner_that_sleeps_with_pending_appends()
