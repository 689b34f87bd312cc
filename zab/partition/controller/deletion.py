"""Deletion of topics, from the request to the last znode.

    1  /admin/delete_topics/<t> is created, by `request` or by somebody else; for clients the topic is gone
    2  all replicas go offline; their brokers are told to delete them (StopReplica)
    3  a replica whose broker is dead, or could not delete it, is ineligible: the topic waits until that broker returns
    4  all replicas are deleted: the znodes go, /brokers/topics/<t> from its leaves up, /config/topics/<t>, and the
       request last, so that a controller that is elected meanwhile goes on

A topic with a running reassignment waits for its end, and is led and replicated meanwhile. No state of a partition is
written on the way: in the end there is none. Brokers answer NONE for what they do not have, so everything may be asked
twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from zab.coordination.operations import Children, CoordinationError, Create, Delete, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.kafka.errors import ErrorCode
from zab.partition.controller import partition_states, replica_states
from zab.partition.controller.fencing import write_until_known
from zab.partition.controller.requests import Answer, DeleteTopics, StopReplicaAnswered, TopicOutcome
from zab.partition.controller.state import ControllerState, PartitionPhase, Replica, ReplicaPhase
from zab.partition.controller.znodes import DELETE_TOPICS, config_path, delete_path, topic_path

_PARTS_MAX: Final = 500
"""Deletions in one multi, far below what a frame holds."""


def request(state: ControllerState, asked: DeleteTopics) -> Steps[None]:
    """Answered when all topics are gone."""
    outcomes, waits = {}, {}
    for name in dict.fromkeys(asked.topics):
        topic = state.topic_with_id(name) if asked.by_id else state.topics.get(name)
        if not state.settings.deletes_topics:
            outcomes[name] = TopicOutcome(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false")
        elif topic is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if asked.by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            outcomes[name] = TopicOutcome(unknown)
        else:
            yield from _create_request(topic.name, state)
            outcomes[name] = TopicOutcome(topic_id=topic.topic_id)
            waits[topic.name] = name
    if waits and asked.token in state.waiting:
        state.deletion_outcomes[asked.token] = outcomes
        state.deletion_waits[asked.token] = set(waits)
    else:
        state.answer(Answer(asked.token, topics=outcomes))
    enqueue(state, waits)
    yield from proceed(state)


def _create_request(topic: str, state: ControllerState) -> Steps[None]:
    path = delete_path(topic)
    result = yield from write_until_known(state, Create(path))
    if result.error != ZooKeeperError.NODEEXISTS:
        result.must(path)


def on_requests_changed(state: ControllerState) -> Steps[None]:
    """Requests that others wrote."""
    (found,) = yield from read((Children(DELETE_TOPICS, watch=True),))
    for name in found.must(DELETE_TOPICS).children:
        if not state.settings.deletes_topics or (name not in state.topics and name not in state.unreadable):
            state.report(f"the request to delete {name!r} is dropped: there is no such topic, or deletion is off")
            yield from _delete(state, delete_path(name))
    enqueue(state, [each for each in found.children if each in state.topics and state.settings.deletes_topics])
    yield from proceed(state)


def enqueue(state: ControllerState, topics: Iterable[str]) -> None:
    state.to_delete.update(each for each in topics if each not in state.deleting)


def proceed(state: ControllerState) -> Steps[None]:
    """Do what can be done now, for each topic."""
    for name in sorted(state.to_delete):
        if not any(each.is_reassigned for each in state.topics[name].assignments.values()):
            state.to_delete.discard(name)
            state.deleting.add(name)
            state.pushes.changed.update(state.topics[name].partitions)
    for name in sorted(state.deleting):
        topic = state.topics[name]
        replicas = [replica for partition in topic.partitions for replica in state.replicas_of(partition)]
        dead = [each for each in replicas if each.broker_id not in state.brokers]
        yield from _take_offline(state, replicas)
        _make_ineligible(state, dead)
        ready = [each for each in replicas if replica_states.phase_of(state, each) is ReplicaPhase.OFFLINE]
        started = replica_states.move(state, ready, ReplicaPhase.DELETION_STARTED)
        replica_states.stop(state, started, delete=True)
        if all(replica_states.phase_of(state, each) is ReplicaPhase.DELETION_SUCCESSFUL for each in replicas):
            yield from _complete(state, name)


def _take_offline(state: ControllerState, replicas: list[Replica]) -> Steps[None]:
    partitions = dict.fromkeys(each.partition for each in replicas)
    partition_states.take_offline(state, partitions)
    serving = (ReplicaPhase.NEW, ReplicaPhase.ONLINE)
    yield from replica_states.take_offline(
        state, [each for each in replicas if replica_states.phase_of(state, each) in serving]
    )


def _make_ineligible(state: ControllerState, dead: list[Replica]) -> None:
    waiting = (ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED)
    replica_states.move(
        state,
        [each for each in dead if replica_states.phase_of(state, each) in waiting],
        ReplicaPhase.DELETION_INELIGIBLE,
    )


def on_brokers_gone(state: ControllerState, replicas: Iterable[Replica]) -> None:
    """What was told to delete and did not answer is ineligible."""
    _make_ineligible(state, [each for each in replicas if state.is_deleting(each.partition)])


def revive(state: ControllerState, replicas: Iterable[Replica]) -> Steps[None]:
    """Brokers are back: their replicas can be deleted now."""
    yield from replica_states.take_offline(
        state,
        [each for each in replicas if replica_states.phase_of(state, each) is ReplicaPhase.DELETION_INELIGIBLE],
    )


def on_answer(state: ControllerState, answer: StopReplicaAnswered) -> Steps[None]:
    """A broker deleted replicas, or could not."""
    broker = state.brokers.get(answer.broker_id)
    if broker is None or broker.epoch != answer.broker_epoch or state.epoch != answer.controller_epoch:
        return
    for partition, error in sorted(answer.errors.items()):
        replica = Replica(partition, answer.broker_id)
        if replica_states.phase_of(state, replica) is not ReplicaPhase.DELETION_STARTED:
            continue
        if error == ErrorCode.NONE:
            replica_states.move(state, [replica], ReplicaPhase.DELETION_SUCCESSFUL)
        else:
            state.report(f"replica {replica} cannot be deleted: {error.name}")
            replica_states.move(state, [replica], ReplicaPhase.DELETION_INELIGIBLE)
    yield from proceed(state)


# --------------------------------------------------------------------------------------------------------------- znodes


def _complete(state: ControllerState, name: str) -> Steps[None]:
    topic = state.topics[name]
    yield from delete_topic_znodes(state, name)
    replicas = [replica for partition in topic.partitions for replica in state.replicas_of(partition)]
    replica_states.move(state, replicas, ReplicaPhase.NON_EXISTENT)
    partition_states.move(state, topic.partitions, PartitionPhase.NON_EXISTENT)
    state.forget_topic(name)
    for token, waits in list(state.deletion_waits.items()):
        waits.discard(name)
        if not waits:
            state.answer(Answer(token, topics=state.deletion_outcomes[token]))


def delete_topic_znodes(state: ControllerState, name: str) -> Steps[None]:
    """All znodes of a topic, whatever of it exists."""
    while True:
        paths = yield from _subtree(name)
        results = []
        for chunk in _chunks(paths):
            results.append((yield from write_until_known(state, *map(Delete, chunk))))
        changed = [each.error for each in results if not each.ok]
        if not changed:
            break
        if set(changed) - {ZooKeeperError.NONODE, ZooKeeperError.NOTEMPTY}:
            raise CoordinationError(topic_path(name), changed[0])
    yield from _delete(state, config_path("topics", name))
    yield from _delete(state, delete_path(name))


def _chunks(paths: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(paths), _PARTS_MAX):
        yield paths[at : at + _PARTS_MAX]


def _subtree(name: str) -> Steps[list[str]]:
    """The znode of a topic and all below it, leaves first."""
    paths, level = [], [topic_path(name)]
    while level:
        found = yield from read(Children(path) for path in level)
        there = [path for path, result in zip(level, found, strict=True) if not result.is_missing]
        paths += there
        level = [
            f"{path}/{child}"
            for path, result in zip(level, found, strict=True)
            if not result.is_missing
            for child in result.must(path).children
        ]
    return paths[::-1]


def _delete(state: ControllerState, path: str) -> Steps[None]:
    result = yield from write_until_known(state, Delete(path))
    if not result.is_missing:
        result.must(path)
