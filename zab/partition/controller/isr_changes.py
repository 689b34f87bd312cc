"""AlterPartition: the leader of a partition proposes which replicas are in sync, the controller decides and writes.

The checks, in this order; the first that fails gives the error. Of the whole request:

    NOT_CONTROLLER               this broker is not the controller
    STALE_BROKER_EPOCH           the sender is unknown, or this is not its present life

and of each partition:

    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
    NOT_CONTROLLER               the request has a higher leader or partition epoch than is known here: this controller
                                 is no longer one
    FENCED_LEADER_EPOCH          its leader epoch is lower
    INVALID_REQUEST              the sender is not the leader
    NONE                         what it wants holds already: its earlier request was applied, and the answer lost
    INVALID_UPDATE_VERSION       its partition epoch is lower
    INVALID_REQUEST              the new ISR lacks the leader, or has a broker that is no replica; a leader is to
                                 recover again, or recovers with others in sync
    INELIGIBLE_REPLICA           a member is not alive, shuts down, or has a broker epoch other than the one named

A leader that was refused because it has an older state is sent the state again, even if nothing changed: it waits for
that.
"""

from __future__ import annotations

from attrs import evolve

from zab.coordination.operations import Children, Delete, Get
from zab.coordination.steps import Steps, read
from zab.kafka.errors import ErrorCode
from zab.partition.controller import reassignment
from zab.partition.controller.fencing import read_states, update_states, write_until_known
from zab.partition.controller.leaders import with_isr
from zab.partition.controller.requests import AlterPartition, Answer, PartitionChange, PartitionOutcome
from zab.partition.controller.state import ControllerState
from zab.partition.controller.znodes import (
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    MalformedError,
    PartitionState,
    TopicPartition,
    decode_log_dir_event,
    decode_partitions,
)

_BEHIND = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.INVALID_UPDATE_VERSION})


def alter(state: ControllerState, asked: AlterPartition) -> Steps[None]:
    sender = state.brokers.get(asked.broker_id)
    if sender is None or sender.epoch != asked.broker_epoch:
        state.answer(Answer(asked.token, ErrorCode.STALE_BROKER_EPOCH))
        return
    changes: dict[TopicPartition, PartitionChange] = {}
    keys: dict[TopicPartition, tuple[str, int]] = {}
    outcomes: dict[tuple[str, int], PartitionOutcome] = {}
    for topic_id, of_topic in asked.topics.items():
        topic = state.topic_with_id(topic_id)
        for change in of_topic:
            if topic is None:
                outcomes[topic_id, change.partition] = PartitionOutcome(ErrorCode.UNKNOWN_TOPIC_ID)
            else:
                partition = TopicPartition(topic.name, change.partition)
                changes[partition], keys[partition] = change, (topic_id, change.partition)
    errors = yield from _write(state, asked.broker_id, changes)
    for partition, error in errors.items():
        current = state.partitions.get(partition)
        if current is None:
            outcomes[keys[partition]] = PartitionOutcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif error == ErrorCode.NONE:
            outcomes[keys[partition]] = PartitionOutcome(error, current, state.min_isr(partition))
        else:
            outcomes[keys[partition]] = PartitionOutcome(error)
        if error in _BEHIND:
            state.pushes.changed.add(partition)
    state.answer(Answer(asked.token, states=outcomes))
    yield from reassignment.on_isr_changed(state, [each for each, error in errors.items() if error == ErrorCode.NONE])


