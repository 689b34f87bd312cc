"""How offsets and groups go away: expiry, DeleteGroups, OffsetDelete, deleted topics."""

from __future__ import annotations

import pytest

from tests.partition.groups.bench import (
    GROUP,
    NONE,
    WALL,
    Bench,
    a_leave,
    offsets_to_commit,
    snapshot,
)
from zab.kafka.consumer_protocol import Subscription, encode_subscription
from zab.kafka.coordinator_records import GroupKey, OffsetKey, OffsetValue
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator import context
from zab.partition.groups import tombstones
from zab.partition.groups.expiry import CHECK_INTERVAL_MS
from zab.partition.groups.group import GroupState
from zab.partition.groups.records import LoadedRecord
from zab.partition.groups.requests import DeleteGroups, OffsetDelete, Protocol, TxnOffsetCommit
from zab.partition.groups.results import DeleteResult, OffsetDeleteResult, PartitionError
from zab.partition.settings.broker_settings import GroupSettings

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
WEEK = 7 * DAY
CONSUMERS = (Protocol("range", encode_subscription(Subscription(topics=("t",)))),)


def same_after_load(bench: Bench) -> bool:
    return snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)


def keep_alive(bench: Bench, member_id: str, generation: int, ms: int) -> None:
    """Let time pass while a member with a session of half an hour sends heartbeats."""
    until = bench.now + ms
    while bench.now < until:
        bench.wait(min(25 * MINUTE, until - bench.now))
        assert bench.beat(member_id, generation) is NONE


def consumers(bench: Bench, protocols: tuple[Protocol, ...] = CONSUMERS) -> str:
    """A stable group of one member."""
    (first,) = bench.stable(protocols=protocols, session_timeout_ms=30 * MINUTE)
    return first.member_id


# -------------------------------------------------------------------------------------------------------------- expiry


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    bench = Bench()
    bench.commit(1)
    bench.wait(DAY)
    bench.commit(offsets=offsets_to_commit(2, "u"))
    bench.wait(WEEK - DAY - 1)
    assert bench.offset() == 1
    bench.wait(CHECK_INTERVAL_MS)
    assert (bench.offset(), bench.offset("u")) == (-1, 2)
    bench.wait(DAY)
    assert not bench.has_group()
    assert same_after_load(bench)


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    bench = Bench()
    member = consumers(bench)
    bench.commit(1, member_id=member, generation=1)
    keep_alive(bench, member, 1, 3 * DAY)
    bench.ask(a_leave(member))
    bench.wait(WEEK - CHECK_INTERVAL_MS)
    assert bench.offset() == 1
    bench.wait(2 * CHECK_INTERVAL_MS)
    assert not bench.has_group()
    last = [each.key for each in bench.log[-2:] if isinstance(each, LoadedRecord) and each.value is None]
    assert last == [OffsetKey(group=GROUP, topic="t", partition=0), GroupKey(group=GROUP)]
    assert same_after_load(bench)


def test_without_the_time_of_its_state_commits_count() -> None:
    bench = Bench()
    member = consumers(bench)
    bench.commit(1, member_id=member, generation=1)
    bench.ask(a_leave(member))
    bench.group().state_timestamp = -1
    bench.wait(WEEK + CHECK_INTERVAL_MS)
    assert not bench.has_group()


def test_consumers_keep_the_offsets_of_topics_that_they_subscribe_to() -> None:
    bench = Bench()
    member = consumers(bench)
    bench.commit(offsets=offsets_to_commit(1) + offsets_to_commit(2, "u"), member_id=member, generation=1)
    keep_alive(bench, member, 1, WEEK - CHECK_INTERVAL_MS)
    assert bench.offset("u") == 2
    keep_alive(bench, member, 1, 2 * CHECK_INTERVAL_MS)
    assert (bench.offset(), bench.offset("u")) == (1, -1)
    assert bench.state is GroupState.STABLE


def test_where_subscriptions_cannot_be_read_nothing_expires() -> None:
    bench = Bench()
    member = consumers(bench, (Protocol("range", b"?"),))
    bench.commit(offsets=offsets_to_commit(2, "u"), member_id=member, generation=1)
    keep_alive(bench, member, 1, WEEK + CHECK_INTERVAL_MS)
    assert bench.offset("u") == 2


