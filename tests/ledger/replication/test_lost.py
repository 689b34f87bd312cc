"""Which bookies count as lost, and when all ledgers are searched for them."""

from __future__ import annotations

from zab.ledger.entries.ids import BookieId
from zab.ledger.replication.events import WorkerSettings
from zab.ledger.replication.failures import Failures
from zab.ledger.replication.lost import LostBookies

B1, B2, B3 = (BookieId(f"b{number}") for number in range(1, 4))
ALL = frozenset({B1, B2, B3})


def test_a_bookie_that_was_registered_is_searched_for_after_the_delay() -> None:
    lost = LostBookies()
    lost.on_registered(ALL, 0)
    assert lost.due_ms(1_000) is None
    lost.on_registered(ALL - {B1}, 50)
    assert lost.due_ms(1_000) == 1_050
    assert lost.due(1_049, 1_000) == frozenset()
    assert lost.due(1_050, 1_000) == {B1}
    lost.searched({B1}, {B1})
    assert lost.due_ms(1_000) is None
    assert lost.away == {B1}, "it is named still"


def test_a_bookie_that_comes_back_is_forgotten_and_its_time_begins_anew() -> None:
    lost = LostBookies()
    lost.on_registered(ALL, 0)
    lost.on_registered(ALL - {B1}, 50)
    lost.searched({B1}, {B1})
    lost.on_registered(ALL, 60)
    assert lost.away == frozenset()
    lost.on_registered(ALL - {B1}, 70)
    assert lost.due_ms(1_000) == 1_070


def test_two_bookies_are_no_restart() -> None:
    lost = LostBookies()
    lost.on_registered(ALL, 0)
    lost.on_registered(frozenset({B3}), 50)
    assert lost.due_ms(1_000) == 50
    assert lost.due(50, 1_000) == {B1, B2}


def test_one_after_the_other_is_a_restart_each() -> None:
    """The first one was searched for, and is away still."""
    lost = LostBookies()
    lost.on_registered(ALL, 0)
    lost.on_registered(ALL - {B1}, 50)
    lost.searched({B1}, {B1})
    lost.on_registered(frozenset({B3}), 90)
    assert lost.due_ms(1_000) == 1_090


def test_who_was_found_in_the_middle_of_a_search_is_searched_for_again() -> None:
    lost = LostBookies()
    lost.on_away({B1}, 10)
    lost.on_away({B2}, 20)
    lost.searched({B1, B2}, {B1})
    assert lost.due_ms(0) == 20


def test_who_is_not_named_after_a_search_is_forgotten() -> None:
    lost = LostBookies()
    lost.on_away({B1}, 10)
    lost.searched({B1}, {B1})
    lost.searched(set(), {B1})
    assert lost.away == frozenset()


def test_a_ledger_that_could_not_be_repaired_rests_longer_each_time() -> None:
    failures = Failures(WorkerSettings(retry_ms=100, retry_max_ms=300, failures_max=2))
    assert [failures.failed(7, 0) for _ in range(4)] == [100, 200, 300, 300]
    assert 7 in failures.skipped(299, ())
    assert 7 not in failures.skipped(300, ())
    failures.forget(7)
    assert failures.failed(7, 0) == 100
    for ledger in (8, 9):
        failures.failed(ledger, 0)
    assert 7 not in failures.skipped(0, ()), "only so many are remembered"


def test_a_ledger_that_could_not_be_repaired_is_put_off_until_it_is() -> None:
    failures = Failures(WorkerSettings(retry_ms=100))
    assert 7 not in failures.put_off
    failures.failed(7, 0)
    assert 7 not in failures.skipped(100, ()), "it may be tried"
    assert 7 in failures.put_off, "but others first"
    failures.forget(7)
    assert 7 not in failures.put_off


def test_a_ledger_with_a_lost_entry_rests_until_one_of_its_bookies_is_back() -> None:
    failures = Failures(WorkerSettings())
    failures.lost(7, frozenset({B1, B2}))
    failures.on_bookies({B3})
    assert 7 in failures.skipped(1 << 60, ())
    assert failures.losses == 1
    failures.on_bookies({B2, B3})
    assert 7 not in failures.skipped(0, ())


def test_what_waits_for_its_writer_is_not_taken_again() -> None:
    assert 7 in Failures(WorkerSettings()).skipped(0, {7})
