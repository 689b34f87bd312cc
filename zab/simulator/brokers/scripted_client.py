"""A client whose work is written as scripts: generators that yield what they wait for.

    yield Sleep(us)                                 nothing
    answer = yield Ask(broker, body, version)       the answer; None: there is none
    answer = yield from self.call(OF_GROUP, …)      the same from a coordinator, which is looked for if it is unknown

Several scripts of a client run side by side. A process that ends takes its scripts with it (`Running.end`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from zab.kafka.errors import ErrorCode
from zab.kafka.messages.groups import FindCoordinatorRequest
from zab.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from zab.kafka.primitives import Uuid
from zab.simulator.brokers.client import METADATA_VERSION, TIMEOUT_US, Client, Surroundings, errors_of
from zab.simulator.world.schedule import MS

OF_GROUP, OF_TRANSACTION = 0, 1
"""The kinds of coordinators."""
FIND_VERSION: Final = 3
BACKOFF_US: Final = 100 * MS

MOVED: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
"""After these a client looks for the coordinator again."""


@attrs.frozen
class Sleep:
    us: int


@attrs.frozen
class Ask:
    broker: int
    body: object
    version: int
    timeout_us: int = TIMEOUT_US


T = TypeVar("T")
Script: TypeAlias = Generator[Sleep | Ask, Any, T]


@attrs.frozen
class Leader:
    """The leader of a partition, as metadata say."""

    broker: int
    epoch: int
    topic_id: Uuid


@attrs.define(eq=False)
class Running:
    """A script that runs. `call` numbers what it waits for."""

    script: Script[None]
    call: int = 0
    is_alive: bool = True

    def end(self) -> None:
        """It does not go on, whatever is answered."""
        self.is_alive = False


class ScriptedClient(Client):
    """See the docstring of the module."""

    def __init__(self, cluster: Surroundings, number: int, rng: Random, kept: frozenset[int] | None) -> None:
        super().__init__(cluster, number, rng, kept)
        self.is_calm = False
        """Whether it behaves well: it neither crashes nor pauses."""
        self._coordinators: dict[tuple[int, str], int] = {}
        self._leaders: dict[tuple[str, int], Leader] = {}

    def calm_down(self) -> None:
        """The faults are over."""
        self.is_calm = True

    def wishes(self) -> bool:
        """At the end all are sent, so that everything comes to its end."""
        return super().wishes() or self.is_calm

    def chance(self, share: float) -> bool:
        """Whether something goes wrong now. It draws in any case."""
        return self.rng.random() < share and not self.is_calm

    def pause(self, average_us: int) -> Sleep:
        return Sleep(int(average_us * self.rng.expovariate(1)) + MS)

    def perform(self, script: Script[None]) -> Running:
        """Begin a script."""
        running = Running(script)
        self.later(0, self._resume, running, 0, None)
        return running

    def _resume(self, running: Running, call: int, value: Any) -> None:
        if not running.is_alive or call != running.call:
            return
        running.call += 1
        try:
            wanted = running.script.send(value)
        except StopIteration:
            running.end()
            return
        then = partial(self._resume, running, running.call)
        if isinstance(wanted, Sleep):
            self.later(wanted.us, then, None)
        else:
            self.ask(wanted.broker, wanted.body, wanted.version, then, wanted.timeout_us)

    # --------------------------------------------------------------------------------------------------------- brokers

    def call(self, kind: int, key: str, body: object, version: int, timeout_us: int = TIMEOUT_US) -> Script[Any]:
        """Ask the coordinator of this group or transactional id; None: there was no answer, or there is none to ask."""
        broker = self._coordinators.get((kind, key))
        if broker is None:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            found = yield Ask(self.rng.choice(self.cluster.broker_ids), request, FIND_VERSION)
            if found is None or found.error_code:
                yield Sleep(BACKOFF_US)
                return None
            broker = self._coordinators[kind, key] = found.node_id
        answer = yield Ask(broker, body, version, timeout_us)
        if answer is None or MOVED & errors_of(answer):
            self._coordinators.pop((kind, key), None)
        return answer

    def coordinator(self, kind: int, key: str) -> int | None:
        """The broker that `call` would ask; None: it would look for it."""
        return self._coordinators.get((kind, key))

    def leader(self, topic: str, index: int) -> Script[Leader | None]:
        """The leader of this partition; None: nobody says it now."""
        if (topic, index) not in self._leaders:
            yield from self.partitions(topic)
        return self._leaders.get((topic, index))

    def partitions(self, topic: str) -> Script[Sequence[int]]:
        """The partitions of a topic, from any broker; none: it is not known there."""
        body = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
        answer = yield Ask(self.rng.choice(self.cluster.broker_ids), body, METADATA_VERSION)
        if answer is None or not answer.topics or answer.topics[0].error_code:
            yield Sleep(BACKOFF_US)
            return ()
        found = answer.topics[0]
        for each in found.partitions:
            self._leaders.pop((topic, each.partition_index), None)
            if each.leader_id >= 0:
                leader = Leader(each.leader_id, each.leader_epoch, found.topic_id)
                self._leaders[topic, each.partition_index] = leader
        return sorted(each.partition_index for each in found.partitions)

    def forget_leader(self, topic: str, index: int) -> None:
        """It may be another one."""
        self._leaders.pop((topic, index), None)
