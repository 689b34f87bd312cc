"""DescribeGroups and ListGroups."""

from __future__ import annotations

from tests.partition.groups.bench import GROUP, NONE, Bench, a_leave
from zab.kafka.errors import ErrorCode
from zab.partition.groups.requests import DescribeGroups, ListGroups
from zab.partition.groups.results import DescribedGroup, DescribedMember, DescribeResult, ListedGroup, ListResult


def describe(bench: Bench, group_id: str = GROUP) -> DescribedGroup:
    (group,) = bench.call(DescribeGroups(group_ids=(group_id,)), DescribeResult).groups
    return group


def names(bench: Bench, request: ListGroups) -> list[str]:
    return [each.group_id for each in bench.call(request, ListResult).groups]


def test_a_group_that_does_not_exist_is_dead_without_an_error() -> None:
    assert describe(Bench()) == DescribedGroup(group_id=GROUP, error=NONE, state="Dead")


def test_a_stable_group_shows_its_protocol_and_assignments() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    members = tuple(
        DescribedMember(
            member_id=each.member_id,
            group_instance_id=None,
            client_id="c",
            client_host="/h",
            metadata=b"r",
            assignment=data,
        )
        for each, data in ((first, b"0"), (second, b"1"))
    )
    assert describe(bench) == DescribedGroup(
        group_id=GROUP, state="Stable", protocol_type="consumer", protocol_name="range", members=members
    )


def test_in_other_states_there_is_neither() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    token = bench.join(first.member_id)
    for state in ("PreparingRebalance", "CompletingRebalance"):
        group = describe(bench)
        assert (group.state, group.protocol_name, group.protocol_type) == (state, "", "consumer")
        assert {(each.metadata, each.assignment) for each in group.members} == {(b"", b"")}
        bench.join(second.member_id)
    assert not bench.is_open(token)
    bench.ask(a_leave(first.member_id, second.member_id))
    assert describe(bench) == DescribedGroup(group_id=GROUP, state="Empty", protocol_type="consumer")


def test_groups_that_are_not_known_here_have_an_error() -> None:
    bench = Bench(partition_for=lambda group_id: 7 if group_id == "h" else 0)
    bench.coordinator.begin_load(0, 2)
    assert describe(bench, "h").error is ErrorCode.NOT_COORDINATOR
    assert describe(bench).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_a_simple_group_has_no_type() -> None:
    bench = Bench()
    bench.commit(1)
    assert describe(bench) == DescribedGroup(group_id=GROUP, state="Empty")
    assert bench.call(ListGroups(), ListResult).groups == (
        ListedGroup(group_id=GROUP, protocol_type="", state="Empty", group_type="classic"),
    )


def test_groups_are_listed_by_state_and_type() -> None:
    bench = Bench()
    bench.stable()
    bench.commit(1, group_id="simple")
    assert names(bench, ListGroups()) == [GROUP, "simple"]
    assert names(bench, ListGroups(states=frozenset({"stable", "Dead"}))) == [GROUP]
    assert names(bench, ListGroups(states=frozenset({"Empty"}))) == ["simple"]
    assert names(bench, ListGroups(types=frozenset({"Classic"}))) == [GROUP, "simple"]
    assert names(bench, ListGroups(types=frozenset({"consumer"}))) == []


def test_a_list_is_not_whole_while_a_partition_is_loaded() -> None:
    bench = Bench()
    bench.commit(1)
    bench.coordinator.begin_load(1, 1)
    result = bench.call(ListGroups(), ListResult)
    assert result.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.coordinator.finish_load(1, 1)
    assert bench.call(ListGroups(), ListResult).error is NONE
