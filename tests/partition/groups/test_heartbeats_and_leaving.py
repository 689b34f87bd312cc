"""Heartbeat, the end of sessions, and LeaveGroup."""

from __future__ import annotations

import pytest

from tests.partition.groups.bench import GROUP, NONE, Bench, a_leave
from zab.kafka.errors import ErrorCode
from zab.partition.groups.group import GroupState
from zab.partition.groups.requests import LeaveGroup, LeavingMember
from zab.partition.groups.results import LeaveResult, LeftMember

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_while_the_group_is_loaded_is_kindly_taken() -> None:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    assert bench.beat("c-1", 1) is NONE


def test_heartbeats_of_strangers_and_old_generations_are_refused() -> None:
    bench = Bench()
    assert bench.beat("c-1", 1) is UNKNOWN
    (first,) = bench.stable()
    assert bench.beat("c-9", first.generation) is UNKNOWN
    assert bench.beat(first.member_id, first.generation - 1) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat(first.member_id, first.generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat("", first.generation, group_id="") is ErrorCode.INVALID_GROUP_ID


def test_what_a_heartbeat_is_answered_in_each_state() -> None:
    bench = Bench()
    (first,) = bench.stable()
    assert bench.beat(first.member_id, first.generation) is NONE
    second = bench.join(bench.member())
    assert bench.state is GroupState.PREPARING_REBALANCE
    assert bench.beat(first.member_id, first.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.joined(bench.join(first.member_id))
    assert bench.state is GroupState.COMPLETING_REBALANCE
    assert bench.beat(first.member_id, again.generation) is NONE
    for each in (first.member_id, bench.joined(second).member_id):
        bench.ask(a_leave(each))
    assert bench.state is GroupState.EMPTY
    assert bench.beat(first.member_id, bench.group().generation) is UNKNOWN


def test_a_session_ends_its_timeout_after_the_last_heartbeat() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    bench.wait(9000)
    assert bench.beat(second.member_id, second.generation) is NONE
    bench.wait(999)
    assert first.member_id in bench.group().members
    bench.wait(1)
    assert list(bench.group().members) == [second.member_id]
    assert bench.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("sign", ["sync", "join", "commit"])
def test_other_signs_of_life_count_as_well(sign: str) -> None:
    bench = Bench()
    first, second = bench.stable(2)
    for _ in range(4):
        bench.wait(6000)
        bench.beat(first.member_id, first.generation)
        if sign == "sync":
            bench.sync(second)
        elif sign == "join":
            bench.join(second.member_id)
        else:
            assert bench.committed(member_id=second.member_id, generation=second.generation) is NONE
    assert second.member_id in bench.group().members


def test_heartbeats_in_a_rebalance_keep_the_session() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    token = bench.join(bench.member())
    for _ in range(3):
        bench.wait(9000)
        assert bench.beat(first.member_id, first.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert next(iter(bench.group().members)) == first.member_id
    assert second.member_id not in bench.group().members
    bench.join(first.member_id)
    assert bench.joined(token).error is NONE


def test_the_end_of_a_session_completes_the_join() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    bench.wait(5000)
    token = bench.join(first.member_id)
    bench.wait(4999)
    assert bench.is_open(token)
    bench.wait(1)
    assert [each.member_id for each in bench.joined(token).members] == [first.member_id]
    assert bench.beat(second.member_id, second.generation) is UNKNOWN


def test_the_last_session_leaves_the_group_empty_and_stored() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.wait(10_000)
    assert (bench.state, bench.group().generation) == (GroupState.EMPTY, first.generation + 1)
    assert bench.reloaded().state is GroupState.EMPTY


# ------------------------------------------------------------------------------------------------------------- leaving


def test_a_member_that_leaves_is_gone_at_once() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    result = bench.call(a_leave(first.member_id), LeaveResult)
    assert result == LeaveResult(members=(LeftMember(member_id=first.member_id, group_instance_id=None),))
    assert result.only_error is NONE
    assert bench.state is GroupState.PREPARING_REBALANCE
    assert bench.joined(bench.join(second.member_id)).leader == second.member_id


def test_each_member_has_an_error_of_its_own() -> None:
    bench = Bench()
    first, _, third = bench.stable(3)
    result = bench.call(a_leave(first.member_id, "c-9", third.member_id, first.member_id), LeaveResult)
    assert result.error is NONE
    assert [each.error for each in result.members] == [NONE, UNKNOWN, NONE, UNKNOWN]
    assert len(bench.group().members) == 1


def test_in_a_group_that_does_not_exist_every_member_is_unknown() -> None:
    result = Bench().call(a_leave("c-1"), LeaveResult)
    assert (result.error, result.only_error) == (NONE, UNKNOWN)


def test_errors_of_the_group_are_at_the_top() -> None:
    bench = Bench()
    request = LeaveGroup(group_id="", members=(LeavingMember("c-1"),))
    assert bench.call(request, LeaveResult).only_error is ErrorCode.INVALID_GROUP_ID
    bench.coordinator.begin_load(0, 2)
    assert bench.call(a_leave("c-1"), LeaveResult).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_id_that_was_given_out_is_given_back_quietly() -> None:
    bench = Bench()
    (first,) = bench.stable()
    pending = bench.member()
    assert bench.call(a_leave(pending), LeaveResult).only_error is NONE
    assert bench.state is GroupState.STABLE
    assert bench.beat(first.member_id, first.generation) is NONE


def test_the_last_one_that_leaves_leaves_an_empty_group() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    bench.ask(a_leave(first.member_id, second.member_id))
    assert bench.state is GroupState.EMPTY
    assert bench.group().protocol_name is None


def test_leaving_in_a_rebalance_may_complete_it() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    token = bench.join(first.member_id)
    bench.ask(a_leave(second.member_id))
    assert bench.joined(token).error is NONE


def test_the_join_of_a_member_that_leaves_is_answered() -> None:
    bench = Bench()
    first, _ = bench.stable(2)
    token = bench.join(first.member_id)
    bench.ask(LeaveGroup(group_id=GROUP, members=(LeavingMember(first.member_id),)))
    assert bench.joined(token).error is UNKNOWN
