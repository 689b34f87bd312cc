"""SyncGroup: the assignment is handed out once it is stored, and what happens if it is not."""

from __future__ import annotations

import pytest

from tests.partition.groups.bench import NONE, Bench, a_join, a_leave, a_sync, snapshot
from zab.kafka.coordinator_records import GroupKey, GroupValue
from zab.kafka.errors import ErrorCode
from zab.partition.groups.group import GroupState
from zab.partition.groups.records import LoadedRecord
from zab.partition.groups.requests import Protocol
from zab.partition.groups.results import JoinResult, SyncResult


def completing(holds: bool = False) -> tuple[Bench, JoinResult, JoinResult]:
    """A generation of two members without an assignment."""
    bench = Bench()
    tokens = [bench.join(bench.member()) for _ in range(2)]
    bench.wait(6000)
    bench.holds = holds
    first, second = (bench.joined(each) for each in tokens)
    return bench, first, second


def test_a_member_waits_for_the_leader() -> None:
    bench, first, second = completing()
    waiting = bench.sync(second)
    assert bench.is_open(waiting)
    leader = bench.sync(first, a=b"A", b=b"B")
    assert bench.synced(waiting) == SyncResult(protocol_type="consumer", protocol_name="range", assignment=b"B")
    assert bench.synced(leader).assignment == b"A"
    assert bench.state is GroupState.STABLE


def test_a_member_without_an_assignment_gets_none() -> None:
    bench, first, second = completing()
    bench.sync(first, a=b"A")
    assert bench.synced(bench.sync(second)).assignment == b""


def test_nobody_gets_an_assignment_before_it_is_stored() -> None:
    bench, first, second = completing(holds=True)
    tokens = [bench.sync(second), bench.sync(first, a=b"A", b=b"B")]
    assert all(bench.is_open(each) for each in tokens)
    assert bench.state is GroupState.COMPLETING_REBALANCE
    bench.settle()
    assert [bench.synced(each).assignment for each in tokens] == [b"B", b"A"]


def test_the_generation_is_stored_whole() -> None:
    bench, first, second = completing()
    bench.sync(first, a=b"A", b=b"B")
    record = bench.log[-1]
    assert isinstance(record, LoadedRecord)
    assert record.key == GroupKey(group="g")
    assert isinstance(record.value, GroupValue)
    value = record.value
    assert (value.protocol_type, value.generation, value.protocol, value.leader) == (
        "consumer",
        1,
        "range",
        first.member_id,
    )
    assert [(each.member_id, each.subscription, each.assignment) for each in value.members] == [
        (first.member_id, b"r", b"A"),
        (second.member_id, b"r", b"B"),
    ]
    assert {(each.client_id, each.client_host) for each in value.members} == {("c", "/h")}
    assert {(each.rebalance_timeout, each.session_timeout) for each in value.members} == {(60_000, 10_000)}


def test_a_stable_group_answers_the_stored_assignment() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    for _ in range(2):
        assert bench.synced(bench.sync(second)).assignment == b"1"
    other = bench.ask(a_sync(first.member_id, first.generation, assignments=((first.member_id, b"other"),)))
    assert bench.synced(other).assignment == b"0", "what a leader brings later is not looked at"


def test_an_assignment_that_is_brought_twice_is_stored_once() -> None:
    bench, first, second = completing(holds=True)
    lost = bench.sync(first, a=b"A", b=b"B")
    again = bench.sync(first, a=b"x", b=b"y")
    assert bench.synced(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert len(bench.appends) == 1
    bench.settle()
    assert bench.synced(again).assignment == b"A"
    assert snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)
    assert bench.synced(bench.sync(second)).assignment == b"B"


# -------------------------------------------------------------------------------------------------------------- checks


def test_a_group_that_does_not_exist_has_no_members() -> None:
    assert Bench().call(a_sync("c-1", 1), SyncResult).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_stranger_is_unknown() -> None:
    bench, first, _ = completing()
    assert bench.call(a_sync("c-9", first.generation), SyncResult).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("by", [-1, 1])
def test_another_generation_is_illegal(by: int) -> None:
    bench, first, _ = completing()
    result = bench.call(a_sync(first.member_id, first.generation + by), SyncResult)
    assert result.error is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, NONE),
    ],
)
def test_the_protocol_is_that_of_the_group(changes: dict[str, str], error: ErrorCode) -> None:
    bench = Bench()
    _, second = bench.stable(2)
    assert bench.call(a_sync(second.member_id, second.generation, **changes), SyncResult).error is error


