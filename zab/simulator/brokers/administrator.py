"""The administrator: creates the topics of a run, and now and then deletes one, which then comes again with another id.

It asks the broker that calls itself the controller. A request that is not answered is repeated until it is seen to be
done, as tools do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Final

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.configs import (
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from zab.kafka.messages.metadata import MetadataResponse
from zab.kafka.messages.placement import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from zab.kafka.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from zab.kafka.primitives import ZERO_UUID
from zab.simulator.brokers.client import Client, Surroundings, errors_of
from zab.simulator.world.schedule import MS

CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
REASSIGN_VERSION: Final = 0
ELECT_VERSION: Final = 2
ALTER_VERSION: Final = 1
PREFERRED, TOPIC, SET = 0, 2, 0
"""Kinds of elections, of resources and of changes."""
LOOK_US: Final = 300 * MS
WAIT_MS: Final = 2_000


@attrs.frozen
class TopicPlan:
    """A topic of a run."""

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]
    use: str = ""
    """The part of the workload that has it for itself (`workload.FOCUSES`); empty: plain producers and consumers."""

    @property
    def is_plain(self) -> bool:
        """Whether it is now and then deleted."""
        return not self.use

    @property
    def rolls(self) -> bool:
        """Whether its logs have several segments within a run. A snapshot of producers knows one batch of each, so a
        restart after a roll forgets the batches before the last one."""
        return int(self.settings["segment.bytes"]) < 1 << 20

    @property
    def min_in_sync(self) -> tuple[int, ...]:
        """Every min.insync.replicas that it may have, as far as there are so many replicas."""
        return (min(self.replicas, int(self.settings["min.insync.replicas"])),)

    def min_in_sync_of(self, *, changes: bool) -> tuple[int, ...]:
        """Every min.insync.replicas that it may have if operators change it now and then."""
        return (1, min(self.replicas, 2), *self.min_in_sync) if changes else self.min_in_sync

    @property
    def is_synced(self) -> bool:
        """Whether what is acknowledged is on the disk."""
        return self.settings.get("flush.mode") == "batch"


class Administrator(Client):
    """See the docstring of the module."""

    def __init__(
        self,
        cluster: Surroundings,
        number: int,
        rng: Random,
        kept: frozenset[int] | None,
        *,
        topics: Sequence[TopicPlan],
        gap_us: int,
    ) -> None:
        """`gap_us`: the average time between two deletions."""
        super().__init__(cluster, number, rng, kept)
        self.topics = {topic.name: topic for topic in topics}
        self._gap_us = gap_us
        self._to_delete: dict[str, bytes] = {}
        """The topics that are to go, by their names: the ids that they had."""
        self._known: dict[str, bytes] = {}

    def start(self) -> None:
        self._look()
        self.later(int(self._gap_us * self.rng.expovariate(1)), self._go_on)

    @property
    def is_done(self) -> bool:
        """Whether all topics are there, as far as it knows, and nothing is to be deleted."""
        return not self._to_delete and self.topics.keys() <= self._known.keys()

    def _go_on(self) -> None:
        if self.is_stopped:
            return
        self.later(int(self._gap_us * self.rng.expovariate(1)), self._go_on)
        plain = sorted(topic.name for topic in self.topics.values() if topic.is_plain)
        name = self.rng.choice(plain or [""])
        if self.wishes():
            self.delete(name)

    def delete(self, name: str) -> bool:
        """Delete this topic, if it is there."""
        if name in self._known:
            self._to_delete[name] = self._known[name]
        return name in self._known

    def _look(self) -> None:
        self.metadata(None, self._learned)

    def _learned(self, answer: MetadataResponse | None) -> None:
        self.later(int(LOOK_US * (0.5 + self.rng.random())), self._look)
        if answer is None or answer.controller_id not in self.cluster.broker_ids or not answer.brokers:
            return
        self._known = {topic.name: bytes(topic.topic_id) for topic in answer.topics if topic.name in self.topics}
        for name, topic_id in list(self._to_delete.items()):
            if self._known.get(name) != topic_id:
                del self._to_delete[name]
        missing = [topic for name, topic in self.topics.items() if name not in self._known]
        alive = len(answer.brokers)
        if missing:
            self._create(answer.controller_id, [each for each in missing if each.replicas <= alive])
        elif self._to_delete:
            self._delete(answer.controller_id)

    def _create(self, controller: int, topics: Sequence[TopicPlan]) -> None:
        if not topics:
            return
        asked = tuple(
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replicas,
                assignments=(),
                configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.settings.items()),
            )
            for topic in topics
        )
        self.ask(controller, CreateTopicsRequest(topics=asked, timeout_ms=WAIT_MS), CREATE_VERSION, self._created)

    def _delete(self, controller: int) -> None:
        asked = tuple(DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in self._to_delete)
        self.ask(controller, DeleteTopicsRequest(topics=asked, timeout_ms=WAIT_MS), DELETE_VERSION, self._deleted)

    # ------------------------------------------------------------------------------------------- once, as faults

    def reassign(self, controller: int, name: str, index: int, replicas: tuple[int, ...] | None) -> None:
        """Move a partition to these replicas; None: cancel that."""
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        body = AlterPartitionReassignmentsRequest(
            timeout_ms=WAIT_MS, topics=(ReassignableTopic(name=name, partitions=(partition,)),)
        )
        self._ask_once("reassigned", controller, body, REASSIGN_VERSION)

    def elect_leaders(self, controller: int) -> None:
        """Let the first replica of every partition lead."""
        body = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=WAIT_MS)
        self._ask_once("elected", controller, body, ELECT_VERSION)

    def change_setting(self, controller: int, name: str, key: str, value: str) -> None:
        """Set one setting of a topic."""
        config = IncrementalAlterableConfig(name=key, config_operation=SET, value=value)
        resource = IncrementalAlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=(config,))
        body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        self._ask_once("changed", controller, body, ALTER_VERSION)

    def _ask_once(self, what: str, controller: int, body: object, version: int) -> None:
        def answered(answer: Any) -> None:
            errors = ["no answer"] if answer is None else sorted(each.name for each in errors_of(answer)) or ["NONE"]
            for error in errors:
                self.cluster.judge.counts[f"topics {what}: {error}"] += 1

        if controller in self.cluster.broker_ids:
            self.ask(controller, body, version, answered)

    def _created(self, answer: Any) -> None:
        self._note("created", [] if answer is None else answer.topics)

    def _deleted(self, answer: Any) -> None:
        self._note("deleted", [] if answer is None else answer.responses)

    def _note(self, what: str, results: Sequence[Any]) -> None:
        for result in results:
            self.cluster.judge.counts[f"topics {what}: {ErrorCode(result.error_code).name}"] += 1
