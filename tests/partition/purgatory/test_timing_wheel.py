"""The timing wheel against a dumb twin, which looks at every timer each time."""

from __future__ import annotations

import gc
import random
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zab.partition.purgatory.timing_wheel import Timer, TimingWheel

START_MS = 1_234_567


def up(deadline_ms: int, tick_ms: int) -> int:
    return -(-deadline_ms // tick_ms) * tick_ms


class Twin:
    """Timers in a list: (when it expires, deadline, name)."""

    def __init__(self, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self.timers: list[tuple[int, int, int]] = []

    def expired(self, now_ms: int) -> list[tuple[int, int]]:
        found = [(deadline, name) for expires, deadline, name in self.timers if expires <= now_ms]
        self.timers = [timer for timer in self.timers if timer[0] > now_ms]
        return sorted(found)


distances = st.one_of(
    st.integers(-50, 50),
    st.integers(-5, 1_000),
    st.integers(0, 20_000),
    st.integers(0, 10**8),
    st.sampled_from([19, 20, 21, 39, 40, 41, 399, 400, 401, 419, 420, 7_999, 8_000, 8_001, 160_000, 2**62]),
)


class WheelAndTwin(RuleBasedStateMachine):
    """Whatever is added, cancelled and advanced, both expire the same timers at the same calls."""

    tick_ms = 1
    size = 20

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.wheel: TimingWheel[int] = TimingWheel(START_MS, tick_ms=self.tick_ms, size=self.size)
        self.twin = Twin(self.tick_ms)
        self.timers: dict[int, Timer[int]] = {}
        self.names = 0

    @rule(distance=distances)
    def add(self, distance: int) -> None:
        deadline = self.now_ms + distance
        self.timers[self.names] = self.wheel.add(deadline, self.names)
        self.twin.timers.append((up(deadline, self.tick_ms), deadline, self.names))
        self.names += 1

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Also those that have expired, or were cancelled before."""
        name = data.draw(st.integers(0, self.names - 1))
        before = len(self.twin.timers)
        self.twin.timers = [timer for timer in self.twin.timers if timer[2] != name]
        assert self.wheel.cancel(self.timers[name]) is (len(self.twin.timers) < before)
        assert not self.timers[name].is_pending

    @rule(
        step=st.one_of(st.integers(0, 3), st.integers(0, 500), st.integers(0, 10**6), st.sampled_from([2**40, 2**63]))
    )
    def advance(self, step: int) -> None:
        self.now_ms += step
        self._compare(self.now_ms)

    @rule(step=st.integers(1, 10_000))
    def advance_with_a_clock_that_went_back(self, step: int) -> None:
        self._compare(self.now_ms - step)

    @precondition(lambda self: self.wheel.next_deadline() is not None)
    @rule()
    def advance_as_the_wheel_asks(self) -> None:
        asked = self.wheel.next_deadline()
        assert asked is not None
        self.now_ms = max(self.now_ms, asked)
        self._compare(self.now_ms)

    def _compare(self, now_ms: int) -> None:
        expired = self.wheel.advance(now_ms)
        assert all(not timer.is_pending for timer in expired)
        found = [(timer.deadline_ms, timer.payload) for timer in expired]
        assert sorted(found) == self.twin.expired(self.now_ms)
        assert [deadline for deadline, _ in found] == sorted(deadline for deadline, _ in found)

    @invariant()
    def it_asks_in_time(self) -> None:
        asked = self.wheel.next_deadline()
        if not self.twin.timers:
            assert asked is None
            return
        assert asked is not None
        first = min(expires for expires, _, _ in self.twin.timers)
        assert asked <= max(first, self.now_ms)
        assert asked > self.now_ms or first <= self.now_ms, "it asks for what it can do nothing about"

    @invariant()
    def it_holds_what_is_pending_and_nothing_else(self) -> None:
        assert len(self.wheel) == len(self.twin.timers) == sum(timer.is_pending for timer in self.timers.values())
        held = [timer for level in self.wheel._levels for bucket in level.buckets for timer in bucket.timers]
        assert len(held) + len(self.wheel._due.timers) == len(self.wheel)
        for level in self.wheel._levels:
            for bucket in level.buckets:
                for timer in bucket.timers:
                    assert bucket.begins_ms is not None
                    assert 0 <= up(timer.deadline_ms, self.tick_ms) - bucket.begins_ms < level.tick_ms
        in_heap = [bucket for _, _, bucket in self.wheel._heap]
        assert len({id(bucket) for bucket in in_heap}) == len(in_heap) <= self.size * len(self.wheel._levels)
        assert all(begins > self.wheel.now_ms for begins, _, _ in self.wheel._heap)


class CoarseWheelAndTwin(WheelAndTwin):
    """Ticks of 7 ms, three buckets: many levels."""

    tick_ms = 7
    size = 3


WheelAndTwin.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
CoarseWheelAndTwin.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestWheel = pytest.mark.slow(WheelAndTwin.TestCase)
TestCoarseWheel = pytest.mark.slow(CoarseWheelAndTwin.TestCase)


@pytest.mark.slow
def test_a_loop_that_wakes_as_it_is_asked_ends_each_timer_at_its_deadline() -> None:
    """Neither early nor late; and it wakes at most once more for each level that a timer is on."""
    draws = random.Random(7)
    wheel: TimingWheel[None] = TimingWheel(START_MS)
    for _ in range(2_000):
        wheel.add(START_MS + draws.choice([1, 50, 3_000, 500_000, 10**8]) + draws.randrange(100), None)
    wakes = expired = 0
    while (asked := wheel.next_deadline()) is not None:
        wakes += 1
        for timer in wheel.advance(asked):
            assert timer.deadline_ms == asked
            expired += 1
    assert expired == 2_000
    distinct = 5 * 100
    assert wakes <= distinct + 5 * 7 * 6


@pytest.mark.parametrize("tick_ms", [1, 10, 64])
def test_a_timer_is_never_early_and_at_most_a_tick_late(tick_ms: int) -> None:
    for distance in [*range(1, 130), 399, 400, 401, 7_999, 8_001, 200_003]:
        wheel: TimingWheel[None] = TimingWheel(START_MS, tick_ms=tick_ms)
        timer = wheel.add(START_MS + distance, None)
        assert wheel.advance(timer.deadline_ms - 1) == []
        assert wheel.advance(timer.deadline_ms + tick_ms - 1) == [timer]


def test_coarse_buckets_move_their_timers_at_their_beginning() -> None:
    """Timers of one bucket of level 1 expire one by one."""
    wheel: TimingWheel[str] = TimingWheel(0)
    for deadline in (45, 41, 59):
        wheel.add(deadline, str(deadline))
    assert wheel.next_deadline() == 40
    assert wheel.advance(40) == []
    found = []
    while (asked := wheel.next_deadline()) is not None:
        found += [(asked, timer.payload) for timer in wheel.advance(asked)]
    assert found == [(41, "41"), (45, "45"), (59, "59")]


def test_a_deadline_that_has_passed_expires_at_the_next_advance() -> None:
    wheel: TimingWheel[str] = TimingWheel(START_MS)
    late = [wheel.add(START_MS, "now"), wheel.add(-(2**62), "long ago")]
    assert wheel.next_deadline() == START_MS
    assert [timer.payload for timer in wheel.advance(START_MS)] == ["long ago", "now"]
    assert wheel.advance(START_MS) == []
    assert not any(map(wheel.cancel, late))


def test_one_that_is_due_can_still_be_cancelled() -> None:
    wheel: TimingWheel[None] = TimingWheel(START_MS)
    assert wheel.cancel(wheel.add(START_MS - 1, None))
    assert wheel.next_deadline() is None
    assert wheel.advance(START_MS) == []


def test_timers_that_are_added_while_others_expire_wait_for_their_own_deadline() -> None:
    """A heartbeat that is armed again each time, also with a deadline that has passed."""
    wheel: TimingWheel[int] = TimingWheel(0)
    wheel.add(10, 0)
    seen = []
    now_ms = 0
    while len(seen) < 6:
        asked = wheel.next_deadline()
        assert asked is not None
        now_ms = max(now_ms, asked)
        for timer in wheel.advance(now_ms):
            seen.append((now_ms, timer.payload))
            wheel.add(now_ms + (0 if timer.payload % 2 else 10), timer.payload + 1)
    assert seen == [(10, 0), (20, 1), (20, 2), (30, 3), (30, 4), (40, 5)]


def test_equal_deadlines_expire_in_the_order_in_which_they_were_added() -> None:
    wheel: TimingWheel[int] = TimingWheel(0)
    for name in range(50):
        wheel.add(15, name)
    assert [timer.payload for timer in wheel.advance(1_000)] == list(range(50))


def test_timers_of_one_coarse_bucket_expire_by_their_deadlines() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    for deadline in (45, 41, 59):
        wheel.add(deadline, str(deadline))
    assert [timer.payload for timer in wheel.advance(60)] == ["41", "45", "59"]


def test_a_timer_that_moves_down_may_need_a_bucket_that_has_begun() -> None:
    """One bucket of level 0 holds a timer for 405 ms, and is where that for 785 ms goes when the clock jumps."""
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.add(785, "moves down")
    assert wheel.advance(395) == []
    wheel.add(405, "late")
    assert [timer.payload for timer in wheel.advance(780)] == ["late"]
    assert wheel.next_deadline() == 785
    assert [timer.payload for timer in wheel.advance(785)] == ["moves down"]


def test_a_huge_jump_of_the_clock_ends_everything_at_once() -> None:
    wheel: TimingWheel[int] = TimingWheel(0)
    deadlines = [3**power for power in range(30)]
    for deadline in reversed(deadlines):
        wheel.add(deadline, deadline)
    wheel.add(2**61, 2**61)
    assert [timer.payload for timer in wheel.advance(2**60)] == deadlines
    assert len(wheel) == 1
    assert [timer.payload for timer in wheel.advance(2**61)] == [2**61]


class Payload:
    """What a timer holds; a plain object has no weak references."""


def test_cancelled_timers_leave_nothing() -> None:
    """Neither in the heap, nor as references, nor as a reason to wake up."""
    wheel: TimingWheel[Payload] = TimingWheel(0)
    payloads: list[weakref.ref[Payload]] = []
    for _ in range(3):
        timers = [wheel.add(distance, Payload()) for distance in range(1, 20_000, 3)]
        payloads += [weakref.ref(timer.payload) for timer in timers]
        assert len(wheel._heap) <= 20 * len(wheel._levels)
        assert all(map(wheel.cancel, timers))
        assert not any(map(wheel.cancel, timers))
        del timers
        assert len(wheel) == 0
        assert wheel.next_deadline() is None
        assert not wheel._heap
    gc.collect()
    assert len(payloads) > 10_000
    assert not any(payload() for payload in payloads)


def test_a_bucket_whose_timers_were_cancelled_is_used_again() -> None:
    wheel: TimingWheel[str] = TimingWheel(0)
    wheel.cancel(wheel.add(5, "cancelled"))
    wheel.add(5, "first")
    wheel.cancel(wheel.add(7, "cancelled"))
    assert wheel.advance(6)[0].payload == "first"
    wheel.add(25, "second")
    assert wheel.next_deadline() == 25
    assert [timer.payload for timer in wheel.advance(25)] == ["second"]


@given(st.lists(st.tuples(st.integers(-10, 2_000), st.integers(0, 100)), max_size=60))
def test_every_timer_expires_once(steps: list[tuple[int, int]]) -> None:
    wheel: TimingWheel[int] = TimingWheel(0)
    now_ms, seen = 0, []
    for name, (distance, step) in enumerate(steps):
        wheel.add(now_ms + distance, name)
        now_ms += step
        seen += [timer.payload for timer in wheel.advance(now_ms)]
    seen += [timer.payload for timer in wheel.advance(now_ms + 2_000)]
    assert sorted(seen) == list(range(len(steps)))
    assert len(wheel) == 0
