"""OffsetCommit and OffsetFetch: who may commit, when an offset is visible, and what the log's errors mean."""

from __future__ import annotations

from typing import Any

import pytest

from tests.partition.groups.bench import GROUP, NONE, WALL, Bench, a_commit, a_leave, offsets_to_commit, snapshot
from zab.kafka.coordinator_records import OffsetKey, OffsetValue
from zab.kafka.errors import ErrorCode
from zab.partition.coordinator import context
from zab.partition.groups.group import GroupState
from zab.partition.groups.records import LoadedRecord
from zab.partition.groups.requests import OffsetCommit, OffsetFetch, OffsetToCommit
from zab.partition.groups.results import CommitResult, FetchedOffset, FetchResult, JoinResult
from zab.partition.settings.broker_settings import GroupSettings

# ------------------------------------------------------------------------------------------------------ who may commit


def test_a_simple_consumer_makes_its_group() -> None:
    bench = Bench()
    assert bench.committed(5) is NONE
    assert (bench.state, bench.group().protocol_type) == (GroupState.EMPTY, None)
    assert bench.offset() == 5


def test_a_generation_of_a_group_that_does_not_exist_is_illegal() -> None:
    bench = Bench()
    assert bench.committed(generation=0, member_id="c-1") is ErrorCode.ILLEGAL_GENERATION
    assert not bench.has_group()


def test_an_administrator_commits_while_the_group_is_empty() -> None:
    bench = Bench()
    (first,) = bench.stable()
    assert bench.committed() is ErrorCode.UNKNOWN_MEMBER_ID
    bench.ask(a_leave(first.member_id))
    assert bench.committed() is NONE
    assert bench.committed(member_id="any") is NONE


