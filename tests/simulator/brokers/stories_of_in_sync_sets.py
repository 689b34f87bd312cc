"""Scenarios of in-sync sets, elections and former lives of brokers, on whole simulated brokers (see
`stories_of_replication`)."""

from __future__ import annotations

from tests.simulator.brokers.story import Story, alters_a_partition, topic
from zab.kafka.errors import ErrorCode
from zab.partition.links.messages import FollowerAnswered, Told


def s8_a_shrink_counts_when_it_is_confirmed() -> None:
    """KAFKA-13091: the controller has not heard of the shrink, and may elect who is to leave."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    asked = story.hold(1, 3, alters_a_partition)
    story.write("a1", acks=1)
    story.until(lambda: bool(asked.messages))
    story.pass_time(1000)
    assert story.mark(1) == 1
    story.kill(1)
    story.until(lambda: story.leads(2))
    story.forget(asked)
    assert list(story.finish().values()) == [b"0 "]


def s8_an_answer_to_a_shrink_is_lost() -> None:
    """The leader waits for who is removed, asks again, and is told that it is done."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    told = story.hold(3, 1, lambda message: type(message).__name__ in ("Answered", "Told"))
    late = story.send("a1")
    story.until(lambda: len(told.messages) > 1)
    assert not late.is_over
    story.process(3).links.break_off_all(1)
    story.forget(told)
    story.until(lambda: late.is_over)
    assert late.error is ErrorCode.NONE
    assert story.in_sync == {1}
    assert list(story.finish().values()) == [b"0 ", b"a1 "]


def s9_a_proposal_that_is_late_is_not_written() -> None:
    """KAFKA-2729: what a leader asked for arrives once more, after the set has shrunk and the mark has risen."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.cut(1, 2)
    story.write("0")
    assert story.in_sync == {1}
    story.reconnect(1, 2)
    before = len(story.sent)
    story.until(lambda: story.in_sync == {1, 2})
    asked = [again for *_, message, again in story.sent[before:] if alters_a_partition(message)]
    story.cut(1, 2)
    story.write("a1")
    assert story.in_sync == {1}
    asked[-1]()
    story.pass_time(500)
    assert story.in_sync == {1}
    assert list(story.finish().values()) == [b"0 ", b"a1 "]


def s10_words_for_a_former_life_are_not_obeyed() -> None:
    """KAFKA-7235, KIP-380: a broker restarts within its session, and is told what was meant for the life before."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0")
    former = [again for _, to, message, again in story.sent if to == 2 and isinstance(message, Told)]
    story.kill(2)
    story.start(2)
    for again in former:
        again()
    story.until(lambda: story.in_sync == {1, 2})
    story.write("1")
    for again in former:
        again()
    story.pass_time(500)
    assert list(story.finish().values()) == [b"0 ", b"1 "]


def s11_a_replaced_disk() -> None:
    """KAFKA-14139, KIP-903: what a broker had in its former life says nothing about its new disk."""
    story = Story(topic("t", 2, min_insync_replicas=2))
    story.create(1, 2)
    story.write("0", "1")
    answers = story.hold(1, 2, FollowerAnswered)
    story.replace_disk(2)
    story.start(2)
    story.until(lambda: story.in_sync == {1})
    story.pass_time(4000)
    story.lose_session(1)
    story.pass_time(1000)
    assert not story.leads(2)
    story.release(answers)
    assert list(story.finish().values()) == [b"0 ", b"1 "]


def s12_the_last_replica_standing() -> None:
    """KIP-966: who left the set while it was large enough may lead, the last one that lost its end may not."""
    story = Story(topic("t", 3, min_insync_replicas=2), brokers=4)
    story.create(1, 2, 3)
    story.write("0")
    story.cut(1, 2)
    story.cut(1, 3)
    story.write("alone", acks=1)
    story.until(lambda: story.in_sync == {1})
    story.pass_time(200)
    assert story.mark(1) == 1
    story.replace_disk(1)
    story.start(1)
    story.until(lambda: story.leads(2) or story.leads(3))
    story.heal()
    story.until(lambda: len(story.in_sync) > 1)
    story.write("1")
    assert list(story.finish().values()) == [b"0 ", b"1 "]


def s12_an_unclean_restart_within_a_session() -> None:
    """KIP-966: a broker loses its power, and is back before anybody has missed it; it has lost its end."""
    story = Story(topic("t", 2, min_insync_replicas=2))
    story.create(1, 2)
    for number in range(20):
        story.write(str(number))
    answers = story.hold(1, 2, FollowerAnswered)
    story.power(2)
    story.start(2)
    story.until(lambda: story.process(2).broker.replicas.get("t", 0) is not None)
    assert story.end(2) < 20, "the seed is one with a loss"
    story.pass_time(500)
    story.lose_session(1)
    story.pass_time(1000)
    assert not story.leads(2)
    story.release(answers)
    assert len(story.finish()) == 20


def s12_a_replica_that_is_not_in_sync_does_not_lead() -> None:
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.cut(1, 2)
    story.write("0")
    assert story.in_sync == {1}
    story.kill(1)
    story.pass_time(5000)
    assert not story.leads(2)
    assert list(story.finish().values()) == [b"0 "]


def a_member_of_the_set_that_joins_counts_at_once() -> None:
    """KIP-497: the controller may elect it as soon as it has written it."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.cut(1, 2)
    story.write("0")
    assert story.in_sync == {1}
    story.reconnect(1, 2)
    story.until(lambda: story.in_sync == {1, 2})
    assert list(story.finish().values()) == [b"0 "]


def too_few_in_sync_commit_nothing() -> None:
    """KIP-966: who has left the set is eligible, so the mark stands still."""
    story = Story(topic("t", 2, min_insync_replicas=2))
    story.create(1, 2)
    story.write("0")
    story.cut(1, 2)
    story.write("1", acks=1)
    story.until(lambda: story.in_sync == {1})
    refused = story.send("2")
    story.until(lambda: refused.is_over)
    assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS
    story.pass_time(200)
    story.kill(1)
    story.until(lambda: story.leads(2))
    assert list(story.finish().values()) == [b"0 "]


def s23_a_replica_that_left_and_comes_back() -> None:
    """Its files are gone: what the leader knew of it does not let it into the in-sync set."""
    story = Story(topic("t", 2))
    story.create(1, 2)
    story.write("0", "1")
    story.reassign(1)
    story.until(lambda: story.in_sync == {1} and not story.has_replica(2))
    answers = story.hold(1, 2, FollowerAnswered)
    story.reassign(1, 2)
    story.until(lambda: story.has_replica(2))
    story.pass_time(500)
    assert story.in_sync == {1}
    story.release(answers)
    story.until(lambda: story.in_sync == {1, 2})
    assert list(story.finish().values()) == [b"0 ", b"1 "]


STORIES = [story for name, story in vars().items() if callable(story) and getattr(story, "__module__", "") == __name__]
