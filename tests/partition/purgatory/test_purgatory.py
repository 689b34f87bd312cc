"""Delayed operations: completed exactly once, by whatever comes first, and they leave nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Hashable

import pytest
from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from zab.partition.purgatory.purgatory import Purgatory, Settled, Waiting

NOW_MS = 50_000


@define(eq=False)
class Counting:
    """Done when a counter of its own has reached zero; counts how often it was tried."""

    left: int = 1
    tried: int = 0
    on_try: Callable[[], object] = field(default=lambda: None)

    def try_complete(self) -> bool:
        self.tried += 1
        self.on_try()
        return self.left <= 0


def waiting_on(
    purgatory: Purgatory[Counting], *keys: Hashable, left: int = 1, deadline_ms: int = NOW_MS + 500
) -> Counting:
    operation = Counting(left)
    assert purgatory.watch(operation, keys, deadline_ms) is not None
    return operation


@pytest.fixture
def purgatory() -> Purgatory[Counting]:
    return Purgatory(NOW_MS)


def ended(settled: list[Settled[Counting]]) -> list[tuple[Counting, bool]]:
    return [(each.operation, each.has_expired) for each in settled]


def test_what_is_complete_does_not_wait(purgatory: Purgatory[Counting]) -> None:
    operation = Counting(left=0)
    assert purgatory.watch(operation, ["a"], NOW_MS + 500) is None
    assert (operation.tried, len(purgatory), purgatory.watched_count) == (1, 0, 0)
    assert purgatory.next_deadline() is None


def test_a_touched_key_completes_what_waits_on_it(purgatory: Purgatory[Counting]) -> None:
    first, other, second = (waiting_on(purgatory, key) for key in "aba")
    for operation in (first, other, second):
        operation.left = 0
    purgatory.touch("a")
    assert purgatory.has_touched
    assert ended(purgatory.settle(NOW_MS)) == [(first, False), (second, False)]
    assert not purgatory.has_touched
    assert (len(purgatory), purgatory.watched_count) == (1, 1)
    assert other.tried == 1, "nobody touched its key"


def test_what_is_not_complete_goes_on_waiting(purgatory: Purgatory[Counting]) -> None:
    operation = waiting_on(purgatory, "a", left=2)
    for _ in range(2):
        operation.left -= 1
        purgatory.touch("a")
        settled = purgatory.settle(NOW_MS)
    assert ended(settled) == [(operation, False)]
    assert operation.tried == 3


def test_an_operation_is_tried_once_however_many_of_its_keys_are_touched(purgatory: Purgatory[Counting]) -> None:
    operation = waiting_on(purgatory, *range(100))
    for key in range(100):
        purgatory.touch(key)
        purgatory.touch(key)
    assert purgatory.settle(NOW_MS) == []
    assert operation.tried == 2
    assert purgatory.settle(NOW_MS) == []
    assert operation.tried == 2, "touched once, tried once"


def test_one_key_of_many_completes_it_and_it_leaves_them_all(purgatory: Purgatory[Counting]) -> None:
    operation = waiting_on(purgatory, *range(100), 5, 5)
    operation.left = 0
    purgatory.touch(7)
    assert ended(purgatory.settle(NOW_MS)) == [(operation, False)]
    assert purgatory.watched_count == 0
    purgatory.touch(8)
    assert not purgatory.has_touched
    assert purgatory.settle(NOW_MS + 10_000) == []
    assert operation.tried == 2


def test_time_ends_what_did_not_complete_and_only_that(purgatory: Purgatory[Counting]) -> None:
    late = waiting_on(purgatory, "a", deadline_ms=NOW_MS + 500)
    early = waiting_on(purgatory, "b", deadline_ms=NOW_MS + 20)
    assert purgatory.next_deadline() == NOW_MS + 20
    assert purgatory.settle(NOW_MS + 19) == []
    assert ended(purgatory.settle(NOW_MS + 20)) == [(early, True)]
    purgatory.touch("b")
    assert not purgatory.has_touched
    assert purgatory.settle(NOW_MS + 499) == []
    assert ended(purgatory.settle(NOW_MS + 500)) == [(late, True)]
    assert (early.tried, late.tried) == (1, 1)
    assert (len(purgatory), purgatory.watched_count, purgatory.next_deadline()) == (0, 0, None)


def test_a_condition_that_holds_when_time_is_up_comes_first(purgatory: Purgatory[Counting]) -> None:
    operation = waiting_on(purgatory, "a", "b")
    operation.left = 0
    purgatory.touch("b")
    assert ended(purgatory.settle(NOW_MS + 10_000)) == [(operation, False)]
    assert purgatory.settle(NOW_MS + 20_000) == []


def test_a_condition_that_does_not_hold_when_time_is_up_is_tried_and_expires_once(
    purgatory: Purgatory[Counting],
) -> None:
    operation = waiting_on(purgatory, "a")
    purgatory.touch("a")
    assert ended(purgatory.settle(NOW_MS + 10_000)) == [(operation, True)]
    assert operation.tried == 2
    assert not purgatory.has_touched


def test_a_deadline_that_has_passed_expires_at_once_but_not_inside_watch(purgatory: Purgatory[Counting]) -> None:
    operation = waiting_on(purgatory, "a", deadline_ms=NOW_MS - 1)
    assert purgatory.next_deadline() == NOW_MS
    assert ended(purgatory.settle(NOW_MS)) == [(operation, True)]


def test_an_operation_may_wait_for_time_alone(purgatory: Purgatory[Counting]) -> None:
    operation = waiting_on(purgatory)
    assert (len(purgatory), purgatory.watched_count) == (1, 0)
    assert ended(purgatory.settle(NOW_MS + 500)) == [(operation, True)]


def test_what_is_withdrawn_never_ends(purgatory: Purgatory[Counting]) -> None:
    operation = Counting()
    waiting = purgatory.watch(operation, ["a", "b"], NOW_MS + 500)
    assert waiting is not None
    purgatory.touch("a")
    assert purgatory.withdraw(waiting)
    assert not purgatory.withdraw(waiting)
    operation.left = 0
    assert not purgatory.has_touched
    assert purgatory.settle(NOW_MS + 10_000) == []
    assert (operation.tried, len(purgatory), purgatory.watched_count) == (1, 0, 0)


@pytest.mark.parametrize("has_expired", [False, True])
def test_what_has_ended_is_not_withdrawn(purgatory: Purgatory[Counting], has_expired: bool) -> None:
    operation = Counting()
    waiting = purgatory.watch(operation, ["a"], NOW_MS + 500)
    assert waiting is not None
    if not has_expired:
        operation.left = 0
        purgatory.touch("a")
    assert ended(purgatory.settle(NOW_MS + 500)) == [(operation, has_expired)]
    assert not purgatory.withdraw(waiting)


def test_what_is_touched_while_it_settles_is_tried_by_the_next(purgatory: Purgatory[Counting]) -> None:
    """Completing one operation must not complete another inside of it."""
    second = waiting_on(purgatory, "b")
    second.left = 0
    first = waiting_on(purgatory, "a")
    first.left = 0
    first.on_try = lambda: purgatory.touch("b")
    purgatory.touch("a")
    assert ended(purgatory.settle(NOW_MS)) == [(first, False)]
    assert purgatory.has_touched
    assert ended(purgatory.settle(NOW_MS)) == [(second, False)]
    assert not purgatory.has_touched


@pytest.mark.parametrize("name", ["watch", "settle", "withdraw"])
def test_a_condition_may_not_complete_others(purgatory: Purgatory[Counting], name: str) -> None:
    waiting = purgatory.watch(Counting(), ["b"], NOW_MS + 500)
    assert waiting is not None
    calls = {
        "watch": lambda: purgatory.watch(Counting(), ["b"], NOW_MS),
        "settle": lambda: purgatory.settle(NOW_MS),
        "withdraw": lambda: purgatory.withdraw(waiting),
    }
    operation = waiting_on(purgatory, "a")
    operation.on_try = calls[name]
    purgatory.touch("a")
    with pytest.raises(AssertionError, match="a condition must not"):
        purgatory.settle(NOW_MS)
    operation.on_try = lambda: None
    purgatory.touch("a")
    assert purgatory.settle(NOW_MS) == [], "it is not stuck"


def test_nothing_is_left_of_what_has_ended(purgatory: Purgatory[Counting]) -> None:
    """Ten thousand requests that wait on a key of their own and on one that is never touched."""
    operations: list[weakref.ref[Counting]] = []
    for number in range(10_000):
        operation = waiting_on(purgatory, "quiet", ("own", number), deadline_ms=NOW_MS + number)
        operations.append(weakref.ref(operation))
        operation.left = number % 2
        purgatory.touch(("own", number))
        assert len(purgatory.settle(NOW_MS)) == 1 - number % 2
    del operation
    assert (len(purgatory), purgatory.watched_count) == (5_000, 5_001)
    purgatory.settle(NOW_MS + 10_000)
    assert (len(purgatory), purgatory.watched_count, purgatory.next_deadline()) == (0, 0, None)
    gc.collect()
    assert not any(operation() for operation in operations)


class PurgatoryAndTwin(RuleBasedStateMachine):
    """The twin keeps a list of what waits and looks at all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = NOW_MS
        self.purgatory: Purgatory[Counting] = Purgatory(NOW_MS)
        self.waiting: list[tuple[Counting, frozenset[int], int, Waiting[Counting]]] = []
        self.touched: set[int] = set()
        self.ended: list[Counting] = []

    @rule(keys=st.frozensets(st.integers(0, 5), max_size=4), distance=st.integers(-5, 3_000), left=st.integers(0, 2))
    def watch(self, keys: frozenset[int], distance: int, left: int) -> None:
        operation = Counting(left)
        handle = self.purgatory.watch(operation, keys, self.now_ms + distance)
        assert (handle is None) == (left == 0)
        if handle is not None:
            self.waiting.append((operation, keys, self.now_ms + distance, handle))

    @rule(key=st.integers(0, 5))
    def touch(self, key: int) -> None:
        self.purgatory.touch(key)
        if any(key in keys for _, keys, _, _ in self.waiting):
            self.touched.add(key)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def progress(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.waiting))[0].left -= 1

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.waiting))
        self.waiting.remove(gone)
        assert self.purgatory.withdraw(gone[3])
        self._forget_touches()

    @rule(step=st.integers(0, 1_000))
    def settle(self, step: int) -> None:
        self.now_ms += step
        tried = {id(operation): operation.tried for operation, _, _, _ in self.waiting}
        completed = [each for each in self.waiting if each[1] & self.touched and each[0].left <= 0]
        expired = [each for each in self.waiting if each[2] <= self.now_ms and each not in completed]
        settled = self.purgatory.settle(self.now_ms)
        assert {(id(each.operation), each.has_expired) for each in settled} == {
            *((id(each[0]), False) for each in completed),
            *((id(each[0]), True) for each in expired),
        }
        assert len(settled) == len(completed) + len(expired)
        for operation, keys, _, _ in self.waiting:
            assert operation.tried - tried[id(operation)] == bool(keys & self.touched)
        self.waiting = [each for each in self.waiting if each not in completed and each not in expired]
        self.touched = set()

    def _forget_touches(self) -> None:
        self.touched = {key for key in self.touched if any(key in keys for _, keys, _, _ in self.waiting)}

    @invariant()
    def both_hold_the_same(self) -> None:
        assert len(self.purgatory) == len(self.waiting)
        assert self.purgatory.watched_count == len(frozenset().union(*(keys for _, keys, _, _ in self.waiting)))
        assert self.purgatory.has_touched is bool(self.touched)
        asked = self.purgatory.next_deadline()
        if self.waiting:
            assert asked is not None
            assert asked <= max(self.now_ms, min(deadline for _, _, deadline, _ in self.waiting))
        else:
            assert asked is None


PurgatoryAndTwin.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestPurgatory = pytest.mark.slow(PurgatoryAndTwin.TestCase)
