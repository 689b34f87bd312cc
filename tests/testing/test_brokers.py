"""The test kit's brokers: unmodified clients, and what a test does to brokers."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client.sync import connect
from zab.testing import BrokerFailedError, Brokers, EnsembleError, TopicRecord
from zab.testing.broker_settings import COUNT_MAX

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "log_level": 0}


def produce(producer: Producer, topic: str, *values: bytes) -> list[int]:
    """The offsets at which all of them are acknowledged."""
    offsets: list[int] = []

    def told(error: object, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for value in values:
        producer.produce(topic, value, on_delivery=told)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return offsets


def producer_of(brokers: Brokers, **options: Any) -> Producer:
    named = {key.replace("_", "."): value for key, value in options.items()}
    return Producer({"bootstrap.servers": brokers.bootstrap_servers, **QUICK, **named})


def values(brokers: Brokers, topic: str, **options: Any) -> list[bytes | None]:
    return [record.value for record in brokers.records(topic, **options)]


def test_a_topic_has_what_a_client_has_written() -> None:
    with Brokers() as b:
        b.create_topic("a", 2, configuration={"retention.ms": -1})
        assert b.topics == {"a": 2}
        producer = producer_of(b)
        producer.produce("a", b"one", b"key", partition=1, headers=[("h", b"v")], timestamp=1000)
        producer.produce("a", b"two", partition=0, timestamp=2000)
        assert producer.flush(PATIENCE_SECONDS) == 0
        one = TopicRecord(1, 0, 1000, b"key", b"one", (("h", b"v"),))
        assert b.records("a") == [TopicRecord(0, 0, 2000, None, b"two"), one]
        assert b.records("a", 1) == [one]
        assert b.leader("a") is b.members[1] is b.controller
        with pytest.raises(ValueError, match="there is no a, partition 2: there are a"):
            b.records("a", 2)
        with pytest.raises(EnsembleError, match="the topic a was not created: "):
            b.create_topic("a")


def test_a_consumer_of_kafka_python_reads_what_its_producer_wrote() -> None:
    with Brokers() as b:
        b.create_topic("a")
        producer = KafkaProducer(bootstrap_servers=b.bootstrap_servers)
        assert [producer.send("a", b"%d" % number).get(PATIENCE_SECONDS).offset for number in range(3)] == [0, 1, 2]
        producer.close()
        options = {"auto_offset_reset": "earliest", "group_id": "g", "consumer_timeout_ms": 1000 * PATIENCE_SECONDS}
        consumer = KafkaConsumer("a", bootstrap_servers=b.bootstrap_servers, **options)
        assert [next(consumer).value for _ in range(3)] == [b"0", b"1", b"2"]
        consumer.close()


def test_aiokafka_shares_its_loop_with_the_test() -> None:
    async def main() -> list[bytes]:
        async with Brokers() as b:
            b.create_topic("a")
            async with AIOKafkaProducer(bootstrap_servers=b.bootstrap_servers) as producer:
                await producer.send_and_wait("a", b"1")
            reading = AIOKafkaConsumer("a", bootstrap_servers=b.bootstrap_servers, auto_offset_reset="earliest")
            async with reading as consumer:
                return [(await consumer.getone()).value]

    assert asyncio.run(asyncio.wait_for(main(), PATIENCE_SECONDS)) == [b"1"]


def test_a_trio_program_has_them_too() -> None:
    async def main() -> None:
        async with Brokers() as b:
            b.kill()
            b.start()
            await b.until_serving()
            b.create_topic("a")

    trio.run(main)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_what_was_acknowledged_is_there_after_a_restart(end: str) -> None:
    with Brokers(configuration={"zookeeper.session.timeout.ms": 60_000}) as b:
        b.create_topic("a")
        port = b.members[1].port
        producer = producer_of(b, enable_idempotence=True)
        assert produce(producer, "a", b"1", b"2") == [0, 1]
        getattr(b, end)()
        assert b.members[1].state == "down"
        with pytest.raises(EnsembleError, match="no broker serves"):
            b.create_topic("b")
        # Its old session would live for a minute.
        b.start()
        assert (b.members[1].port, b.members[1].state) == (port, "serving")
        assert produce(producer, "a", b"3") == [2]
        assert values(b, "a") == [b"1", b"2", b"3"]


@pytest.mark.parametrize(("end", "is_left"), [("kill", True), ("stop", False)])
def test_only_a_killed_broker_leaves_its_session(end: str, is_left: bool) -> None:
    with Brokers(configuration={"zookeeper.session.timeout.ms": 60_000}) as b, connect(b.ensemble.hosts) as zk:
        getattr(b, end)()
        assert (zk.exists("/brokers/ids/1") is not None) == is_left


def test_a_paused_broker_answers_nothing_until_it_goes_on() -> None:
    with Brokers(configuration={"zookeeper.session.timeout.ms": 60_000}) as b:
        b.create_topic("a")
        producer = producer_of(b)
        produce(producer, "a", b"1")
        b.pause()
        assert b.members[1].state == "paused"
        producer.produce("a", b"2")
        assert producer.flush(0.2) == 1
        b.resume()
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert values(b, "a") == [b"1", b"2"]


def test_aborted_and_open_transactions_are_not_among_the_records() -> None:
    with Brokers() as b:
        b.create_topic("a")
        producer = producer_of(b, transactional_id="t")
        producer.init_transactions(PATIENCE_SECONDS)
        for value, ends in ((b"aborted", producer.abort_transaction), (b"kept", producer.commit_transaction)):
            producer.begin_transaction()
            producer.produce("a", value)
            assert producer.flush(PATIENCE_SECONDS) == 0
            ends(PATIENCE_SECONDS)
        producer.begin_transaction()
        produce(producer, "a", b"open")
        assert values(b, "a") == [b"kept"]
        assert values(b, "a", uncommitted=True) == [b"aborted", b"kept", b"open"]
        with pytest.raises(KafkaException):
            producer.commit_transaction(0.0)


def test_three_brokers_survive_the_leader() -> None:
    with Brokers(3, {"zookeeper.session.timeout.ms": 400}) as b:
        b.create_topic("a", configuration={"min.insync.replicas": 2})
        producer = producer_of(b, enable_idempotence=True)
        assert produce(producer, "a", b"1") == [0]
        leader = b.leader("a")
        assert leader is not None
        leader.kill()
        b.wait_until_serving()
        assert b.leader("a") not in (None, leader)
        assert produce(producer, "a", b"2") == [1]
        b.start()
        assert [each.state for each in b.members.values()] == ["serving"] * 3
        assert values(b, "a") == [b"1", b"2"]


def test_a_restored_broker_has_nothing_of_before() -> None:
    with Brokers() as b:
        b.create_topic("a")
        produce(producer_of(b), "a", b"1")
        port = b.members[1].port
        b.pause()
        b.restore()
        assert (b.topics, b.members[1].port) == ({}, port)
        b.create_topic("a")
        assert b.records("a") == []


def test_nothing_is_left_of_a_block_that_fails() -> None:
    before = set(threading.enumerate())
    left = Brokers()

    def fail() -> None:
        with left:
            left.create_topic("a")
            left.kill()
            raise RuntimeError("fails")

    with pytest.raises(RuntimeError, match="fails"):
        fail()
    directory = left.members[1].directory
    assert directory.is_relative_to(Path(tempfile.gettempdir()))
    assert not directory.parent.exists()
    gc.collect()
    names = [each.name for each in set(threading.enumerate()) - before]
    assert [name for name in names if not name.startswith("Trio thread")] == []
    with pytest.raises(EnsembleError, match="opened once"):
        left.__enter__()
    with pytest.raises(EnsembleError, match="not open"):
        left.create_topic("a")


def test_a_broker_that_ends_by_itself_fails_the_test() -> None:
    def fail() -> None:
        with Brokers() as b:
            b.stop()
            (b.members[1].directory / "meta.properties").write_text("nonsense")
            b.start()

    with pytest.raises(BrokerFailedError, match=r"broker 1 ended: meta\.properties: "):
        fail()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match=f"there are 1 to {COUNT_MAX} brokers, not 0"):
        Brokers(0)
    with pytest.raises(ValueError, match=f"there are 1 to {COUNT_MAX} brokers, not {COUNT_MAX + 1}"):
        Brokers(COUNT_MAX + 1)
    with pytest.raises(ValueError, match=r"listeners is for the kit to decide"):
        Brokers(configuration={"listeners": "PLAINTEXT://:1"})
    with pytest.raises(ValueError, match=r"num\.partitons.*num\.partitions is known"):
        Brokers(configuration={"num.partitons": 3})
    with pytest.raises(ValueError, match=r"'me' is no principal"):
        Brokers(configuration={"super.users": "me"})
    with Brokers() as b, pytest.raises(ValueError, match="there is no broker 2: there are 1"):
        b.kill(2)


def test_waiting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with Brokers() as b:
        b.kill()
        began = time.monotonic()
        with pytest.raises(EnsembleError, match=r"not serving after 0 s: <brokers 1: down>\nbroker 1: "):
            b.wait_until_serving(seconds=0.05)
        assert time.monotonic() - began < PATIENCE_SECONDS
