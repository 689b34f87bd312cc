"""`group.protocol=consumer` (KIP-848) of librdkafka, unmodified, against a real broker."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.rigs.kafka_broker import KafkaBroker, kafka_broker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

SETTINGS = ("group.consumer.heartbeat.interval.ms=100", "group.consumer.session.timeout.ms=3000")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka_broker(tmp_path_factory.mktemp("kafka"), settings=SETTINGS) as found:
        yield found


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """A topic of four partitions with a record in each."""
    name = f"consumer-{uuid.uuid4()}"
    admin = admin_of(broker)
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": broker.address})
    for index in range(4):
        producer.produce(name, str(index), partition=index)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return name


def admin_of(broker: KafkaBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def member(broker: KafkaBroker, group: str, topic: str, **options: object) -> Consumer:
    one = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **options,
        }
    )
    one.subscribe([topic])
    return one


def indexes(one: Consumer) -> list[int]:
    return sorted(each.partition for each in one.assignment())


def poll_until(condition: Callable[[], bool], *members: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, [indexes(each) for each in members]
        for each in members:
            message = each.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()


def test_members_share_a_topic_and_take_over_what_one_leaves(broker: KafkaBroker, topic: str) -> None:
    first = member(broker, topic, topic)
    poll_until(lambda: indexes(first) == [0, 1, 2, 3], first)
    first.commit(offsets=[TopicPartition(topic, index, 1) for index in range(4)], asynchronous=False)
    second = member(broker, topic, topic)
    poll_until(lambda: (indexes(first), indexes(second)) == ([0, 1], [2, 3]), first, second)
    admin = admin_of(broker)
    described = admin.describe_consumer_groups([topic])[topic].result(PATIENCE_SECONDS)
    assert (described.state.name, described.type.name, described.partition_assignor) == (
        "STABLE",
        "CONSUMER",
        "uniform",
    )
    assert len(described.members) == 2
    first.close()
    poll_until(lambda: indexes(second) == [0, 1, 2, 3], second)
    assert [each.offset for each in second.committed([TopicPartition(topic, index) for index in range(4)])] == [1] * 4
    second.close()
    admin.delete_consumer_groups([topic])[topic].result(PATIENCE_SECONDS)


def test_a_member_that_is_gone_without_a_word_is_replaced(broker: KafkaBroker, topic: str) -> None:
    """It is in a poll no longer: it leaves by `max.poll.interval.ms`, or by the end of its session."""
    first = member(broker, topic, topic, **{"max.poll.interval.ms": 2000})
    poll_until(lambda: indexes(first) == [0, 1, 2, 3], first)
    second = member(broker, topic, topic)
    poll_until(lambda: indexes(second) == [0, 1, 2, 3], second)
    second.close()
    first.close()


def test_a_static_member_that_restarts_has_its_partitions_again(broker: KafkaBroker, topic: str) -> None:
    first = member(broker, topic, topic, **{"group.instance.id": "one"})
    second = member(broker, topic, topic)
    poll_until(lambda: len(indexes(first)) == len(indexes(second)) == 2, first, second)
    before, others = indexes(first), indexes(second)
    first.close()
    again = member(broker, topic, topic, **{"group.instance.id": "one"})
    poll_until(lambda: indexes(again) == before, again, second)
    assert indexes(second) == others
    again.close()
    second.close()


def test_an_assignor_that_the_broker_does_not_have_is_refused(broker: KafkaBroker, topic: str) -> None:
    one = member(broker, topic, topic, **{"group.remote.assignor": "mine"})
    deadline = time.monotonic() + PATIENCE_SECONDS
    with pytest.raises(KafkaException) as caught:  # noqa: PT012 - the refusal comes while it polls
        while time.monotonic() < deadline:
            message = one.poll(0.1)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
    assert caught.value.args[0].code() == KafkaError._FATAL
    assert "assignor" in caught.value.args[0].str()
    one.close()


def test_a_group_changes_its_protocol_while_it_is_empty(broker: KafkaBroker, topic: str) -> None:
    old = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "enable.auto.commit": False})
    old.subscribe([topic])
    poll_until(lambda: indexes(old) == [0, 1, 2, 3], old)
    old.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    old.close()
    new = member(broker, topic, topic)
    poll_until(lambda: indexes(new) == [0, 1, 2, 3], new)
    assert [each.offset for each in new.committed([TopicPartition(topic, 0)])] == [1]
    new.close()
    again = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
    again.subscribe([topic])
    poll_until(lambda: indexes(again) == [0, 1, 2, 3], again)
    again.close()


def test_a_regular_expression(broker: KafkaBroker, topic: str) -> None:
    pytest.importorskip("re2")
    one = member(broker, topic, f"^{topic[:-2]}..$")
    poll_until(lambda: indexes(one) == [0, 1, 2, 3], one)
    one.close()


class Worker:
    """A member that counts what it is given, and commits that: in a process of a rolling upgrade. It has a thread of
    its own: the answer to a commit comes after that to a join, which waits for the other members. No other thread calls
    the consumer: confluent-kafka serializes the calls to a handle, and one that polls all the time lets no other in."""

    def __init__(
        self, broker: KafkaBroker, topic: str, number: int, strategy: str | None, seen: list[tuple[int, int]]
    ) -> None:
        """Without a strategy it speaks KIP-848's protocol. `seen`: what the members have taken and committed."""
        classic = {"session.timeout.ms": 10_000, "partition.assignment.strategy": strategy}
        options: dict[str, object] = {"group.protocol": "consumer"} if strategy is None else classic
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": topic,
                "client.id": f"worker{number}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **options,
            }
        )
        self.consumer.subscribe([topic])
        self.failure: AssertionError | KafkaException | None = None
        self.indexes: list[int] = []
        self._seen = seen
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()
        assert self.failure is None

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self._work()
                self.indexes = indexes(self.consumer)
        except (AssertionError, KafkaException) as error:
            self.failure = error
        finally:
            self.consumer.close()

    def _work(self) -> None:
        """Take what there is, and commit it. What cannot be committed is taken again, by this one or another."""
        message = self.consumer.poll(0.05)
        if message is None:
            return
        assert message.error() is None, message.error()
        try:
            self.consumer.commit(message, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in COMMITS_REFUSED:
                raise
            with contextlib.suppress(KafkaException):
                # It may have the partition still, in its next epoch.
                self.consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))
            return
        self._seen.append((message.partition(), message.offset()))


