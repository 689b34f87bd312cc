"""JoinGroup and the rebalance: who gets in, who leads, and when a generation begins."""

from __future__ import annotations

import pytest

from tests.partition.groups.bench import GROUP, NONE, RANGE, Bench, a_join, a_leave, a_sync, offsets_to_commit
from zab.kafka.coordinator_records import encode_key, encode_value
from zab.kafka.errors import ErrorCode
from zab.partition.groups.group import GENERATION_MAX, GroupState
from zab.partition.groups.records import LoadedRecord
from zab.partition.groups.requests import Heartbeat, Protocol
from zab.partition.groups.results import HeartbeatResult, JoinResult
from zab.partition.settings.broker_settings import GroupSettings

# -------------------------------------------------------------------------------------------------------------- checks


def test_a_group_needs_an_id() -> None:
    assert Bench().call(a_join(group_id=""), JoinResult).error is ErrorCode.INVALID_GROUP_ID


def test_a_group_that_is_being_loaded_is_not_ready() -> None:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    assert bench.call(a_join(), JoinResult).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_another_broker_coordinates_the_group() -> None:
    bench = Bench(partition_for=lambda group_id: 7)
    assert bench.call(a_join(), JoinResult).error is ErrorCode.NOT_COORDINATOR


def test_a_broker_that_stops_takes_no_members() -> None:
    bench = Bench()
    bench.coordinator.stop()
    assert bench.call(a_join(), JoinResult).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("ms", "is_valid"), [(5999, False), (6000, True), (1_800_000, True), (1_800_001, False)])
def test_the_session_timeout_is_within_its_limits(ms: int, is_valid: bool) -> None:
    error = Bench().call(a_join(session_timeout_ms=ms), JoinResult).error
    assert error is (ErrorCode.MEMBER_ID_REQUIRED if is_valid else ErrorCode.INVALID_SESSION_TIMEOUT)


def test_a_member_id_without_a_group_is_unknown_and_makes_none() -> None:
    bench = Bench()
    assert bench.call(a_join("c-1"), JoinResult).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not bench.has_group()


@pytest.mark.parametrize("changes", [{"protocols": ()}, {"protocol_type": ""}])
def test_protocols_have_a_type_and_there_is_one(changes: dict[str, object]) -> None:
    bench = Bench()
    assert bench.call(a_join(**changes), JoinResult).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not bench.has_group(), "nothing is kept for a join that was refused"


def test_members_have_one_type_of_protocols() -> None:
    bench = Bench()
    bench.stable()
    assert bench.call(a_join(protocol_type="connect"), JoinResult).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_members_share_a_protocol_with_all_others() -> None:
    bench = Bench()
    bench.stable(2, protocols=(Protocol("a", b""), Protocol("b", b"")))
    refused = bench.call(a_join(protocols=(Protocol("c", b""),)), JoinResult)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    third = bench.member(protocols=(Protocol("b", b""),))
    bench.join(third, protocols=(Protocol("b", b""),))
    only_a = bench.call(a_join(protocols=(Protocol("a", b""),)), JoinResult)
    assert only_a.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not all support a any longer"


def test_an_empty_group_takes_any_type() -> None:
    bench = Bench()
    (member,) = bench.stable()
    bench.wait(20_000)
    assert bench.state is GroupState.EMPTY
    token = bench.join(bench.member(protocol_type="connect"), protocol_type="connect")
    bench.wait(3000)
    assert bench.joined(token).protocol_type == "connect"
    assert bench.joined(token).generation == member.generation + 2


# ---------------------------------------------------------------------------------------------------------- new members


def test_a_new_dynamic_member_is_told_its_id_first() -> None:
    bench = Bench()
    result = bench.call(a_join(client_id="app"), JoinResult)
    assert (result.error, result.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "app-0001")
    assert result.generation == -1
    token = bench.join(result.member_id)
    assert bench.state is GroupState.PREPARING_REBALANCE
    bench.wait(3000)
    assert bench.joined(token).error is NONE


