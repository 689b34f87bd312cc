"""The cluster as the controller has described it: which brokers live, which topics there are, who leads what.

A broker answers Metadata from it, and follows it: what it leads and what it copies is what the image says. An image is
never changed; the next one shares with it what has stayed the same.

Topics have a name and an id. The id is another one when a topic is deleted and created again under its name, so nobody
takes the new one for the old one (KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from attrs import field, frozen

from zab.kafka.primitives import ZERO_UUID, Uuid
from zab.partition.image.partition_state import NO_LEADER, PartitionState
from zab.partition.settings.listeners import Endpoint

NO_CONTROLLER: Final = -1
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
INTERNAL: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})
"""Topics in which brokers keep what they coordinate; clients do not write to them."""


@frozen(kw_only=True)
class Broker:
    """A broker that lives. `epoch` is another one after each of its starts."""

    id: int
    epoch: int
    endpoints: Mapping[str, Endpoint]
    """By the name of the listener."""
    rack: str | None = None


@frozen(kw_only=True)
class Topic:
    """A topic; partitions by their index."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionState]
    changes: Mapping[str, str] = field(factory=dict)
    """What is set for it alone: text by the setting's name (`TopicSettings.with_changes`)."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL


@frozen(kw_only=True)
class ClusterImage:
    """All of it."""

    cluster_id: str = ""
    controller: int = NO_CONTROLLER
    brokers: Mapping[int, Broker] = field(factory=dict)
    topics: Mapping[str, Topic] = field(factory=dict)
    names: Mapping[Uuid, str] = field(factory=dict)
    """The name of the topic with each id."""

    def topic_of(self, topic_id: Uuid) -> Topic | None:
        """The topic with this id."""
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def without_leader(self, broker_id: int) -> ClusterImage:
        """The image in which this broker leads nothing."""
        topics = []
        for topic in self.topics.values():
            led = {
                index: attrs.evolve(state, leader=NO_LEADER)
                for index, state in topic.partitions.items()
                if state.leader == broker_id
            }
            if led:
                topics.append(attrs.evolve(topic, partitions={**topic.partitions, **led}))
        return self.changed(topics=topics)

    def changed(
        self,
        *,
        cluster_id: str | None = None,
        controller: int | None = None,
        brokers: Mapping[int, Broker] | None = None,
        topics: Iterable[Topic] = (),
        gone: Iterable[str] = (),
    ) -> ClusterImage:
        """The next image: `topics` are new or replace those of their names, `gone` are no longer there."""
        now = dict(self.topics)
        for name in gone:
            now.pop(name, None)
        now |= {topic.name: topic for topic in topics}
        return attrs.evolve(
            self,
            cluster_id=self.cluster_id if cluster_id is None else cluster_id,
            controller=self.controller if controller is None else controller,
            brokers=self.brokers if brokers is None else brokers,
            topics=now,
            names={topic.id: topic.name for topic in now.values() if topic.id != ZERO_UUID},
        )