COMMITS_REFUSED = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("strategy", "goes_back"),
    [
        ("cooperative-sticky", False),
        ("range", False),
        pytest.param("cooperative-sticky", True, marks=pytest.mark.longest),
    ],
)
def test_a_group_of_three_is_upgraded_one_by_one_and_loses_nothing(
    broker: KafkaBroker, topic: str, strategy: str, goes_back: bool
) -> None:
    """Records are produced all the time. What is committed once is not committed again by another member."""
    producer = Producer({"bootstrap.servers": broker.address})
    sent = 4
    seen: list[tuple[int, int]] = []
    workers = [Worker(broker, topic, number, strategy, seen) for number in range(3)]

    def go_on(until: Callable[[], bool]) -> None:
        nonlocal sent
        deadline = time.monotonic() + 2 * PATIENCE_SECONDS
        while not until():
            assert time.monotonic() < deadline, (sent, len(seen), [each.indexes for each in workers])
            assert [each.failure for each in workers] == [None] * len(workers)
            if sent < 200:
                producer.produce(topic, str(sent), partition=sent % 4)
                sent += 1
            producer.poll(0.05)

    def is_shared() -> bool:
        shares = [each.indexes for each in workers]
        return all(shares) and sorted(index for each in shares for index in each) == [0, 1, 2, 3]

    def type_of_group() -> str:
        [found] = [
            each for each in admin.list_consumer_groups().result(PATIENCE_SECONDS).valid if each.group_id == topic
        ]
        return str(found.type.name)

    admin = admin_of(broker)
    go_on(is_shared)
    assert type_of_group() == "CLASSIC"
    for number in range(3):
        workers.pop(0).close()
        workers.append(Worker(broker, topic, 3 + number, None, seen))
        go_on(is_shared)
        assert type_of_group() == "CONSUMER"
    for number in range(3 if goes_back else 0):
        workers.pop(0).close()
        workers.append(Worker(broker, topic, 6 + number, strategy, seen))
        go_on(is_shared)
    assert type_of_group() == ("CLASSIC" if goes_back else "CONSUMER")
    assert producer.flush(PATIENCE_SECONDS) == 0
    go_on(lambda: len(set(seen)) == sent)
    assert sorted(seen) == sorted(set(seen)), "a record was committed twice"
    for each in workers:
        each.close()
