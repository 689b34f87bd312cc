"""The state machine of replicas.

    NON_EXISTENT -> NEW                        the partition has the replica now
    NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE -> ONLINE
    NEW, ONLINE, DELETION_INELIGIBLE -> OFFLINE
    OFFLINE -> DELETION_STARTED                its broker was told to delete it
    DELETION_STARTED -> DELETION_SUCCESSFUL    and did
    OFFLINE, DELETION_STARTED -> DELETION_INELIGIBLE
    DELETION_SUCCESSFUL -> NON_EXISTENT

Any other transition is refused and reported: it is a bug.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from zab.coordination.steps import Steps
from zab.partition.controller.effects import LEADER_DURING_DELETION, StoppedReplica
from zab.partition.controller.fencing import update_states
from zab.partition.controller.leaders import without
from zab.partition.controller.partition_states import candidates
from zab.partition.controller.state import ControllerState, Replica, ReplicaPhase
from zab.partition.controller.znodes import TopicPartition

_NON_EXISTENT, _NEW, _ONLINE, _OFFLINE, _STARTED, _SUCCESSFUL, _INELIGIBLE = ReplicaPhase
_FROM: Final = {
    _NON_EXISTENT: frozenset({_SUCCESSFUL}),
    _NEW: frozenset({_NON_EXISTENT}),
    _ONLINE: frozenset({_NEW, _ONLINE, _OFFLINE, _INELIGIBLE}),
    _OFFLINE: frozenset({_NEW, _ONLINE, _INELIGIBLE}),
    _STARTED: frozenset({_OFFLINE}),
    _SUCCESSFUL: frozenset({_STARTED}),
    _INELIGIBLE: frozenset({_OFFLINE, _STARTED}),
}
"""What a phase may follow."""


def phase_of(state: ControllerState, replica: Replica) -> ReplicaPhase:
    return state.replica_phases.get(replica, _NON_EXISTENT)


def move(state: ControllerState, replicas: Iterable[Replica], to: ReplicaPhase) -> list[Replica]:
    """Return the ones that may go there, and now are."""
    moved = []
    for replica in replicas:
        phase = phase_of(state, replica)
        if phase not in _FROM[to]:
            state.report(f"replica {replica} is {phase.value}, and cannot become {to.value}")
        elif to is _NON_EXISTENT:
            del state.replica_phases[replica]
            moved.append(replica)
        else:
            state.replica_phases[replica] = to
            moved.append(replica)
    return moved


def create(state: ControllerState, partition: TopicPartition) -> None:
    """Its replicas that are not there yet. They are online if their broker is alive."""
    new = [each for each in state.replicas_of(partition) if phase_of(state, each) is _NON_EXISTENT]
    move(state, new, _NEW)
    move(state, [each for each in new if each.broker_id in state.brokers], _ONLINE)
    move(state, [each for each in new if each.broker_id not in state.brokers], _OFFLINE)


def bring_online(state: ControllerState, replicas: Iterable[Replica]) -> None:
    move(state, replicas, _ONLINE)


def take_offline(state: ControllerState, replicas: Iterable[Replica]) -> Steps[None]:
    """All that are not yet; they leave the ISR, and lead no longer."""
    wanted = [each for each in replicas if phase_of(state, each) in (_NEW, _ONLINE, _INELIGIBLE)]
    yield from leave_isr(state, move(state, wanted, _OFFLINE))


def leave_isr(state: ControllerState, replicas: Iterable[Replica]) -> Steps[None]:
    """Write that; not for topics that are being deleted."""
    gone: dict[TopicPartition, set[int]] = defaultdict(set)
    for replica in replicas:
        if not state.is_deleting(replica.partition):
            gone[replica.partition].add(replica.broker_id)
    yield from update_states(
        state, gone, lambda partition, current: without(candidates(state, partition, current), gone[partition])
    )


def stop(state: ControllerState, replicas: Iterable[Replica], *, delete: bool) -> None:
    """Tell their brokers, those that are alive, at the end of the event."""
    for replica in replicas:
        topic = state.topics[replica.partition.topic]
        current = state.partitions.get(replica.partition)
        if current is None or state.is_deleting(replica.partition):
            epoch = LEADER_DURING_DELETION
        else:
            epoch = current.leader_epoch
        stopped = StoppedReplica(replica.partition, topic.topic_id, epoch, delete)
        if replica.broker_id in state.brokers:
            state.pushes.stopped.setdefault(replica.broker_id, []).append(stopped)


def drop(state: ControllerState, replicas: Iterable[Replica]) -> None:
    """Replicas that a partition has no longer: their data is deleted, which nobody waits for. They are offline."""
    gone = list(replicas)
    stop(state, gone, delete=True)
    for phase in (_STARTED, _SUCCESSFUL, _NON_EXISTENT):
        gone = move(state, gone, phase)
