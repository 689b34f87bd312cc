"""TxnOffsetCommit and markers: offsets that count when their transaction does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.partition.groups.bench import GROUP, NONE, Bench, a_join, a_leave, offsets_to_commit, snapshot
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator.effects import Token
from zab.partition.groups.group import GroupState
from zab.partition.groups.requests import DeleteGroups, TxnOffsetCommit
from zab.partition.groups.results import CommitResult, DeleteResult, JoinResult

UNSTABLE = -100 - ErrorCode.UNSTABLE_OFFSET_COMMIT


def txn_commit(offset: int, producer_id: int = 9, **changes: Any) -> TxnOffsetCommit:
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "producer_id": producer_id,
        "producer_epoch": 3,
        "offsets": offsets_to_commit(offset),
    }
    return TxnOffsetCommit(**(fields | changes))


def error_of(bench: Bench, token: Token) -> ErrorCode:
    result = bench.answers[token]
    assert isinstance(result, CommitResult)
    return result.partitions[0].error


def committed(bench: Bench, offset: int, **changes: Any) -> ErrorCode:
    return error_of(bench, bench.ask(txn_commit(offset, **changes)))


def same_after_load(bench: Bench) -> bool:
    return snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)


def test_the_records_are_part_of_the_transaction() -> None:
    bench = Bench(holds=True)
    bench.ask(txn_commit(5))
    (append,) = bench.appends
    assert (append.producer_id, append.producer_epoch) == (9, 3)


@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_counts_once_its_marker_says_so(commits: bool) -> None:
    bench = Bench()
    bench.commit(1)
    assert committed(bench, 5) is NONE
    assert bench.offset() == 1
    assert bench.offset(require_stable=True) == UNSTABLE
    assert same_after_load(bench)
    bench.mark(9, commits)
    assert bench.offset() == bench.offset(require_stable=True) == (5 if commits else 1)
    assert same_after_load(bench)


def test_an_offset_is_unstable_as_soon_as_its_append_is_under_way() -> None:
    bench = Bench(holds=True)
    token = bench.ask(txn_commit(5))
    assert bench.is_open(token)
    assert bench.offset() == -1
    assert bench.offset(require_stable=True) == UNSTABLE
    assert bench.offset("t", 1, require_stable=True) == -1, "others are not"
    bench.settle(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert error_of(bench, token) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert bench.offset(require_stable=True) == -1


def test_the_last_offset_of_a_transaction_counts() -> None:
    bench = Bench()
    committed(bench, 5)
    committed(bench, 4)
    bench.mark(9, True)
    assert bench.offset() == 4
    assert same_after_load(bench)


def test_each_producer_has_its_own_transaction() -> None:
    bench = Bench()
    committed(bench, 5, producer_id=1)
    committed(bench, 6, producer_id=2)
    bench.mark(2, True)
    assert bench.offset() == 6
    assert bench.offset(require_stable=True) == UNSTABLE
    bench.mark(1, True)
    assert bench.offset() == 6, "its record is the earlier one"
    assert same_after_load(bench)


def test_a_commit_outside_that_was_appended_later_wins() -> None:
    bench = Bench()
    committed(bench, 5)
    bench.commit(2)
    bench.mark(9, True)
    assert bench.offset() == 2
    assert same_after_load(bench)


def test_the_marker_ends_what_was_appended_before_it() -> None:
    bench = Bench()
    committed(bench, 5)
    bench.holds = True
    later = bench.ask(txn_commit(6, offsets=offsets_to_commit(6, "u")))
    bench.mark(9, True)
    bench.settle()
    assert error_of(bench, later) is NONE
    assert (bench.offset(), bench.offset("u")) == (5, -1)
    assert bench.offset("u", require_stable=True) == UNSTABLE
    assert same_after_load(bench)


def test_a_marker_ends_the_transaction_in_all_groups_of_the_partition() -> None:
    bench = Bench()
    committed(bench, 5)
    committed(bench, 6, group_id="h")
    bench.mark(9, True)
    assert (bench.offset(), bench.offset(group_id="h")) == (5, 6)


def test_a_marker_without_offsets_changes_nothing() -> None:
    bench = Bench()
    bench.commit(1)
    bench.mark(9, True)
    bench.coordinator.on_marker(5, 9, True)
    assert bench.offset() == 1


def test_an_aborted_transaction_leaves_no_group() -> None:
    bench = Bench()
    committed(bench, 5)
    assert bench.has_group()
    bench.mark(9, False)
    assert not bench.has_group()
    assert same_after_load(bench)


def test_an_append_that_is_late_is_held_after_all() -> None:
    bench = Bench(holds=True)
    token = bench.ask(txn_commit(5))
    (append,) = bench.appends
    bench.settle(ErrorCode.REQUEST_TIMED_OUT)
    assert error_of(bench, token) is ErrorCode.REQUEST_TIMED_OUT
    bench.coordinator.on_appended(0, append.append_id, bench.write(append))
    bench.mark(9, True)
    assert bench.offset() == 5
    assert same_after_load(bench)


# --------------------------------------------------------------------------------------------------------- who commits


def test_generation_and_member_are_checked_when_they_are_named() -> None:
    bench = Bench()
    (first,) = bench.stable()
    named = {"member_id": first.member_id, "generation": 1}
    assert committed(bench, 5, **named) is NONE
    assert committed(bench, 5, **(named | {"generation": 2})) is ErrorCode.ILLEGAL_GENERATION
    assert committed(bench, 5, **(named | {"member_id": "c-9"})) is ErrorCode.UNKNOWN_MEMBER_ID
    bench.ask(a_leave(first.member_id))
    assert committed(bench, 5, **named) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_was_replaced_is_fenced() -> None:
    bench = Bench()
    token = bench.join(group_instance_id="i")
    bench.wait(3000)
    first = bench.joined(token)
    bench.sync(first, a=b"A")
    bench.call(a_join(group_instance_id="i"), JoinResult)
    error = committed(bench, 5, member_id=first.member_id, generation=1, group_instance_id="i")
    assert error is ErrorCode.FENCED_INSTANCE_ID


def test_old_versions_that_name_no_member_are_believed() -> None:
    bench = Bench()
    bench.stable()
    assert committed(bench, 5) is NONE


def test_a_generation_of_a_group_that_does_not_exist_is_illegal() -> None:
    bench = Bench()
    assert committed(bench, 5, generation=1, member_id="c-1") is ErrorCode.ILLEGAL_GENERATION
    assert not bench.has_group()


def test_a_rebalance_does_not_refuse_it() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.join(first.member_id)
    assert bench.state is GroupState.COMPLETING_REBALANCE
    assert committed(bench, 5, member_id=first.member_id, generation=2) is NONE


def test_it_is_no_sign_of_life() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.wait(9000)
    committed(bench, 5, member_id=first.member_id, generation=1)
    bench.wait(1000)
    assert not bench.group().members


def test_a_deleted_group_drops_what_it_holds() -> None:
    bench = Bench()
    committed(bench, 5)
    request = DeleteGroups(group_ids=(GROUP,))
    assert bench.call(request, DeleteResult).groups == ((GROUP, NONE),)
    assert not bench.has_group()
    bench.mark(9, True)
    assert bench.offset() == -1
    assert same_after_load(bench)
