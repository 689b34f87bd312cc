"""Small worlds of brokers are right, whole; and what is wrong is found by the shortest way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulator.brokers import broken_replication as broken
from zab.simulator.brokers.explored_partition import Bounds
from zab.simulator.brokers.partition_exploration import explore, parsed, replay, shown

Patch = pytest.MonkeyPatch

WHOLE = [
    Bounds(replicas=1, crashes=1, writes=2),
    Bounds(replicas=2, crashes=0, epochs=1),
    Bounds(replicas=2, crashes=0, epochs=1, losses=1),
    Bounds(replicas=2, crashes=0, epochs=1, changes=2, min_in_sync=2, moves=1),
]

VARIANTS: dict[Callable[[Patch], None], tuple[Bounds, str]] = {
    broken.count_the_committed_set_alone: (Bounds(crashes=0), "ReplicationQuorumSupersetProperty"),
    broken.count_a_proposed_shrink_at_once: (Bounds(crashes=0), "ReplicationQuorumSupersetProperty"),
    broken.count_a_follower_whose_history_parts: (
        *(Bounds(crashes=0, writes=2, moves=1), "LeaderCandidateCompletenessProperty"),
    ),
    broken.raise_the_mark_with_too_few_in_sync: (
        *(Bounds(min_in_sync=2, crashes=0), "LeaderCandidateCompletenessProperty"),
    ),
}


@pytest.mark.parametrize("bounds", WHOLE, ids=str)
def test_a_small_world_is_right(bounds: Bounds) -> None:
    report = explore(bounds)
    assert report.found is None
    assert report.is_whole
    assert report.states_count > 20


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_what_is_wrong_is_found_by_its_rule(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bounds, rule = VARIANTS[variant]
    variant(monkeypatch)
    found = explore(bounds, states_max=50_000).found
    assert found is not None
    assert found.text.startswith(f"{rule}: ")
    lines = replay(bounds, [parsed(shown(step)) for step in found.steps])
    assert lines[-1] == found.text


def test_more_states_than_allowed_are_not_everything() -> None:
    report = explore(Bounds(replicas=2), states_max=100)
    assert not report.is_whole
    assert report.found is None


def test_a_step_that_cannot_come_is_refused() -> None:
    with pytest.raises(ValueError, match="start 1 cannot come here"):
        replay(Bounds(), [("start", 1)])
