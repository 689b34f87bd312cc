"""A running broker compacts a topic under a producer and a consumer: what the consumer ends with is the newest of each
key, also after the broker was killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.rigs.kafka_broker import KafkaBroker, kafka_broker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.long]

KEYS = 20
CONFIG = {"cleanup.policy": "compact", "segment.bytes": "20000", "flush.mode": "batch"}


def consumed(broker: KafkaBroker, topic: str) -> list[tuple[int, bytes, bytes]]:
    """Every record from the beginning on."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "enable.partition.eof": True})
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                return found
            found.append((message.offset(), message.key(), message.value()))
        raise AssertionError("there is no end")
    finally:
        consumer.close()


@pytest.mark.longest
def test_a_topic_is_compacted_while_it_is_written_and_read(tmp_path: Path) -> None:
    with kafka_broker(tmp_path, settings=["log.cleaner.backoff.ms=50"]) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic("t", 1, 1, config=CONFIG)])["t"].result(PATIENCE_SECONDS)
        # A batch has to fit into a segment.
        options = {"enable.idempotence": True, "linger.ms": 1, "batch.size": 5000}
        producer = Producer({"bootstrap.servers": broker.address, **options})
        newest: dict[bytes, bytes] = {}
        for number in range(3000):
            key, value = b"%d" % (number % KEYS), b"%d" % number
            producer.produce("t", value, key, partition=0)
            newest[key] = value
            if not number % 1500:
                assert not producer.flush(PATIENCE_SECONDS)
                found = consumed(broker, "t")
                assert [each[0] for each in found] == sorted({each[0] for each in found})
                assert {key: value for _, key, value in found} == newest
        assert not producer.flush(PATIENCE_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(consumed(broker, "t")) > 1500:
            assert time.monotonic() < deadline
        broker.kill()
        broker.serve()
        assert {key: value for _, key, value in consumed(broker, "t")} == newest