def test_groups_of_other_types_keep_their_offsets_while_they_have_members() -> None:
    bench = Bench()
    (first,) = bench.stable(protocol_type="connect", session_timeout_ms=30 * MINUTE)
    bench.commit(offsets=offsets_to_commit(2, "u"), member_id=first.member_id, generation=1)
    keep_alive(bench, first.member_id, 1, WEEK + CHECK_INTERVAL_MS)
    assert bench.offset("u") == 2


def test_offsets_with_a_commit_under_way_stay() -> None:
    bench = Bench()
    bench.commit(1)
    bench.commit(offsets=offsets_to_commit(2, "u"))
    request = TxnOffsetCommit(group_id=GROUP, producer_id=9, producer_epoch=0, offsets=offsets_to_commit(3, "u"))
    bench.ask(request)
    bench.wait(WEEK - MINUTE)
    bench.holds = True
    bench.commit(4)
    bench.wait(CHECK_INTERVAL_MS)
    assert len(bench.appends) == 1, "the commit, and no tombstone"
    assert (bench.offset(), bench.offset("u")) == (1, 2)


def test_an_old_record_says_itself_when_it_expires() -> None:
    bench = Bench()
    value = OffsetValue(offset=5, metadata="", commit_timestamp=WALL, expire_timestamp=WALL + DAY)
    bench.log = [LoadedRecord(position=0, key=OffsetKey(group=GROUP, topic="t", partition=0), value=value)]
    bench.end = 1
    bench.lead(0, 2)
    bench.wait(DAY - 1)
    assert bench.offset() == 5
    bench.wait(CHECK_INTERVAL_MS)
    assert bench.offset() == -1


def test_a_group_that_is_empty_and_has_no_offsets_goes() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.ask(a_leave(first.member_id))
    bench.wait(CHECK_INTERVAL_MS)
    assert not bench.has_group()
    assert same_after_load(bench)


def test_nothing_is_removed_before_its_tombstone_is_committed() -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    bench.wait(WEEK + CHECK_INTERVAL_MS)
    assert bench.offset() == 1
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.offset() == 1
    bench.wait(CHECK_INTERVAL_MS)
    bench.settle()
    assert not bench.has_group()


def test_one_partition_after_the_other_is_looked_at() -> None:
    bench = Bench(partition_for=lambda group_id: len(group_id) - 1)
    for number in (1, 2):
        bench.lead(number, 1)
    for group_id in ("a", "bb", "ccc"):
        bench.commit(1, group_id=group_id)
    bench.wait(WEEK - 1)
    left = []
    for ms in (1, 10, 10):
        bench.wait(ms)
        left.append(sum(bench.has_group(each) for each in ("a", "bb", "ccc")))
    assert left == [2, 1, 0]
    assert WEEK < bench.coordinator.next_deadline() <= WEEK + CHECK_INTERVAL_MS


def test_the_retention_is_a_setting() -> None:
    bench = Bench(GroupSettings(offsets_retention_minutes=30))
    bench.commit(1)
    bench.wait(29 * MINUTE)
    assert bench.offset() == 1
    bench.wait(MINUTE)
    assert bench.offset() == -1


# -------------------------------------------------------------------------------------------------------- DeleteGroups


def test_only_an_empty_group_is_deleted() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.commit(1, member_id=first.member_id, generation=1)
    request = DeleteGroups(group_ids=(GROUP, "none", GROUP))
    refused = ((GROUP, ErrorCode.NON_EMPTY_GROUP), ("none", ErrorCode.GROUP_ID_NOT_FOUND))
    assert bench.call(request, DeleteResult).groups == refused
    bench.ask(a_leave(first.member_id))
    assert bench.call(request, DeleteResult).groups[0] == (GROUP, NONE)
    assert not bench.has_group()
    assert bench.offset() == -1
    assert same_after_load(bench)


