"""Scenarios of replication that went wrong in some version of Kafka, on whole simulated brokers.

Each is told to its end with `Story`: nothing that was acknowledged is lost, and the logs are equal. `S1` and the like
are names of this project for them; the source is the issue or the proposal of Kafka that is named beside it.

The variants that each of them finds are in `test_broken_variants`.
"""

from __future__ import annotations

from tests.simulator.brokers.story import Story, topic
from zab.kafka.errors import ErrorCode
from zab.kafka.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from zab.partition.links.messages import FollowerAnswered, FollowerAsked, Told
from zab.simulator.world.verdict import demand


def s1_a_restart_does_not_cut_to_the_high_watermark() -> None:
    """KIP-101, KAFKA-1211: the follower has heard of a mark below what it has, and restarts."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("m1")
    story.until(lambda: story.mark(2) == 1)
    answers = story.hold(1, 2, lambda message: isinstance(message, FollowerAnswered) and story.end(2) == 2)
    story.write("m2")
    assert (story.end(2), story.mark(2)) == (2, 1)
    story.kill(2)
    story.forget(answers)
    story.start(2)
    story.until(lambda: story.in_sync == {1})
    story.until(lambda: story.in_sync == {1, 2})
    story.kill(1)
    story.until(lambda: story.leads(2))
    assert story.write("m3") == 2
    assert list(story.finish().values()) == [b"m1 ", b"m2 ", b"m3 "]


def s2_two_power_cuts_lose_nothing_that_is_synced() -> None:
    """KIP-101: with flush.mode=batch a record is acknowledged once both disks have it."""
    story = Story(topic("t", 2, flush_mode="batch", min_insync_replicas=2))
    story.create(1, 2)
    story.write("m1")
    story.cluster.machines[2].disk_us = 10_000_000
    late = story.send("m2")
    story.pass_time(1500)
    story.power(2)
    story.power(1)
    story.cluster.machines[2].disk_us = 500
    story.until(lambda: story.alive == {3})
    # The first one that is back leaves the in-sync set, as it may have lost something; the other one is the last.
    story.start(1)
    story.until(lambda: story.alive == {1, 3})
    story.start(2)
    story.until(lambda: story.leads(2))
    assert not late.is_over or late.answer is None
    assert list(story.finish().values()) == [b"m1 "]


def s3_two_quick_changes_of_the_leader() -> None:
    """KIP-279, KAFKA-6361: each has written what the other one has not copied."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    for value in ("a1", "a2", "a3"):
        story.write(value, acks=1)
    story.move_to(2, 1)
    for value in ("b1", "b2"):
        story.write(value, acks=1)
    story.move_to(1, 2)
    story.write("c1", acks=1)
    assert (story.end(1), story.end(2)) == (5, 3)
    assert story.in_sync == {1, 2}
    assert list(story.finish().values()) == [b"0 ", b"a1 ", b"a2 ", b"a3 ", b"c1 "]


def s4_a_consumer_whose_history_parts() -> None:
    """KIP-320: it has read what is gone, below the end of the log that is there now. Its epoch says so."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    for value in ("a1", "a2", "a3"):
        story.write(value, acks=1)
    story.move_to(2, 1)
    for value in ("b1", "b2"):
        story.write(value, acks=1)
    former = story.epoch
    story.move_to(1, 2)
    story.write("c1", acks=1)
    data = story.fetched(3, last_epoch=former)
    assert not data.records
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (0, 4)
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=story.epoch, leader_epoch=former)
    body = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="t", partitions=(asked,)),))
    [found] = story.answer(1, body, 3).topics[0].partitions
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.NONE, 0, 4)
    story.finish()


def s5_epochs_fence_readers() -> None:
    """KAFKA-6880, KAFKA-7395: a reader of another leader epoch gets no data, whichever of the two knows less."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    told = story.hold(3, 1, Told)
    former = story.epoch
    story.reassign(2, 1)
    story.elect_preferred(2)
    data = story.fetched(0, at=1)
    assert (data.error_code, data.records or b"") == (ErrorCode.UNKNOWN_LEADER_EPOCH, b"")
    data = story.fetched(0, at=2, epoch=former)
    assert (data.error_code, data.records or b"") == (ErrorCode.FENCED_LEADER_EPOCH, b"")
    story.release(told)
    assert list(story.finish().values()) == [b"0 "]


