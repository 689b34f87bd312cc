"""Fences, and answers that say that something is not here."""

from __future__ import annotations

from tests.ledger.bookie.kit import KEY, Bench, add, envelope_of
from zab.ledger.bookie.events import LostEntries
from zab.ledger.entries.ids import NONE
from zab.ledger.wire.messages import ListEntries, ReadBatch, ReadEntry, ReadLac
from zab.ledger.wire.status import Status


def fence(ledger: int, entry: int = NONE) -> ReadEntry:
    return ReadEntry(ledger, entry, KEY, is_fencing=True)


def test_no_answer_to_a_fencing_read_before_its_fence_is_durable() -> None:
    """G8, S5 (defect in BookKeeper: a negative answer leaves at once; #2614): a bookie that has said "no" and loses
    power would be back unfenced, and take the entry."""
    for known in (False, True):
        bench = Bench()
        if known:
            bench.answer(add(1, 0))
        numbers = bench.ask(fence(1, 7), fence(1), ReadBatch(1, 7, 1, 1000, KEY, is_fencing=True))
        assert bench.statuses(numbers) == [None] * 3
        bench.crash(seed=1)
        assert bench.answer(add(1, 7)).status is Status.OK, "nothing was said, nothing is promised"


def test_a_negative_answer_to_a_fencing_read_holds_for_ever() -> None:
    """G8, S1, S5."""
    bench = Bench()
    assert bench.answer(fence(1, 7)).status is Status.NO_ENTRY
    assert bench.answer(add(1, 7)).status is Status.FENCED
    for seed in range(3):
        bench.crash(seed)
        assert bench.answer(add(1, 7)).status is Status.FENCED
        bench.flush()
    assert bench.answer(fence(1, 7)).status is Status.NO_ENTRY


def test_a_fence_that_is_durable_is_not_journaled_again() -> None:
    bench = Bench()
    bench.answer(fence(1))
    bench.ask(add(2, 0))
    assert bench.statuses(bench.ask(fence(1))) == ["NO_ENTRY"], "it waits for an append that is not its own"
    bench.restart()
    assert bench.statuses(bench.ask(fence(1))) == ["NO_ENTRY"]
    assert not bench.journal


def test_a_fence_under_way_is_joined() -> None:
    bench = Bench()
    numbers = bench.ask(fence(1)) + bench.ask(fence(1, 3))
    assert len(bench.journal) == 1
    assert bench.statuses(numbers) == [None, None]
    bench.store()
    assert bench.statuses(numbers) == ["NO_ENTRY", "NO_ENTRY"]


def test_what_is_added_before_the_fence_of_the_same_turn_is_taken_and_what_comes_after_it_is_not() -> None:
    bench = Bench()
    numbers = bench.ask(add(1, 0), fence(1, 0), add(1, 1), fence(1, 1))
    bench.settle()
    assert bench.statuses(numbers) == ["OK", "OK", "FENCED", "NO_ENTRY"]


def test_fencing_a_ledger_that_was_never_seen() -> None:
    """Wire facts 1.6, case 6: it is made, with this key."""
    bench = Bench()
    assert bench.answer(ReadEntry(1, NONE)).status is Status.NO_LEDGER
    answer = bench.answer(fence(1))
    assert (answer.status, answer.entry) == (Status.NO_ENTRY, NONE)
    assert bench.answer(ReadEntry(1, NONE)).status is Status.NO_ENTRY
    bench.crash()
    assert bench.answer(add(1, 0)).status is Status.FENCED


def test_a_fencing_read_that_finds_has_no_max_lac() -> None:
    bench = Bench()
    bench.answer(add(1, 0))
    answer = bench.answer(fence(1, 0))
    assert (answer.envelope, answer.max_lac) == (envelope_of(1, 0), None)


def test_ledgers_that_may_have_lost_entries() -> None:
    """S4, S17 (#2612): what is here is served, that something is not here proves nothing."""
    bench = Bench()
    bench.answer(add(1, 0))
    bench.step(LostEntries({1: KEY, 2: KEY}))
    for _ in range(2):
        assert bench.answer(ReadEntry(1, 0)).status is Status.OK
        assert bench.answer(ReadEntry(1, 1)).status is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(fence(1, 1)).status is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(ReadBatch(1, 1, 1, 1000)).status is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(ReadEntry(2, NONE)).status is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(ReadLac(1)).status is Status.OK, "it carries an entry"
        assert bench.answer(ReadLac(2)).status is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(ListEntries(1)).status is Status.UNKNOWN_LEDGER_STATE
        assert bench.answer(add(1, 1)).status is Status.FENCED
        bench.store()
        bench.crash()
        bench.flush()
    bench.crash()
    assert bench.answer(ReadEntry(2, 0)).status is Status.UNKNOWN_LEDGER_STATE, "the state file does not say it"
