"""The state machine of partitions.

    NON_EXISTENT -> NEW                    the topic was created, or the partition added
    NEW, ONLINE, OFFLINE -> ONLINE         a leader was elected (`bring_online`)
    NEW, ONLINE -> OFFLINE                 its leader is dead; or its topic is to be deleted
    OFFLINE -> NON_EXISTENT                deleted

Any other transition is refused and reported: it is a bug.

A NEW partition gets its state znode here: leader = first alive replica, ISR = all alive ones, leader epoch 0. If no
replica is alive it stays NEW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from zab.coordination.operations import CoordinationError, Create, Result, ZooKeeperError
from zab.coordination.steps import Steps
from zab.partition.controller.fencing import fenced, read_states, update_states, write, write_until_known
from zab.partition.controller.leaders import Candidates, for_offline
from zab.partition.controller.state import ControllerState, PartitionPhase
from zab.partition.controller.znodes import (
    PartitionState,
    TopicPartition,
    partition_path,
    partitions_path,
    state_path,
)

Strategy = Callable[[Candidates], PartitionState | None]

_NON_EXISTENT, _NEW, _ONLINE, _OFFLINE = PartitionPhase
_FROM: Final = {
    _NON_EXISTENT: frozenset({_OFFLINE}),
    _NEW: frozenset({_NON_EXISTENT}),
    _ONLINE: frozenset({_NEW, _ONLINE, _OFFLINE}),
    _OFFLINE: frozenset({_NEW, _ONLINE}),
}
"""What a phase may follow."""


def move(state: ControllerState, partitions: Iterable[TopicPartition], to: PartitionPhase) -> list[TopicPartition]:
    """Return the ones that may go there, and now are."""
    moved = []
    for partition in partitions:
        phase = state.phase(partition)
        if phase not in _FROM[to]:
            state.report(f"partition {partition} is {phase.value}, and cannot become {to.value}")
        else:
            state.partition_phases[partition] = to
            moved.append(partition)
    return moved


def take_offline(state: ControllerState, partitions: Iterable[TopicPartition]) -> None:
    """All that are not yet."""
    move(state, [each for each in partitions if state.phase(each) is not _OFFLINE], _OFFLINE)


def candidates(state: ControllerState, partition: TopicPartition, current: PartitionState) -> Candidates:
    return Candidates(
        replicas=state.assignment(partition).replicas,
        state=current,
        alive=state.alive,
        min_isr=state.min_isr(partition),
    )


def offline_strategy(state: ControllerState, partition: TopicPartition) -> Strategy:
    unclean = state.settings_of(partition.topic).unclean_leader_election_enable
    return lambda of: for_offline(of, unclean=unclean)


def bring_online(
    state: ControllerState,
    partitions: Iterable[TopicPartition],
    strategy: Callable[[ControllerState, TopicPartition], Strategy] = offline_strategy,
) -> Steps[set[TopicPartition]]:
    """Create the state of new partitions, elect leaders for the others.

    Return the partitions that have a new leader. Those for which the strategy finds none stay as they are.
    """
    wanted = list(partitions)
    created = yield from _create_states(state, [each for each in wanted if state.phase(each) is _NEW])
    of_phase = {each: state.phase(each) for each in wanted}
    chosen = {each: strategy(state, each) for each in wanted}
    others = [
        each for each in wanted if of_phase[each] is _OFFLINE or (of_phase[each] is _ONLINE and each not in created)
    ]
    elected = yield from update_states(
        state, others, lambda partition, current: chosen[partition](candidates(state, partition, current))
    )
    move(state, sorted(elected), _ONLINE)
    return elected | {each for each in created if state.phase(each) is _ONLINE}


def elect_where_there_is_none(state: ControllerState) -> Steps[None]:
    """Elect for all new and offline partitions, except those of topics that are being deleted."""
    wanted = [each for each in state.all_partitions() if state.phase(each) in (_NEW, _OFFLINE)]
    yield from bring_online(state, [each for each in wanted if not state.is_deleting(each)])


# ------------------------------------------------------------------------------------------------------- new partitions


def _create_states(state: ControllerState, partitions: list[TopicPartition]) -> Steps[set[TopicPartition]]:
    initial = {}
    for partition in partitions:
        alive = tuple(each for each in state.assignment(partition).replicas if each in state.alive)
        if alive:
            initial[partition] = state.stamped(PartitionState(leader=alive[0], leader_epoch=0, isr=alive))
    for topic in dict.fromkeys(partition.topic for partition in initial):
        path = partitions_path(topic)
        parent = yield from write_until_known(state, Create(path))
        if parent.error != ZooKeeperError.NODEEXISTS:
            parent.must(path)
    created: set[TopicPartition] = set()
    pending = list(initial)
    while pending:
        multis = [fenced(state, *_created(each, initial[each])) for each in pending]
        results = yield from write(state, multis)
        doubtful = []
        for partition, result in zip(pending, results, strict=True):
            if result.ok:
                state.put(partition, initial[partition])
                created.add(partition)
            else:
                _must_be_there(partition, result)
                doubtful.append(partition)
        pending, adopted = yield from _adopt(state, doubtful, initial)
        created |= adopted
    state.pushes.new.update(created)
    online = {each for each in created if state.partitions[each].leader in state.brokers}
    move(state, sorted(online), _ONLINE)
    move(state, sorted(created - online), _OFFLINE)
    return created


def _created(partition: TopicPartition, initial: PartitionState) -> tuple[Create, Create]:
    return Create(partition_path(partition)), Create(state_path(partition), initial.encode())


def _must_be_there(partition: TopicPartition, result: Result) -> None:
    if not (result.is_lost or result.error == ZooKeeperError.NODEEXISTS):
        raise CoordinationError(state_path(partition), result.error)


def _adopt(
    state: ControllerState, partitions: list[TopicPartition], initial: dict[TopicPartition, PartitionState]
) -> Steps[tuple[list[TopicPartition], set[TopicPartition]]]:
    """Take what exists already; where the parent is there without a state, create that alone.

    Return those that have to be tried again, and those that have a state now.
    """
    yield from read_states(state, partitions, may_be_missing=True)
    again = []
    for partition in [each for each in partitions if each not in state.partitions]:
        alone = Create(state_path(partition), initial[partition].encode())
        result = yield from write_until_known(state, alone)
        if result.ok:
            state.put(partition, initial[partition])
        else:
            again.append(partition)
    return again, {each for each in partitions if each in state.partitions}