def s5_a_follower_whose_history_parts_does_not_count() -> None:
    """What it fetches from is no offset of the leader's log, until it has been cut."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    late = story.hold(1, 2, FollowerAnswered)
    for value in ("a1", "a2", "a3"):
        story.write(value, acks=1)
    fetches = story.hold(1, 2, FollowerAsked)
    story.move_to(2, 1)
    for value in ("b1", "b2", "b3", "b4"):
        story.write(value, acks=1)
    answers = story.hold(2, 1, lambda message: isinstance(message, FollowerAnswered) and story.end(1) == 1)
    story.forget(late)
    story.release(fetches)
    story.until(lambda: story.end(1) == 1)
    story.pass_time(50)
    assert story.in_sync == {1, 2}
    story.expire(2)
    story.until(lambda: story.leads(1))
    story.forget(answers)
    assert list(story.finish().values()) == [b"0 "]


def s6_an_answer_that_is_late() -> None:
    """KAFKA-13207: the answer to a fetch comes when another broker leads, and the log has been cut."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    answers = story.hold(1, 2, FollowerAnswered)
    story.write("a1", "a2", acks=1)
    story.pass_time(200)
    story.move_to(2, 1)
    story.write("b1", acks=1)
    story.release(answers)
    story.until(lambda: story.end(1) == 2)
    assert list(story.finish().values()) == [b"0 ", b"b1 "]


def s7_nobody_joins_below_the_start_of_the_epoch() -> None:
    """KAFKA-7128: the mark of a new leader lags, and a follower has reached it, but not what was acknowledged."""
    story = Story(topic("t", 3, min_insync_replicas=2), brokers=4)
    story.create(1, 2, 3)
    story.write("0")
    story.until(lambda: story.mark(2) == story.mark(3) == 1)
    story.cut(1, 3)
    marks = story.hold(1, 2, lambda message: isinstance(message, FollowerAnswered) and story.end(2) == 3)
    story.write("1", "2")
    assert story.in_sync == {1, 2}
    assert (story.end(2), story.mark(2), story.end(3)) == (3, 1, 1)
    answers = story.hold(2, 3, FollowerAnswered)
    story.kill(1)
    story.forget(marks)
    story.until(lambda: story.leads(2))
    story.pass_time(1000)
    assert story.in_sync == {2}
    assert story.mark(2) == 1
    story.release(answers)
    story.until(lambda: story.in_sync == {2, 3})
    assert list(story.finish().values()) == [b"0 ", b"1 ", b"2 "]


def s13_a_mark_that_lags_after_an_election() -> None:
    """Only the dead leader knew how far it was committed: consumers wait, and are not told that they are out of
    range."""
    story = Story(topic("t", 3))
    story.create(1, 2, 3)
    story.write("0")
    story.until(lambda: story.mark(2) == 1)
    marks = [
        story.hold(1, other, lambda message: isinstance(message, FollowerAnswered) and lagging()) for other in (2, 3)
    ]

    def lagging() -> bool:
        return story.end(2) == story.end(3) == 3

    story.write("1", "2")
    answers = story.hold(2, 3, FollowerAnswered)
    story.kill(1)
    for hold in marks:
        story.forget(hold)
    story.until(lambda: story.leads(2))
    assert (story.mark(2), story.end(2)) == (1, 3)
    data = story.fetched(3, session_epoch=0)
    assert (data.error_code, data.records or b"", data.high_watermark) == (ErrorCode.NONE, b"", 1)
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    body = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name="t", partitions=(latest,)),))
    [found] = story.answer(2, body, 7).topics[0].partitions
    assert found.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    story.release(answers)
    story.until(lambda: story.mark(2) == 3)
    [found] = story.answer(2, body, 7).topics[0].partitions
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 3)
    news = story.news()
    told = [each.high_watermark for topic in news for each in topic.partitions]
    demand(told == [3], "a session tells what has changed", f"{told}, not [3]")
    assert list(story.finish().values()) == [b"0 ", b"1 ", b"2 "]


def s14_the_mark_of_an_answer_that_says_that_histories_part() -> None:
    """KAFKA-14704: the follower is cut in two rounds, and has still something else than the leader after the first."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    for value in ("a1", "a2"):
        story.write(value, acks=1)
    story.move_to(2, 1)
    for value in ("b1", "b2", "b3"):
        story.write(value, acks=1)
    story.move_to(1, 2)
    story.write("c1", acks=1)
    story.expire(1)
    story.until(lambda: story.leads(2))
    story.write("d1")
    # 1 has 0 a1 a2 c1 of the epochs 0, 0, 0, 4; 2 has 0 b1 b2 b3 d1.
    answers = story.hold(2, 1, lambda message: isinstance(message, FollowerAnswered) and story.end(1) == 3)
    story.reconnect(1, 2)
    story.until(lambda: story.end(1) == 3)
    assert story.mark(2) == 5
    story.compare()
    story.release(answers)
    assert list(story.finish().values()) == [b"0 ", b"b1 ", b"b2 ", b"b3 ", b"d1 "]


def s15_an_epoch_without_records() -> None:
    """KAFKA-7415: a leader notes its epoch before it answers."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    story.move_to(2, 1)
    story.move_to(1, 2)
    story.write("a1", acks=1)
    story.move_to(2, 1)
    assert list(story.finish().values()) == [b"0 "]