def test_in_an_empty_group_nobody_syncs() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.wait(20_000)
    result = bench.call(a_sync(first.member_id, bench.group().generation), SyncResult)
    assert result.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_preparing_rebalance_a_member_has_to_join() -> None:
    bench = Bench()
    _, second = bench.stable(2)
    bench.join(bench.member())
    assert bench.synced(bench.sync(second)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_while_the_group_is_loaded_a_member_has_to_join() -> None:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    assert bench.call(a_sync("c-1", 1), SyncResult).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_another_broker_coordinates_the_group() -> None:
    bench = Bench(partition_for=lambda group_id: 7)
    assert bench.call(a_sync("c-1", 1), SyncResult).error is ErrorCode.NOT_COORDINATOR


# ------------------------------------------------------------------------------------------------ what can come between


@pytest.mark.parametrize(
    ("log", "members"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_an_assignment_that_is_not_stored_is_an_error_for_all(log: ErrorCode, members: ErrorCode) -> None:
    bench, first, second = completing(holds=True)
    tokens = [bench.sync(second), bench.sync(first, a=b"A", b=b"B")]
    bench.settle(log)
    assert [bench.synced(each) for each in tokens] == [SyncResult(error=members)] * 2
    assert bench.state is GroupState.PREPARING_REBALANCE
    assert all(each.assignment == b"" for each in bench.group().members.values())
    bench.holds = False
    again = [bench.join(each.member_id) for each in (first, second)]
    assert {bench.joined(each).generation for each in again} == {first.generation + 1}


def test_a_member_that_joins_meanwhile_makes_the_assignment_void() -> None:
    bench, first, second = completing(holds=True)
    tokens = [bench.sync(second), bench.sync(first, a=b"A", b=b"B")]
    bench.join(bench.member())
    assert [bench.synced(each).error for each in tokens] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    bench.settle()
    assert bench.state is GroupState.PREPARING_REBALANCE
    assert all(each.assignment == b"" for each in bench.group().members.values())


def test_the_assignment_of_an_earlier_generation_comes_too_late() -> None:
    bench, first, second = completing(holds=True)
    bench.sync(first, a=b"A", b=b"B")
    changed = (Protocol("range", b"x"),)
    bench.join(first.member_id, protocols=changed)
    later = bench.joined(bench.join(second.member_id))
    assert bench.state is GroupState.COMPLETING_REBALANCE
    bench.settle()
    assert bench.state is GroupState.COMPLETING_REBALANCE, "that was the generation before"
    assert bench.is_open(bench.sync(later))


def test_the_sync_of_a_member_that_leaves_is_answered() -> None:
    bench, _, second = completing()
    waiting = bench.sync(second)
    bench.ask(a_leave(second.member_id))
    assert bench.synced(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_do_not_sync_in_time_are_removed() -> None:
    bench, first, second = completing()
    waiting = bench.sync(second)
    for _ in range(6):
        bench.wait(9000)
        assert bench.beat(first.member_id, first.generation) is NONE
    bench.wait(5999)
    assert bench.is_open(waiting)
    bench.wait(1)
    assert bench.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert list(bench.group().members) == [second.member_id]
    assert bench.joined(bench.join(second.member_id)).leader == second.member_id


def test_a_follower_that_does_not_sync_with_a_stable_group_is_removed() -> None:
    bench, first, second = completing()
    bench.sync(first, a=b"A", b=b"B")
    for _ in range(7):
        bench.wait(8600)
        bench.beat(first.member_id, first.generation)
        bench.beat(second.member_id, second.generation)
    assert list(bench.group().members) == [first.member_id]
    assert bench.state is GroupState.PREPARING_REBALANCE


def test_a_generation_whose_members_have_all_synced_goes_on() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    for _ in range(20):
        bench.wait(9000)
        assert bench.beat(first.member_id, first.generation) is NONE
        assert bench.beat(second.member_id, second.generation) is NONE


def test_the_session_of_a_member_that_waits_begins_with_its_answer() -> None:
    bench, first, second = completing()
    waiting = bench.sync(second)
    for _ in range(5):
        bench.wait(9000)
        bench.beat(first.member_id, first.generation)
    assert bench.is_open(waiting), "it waits longer than its session"
    bench.sync(first, a=b"A", b=b"B")
    bench.wait(9999)
    assert bench.beat(second.member_id, second.generation) is NONE
    bench.wait(10_000)
    assert not bench.group().members


def test_a_second_sync_takes_the_place_of_the_first_which_is_answered() -> None:
    bench, first, second = completing()
    lost, again = bench.sync(second), bench.sync(second)
    assert bench.synced(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    bench.sync(first, a=b"A", b=b"B")
    assert bench.synced(again).assignment == b"B"


def test_a_join_in_completing_rebalance_does_not_disturb_a_sync_that_waits() -> None:
    bench, first, second = completing()
    waiting = bench.sync(second)
    assert bench.call(a_join(second.member_id), JoinResult).generation == second.generation
    bench.sync(first, a=b"A", b=b"B")
    assert bench.synced(waiting).assignment == b"B"
