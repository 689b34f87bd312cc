"""Expiration buckets, one rule after the other, then against a twin that scans."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from session.buckets import ExpirationBuckets


@pytest.mark.parametrize(("time", "rounded"), [(0, 10), (1, 10), (9, 10), (10, 20), (11, 20), (-1, 0), (-10, 0)])
def test_rounding_up_is_strict(time, rounded):
    assert ExpirationBuckets(10, 0).round_up(time) == rounded


@pytest.mark.parametrize("start", [0, 3, 9])
@pytest.mark.parametrize("timeout_ms", [0, 1, 9, 10, 25])
def test_an_id_is_due_later_than_its_timeout_and_at_most_an_interval_later(start, timeout_ms):
    buckets = ExpirationBuckets(10, start)
    buckets.touch(1, start, timeout_ms)
    due = next(now for now in range(start, 100) if buckets.expire(now, 100))
    assert timeout_ms < due - start <= timeout_ms + 10
    assert 1 not in buckets


def test_a_touch_moves_an_id_and_a_removal_forgets_it():
    buckets = ExpirationBuckets(10, 0)
    buckets.touch(1, 0, 5)
    buckets.touch(2, 0, 5)
    assert buckets.bucket_count == 1
    buckets.touch(1, 8, 5)
    assert [*buckets.sets()] == [(10, [2]), (20, [1])]
    buckets.remove(2)
    buckets.remove(2)
    assert [*buckets.sets()] == [(20, [1])]
    assert buckets.expire(10, 100) == []
    assert buckets.expire(20, 100) == [1]
    assert len(buckets) == buckets.bucket_count == 0


def test_a_shorter_timeout_moves_an_id_forward():
    buckets = ExpirationBuckets(10, 0)
    buckets.touch(1, 0, 50)
    buckets.touch(1, 0, 5)
    assert buckets.expire(10, 100) == [1]


def test_ids_of_one_bucket_come_out_in_the_order_of_their_touches():
    buckets = ExpirationBuckets(10, 0)
    for id_ in (3, 1, 2):
        buckets.touch(id_, 0, 5)
    buckets.touch(3, 1, 20)
    buckets.touch(3, 1, 5)
    assert buckets.expire(10, 100) == [1, 2, 3]


def test_after_a_stall_one_bucket_a_call_is_due():
    buckets = ExpirationBuckets(10, 0)
    for id_ in range(3):
        buckets.touch(id_, 0, 10 * id_)
    assert [buckets.expire(1000, 100) for _ in range(4)] == [[0], [1], [2], []]


def test_time_does_not_go_backwards():
    buckets = ExpirationBuckets(10, 0)
    buckets.expire(10, 100)
    with pytest.raises(AssertionError, match="time went backwards"):
        buckets.touch(1, 5, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("touch"), st.integers(0, 5), st.integers(0, 60)),
        st.tuples(st.just("remove"), st.integers(0, 5), st.just(0)),
        st.tuples(st.just("wait"), st.integers(0, 35), st.just(0)),
    ),
    max_size=50,
)


@settings(max_examples=300)
@given(st.integers(1, 17), st.integers(0, 100), STEPS)
def test_any_sequence_agrees_with_a_scan(interval_ms, now, steps):
    buckets = ExpirationBuckets(interval_ms, now)
    due_of, pointer = {}, (now // interval_ms + 1) * interval_ms
    for kind, number, timeout_ms in steps:
        if kind == "touch":
            buckets.touch(number, now, timeout_ms)
            due_of[number] = ((now + timeout_ms) // interval_ms + 1) * interval_ms
        elif kind == "remove":
            buckets.remove(number)
            due_of.pop(number, None)
        else:
            now += number
            while pointer <= now:
                due = {id_ for id_, moment in due_of.items() if moment == pointer}
                assert set(buckets.expire(now, 100)) == due
                due_of = {id_: moment for id_, moment in due_of.items() if id_ not in due}
                pointer += interval_ms
            assert buckets.expire(now, 100) == []
        assert {id_ for id_ in range(6) if id_ in buckets} == set(due_of)
        assert buckets.bucket_count == len(set(due_of.values()))


def test_so_many_of_a_bucket_are_due_a_call_and_who_is_touched_in_between_is_not():
    buckets = ExpirationBuckets(10, 0)
    for id_ in range(5):
        buckets.touch(id_, 0, 5)
    assert buckets.expire(10, 2) == [0, 1]
    assert buckets.next_due == 10, "there is more at once"
    buckets.touch(3, 10, 5)
    assert buckets.expire(10, 2) == [2, 4]
    assert buckets.next_due == 20
    assert buckets.expire(10, 2) == []
    assert buckets.expire(20, 2) == [3]
