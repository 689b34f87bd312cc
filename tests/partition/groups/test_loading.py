"""Loading and unloading: a coordinator that reads the log knows what the one before knew, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from tests.partition.groups.bench import GROUP, NONE, WALL, Bench, a_join, a_leave, a_sync, offsets_to_commit, snapshot
from tests.partition.groups.consumers import ConsumerBench
from zab.kafka.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupValue,
    MemberAssignmentKey,
    MemberKey,
    MemberValue,
    TargetKey,
    TargetValue,
)
from zab.kafka.consumer_protocol import Subscription, encode_subscription
from zab.kafka.coordinator_records import (
    GroupKey,
    GroupMember,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_consumer_offsets_key,
    decode_group_value,
    decode_offset_value,
    encode_key,
    encode_value,
)
from zab.kafka.errors import ErrorCode
from zab.partition.consumer_groups.state import ConsumerGroup, ConsumerMember
from zab.partition.groups.group import GroupState
from zab.partition.groups.records import Key, LoadedRecord, Value
from zab.partition.groups.requests import DeleteGroups, ListGroups, OffsetCommit
from zab.partition.groups.results import CommitResult, DeleteResult, JoinResult, ListResult
from zab.partition.settings.broker_settings import GroupSettings

NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def record(position: int, key: Key | None, value: Value | None, **changes: Any) -> LoadedRecord:
    return LoadedRecord(position=position, key=key, value=value, **changes)


def offset_record(position: int, offset: int | None, topic: str = "t", **changes: Any) -> LoadedRecord:
    value = None if offset is None else OffsetValue(offset=offset, metadata="", commit_timestamp=WALL)
    return record(position, OffsetKey(group=GROUP, topic=topic, partition=0), value, **changes)


def loaded(*entries: LoadedRecord) -> Bench:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    bench.coordinator.load(0, 2, entries)
    bench.coordinator.finish_load(0, 2)
    bench._drain()
    return bench


# ------------------------------------------------------------------------------------------------------------- loading


def test_a_stable_group_goes_on_where_it_is_loaded() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    bench.commit(7, member_id=first.member_id, generation=1)
    other = bench.reloaded()
    assert snapshot(other.coordinator) == snapshot(bench.coordinator)
    assert other.state is GroupState.STABLE
    assert other.beat(second.member_id, 1) is NONE
    assert other.synced(other.sync(second)).assignment == b"1"
    assert other.offset() == 7
    assert other.group().leader == first.member_id


def test_what_is_loaded_has_gone_through_bytes() -> None:
    bench = Bench()
    bench.stable(2)
    bench.commit(7)
    bench.commit(offsets=offsets_to_commit(8, "u", metadata="md", leader_epoch=3))
    entries = []
    for each in bench.log:
        assert isinstance(each, LoadedRecord)
        assert each.key is not None
        assert each.value is not None
        key = decode_consumer_offsets_key(encode_key(each.key))
        data = encode_value(each.value)
        value = decode_group_value(data) if isinstance(key, GroupKey) else decode_offset_value(data)
        entries.append(record(each.position, key, value))
    assert snapshot(loaded(*entries).coordinator) == snapshot(bench.coordinator)


def test_members_get_a_whole_session() -> None:
    bench = Bench()
    bench.stable()
    bench.wait(9000)
    other = bench.reloaded()
    other.wait(9999)
    assert other.state is GroupState.STABLE
    other.wait(1)
    assert other.state is GroupState.EMPTY


def test_static_members_are_known_again() -> None:
    bench = Bench()
    token = bench.join(group_instance_id="i")
    bench.wait(3000)
    first = bench.joined(token)
    bench.sync(first, a=b"A")
    other = bench.reloaded()
    again = other.call(a_join(group_instance_id="i"), JoinResult)
    assert (again.error, again.generation) == (NONE, 1)
    assert other.beat(first.member_id, 1, "i") is ErrorCode.FENCED_INSTANCE_ID


def test_a_generation_that_was_not_stored_is_not_known() -> None:
    bench = Bench()
    (first,) = bench.stable()
    again = bench.joined(bench.join(first.member_id))
    assert again.generation == 2
    other = bench.reloaded()
    assert other.synced(other.sync(again)).error is ErrorCode.ILLEGAL_GENERATION
    assert other.beat(first.member_id, 1) is NONE


def test_an_empty_group_keeps_its_generation_and_since_when_it_is_empty() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.ask(a_leave(first.member_id))
    since = bench.group().state_timestamp
    bench.wait(5000)
    other = bench.reloaded()
    assert (other.state, other.group().generation, other.group().state_timestamp) == (GroupState.EMPTY, 2, since)


def test_the_last_record_of_a_key_wins() -> None:
    assert loaded(offset_record(1, 5), offset_record(2, 3)).offset() == 3


def test_a_tombstone_removes() -> None:
    bench = loaded(offset_record(1, 5), offset_record(2, 6, "u"), offset_record(3, None))
    assert (bench.offset(), bench.offset("u")) == (-1, 6)
    assert not loaded(offset_record(1, 5), offset_record(2, None)).has_group()
    value = GroupValue(protocol_type="consumer", generation=3, protocol=None, leader=None, members=())
    group = record(1, GroupKey(group=GROUP), value)
    assert loaded(group).group().generation == 3
    assert not loaded(group, record(2, GroupKey(group=GROUP), None)).has_group()


def test_keys_of_other_kinds_are_skipped() -> None:
    assert loaded(offset_record(1, 5), record(2, None, None)).offset() == 5


def test_a_transaction_that_is_open_is_held() -> None:
    bench = loaded(offset_record(1, 5), offset_record(2, 6, producer_id=9))
    assert bench.offset() == 5
    assert bench.offset(require_stable=True) == -100 - ErrorCode.UNSTABLE_OFFSET_COMMIT
    bench.mark(9, True)
    assert bench.offset() == 6


def test_old_records_without_a_rebalance_timeout_have_that_of_the_session() -> None:
    member = GroupMember(
        member_id="m", client_id="c", client_host="/h", session_timeout=9000, subscription=b"", assignment=b"A"
    )
    value = GroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m", members=(member,))
    bench = loaded(record(1, GroupKey(group=GROUP), value))
    assert bench.group().members["m"].rebalance_timeout_ms == 9000


def test_members_that_the_log_names_twice_are_loaded_once() -> None:
    member = GroupMember(
        member_id="m", client_id="c", client_host="/h", session_timeout=9000, subscription=b"", assignment=b""
    )
    static = evolve(member, member_id="n", group_instance_id="i")
    members = (member, member, static, evolve(static, member_id="o"))
    value = GroupValue(protocol_type="consumer", generation=3, protocol="range", leader="o", members=members)
    group = loaded(record(1, GroupKey(group=GROUP), value)).group()
    assert (list(group.members), group.leader) == (["m", "n"], "m")
    group.check()


def loaded_consumers(**members: MemberValue) -> ConsumerBench:
    """A group of KIP-848 in epoch 1 with these members, which own nothing."""
    entries: list[tuple[Any, Any]] = [(ConsumerGroupKey(group_id=GROUP), ConsumerGroupValue(epoch=1, metadata_hash=0))]
    entries.append((TargetKey(group_id=GROUP), TargetValue(assignment_epoch=1)))
    for name, value in members.items():
        entries.append((MemberKey(group_id=GROUP, member_id=name), value))
        key = MemberAssignmentKey(group_id=GROUP, member_id=name)
        entries.append((key, ConsumerMember("", epoch=1).assignment_value()))
    bench = ConsumerBench(GroupSettings(initial_delay_ms=0))
    bench.coordinator.begin_load(0, 2)
    bench.coordinator.load(0, 2, [record(at, *each) for at, each in enumerate(entries)])
    bench.coordinator.finish_load(0, 2)
    bench._drain()
    bench.group().check()
    return bench


def a_classic_value(instance_id: str | None = None, *names: str) -> MemberValue:
    metadata = encode_subscription(Subscription(topics=("t",)))
    protocols = tuple(ClassicProtocol(name=each, metadata=metadata) for each in names)
    classic = ClassicMemberMetadata(session_timeout_ms=10_000, supported_protocols=protocols)
    return ConsumerMember("", instance_id, rebalance_timeout_ms=1000, classic=classic).value()


def test_an_instance_is_the_member_that_the_log_names_last() -> None:
    value = a_classic_value("i", "range")
    bench = loaded_consumers(a=value, b=value, new=ConsumerMember("", "j", rebalance_timeout_ms=1000).value())
    assert bench.group().consumer.group.static == {"i": "b", "j": "new"}
    assert bench.beats("new", -1, instance_id="j").error is NONE
    assert bench.group().static == {"i": "b"}, "it is a classic group"
    assert bench.group().members.keys() == {"a", "b"}


def test_an_instance_that_a_member_no_longer_has_is_nobody() -> None:
    first = ConsumerMember("a", instance_id="i")
    group = ConsumerGroup(GROUP)
    for value in (first.value(), evolve(first, instance_id="j").value()):
        group.apply(MemberKey(group_id=GROUP, member_id="a"), value)
    assert group.static == {"j": "a"}


def test_a_member_without_a_protocol_does_not_speak_the_classic_one() -> None:
    bench = loaded_consumers(a=a_classic_value(), b=a_classic_value(None, "range"))
    assert bench.beat("a", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.synced(bench.ask(a_sync("a", 1))).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.synced(bench.ask(a_sync("b", 1))).protocol_name == "range"


def test_groups_get_14_while_they_are_loaded() -> None:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    assert bench.call(a_join(), JoinResult).error is LOADING
    assert bench.call(DeleteGroups(group_ids=(GROUP,)), DeleteResult).groups == ((GROUP, LOADING),)
    bench.coordinator.finish_load(0, 2)
    assert bench.call(a_join(), JoinResult).error is ErrorCode.MEMBER_ID_REQUIRED


# -------------------------------------------------------------------------------------------------------------- epochs


def test_the_result_of_an_older_epoch_is_dropped() -> None:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    bench.coordinator.load(0, 2, [offset_record(1, 5)])
    bench.coordinator.begin_load(0, 3)
    bench.coordinator.load(0, 2, [offset_record(2, 6, "u")])
    bench.coordinator.finish_load(0, 2)
    assert bench.call(a_join(), JoinResult).error is LOADING
    bench.coordinator.load(0, 3, [offset_record(3, 7)])
    bench.coordinator.finish_load(0, 3)
    assert (bench.offset(), bench.offset("u")) == (7, -1)


def test_an_older_load_does_not_begin() -> None:
    bench = Bench()
    bench.commit(5)
    bench.coordinator.begin_load(0, 1)
    assert bench.offset() == 5
    bench.coordinator.unload(0, 4)
    bench.coordinator.begin_load(0, 3)
    assert bench.call(a_join(), JoinResult).error is NOT_COORDINATOR


def test_an_epoch_is_loaded_although_it_was_heard_of_before_it_was_known_who_leads() -> None:
    bench = Bench()
    bench.coordinator.unload(0, 4)
    bench.lead(0, 4)
    assert bench.committed(5) is NONE
    bench.coordinator.begin_load(0, 4)
    assert bench.offset() == 5, "it is loaded already"


def test_an_older_unload_does_not_count() -> None:
    bench = Bench()
    bench.lead(0, 5)
    bench.coordinator.unload(0, 4)
    assert bench.committed() is NONE
    bench.coordinator.unload(0, 5)
    assert bench.committed() is NOT_COORDINATOR


def test_a_load_that_is_overtaken_by_an_unload_ends() -> None:
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    bench.coordinator.unload(0, 3)
    bench.coordinator.load(0, 2, [offset_record(1, 5)])
    bench.coordinator.finish_load(0, 2)
    assert bench.call(a_join(), JoinResult).error is NOT_COORDINATOR


def test_a_new_epoch_of_the_same_leader_reads_again() -> None:
    bench = Bench()
    first, _ = bench.stable(2)
    token = bench.join(first.member_id)
    before = snapshot(bench.reloaded().coordinator)
    bench.lead(0, 7)
    assert bench.joined(token).error is NOT_COORDINATOR
    assert snapshot(bench.coordinator) == before


def test_an_append_names_the_epoch_of_its_partition() -> None:
    bench = Bench(holds=True)
    bench.lead(0, 7)
    bench.commit()
    assert bench.appends[0].leader_epoch == 7


# ----------------------------------------------------------------------------------------------------------- unloading


def test_what_waits_is_told_to_look_for_the_new_coordinator() -> None:
    bench = Bench()
    first, second = bench.stable(2)
    joining = bench.join(first.member_id)
    bench.holds = True
    committing = bench.commit(5, member_id=second.member_id, generation=1)
    (append,) = bench.appends
    bench.coordinator.unload(0, 2)
    bench._drain()
    assert bench.joined(joining).error is NOT_COORDINATOR
    assert bench.answers[committing].partitions[0].error is NOT_COORDINATOR
    bench.coordinator.on_appended(0, append.append_id, bench.write(append))
    bench.wait(100_000)
    assert bench.coordinator.waiting_count == 0
    assert bench.beat(first.member_id, 1) is NOT_COORDINATOR


def test_a_sync_that_waits_is_told_so_too() -> None:
    bench = Bench()
    tokens = [bench.join(bench.member()) for _ in range(2)]
    bench.wait(6000)
    bench.holds = True
    first, second = (bench.joined(each) for each in tokens)
    waiting = [bench.sync(second), bench.sync(first, a=b"A", b=b"B")]
    bench.coordinator.unload(0, 2)
    bench._drain()
    assert [bench.synced(each).error for each in waiting] == [NOT_COORDINATOR] * 2


def test_a_static_member_that_waits_to_be_stored_is_told_so_too() -> None:
    bench = Bench()
    token = bench.join(group_instance_id="i")
    bench.wait(3000)
    bench.sync(bench.joined(token), a=b"A")
    bench.holds = True
    waiting = bench.join(group_instance_id="i")
    bench.coordinator.unload(0, 2)
    bench._drain()
    assert bench.joined(waiting).error is NOT_COORDINATOR


def test_an_offset_that_was_not_committed_when_the_leader_changed_is_not_visible_here_again() -> None:
    """The new leader may have it or not: here it is known after a load, and only if the log has it."""
    bench = Bench(holds=True)
    bench.commit(1)
    bench.settle()
    bench.commit(2)
    (append,) = bench.appends
    bench.coordinator.unload(0, 2)
    bench.lead(0, 3)
    bench.coordinator.on_appended(0, append.append_id, 99)
    assert bench.offset() == 1


def test_a_deletion_under_way_is_answered() -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    token = bench.ask(DeleteGroups(group_ids=(GROUP,)))
    bench.coordinator.unload(0, 2)
    bench._drain()
    assert bench.answers[token].groups == ((GROUP, NOT_COORDINATOR),)


def test_other_partitions_stay() -> None:
    bench = Bench(partition_for=lambda group_id: int(group_id == "h"))
    bench.lead(1, 1)
    bench.commit(1)
    bench.commit(2, group_id="h")
    bench.coordinator.unload(0, 2)
    assert bench.committed() is NOT_COORDINATOR
    assert bench.offset(group_id="h") == 2
    assert [each.group_id for each in bench.call(ListGroups(), ListResult).groups] == ["h"]


def test_a_broker_that_stops_answers_everything_and_takes_nothing() -> None:
    bench = Bench()
    first, _ = bench.stable(2)
    joining = bench.join(first.member_id)
    bench.coordinator.stop()
    bench._drain()
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.joined(joining).error is unavailable
    request = OffsetCommit(group_id=GROUP, offsets=offsets_to_commit(1))
    assert bench.call(request, CommitResult).partitions[0].error is unavailable
    assert bench.beat(first.member_id, 1) is unavailable
    assert bench.call(a_sync(first.member_id, 1), object).error is unavailable  # type: ignore[attr-defined]
    bench.lead(0, 9)
    assert bench.call(a_join(), JoinResult).error is unavailable


@pytest.mark.parametrize("commits", [True, False])
def test_markers_are_loaded(commits: bool) -> None:
    bench = Bench()
    bench.log = [offset_record(1, 5), offset_record(2, 6, producer_id=9)]
    bench.end = 3
    bench.lead(0, 2)
    bench.mark(9, commits)
    other = bench.reloaded()
    assert other.offset(require_stable=True) == (6 if commits else 5)
