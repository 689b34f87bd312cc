"""Subscriptions and assignments, against kafka-python's; and what a later client may send."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kafka.kafka_python import ConsumerProtocolAssignment, ConsumerProtocolSubscription, differences
from tests.kafka.random_messages import instance
from zab.kafka.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartitions,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    with_version,
)
from zab.kafka.primitives import ProtocolError

WANTED = Subscription(
    topics=("a", "b"),
    user_data=b"u",
    owned_partitions=(TopicPartitions(topic="a", partitions=(0, 1)),),
    generation_id=4,
    rack_id="r",
)


def test_each_version_of_a_subscription_appends_fields() -> None:
    body = "00000002" + "000161" + "000162" + "0000000175"
    owned = "00000001" + "000161" + "00000002" + "0000000000000001"
    assert encode_subscription(WANTED, 0).hex() == "0000" + body
    assert encode_subscription(WANTED, 1).hex() == "0001" + body + owned
    assert encode_subscription(WANTED, 2).hex() == "0002" + body + owned + "00000004"
    assert encode_subscription(WANTED).hex() == "0003" + body + owned + "00000004" + "000172"
    assert decode_subscription(encode_subscription(WANTED)) == WANTED
    assert decode_subscription(encode_subscription(WANTED, 0)) == Subscription(topics=("a", "b"), user_data=b"u")


def test_an_assignment() -> None:
    given = Assignment(assigned_partitions=WANTED.owned_partitions)
    assert encode_assignment(given, 0).hex() == "0000" + "00000001000161000000020000000000000001" + "ffffffff"
    assert decode_assignment(encode_assignment(given)) == given


def test_a_later_version_is_read_as_the_last_that_is_known() -> None:
    later = b"\0\x09" + encode_subscription(WANTED)[2:] + b"more"
    assert decode_subscription(later) == WANTED
    assert decode_assignment(b"\0\x04" + bytes(4) + b"\xff" * 4 + b"more") == Assignment(assigned_partitions=())


@pytest.mark.parametrize("data", ["", "00", "ffff", "0000", "000000000001", "8000" + "00" * 20])
def test_what_is_neither(data: str) -> None:
    for read in (decode_subscription, decode_assignment):
        with pytest.raises(ProtocolError):
            read(bytes.fromhex(data))


@pytest.mark.parametrize(
    ("cls", "other"), [(Subscription, ConsumerProtocolSubscription), (Assignment, ConsumerProtocolAssignment)]
)
@pytest.mark.parametrize("version", range(4))
def test_kafka_python_reads_and_writes_the_same(cls: Any, other: Any, version: int) -> None:
    random = Random(f"{cls.__name__} {version}")
    for _ in range(10):
        ours = instance(cls, version, random)
        data = with_version(ours, version)
        read = other.decode(data)
        assert differences(ours, read, version) == []
        assert read.encode(version=version) == data
