"""Topics: read from their znodes, created, given more partitions.

A topic is created by one multi: its settings, then its znode with id and replicas. Its partitions then come online like
those of a topic that a tool created, which the watch on /brokers/topics tells. So a topic may exist although its
creator never got an answer: a second request gets TOPIC_ALREADY_EXISTS.

What is refused, in the order of Kafka's checks:

    INVALID_TOPIC_EXCEPTION      a name that is empty, `.`, `..`, longer than 249, has other characters than letters,
                                 digits, `.`, `_` and `-`; or one that an existing topic has when `.` is taken for `_`
    TOPIC_ALREADY_EXISTS         also one that is being deleted
    INVALID_REQUEST              counts beside assignments; a topic twice in one request
    INVALID_PARTITIONS           a count below 1; for more partitions: not more than there are
    INVALID_REPLICATION_FACTOR   a count below 1, or more than there are live brokers
    INVALID_REPLICA_ASSIGNMENT   no replicas, one twice, unknown brokers, more or fewer than the rest, gaps
    INVALID_CONFIG               a setting that is unknown, or has a wrong value
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zab.coordination.operations import Children, CoordinationError, Create, Get, Result, Set, ZooKeeperError
from zab.coordination.steps import Steps, read
from zab.kafka.errors import ErrorCode
from zab.partition.controller import partition_states, reassignment, replica_states
from zab.partition.controller.assignment import assign
from zab.partition.controller.config_changes import decoded_config
from zab.partition.controller.fencing import write_until_known
from zab.partition.controller.requests import (
    DEFAULT_COUNT,
    Answer,
    CreatePartitions,
    CreateTopics,
    NewPartitions,
    NewTopic,
    TopicOutcome,
)
from zab.partition.controller.state import ControllerState, PartitionPhase, Topic, settings_problem
from zab.partition.controller.znodes import (
    TOPICS,
    Assignment,
    MalformedError,
    PartitionState,
    TopicPartition,
    TopicZnode,
    config_path,
    encode_config,
    state_path,
    topic_path,
)
from zab.partition.settings.topic_names import NAME_CHARACTERS_MAX, collide, is_valid

PARTITIONS_MAX: Final = 10_000
"""The most partitions of one topic, so that its znode stays below what a znode may hold."""


class TopicError(Exception):
    """A topic is refused."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error

    def outcome(self) -> TopicOutcome:
        return TopicOutcome(self.error, str(self))


# -------------------------------------------------------------------------------------------------------------- reading


def load(state: ControllerState, names: Iterable[str]) -> Steps[list[str]]:
    """Read topics with their settings and the states of their partitions; watch each of them.

    Return those that were read. A topic with a malformed znode is reported, and left out.
    """
    wanted = list(names)
    found = yield from read(Get(topic_path(name), watch=True) for name in wanted)
    configs = yield from read(Get(config_path("topics", name)) for name in wanted)
    loaded = []
    for name, result, config in zip(wanted, found, configs, strict=True):
        if result.is_missing:
            continue
        try:
            topic = _topic(name, result.must(topic_path(name)))
        except MalformedError as error:
            leave_out(state, name, error)
            continue
        topic.config = decoded_config(state, name, config)
        state.add_topic(topic)
        state.unreadable.discard(name)
        loaded.append(name)
    for name in loaded:
        if not state.topics[name].topic_id:
            yield from _give_id(state, name)
    there = [state.topics[name] for name in loaded if name in state.topics]
    yield from load_states(state, [partition for topic in there for partition in topic.partitions])
    return [name for name in loaded if name in state.topics]


def leave_out(state: ControllerState, name: str, error: MalformedError) -> None:
    state.report(f"{error}; topic {name!r} is left out")
    state.unreadable.add(name)
    if name in state.topics:
        state.forget_topic(name)


def _topic(name: str, found: Result) -> Topic:
    if not is_valid(name):
        raise MalformedError(topic_path(name), "not the name of a topic")
    znode = TopicZnode.decode(name, found.data)
    return Topic(name, znode.topic_id or "", found.stat.version, dict(znode.partitions))


def _give_id(state: ControllerState, name: str) -> Steps[None]:
    topic, path = state.topics[name], topic_path(name)
    state.names.pop(topic.topic_id, None)
    topic.topic_id = state.fresh_topic_id()
    state.add_topic(topic)
    result = yield from write_until_known(
        state, Set(path, TopicZnode(topic.topic_id, topic.assignments).encode(), topic.version)
    )
    if result.ok:
        topic.version += 1
        return
    # Somebody was faster, or the answer to an earlier try was lost.
    state.names.pop(topic.topic_id, None)
    if result.error not in (ZooKeeperError.BADVERSION, ZooKeeperError.NONODE):
        raise CoordinationError(path, result.error)
    del state.topics[name]
    yield from load(state, [name])