def test_members_commit_in_their_generation() -> None:
    bench = Bench()
    (first,) = bench.stable()
    own: dict[str, Any] = {"member_id": first.member_id, "generation": 1}
    assert bench.committed(7, **own) is NONE
    assert bench.committed(**(own | {"generation": 2})) is ErrorCode.ILLEGAL_GENERATION
    assert bench.committed(**(own | {"generation": 0})) is ErrorCode.ILLEGAL_GENERATION
    assert bench.committed(**(own | {"generation": -1})) is ErrorCode.ILLEGAL_GENERATION
    assert bench.committed(**(own | {"member_id": "c-9"})) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.committed(generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.committed(**own, group_instance_id="i") is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.offset() == 7


def _rebalancing() -> tuple[Bench, JoinResult, JoinResult]:
    bench = Bench()
    first, second = bench.stable(2)
    bench.join(first.member_id)
    assert bench.state is GroupState.PREPARING_REBALANCE
    return bench, first, second


def test_in_preparing_rebalance_members_still_commit() -> None:
    bench, _, second = _rebalancing()
    assert bench.committed(3, member_id=second.member_id, generation=1) is NONE
    assert bench.offset() == 3


def test_in_completing_rebalance_nobody_commits() -> None:
    bench, _, second = _rebalancing()
    bench.join(second.member_id)
    assert bench.state is GroupState.COMPLETING_REBALANCE
    assert bench.committed(member_id=second.member_id, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.committed(member_id=second.member_id, generation=1) is ErrorCode.ILLEGAL_GENERATION


def test_errors_of_the_group_are_those_of_each_partition() -> None:
    bench = Bench()
    offsets = offsets_to_commit(1) + offsets_to_commit(2, "u", 3)
    bench.coordinator.begin_load(0, 2)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    result = bench.call(a_commit(offsets=offsets), CommitResult)
    assert [(each.topic, each.partition, each.error) for each in result.partitions] == [
        ("t", 0, loading),
        ("u", 3, loading),
    ]


def test_no_group_id_is_one_for_offsets() -> None:
    bench = Bench()
    assert bench.committed(4, group_id="") is NONE
    assert bench.offset(group_id="") == 4


# --------------------------------------------------------------------------------------------------- what is committed


def test_an_offset_comes_back_whole() -> None:
    bench = Bench()
    bench.commit(offsets=offsets_to_commit(42, leader_epoch=5, metadata="md"))
    request = OffsetFetch(group_id=GROUP, partitions=(("t", 0),))
    found = FetchedOffset(topic="t", partition=0, offset=42, leader_epoch=5, metadata="md")
    assert bench.call(request, FetchResult) == FetchResult(group_id=GROUP, offsets=(found,))
    (record,) = bench.log
    assert isinstance(record, LoadedRecord)
    assert record.key == OffsetKey(group=GROUP, topic="t", partition=0)
    assert record.value == OffsetValue(offset=42, leader_epoch=5, metadata="md", commit_timestamp=WALL)


def test_partitions_of_one_request_are_one_append() -> None:
    bench = Bench(holds=True)
    bench.commit(offsets=offsets_to_commit(1) + offsets_to_commit(2, "u", 3))
    (append,) = bench.appends
    assert len(append.records) == 2


def test_a_topic_that_does_not_exist_is_refused_for_itself() -> None:
    bench = Bench()
    offsets = offsets_to_commit(1, "gone") + offsets_to_commit(2) + offsets_to_commit(3, "t", 10)
    result = bench.call(a_commit(offsets=offsets), CommitResult)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error for each in result.partitions] == [unknown, NONE, unknown]
    assert bench.offset() == 2


def test_nothing_is_left_to_append() -> None:
    bench = Bench(holds=True)
    assert bench.committed(offsets=offsets_to_commit(1, "gone")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not bench.appends
    assert not bench.has_group()


@pytest.mark.parametrize(("metadata", "is_too_large"), [("m" * 9, True), ("m" * 8, False), ("ä" * 5, True)])
def test_metadata_have_a_size(metadata: str, is_too_large: bool) -> None:
    bench = Bench(GroupSettings(metadata_bytes_max=8))
    error = bench.committed(offsets=offsets_to_commit(1, metadata=metadata))
    assert error is (ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_large else NONE)


# ------------------------------------------------------------------------------------------------------- when it shows


def test_an_offset_is_visible_once_it_is_committed_and_not_before() -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    token = bench.commit(2)
    assert bench.is_open(token)
    assert bench.offset() == 1
    assert bench.offset(require_stable=True) == 1
    bench.settle()
    assert bench.offset() == 2
    assert not bench.is_open(token)


@pytest.mark.parametrize(
    ("log", "client"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_the_logs_errors_mean_for_a_commit(log: ErrorCode, client: ErrorCode) -> None:
    bench = Bench()
    bench.commit(1)
    bench.holds = True
    offsets = offsets_to_commit(2) + offsets_to_commit(1, "gone")
    token = bench.commit(offsets=offsets)
    bench.settle(log)
    result = bench.answers[token]
    assert [each.error for each in result.partitions] == [client, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert bench.offset() == 1


@pytest.mark.parametrize("error", [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND])
def test_what_is_committed_after_its_client_was_told_that_it_is_late_counts(error: ErrorCode) -> None:
    bench = Bench(holds=True)
    bench.commit(2)
    (append,) = bench.appends
    bench.settle(error)
    assert bench.offset() == -1
    bench.coordinator.on_appended(0, append.append_id, bench.write(append))
    bench._drain()
    assert bench.offset() == 2
    assert snapshot(bench.reloaded().coordinator) == snapshot(bench.coordinator)


def test_a_commit_that_failed_leaves_no_group() -> None:
    bench = Bench(holds=True)
    bench.commit(2)
    bench.settle(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert not bench.has_group()


def test_the_last_commit_in_the_log_wins() -> None:
    bench = Bench(holds=True)
    for offset in (5, 6, 3):
        bench.commit(offset)
    bench.settle(count=2)
    assert bench.offset() == 6
    bench.settle()
    assert bench.offset() == 3, "offsets may go back"


def test_while_too_many_appends_wait_the_coordinator_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "APPENDS_MAX", 2)
    bench = Bench(holds=True)
    first, _ = bench.commit(1), bench.commit(2)
    assert bench.committed(3) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.settle(count=1)
    assert bench.answers[first].partitions[0].error is NONE
    assert bench.is_open(bench.commit(4))
    bench.settle(ErrorCode.REQUEST_TIMED_OUT)
    assert bench.committed(5) is ErrorCode.COORDINATOR_NOT_AVAILABLE, "they are still in the log, undecided"


# ------------------------------------------------------------------------------------------------------------ fetching


def test_a_missing_offset_is_no_error() -> None:
    bench = Bench()
    missing = FetchedOffset(topic="t", partition=1)
    request = OffsetFetch(group_id=GROUP, partitions=(("t", 1),))
    assert bench.call(request, FetchResult) == FetchResult(group_id=GROUP, offsets=(missing,))
    assert (missing.offset, missing.leader_epoch, missing.metadata, missing.error) == (-1, -1, "", NONE)
    bench.commit(1)
    assert bench.call(request, FetchResult).offsets == (missing,)


def test_all_offsets_of_a_group() -> None:
    bench = Bench()
    request = OffsetFetch(group_id=GROUP, partitions=None)
    assert bench.call(request, FetchResult).offsets == ()
    bench.commit(offsets=offsets_to_commit(1) + offsets_to_commit(2, "u", 3))
    found = bench.call(request, FetchResult).offsets
    assert [(each.topic, each.partition, each.offset) for each in found] == [("t", 0, 1), ("u", 3, 2)]


def test_an_error_of_the_group_is_at_the_top_and_at_each_partition() -> None:
    request = OffsetFetch(group_id=GROUP, partitions=(("t", 0), ("u", 1)))
    bench = Bench(partition_for=lambda group_id: 7)
    result = bench.call(request, FetchResult)
    assert {result.error, *(each.error for each in result.offsets)} == {ErrorCode.NOT_COORDINATOR}
    assert len(result.offsets) == 2
    bench = Bench()
    bench.coordinator.begin_load(0, 2)
    assert bench.call(request, FetchResult).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.coordinator.stop()
    assert bench.call(request, FetchResult).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_partition_that_is_named_twice_in_a_commit_has_its_last_offset() -> None:
    bench = Bench()
    twice = (OffsetToCommit(topic="t", partition=0, offset=1), OffsetToCommit(topic="t", partition=0, offset=2))
    result = bench.call(OffsetCommit(group_id=GROUP, offsets=twice), CommitResult)
    assert [each.error for each in result.partitions] == [NONE, NONE]
    assert bench.offset() == 2
