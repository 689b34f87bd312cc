"""The real Kafka 3.9.1 in ZooKeeper mode, unmodified, with three members of ours as its ZooKeeper: what its brokers ask
for while they elect controllers and leaders, create and delete topics, move replicas, and lose sessions and servers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import attrs
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kazoo.client import KazooClient

from tests.downloads.kafka_brokers import RealBroker, addresses, real_brokers
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.cli.files.segment_files import rows

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

WHERE = TopicPartition("events", 0)


@attrs.define
class Kafka:
    """Two brokers and the ensemble under them."""

    ensemble: ZooKeeperEnsemble
    brokers: list[RealBroker]
    znodes: KazooClient
    written: list[bytes] = attrs.Factory(list)
    """What was acknowledged, in order."""

    @property
    def addresses(self) -> str:
        return ",".join(addresses(self.brokers))

    def admin(self) -> AdminClient:
        """One that has not heard of any controller yet. All brokers know the controller before it asks: librdkafka,
        told of none, was seen to wait in vain for as long as it was allowed to."""
        for broker in self.brokers:
            one = AdminClient({"bootstrap.servers": broker.address})
            until(
                lambda one=one: one.list_topics(timeout=PATIENCE_SECONDS).controller_id == self.controller,
                f"that broker {broker.broker_id} knows the controller",
            )
        return AdminClient({"bootstrap.servers": self.addresses})

    def json(self, path: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.znodes.get(path)[0])
        return found

    @property
    def controller(self) -> int | None:
        """Its broker id, while there is one."""
        if self.znodes.exists("/controller") is None:
            return None
        return int(str(self.json("/controller")["brokerid"]))

    @property
    def leader(self) -> int:
        return int(str(self.json("/brokers/topics/events/partitions/0/state")["leader"]))

    @property
    def in_sync(self) -> set[int]:
        found = self.json("/brokers/topics/events/partitions/0/state")["isr"]
        assert isinstance(found, list)
        return set(found)

    def other_than(self, broker_id: int) -> RealBroker:
        return next(broker for broker in self.brokers if broker.broker_id != broker_id)

    def broker(self, broker_id: int) -> RealBroker:
        return self.brokers[broker_id - 1]

    def produce(self, count: int, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Write so many records that both brokers have to acknowledge; something happens in the middle."""
        producer = Producer({"bootstrap.servers": self.addresses, "enable.idempotence": True})
        for number in range(count):
            if number == count // 2:
                meanwhile()
            value = b"%d" % len(self.written)
            errors: list[object] = []
            producer.produce(
                WHERE.topic, value, partition=WHERE.partition, on_delivery=lambda error, _, to=errors: to.append(error)
            )
            assert producer.flush(PATIENCE_SECONDS) == 0
            assert errors == [None]
            self.written.append(value)

    @contextlib.contextmanager
    def reader(self, **options: object) -> Iterator[Consumer]:
        """A consumer that begins at the beginning."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.addresses,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.id": "all",
                **options,
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def consume(self) -> list[bytes]:
        """All records, from the beginning."""
        with self.reader() as reader:
            reader.assign([TopicPartition(WHERE.topic, WHERE.partition, OFFSET_BEGINNING)])
            found = taken(reader, len(self.written))
            assert reader.get_watermark_offsets(WHERE, PATIENCE_SECONDS) == (0, len(self.written))
        return found


def done(futures: Mapping[str, Future[None]]) -> None:
    """What was asked for is done."""
    for future in futures.values():
        future.result(PATIENCE_SECONDS)


def taken(reader: Consumer, count: int) -> list[bytes]:
    """The values of so many records."""
    found: list[bytes] = []
    until(lambda: found.extend(each.value() for each in reader.consume(count - len(found), 1)) or len(found) == count)
    return found


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A topic with a replica on each broker."""
    root: Path = tmp_path_factory.mktemp("kafka")
    with (
        zab_servers(3, directory=root / "members") as ensemble,
        real_brokers(root, 2, ensemble.hosts) as brokers,
        kazoo_client(ensemble.hosts) as znodes,
    ):
        found = Kafka(ensemble, brokers, znodes)
        admin = found.admin()
        done(admin.create_topics([NewTopic("events", 1, 2)]))
        until(lambda: znodes.exists("/brokers/topics/events/partitions/0/state"), "that the topic has a leader")
        yield found


