"""A broker ends and comes back under a producer: nothing that was acknowledged is lost, and a group goes on."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

END: dict[str, Callable[[KafkaBroker], object]] = {"stopped": KafkaBroker.stop, "killed": KafkaBroker.kill}


@pytest.mark.parametrize("end", END)
def test_what_was_acknowledged_is_there_once_after_a_restart(running_broker: KafkaBroker, end: str) -> None:
    """The producer is idempotent, so its retries add nothing twice; the topic syncs before it acknowledges."""
    topic = f"restarts-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": running_broker.address})
    admin.create_topics([NewTopic(topic, 1, 1, config={"flush.mode": "batch"})])[topic].result(PATIENCE_SECONDS)
    options = {"enable.idempotence": True, "linger.ms": 1, "retry.backoff.max.ms": 100}
    quick = {"bootstrap.servers": running_broker.address, "reconnect.backoff.max.ms": 100, "log_level": 0}
    producer = Producer({**quick, **options})
    acknowledged: dict[int, int] = {}
    failed: list[object] = []

    def told(error: object, message: object, number: int) -> None:
        if error is None:
            acknowledged[number] = message.offset()  # type: ignore[attr-defined]
        else:
            failed.append(error)

    def send(numbers: range) -> None:
        for number in numbers:
            producer.produce(
                topic, b"%d" % number, on_delivery=lambda error, message, number=number: told(error, message, number)
            )
            producer.poll(0)

    send(range(200))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not acknowledged:
        assert time.monotonic() < deadline
        producer.poll(0.05)
    send(range(200, 400))
    END[end](running_broker)
    send(range(400, 600))
    running_broker.serve()
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert (failed, len(acknowledged)) == ([], 600)
    reader = Consumer({**quick, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while len(found) < 600:
        assert time.monotonic() < deadline + PATIENCE_SECONDS
        for message in reader.consume(600, 0.2):
            assert message.error() is None, message.error()
            number = int(message.value() or b"")
            assert acknowledged[number] == message.offset()
            found.append(number)
    assert found == [*range(600)]
    reader.commit(asynchronous=False)
    reader.close()
    END[end](running_broker)
    running_broker.serve()
    again = Consumer({**quick, "group.id": topic})
    assert [each.offset for each in again.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)] == [600]
    again.close()
