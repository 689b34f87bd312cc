"""librdkafka by confluent-kafka, unmodified, against a real broker."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def topic(running_broker: KafkaBroker) -> str:
    """A topic of two partitions."""
    name = f"librdkafka-{uuid.uuid4()}"
    admin = admin_of(running_broker)
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(PATIENCE_SECONDS)
    return name


def admin_of(broker: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def consumer(broker: KafkaBroker, group: str, **options: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            **options,
        }
    )


def taken(one: Consumer, count: int) -> list[Message]:
    """So many records."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[Message] = []
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records came"
        for message in one.consume(count - len(found), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    return found


@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    running_broker: KafkaBroker, topic: str, codec: str, is_idempotent: bool
) -> None:
    told: list[tuple[object, int | None]] = []
    producer = Producer(
        {
            "bootstrap.servers": running_broker.address,
            "compression.type": codec,
            "enable.idempotence": is_idempotent,
            "acks": "all",
        }
    )
    for n in range(40):
        producer.produce(
            *(topic, b"value-%d" % n * 20, b"key-%d" % n),
            partition=1,
            headers=[("n", b"%d" % n), ("none", None)],
            on_delivery=lambda error, message: told.append((error, message.offset())),
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert told == [(None, n) for n in range(40)]
    reader = consumer(running_broker, topic)
    reader.assign([TopicPartition(topic, 1, 0)])
    found = taken(reader, 40)
    reader.close()
    assert [(each.offset(), each.key(), each.value()) for each in found] == [
        (n, b"key-%d" % n, b"value-%d" % n * 20) for n in range(40)
    ]
    assert found[7].headers() == [("n", b"7"), ("none", None)]


def test_offsets_of_times_and_of_ends_and_what_is_left_of_deleted_records(
    running_broker: KafkaBroker, topic: str
) -> None:
    began_ms = int(time.time() * 1000)
    producer = Producer({"bootstrap.servers": running_broker.address, "linger.ms": 0})
    for n in range(10):
        producer.produce(topic, b"%d" % n, partition=0, timestamp=began_ms + 1000 * n)
    assert producer.flush(PATIENCE_SECONDS) == 0
    reader = consumer(running_broker, topic)
    where = TopicPartition(topic, 0)
    assert reader.get_watermark_offsets(where, PATIENCE_SECONDS) == (0, 10)
    asked = [TopicPartition(topic, 0, began_ms + 3500)]
    assert [each.offset for each in reader.offsets_for_times(asked, PATIENCE_SECONDS)] == [4]
    admin = admin_of(running_broker)
    deleted = admin.delete_records([TopicPartition(topic, 0, 6)])
    assert [each.result(PATIENCE_SECONDS).low_watermark for each in deleted.values()] == [6]
    assert reader.get_watermark_offsets(where, PATIENCE_SECONDS) == (6, 10)
    reader.assign([TopicPartition(topic, 0, 2)])
    assert [each.offset() for each in taken(reader, 4)] == [6, 7, 8, 9], "its position is reset to what there is"
    reader.close()


def test_topics_are_described_and_removed_and_two_replicas_are_refused(running_broker: KafkaBroker, topic: str) -> None:
    admin = admin_of(running_broker)
    [made] = admin.create_topics([NewTopic(f"{topic}-2", 1, 2)]).values()
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        made.result(PATIENCE_SECONDS)
    assert len(admin.list_topics(topic, PATIENCE_SECONDS).topics[topic].partitions) == 2
    admin.delete_topics([topic])[topic].result(PATIENCE_SECONDS)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while topic in admin.list_topics(timeout=PATIENCE_SECONDS).topics:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_members_of_a_group_share_its_partitions_and_go_on_where_it_was(
    running_broker: KafkaBroker, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": running_broker.address})
    for n in range(20):
        producer.produce(topic, b"%d" % n, partition=n % 2)
    assert producer.flush(PATIENCE_SECONDS) == 0
    first = consumer(running_broker, topic)
    first.subscribe([topic])
    taken(first, 20)
    committed = first.commit(asynchronous=False)
    assert sorted((each.partition, each.offset) for each in committed or []) == [(0, 10), (1, 10)]
    second = consumer(running_broker, topic)
    second.subscribe([topic])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (len(first.assignment()) == len(second.assignment()) == 1):
        assert time.monotonic() < deadline
        assert first.poll(0.05) is None
        assert second.poll(0.05) is None
    assert first.assignment() != second.assignment()
    first.close()
    while len(second.assignment()) < 2:
        assert time.monotonic() < deadline
        assert second.poll(0.05) is None
    for n in range(20, 24):
        producer.produce(topic, b"%d" % n, partition=n % 2)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert sorted(each.value() or b"" for each in taken(second, 4)) == [b"20", b"21", b"22", b"23"]
    second.commit(asynchronous=False)
    second.close()
    reader = consumer(running_broker, topic)
    found = reader.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], PATIENCE_SECONDS)
    reader.close()
    assert [each.offset for each in found] == [12, 12]


def test_a_producer_above_its_quota_is_told_how_long_to_wait(running_broker: KafkaBroker, topic: str) -> None:
    client_id = f"limited-{uuid.uuid4()}"
    options = ["broker", "quota", "set", "producer_byte_rate=1000", "--client-id", client_id]
    ran = subprocess.run(
        [sys.executable, "-m", "zab.cli.main", "--bootstrap-server", running_broker.address, *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    waits: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": running_broker.address,
            "client.id": client_id,
            "linger.ms": 0,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    producer.produce(topic, b"x" * 15_000)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not waits:
        assert time.monotonic() < deadline, "it was not told"
        producer.poll(0.1)
    # 15,000 bytes and those of the request, of which ten windows allow 10,000.
    assert 5.0 < waits[0] < 6.0
    assert producer.flush(PATIENCE_SECONDS) == 0
