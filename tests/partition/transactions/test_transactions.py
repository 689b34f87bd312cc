"""From the first partition to the last marker, and the way back from the log."""

from __future__ import annotations

import pytest

from tests.partition.transactions.bench import ID, NONE, P0, P1, WALL, Bench, an_add, an_end, an_init
from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.partition.transactions import adding
from zab.partition.transactions.describing import NAMES
from zab.partition.transactions.ending import RETRY_MS
from zab.partition.transactions.requests import Describe, List
from zab.partition.transactions.results import Descriptions, Listed
from zab.partition.transactions.transaction import TRANSITIONS

COMPLETE = {True: TransactionStatus.COMPLETE_COMMIT, False: TransactionStatus.COMPLETE_ABORT}
PREPARED = {True: TransactionStatus.PREPARE_COMMIT, False: TransactionStatus.PREPARE_ABORT}
BOTH = pytest.mark.parametrize("commits", [True, False])


def status_after_load(bench: Bench) -> TransactionStatus:
    return bench.reloaded(holds_markers=True).state.status


@BOTH
def test_a_transaction_from_its_first_partition_to_its_end(commits: bool) -> None:
    bench = Bench()
    producer = bench.begin()
    assert bench.state.status is TransactionStatus.EMPTY
    assert bench.add(producer, P0) is NONE
    assert (bench.state.status, bench.state.started) == (TransactionStatus.ONGOING, WALL)
    assert bench.add(producer, P1) is NONE
    assert bench.end(producer, commits) is NONE
    (marker,) = bench.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (*producer, 1)
    assert (marker.commits, marker.partitions) == (commits, (P0, P1))
    assert (bench.state.status, bench.state.partitions) == (COMPLETE[commits], frozenset())
    assert bench.add(producer, P1) is NONE, "the next one begins"
    assert bench.state.partitions == {P1}


def test_a_partition_is_added_once_the_log_has_it() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.holds = True
    token = bench.ask(an_add(producer))
    assert token not in bench.answers
    assert bench.verify(producer) is ErrorCode.INVALID_TXN_STATE
    assert bench.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.end(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.settle()
    assert bench.answers[token].error is NONE
    assert bench.verify(producer) is NONE
    bench.appends.clear()
    assert bench.add(producer) is NONE, "it is in already"
    assert not bench.appends


def test_only_the_present_producer_adds_and_ends() -> None:
    bench = Bench()
    producer_id, epoch = bench.begin()
    for call in (bench.add, bench.end):
        assert call((producer_id + 1, epoch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert call((producer_id, epoch + 1)) is call((producer_id, epoch - 1)) is ErrorCode.PRODUCER_FENCED
    assert Bench().add((1, 0)) is Bench().end((1, 0)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adding, "PARTITIONS_MAX", 2)
    bench = Bench()
    producer = bench.begin()
    assert bench.add(producer, P0, P1) is NONE
    assert bench.add(producer, ("topic", 2)) is ErrorCode.INVALID_REQUEST
    assert bench.end(producer) is NONE


@BOTH
def test_the_end_is_answered_once_the_log_has_the_decision_and_before_the_markers(commits: bool) -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer)
    bench.holds = True
    token = bench.ask(an_end(producer, commits))
    assert (token in bench.answers, bench.markers) == (False, [])
    bench.settle()
    assert bench.answers[token].error is NONE
    assert [each.partitions for each in bench.markers] == [(P0,)]
    assert bench.state.status is PREPARED[commits]


@BOTH
def test_an_end_that_is_repeated_is_answered_by_what_was_decided(commits: bool) -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    assert bench.end(producer, commits) is ErrorCode.INVALID_TXN_STATE, "there is no transaction"
    bench.add(producer)
    assert bench.end(producer, commits) is NONE
    assert bench.end(producer, commits) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.end(producer, not commits) is ErrorCode.INVALID_TXN_STATE
    assert bench.add(producer, P1) is bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.mark(bench.markers[0])
    assert bench.end(producer, commits) is NONE
    assert bench.end(producer, not commits) is ErrorCode.INVALID_TXN_STATE


def test_a_decision_that_the_log_refuses_is_none() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.add(producer)
    bench.holds = True
    token = bench.ask(an_end(producer))
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.answers[token].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.markers == []
    bench.holds = False
    assert bench.end(producer, commits=False) is NONE
    assert not bench.markers[0].commits


def test_it_is_complete_when_every_partition_has_its_marker() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer, P0, P1)
    bench.end(producer)
    (marker,) = bench.markers
    bench.mark(marker, NONE, P0)
    bench.mark(marker, NONE, P0)
    assert bench.state.status is TransactionStatus.PREPARE_COMMIT
    bench.mark(marker, NONE, P1)
    assert bench.state.status is TransactionStatus.COMPLETE_COMMIT


def test_a_marker_that_fails_is_tried_again() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer, P0, P1)
    bench.end(producer)
    bench.mark(bench.markers[0], NONE, P0)
    for count in range(1, 4):
        bench.mark(bench.markers[-1], ErrorCode.NOT_LEADER_OR_FOLLOWER, P1)
        assert len(bench.markers) == count
        bench.wait(RETRY_MS)
        assert bench.markers[count].partitions == (P1,)
    bench.mark(bench.markers[-1])
    assert bench.state.status is TransactionStatus.COMPLETE_COMMIT
    bench.wait(10 * RETRY_MS)
    assert len(bench.markers) == 4


