"""Small worlds of brokers are right, whole; and what is wrong is found by the shortest way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulator.brokers import broken_replication as broken
from zab.simulator.brokers.explored_partition import Bounds
from zab.simulator.brokers.explored_replica import Action, Site
from zab.simulator.brokers.partition_exploration import explore, parsed, replay, shown

Patch = pytest.MonkeyPatch

ON_THE_PAGE = [
    Bounds(replicas=2, crashes=0, epochs=1, losses=1),
    Bounds(replicas=2, crashes=1, epochs=3),
]
WHOLE = [
    Bounds(replicas=1, crashes=1, writes=2),
    Bounds(replicas=2, crashes=0, epochs=1),
    Bounds(replicas=2, crashes=0, epochs=1, changes=2, min_in_sync=2, moves=1),
]
PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "small-worlds.md"
COLUMNS = ("replicas", "min_in_sync", "epochs", "changes", "writes", "crashes", "losses", "moves")

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


@pytest.mark.slow
@pytest.mark.parametrize("bounds", ON_THE_PAGE, ids=str)
def test_a_world_of_the_page_is_right_and_as_large_as_it_says(bounds: Bounds) -> None:
    report = explore(bounds)
    assert report.found is None
    assert report.is_whole
    sizes = f"{report.states_count:,} | {report.steps_count:,} | {report.depth}"
    row = " | ".join(str(getattr(bounds, name)) for name in COLUMNS)
    assert f"\n| {row} | {sizes} | " in PAGE.read_text(encoding="utf-8")


def test_code_that_fails_is_found_with_the_way_to_it(monkeypatch: Patch) -> None:
    act = Site.act

    def fail(site: Site, action: Action) -> object:
        if action[0] != "told":
            raise KeyError("a mistake")
        return act(site, action)

    monkeypatch.setattr(Site, "act", fail)
    found = explore(Bounds()).found
    assert found is not None
    assert " fails at " in found.text
    assert "KeyError('a mistake')" in found.text
    assert len(found.steps) == 1


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
def test_what_is_wrong_is_found_by_its_rule(variant: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bounds, rule = VARIANTS[variant]
    variant(monkeypatch)
    report = explore(bounds, states_max=50_000)
    found = report.found
    assert found is not None
    assert report.states_count < 1000, "the page says some hundred"
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
