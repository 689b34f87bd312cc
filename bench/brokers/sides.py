"""Both kinds of brokers on this machine: as many of Kafka 3.9.1, in ZooKeeper mode, as of ours.

Each side has a member of zab for its znodes. Both have the same session timeout, and otherwise their own defaults; the
JVM has a heap of 1 GiB, as Kafka's own start script gives it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from tests.downloads.kafka_brokers import RealBroker
from tests.rigs.kafka_broker import KafkaBroker, make_brokers
from tests.rigs.processes import ended
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers

SESSION_MS = 6_000
HEAP = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Side:
    """Brokers that serve, and have the partitions of a topic in common."""

    name: str
    brokers: list[RealBroker] | list[KafkaBroker]

    @property
    def addresses(self) -> str:
        """Where clients begin."""
        return ",".join(broker.address for broker in self.brokers)

    def create_topic(self, topic: str, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Make it, and wait until all replicas are in sync."""
        admin = AdminClient({"bootstrap.servers": self.addresses})
        new = NewTopic(topic, partitions, replicas, config=dict(settings))
        admin.create_topics([new], request_timeout=_PATIENCE_SECONDS)[topic].result()
        self.wait_in_sync(topic, replicas)

    def wait_in_sync(self, topic: str, replicas: int) -> None:
        """Wait until every partition has a leader, and so many replicas in sync."""
        admin = AdminClient({"bootstrap.servers": self.addresses})

        def is_in_sync() -> bool:
            found = self._partitions(admin, topic)
            return all(each.leader >= 0 and len(each.isrs) >= replicas for each in found.values()) and bool(found)

        until(is_in_sync, "replication")

    def topics(self) -> Collection[str]:
        """Those that there are."""
        found: dict[str, Any] = (
            AdminClient({"bootstrap.servers": self.addresses}).list_topics(timeout=_PATIENCE_SECONDS).topics
        )
        return found.keys()

    def leaders(self, topic: str) -> dict[int, str]:
        """The address of the leader of each partition."""
        admin = AdminClient({"bootstrap.servers": self.addresses})
        addresses = {broker.broker_id: broker.address for broker in self.brokers}
        return {number: addresses[each.leader] for number, each in self._partitions(admin, topic).items()}

    def _partitions(self, admin: AdminClient, topic: str) -> dict[int, Any]:
        found: dict[int, Any] = admin.list_topics(topic, _PATIENCE_SECONDS).topics[topic].partitions
        return found


@contextlib.contextmanager
def sides(directory: Path, count: int) -> Iterator[list[Side]]:
    """Kafka's and ours, with so many brokers each; all are killed when the block is left."""
    with contextlib.ExitStack() as stack:
        found = []
        for name, make in (("Kafka", _kafka), ("zab", _ours)):
            place = directory / f"{name}-{count}"
            member = stack.enter_context(zab_servers(1, directory=place / "member"))
            brokers = make(place, member.hosts, count)
            stack.enter_context(ended(brokers))
            for broker in brokers:
                broker.start()
            for broker in brokers:
                broker.serve_on()
            found.append(Side(name, brokers))
        yield found


def _kafka(place: Path, hosts: str, count: int) -> list[RealBroker]:
    settings = (f"zookeeper.session.timeout.ms={SESSION_MS}",)
    return [
        RealBroker(number, place / f"broker-{number}", hosts, count, java=HEAP, settings=settings)
        for number in range(1, count + 1)
    ]


def _ours(place: Path, hosts: str, count: int) -> list[KafkaBroker]:
    return make_brokers(place, hosts, count, settings=(f"zookeeper.session.timeout.ms={SESSION_MS}",))