def test_groups_of_others_are_refused_for_themselves() -> None:
    bench = Bench(partition_for=lambda group_id: 0 if group_id == GROUP else 7)
    bench.commit(1)
    request = DeleteGroups(group_ids=("h", GROUP))
    assert dict(bench.call(request, DeleteResult).groups) == {"h": ErrorCode.NOT_COORDINATOR, GROUP: NONE}
    assert bench.call(DeleteGroups(group_ids=()), DeleteResult).groups == ()


def test_a_deletion_is_answered_once_it_is_committed() -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    token = bench.ask(DeleteGroups(group_ids=(GROUP,)))
    assert bench.is_open(token)
    assert bench.offset() == 1
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert bench.answers[token].groups == ((GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),)
    assert bench.offset() == 1


def test_what_comes_after_the_tombstones_stays() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.commit(1, member_id=first.member_id, generation=1)
    bench.ask(a_leave(first.member_id))
    bench.holds = True
    bench.ask(DeleteGroups(group_ids=(GROUP,)))
    bench.commit(offsets=offsets_to_commit(2, "u"))
    bench.settle()
    assert (bench.offset(), bench.offset("u")) == (-1, 2)
    assert bench.group().protocol_type is None
    assert same_after_load(bench)


def test_a_group_that_comes_to_life_meanwhile_lives() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.ask(a_leave(first.member_id))
    bench.holds = True
    token = bench.ask(DeleteGroups(group_ids=(GROUP,)))
    joining = bench.join(requires_member_id=False)
    bench.settle()
    assert bench.answers[token].groups == ((GROUP, NONE),)
    bench.holds = False
    bench.wait(3000)
    result = bench.joined(joining)
    assert result.generation == 3
    bench.sync(result, a=b"A")
    assert same_after_load(bench)


def test_a_generation_that_came_and_went_meanwhile_is_not_forgotten() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.ask(a_leave(first.member_id))
    bench.holds = True
    bench.ask(DeleteGroups(group_ids=(GROUP,)))
    bench.join(requires_member_id=False)
    bench.ask(a_leave(next(iter(bench.group().members))))
    bench.wait(3000)
    bench.settle()
    assert bench.group().generation == 3
    assert same_after_load(bench)


def test_many_offsets_are_removed_by_several_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tombstones, "RECORDS_MAX", 2)
    bench = Bench()
    for index in range(5):
        bench.commit(offsets=offsets_to_commit(1, "t", index))
    bench.holds = True
    token = bench.ask(DeleteGroups(group_ids=(GROUP,)))
    assert [len(each.records) for each in bench.appends] == [2, 2, 1]
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS, count=1)
    bench.settle()
    assert bench.answers[token].groups == ((GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE),)
    assert [bench.offset("t", index) for index in range(5)] == [1, 1, -1, -1, -1]
    assert same_after_load(bench)


# -------------------------------------------------------------------------------------------------------- OffsetDelete


def delete(bench: Bench, *topics: str) -> OffsetDeleteResult:
    request = OffsetDelete(group_id=GROUP, partitions=tuple((each, 0) for each in topics))
    return bench.call(request, OffsetDeleteResult)


