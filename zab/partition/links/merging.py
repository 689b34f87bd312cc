"""Many messages of a controller to one broker as two: the state after all of them, and what is to be stopped.

A broker that gets these instead of the many comes to the same: a later state of a partition supersedes an earlier one,
and what is stopped names the topic id and the leader epoch, so that it does not hit what came later.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from zab.partition.controller.effects import (
    PartitionStates,
    PartitionUpdate,
    StoppedReplica,
    StopReplica,
    ToBroker,
    TopicUpdate,
)


def merged(messages: Iterable[ToBroker]) -> tuple[ToBroker, ToBroker]:
    """The two messages. `messages` have a `PartitionStates`; one controller sends them all to one broker epoch."""
    states: PartitionStates | None = None
    topics: dict[str, tuple[TopicUpdate, dict[int, PartitionUpdate]]] = {}
    removed: dict[str, None] = {}
    stopped: dict[tuple[str, int], StoppedReplica] = {}
    is_full = False
    last = None
    for last in messages:
        said = last.message
        if isinstance(said, StopReplica):
            stopped |= {(each.topic_id, each.partition.partition): each for each in said.replicas}
            continue
        states = said
        if said.is_full:
            is_full = True
            topics.clear()
            removed.clear()
        for topic_id in said.removed:
            topics.pop(topic_id, None)
            removed[topic_id] = None
        for update in said.topics:
            removed.pop(update.topic_id, None)
            _, known = topics.get(update.topic_id, (update, {}))
            topics[update.topic_id] = update, known | {each.partition: each for each in update.partitions}
    assert last is not None
    assert states is not None
    updates = tuple(evolve(update, partitions=tuple(of.values())) for update, of in topics.values())
    whole = evolve(states, is_full=is_full, topics=updates, removed=tuple(removed))
    return evolve(last, message=whole), evolve(last, message=StopReplica(tuple(stopped.values())))
