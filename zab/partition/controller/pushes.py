"""What brokers are told at the end of an event, from what the event changed (`effects` has the messages).

A broker that the controller has not spoken to yet gets everything; the others get the partitions that changed. All of
them get all changes, so their images agree. PartitionStates precede StopReplica, so a broker knows why it has to stop.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from zab.partition.controller.effects import (
    LEADER_DURING_DELETION,
    PartitionStates,
    PartitionUpdate,
    StopReplica,
    ToBroker,
    TopicUpdate,
)
from zab.partition.controller.state import ControllerState, Pushes
from zab.partition.controller.znodes import Broker, TopicPartition


def flush(state: ControllerState) -> None:
    """Queue the messages, and begin to collect again."""
    pushes = state.pushes
    sequences = {each: sequence for each, sequence in pushes.sequences.items() if each in state.brokers}
    state.pushes = Pushes(sequences=sequences)
    full = [broker for broker in _live(state) if broker.id in pushes.needs_full]
    others = [broker for broker in _live(state) if broker.id not in pushes.needs_full]
    if full:
        everything = _updates(state, state.partitions, pushes.new)
        for broker in full:
            sequences[broker.id] = 1
            _send(state, broker, PartitionStates(1, True, _live(state), everything))
    if others and (pushes.changed or pushes.removed or pushes.brokers_changed):
        changes = _updates(state, pushes.changed, pushes.new)
        for broker in others:
            sequences[broker.id] += 1
            removed = tuple(pushes.removed)
            _send(state, broker, PartitionStates(sequences[broker.id], False, _live(state), changes, removed))
    for broker in _live(state):
        if broker.id in pushes.stopped:
            _send(state, broker, StopReplica(tuple(pushes.stopped[broker.id])))


def _live(state: ControllerState) -> tuple[Broker, ...]:
    return tuple(state.brokers[each] for each in sorted(state.brokers))


def _send(state: ControllerState, broker: Broker, message: PartitionStates | StopReplica) -> None:
    state.effects.append(ToBroker(broker.id, broker.epoch, state.broker_id, state.epoch, message))


def _updates(
    state: ControllerState, partitions: Iterable[TopicPartition], new: set[TopicPartition]
) -> tuple[TopicUpdate, ...]:
    by_topic: dict[str, list[PartitionUpdate]] = {}
    for partition in sorted(partitions):
        current = state.partitions.get(partition)
        if current is None or not state.has(partition):
            continue
        if state.is_deleting(partition):
            current = evolve(current, leader=LEADER_DURING_DELETION)
        assignment, min_isr = state.assignment(partition), state.min_isr(partition)
        update = PartitionUpdate(partition.partition, current, assignment, min_isr, partition in new)
        by_topic.setdefault(partition.topic, []).append(update)
    topics = {name: state.topics[name] for name in by_topic}
    return tuple(
        TopicUpdate(name, topics[name].topic_id, tuple(found), topics[name].config) for name, found in by_topic.items()
    )
