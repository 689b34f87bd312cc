"""Each promise of a broker, broken on purpose: the judges must notice. A check that cannot fail is none.

A variant is one rule of the code, switched off. A story finds it, by the rule of the judges that is written down here;
or it is run on seeds until a run fails. The seed that is written down is tried first; should a change of the code have
moved the failure to another seed, the search goes on, and the number is to be corrected.

Not here, since no order of events shows them: two rules of which either is enough. The leader epoch rises whenever
somebody leaves an in-sync set, so that the former life of a broker is fenced by it as well as by the broker's epoch;
and a late answer to a fetch is refused for its epoch, for its offset and by the log.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.rigs.known_seed import check_known
from tests.simulator.brokers import broken_groups as groups
from tests.simulator.brokers import broken_replication as replication
from tests.simulator.brokers import broken_variants as broken
from tests.simulator.brokers import broken_workloads as workloads
from tests.simulator.brokers import stories_of_brokers as of_brokers
from tests.simulator.brokers import stories_of_in_sync_sets as of_sets
from tests.simulator.brokers import stories_of_replication as stories
from zab.cli.servers.simulate import SAFETY, attempt
from zab.simulator.brokers.scope import Scope
from zab.simulator.brokers.workload import COMPACTION, GROUPS, TRANSACTIONS
from zab.simulator.world.verdict import SafetyError

Patch = pytest.MonkeyPatch
SEEDS = 40

COMPLETE = "LeaderCompletenessProperty"
CANDIDATES = "LeaderCandidateCompletenessProperty"

VARIANTS: dict[Callable[[Patch], None], tuple[Callable[[], None], str]] = {
    broken.acknowledge_what_is_not_stored: (stories.what_is_acknowledged_is_synced, COMPLETE),
    broken.serve_above_the_high_watermark: (
        *(stories.a_consumer_reads_below_the_high_watermark, "consumers read below the high watermark"),
    ),
    broken.truncate_to_the_high_watermark_at_the_start: (
        *(stories.s1_a_restart_does_not_cut_to_the_high_watermark, "what was stored survives"),
    ),
    broken.take_repeats_for_new_batches: (stories.a_producer_sends_five_batches_again, "no duplicates"),
    broken.sync_nothing: (stories.s2_two_power_cuts_lose_nothing_that_is_synced, "what was stored survives"),
    broken.go_on_after_a_failed_write: (stories.s19_a_write_that_fails, "what was stored survives"),
    broken.take_the_files_of_another_topic: (stories.s22_a_topic_that_comes_again, "a new topic is empty"),
    broken.point_past_what_was_cut: (
        *(of_brokers.a_log_that_was_cut_is_read_anywhere, "fetch is answered with an error that may be"),
    ),
    broken.expire_at_the_end_of_a_bucket: (of_brokers.who_waits_is_answered_in_time, "requests are answered in time"),
    broken.tell_no_mark_without_records: (
        *(stories.s13_a_mark_that_lags_after_an_election, "a session tells what has changed"),
    ),
    broken.complete_twice: (of_brokers.who_waits_is_answered_once, "answers are in the order of requests"),
    workloads.believe_what_is_not_committed: (
        *(of_brokers.an_offset_counts_once_every_replica_in_sync_has_it, "committed offsets"),
    ),
    workloads.drop_the_last_batch_of_a_producer: (
        *(of_brokers.a_batch_of_a_producer_is_known_on_a_replica_that_is_new, "no duplicates"),
    ),
    replication.answer_diverging_followers_without_an_epoch: (
        *(stories.s3_two_quick_changes_of_the_leader, "replicas are equal"),
    ),
    replication.count_a_follower_whose_history_parts: (
        *(stories.s5_a_follower_whose_history_parts_does_not_count, CANDIDATES),
    ),
    replication.count_the_committed_set_alone: (
        *(of_sets.a_member_of_the_set_that_joins_counts_at_once, "ReplicationQuorumSupersetProperty"),
    ),
    replication.count_a_proposed_shrink_at_once: (of_sets.s8_a_shrink_counts_when_it_is_confirmed, CANDIDATES),
    replication.join_at_the_high_watermark: (stories.s7_nobody_joins_below_the_start_of_the_epoch, CANDIDATES),
    replication.take_former_lives_for_the_present_one: (of_sets.s11_a_replaced_disk, COMPLETE),
    replication.change_the_set_whatever_its_epoch: (of_sets.s9_a_proposal_that_is_late_is_not_written, CANDIDATES),
    replication.raise_the_mark_with_too_few_in_sync: (of_sets.too_few_in_sync_commit_nothing, CANDIDATES),
    replication.complete_a_produce_on_a_deposed_leader: (
        *(stories.s18_a_write_that_waits_on_a_deposed_leader, "ConsistentReadProperty"),
    ),
    replication.take_the_mark_from_an_answer_that_parts: (
        *(stories.s14_the_mark_of_an_answer_that_says_that_histories_part, "LogMatchingProperty"),
    ),
    replication.forget_an_epoch_without_records: (stories.s15_an_epoch_without_records, "ValidReplicaState"),
    replication.keep_producers_of_what_was_cut: (stories.s24_what_was_cut_is_no_duplicate, "ConsistentReadProperty"),
    replication.remember_one_batch_of_a_producer: (stories.a_producer_sends_five_batches_again, "idempotence"),
    replication.count_what_a_follower_has_not_stored: (
        *(stories.s2_two_power_cuts_lose_nothing_that_is_synced, COMPLETE),
    ),
    replication.elect_who_is_not_in_sync: (of_sets.s12_a_replica_that_is_not_in_sync_does_not_lead, CANDIDATES),
    replication.trust_who_stopped_uncleanly: (of_sets.s12_an_unclean_restart_within_a_session, COMPLETE),
    replication.change_leaders_without_an_epoch: (
        *(stories.s18_a_write_that_waits_on_a_deposed_leader, "ValidControllerIsrAndElr"),
    ),
}
"""Each with a story that finds it, and the rule that it breaks."""

OF_WORKLOADS: dict[Callable[[Patch], None], tuple[str, int, int, str]] = {
    workloads.forget_what_was_committed_before: (GROUPS, 1, 0, "committed offsets"),
    workloads.load_to_the_high_watermark: (GROUPS, 1, 3, "the group's epoch rises"),
    workloads.let_a_replaced_static_member_go_on: (GROUPS, 1, 38, "static members are fenced"),
    groups.give_away_what_has_an_owner: (GROUPS, 1, 4, "NoDoubleClientAssignment"),
    groups.end_sessions_early: (GROUPS, 1, 1, "NoDoubleClientAssignment"),
    groups.let_stale_members_commit: (GROUPS, 1, 1, "stale members"),
    groups.forget_the_epoch: (GROUPS, 1, 1, "the group's epoch rises"),
    workloads.serve_open_transactions: (TRANSACTIONS, 1, 0, "aborted is never seen"),
    workloads.list_no_aborted_transactions: (TRANSACTIONS, 1, 0, "aborted is never seen"),
    workloads.answer_before_the_decision: (TRANSACTIONS, 1, 0, "commits count"),
    workloads.end_transactions_above_the_mark: (TRANSACTIONS, 1, 1, "the last stable offset"),
    workloads.verify_nothing_on_other_brokers: (TRANSACTIONS, 3, 1, "aborted is never seen"),
    workloads.drop_tombstones_at_once: (COMPACTION, 1, 0, "the last value of each key survives"),
    workloads.drop_the_last_value: (COMPACTION, 1, 0, "the last value of each key survives"),
}
"""Each with the focus, the number of brokers and a seed that find it, and the rule that it breaks."""


def finds(seed: int, focus: str, brokers: int, rule: str) -> bool:
    """Whether a run of the seed breaks this rule; how else it ends does not matter."""
    failure = attempt(seed, scope=Scope(brokers=brokers, focus=focus)).failure
    return failure is not None and failure.code == SAFETY and failure.text.startswith(f"{rule}: ")


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_a_story_finds_the_broken_variant(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    story, rule = VARIANTS[variant]
    variant(monkeypatch)
    with pytest.raises(SafetyError) as found:
        story()
    assert found.value.rule == rule


@pytest.mark.slow
@pytest.mark.parametrize("variant", OF_WORKLOADS, ids=lambda variant: variant.__name__)
def test_a_seed_finds_the_broken_workload(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    focus, brokers, known, rule = OF_WORKLOADS[variant]
    variant(monkeypatch)
    check_known(lambda seed: finds(seed, focus, brokers, rule), known, SEEDS)
