"""Deadlines against a dumb twin, and the deadlines of a coordinator."""

from __future__ import annotations

from random import Random

import pytest

from tests.partition.groups.bench import Bench
from zab.partition.coordinator.deadlines import Deadlines
from zab.partition.groups.expiry import CHECK_INTERVAL_MS


@pytest.mark.parametrize("seed", range(20))
def test_it_is_as_good_as_looking_at_all_of_them(seed: int) -> None:
    random = Random(seed)
    deadlines: Deadlines[int] = Deadlines(0)
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
        first, due = min(twin.values(), default=None), deadlines.next_due()
        assert (first is None) == (due is None)
        assert first is None or due is None or due <= max(first, now)
        assert len(deadlines) == len(twin)
        assert all((each in deadlines) == (each in twin) for each in range(8))


def test_they_come_in_their_order() -> None:
    deadlines: Deadlines[str] = Deadlines(0)
    for key, due in (("c", 3), ("a", 1), ("b", 2), ("d", 3)):
        deadlines.set(key, due)
    deadlines.set("a", 5)
    assert [deadlines.pop_due(10) for _ in range(5)] == ["b", "c", "d", "a", None]


def test_what_is_done_about_one_cancels_others_that_are_due() -> None:
    deadlines: Deadlines[str] = Deadlines(0)
    for key in "abcd":
        deadlines.set(key, 1)
    assert deadlines.pop_due(1) == "a"
    deadlines.cancel("b")
    deadlines.set("c", 2)
    deadlines.set("e", 1)
    assert [deadlines.pop_due(1) for _ in range(3)] == ["d", "e", None]
    assert deadlines.pop_due(2) == "c"


def test_a_deadline_that_moves_leaves_nothing_where_it_was() -> None:
    deadlines: Deadlines[str] = Deadlines(0)
    for due in range(1, 1000):
        deadlines.set("member", due)
    assert len(deadlines) == len(deadlines._wheel) == 1
    assert deadlines.pop_due(998) is None
    assert deadlines.pop_due(999) == "member"


def test_the_next_deadline_of_a_coordinator() -> None:
    bench = Bench()
    assert bench.coordinator.next_deadline() == CHECK_INTERVAL_MS
    token = bench.join(bench.member())
    while bench.is_open(token):
        due = bench.coordinator.next_deadline()
        assert bench.now < due <= 3000
        bench.wait(due - bench.now)
    assert bench.now == 3000
    assert 3000 < bench.coordinator.next_deadline() <= 13_000


def test_a_coordinator_that_is_late_does_everything_that_is_due() -> None:
    bench = Bench()
    bench.stable(2)
    bench.now += 2 * CHECK_INTERVAL_MS
    bench.coordinator.advance(bench.now, 0)
    bench._drain()
    assert not bench.has_group(), "sessions have ended, and the group that they left is looked at in the same turn"
