"""Reassignment of the replicas of a partition: from the original ones to a target.

    start     replicas = target + original, adding = target - original, removing = original - target: written in the
              topic's znode, so it goes on whichever broker is the controller
    A         until the ISR has all of the target: the leader epoch rises, all brokers learn the replicas, the new ones
              fetch
    B         the ISR has all of the target: the ISR keeps the target alone, a leader outside it is replaced, the leader
              epoch rises; the removed replicas are deleted; replicas = target is written last

A replica leaves the ISR before it leaves the assignment, so the ISR is a subset of the replicas at any moment, and a
controller that is elected in between finds a state from which `advance` goes on.

A reassignment that replaces another keeps the original of that one. Cancelling is reassigning to the original. Replicas
that are then neither original nor target are dropped at once; it is refused if the ISR would be empty without them.

Data of a removed replica on a dead broker is not deleted: nobody waits for that broker (as in Kafka).

The legacy request, /admin/reassign_partitions, is started like the others; a partition is taken out of it when it is
done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zab.coordination.operations import CoordinationError, Delete, Get, Set, ZooKeeperError
from zab.coordination.steps import Steps, look, read
from zab.kafka.errors import ErrorCode
from zab.partition.controller import deletion, partition_states, replica_states
from zab.partition.controller.fencing import update_states, write_until_known
from zab.partition.controller.leaders import Candidates, for_reassigned, with_isr, with_leader, without
from zab.partition.controller.requests import (
    AlterPartitionReassignments,
    Answer,
    ListPartitionReassignments,
    Outcome,
)
from zab.partition.controller.state import ControllerState, PartitionPhase, Replica
from zab.partition.controller.znodes import (
    REASSIGNMENT,
    Assignment,
    MalformedError,
    PartitionState,
    TopicPartition,
    TopicZnode,
    decode_reassignment,
    encode_reassignment,
    topic_path,
)


def request(state: ControllerState, asked: AlterPartitionReassignments) -> Steps[None]:
    outcomes = {}
    for partition, target in asked.targets.items():
        outcomes[partition] = yield from start(state, partition, target)
    state.answer(Answer(asked.token, partitions=outcomes))


def listed(state: ControllerState, asked: ListPartitionReassignments) -> Steps[None]:
    """Answer which are running."""
    yield ()
    wanted = state.all_partitions() if asked.partitions is None else filter(state.has, asked.partitions)
    assignments = {each: state.assignment(each) for each in wanted}
    state.answer(
        Answer(asked.token, reassignments={each: found for each, found in assignments.items() if found.is_reassigned})
    )


def start(state: ControllerState, partition: TopicPartition, target: tuple[int, ...] | None) -> Steps[Outcome]:
    """Begin, replace or (None) cancel a reassignment."""
    outcome = _problem(state, partition, target)
    if outcome is not None:
        return outcome
    current = state.assignment(partition)
    wanted = current.reassigned_to(current.original if target is None else target)
    if wanted == current:
        return Outcome()
    dropped = [each for each in current.replicas if each not in wanted.replicas]
    if dropped:
        yield from _leave(state, partition, wanted, dropped)
    yield from _write(state, partition, wanted)
    replica_states.create(state, partition)
    replica_states.drop(state, [Replica(partition, each) for each in dropped])
    yield from advance(state, partition)
    return Outcome()


def _problem(state: ControllerState, partition: TopicPartition, target: tuple[int, ...] | None) -> Outcome | None:
    if not state.has(partition) or state.is_deleting(partition) or partition not in state.partitions:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition, or it is being deleted")
    current = state.assignment(partition)
    if target is None:
        if not current.is_reassigned:
            return Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        target = current.original
    elif partition.topic in state.to_delete:
        return Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic is to be deleted")
    elif not target or len(set(target)) != len(target):
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replicas, or one of them twice")
    else:
        unknown = [each for each in target if each not in state.brokers and each not in current.replicas]
        if unknown:
            return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"unknown brokers {unknown}")
    remaining = current.reassigned_to(target).replicas
    if not set(state.partitions[partition].isr) & set(remaining):
        return Outcome(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replica in sync would be left")
    return None


def _leave(state: ControllerState, partition: TopicPartition, wanted: Assignment, dropped: list[int]) -> Steps[None]:
    """Replicas leave the ISR; one that leads gives way to another in sync, or to none."""

    def compute(_: TopicPartition, current: PartitionState) -> PartitionState | None:
        if not set(current.quorum) & set(dropped) and current.leader not in dropped:
            return None
        of = Candidates(replicas=wanted.replicas, state=current, alive=state.alive, min_isr=state.min_isr(partition))
        return for_reassigned(of, wanted.replicas) or without(of, set(dropped))

    yield from update_states(state, (partition,), compute)
    if state.partitions[partition].leader < 0:
        partition_states.take_offline(state, (partition,))
    yield from replica_states.take_offline(state, [Replica(partition, each) for each in dropped])


def _write(state: ControllerState, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
    """Write the assignment of a partition into its topic's znode."""
    yield from write_assignments(state, partition.topic, {partition.partition: assignment})