def _write(
    state: ControllerState, sender: int, changes: dict[TopicPartition, PartitionChange]
) -> Steps[dict[TopicPartition, ErrorCode]]:
    errors: dict[TopicPartition, ErrorCode] = {}

    def compute(partition: TopicPartition, current: PartitionState) -> PartitionState | None:
        change = changes[partition]
        isr = tuple(broker_id for broker_id, _ in change.isr)
        error = checked(state, sender, partition, current, change)
        errors[partition] = error or ErrorCode.NONE
        if error is not None or holds_already(current, change):
            return None
        replicas, min_isr = state.assignment(partition).replicas, state.min_isr(partition)
        return evolve(with_isr(current, isr, replicas=replicas, min_isr=min_isr), recovering=change.recovering)

    known = []
    for partition in changes:
        if not state.has(partition) or partition not in state.partitions or state.is_deleting(partition):
            errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            known.append(partition)
    written = yield from update_states(state, known, compute)
    errors.update(dict.fromkeys(written, ErrorCode.NONE))
    return errors


def holds_already(current: PartitionState, change: PartitionChange) -> bool:
    isr = {broker_id for broker_id, _ in change.isr}
    return set(current.isr) == isr and current.recovering == change.recovering


def checked(
    state: ControllerState, sender: int, partition: TopicPartition, current: PartitionState, change: PartitionChange
) -> ErrorCode | None:
    """The error of a known partition; None: it may be written, or holds already."""
    if change.leader_epoch > current.leader_epoch or change.partition_epoch > current.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if change.leader_epoch < current.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender != current.leader:
        return ErrorCode.INVALID_REQUEST
    if holds_already(current, change):
        return None
    if change.partition_epoch < current.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [broker_id for broker_id, _ in change.isr]
    is_valid = sender in isr and set(isr) <= set(state.assignment(partition).replicas) and len(set(isr)) == len(isr)
    if not is_valid or (change.recovering and not current.recovering):
        return ErrorCode.INVALID_REQUEST
    # A leader that is to stop may let others in: then it can stop leading.
    others = [(broker_id, epoch) for broker_id, epoch in change.isr if broker_id != sender]
    if any(not _is_eligible(state, broker_id, epoch) for broker_id, epoch in others):
        return ErrorCode.INELIGIBLE_REPLICA
    if change.recovering and len(isr) > 1:
        return ErrorCode.INVALID_REQUEST
    return None


def _is_eligible(state: ControllerState, broker_id: int, epoch: int) -> bool:
    broker = state.brokers.get(broker_id)
    return broker is not None and broker_id not in state.shutting_down and epoch in (-1, broker.epoch)


# -------------------------------------------------------------------------------------------------------- notifications


def on_notified(state: ControllerState) -> Steps[None]:
    """Leaders from before AlterPartition wrote states themselves: read them, tell all brokers."""
    (listed,) = yield from read((Children(ISR_CHANGES, watch=True),))
    paths = [f"{ISR_CHANGES}/{each}" for each in listed.must(ISR_CHANGES).children]
    found = yield from read(Get(path) for path in paths)
    changed: dict[TopicPartition, None] = {}
    for path, result in zip(paths, found, strict=True):
        try:
            changed.update(dict.fromkeys([] if result.is_missing else decode_partitions(path, result.must(path).data)))
        except MalformedError as error:
            state.report(str(error))
    partitions = [each for each in changed if each in state.partitions]
    yield from read_states(state, partitions)
    yield from reassignment.on_isr_changed(state, [each for each in partitions if each in state.partitions])
    for path in paths:
        yield from write_until_known(state, Delete(path))


def on_log_dir_event(state: ControllerState) -> Steps[None]:
    """A broker lost a log directory. Brokers here have one, and stop without it; so this is only reported."""
    (listed,) = yield from read((Children(LOG_DIR_EVENTS, watch=True),))
    paths = [f"{LOG_DIR_EVENTS}/{each}" for each in listed.must(LOG_DIR_EVENTS).children]
    found = yield from read(Get(path) for path in paths)
    for path, result in zip(paths, found, strict=True):
        if not result.is_missing:
            try:
                state.report(f"broker {decode_log_dir_event(path, result.must(path).data)} lost a log directory")
            except MalformedError as error:
                state.report(str(error))
        yield from write_until_known(state, Delete(path))