@pytest.mark.parametrize(
    "error", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH], ids=lambda each: each.name
)
def test_a_coordinator_that_is_fenced_waits_for_the_next_one(error: ErrorCode) -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer)
    bench.end(producer)
    bench.mark(bench.markers[0], error)
    bench.wait(10 * RETRY_MS)
    assert (len(bench.markers), bench.state.status) == (1, TransactionStatus.PREPARE_COMMIT)


def test_what_comes_late_of_an_earlier_transaction_completes_no_later_one() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer)
    bench.end(producer)
    (first,) = bench.markers
    bench.mark(first)
    bench.add(producer)
    bench.end(producer)
    bench.mark(first)
    assert bench.state.status is TransactionStatus.PREPARE_COMMIT
    bench.mark(bench.markers[1])
    assert bench.state.status is TransactionStatus.COMPLETE_COMMIT


def test_the_end_that_the_log_refuses_is_tried_again() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.add(producer)
    bench.holds = True
    bench.ask(an_end(producer))
    bench.settle()
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.state.status is TransactionStatus.PREPARE_COMMIT
    bench.holds = False
    bench.wait(RETRY_MS)
    assert bench.state.status is TransactionStatus.COMPLETE_COMMIT
    assert len(bench.markers) == 1


# ------------------------------------------------------------------------------------------------------- verification


def test_a_partition_is_verified_while_its_transaction_is_open() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    assert bench.verify(producer) is ErrorCode.INVALID_TXN_STATE
    bench.add(producer)
    assert bench.verify(producer) is NONE
    assert bench.verify(producer, P1) is ErrorCode.INVALID_TXN_STATE
    assert bench.verify((producer[0], producer[1] + 1)) is ErrorCode.PRODUCER_FENCED
    assert bench.verify((producer[0] + 1, producer[1])) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    bench.end(producer)
    assert bench.verify(producer) is ErrorCode.INVALID_TXN_STATE, "a marker is on its way"
    bench.mark(bench.markers[0])
    assert bench.verify(producer) is ErrorCode.INVALID_TXN_STATE
    bench.coordinator.unload(0, 2)
    assert bench.verify(producer) is ErrorCode.NOT_COORDINATOR


# --------------------------------------------------------------------------------------------------------------- time


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    bench = Bench()
    producer = bench.begin(timeout_ms=60_000)
    bench.add(producer)
    bench.wait(59_999)
    assert bench.markers == []
    bench.wait(10_001)
    (marker,) = bench.markers
    assert (marker.commits, marker.producer_epoch) == (False, producer[1] + 1)
    assert bench.state.status is TransactionStatus.COMPLETE_ABORT
    assert bench.add(producer) is bench.end(producer) is ErrorCode.PRODUCER_FENCED
    assert bench.begin() == (producer[0], producer[1] + 2)


def test_the_clock_of_a_transaction_goes_on_at_the_next_coordinator() -> None:
    bench = Bench()
    producer = bench.begin(timeout_ms=60_000)
    bench.add(producer)
    bench.wait(50_000)
    bench.add(producer, P1)
    other = bench.reloaded()
    assert other.state.started == WALL
    other.wait(20_000)
    assert other.markers[0].partitions == (P0, P1)


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.wait(bench.settings.id_expiration_ms - bench.settings.expiry_check_ms)
    assert bench.described() is NONE
    bench.wait(2 * bench.settings.expiry_check_ms)
    assert bench.described() is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.log[-1].value is None
    assert bench.reloaded().described() is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.begin()[0] != producer[0]


def test_an_id_whose_tombstone_is_refused_lives_on() -> None:
    bench = Bench()
    bench.begin()
    bench.holds = True
    bench.wait(bench.settings.id_expiration_ms)
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.holds = False
    assert bench.begin()[1] == 1