def write_assignments(state: ControllerState, name: str, changes: Mapping[int, Assignment]) -> Steps[None]:
    """Write assignments of partitions of one topic. Raises CoordinationError if somebody else writes there as well."""
    topic, path = state.topics[name], topic_path(name)
    data = TopicZnode(topic.topic_id, {**topic.assignments, **changes}).encode()
    result = yield from write_until_known(state, Set(path, data, topic.version))
    if result.error == ZooKeeperError.BADVERSION:
        # The answer to an earlier try was lost, or a tool has changed the znode: its changes are read first.
        (found,) = yield from read((Get(path, watch=True),))
        if found.must(path).data != data:
            raise CoordinationError(path, ZooKeeperError.BADVERSION)
        topic.version = found.stat.version
    else:
        result.must(path)
        topic.version += 1
    for number, assignment in changes.items():
        state.assign(TopicPartition(name, number), assignment)


def is_complete(state: ControllerState, partition: TopicPartition) -> bool:
    """One that was cancelled waits for nobody."""
    assignment = state.assignment(partition)
    return not assignment.is_reassigned or set(assignment.target) <= set(state.partitions[partition].isr)


def advance(state: ControllerState, partition: TopicPartition) -> Steps[None]:
    """Go on with what the znode says: wait for the target to be in sync (A), or finish (B)."""
    if partition not in state.partitions:
        return
    if is_complete(state, partition):
        yield from _finish(state, partition)
    else:
        yield from update_states(state, (partition,), lambda _, current: with_leader(current, current.leader))


def on_isr_changed(state: ControllerState, partitions: Iterable[TopicPartition]) -> Steps[None]:
    """Finish those whose target is in sync now."""
    for partition in partitions:
        if state.has(partition) and state.assignment(partition).is_reassigned and is_complete(state, partition):
            yield from _finish(state, partition)


def resume(state: ControllerState, partitions: Iterable[TopicPartition]) -> Steps[None]:
    """After an election of the controller, or when brokers return."""
    for partition in partitions:
        if state.has(partition) and state.assignment(partition).is_reassigned:
            yield from advance(state, partition)


def _finish(state: ControllerState, partition: TopicPartition) -> Steps[None]:
    assignment = state.assignment(partition)
    target, removed = assignment.target, [Replica(partition, each) for each in assignment.removing]
    min_isr = min(state.settings_of(partition.topic).min_insync_replicas, len(target))

    def compute(_: TopicPartition, current: PartitionState) -> PartitionState:
        of = Candidates(replicas=target, state=current, alive=state.alive, min_isr=min_isr)
        isr = tuple(each for each in current.isr if each in target)
        without_leader = with_leader(with_isr(current, isr, replicas=target, min_isr=min_isr), -1)
        return for_reassigned(of, target) or without_leader

    yield from update_states(state, (partition,), compute)
    led = state.partitions[partition].leader >= 0
    if not led:
        partition_states.take_offline(state, (partition,))
    elif state.phase(partition) is not PartitionPhase.ONLINE:
        partition_states.move(state, (partition,), PartitionPhase.ONLINE)
    yield from replica_states.take_offline(state, removed)
    yield from _write(state, partition, Assignment(target))
    replica_states.drop(state, removed)
    yield from _remove_from_legacy(state, partition)
    if partition.topic in state.to_delete:
        yield from deletion.proceed(state)


# ------------------------------------------------------------------------------------------------------ legacy requests


def on_legacy_request(state: ControllerState) -> Steps[None]:
    """Somebody wrote /admin/reassign_partitions."""
    found = yield from look(REASSIGNMENT)
    if found is None:
        state.legacy_reassigned.clear()
        return
    try:
        targets = decode_reassignment(found.data)
    except MalformedError as error:
        state.report(str(error))
        yield from write_until_known(state, Delete(REASSIGNMENT))
        return
    started = []
    for partition, target in targets.items():
        if partition in state.legacy_reassigned:
            continue
        outcome = _problem(state, partition, target)
        if outcome is not None:
            state.report(
                f"{REASSIGNMENT}: {partition} is left out: {outcome.error.name} {outcome.message or ''}".strip()
            )
        started.append(partition)
    state.legacy_reassigned.update(started)
    for partition in started:
        yield from start(state, partition, targets[partition])
        if not state.has(partition) or not state.assignment(partition).is_reassigned:
            yield from _remove_from_legacy(state, partition)


def _remove_from_legacy(state: ControllerState, partition: TopicPartition) -> Steps[None]:
    if partition not in state.legacy_reassigned:
        return
    state.legacy_reassigned.discard(partition)
    found = yield from look(REASSIGNMENT)
    if found is None:
        return
    try:
        left = decode_reassignment(found.data)
    except MalformedError:
        left = {}
    left.pop(partition, None)
    change = Set(REASSIGNMENT, encode_reassignment(left), found.stat.version) if left else Delete(REASSIGNMENT)
    result = yield from write_until_known(state, change)
    if not (result.is_missing or result.error == ZooKeeperError.BADVERSION):
        result.must(REASSIGNMENT)
