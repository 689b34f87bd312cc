"""Scenarios of logs, waiting requests and coordinators, on whole simulated brokers (see `stories_of_replication`)."""

from __future__ import annotations

from typing import Any

from tests.simulator.brokers.story import Author, Story, topic
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    InitProducerIdRequest,
)
from zab.partition.links.messages import FollowerAnswered
from zab.simulator.brokers.client import errors_of
from zab.simulator.brokers.committed_offsets import GroupJudge
from zab.simulator.brokers.scripted_client import OF_GROUP, OF_TRANSACTION
from zab.simulator.world.schedule import MS
from zab.simulator.world.verdict import demand

LATE_MS = 5
"""How much later than its timeout an answer may arrive here."""
ASKS_MAX = 1000
"""So often a coordinator is asked, every 100 ms or more."""


def a_log_that_was_cut_is_read_anywhere() -> None:
    """The index of its segment does not know what is gone."""
    story = Story(topic("t", 2, index_interval_bytes=0))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    for number in range(6):
        story.write(f"a{number}", acks=1)
    story.move_to(2, 1)
    story.reconnect(1, 2)
    for number in range(8):
        story.write(f"b{number}", size_bytes=37)
    story.until(lambda: story.end(1) == 9)
    story.move_to(1, 2)
    for offset in range(9):
        error = ErrorCode(story.fetched(offset).error_code)
        demand(error is ErrorCode.NONE, "fetch is answered with an error that may be", f"{error.name} at {offset}")
    assert len(story.finish()) == 9


def who_waits_is_answered_in_time() -> None:
    """A fetch without data, for as long as it says."""
    story = Story(topic("t", 1), brokers=1)
    story.create(1)
    for max_wait_ms in (7, 45, 250, 900):
        began_us = story.schedule.now
        pending = story.fetch(0, max_wait_ms=max_wait_ms)
        story.until(lambda pending=pending: pending.is_over)  # type: ignore[misc]
        took_ms = (story.schedule.now - began_us) / MS
        text = f"{took_ms} ms for a fetch that waits for {max_wait_ms}"
        demand(max_wait_ms - 1 <= took_ms <= max_wait_ms + LATE_MS, "requests are answered in time", text)
    assert not story.finish()


