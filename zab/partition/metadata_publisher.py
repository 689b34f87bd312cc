"""What the controller has decided is done on this broker: an image of the cluster is kept, and every part follows it.

    publish(message, …)         replicas become leaders and followers, or stop
    config_changed(path, …)     settings of topics and of brokers, users, quotas
    follow(topics)              every part does what the image says about these topics

Not here: who may say so (`links.arrivals`), and what this broker asks of the controller (`requests.asking_controller`).
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

import attrs

from zab.kafka.errors import ErrorCode
from zab.partition.access.users import Users
from zab.partition.controller.effects import PartitionStates, StopReplica, ToBroker
from zab.partition.controller.znodes import DEFAULT_NAME, TopicPartition
from zab.partition.coordinators import Coordinators
from zab.partition.image.cluster_image import ClusterImage, Topic
from zab.partition.image.from_controller import image_after
from zab.partition.local_replicas import LocalReplicas
from zab.partition.meters.meters import Meters
from zab.partition.quotas.limits import QuotaLimits, entity_at
from zab.partition.replica.fetcher import Fetchers
from zab.partition.requests.configs import BrokerChanges
from zab.partition.requests.replicas import Replicas
from zab.partition.settings.topic_settings import InvalidSettingError, TopicSettings


@attrs.define
class MetadataPublisher:
    """See the docstring of the module. `topic_settings`: what the broker's file says for topics."""

    topic_settings: TopicSettings
    changes: BrokerChanges
    replicas: Replicas
    local: LocalReplicas
    fetchers: Fetchers
    coordinators: Coordinators
    meters: Meters
    users: Users
    limits: QuotaLimits
    image: ClusterImage = attrs.Factory(ClusterImage)
    now: int = 0
    wall: int = 0
    notes: list[str] = attrs.Factory(list)
    """What the operator is to read."""

    def begin(self, now: int, wall: int, notes: list[str]) -> None:
        """Begin a turn."""
        self.now, self.wall, self.notes = now, wall, notes

    def publish(self, envelope: ToBroker) -> dict[TopicPartition, ErrorCode]:
        """Do what the controller says. Which replicas were deleted."""
        if isinstance(envelope.message, PartitionStates):
            self._take_states(envelope.message, envelope.controller_id)
            return {}
        return self._stop_replicas(envelope.message)

    def _take_states(self, message: PartitionStates, controller: int) -> None:
        before, self.image = self.image, image_after(self.image, message, controller)
        # Those that are named, and all of them where brokers come or go.
        changed = {name: topic for name, topic in self.image.topics.items() if topic is not before.topics.get(name)}
        self.follow(changed)
        gone = [name for name, topic in before.topics.items() if self.image.topic_of(topic.id) is None]
        self.coordinators.topics_deleted(gone)
        self.meters.topics_deleted(gone)

    def _stop_replicas(self, message: StopReplica) -> dict[TopicPartition, ErrorCode]:
        done: dict[TopicPartition, ErrorCode] = {}
        for stopped in message.replicas:
            before = self.replicas.get(*stopped.partition)
            stays = self.local.stop(stopped, self.now)
            if stays is not None:
                self.fetchers.follow(stays)
            elif before is not None:
                self.fetchers.forget(before)
            self.coordinators.stopped(*stopped.partition)
            if stopped.delete:
                done[stopped.partition] = ErrorCode.NONE
        return done

    def config_changed(self, entity_path: str, config: dict[str, str], broker_id: int) -> None:
        """The settings of an entity are these now. `broker_id`: that of this broker."""
        kind, _, name = entity_path.partition("/")
        if kind == "brokers" and name in (DEFAULT_NAME, str(broker_id)):
            self._broker_changed(name, config)
        if kind == "users" and "/" not in name and name != DEFAULT_NAME:
            self.notes += self.users.changed(unquote(name), config)
        entity = entity_at(entity_path)
        if entity is not None:
            self.notes += self.limits.changed(entity, config)
        topic = self.image.topics.get(name) if kind == "topics" else None
        if topic is not None:
            changed = attrs.evolve(topic, changes=config)
            self.image = self.image.changed(topics=[changed])
            if self.local.is_open:
                self.follow({name: changed})

    def _broker_changed(self, name: str, config: dict[str, str]) -> None:
        """What holds for topics that say nothing is another now."""
        changes = self.changes
        if name == DEFAULT_NAME:
            changes.of_all = config
        else:
            changes.own = config
        try:
            self.local.defaults = self.topic_settings.with_broker_changes({**changes.of_all, **changes.own})
        except InvalidSettingError as error:
            self.notes.append(f"settings of brokers: {error} -> they stay as they were")
            return
        if self.local.is_open:
            self.follow(self.image.topics)

    def follow(self, topics: Mapping[str, Topic]) -> None:
        """Do what the image says about these topics."""
        self.local.follow(topics, self.now, self.wall)
        for topic in topics.values():
            for index in topic.partitions:
                replica = self.replicas.get(topic.name, index)
                if replica is not None:
                    self.fetchers.follow(replica)
        self.coordinators.follow(topics)