def test_an_open_transaction_never_expires() -> None:
    bench = Bench(holds_markers=True)
    bench.add(bench.begin())
    bench.wait(2 * bench.settings.id_expiration_ms)
    assert bench.state.status is TransactionStatus.PREPARE_ABORT


def test_many_expire_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from zab.partition.transactions import expiry

    monkeypatch.setattr(expiry, "TOMBSTONES_MAX", 2)
    bench = Bench()
    for number in range(5):
        bench.begin(transactional_id=f"t{number}")
    before = len(bench.log)
    bench.wait(bench.settings.id_expiration_ms + bench.settings.expiry_check_ms)
    assert [each.value for each in bench.log[before:]] == [None] * 5
    assert bench.coordinator._context.partitions[0].transactions == {}


# ------------------------------------------------------------------------------------------------------------ loading


@BOTH
def test_what_was_decided_goes_on_at_the_next_coordinator(commits: bool) -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer, P0, P1)
    bench.end(producer, commits)
    bench.mark(bench.markers[0], NONE, P0)
    other = bench.reloaded()
    (marker,) = other.markers
    assert (marker.coordinator_epoch, marker.commits, marker.partitions) == (3, commits, (P0, P1))
    assert other.state.status is COMPLETE[commits]
    assert other.end(producer, commits) is NONE


def test_every_state_comes_back_from_the_log() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    assert status_after_load(bench) is TransactionStatus.EMPTY
    bench.add(producer)
    assert status_after_load(bench) is TransactionStatus.ONGOING
    assert bench.reloaded().end(producer) is NONE
    bench.end(producer)
    assert status_after_load(bench) is TransactionStatus.PREPARE_COMMIT
    bench.mark(bench.markers[0])
    assert status_after_load(bench) is TransactionStatus.COMPLETE_COMMIT


def test_the_epoch_that_fences_comes_back_from_the_log() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer)
    bench.begin_error()
    other = bench.reloaded()
    assert other.add(producer) is ErrorCode.PRODUCER_FENCED
    assert other.begin() == (producer[0], producer[1] + 2)


def test_what_is_not_loaded_is_not_available() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.coordinator.begin_load(0, 2)
    assert bench.begin_error() is bench.add(producer) is bench.end(producer) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert bench.described() is bench.call(List(), Listed).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.coordinator.unload(0, 3)
    assert bench.begin_error() is bench.add(producer) is bench.described() is ErrorCode.NOT_COORDINATOR
    bench.coordinator.stop()
    assert bench.begin_error() is bench.add(producer) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_what_waits_is_answered_when_the_partition_goes_and_its_outcome_is_of_no_interest() -> None:
    bench = Bench(holds=True)
    token = bench.ask(an_init())
    bench.coordinator.unload(0, 2)
    bench.drain()
    assert bench.answers[token].error is ErrorCode.NOT_COORDINATOR
    bench.settle()
    assert bench.described() is ErrorCode.NOT_COORDINATOR


def test_a_coordinator_that_was_replaced_tries_no_markers_again() -> None:
    bench = Bench(holds_markers=True)
    producer = bench.begin()
    bench.add(producer)
    bench.end(producer)
    bench.mark(bench.markers[0], ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.coordinator.unload(0, 2)
    bench.wait(10 * RETRY_MS)
    bench.mark(bench.markers[0])
    assert len(bench.markers) == 1


# --------------------------------------------------------------------------------------------------------- operators


def test_transactions_are_described_and_listed() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.add(producer)
    bench.begin(transactional_id="other")
    asked = Describe(transactional_ids=(ID, "nobody"))
    first, second = bench.call(asked, Descriptions).transactions
    assert first.state == bench.state
    assert (second.error, second.state) == (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None)

    def listed(**filters: tuple[object, ...]) -> list[str]:
        return [name for name, _ in bench.call(List(**filters), Listed).transactions]  # type: ignore[arg-type]

    assert listed() == [ID, "other"]
    assert listed(states=("Ongoing",)) == listed(producer_ids=(producer[0],)) == [ID]
    assert listed(states=("Dead", "Nonsense")) == []
    assert bench.call(List(states=("Ongoing", "Nonsense")), Listed).unknown_states == ("Nonsense",)


def test_no_state_follows_one_that_the_table_does_not_name() -> None:
    assert set(TRANSITIONS) | {TransactionStatus.DEAD} == set(NAMES) == set(TransactionStatus)
    bench = Bench()
    bench.begin()
    with pytest.raises(AssertionError):
        bench.transaction().become(bench.state.__class__(producer_id=1, timeout_ms=1, status=PREPARED[True]))
