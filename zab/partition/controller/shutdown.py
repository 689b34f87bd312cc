"""Controlled shutdown: a broker that is to stop gives its leaders away first, and leaves every ISR while it is in sync.

It is answered which partitions it still leads: those of which no other replica is in sync. It asks again some times,
then stops anyway. Partitions with one replica are not among them. A broker that shuts down is not elected, and joins no
ISR, until it comes back with another epoch.
"""

from __future__ import annotations

from zab.coordination.steps import Steps
from zab.kafka.errors import ErrorCode
from zab.partition.controller import partition_states, replica_states
from zab.partition.controller.leaders import for_shutdown
from zab.partition.controller.requests import Answer, ControlledShutdown
from zab.partition.controller.state import ControllerState, PartitionPhase
from zab.partition.controller.znodes import TopicPartition


def shut_down(state: ControllerState, asked: ControlledShutdown) -> Steps[None]:
    broker = state.brokers.get(asked.broker_id)
    if broker is None or broker.epoch != asked.broker_epoch:
        state.answer(Answer(asked.token, ErrorCode.STALE_BROKER_EPOCH))
        return
    state.shutting_down.add(broker.id)
    yield from partition_states.bring_online(state, _led_by(state, broker.id), _strategy)
    remaining = _led_by(state, broker.id)
    followed = [
        each
        for each in state.replicas_on((broker.id,))
        if each.partition in state.partitions
        and state.partitions[each.partition].leader != broker.id
        and not state.is_deleting(each.partition)
    ]
    replica_states.stop(state, followed, delete=False)
    yield from replica_states.take_offline(state, followed)
    state.answer(Answer(asked.token, remaining=tuple(remaining)))


def _led_by(state: ControllerState, broker_id: int) -> list[TopicPartition]:
    return [
        each.partition
        for each in state.replicas_on((broker_id,))
        if state.phase(each.partition) is PartitionPhase.ONLINE
        and state.partitions[each.partition].leader == broker_id
        and len(state.assignment(each.partition).replicas) > 1
    ]


def _strategy(state: ControllerState, partition: TopicPartition) -> partition_states.Strategy:
    return lambda of: for_shutdown(of, frozenset(state.shutting_down))