def test_records_are_replicated_and_consumers_share_a_topic(kafka: Kafka) -> None:
    kafka.produce(50)
    assert kafka.in_sync == {1, 2}
    assert kafka.consume() == kafka.written
    with kafka.reader(**{"group.id": "readers"}) as reader:
        reader.subscribe([WHERE.topic])
        assert taken(reader, 50) == kafka.written
        [committed] = reader.commit(asynchronous=False)
        assert (committed.topic, committed.offset) == (WHERE.topic, 50)


def test_the_other_broker_leads_after_a_kill_and_the_in_sync_set_grows_again(kafka: Kafka) -> None:
    former = kafka.leader
    kafka.produce(20, kafka.broker(former).kill)
    assert kafka.leader != former
    kafka.broker(former).serve()
    until(lambda: kafka.in_sync == {1, 2}, "that both brokers are in sync")
    assert kafka.consume() == kafka.written


def test_another_broker_becomes_the_controller(kafka: Kafka) -> None:
    former = kafka.controller
    assert former is not None
    epoch = int(kafka.znodes.get("/controller_epoch")[0])
    assert kafka.broker(former).stop() == 143
    until(lambda: kafka.controller not in (None, former), "that there is another controller")
    assert int(kafka.znodes.get("/controller_epoch")[0]) == epoch + 1
    kafka.produce(5)
    kafka.broker(former).serve()
    until(lambda: kafka.in_sync == {1, 2}, "that both brokers are in sync")


def test_brokers_keep_their_sessions_when_the_leader_of_the_ensemble_is_killed(kafka: Kafka) -> None:
    sessions = {each: kafka.znodes.exists(f"/brokers/ids/{each}").ephemeralOwner for each in (1, 2)}
    killed = kafka.ensemble.leader()
    kafka.produce(20, killed.kill)
    killed.start()
    kafka.ensemble.wait()
    assert {each: kafka.znodes.exists(f"/brokers/ids/{each}").ephemeralOwner for each in (1, 2)} == sessions
    assert kafka.consume() == kafka.written


def test_settings_and_partitions_are_changed_and_topics_deleted(kafka: Kafka) -> None:
    admin = kafka.admin()
    config = {"retention.ms": "60000", "file.delete.delay.ms": "1000"}
    done(admin.create_topics([NewTopic("short-lived", 2, 2, config=config)]))
    assert kafka.json("/config/topics/short-lived")["config"] == config
    done(admin.create_partitions([NewPartitions("short-lived", 3)]))
    until(
        lambda: kafka.znodes.exists("/brokers/topics/short-lived/partitions/2/state"), "that there is a partition more"
    )
    done(admin.delete_topics(["short-lived"]))
    until(lambda: not kafka.znodes.exists("/brokers/topics/short-lived"), "that the topic is gone")
    until(lambda: not kafka.znodes.get_children("/admin/delete_topics"), "that no topic is to be deleted")
    until(
        lambda: not [each for broker in kafka.brokers for each in broker.logs.glob("short-lived-*")],
        "that its files are gone",
    )


def test_what_its_brokers_have_written_can_be_read(kafka: Kafka) -> None:
    kafka.brokers[0].stop()
    files = [each for each in kafka.brokers[0].logs.rglob("*") if each.is_file() and not each.name.startswith(".")]
    found = [row for each in files for row in rows(each, with_records=True)]
    values = [row["value"] for row in found if row["type"] == "record" and row["value_encoding"] == "utf-8"]
    assert set(map(bytes.decode, kafka.written)) <= set(values)
    assert {"batch", "record", "producer", "epoch", "offset", "topic", "directory"} <= {row["type"] for row in found}
