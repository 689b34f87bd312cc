"""From what the controller says to the image that a broker has of the cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from attrs import evolve

from zab.kafka.primitives import Uuid
from zab.partition.controller import znodes
from zab.partition.controller.effects import LEADER_DURING_DELETION, PartitionStates, PartitionUpdate, TopicUpdate
from zab.partition.image.cluster_image import Broker, ClusterImage, Topic
from zab.partition.image.partition_state import NO_LEADER, PartitionState
from zab.partition.settings.listeners import endpoint_in


def image_after(image: ClusterImage, message: PartitionStates, controller: int) -> ClusterImage:
    """The image after this message of this controller. A full message has everything that there is."""
    brokers = {each.id: _broker(each) for each in message.live_brokers}
    known = {} if message.is_full else image.topics
    has_new_lives = lives_of(brokers) != lives_of(image.brokers)
    if has_new_lives:
        known = {name: _with_lives(topic, brokers) for name, topic in known.items()}
    topics, gone = [], []
    for update in message.topics:
        if any(each.state.leader == LEADER_DURING_DELETION for each in update.partitions):
            gone.append(update.topic)
            continue
        topics.append(_topic(known.get(update.topic), update, brokers))
    gone += [name for topic_id in message.removed if (name := image.names.get(_uuid(topic_id))) is not None]
    replaced = [topic.name for topic in topics]
    if has_new_lives:
        topics += [topic for name, topic in known.items() if name not in (*replaced, *gone)]
    if message.is_full:
        gone += [name for name in image.topics if name not in replaced]
    return image.changed(
        controller=controller, brokers=brokers, topics=topics, gone=[name for name in gone if name not in replaced]
    )


def lives_of(brokers: Mapping[int, Broker]) -> dict[int, int]:
    """The epoch of each broker."""
    return {broker.id: broker.epoch for broker in brokers.values()}


def _with_lives(topic: Topic, brokers: Mapping[int, Broker]) -> Topic:
    """The topic, whose leaders know which brokers live now."""
    partitions = {
        index: evolve(state, broker_epochs=_epochs(state.replicas, brokers))
        for index, state in topic.partitions.items()
    }
    return evolve(topic, partitions=partitions)


def _epochs(replicas: Iterable[int], brokers: Mapping[int, Broker]) -> dict[int, int]:
    return {each: brokers[each].epoch for each in replicas if each in brokers}


def _topic(known: Topic | None, update: TopicUpdate, brokers: Mapping[int, Broker]) -> Topic:
    topic_id = _uuid(update.topic_id)
    is_same = known is not None and known.id == topic_id
    partitions = dict(known.partitions) if known is not None and is_same else {}
    partitions |= {each.partition: _state(each, brokers) for each in update.partitions}
    return Topic(name=update.topic, id=topic_id, partitions=partitions, changes=update.config)


def _state(update: PartitionUpdate, brokers: Mapping[int, Broker]) -> PartitionState:
    state, assignment = update.state, update.assignment
    return PartitionState(
        leader=max(state.leader, NO_LEADER),
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
        replicas=assignment.replicas,
        adding=assignment.adding,
        removing=assignment.removing,
        is_recovering=state.recovering,
        min_isr=update.min_isr,
        broker_epochs=_epochs(assignment.replicas, brokers),
    )


def _broker(broker: znodes.Broker) -> Broker:
    endpoints = {}
    for text in broker.endpoints:
        # What cannot be read is no listener that our clients could be told of.
        with contextlib.suppress(ValueError):
            endpoint = endpoint_in(text)
            endpoints[endpoint.name] = endpoint
    return Broker(id=broker.id, epoch=broker.epoch, endpoints=endpoints, rack=broker.rack)


def _uuid(text: str) -> Uuid:
    return Uuid(znodes.uuid_bytes(text))
