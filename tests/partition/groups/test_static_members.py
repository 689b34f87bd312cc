"""Static members: they restart without a rebalance, and two processes never act as one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.partition.groups.bench import NONE, Bench, a_commit, a_join, a_leave, a_sync, snapshot
from zab.kafka.errors import ErrorCode
from zab.partition.groups.group import GroupState
from zab.partition.groups.requests import OffsetCommit, Protocol
from zab.partition.groups.results import CommitResult, JoinResult, LeaveResult, SyncResult
from zab.partition.settings.broker_settings import GroupSettings

FENCED = ErrorCode.FENCED_INSTANCE_ID


def static_group(settings: GroupSettings | None = None, **changes: Any) -> tuple[Bench, JoinResult, JoinResult]:
    """Two static members, i and j, in a Stable group; i leads."""
    bench = Bench(settings or GroupSettings())
    tokens = [bench.join(group_instance_id=each, **changes) for each in ("i", "j")]
    bench.wait(6000)
    first, second = (bench.joined(each) for each in tokens)
    bench.sync(first, a=b"A", b=b"B")
    bench.sync(second)
    assert bench.state is GroupState.STABLE
    return bench, first, second


def test_a_static_member_is_added_without_being_told_its_id_first() -> None:
    _, first, second = static_group()
    assert (first.member_id, second.member_id) == ("i-0001", "j-0002")
    assert [each.group_instance_id for each in first.members] == ["i", "j"]


def test_a_follower_that_restarts_does_not_disturb_the_group() -> None:
    bench, first, second = static_group()
    result = bench.call(a_join(group_instance_id="j"), JoinResult)
    assert result.error is NONE
    assert result.member_id not in (second.member_id, "")
    assert (result.generation, result.leader, result.skip_assignment) == (1, first.member_id, False)
    assert bench.state is GroupState.STABLE
    answer = bench.call(a_sync(result.member_id, 1, group_instance_id="j"), SyncResult)
    assert answer.assignment == b"B", "what its process before had"
    assert bench.beat(first.member_id, 1, "i") is NONE


def test_a_leader_that_restarts_is_told_to_skip_the_assignment() -> None:
    bench, _, _ = static_group()
    result = bench.call(a_join(group_instance_id="i"), JoinResult)
    assert result.leader == result.member_id
    assert result.skip_assignment
    assert [each.group_instance_id for each in result.members] == ["i", "j"], "it goes on watching topics for all"


def test_before_version_9_a_leader_that_restarts_takes_itself_for_a_follower() -> None:
    bench, first, _ = static_group()
    result = bench.call(a_join(group_instance_id="i", may_skip_assignment=False), JoinResult)
    assert result.leader == first.member_id != result.member_id
    assert (result.members, result.skip_assignment) == ((), False)
    assert bench.group().leader == result.member_id


def test_a_restart_is_answered_once_it_is_stored() -> None:
    bench, _, _ = static_group()
    bench.holds = True
    token = bench.join(group_instance_id="j")
    assert bench.is_open(token)
    bench.settle()
    assert bench.joined(token).error is NONE
    assert snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)


def test_the_process_before_is_fenced_everywhere() -> None:
    bench, _, second = static_group()
    new = bench.call(a_join(group_instance_id="j"), JoinResult).member_id
    old = second.member_id
    assert bench.beat(old, 1, "j") is FENCED
    assert bench.call(a_sync(old, 1, group_instance_id="j"), SyncResult).error is FENCED
    assert bench.call(a_join(old, group_instance_id="j"), JoinResult).error is FENCED
    request = a_commit(member_id=old, generation=1, group_instance_id="j")
    assert bench.call(request, CommitResult).partitions[0].error is FENCED
    assert bench.call(a_leave((old, "j")), LeaveResult).only_error is FENCED
    assert bench.beat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "nor is its id a dynamic member's"
    assert bench.beat(new, 1, "j") is NONE


def test_the_process_before_is_fenced_before_anything_is_stored() -> None:
    bench, _, second = static_group()
    bench.holds = True
    bench.join(group_instance_id="j")
    assert bench.beat(second.member_id, 1, "j") is FENCED
    request = OffsetCommit(
        group_id="g", member_id=second.member_id, generation=1, group_instance_id="j", offsets=a_commit().offsets
    )
    assert bench.call(request, CommitResult).partitions[0].error is FENCED


def test_requests_of_the_process_before_that_wait_are_fenced() -> None:
    bench, first, second = static_group()
    joining = bench.join(first.member_id, group_instance_id="i")
    assert bench.state is GroupState.PREPARING_REBALANCE
    bench.join(group_instance_id="i")
    assert bench.joined(joining).error is FENCED
    assert bench.joined(joining).member_id == first.member_id
    bench.join(second.member_id, group_instance_id="j")
    assert bench.state is GroupState.COMPLETING_REBALANCE
    syncing = bench.ask(a_sync(second.member_id, 2, group_instance_id="j"))
    bench.join(group_instance_id="j")
    assert bench.synced(syncing).error is FENCED


def test_an_unknown_instance_is_unknown() -> None:
    bench, first, _ = static_group()
    assert bench.beat(first.member_id, 1, "k") is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.call(a_join("k-1", group_instance_id="k"), JoinResult).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_choice_of_protocol_needs_a_rebalance() -> None:
    a, b = Protocol("a", b""), Protocol("b", b"")
    bench, _, _ = static_group(protocols=(a, b))
    token = bench.join(group_instance_id="j", protocols=(b, a))
    assert bench.joined(token).generation == 1, "at a tie the oldest member decides, as before"
    token = bench.join(group_instance_id="i", protocols=(b,))
    assert bench.is_open(token)
    assert bench.state is GroupState.PREPARING_REBALANCE


def test_a_restart_in_completing_rebalance_begins_a_rebalance() -> None:
    bench = Bench()
    tokens = [bench.join(group_instance_id=each) for each in ("i", "j")]
    bench.wait(6000)
    waiting = bench.sync(bench.joined(tokens[1]))
    assert bench.is_open(bench.join(group_instance_id="i"))
    assert bench.state is GroupState.PREPARING_REBALANCE
    assert bench.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_restart_in_preparing_rebalance_waits_with_the_others() -> None:
    bench, first, _ = static_group()
    bench.join(first.member_id, group_instance_id="i")
    token = bench.join(group_instance_id="j")
    assert bench.joined(token).generation == 2


def test_a_restart_that_is_not_stored_changes_nothing() -> None:
    bench, _, second = static_group()
    bench.holds = True
    before = snapshot(bench.coordinator)
    token = bench.join(group_instance_id="j", client_id="new", protocols=(Protocol("range", b"x"),))
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.joined(token) == JoinResult(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert snapshot(bench.coordinator) == before
    assert bench.beat(second.member_id, 1, "j") is NONE
    bench.wait(10_000)
    assert second.member_id not in bench.group().members, "its session goes on"


def test_a_restart_that_the_log_may_have_keeps_the_new_id() -> None:
    bench, _, second = static_group()
    bench.holds = True
    token = bench.join(group_instance_id="j")
    (append,) = bench.appends
    bench.settle(ErrorCode.REQUEST_TIMED_OUT)
    assert bench.joined(token) == JoinResult(error=ErrorCode.REBALANCE_IN_PROGRESS)
    assert bench.beat(second.member_id, 1, "j") is FENCED
    bench.coordinator.on_appended(0, append.append_id, bench.write(append))
    assert snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)
    bench.wait(9999)
    assert "j" in bench.group().static
    bench.wait(1)
    assert "j" not in bench.group().static, "nobody knows this id, so its session ends"


def test_two_restarts_after_each_other_leave_the_last_one() -> None:
    bench, _, _ = static_group()
    bench.holds = True
    first, last = bench.join(group_instance_id="j"), bench.join(group_instance_id="j")
    assert bench.joined(first).error is FENCED
    bench.settle()
    assert bench.joined(last).error is NONE
    assert bench.group().static["j"] == bench.joined(last).member_id
    assert snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)


def test_a_rebalance_that_begins_meanwhile_answers_the_restart() -> None:
    bench, first, _ = static_group()
    bench.holds = True
    token = bench.join(group_instance_id="j")
    again = bench.join(first.member_id, group_instance_id="i")
    assert bench.joined(again).generation == bench.joined(token).generation == 2
    bench.settle()
    assert bench.state is GroupState.COMPLETING_REBALANCE


def test_a_static_member_that_does_not_come_stays_through_a_rebalance() -> None:
    bench, first, second = static_group(session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    token = bench.join(first.member_id, group_instance_id="i", session_timeout_ms=100_000, rebalance_timeout_ms=20_000)
    bench.wait(20_000)
    result = bench.joined(token)
    assert [each.member_id for each in result.members] == [first.member_id, second.member_id]
    bench.wait(19_999)
    assert second.member_id in bench.group().members
    bench.wait(1)
    assert second.member_id not in bench.group().members, "it did not sync"


def test_an_administrator_removes_static_members_by_their_instance() -> None:
    bench, first, second = static_group()
    assert bench.call(a_leave(("", "j"), ("", "k"), ""), LeaveResult).members[0].error is NONE
    result = bench.call(a_leave(("", "k"), (second.member_id, "j"), ""), LeaveResult)
    assert [each.error for each in result.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 3
    assert list(bench.group().members) == [first.member_id]


def test_a_static_member_comes_back_into_a_full_group() -> None:
    bench, _, _ = static_group(GroupSettings(members_max=2))
    assert bench.call(a_join(group_instance_id="j"), JoinResult).error is NONE
    assert bench.call(a_join(group_instance_id="k"), JoinResult).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_restart_while_its_first_join_waits_has_the_time_of_a_new_member() -> None:
    bench = Bench(GroupSettings(initial_delay_ms=60_000))
    bench.join(group_instance_id="i")
    token = bench.join(group_instance_id="i")
    bench.wait(59_999)
    assert bench.is_open(token)
    bench.wait(1)
    assert bench.joined(token).error is NONE


@pytest.mark.parametrize("leads", [True, False])
def test_its_place_among_the_members_and_the_lead_stay(leads: bool) -> None:
    bench, first, second = static_group()
    new = bench.call(a_join(group_instance_id="i" if leads else "j"), JoinResult).member_id
    expected = [new, second.member_id] if leads else [first.member_id, new]
    assert list(bench.group().members) == expected
    assert bench.group().leader == expected[0]