def test_an_old_client_is_added_at_once() -> None:
    bench = Bench()
    token = bench.join(requires_member_id=False)
    bench.wait(3000)
    result = bench.joined(token)
    assert (result.error, result.member_id, result.leader) == (NONE, "c-0001", "c-0001")


def test_an_id_that_is_not_used_within_the_session_timeout_is_forgotten() -> None:
    bench = Bench()
    member_id = bench.member()
    bench.wait(9999)
    assert member_id in bench.group().pending
    bench.wait(1)
    assert not bench.has_group()
    assert bench.call(a_join(member_id), JoinResult).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_out_is_not_a_static_members() -> None:
    bench = Bench()
    result = bench.call(a_join(bench.member(), group_instance_id="i"), JoinResult)
    assert result.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unknown_member_is_told_so() -> None:
    bench = Bench()
    bench.stable()
    assert bench.call(a_join("c-9999"), JoinResult).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_that_hears_nothing_for_five_minutes_is_dropped() -> None:
    bench = Bench()
    (old,) = bench.stable(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    token = bench.join(requires_member_id=False)
    bench.wait(299_999)
    assert bench.is_open(token)
    bench.wait(1)
    assert bench.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(bench.group().members) == [old.member_id]


def test_a_known_member_waits_longer_than_its_session() -> None:
    bench = Bench()
    first, second = bench.stable(2, rebalance_timeout_ms=400_000)
    token = bench.join(first.member_id, protocols=(Protocol("range", b"new"),), rebalance_timeout_ms=400_000)
    for _ in range(40):
        bench.wait(9000)
        assert bench.beat(second.member_id, second.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.is_open(token)
    bench.wait(40_000)
    assert bench.joined(token).error is NONE
    assert bench.joined(token).generation == first.generation + 1


# ------------------------------------------------------------------------------------------------------ the first wait


def test_an_empty_group_waits_for_more_members() -> None:
    bench = Bench()
    token = bench.join(bench.member())
    bench.wait(2999)
    assert bench.is_open(token)
    bench.wait(1)
    assert bench.joined(token).generation == 1


def test_each_new_member_extends_the_first_wait() -> None:
    bench = Bench()
    first = bench.join(bench.member())
    bench.wait(2000)
    second = bench.join(bench.member())
    bench.wait(1000)
    assert bench.is_open(first)
    bench.wait(2999)
    assert bench.is_open(first)
    bench.wait(1)
    assert bench.joined(first).generation == bench.joined(second).generation == 1
    assert len(bench.joined(first).members) == 2


def test_the_first_wait_ends_with_the_rebalance_timeout() -> None:
    bench = Bench()
    first = bench.join(bench.member(rebalance_timeout_ms=7000), rebalance_timeout_ms=7000)
    for _ in range(6):
        bench.wait(1000)
        bench.join(bench.member())
    bench.wait(999)
    assert bench.is_open(first)
    bench.wait(1)
    assert len(bench.joined(first).members) == 7


def test_without_a_first_wait_the_member_is_alone() -> None:
    bench = Bench(GroupSettings(initial_delay_ms=0))
    token = bench.join(bench.member())
    bench.wait(0)
    assert bench.joined(token).generation == 1


def test_nobody_is_left_at_the_end_of_the_first_wait() -> None:
    bench = Bench()
    token = bench.join(requires_member_id=False)
    bench.wait(1000)
    member_id = next(iter(bench.group().members))
    bench.ask(a_leave(member_id))
    assert bench.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.wait(2000)
    assert (bench.state, bench.group().generation) == (GroupState.EMPTY, 1)


# -------------------------------------------------------------------------------------------------------- a rebalance


def test_only_the_leader_is_told_the_members() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    assert first.leader == second.leader == first.member_id
    assert [each.member_id for each in first.members] == [first.member_id, second.member_id]
    assert [each.metadata for each in first.members] == [b"r", b"r"]
    assert second.members == ()


def test_a_generation_begins_as_soon_as_all_have_joined() -> None:
    bench = Bench()
    (first,) = bench.stable()
    second = bench.join(bench.member())
    assert bench.state is GroupState.PREPARING_REBALANCE
    again = bench.join(first.member_id)
    assert bench.joined(again).generation == bench.joined(second).generation == first.generation + 1
    assert bench.state is GroupState.COMPLETING_REBALANCE


def test_a_generation_waits_for_ids_that_were_given_out() -> None:
    bench = Bench()
    (first,) = bench.stable()
    pending = bench.member()
    again = bench.join(first.member_id)
    assert bench.is_open(again)
    second = bench.join(pending)
    assert bench.joined(again).generation == bench.joined(second).generation


def test_an_id_that_is_given_back_ends_the_wait_for_it() -> None:
    bench = Bench()
    (first,) = bench.stable()
    pending = bench.member()
    again = bench.join(first.member_id)
    bench.ask(a_leave(pending))
    assert bench.joined(again).error is NONE


def test_the_longest_rebalance_timeout_of_all_members_counts() -> None:
    bench = Bench()
    bench.stable(2, session_timeout_ms=1_800_000)
    token = bench.join(bench.member(), rebalance_timeout_ms=90_000)
    bench.wait(89_999)
    assert bench.is_open(token)
    bench.wait(1)
    assert bench.joined(token).error is NONE


def test_version_0_has_its_session_timeout_for_a_rebalance() -> None:
    bench = Bench()
    bench.join(rebalance_timeout_ms=-1, session_timeout_ms=12_000)
    assert bench.group().pending
    token = bench.join(next(iter(bench.group().pending)), rebalance_timeout_ms=-1, session_timeout_ms=12_000)
    assert bench.is_open(token)
    assert bench.group().rebalance_timeout_ms == 12_000


def test_dynamic_members_that_do_not_come_are_dropped() -> None:
    bench = Bench()
    first, second = bench.stable(2, session_timeout_ms=1_800_000)
    token = bench.join(second.member_id, protocols=(Protocol("range", b"x"),))
    bench.wait(60_000)
    assert bench.joined(token).leader == second.member_id, "the leader did not come"
    assert list(bench.group().members) == [second.member_id]
    assert bench.beat(first.member_id, first.generation) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_leader_stays_if_it_comes_again() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    bench.join(second.member_id, protocols=(Protocol("range", b"x"),))
    token = bench.join(first.member_id)
    assert bench.joined(token).leader == first.member_id
    assert [each.metadata for each in bench.joined(token).members] == [b"r", b"x"]


def test_if_nobody_but_static_members_is_left_and_none_came_it_waits_on() -> None:
    bench = Bench()
    static = [bench.join(group_instance_id=each, session_timeout_ms=1_800_000) for each in ("i", "j")]
    bench.wait(6000)
    first, second = (bench.joined(each) for each in static)
    bench.sync(first, a=b"A")
    bench.sync(second)
    bench.ask(a_leave(""))  # nobody: nothing changes
    dynamic = bench.member()
    joined = bench.join(dynamic)
    bench.ask(a_leave(dynamic))
    assert bench.joined(joined).error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.wait(200_000)
    assert bench.state is GroupState.PREPARING_REBALANCE
    assert bench.group().generation == first.generation
    token = bench.join(second.member_id, group_instance_id="j", session_timeout_ms=1_800_000)
    bench.wait(60_000)
    assert bench.joined(token).leader == second.member_id, "the leader did not come, and stays a member"
    assert list(bench.group().members) == [first.member_id, second.member_id]


def test_waiting_on_without_any_rebalance_timeout_does_not_spin() -> None:
    bench = Bench()
    token = bench.join(group_instance_id="i", session_timeout_ms=30_000)
    bench.wait(3000)
    bench.sync(bench.joined(token), a=b"A")
    bench.join(group_instance_id="i", session_timeout_ms=30_000, rebalance_timeout_ms=0)
    bench.join(requires_member_id=False, rebalance_timeout_ms=0)
    bench.ask(a_leave(list(bench.group().members)[1]))
    bench.wait(0)
    turns = 0
    while bench.state is GroupState.PREPARING_REBALANCE and turns < 1000:
        bench.wait(bench.coordinator.next_deadline() - bench.now)
        turns += 1
    assert bench.state is GroupState.EMPTY, "its session has ended"
    assert turns < 200, "about one a second, and those of the timing wheel"


def test_the_generation_wraps() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.group().generation = GENERATION_MAX
    token = bench.join(first.member_id)
    assert bench.joined(token).generation == 0


def test_the_protocol_with_most_votes_among_those_of_all_is_chosen() -> None:
    x, y, z = (Protocol(name, name.encode()) for name in "xyz")
    bench = Bench()
    lists = ((z, y, x), (x, y), (y, x))
    tokens = [bench.join(bench.member(protocols=each), protocols=each) for each in lists]
    bench.wait(6000)
    first = bench.joined(tokens[0])
    assert first.protocol_name == "y", "z is not for all; y has two votes, x has one"
    assert [each.metadata for each in first.members] == [b"y", b"y", b"y"]


def test_at_a_tie_the_oldest_member_decides() -> None:
    a, b = Protocol("a", b""), Protocol("b", b"")
    bench = Bench()
    tokens = [bench.join(bench.member(protocols=protocols), protocols=protocols) for protocols in ((b, a), (a, b))]
    bench.wait(6000)
    assert [bench.joined(each).protocol_name for each in tokens] == ["b", "b"]


def test_a_second_join_takes_the_place_of_the_first_which_is_answered() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    lost = bench.join(first.member_id)
    again = bench.join(first.member_id)
    assert bench.joined(lost).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.is_open(again)
    bench.join(second.member_id)
    assert bench.joined(again).error is NONE


# ------------------------------------------------------------------------------------------------ joining in each state


def _completing() -> tuple[Bench, JoinResult, JoinResult]:
    bench = Bench()
    tokens = [bench.join(bench.member()) for _ in range(2)]
    bench.wait(6000)
    first, second = (bench.joined(each) for each in tokens)
    assert bench.state is GroupState.COMPLETING_REBALANCE
    return bench, first, second


def test_in_completing_rebalance_a_lost_answer_is_repeated() -> None:
    bench, first, second = _completing()
    assert bench.call(a_join(first.member_id), JoinResult) == first
    assert bench.call(a_join(second.member_id), JoinResult) == second
    assert first.members
    assert not second.members


def test_in_completing_rebalance_other_metadata_begin_a_rebalance() -> None:
    bench, first, second = _completing()
    waiting = bench.ask(a_sync(second.member_id, second.generation))
    token = bench.join(first.member_id, protocols=(Protocol("range", b"x"),))
    assert bench.is_open(token)
    assert bench.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.state is GroupState.PREPARING_REBALANCE


def test_in_stable_a_follower_gets_the_present_generation_again() -> None:
    bench = Bench()
    _, second = bench.stable(2)
    assert bench.call(a_join(second.member_id), JoinResult) == second
    assert bench.state is GroupState.STABLE


def test_in_stable_a_leader_that_joins_again_wants_a_rebalance() -> None:
    bench = Bench()
    first, _ = bench.stable(2)
    assert bench.is_open(bench.join(first.member_id))
    assert bench.state is GroupState.PREPARING_REBALANCE


def test_in_stable_a_follower_with_other_metadata_begins_a_rebalance() -> None:
    bench = Bench()
    _, second = bench.stable(2)
    assert bench.is_open(bench.join(second.member_id, protocols=(Protocol("range", b"x"),)))
    assert bench.state is GroupState.PREPARING_REBALANCE


def test_in_preparing_rebalance_metadata_are_updated() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    bench.join(first.member_id)
    bench.join(second.member_id, protocols=(Protocol("range", b"x"),))
    assert bench.group().members[second.member_id].metadata("range") == b"x"


def test_an_empty_group_does_not_know_its_old_members() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.wait(20_000)
    assert bench.state is GroupState.EMPTY
    assert bench.call(a_join(first.member_id), JoinResult).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_not_needed_while_a_join_waits() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    token = bench.join(first.member_id)
    for _ in range(6):
        bench.wait(9000)
        bench.call(Heartbeat(group_id=GROUP, generation=second.generation, member_id=second.member_id), HeartbeatResult)
    assert bench.is_open(token)
    assert first.member_id in bench.group().members


# ---------------------------------------------------------------------------------------------------------------- size


def test_a_group_has_at_most_so_many_members() -> None:
    bench = Bench(GroupSettings(members_max=2))
    first, _ = bench.stable(2)
    result = bench.call(a_join(), JoinResult)
    assert (result.error, result.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert bench.is_open(bench.join(first.member_id)), "its own members may come again"


def test_in_a_rebalance_the_last_ones_do_not_get_in() -> None:
    bench = Bench()
    first, second, third = bench.stable(3)
    smaller = Bench(GroupSettings(members_max=2))
    smaller.log, smaller.end = bench.log, bench.end
    smaller.coordinator.unload(0, 2)
    smaller.lead(0, 3)
    assert smaller.state is GroupState.PREPARING_REBALANCE, "a group that is too large is gathered at once"
    tokens = [smaller.join(each.member_id) for each in (third, first, second)]
    assert smaller.joined(tokens[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [smaller.joined(each).error for each in tokens[:2]] == [NONE, NONE]
    assert sorted(smaller.group().members) == [first.member_id, third.member_id]


def test_not_more_ids_are_given_out_than_a_group_has_room_for() -> None:
    bench = Bench(GroupSettings(members_max=2))
    bench.member()
    bench.member()
    assert bench.call(a_join(), JoinResult).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_members_support_each_protocol_once() -> None:
    bench = Bench()
    token = bench.join(bench.member(), protocols=RANGE + RANGE)
    bench.wait(3000)
    assert bench.joined(token).protocol_name == "range"


def test_what_a_member_tells_has_a_size() -> None:
    bench = Bench()
    large = Protocol("a", bytes(1 << 19))
    assert bench.call(a_join(protocols=(large, large)), JoinResult).error is ErrorCode.MEMBER_ID_REQUIRED
    result = bench.call(a_join(protocols=(large, large, Protocol("b", b"x"))), JoinResult)
    assert result.error is ErrorCode.MESSAGE_TOO_LARGE


def test_a_member_id_has_room_in_a_record() -> None:
    bench = Bench()
    assert bench.member(client_id="ä" * 16_383) == "ä" * 1000 + "-0001"
    token = bench.join(group_instance_id="i" * 32_767)
    bench.wait(3000)
    assert bench.joined(token).member_id == "i" * 1000 + "-0002"


TOO_LONG = ("x" * 32_768, "ä" * 16_384)


@pytest.mark.parametrize("text", TOO_LONG)
def test_what_records_have_no_room_for_is_refused(text: str) -> None:
    bench = Bench()
    invalid = ErrorCode.INVALID_REQUEST
    assert bench.call(a_join(group_id=text), JoinResult).error is ErrorCode.INVALID_GROUP_ID
    assert bench.committed(group_id=text) is ErrorCode.INVALID_GROUP_ID
    for field in ("client_id", "client_host", "group_instance_id", "protocol_type"):
        assert bench.call(a_join(**{field: text}), JoinResult).error is invalid
    assert bench.call(a_join(protocols=(Protocol(text, b""),)), JoinResult).error is invalid
    assert bench.call(a_join(client_id=text[:-1]), JoinResult).error is ErrorCode.MEMBER_ID_REQUIRED
    assert not bench.has_group() or not bench.group().members


def test_metadata_that_records_have_no_room_for_are_refused() -> None:
    bench = Bench(GroupSettings(metadata_bytes_max=1 << 20))
    assert bench.committed(offsets=offsets_to_commit(1, metadata="x" * 32_767)) is NONE
    error = bench.committed(offsets=offsets_to_commit(1, metadata="x" * 32_768))
    assert error is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_every_record_of_the_longest_names_can_be_written() -> None:
    bench = Bench()
    longest = "x" * 32_767
    protocols = (Protocol(longest, b""),)
    changes = {"client_id": longest, "client_host": longest, "protocol_type": longest, "protocols": protocols}
    bench.stable(**changes)
    for each in bench.log:
        assert isinstance(each, LoadedRecord)
        assert each.key is not None
        assert each.value is not None
        assert encode_key(each.key)
        assert encode_value(each.value)
