"""Three brokers as processes: a leader is killed under a producer and a group, and comes back."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.rigs.kafka_broker import KafkaBroker, kafka_brokers
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

QUICK = {"reconnect.backoff.max.ms": 100, "topic.metadata.refresh.interval.ms": 500, "log_level": 0}
SETTINGS = ("replica.lag.time.max.ms=1000", "replica.fetch.backoff.ms=100")


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[KafkaBroker]]:
    with kafka_brokers(tmp_path_factory.mktemp("three"), settings=SETTINGS) as found:
        yield found


class Cluster:
    """What clients see of it."""

    def __init__(self, brokers: list[KafkaBroker]) -> None:
        self.by_id = {broker.broker_id: broker for broker in brokers}
        self.bootstrap = ",".join(broker.address for broker in brokers)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUICK})

    def create(self, topic: str, **config: str) -> None:
        wanted = NewTopic(topic, 1, 3, config={name.replace("_", "."): value for name, value in config.items()})
        self.admin.create_topics([wanted])[topic].result(PATIENCE_SECONDS)
        self.until(topic, lambda _, isr: isr == {1, 2, 3})

    def state(self, topic: str) -> tuple[int, set[int]]:
        """The leader of its one partition, and who is in sync, as the first broker says that can be asked."""
        for broker in self.by_id.values():
            with contextlib.suppress(OSError):
                for partition in broker.partitions(topic):
                    return partition.leader_id, set(partition.isr_nodes)
        return -1, set()

    def until(self, topic: str, is_so: Callable[[int, set[int]], bool]) -> int:
        """Wait until leader and in-sync set are so; the leader."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            leader, isr = self.state(topic)
            if is_so(leader, isr):
                return leader
            assert time.monotonic() < deadline, (leader, isr)
            time.sleep(0.05)

    def log_of(self, broker: KafkaBroker, topic: str) -> bytes:
        files = sorted((broker.logs_directory / f"{topic}-0").glob("*.log"))
        return b"".join(map(Path.read_bytes, files))

    def wait_for_equal_logs(self, topic: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len({self.log_of(broker, topic) for broker in self.by_id.values()}) > 1:
            assert time.monotonic() < deadline, [len(self.log_of(each, topic)) for each in self.by_id.values()]
            time.sleep(0.05)


class Acknowledged:
    """A producer that waits for all replicas in sync, and what it was told."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1, **QUICK})
        self.topic = topic
        self.offsets: dict[int, int] = {}
        self.failed: list[object] = []

    def send(self, numbers: range) -> None:
        for number in numbers:
            self.producer.produce(self.topic, b"%d" % number, on_delivery=self._told)
            self.producer.poll(0)

    def _told(self, error: object, message: object) -> None:
        if error is None:
            self.offsets[int(message.value())] = message.offset()  # type: ignore[attr-defined]
        else:
            self.failed.append(error)

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.offsets) < count:
            assert time.monotonic() < deadline, (len(self.offsets), self.failed)
            self.producer.poll(0.05)


def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Number and offset of so many messages."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[tuple[int, int]] = []
    while len(found) < count:
        assert time.monotonic() < deadline, len(found)
        for message in consumer.consume(count, 0.2):
            if message.error() is None:
                found.append((int(message.value() or b""), message.offset() or 0))
    return found


def test_what_all_had_survives_the_leader_and_the_logs_become_equal(brokers: list[KafkaBroker]) -> None:
    cluster = Cluster(brokers)
    topic = f"killed-{uuid.uuid4()}"
    cluster.create(topic, min_insync_replicas="2")
    writer = Acknowledged(cluster.bootstrap, topic)
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "auto.offset.reset": "earliest", **QUICK}
    )
    reader.subscribe([topic])
    writer.send(range(200))
    writer.wait_for(200)
    found = read(reader, 200)
    leader, _ = cluster.state(topic)
    writer.send(range(200, 300))
    cluster.by_id[leader].kill()
    writer.send(range(300, 400))
    writer.wait_for(400)
    cluster.until(topic, lambda now, isr: now != leader and isr == {1, 2, 3} - {leader})
    cluster.by_id[leader].serve()
    cluster.until(topic, lambda _, isr: isr == {1, 2, 3})
    writer.send(range(400, 500))
    writer.wait_for(500)
    assert not writer.failed
    found += read(reader, 300)
    reader.close()
    assert found == [(number, writer.offsets[number]) for number in range(500)]
    cluster.wait_for_equal_logs(topic)


def test_a_broker_that_stops_gives_its_leaders_away_first(brokers: list[KafkaBroker]) -> None:
    cluster = Cluster(brokers)
    topic = f"stopped-{uuid.uuid4()}"
    cluster.create(topic)
    leader, _ = cluster.state(topic)
    writer = Acknowledged(cluster.bootstrap, topic)
    writer.send(range(50))
    writer.wait_for(50)
    assert cluster.by_id[leader].stop() == 0
    now, isr = cluster.state(topic)
    assert now != leader
    assert leader not in isr
    writer.send(range(50, 100))
    writer.wait_for(100)
    cluster.by_id[leader].serve()
    cluster.until(topic, lambda _, isr: isr == {1, 2, 3})
    cluster.wait_for_equal_logs(topic)
    assert not writer.failed


def test_a_transaction_reaches_partitions_on_all_brokers(brokers: list[KafkaBroker]) -> None:
    cluster = Cluster(brokers)
    topic = f"transactions-{uuid.uuid4()}"
    cluster.admin.create_topics([NewTopic(topic, 6, 3)])[topic].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, **QUICK})
    producer.init_transactions(PATIENCE_SECONDS)
    for value, commits in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        for partition in range(6):
            producer.produce(topic, value, partition=partition)
        if commits:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.abort_transaction(PATIENCE_SECONDS)
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": topic, "isolation.level": "read_committed", **QUICK}
    )
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(6)])
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[tuple[int | None, bytes | None]] = []
    while len(found) < 6:
        assert time.monotonic() < deadline, found
        for message in reader.consume(6, 0.2):
            assert message.error() is None, message.error()
            value = message.value()
            found.append((message.partition(), value if isinstance(value, bytes) else None))
    reader.close()
    assert sorted(found, key=str) == [(partition, b"committed") for partition in range(6)]


def test_brokers_of_one_machine_need_no_secret(tmp_path: Path) -> None:
    with kafka_brokers(tmp_path, 2, settings=SETTINGS, has_secret=False) as found:
        cluster = Cluster(found)
        cluster.admin.create_topics([NewTopic("t", 1, 2)])["t"].result(PATIENCE_SECONDS)
        cluster.until("t", lambda _, isr: isr == {1, 2})