def who_waits_is_answered_once() -> None:
    """A fetch that waits for data, and a produce that waits for followers."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    waiting = story.fetch(0, max_wait_ms=500)
    story.pass_time(20)
    story.write("0")
    story.until(lambda: waiting.is_over)
    assert story.fetched(0).records
    story.pass_time(600)
    assert list(story.finish().values()) == [b"0 "]


def a_batch_of_a_producer_is_known_on_a_replica_that_is_new() -> None:
    """Compaction leaves the last batch of each producer, also if its keys have newer values."""
    plan = topic("t", 1, cleanup_policy="compact", segment_bytes=1500, min_cleanable_dirty_ratio="0.01")
    story = Story(plan, lines="log.cleaner.backoff.ms=200\n")
    story.create(1)
    author = story.author(1)
    offset = story.write("own", by=author, key=b"k")
    for number in range(8):
        story.write(f"other{number}", key=b"k", size_bytes=700)
    size = story.replica(1).log.segments[0].size
    story.until(lambda: story.replica(1).log.segments[0].size < size)
    story.pass_time(1000)
    story.reassign(2)
    story.until(lambda: story.leads(2))
    assert story.write("own", by=author, sequence=0, key=b"k") == offset


def an_offset_counts_once_every_replica_in_sync_has_it() -> None:
    """The coordinator ends before a follower has copied the commit that it has appended."""
    story = Story(topic("t", 1), lines="offsets.topic.num.partitions=1\noffsets.topic.replication.factor=2\n")
    story.create(3)
    judge, place = GroupJudge(story.judge), ("g", "t", 0)
    first = _coordinator(story)
    _commit(story, judge, first, place, 1)
    holds = [story.hold(first, other, FollowerAnswered) for other in (1, 2, 3) if other != first]
    story.pass_time(1000)
    _commit(story, judge, first, place, 2)
    expectation = judge.expectation(place)
    story.kill(first)
    for hold in holds:
        story.forget(hold)
    story.until(lambda: first not in story.alive)
    second = _coordinator(story)
    wanted = (OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)
    body = OffsetFetchRequest(group_id="g", topics=wanted)
    [found] = _asked(story, second, body, 7).topics[0].partitions
    judge.fetched(place, expectation, found.committed_offset, found.metadata)


def s20_a_marker_that_is_not_committed() -> None:
    """KAFKA-9807: a transaction ends for readers once its marker is below the high watermark."""
    lines = "transaction.state.log.num.partitions=1\ntransaction.state.log.replication.factor=1\n"
    story = Story(topic("t", 2), lines=lines)
    story.create(1, 2)
    coordinator = _coordinator(story, "x", OF_TRANSACTION)
    begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    begun = _repeated(story, coordinator, begin, 4)
    who = {"transactional_id": "x", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
    add = AddPartitionsToTxnRequest(**who, topics=(AddPartitionsToTxnTopic(name="t", partitions=(0,)),))
    assert not errors_of(story.answer(coordinator, add, 3))
    story.write("0", by=Author(begun.producer_id, begun.producer_epoch), transactional_id="x")
    answers = story.hold(1, 2, FollowerAnswered)
    assert not errors_of(story.answer(coordinator, EndTxnRequest(**who, committed=True), 3))
    story.until(lambda: story.end(1) == 2)
    story.compare()
    assert story.mark(1) == 1
    assert not story.fetched(0, is_committed=True).records
    assert story.fetched(0).records
    story.release(answers)
    story.until(lambda: story.mark(1) == 2)
    assert story.fetched(0, is_committed=True).records


def _repeated(story: Story, broker: int, body: object, version: int) -> Any:
    """The answer to a request that is refused until a coordinator is loaded."""
    for _ in range(ASKS_MAX):
        answer = story.answer(broker, body, version)
        if not answer.error_code:
            return answer
        story.pass_time(100)
    raise AssertionError(f"it is still refused: {answer}")


def _coordinator(story: Story, key: str = "g", kind: int = OF_GROUP) -> int:
    for _ in range(ASKS_MAX):
        for broker in story.alive:
            answer = story.answer(broker, FindCoordinatorRequest(key=key, key_type=kind), 3)
            if answer is not None and not answer.error_code and answer.node_id in story.alive:
                return int(answer.node_id)
        story.pass_time(200)
    raise AssertionError(f"{key} still has no coordinator")


def _asked(story: Story, broker: int, body: object, version: int) -> Any:
    """The answer of a coordinator, once it is one."""
    for _ in range(ASKS_MAX):
        answer = story.answer(broker, body, version)
        if not answer.topics[0].partitions[0].error_code and not getattr(answer, "error_code", 0):
            return answer
        story.pass_time(100)
    raise AssertionError(f"it is still no coordinator: {answer}")


def _commit(story: Story, judge: GroupJudge, broker: int, place: tuple[str, str, int], offset: int) -> None:
    """Commit an offset; wait for an answer for a while."""
    commit = judge.commits_now(story.schedule.now, place, offset, -1)
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=str(commit.number)
    )
    body = OffsetCommitRequest(
        group_id="g", member_id="", topics=(OffsetCommitRequestTopic(name=place[1], partitions=(partition,)),)
    )
    pending = story.ask(broker, body, 8)
    end = story.schedule.now + 1500 * MS
    while not pending.is_over and story.schedule.run_next(end):
        pass
    if pending.is_over and not pending.answer.topics[0].partitions[0].error_code:
        judge.acknowledged(story.schedule.now, place, commit)


STORIES = [
    story
    for name, story in vars().items()
    if callable(story) and getattr(story, "__module__", "") == __name__ and not name.startswith("_")
]
