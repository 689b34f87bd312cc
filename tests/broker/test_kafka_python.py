"""kafka-python, unmodified, against a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import kafka
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import InvalidReplicationFactorError, TopicAlreadyExistsError, UnknownTopicOrPartitionError

from tests.rigs.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.process, pytest.mark.slow]

PATIENCE_MS = 30_000
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def admin(running_broker: KafkaBroker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=running_broker.address)
    yield client
    client.close()


@pytest.fixture
def topic(admin: KafkaAdminClient) -> str:
    """A topic of two partitions."""
    name = f"kafka-python-{uuid.uuid4()}"
    admin.create_topics([NewTopic(name, 2, 1)])
    return name


def consumer(broker: KafkaBroker, **options: object) -> KafkaConsumer:
    return KafkaConsumer(
        **{
            "bootstrap_servers": broker.address,
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": PATIENCE_MS,
            **options,
        }
    )


def taken(one: KafkaConsumer, count: int) -> list[kafka.consumer.fetcher.ConsumerRecord]:
    """So many records."""
    found = []
    for record in one:
        found.append(record)
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {count} records came")


@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    running_broker: KafkaBroker, topic: str, codec: str | None, is_idempotent: bool
) -> None:
    producer = KafkaProducer(
        bootstrap_servers=running_broker.address,
        compression_type=codec,
        enable_idempotence=is_idempotent,
        linger_ms=5,
        acks="all",
    )
    sent = [
        producer.send(
            topic, b"value-%d" % n * 20, key=b"key-%d" % n, headers=[("n", b"%d" % n), ("", b"")], partition=1
        )
        for n in range(40)
    ]
    assert [each.get(PATIENCE_MS / 1000).offset for each in sent] == [*range(40)]
    producer.close()
    reader = consumer(running_broker)
    reader.assign([TopicPartition(topic, 1)])
    found = taken(reader, 40)
    reader.close()
    assert [(each.offset, each.key, each.value) for each in found] == [
        (n, b"key-%d" % n, b"value-%d" % n * 20) for n in range(40)
    ]
    assert found[7].headers == [("n", b"7"), ("", b"")]


def test_a_consumer_goes_on_with_its_fetch_session(running_broker: KafkaBroker, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer = KafkaProducer(bootstrap_servers=running_broker.address)
    reader = consumer(running_broker, fetch_max_wait_ms=50)

    def write_and_take(*places: TopicPartition) -> list[tuple[int, bytes]]:
        for n in range(3):
            for place in (first, second):
                producer.send(topic, b"%d" % n, partition=place.partition).get(PATIENCE_MS / 1000)
        return sorted((each.partition, each.value) for each in taken(reader, 3 * len(places)))

    def session() -> tuple[int, int]:
        [handler] = reader._fetcher._session_handlers.values()
        return handler.next_metadata.session_id, handler.next_metadata.epoch

    reader.assign([first, second])
    assert write_and_take(first, second) == [(index, b"%d" % n) for index in (0, 1) for n in range(3)]
    session_id, epoch = session()
    assert (session_id > 0, epoch > 0) == (True, True)
    reader.assign([first])
    assert write_and_take(first) == [(0, b"%d" % n) for n in range(3)], "the other one is forgotten"
    reader.assign([first, second])
    found = taken(reader, 6)
    assert [(each.partition, each.offset) for each in found] == [(1, offset) for offset in range(6)], "from its start"
    assert session()[0] == session_id
    assert session()[1] > epoch
    producer.close()
    reader.close()


def test_offsets_of_times_and_of_ends_and_what_is_left_of_deleted_records(
    running_broker: KafkaBroker, admin: KafkaAdminClient, topic: str
) -> None:
    where = TopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=running_broker.address)
    began_ms = int(time.time() * 1000)
    for n in range(10):
        producer.send(topic, b"%d" % n, partition=0, timestamp_ms=began_ms + 1000 * n).get(PATIENCE_MS / 1000)
    producer.close()
    reader = consumer(running_broker)
    reader.assign([where])
    assert (reader.beginning_offsets([where]), reader.end_offsets([where])) == ({where: 0}, {where: 10})
    found = reader.offsets_for_times({where: began_ms + 3500})[where]
    assert (found.offset, found.timestamp) == (4, began_ms + 4000)
    assert reader.offsets_for_times({where: began_ms + 60_000})[where] is None
    admin.delete_records({where: 6})
    assert reader.beginning_offsets([where]) == {where: 6}
    reader.seek(where, 2)
    assert [each.offset for each in taken(reader, 4)] == [6, 7, 8, 9], "its position is reset to what there is"
    reader.close()


def test_topics_are_made_grown_and_removed(running_broker: KafkaBroker, admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(topic, 1, 1)])
    with pytest.raises(InvalidReplicationFactorError):
        admin.create_topics([NewTopic(f"{topic}-2", 1, 2)])
    admin.create_partitions({topic: 3})
    [described] = admin.describe_topics([topic])
    assert len(described["partitions"]) == 3
    admin.delete_topics([topic])
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while topic in admin.list_topics():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_the_members_of_a_group_share_its_partitions_and_go_on_where_it_was(
    running_broker: KafkaBroker, admin: KafkaAdminClient, topic: str
) -> None:
    group = f"group-of-{topic}"
    options = {"group_id": group, "enable_auto_commit": False, "heartbeat_interval_ms": 100}
    producer = KafkaProducer(bootstrap_servers=running_broker.address)
    for n in range(20):
        producer.send(topic, b"%d" % n, partition=n % 2)
    producer.flush(PATIENCE_MS / 1000)
    first = consumer(running_broker, **options)
    first.subscribe([topic])
    # Otherwise it may give partitions before it knows them all, and a poll that ends before it has joined once more
    # leaves it out for ever.
    first.topics()
    assert len(taken(first, 20)) == 20
    first.commit()
    second = consumer(running_broker, **options)
    second.subscribe([topic])
    second.topics()
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not (len(first.assignment()) == len(second.assignment()) == 1):
        assert time.monotonic() < deadline
        first.poll(50)
        second.poll(50)
    assert first.assignment() != second.assignment()
    first.close()
    while len(second.assignment()) < 2:
        assert time.monotonic() < deadline
        second.poll(50)
    for n in range(20, 24):
        producer.send(topic, b"%d" % n, partition=n % 2)
    producer.close()
    assert sorted(each.value for each in taken(second, 4)) == [b"20", b"21", b"22", b"23"]
    second.commit()
    second.close()
    offsets = admin.list_group_offsets(group)[group]
    assert {where.partition: found.offset for where, found in offsets.items()} == {0: 12, 1: 12}
