"""What went wrong in some version of Kafka goes well on whole simulated brokers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulator.brokers import stories_of_brokers, stories_of_in_sync_sets, stories_of_replication
from tests.simulator.brokers.broken_replication import keep_the_epoch_of_a_leader_that_stays
from tests.simulator.brokers.stories_of_in_sync_sets import s11_a_replaced_disk

STORIES = [*stories_of_replication.STORIES, *stories_of_in_sync_sets.STORIES, *stories_of_brokers.STORIES]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_story_ends_well(story: Callable[[], None]) -> None:
    story()


def test_broker_epochs_tell_lives_apart_without_a_new_leader_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_the_epoch_of_a_leader_that_stays(monkeypatch)
    s11_a_replaced_disk()
