"""Reads that wait for a higher LAC (wire facts 1.6, case 11)."""

from __future__ import annotations

import pytest

from tests.ledger.bookie.kit import DIGEST, KEY, SMALL, Bench, add, envelope_of
from zab.ledger.bookie.events import ConnectionClosed
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import ReadEntry, WriteLac
from zab.ledger.wire.status import Status


def poll(previous: int | None, wait_ms: int | None = 1000, entry: int = NONE, *, piggyback: bool = True) -> ReadEntry:
    return ReadEntry(1, entry, previous_lac=previous, wait_ms=wait_ms, wants_piggyback=piggyback)


@pytest.fixture
def bench() -> Bench:
    """Ledger 1 has 0 and 1, and its LAC is 0."""
    bench = Bench()
    bench.ask(add(1, 0), add(1, 1))
    bench.store()
    return bench


def test_an_add_wakes_it(bench: Bench) -> None:
    (number,) = bench.ask(poll(0))
    assert number not in bench.answers
    bench.ask(add(1, 2))
    answer = bench.answers[number]
    assert (answer.status, answer.entry, answer.envelope, answer.max_lac) == (Status.OK, 1, envelope_of(1, 1), 1)
    assert answer.lac_time_ms == bench.now_ms + 10**12


def test_an_explicit_lac_wakes_it(bench: Bench) -> None:
    (number,) = bench.ask(poll(0))
    bench.ask(WriteLac(1, 1, KEY, DIGEST.pack_lac(1, 1)))
    assert bench.answers[number].envelope == envelope_of(1, 1)


def test_an_add_that_does_not_come_in_order_wakes_it(bench: Bench) -> None:
    (number,) = bench.ask(poll(0))
    bench.ask(add(1, 1, lac=NONE))
    assert number not in bench.answers, "the LAC has not risen"
    bench.ask(add(1, 5), add(1, 4))
    assert bench.answers[number].max_lac == 4


def test_a_fence_wakes_it(bench: Bench) -> None:
    (number,) = bench.ask(poll(0))
    bench.ask(ReadEntry(1, NONE, KEY, is_fencing=True))
    answer = bench.answers[number]
    assert (answer.status, answer.entry, answer.envelope, answer.max_lac) == (Status.OK, NONE, b"", 0)


def test_its_time_is_over(bench: Bench) -> None:
    (number,) = bench.ask(poll(0, 700))
    assert bench.bookie.deadline_ms == bench.now_ms + 700
    bench.pass_ms(699)
    assert number not in bench.answers
    bench.pass_ms(1)
    answer = bench.answers[number]
    assert (answer.status, answer.entry, answer.envelope, answer.max_lac) == (Status.OK, NONE, b"", 0)


def test_it_waits_no_longer_than_allowed(bench: Bench) -> None:
    (number,) = bench.ask(poll(0, 1 << 40))
    bench.pass_ms(SMALL.watch_ms_max)
    assert number in bench.answers
    assert bench.statuses(bench.ask(poll(0, -5))) == ["OK"]


def test_a_higher_lac_is_answered_at_once(bench: Bench) -> None:
    answer = bench.answer(poll(NONE))
    assert (answer.entry, answer.envelope, answer.max_lac, answer.lac_time_ms) == (0, envelope_of(1, 0), 0, None)


def test_the_entry_after_the_known_lac_need_not_be_here(bench: Bench) -> None:
    bench.answer(add(1, 9))
    answer = bench.answer(poll(3))
    assert (answer.status, answer.entry, answer.envelope, answer.max_lac) == (Status.OK, NONE, b"", 8)


def test_without_a_wait_it_is_answered_at_once(bench: Bench) -> None:
    assert bench.answer(poll(0, None)).max_lac == 0


def test_without_a_piggyback_it_is_a_plain_read_after_the_wait(bench: Bench) -> None:
    (number,) = bench.ask(poll(0, entry=1, piggyback=False))
    assert number not in bench.answers
    bench.ask(add(1, 2))
    answer = bench.answers[number]
    assert (answer.entry, answer.envelope) == (1, envelope_of(1, 1))


def test_polls_that_are_none(bench: Bench) -> None:
    assert bench.answer(poll(None)).status is Status.BAD_REQUEST
    assert bench.answer(poll(0, entry=3)).status is Status.BAD_REQUEST
    assert bench.answer(poll(-2)).status is Status.BAD_REQUEST
    assert bench.answer(ReadEntry(9, NONE, previous_lac=0, wait_ms=10)).status is Status.NO_LEDGER


def test_so_many_a_connection(bench: Bench) -> None:
    numbers = bench.ask(*(poll(0) for _ in range(4)))
    assert bench.statuses(numbers) == [None, None, None, "TOO_MANY_REQUESTS"]
    other = bench.ask(poll(0), connection="d")
    assert bench.statuses(other) == [None]
    bench.pass_ms(1000)
    assert bench.statuses(numbers + other) == ["OK", "OK", "OK", "TOO_MANY_REQUESTS", "OK"]
    assert bench.statuses(bench.ask(*(poll(0) for _ in range(3)))) == [None] * 3, "they still count"


def test_those_of_a_closed_connection_are_forgotten(bench: Bench) -> None:
    gone, kept = bench.ask(poll(0))[0], bench.ask(poll(0), connection="d")[0]
    bench.step(ConnectionClosed("c"))
    bench.ask(add(1, 2))
    assert gone not in bench.answers
    assert kept in bench.answers
    bench.pass_ms(1000)
    assert gone not in bench.answers
