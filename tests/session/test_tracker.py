"""The leader's tracker and the learner's table of touches."""

import gc
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session.tracker import Admission, SessionTracker, TouchTable

TICK = 100


def expire_at(tracker, start, until):
    """(now, ids) of what expires with a turn every 10 ms."""
    return [(now, due) for now in range(start, until, 10) if (due := tracker.expired(now))]


@pytest.mark.parametrize("start", [0, 3_600_000])
def test_a_session_expires_after_its_timeout_and_within_an_interval(start):
    tracker = SessionTracker(TICK, start + 50)
    tracker.track(1, 400, start + 50)
    assert expire_at(tracker, start + 60, start + 2000) == [(start + 500, [1])]
    assert not tracker.is_alive(1)
    assert 1 in tracker


def test_a_touch_postpones_the_end_by_the_sessions_own_timeout_or_the_connections():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0)
    tracker.track(2, 400, 0)
    for now in range(10, 400, 10):
        assert tracker.expired(now) == []
    assert tracker.touch(1, None, 390)
    assert tracker.touch(2, 1000, 390)
    assert expire_at(tracker, 400, 3000) == [(800, [1]), (1400, [2])]


def python_calls(work):
    """How many functions of Python are called: exact, where time is not."""
    calls = []
    gc.disable()  # What is collected may be of another test, and call its finalizers.
    sys.setprofile(lambda _frame, event, _arg: calls.append(event == "call"))
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return sum(calls)


def test_a_new_leader_takes_up_any_number_of_sessions_with_the_same_calls():
    few, many = ({session: 4_000 + 1_000 * (session % 3) for session in range(1, count)} for count in (100, 5_000))
    tracker = SessionTracker(TICK, 0)
    assert python_calls(lambda: tracker.restart(few, 0)) == python_calls(lambda: tracker.restart(many, 0))
    assert {due: len(ids) for due, ids in tracker.sets()} == {4_100: 1_666, 5_100: 1_667, 6_100: 1_666}
    assert tracker.touch(1, None, 50)
    assert tracker.admit(2, "a") is Admission.ADMITTED
    assert tracker.admit(2, "b") is Admission.MOVED


def test_a_new_session_has_its_timeout_from_now_on():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 50, 90)
    assert expire_at(tracker, 100, 1000) == [(200, [1])]


def test_a_session_whose_end_is_committed_is_not_due_any_more():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 50, 0)
    tracker.remove(1)
    assert expire_at(tracker, 10, 1000) == []


def test_an_expired_session_comes_out_once_and_refuses_touches():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 50, 0)
    assert expire_at(tracker, 10, 1000) == [(100, [1])]
    assert not tracker.touch(1, None, 1000)
    assert not tracker.close(1)
    tracker.remove(1)
    assert 1 not in tracker
    tracker.track(1, 50, 1000)
    assert tracker.is_alive(1)


def test_a_closing_session_refuses_touches_and_does_not_expire():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 50, 0)
    assert tracker.close(1)
    assert not tracker.close(1)
    assert not tracker.touch(1, None, 0)
    assert expire_at(tracker, 10, 1000) == []
    tracker.remove(1)
    tracker.remove(1)
    assert len(tracker) == 0


def test_an_unknown_session_is_refused():
    tracker = SessionTracker(TICK, 0)
    assert not tracker.touch(1, None, 0)
    assert not tracker.close(1)
    assert not tracker.set_owner(1, "me")
    assert tracker.owner(1) is None
    assert tracker.admit(1, "me") is Admission.EXPIRED


def test_a_session_is_tracked_once():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 50, 0)
    with pytest.raises(AssertionError, match="tracked already"):
        tracker.track(1, 50, 0)


def test_a_new_leader_gives_every_session_its_full_timeout_and_no_owner():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0, "old")
    tracker.track(3, 400, 0)
    tracker.close(3)
    tracker.track(4, 400, 0)
    tracker.restart({1: 400, 2: 900, 3: 400}, 100_000)
    assert tracker.owner(1) is None
    assert 4 not in tracker, "it is over by what is committed"
    assert expire_at(tracker, 100_010, 102_000) == [(100_500, [1, 3]), (101_000, [2])]


# G1: what the process did not see is not counted.


def test_g1_a_pause_is_counted_as_one_interval():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0)
    assert tracker.expired(3_600_000) == []
    assert expire_at(tracker, 3_600_010, 3_602_000) == [(3_600_400, [1])]


def test_g1_touches_waiting_behind_a_pause_are_in_time():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 150, 0)
    tracker.track(2, 150, 0)
    assert tracker.touch(1, None, 3_600_000)
    assert tracker.expired(3_600_000) == []
    assert tracker.touch(2, None, 3_600_050)
    assert tracker.expired(3_600_100) == []


