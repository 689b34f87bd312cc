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
from zab.kafka.messages.metadata import MetadataResponse
from zab.kafka.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from zab.kafka.primitives import ZERO_UUID
from zab.simulator.brokers.client import Client, Surroundings
from zab.simulator.world.schedule import MS

CREATE_VERSION: Final = 7
DELETE_VERSION: Final = 6
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
        if self.wishes() and name in self._known:
            self._to_delete[name] = self._known[name]

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

    def _created(self, answer: Any) -> None:
        self._note("created", [] if answer is None else answer.topics)

    def _deleted(self, answer: Any) -> None:
        self._note("deleted", [] if answer is None else answer.responses)

    def _note(self, what: str, results: Sequence[Any]) -> None:
        for result in results:
            self.cluster.judge.counts[f"topics {what}: {ErrorCode(result.error_code).name}"] += 1
