"""Transactions of unmodified clients against a real broker, which is killed in the middle."""

from __future__ import annotations

import asyncio
import time
import uuid

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.structs import OffsetAndMetadata

from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

QUICK = {"reconnect.backoff.max.ms": 100, "retry.backoff.ms": 10, "retry.backoff.max.ms": 100, "log_level": 0}


@pytest.fixture
def topics(running_broker: KafkaBroker) -> tuple[str, str]:
    """Two topics of two partitions; what is acknowledged is synced."""
    names = f"from-{uuid.uuid4()}", f"to-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": running_broker.address})
    wanted = [NewTopic(each, 2, 1, config={"flush.mode": "batch"}) for each in names]
    for made in admin.create_topics(wanted).values():
        made.result(PATIENCE_SECONDS)
    return names


def transactional(broker: KafkaBroker, name: str, **options: object) -> Producer:
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name, **QUICK, **options})
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def consumer(broker: KafkaBroker, group: str, **options: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **QUICK,
            **options,
        }
    )


def read_all(broker: KafkaBroker, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """What a consumer sees of both partitions, up to their ends."""
    reader = consumer(broker, f"reader-{uuid.uuid4()}", **{"isolation.level": isolation, "enable.partition.eof": True})
    reader.assign([TopicPartition(topic, index, 0) for index in (0, 1)])
    found: list[bytes] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(ended) < 2:
        assert time.monotonic() < deadline
        message = reader.poll(0.2)
        error = None if message is None else message.error()
        if message is None:
            continue
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
        else:
            found.append(message.value() or b"")
    reader.close()
    return found


def test_committed_transactions_are_seen_and_aborted_ones_are_not(
    running_broker: KafkaBroker, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    producer = transactional(running_broker, topic)
    for number, ends in enumerate(["commit", "abort", "commit"]):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d-%d" % (number, partition), partition=partition)
        producer.flush(PATIENCE_SECONDS)
        if ends == "commit":
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.abort_transaction(PATIENCE_SECONDS)
    assert sorted(read_all(running_broker, topic)) == [b"0-0", b"0-1", b"2-0", b"2-1"]
    assert len(read_all(running_broker, topic, "read_uncommitted")) == 6


def test_a_zombie_is_fenced(running_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    topic, _ = topics
    zombie = transactional(running_broker, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie", partition=0)
    zombie.flush(PATIENCE_SECONDS)
    successor = transactional(running_broker, topic)
    successor.begin_transaction()
    successor.produce(topic, b"successor", partition=0)
    successor.commit_transaction(PATIENCE_SECONDS)
    with pytest.raises(KafkaException) as caught:
        zombie.commit_transaction(PATIENCE_SECONDS)
    assert caught.value.args[0].code() == KafkaError._FENCED
    assert caught.value.args[0].fatal()
    assert read_all(running_broker, topic) == [b"successor"]


def move(
    broker: KafkaBroker, topics: tuple[str, str], name: str, rounds: list[str], size: int
) -> tuple[Consumer, Producer]:
    """Consume, transform, produce: a transaction for each round, which ends as its name says, or not at all."""
    source, target = topics
    producer = transactional(broker, name)
    reader = consumer(broker, name)
    reader.subscribe([source])
    for ends in rounds:
        deadline = time.monotonic() + PATIENCE_SECONDS
        taken = []
        while len(taken) < size:
            assert time.monotonic() < deadline
            taken += [each for each in reader.consume(size - len(taken), 0.2) if each.error() is None]
        producer.begin_transaction()
        for each in taken:
            producer.produce(target, b"<" + (each.value() or b"") + b">", partition=each.partition())
        producer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), PATIENCE_SECONDS
        )
        if ends == "commit":
            producer.commit_transaction(PATIENCE_SECONDS)
        elif ends == "abort":
            producer.abort_transaction(PATIENCE_SECONDS)
            committed = reader.committed(reader.assignment(), PATIENCE_SECONDS)
            for each in committed:
                reader.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
        else:
            producer.flush(PATIENCE_SECONDS)
    return reader, producer


@pytest.mark.parametrize("kills", ["nobody", pytest.param("broker", marks=pytest.mark.long)])
def test_each_record_is_transformed_once_across_a_producer_that_is_lost(
    running_broker: KafkaBroker, topics: tuple[str, str], kills: str
) -> None:
    """The first worker leaves a transaction open; the second one has the same transactional id, and goes on."""
    source, target = topics
    feeder = Producer({"bootstrap.servers": running_broker.address, **QUICK})
    for number in range(40):
        feeder.produce(source, b"%d" % number, partition=number % 2)
    assert feeder.flush(PATIENCE_SECONDS) == 0
    reader, lost = move(running_broker, topics, source, ["commit", "abort", "lost"], 10)
    reader.close()
    if kills == "broker":
        running_broker.kill()
        running_broker.serve()
    again, _ = move(running_broker, topics, source, ["commit", "commit", "commit"], 10)
    again.close()
    with pytest.raises(KafkaException):
        lost.commit_transaction(PATIENCE_SECONDS)
    found = read_all(running_broker, target)
    assert sorted(found) == sorted(b"<%d>" % number for number in range(40))
    assert len(read_all(running_broker, target, "read_uncommitted")) > 40, "aborted ones are there"


@pytest.mark.long
def test_a_broker_that_is_killed_in_the_middle_of_commits_loses_no_transaction_and_halves_none(
    running_broker: KafkaBroker, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    producer = transactional(running_broker, topic)
    committed, aborted = [], []
    for number in range(30):
        if number == 20:
            # The markers of the last one may or may not be on the disk.
            running_broker.kill()
            running_broker.serve()
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, partition=partition)
        if number == 10:
            producer.flush(PATIENCE_SECONDS)
            running_broker.kill()
            running_broker.serve()
        if has_committed(producer):
            committed.append(number)
        else:
            aborted.append(number)
            producer.abort_transaction(PATIENCE_SECONDS)
    found = read_all(running_broker, topic)
    assert sorted(found) == sorted([b"%d" % number for number in committed] * 2)
    assert len(committed) >= 28, aborted


def has_committed(producer: Producer) -> bool:
    """False: it has to be aborted."""
    try:
        producer.commit_transaction(PATIENCE_SECONDS)
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
        return False
    return True


def test_kafka_python(running_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    source, target = topics
    producer = KafkaProducer(bootstrap_servers=running_broker.address, transactional_id=target)
    producer.init_transactions()
    for number, commits in enumerate([True, False, True]):
        producer.begin_transaction()
        producer.send(target, b"%d" % number, partition=0).get(PATIENCE_SECONDS)
        offsets = {PythonTopicPartition(source, 0): OffsetAndMetadata(number + 1, "", -1)}
        producer.send_offsets_to_transaction(offsets, target)
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.close()
    reader = KafkaConsumer(
        bootstrap_servers=running_broker.address,
        group_id=target,
        isolation_level="read_committed",
        enable_auto_commit=False,
    )
    where = PythonTopicPartition(target, 0)
    reader.assign([where])
    reader.seek_to_beginning()
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < 2:
        assert time.monotonic() < deadline
        found += [each.value for each in reader.poll(timeout_ms=200).get(where, [])]
    assert found == [b"0", b"2"]
    assert reader.committed(PythonTopicPartition(source, 0)) == 3
    reader.close()


def test_aiokafka(running_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    source, target = topics

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=running_broker.address, transactional_id=target)
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(target, b"0", partition=0)
                await producer.send_offsets_to_transaction({AioTopicPartition(source, 0): 5}, target)
            await producer.begin_transaction()
            await producer.send_and_wait(target, b"1", partition=0)
            await producer.abort_transaction()
            async with producer.transaction():
                await producer.send_and_wait(target, b"2", partition=0)
        finally:
            await producer.stop()
        reader = AIOKafkaConsumer(
            bootstrap_servers=running_broker.address,
            group_id=target,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await reader.start()
        try:
            reader.assign([AioTopicPartition(target, 0)])
            found = [(await reader.getone()).value for _ in range(2)]
            assert found == [b"0", b"2"]
            assert await reader.committed(AioTopicPartition(source, 0)) == 5
        finally:
            await reader.stop()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_SECONDS))