def test_g1_a_touch_after_a_pause_gives_the_full_timeout():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0)
    tracker.touch(1, None, 10_000)
    (expiry,) = expire_at(tracker, 10_000, 12_000)
    assert 10_400 < expiry[0] <= 10_500


def test_g1_several_calls_of_one_turn_count_once():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 250, 0)
    for _ in range(50):
        assert tracker.expired(10_000) == []


def test_the_next_deadline_is_never_further_than_an_interval_and_enough_to_expire():
    tracker = SessionTracker(TICK, 7)
    tracker.track(1, 400, 7)
    now, turns_count = 7, 0
    while not tracker.expired(now):
        assert now < tracker.next_deadline <= now + TICK
        now = tracker.next_deadline
        turns_count += 1
    assert now == 500
    assert turns_count == 5


def test_sets_are_named_by_when_they_are_due():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0)
    tracker.track(2, 450, 0)
    tracker.track(3, 50, 0)
    assert list(tracker.sets()) == [(100, [3]), (500, [1, 2])]
    tracker.expired(1000)
    assert list(tracker.sets()) == [(1400, [1, 2])]


def test_time_does_not_go_backwards():
    tracker = SessionTracker(TICK, 10)
    with pytest.raises(AssertionError, match="time went backwards"):
        tracker.expired(9)


# Owners.


def test_a_session_without_an_owner_takes_the_first_that_asks():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0)
    assert tracker.admit(1, "left") is Admission.ADMITTED
    assert tracker.owner(1) == "left"
    assert tracker.admit(1, "right") is Admission.MOVED
    assert tracker.admit(1, "left") is Admission.ADMITTED


def test_attaching_elsewhere_moves_the_session():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0, "left")
    assert tracker.set_owner(1, "right")
    assert tracker.admit(1, "left") is Admission.MOVED
    assert tracker.admit(1, "right") is Admission.ADMITTED


def test_sessions_of_a_link_that_is_gone_have_no_owner_and_those_of_others_keep_theirs():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0, "left")
    tracker.track(2, 400, 0, "right")
    tracker.disown("who had none")
    assert (tracker.owner(1), tracker.owner(2)) == ("left", "right")
    tracker.disown("left")
    assert (tracker.owner(1), tracker.owner(2)) == (None, "right")
    assert tracker.admit(1, "right") is Admission.ADMITTED
    assert tracker.admit(2, "left") is Admission.MOVED


def test_a_closing_session_admits_nobody_and_moves_nowhere():
    tracker = SessionTracker(TICK, 0)
    tracker.track(1, 400, 0, "left")
    tracker.close(1)
    assert tracker.admit(1, "left") is Admission.EXPIRED
    assert not tracker.set_owner(1, "right")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["track", "touch", "close", "remove"]), st.integers(0, 4), st.integers(0, 500)),
        st.tuples(st.just("wait"), st.integers(0, 400), st.just(0)),
    ),
    max_size=60,
)


@settings(max_examples=300)
@given(STEPS)
def test_any_sequence_agrees_with_a_scan_of_a_slow_clock(steps):
    tracker = SessionTracker(TICK, 0)
    now, clock, pointer = 0, 0, TICK
    timeouts, due_of, touched_until = {}, {}, {}
    for kind, number, timeout_ms in steps:
        if kind == "wait":
            now += number
            clock += min(number, TICK)
            due = {id_ for id_, moment in due_of.items() if clock >= pointer == moment}
            assert set(tracker.expired(now)) == due
            pointer += TICK if clock >= pointer else 0
            due_of = {id_: moment for id_, moment in due_of.items() if id_ not in due}
        elif kind == "track" and number not in timeouts:
            tracker.track(number, timeout_ms, now)
            timeouts[number] = timeout_ms
            touched_until.pop(number, None)
            due_of[number] = ((clock + timeout_ms) // TICK + 1) * TICK
        elif kind == "touch":
            until = tracker.touch(number, None, now)
            assert (until > now) if number in due_of else (until == 0)
            if number in due_of:
                before = due_of[number]
                due_of[number] = ((clock + timeouts[number]) // TICK + 1) * TICK
                if now < touched_until.get(number, 0):
                    assert due_of[number] == before
            touched_until[number] = until
        elif kind == "close":
            assert tracker.close(number) == (due_of.pop(number, None) is not None)
        elif kind == "remove":
            tracker.remove(number)
            timeouts.pop(number, None)
            due_of.pop(number, None)
        assert {id_ for id_ in range(5) if tracker.is_alive(id_)} == set(due_of)
        assert len(tracker) == len(timeouts)


def test_the_touch_table_keeps_the_last_timeout_until_it_is_drained():
    table = TouchTable()
    table.touch(1, 400)
    table.touch(2, 500)
    table.touch(1, 600)
    assert len(table) == 2
    table.touch(3, 700)
    assert table.drain(2) == {1: 600, 2: 500}
    assert table.drain(2) == {3: 700}
    assert table.drain(2) == {}
