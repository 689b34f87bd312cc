"""aiokafka, unmodified, against a real broker."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete

from tests.rigs.kafka_broker import KafkaBroker
from tests.rigs.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.process, pytest.mark.slow]

CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


@asynccontextmanager
async def admin_of(broker: KafkaBroker) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def new_topic(broker: KafkaBroker) -> str:
    """A topic of two partitions."""
    name = f"aiokafka-{uuid.uuid4()}"
    async with admin_of(broker) as admin:
        await admin.create_topics([NewTopic(name, 2, 1)])
    return name


def consumer(broker: KafkaBroker, *topics: str, **options: object) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *topics,
        **{
            "bootstrap_servers": broker.address,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "heartbeat_interval_ms": 100,
            **options,
        },
    )


async def taken(one: AIOKafkaConsumer, count: int) -> list[ConsumerRecord]:
    """So many records."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return [await one.getone() for _ in range(count)]


async def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("is_idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(
    running_broker: KafkaBroker, codec: str | None, is_idempotent: bool
) -> None:
    async def main() -> None:
        topic = await new_topic(running_broker)
        options = {"compression_type": codec, "enable_idempotence": is_idempotent, "acks": "all"}
        async with AIOKafkaProducer(bootstrap_servers=running_broker.address, **options) as producer:
            sent = [
                await producer.send(
                    topic, b"value-%d" % n * 20, b"key-%d" % n, partition=1, headers=[("n", b"%d" % n), ("", b"")]
                )
                for n in range(40)
            ]
            assert [(await each).offset for each in sent] == [*range(40)]
        async with consumer(running_broker) as reader:
            reader.assign([TopicPartition(topic, 1)])
            found = await taken(reader, 40)
        assert [(each.offset, each.key, each.value) for each in found] == [
            (n, b"key-%d" % n, b"value-%d" % n * 20) for n in range(40)
        ]
        assert found[7].headers == (("n", b"7"), ("", b""))

    asyncio.run(asyncio.wait_for(main(), 3 * PATIENCE_SECONDS))


def test_offsets_of_times_and_of_ends_and_what_is_left_of_deleted_records(running_broker: KafkaBroker) -> None:
    async def main() -> None:
        topic = await new_topic(running_broker)
        where, began_ms = TopicPartition(topic, 0), int(time.time() * 1000)
        async with AIOKafkaProducer(bootstrap_servers=running_broker.address) as producer:
            for n in range(10):
                await producer.send_and_wait(topic, b"%d" % n, partition=0, timestamp_ms=began_ms + 1000 * n)
        async with consumer(running_broker) as reader, admin_of(running_broker) as admin:
            reader.assign([where])
            assert (await reader.beginning_offsets([where]), await reader.end_offsets([where])) == (
                {where: 0},
                {where: 10},
            )
            found = (await reader.offsets_for_times({where: began_ms + 3500}))[where]
            assert (found.offset, found.timestamp) == (4, began_ms + 4000)
            assert await admin.delete_records({where: RecordsToDelete(6)}) == {where: 6}
            reader.seek(where, 2)
            assert [each.offset for each in await taken(reader, 4)] == [6, 7, 8, 9], "its position is reset"

    asyncio.run(asyncio.wait_for(main(), 3 * PATIENCE_SECONDS))


def test_the_members_of_a_group_share_its_partitions_and_go_on_where_it_was(running_broker: KafkaBroker) -> None:
    async def main() -> None:
        topic = await new_topic(running_broker)
        options = {"group_id": f"group-of-{topic}", "metadata_max_age_ms": 500}
        async with AIOKafkaProducer(bootstrap_servers=running_broker.address) as producer:
            for n in range(20):
                await producer.send_and_wait(topic, b"%d" % n, partition=n % 2)
            async with consumer(running_broker, topic, **options) as second:
                async with consumer(running_broker, topic, **options) as first:
                    await until(lambda: len(first.assignment()) == len(second.assignment()) == 1)
                    assert first.assignment() != second.assignment()
                    for one in (first, second):
                        await taken(one, 10)
                        await one.commit()
                # The other one has left, so both partitions are its own, from where their last owner was.
                await until(lambda: len(second.assignment()) == 2)
                for n in range(20, 24):
                    await producer.send_and_wait(topic, b"%d" % n, partition=n % 2)
                assert sorted(each.value for each in await taken(second, 4)) == [b"20", b"21", b"22", b"23"]
                await second.commit()
        async with consumer(running_broker, **options) as reader:
            assert [await reader.committed(TopicPartition(topic, n)) for n in (0, 1)] == [12, 12]

    asyncio.run(asyncio.wait_for(main(), 3 * PATIENCE_SECONDS))