def test_offsets_of_topics_in_use_are_not_deleted() -> None:
    bench = Bench()
    member = consumers(bench)
    bench.commit(offsets=offsets_to_commit(1) + offsets_to_commit(2, "u"), member_id=member, generation=1)
    used = PartitionError("t", 0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete(bench, "t", "u").partitions == (used, PartitionError("u", 0))
    assert (bench.offset(), bench.offset("u")) == (1, -1)
    bench.ask(a_leave(member))
    assert delete(bench, "t").partitions == (PartitionError("t", 0),)
    assert bench.offset() == -1


def test_an_empty_group_goes_with_its_last_offset() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.commit(offsets=offsets_to_commit(1) + offsets_to_commit(2, "u"), member_id=first.member_id, generation=1)
    bench.ask(a_leave(first.member_id))
    assert delete(bench, "t").partitions == (PartitionError("t", 0),)
    assert (bench.offset("u"), bench.group().protocol_type) == (2, "consumer")
    assert delete(bench, "u").partitions == (PartitionError("u", 0),)
    assert not bench.has_group()
    assert same_after_load(bench)
    assert delete(bench, "u").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_stays_while_others_delete_what_it_does_not_have() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.ask(a_leave(first.member_id))
    assert delete(bench, "t").partitions == (PartitionError("t", 0),)
    assert bench.has_group()


def test_where_subscriptions_cannot_be_read_every_topic_may_be_in_use() -> None:
    bench = Bench()
    consumers(bench, (Protocol("range", b"?"),))
    assert delete(bench, "u").partitions[0].error is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def test_a_group_of_another_type_has_to_be_empty() -> None:
    bench = Bench()
    bench.stable(protocol_type="connect")
    assert delete(bench, "t").error is ErrorCode.NON_EMPTY_GROUP


def test_a_group_that_does_not_exist_has_no_offsets() -> None:
    assert delete(Bench(), "t").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_the_log_may_refuse_to_delete() -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    request = OffsetDelete(group_id=GROUP, partitions=(("t", 0), ("u", 0)))
    token = bench.ask(request)
    bench.settle(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert {each.error for each in bench.answers[token].partitions} == {ErrorCode.NOT_COORDINATOR}
    assert bench.offset() == 1


# ------------------------------------------------------------------------------------------------------ deleted topics


def test_offsets_of_deleted_topics_go_in_all_groups() -> None:
    bench = Bench()
    bench.commit(offsets=offsets_to_commit(1) + offsets_to_commit(2, "u"))
    bench.commit(3, group_id="h")
    bench.ask(TxnOffsetCommit(group_id="k", producer_id=9, producer_epoch=0, offsets=offsets_to_commit(4)))
    bench.holds = True
    bench.commit(5)
    bench.coordinator.on_topics_deleted(["t"])
    bench._drain()
    bench.settle()
    bench.mark(9, True)
    assert (bench.offset(), bench.offset("u")) == (-1, 2)
    assert [bench.offset(group_id=each) for each in "hk"] == [-1, -1]
    assert not bench.has_group("h")
    assert same_after_load(bench)


def test_an_empty_group_goes_with_the_last_of_its_topics() -> None:
    bench = Bench()
    (first,) = bench.stable()
    bench.commit(1, member_id=first.member_id, generation=1)
    bench.ask(a_leave(first.member_id))
    bench.coordinator.on_topics_deleted(["t"])
    bench._drain()
    assert not bench.has_group()
    assert same_after_load(bench)


# ---------------------------------------------------------------------------------------------------------- at the edge


def test_a_group_that_is_only_a_name_is_deleted_without_the_log() -> None:
    bench = Bench(holds=True)
    pending = bench.member()
    assert bench.call(DeleteGroups(group_ids=(GROUP,)), DeleteResult).groups == ((GROUP, NONE),)
    assert not bench.appends
    assert pending in bench.group().pending, "it may still come"


def test_two_deletions_at_once_are_one() -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    tokens = [bench.ask(DeleteGroups(group_ids=(GROUP,))) for _ in range(2)]
    bench.settle()
    assert [bench.answers[each].groups for each in tokens] == [((GROUP, NONE),)] * 2
    assert same_after_load(bench)


def test_nothing_expires_while_too_many_appends_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.commit(1)
    bench.wait(WEEK - CHECK_INTERVAL_MS)
    monkeypatch.setattr(context, "APPENDS_MAX", 0)
    bench.wait(2 * CHECK_INTERVAL_MS)
    assert bench.offset() == 1
    monkeypatch.undo()
    bench.wait(CHECK_INTERVAL_MS)
    assert not bench.has_group()


def test_another_broker_deletes_its_own_offsets() -> None:
    bench = Bench(partition_for=lambda group_id: 7)
    assert delete(bench, "t") == OffsetDeleteResult(error=ErrorCode.NOT_COORDINATOR)


def test_an_id_that_was_given_out_is_forgotten_with_its_partition() -> None:
    bench = Bench()
    bench.member()
    bench.coordinator.unload(0, 2)
    assert len(bench.coordinator._context.deadlines) == 0