def s16_a_log_that_rolls_while_it_is_read() -> None:
    """KAFKA-9196: the mark is in a segment that is not the last one."""
    story = Story(topic("t", 2, segment_bytes=200))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    for number in range(1, 8):
        story.send(str(number), size_bytes=60)
        story.pass_time(20)
        assert list(story.read().values()) == [b"0 "]
    story.reconnect(1, 2)
    assert len(story.finish()) == 8
    assert len(story.replica(2).log.segments) > 2


def s17_a_leader_that_is_back_at_once() -> None:
    """KAFKA-9338: A, B and A again lead, with the same in-sync set; each follows in the newest epoch."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    for number in range(1, 5):
        story.move_to(2, 1)
        story.move_to(1, 2)
        assert story.write(str(number)) == number
    assert len(story.finish()) == 5


def s18_a_write_that_waits_on_a_deposed_leader() -> None:
    """It is not acknowledged by the records of others that take its place."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    late = story.send("a1")
    story.pass_time(200)
    story.move_to(2, 1)
    story.reconnect(1, 2)
    story.write("b1", "b2")
    story.until(lambda: late.is_over and story.mark(1) == 3)
    assert late.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list(story.finish().values()) == [b"0 ", b"b1 ", b"b2 "]


def s24_what_was_cut_is_no_duplicate() -> None:
    """KAFKA-10832: a producer sends again what was cut."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    author = story.author(1)
    story.write("0", by=author)
    story.cut(1, 2)
    story.send("a1", by=author)
    story.pass_time(100)
    story.move_to(2, 1)
    story.reconnect(1, 2)
    story.write("others", "more")
    story.until(lambda: story.end(1) == 3)
    story.move_to(1, 2)
    assert story.write("a1", by=author, sequence=1) == 3
    assert list(story.finish().values()) == [b"0 ", b"others ", b"more ", b"a1 "]


def a_consumer_reads_below_the_high_watermark() -> None:
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    story.write("1", acks=1)
    assert list(story.read().values()) == [b"0 "]
    assert list(story.finish().values()) == [b"0 ", b"1 "]


def a_producer_sends_five_batches_again() -> None:
    """The leader remembers the last five batches of a producer."""
    story = Story(topic("t", 1), brokers=1)
    story.create(1)
    author = story.author(1)
    offsets = [story.write(str(number), by=author) for number in range(5)]
    for number in range(5):
        assert story.write(str(number), by=author, sequence=number) == offsets[number]
    assert len(story.finish()) == 5


def what_is_acknowledged_is_synced() -> None:
    """With flush.mode=batch."""
    story = Story(topic("t", 1, flush_mode="batch"), brokers=1)
    story.create(1)
    story.write("0")
    story.write("1")
    story.power(1)
    story.start(1)
    assert list(story.finish().values()) == [b"0 ", b"1 "]


def s19_a_write_that_fails() -> None:
    """KAFKA-10778: after an append that failed half-way nothing is appended until a restart."""
    story = Story(topic("t", 1), brokers=1)
    story.create(1)
    story.write("0")
    disk = story.cluster.machines[1].disk
    capacity_bytes = disk.capacity_bytes
    disk.capacity_bytes = sum(map(len, disk.image().values())) + 20
    failed = story.send("1", acks=1)
    story.until(lambda: failed.is_over)
    if failed.error is not ErrorCode.NONE:
        later = story.send("2", acks=1)
        story.until(lambda: later.is_over)
        assert later.error is ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity_bytes = capacity_bytes
    story.kill(1)
    story.start(1)
    assert list(story.finish().values()) == [b"0 "]


def s21_a_batch_that_is_damaged_on_its_way() -> None:
    """KAFKA-8722: a follower does not store it, and fetches it again."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    answers = story.hold(1, 2, lambda message: isinstance(message, FollowerAnswered) and b"m1 " in message.pieces[0])
    late = story.send("m1")
    story.until(lambda: bool(answers.messages))
    story.spoil(answers, b"m1 ", b"xx ")
    story.until(lambda: late.is_over)
    assert list(story.finish().values()) == [b"0 ", b"m1 "]


def s22_a_topic_that_comes_again() -> None:
    """It has another id, and no record of the former one."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0", "1")
    story.delete()
    story.create(1, 2)
    assert story.write("other") == 0
    assert list(story.finish().values()) == [b"other "]


def s24_a_cut_to_an_empty_segment() -> None:
    """KAFKA-6492: a follower is cut to where its last segment begins, and to where its log begins."""
    story = Story(topic("t", 2, segment_bytes=200))
    story.create(1, 2)
    story.cut(1, 2)
    for number in range(6):
        story.send(f"a{number}", acks=1, size_bytes=60)
        story.pass_time(20)
    assert len(story.replica(1).log.segments) > 1
    story.move_to(2, 1)
    story.reconnect(1, 2)
    story.write("b0")
    story.until(lambda: story.end(1) == 1)
    assert list(story.finish().values()) == [b"b0 "]


STORIES = [story for name, story in vars().items() if callable(story) and getattr(story, "__module__", "") == __name__]
