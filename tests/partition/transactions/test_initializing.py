"""InitProducerId: epochs that rise, producers that are fenced, ids whose epochs are used up."""

from __future__ import annotations

import pytest

from tests.partition.transactions.bench import ID, NONE, P0, Bench, an_init
from zab.kafka.coordinator_records import TransactionStatus
from zab.kafka.errors import ErrorCode
from zab.partition.transactions.requests import Initialize
from zab.partition.transactions.results import Initialized
from zab.partition.transactions.transaction import EPOCH_MAX


def test_the_first_producer_gets_a_new_id_and_the_next_ones_epochs_that_rise() -> None:
    bench = Bench()
    producer_id, epoch = bench.begin()
    assert epoch == 0
    assert bench.begin() == (producer_id, 1)
    assert bench.begin() == (producer_id, 2)
    assert bench.reloaded().begin() == (producer_id, 3)


def test_it_is_answered_once_the_log_has_it_and_meanwhile_others_wait() -> None:
    bench = Bench(holds=True)
    token = bench.ask(an_init())
    assert token not in bench.answers
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.settle()
    assert bench.answers[token].epoch == 0


def test_what_the_log_refuses_leaves_the_old_state() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.holds = True
    token = bench.ask(an_init())
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.answers[token] == Initialized(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (bench.state.producer_id, bench.state.epoch) == producer


def test_a_new_id_that_the_log_refuses_is_forgotten() -> None:
    bench = Bench(holds=True)
    token = bench.ask(an_init())
    bench.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.answers[token].error is ErrorCode.NOT_COORDINATOR
    assert bench.described() is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_while_the_log_leaves_it_open_others_wait() -> None:
    """The record may still be committed: an epoch must not be given twice."""
    bench = Bench(holds=True)
    token = bench.ask(an_init())
    (append,) = bench.settle(ErrorCode.REQUEST_TIMED_OUT)
    assert bench.answers[token].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    bench.coordinator.on_appended(0, append.append_id, bench.write(append))
    bench.holds = False
    assert bench.begin()[1] == 1


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_bounds(timeout_ms: int) -> None:
    assert Bench().begin_error(timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_the_longest_timeout_is_taken() -> None:
    bench = Bench()
    bench.begin(timeout_ms=900_000)
    assert bench.state.timeout_ms == 900_000


@pytest.mark.parametrize("transactional_id", ["", "x" * 40_000])
def test_ids_that_no_record_can_have_are_refused(transactional_id: str) -> None:
    request = Initialize(transactional_id=transactional_id, timeout_ms=1000)
    assert Bench().call(request, Initialized).error is ErrorCode.INVALID_REQUEST


def test_without_producer_ids_it_is_to_be_asked_again() -> None:
    bench = Bench(has_ids=False)
    token = bench.ask(an_init())
    bench.give_ids(none=True)
    assert bench.answers[token].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_of_two_that_come_first_at_the_same_time_one_waits() -> None:
    bench = Bench(has_ids=False)
    first, second = bench.ask(an_init()), bench.ask(an_init())
    bench.give_ids()
    assert bench.answers[first].epoch == 0
    assert bench.answers[second].error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.begin() == (bench.answers[first].producer_id, 1)


def test_who_waits_for_an_id_is_answered_when_the_partition_goes() -> None:
    bench = Bench(has_ids=False)
    token = bench.ask(an_init())
    bench.coordinator.unload(0, 2)
    bench.drain()
    assert bench.answers[token].error is ErrorCode.NOT_COORDINATOR
    bench.give_ids()


def test_an_open_transaction_is_aborted_first_and_its_producer_fenced() -> None:
    bench = Bench(holds_markers=True)
    old = bench.begin()
    assert bench.add(old) is NONE
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.add(old) is bench.end(old) is ErrorCode.PRODUCER_FENCED
    (marker,) = bench.markers
    assert (marker.commits, marker.producer_epoch, marker.partitions) == (False, old[1] + 1, (P0,))
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS, "until the markers are written"
    bench.mark(marker)
    assert bench.begin() == (old[0], old[1] + 2), "nobody had the epoch that fenced"


def test_a_fence_that_the_log_refuses_is_no_step_further() -> None:
    bench = Bench()
    old = bench.begin()
    bench.add(old)
    bench.holds = True
    for _ in range(3):
        token = bench.ask(an_init())
        bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
        assert bench.answers[token].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (bench.state.status, bench.state.epoch) == (TransactionStatus.ONGOING, old[1] + 1)
        assert bench.answers[bench.ask(an_init(expected=old))].error is ErrorCode.PRODUCER_FENCED
    bench.holds = False
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.begin() == (old[0], old[1] + 2)


# ------------------------------------------------------------------------------------------------- epochs are used up


def test_the_last_epoch_is_followed_by_a_new_id() -> None:
    bench = Bench()
    producer_id, _ = bench.begin()
    bench.set(epoch=EPOCH_MAX - 1)
    assert bench.begin() == (producer_id, EPOCH_MAX)
    other, epoch = bench.begin()
    assert (epoch, other != producer_id) == (0, True)


def test_the_owner_of_the_last_epoch_is_fenced_by_the_one_after() -> None:
    bench = Bench(holds_markers=True)
    producer_id, _ = bench.begin()
    bench.set(epoch=EPOCH_MAX)
    last = (producer_id, EPOCH_MAX)
    assert bench.add(last) is NONE
    assert bench.begin_error() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert bench.markers[0].producer_epoch == EPOCH_MAX + 1 == 2**15 - 1
    bench.mark(bench.markers[0])
    other, epoch = bench.begin()
    assert (epoch, other != producer_id) == (0, True)


# ------------------------------------------------------------------------------------- producers that go on (KIP-360)


def test_who_names_its_epoch_gets_the_next_and_the_same_again_if_it_repeats() -> None:
    bench = Bench()
    producer = bench.begin()
    following = bench.begin(expected=producer)
    assert following == (producer[0], producer[1] + 1)
    assert bench.begin(expected=producer) == following, "its first answer was lost"
    assert bench.begin(expected=following) == (producer[0], producer[1] + 2)


def test_who_names_an_older_epoch_or_another_id_is_fenced() -> None:
    bench = Bench()
    producer_id, epoch = bench.begin()
    bench.begin()
    for expected in [(producer_id, epoch), (producer_id, epoch + 2), (producer_id + 1, epoch + 1)]:
        assert bench.begin_error(expected=expected) is ErrorCode.PRODUCER_FENCED


def test_a_zombie_that_goes_on_does_not_abort_the_transaction_of_its_successor() -> None:
    bench = Bench()
    old = bench.begin()
    new = bench.begin()
    bench.add(new)
    assert bench.begin_error(expected=old) is ErrorCode.PRODUCER_FENCED
    assert bench.end(new) is NONE


def test_who_goes_on_within_a_transaction_has_it_aborted() -> None:
    bench = Bench()
    producer = bench.begin()
    bench.add(producer)
    assert bench.begin_error(expected=producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert not bench.markers[0].commits
    following = bench.begin(expected=producer)
    assert following[1] > producer[1]
    assert bench.add(following) is NONE


def test_who_names_the_last_epoch_gets_a_new_id_and_the_same_again_if_it_repeats() -> None:
    bench = Bench()
    producer_id, _ = bench.begin()
    bench.set(epoch=EPOCH_MAX)
    last = (producer_id, EPOCH_MAX)
    following = bench.begin(expected=last)
    assert following[1] == 0
    assert bench.begin(expected=last) == following
    assert bench.begin_error(expected=(producer_id, EPOCH_MAX - 1)) is ErrorCode.PRODUCER_FENCED


def test_whose_id_is_forgotten_may_go_on() -> None:
    bench = Bench()
    producer_id, epoch = bench.begin(expected=(5, 7))
    assert (producer_id != 5, epoch) == (True, 0)
    assert bench.coordinator._context.transaction(ID) is not None
