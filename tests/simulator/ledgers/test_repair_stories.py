"""The stories of repairs have a good end, and each is noticed when the rule is broken that it is about."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulator.ledgers import broken_replication as broken
from tests.simulator.ledgers import repair_stories as stories
from zab.simulator.world.verdict import SafetyError

STORIES: list[Callable[[], None]] = [
    stories.a_bookie_of_a_closed_ledger_is_lost,
    stories.a_striped_ledger_gets_the_entries_of_the_lost_member_alone,
    stories.a_bookie_that_does_not_take_the_copies_is_left_out,
    stories.an_empty_ledger_names_a_lost_bookie,
    stories.s19_entries_are_copied_back_to_a_bookie_that_is_fenced,
    stories.a_check_of_all_ledgers_finds_a_member_that_lacks_entries,
    stories.s24_the_last_entry_of_the_last_but_one_fragment,
    stories.a_writer_changes_its_last_fragment_while_an_older_one_is_repaired,
    stories.a_writer_that_lives_replaces_its_bookie_by_itself,
    stories.a_writer_that_does_not_replace_its_bookie_is_fenced,
    stories.an_open_ledger_without_entries_names_a_lost_bookie,
    stories.other_ledgers_are_repaired_while_some_wait_for_their_writers,
    stories.other_ledgers_are_repaired_before_one_that_failed_is_tried_again,
    stories.a_record_that_is_marked_again_meanwhile_stays,
    stories.a_worker_dies_while_it_copies,
    stories.a_worker_whose_session_is_over_begins_again,
    stories.another_worker_repairs_while_the_first_one_hears_nothing,
    stories.two_workers_share_the_ledgers,
    stories.an_entry_with_one_copy_is_lost_with_its_bookie,
    stories.the_auditor_goes_and_another_one_follows,
    stories.a_bookie_that_comes_back_in_time_is_not_lost,
    stories.a_bookie_is_lost_that_the_auditor_never_saw,
    stories.two_bookies_are_lost_and_nobody_waits,
    stories.an_operator_does_not_wait,
    stories.nothing_is_done_while_it_is_disabled,
    stories.a_bookie_is_decommissioned,
    stories.an_orphan_is_fenced_and_closed_and_deleted_a_day_later,
    stories.a_ledger_that_its_log_names_is_kept_and_so_is_one_of_nobody,
    stories.orphans_are_closed_by_the_next_auditor_if_the_first_one_dies,
]

Variant = Callable[[pytest.MonkeyPatch], None]
JUDGED: list[tuple[Variant, Callable[[], None], str]] = [
    (broken.name_the_target_before_it_has_the_entries, stories.a_bookie_of_a_closed_ledger_is_lost, "repair"),
    (broken.forget_the_last_entry, stories.s24_the_last_entry_of_the_last_but_one_fragment, "repair"),
    (broken.place_on_a_member, stories.a_bookie_of_a_closed_ledger_is_lost, "G9"),
    (
        broken.overwrite_what_others_wrote,
        stories.a_writer_changes_its_last_fragment_while_an_older_one_is_repaired,
        "G9",
    ),
]
"""Each with the story that notices it, and the rule of the judges that it breaks."""
SEEN: list[tuple[Variant, Callable[[], None]]] = [
    (broken.copy_with_ordinary_adds, stories.s19_entries_are_copied_back_to_a_bookie_that_is_fenced),
    (broken.delete_records_blindly, stories.a_record_that_is_marked_again_meanwhile_stays),
]
"""Each breaks no rule at once: the ledger is not repaired, which its story sees."""


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_repair_has_a_good_end(story: Callable[[], None]) -> None:
    story()


def test_every_story_is_told() -> None:
    told = {each.__name__ for each in STORIES}
    written = [
        name
        for name, each in vars(stories).items()
        if getattr(each, "__module__", "") == stories.__name__ and getattr(each, "__code__", None) is not None
        if each.__code__.co_argcount == 0
    ]
    assert told == set(written)


@pytest.mark.parametrize(("variant", "story", "rule"), JUDGED, ids=lambda each: getattr(each, "__name__", ""))
def test_a_repair_notices_the_broken_variant(
    variant: Variant, story: Callable[[], None], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant(monkeypatch)
    with pytest.raises(SafetyError) as found:
        story()
    assert found.value.rule == rule


@pytest.mark.parametrize(("variant", "story"), SEEN, ids=lambda each: getattr(each, "__name__", ""))
def test_a_repair_does_not_end_with_the_broken_variant(
    variant: Variant, story: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    variant(monkeypatch)
    with pytest.raises(AssertionError):
        story()
