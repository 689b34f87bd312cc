"""The coordinators of groups and of transactions on one broker, with their logs and the requests for them.

A transaction touches both: offsets are committed with it, which the group coordinator holds until the marker, and the
transaction coordinator, here or on another broker, is asked before records of it are appended. Each of them works in
its own log; this is where they meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random

from zab.kafka.versions import CONSUMER_GROUP_PROTOCOL
from zab.partition.consumer_groups.heartbeat import Rules
from zab.partition.coordinator_log import LoadPart, PartLoaded, Surroundings
from zab.partition.group_log import GroupLog
from zab.partition.groups.results import CONSUMER
from zab.partition.image.cluster_image import Topic
from zab.partition.marker_writer import MarkerWriter
from zab.partition.requests.asking_coordinators import AskingCoordinators
from zab.partition.requests.dispatch import Handler
from zab.partition.requests.groups import GroupRequests
from zab.partition.requests.producer_ids import ProducerIds
from zab.partition.requests.transactions import TransactionRequests
from zab.partition.requests.verification import Verification
from zab.partition.settings.broker_config import BrokerConfig
from zab.partition.transaction_log import TransactionLog
from zab.partition.transactions.marker import Marker, MarkerDone


class Coordinators:
    """See the docstring of the module. Only the broker calls it."""

    def __init__(
        self,
        config: BrokerConfig,
        surroundings: Surroundings,
        producer_ids: ProducerIds,
        asking: AskingCoordinators,
        rng: Random,
        now: int,
        wall: int,
    ) -> None:
        self._wall = wall
        self._protocols = config.groups.protocols
        image, replicas = surroundings.image, surroundings.replicas
        transactions = TransactionLog(config.transactions, surroundings, producer_ids, self._write_marker, now, wall)
        self.verify = transactions.coordinator.verify
        self.verification = Verification(
            *(self.verify, transactions.coordinator_of, asking), is_enabled=config.transactions.verifies
        )
        groups = GroupLog(config.groups, surroundings, self.verification, rng, now, wall)
        self.markers = MarkerWriter(replicas, image, groups, surroundings.touched, lambda: self._wall)
        self._group_log, self._transaction_log = groups, transactions
        self._logs = (groups, transactions)
        self._groups = GroupRequests(groups.coordinator, image, groups.create, transactions.create)
        self._transactions = TransactionRequests(
            *(transactions.coordinator, image, replicas, groups.partition_for, groups.create, producer_ids.init),
            self.markers.write_here,
        )

    @property
    def group_counts(self) -> Counter[str]:
        """How many classic groups are in each state."""
        return self._group_log.coordinator.state_counts()

    @property
    def consumer_rules(self) -> Rules:
        """What holds for all groups of KIP-848."""
        return self._group_log.coordinator.consumer_rules

    @property
    def consumer_group_counts(self) -> Counter[str]:
        """How many groups of KIP-848 are in each state."""
        return self._group_log.coordinator.consumer_state_counts()

    @property
    def transaction_counts(self) -> Counter[str]:
        """How many transactional ids are in each state."""
        return self._transaction_log.coordinator.state_counts()

    @property
    def loading_count(self) -> int:
        """How many partitions of the internal topics are being loaded."""
        return sum(log.loading_count for log in self._logs)

    def _write_marker(self, marker: Marker, done: MarkerDone) -> None:
        self.markers.write(marker, done)

    def handlers(self) -> dict[int, Handler]:
        """The handler of each key."""
        found = {**self._groups.handlers(), **self._transactions.handlers()}
        left_out = frozenset() if CONSUMER in self._protocols else CONSUMER_GROUP_PROTOCOL
        return {key: handler for key, handler in found.items() if key not in left_out}

    def follow(self, topics: Mapping[str, Topic]) -> None:
        """Load what this broker leads now, and forget what it leads no longer."""
        for log in self._logs:
            log.follow(topics)

    def stopped(self, topic: str, number: int) -> None:
        """The controller has stopped the replica of this partition."""
        for log in self._logs:
            log.stopped(topic, number)

    def topics_deleted(self, names: Iterable[str]) -> None:
        """Their offsets go away, too."""
        self._group_log.coordinator.on_topics_deleted(names)

    def is_reading(self, topic: str, number: int) -> bool:
        """Whether a job reads a file of this partition."""
        return any(log.is_reading(topic, number) for log in self._logs)

    def loaded(self, done: PartLoaded) -> None:
        """A part of a load was read."""
        for log in self._logs:
            log.loaded(done)

    def advance(self, now: int, wall: int) -> None:
        """It is `now`: do what is due."""
        self._wall = wall
        for log in self._logs:
            log.advance(now, wall)

    def next_deadline(self) -> int:
        """When `advance` and `settle` have something to do although nothing happens."""
        return min(log.next_deadline() for log in self._logs)

    def settle(self) -> None:
        """Tell the coordinators what has become of their appends and markers, and carry out what they want."""
        self._group_log.settle()
        self._transaction_log.settle()
        self.markers.settle()
        for answer in self._group_log.take_answers():
            self._groups.answer(answer)
        for answer in self._transaction_log.take_answers():
            self._transactions.answer(answer)

    def take_loads(self) -> list[LoadPart]:
        """Parts to be read."""
        found: list[LoadPart] = []
        for log in self._logs:
            found += log.loads
            log.loads = []
        return found

    def take_notes(self) -> list[str]:
        """Sentences for the journal."""
        found: list[str] = []
        for log in self._logs:
            found += log.notes
            log.notes = []
        return found

    def stop(self) -> None:
        """The broker is going to end."""
        for log in self._logs:
            log.coordinator.stop()