def load_states(state: ControllerState, partitions: Iterable[TopicPartition]) -> Steps[None]:
    """Read the states of partitions that have one."""
    wanted = list(partitions)
    results = yield from read(Get(state_path(each)) for each in wanted)
    for partition, result in zip(wanted, results, strict=True):
        if result.is_missing or not state.has(partition):
            continue
        found = result.must(state_path(partition))
        try:
            state.put(partition, PartitionState.decode(partition, found.data, found.stat.version))
        except MalformedError as error:
            leave_out(state, partition.topic, error)


def place(state: ControllerState, partition: TopicPartition) -> None:
    """The phase of a partition that was read: new, online or offline."""
    partition_states.move(state, (partition,), PartitionPhase.NEW)
    current = state.partitions.get(partition)
    if current is not None:
        phase = PartitionPhase.ONLINE if current.leader in state.brokers else PartitionPhase.OFFLINE
        partition_states.move(state, (partition,), phase)


def on_topics_changed(state: ControllerState) -> Steps[None]:
    """The children of /brokers/topics changed."""
    (listed,) = yield from read((Children(TOPICS, watch=True),))
    names = set(listed.must(TOPICS).children)
    for name in sorted(set(state.topics) - names):
        state.report(f"the znode of topic {name!r} was deleted by somebody else")
        state.forget_topic(name)
    state.unreadable &= names
    yield from _add_topics(state, sorted(names - set(state.topics) - state.unreadable))


def _add_topics(state: ControllerState, names: list[str]) -> Steps[None]:
    loaded = yield from load(state, names)
    yield from _add(state, [each for name in loaded for each in state.topics[name].partitions])


def _add(state: ControllerState, partitions: list[TopicPartition]) -> Steps[None]:
    for partition in partitions:
        replica_states.create(state, partition)
        place(state, partition)
    yield from partition_states.bring_online(
        state, [each for each in partitions if state.phase(each) is not PartitionPhase.ONLINE]
    )
    yield from reassignment.resume(state, partitions)


def on_topic_changed(state: ControllerState, name: str) -> Steps[None]:
    """The znode of a topic changed: by this controller, or because a tool added partitions."""
    if name not in state.topics:
        if name in state.unreadable:
            yield from _add_topics(state, [name])
        return
    (found,) = yield from read((Get(topic_path(name), watch=True),))
    if found.is_missing:
        return
    try:
        read_now = _topic(name, found.must(topic_path(name)))
    except MalformedError as error:
        leave_out(state, name, error)
        return
    topic = state.topics[name]
    if read_now.topic_id != topic.topic_id:
        state.report(f"topic {name!r} was deleted and created by somebody else")
        state.forget_topic(name)
        yield from _add_topics(state, [name])
        return
    added = {number: each for number, each in read_now.assignments.items() if number not in topic.assignments}
    topic.version = read_now.version
    if {**topic.assignments, **added} != read_now.assignments:
        state.report(f"{topic_path(name)}: somebody changed replicas; this is not followed")
        yield from reassignment.write_assignments(state, name, added)
    topic.assignments.update(added)
    if name in state.deleting:
        return
    yield from _add(state, [TopicPartition(name, number) for number in sorted(added)])


# ------------------------------------------------------------------------------------------------------------- creating


def create(state: ControllerState, asked: CreateTopics) -> Steps[None]:
    outcomes = {}
    count = Counter(each.name for each in asked.topics)
    for new in asked.topics:
        try:
            if count[new.name] > 1:
                raise TopicError(ErrorCode.INVALID_REQUEST, "the request has the topic twice")
            assignments = validated(state, new)
            if not asked.validate_only:
                yield from _create(state, new, assignments)
            topic_id = "" if asked.validate_only else state.topics[new.name].topic_id
            outcomes[new.name] = TopicOutcome(
                topic_id=topic_id, partition_count=len(assignments), replication_factor=len(assignments[0])
            )
        except TopicError as error:
            outcomes[new.name] = error.outcome()
    state.answer(Answer(asked.token, topics=outcomes))


