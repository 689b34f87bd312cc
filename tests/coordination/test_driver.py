"""The driver: one handler at a time; what is lost, repeated and dropped."""

import pytest

from zab.coordination.driver import Driver, Event, Results
from zab.coordination.operations import CoordinationError, Create, Delete, Exists, Get, Result, Stat, ZooKeeperError
from zab.coordination.steps import BATCH_MAX, Pause, create_one, delete_one, look, read

LOST = Result(ZooKeeperError.CONNECTIONLOSS)


class Rig:
    def __init__(self):
        self.driver = Driver()
        self.driver.on_connected()
        self.log = []

    def handler(self, name, *asks):
        def begin():
            for each in asks:
                self.log.append((name, (yield each)))
            self.log.append((name, "end"))

        return Event(name, begin)

    def advance(self, now=0):
        return list(self.driver.advance(now))

    def answer(self, *results):
        (submit,) = self.advance()
        self.driver.on_results(Results(submit.batch, tuple(results)))
        return submit.operations


def test_one_handler_runs_to_its_end_before_the_next_begins():
    rig = Rig()
    rig.driver.offer(rig.handler("a", (Get("/1"),), (Get("/2"), Get("/3"))))
    rig.driver.offer(rig.handler("b", (Get("/4"),)))
    assert rig.answer(Result(data=b"1")) == (Get("/1"),)
    assert rig.answer(Result(data=b"2"), Result(data=b"3")) == (Get("/2"), Get("/3"))
    assert rig.answer(Result()) == (Get("/4"),)
    assert rig.advance() == []
    assert [name for name, _ in rig.log] == ["a", "a", "a", "b", "b"]
    assert rig.driver.is_idle


def test_an_event_that_waits_already_is_not_queued_twice():
    rig = Rig()
    rig.driver.offer(rig.handler("a", (Get("/1"),)))
    rig.advance()
    for _ in range(3):
        # The one that runs may have read before the change.
        rig.driver.offer(rig.handler("a", (Get("/2"),)))
    rig.driver.on_results(Results(1, (Result(),)))
    assert rig.answer(Result()) == (Get("/2"),)
    assert rig.advance() == []
    assert rig.log.count(("a", "end")) == 2


def test_answers_to_other_batches_are_ignored():
    rig = Rig()
    rig.driver.offer(rig.handler("a", (Get("/1"),)))
    (submit,) = rig.advance()
    rig.driver.on_results(Results(submit.batch + 1, (Result(data=b"wrong"),)))
    assert rig.advance() == []
    assert rig.log == []


def test_nothing_is_sent_while_the_connection_is_lost():
    rig = Rig()
    rig.driver.offer(rig.handler("a", (Get("/1"),), (Get("/2"),)))
    (submit,) = rig.advance()
    rig.driver.on_results(Results(submit.batch, (LOST,)))
    rig.driver.on_suspended()
    assert rig.advance() == []
    rig.driver.on_connected()
    assert [each.operations for each in rig.advance()] == [(Get("/2"),)]


def test_a_session_that_is_over_ends_the_handler_and_the_queue():
    rig = Rig()
    rig.driver.offer(rig.handler("a", (Get("/1"),)))
    rig.driver.offer(rig.handler("b", (Get("/2"),)))
    (submit,) = rig.advance()
    rig.driver.on_results(Results(submit.batch, (Result(ZooKeeperError.SESSIONEXPIRED),)))
    assert rig.advance() == []
    assert rig.log == []
    assert rig.driver.is_idle
    rig.driver.offer(rig.handler("c", (Get("/3"),)))
    assert rig.advance() == [], "not before the next session"


def test_a_handler_pauses():
    rig = Rig()
    rig.driver.offer(rig.handler("a", Pause(100), (Get("/1"),)))
    assert rig.advance(1000) == []
    assert rig.driver.deadline_ms == 1100
    assert rig.advance(1099) == []
    assert [each.operations for each in rig.advance(1100)] == [(Get("/1"),)]


def test_what_a_handler_raises_ends_it_alone():
    rig = Rig()

    def failing():
        yield (Get("/1"),)
        raise ValueError("no")

    rig.driver.offer(Event("a", failing))
    rig.driver.offer(rig.handler("b", (Get("/2"),)))
    rig.answer(Result())
    with pytest.raises(ValueError, match="no"):
        rig.advance()
    assert rig.answer(Result()) == (Get("/2"),)


def run(steps, *answers):
    """What the steps ask, and what they return."""
    asked, sent = [], iter(answers)
    try:
        asked.append(next(steps))
        while True:
            asked.append(steps.send(next(sent)))
    except StopIteration as end:
        return asked, end.value


def test_reads_whose_answer_is_lost_are_repeated_alone():
    asked, results = run(
        read([Get("/1"), Get("/2"), Get("/3")]),
        (Result(data=b"1"), LOST, LOST),
        (LOST, Result(ZooKeeperError.NONODE)),
        (Result(data=b"2"),),
    )
    assert asked == [(Get("/1"), Get("/2"), Get("/3")), (Get("/2"), Get("/3")), (Get("/2"),)]
    assert [each.data for each in results] == [b"1", b"2", b""]
    assert results[2].is_missing


@pytest.mark.parametrize(
    ("have", "operation", "already"),
    [
        ((create_one, "/a", b"1"), Create("/a", b"1"), ZooKeeperError.NODEEXISTS),
        ((delete_one, "/a"), Delete("/a"), ZooKeeperError.NONODE),
    ],
    ids=["create", "delete"],
)
@pytest.mark.parametrize(
    ("answers", "was_done_here"),
    [("ok", True), ("already", False), ("lost ok", True), ("lost already", True)],
)
def test_one_znode_is_had_or_not_whichever_answer_is_lost(have, operation, already, answers, was_done_here):
    results = {"ok": Result(), "already": Result(already), "lost": LOST}
    asked, found = run(have[0](*have[1:]), *((results[each],) for each in answers.split()))
    assert asked == [(operation,)] * len(answers.split())
    assert found is was_done_here


@pytest.mark.parametrize("have", [create_one, delete_one])
def test_what_the_service_refuses_is_raised(have):
    with pytest.raises(CoordinationError):
        run(have("/a"), (Result(ZooKeeperError.NOAUTH),))


def test_nothing_is_asked_for_no_operations():
    assert run(read([])) == ([], ())


def test_many_operations_are_sent_in_batches():
    asked, results = run(
        read(Get(f"/{each}") for each in range(BATCH_MAX + 1)), (Result(),) * BATCH_MAX, (Result(data=b"last"),)
    )
    assert [len(each) for each in asked] == [BATCH_MAX, 1]
    assert results[-1].data == b"last"


def test_a_znode_that_comes_between_two_reads_is_seen():
    """A watch on its data is set only where it exists: the watch of `exists` would not fire for what is there."""
    missing, there = Result(ZooKeeperError.NONODE), Result(data=b"1", stat=Stat(version=3))
    asked, found = run(look("/a"), (missing,), (Result(),), (there,))
    assert asked == [(Get("/a", watch=True),), (Exists("/a", watch=True),), (Get("/a", watch=True),)]
    assert found == there
    assert run(look("/a"), (missing,), (missing,))[1] is None
