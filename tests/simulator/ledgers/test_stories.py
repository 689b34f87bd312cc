"""The stories of ledgers have a good end, and each is noticed when the rule is broken that it is about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulator.ledgers import broken_ledgers as broken
from tests.simulator.ledgers import stories
from zab.simulator.world.verdict import SafetyError

STORIES = [story for name, story in vars(stories).items() if name[:1] == "s" and name[1:2].isdigit()]
STORIES.append(stories.a_ledger_that_lost_too_many_disks_is_not_closed)

Variant = Callable[[pytest.MonkeyPatch], None]
VARIANTS: list[tuple[Variant, Callable[[], None], str]] = [
    (broken.read_without_a_fence, stories.s1_an_entry_gets_its_last_copy_while_it_is_read, "G1"),
    (broken.take_errors_for_absence, stories.s3_a_bookie_that_cannot_say_whether_it_has_an_entry, "G1"),
    (broken.start_with_any_disk, stories.s4_a_bookie_whose_disk_was_replaced, "G1"),
    (broken.deny_before_the_fence_is_durable, stories.s5_bookies_lose_their_power_before_their_fences, "durability"),
    (broken.forget_fences, stories.s5_bookies_lose_their_power_before_their_fences, "durability"),
    (
        broken.use_an_ensemble_before_it_is_written,
        stories.s6_bookies_fail_while_the_coordination_service_is_away,
        "G1",
    ),
    (broken.release_during_a_change, stories.s7_entries_are_complete_while_their_fragment_changes, "G1"),
    (broken.write_ensembles_of_a_recovery_early, stories.s9_a_recovery_that_dies_while_it_writes_back, "G9"),
    (broken.read_from_the_new_ensemble, stories.s10_a_recovery_goes_on_after_it_moved_its_copies, "G1"),
    (broken.forget_tombstones, stories.s11_a_writer_that_was_asleep_while_its_ledger_was_deleted, "G8"),
    (broken.believe_a_stale_list, stories.s13_the_collector_is_served_by_a_member_that_lags, "collection"),
    (broken.keep_explicit_lacs_in_memory, stories.s16_a_lac_that_readers_were_told_survives_all_bookies, "durability"),
    (broken.close_without_writing_back, stories.s20_an_entry_with_one_copy, "G6"),
    (broken.answer_repeated_adds_at_once, stories.s23_an_add_that_is_sent_again_before_it_is_durable, "durability"),
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


def test_s2_a_recovery_that_begins_before_the_last_fragment_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It breaks no rule of the judges: the story sees that entries of older fragments are written back."""
    broken.begin_before_the_last_fragment(monkeypatch)
    with pytest.raises(AssertionError, match="nothing is to be written back"):
        stories.s2_a_last_fragment_without_entries()