def validated(state: ControllerState, new: NewTopic) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition. Raises TopicError."""
    if not is_valid(new.name):
        allowed = f"1 to {NAME_CHARACTERS_MAX} of a-z, A-Z, 0-9, '.', '_', '-'"
        text = f"{new.name[:300]!r} is not the name of a topic: {allowed}"
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    if new.name in state.topics or new.name in state.unreadable:
        raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {new.name!r} exists")
    collision = next((each for each in state.topics if collide(each, new.name)), None)
    if collision is not None:
        raise TopicError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{new.name!r} collides with {collision!r}")
    if new.assignments:
        if (new.partition_count, new.replication_factor) != (DEFAULT_COUNT, DEFAULT_COUNT):
            raise TopicError(ErrorCode.INVALID_REQUEST, "counts and assignments exclude each other")
        _check_assignments(state, new.assignments, range(len(new.assignments)), None)
        assignments = dict(new.assignments)
    else:
        assignments = _assigned(state, new.partition_count, new.replication_factor)
    problem = settings_problem(state.settings.topic_defaults, new.config or {})
    if problem is not None:
        raise TopicError(ErrorCode.INVALID_CONFIG, problem)
    return assignments


def _assigned(state: ControllerState, partition_count: int, replication_factor: int) -> dict[int, tuple[int, ...]]:
    count = state.settings.partition_count if partition_count == DEFAULT_COUNT else partition_count
    factor = state.settings.replication_factor if replication_factor == DEFAULT_COUNT else replication_factor
    if not 0 < count <= PARTITIONS_MAX:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, f"{count} partitions, not 1 to {PARTITIONS_MAX}")
    if not 0 < factor <= len(state.alive):
        text = f"{factor} replicas with {len(state.alive)} live brokers"
        raise TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return assign((state.brokers[each] for each in state.alive), count, factor, state.random)


def _check_assignments(
    state: ControllerState, assignments: Mapping[int, tuple[int, ...]], numbers: Sequence[int], factor: int | None
) -> None:
    """Raises TopicError. factor: how many replicas each has; None: as many as the first."""
    if sorted(assignments) != list(numbers) or len(numbers) > PARTITIONS_MAX:
        raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partitions {sorted(assignments)[:20]} have gaps")
    for number in numbers:
        replicas = assignments[number]
        factor = len(replicas) if factor is None else factor
        unknown = [each for each in replicas if each not in state.brokers]
        if not replicas or len(set(replicas)) != len(replicas) or len(replicas) != factor or unknown:
            text = (
                f"partition {number}: {list(replicas)} has duplicates, unknown brokers, or more or fewer than the rest"
            )
            raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)


def _create(state: ControllerState, new: NewTopic, assignments: Mapping[int, tuple[int, ...]]) -> Steps[None]:
    topic_id, path = state.fresh_topic_id(), topic_path(new.name)
    znode = TopicZnode(topic_id, {number: Assignment(each) for number, each in assignments.items()})
    settings = config_path("topics", new.name)
    config: Create | Set = Create(settings, encode_config(new.config or {}))
    while True:
        result = yield from write_until_known(state, config, Create(path, znode.encode()))
        if result.ok:
            break
        if result.error != ZooKeeperError.NODEEXISTS:
            raise CoordinationError(path, result.error)
        (found,) = yield from read((Get(path),))
        if not found.is_missing:
            if found.must(path).data == znode.encode():
                break
            raise TopicError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {new.name!r} was created by somebody else")
        # Only the settings are there, of an earlier topic.
        config = Set(settings, encode_config(new.config or {}))
    yield from _add_topics(state, [new.name])
    if new.name not in state.topics:
        raise TopicError(ErrorCode.UNKNOWN_SERVER_ERROR, "the topic was created, and then changed by somebody else")


# ------------------------------------------------------------------------------------------------------ more partitions


def create_partitions(state: ControllerState, asked: CreatePartitions) -> Steps[None]:
    outcomes = {}
    count = Counter(each.topic for each in asked.topics)
    for new in asked.topics:
        try:
            if count[new.topic] > 1:
                raise TopicError(ErrorCode.INVALID_REQUEST, "the request has the topic twice")
            added = validated_partitions(state, new)
            if not asked.validate_only:
                yield from reassignment.write_assignments(
                    state, new.topic, {number: Assignment(each) for number, each in added.items()}
                )
                yield from _add(state, [TopicPartition(new.topic, number) for number in sorted(added)])
            outcomes[new.topic] = TopicOutcome()
        except TopicError as error:
            outcomes[new.topic] = error.outcome()
    state.answer(Answer(asked.token, topics=outcomes))


def validated_partitions(state: ControllerState, new: NewPartitions) -> dict[int, tuple[int, ...]]:
    """The replicas of each new partition. Raises TopicError."""
    topic = state.topics.get(new.topic)
    if topic is None or new.topic in state.deleting | state.to_delete:
        raise TopicError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {new.topic!r}")
    if any(each.is_reassigned for each in topic.assignments.values()):
        raise TopicError(ErrorCode.REASSIGNMENT_IN_PROGRESS, f"topic {new.topic!r} is being reassigned")
    present = len(topic.assignments)
    if not present < new.count <= PARTITIONS_MAX:
        raise TopicError(ErrorCode.INVALID_PARTITIONS, f"{new.count} partitions; there are {present}")
    numbers = range(present, new.count)
    factor = len(topic.assignments[0].replicas)
    if new.assignments is not None:
        if len(new.assignments) != len(numbers):
            text = f"{len(new.assignments)} assignments for {len(numbers)} new partitions"
            raise TopicError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        assignments = dict(zip(numbers, new.assignments, strict=True))
        _check_assignments(state, assignments, numbers, factor)
        return assignments
    if factor > len(state.alive):
        text = f"{factor} replicas with {len(state.alive)} live brokers"
        raise TopicError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    brokers = [state.brokers[each] for each in state.alive]
    return assign(brokers, len(numbers), factor, state.random, present)
