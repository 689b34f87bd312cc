"""Deadlines against a dumb twin, and the deadlines of a coordinator."""

from __future__ import annotations

from random import Random

import pytest

from tests.partition.groups.bench import Bench
from zab.partition.groups.deadlines import Deadlines
from zab.partition.groups.expiry import CHECK_INTERVAL_MS


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_good_as_looking_at_all_of_them(seed: int) -> None:
    random = Random(seed)
    deadlines: Deadlines[int] = Deadlines()
    twin: dict[int, int] = {}
    now = 0
    for _ in range(400):
        action, key = random.randrange(10), random.randrange(8)
        if action < 6:
            due = now + random.randrange(50)
            deadlines.set(key, due)
            twin[key] = due
        elif action < 8:
            deadlines.cancel(key)
            twin.pop(key, None)
        else:
            now += random.randrange(30)
            while (found := deadlines.pop_due(now)) is not None:
                assert twin.pop(found) <= now
            assert all(due > now for due in twin.values())
        assert deadlines.next_due() == min(twin.values(), default=None)
        assert len(deadlines) == len(twin)
        assert all((each in deadlines) == (each in twin) for each in range(8))


def test_they_come_in_their_order() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, due in (("c", 3), ("a", 1), ("b", 2), ("d", 3)):
        deadlines.set(key, due)
    deadlines.set("a", 5)
    assert [deadlines.pop_due(10) for _ in range(5)] == ["b", "c", "d", "a", None]


def test_a_deadline_that_moves_later_does_not_grow_the_heap() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for due in range(1000):
        deadlines.set("member", due)
    assert len(deadlines._heap) == 1
    assert deadlines.next_due() == 999


def test_the_next_deadline_of_a_coordinator() -> None:
    bench = Bench()
    assert bench.coordinator.next_deadline() == CHECK_INTERVAL_MS
    bench.join(bench.member())
    assert bench.coordinator.next_deadline() == 3000
    bench.wait(3000)
    assert bench.coordinator.next_deadline() == 3000 + 10_000


def test_a_coordinator_that_is_late_does_everything_that_is_due() -> None:
    bench = Bench()
    bench.stable(2)
    bench.now += 2 * CHECK_INTERVAL_MS
    bench.coordinator.advance(bench.now, 0)
    bench._drain()
    assert not bench.has_group(), "sessions have ended, and the group that they left is looked at in the same turn"
