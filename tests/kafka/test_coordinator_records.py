"""Keys and values of coordinators: every version that may be in a log, and those that are written."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

from tests.kafka.random_messages import instance
from zab.kafka.consumer_protocol import with_version
from zab.kafka.coordinator_records import (
    GroupKey,
    GroupMember,
    GroupValue,
    OffsetKey,
    OffsetValue,
    TransactionKey,
    TransactionPartitions,
    TransactionStatus,
    TransactionValue,
    decode_consumer_offsets_key,
    decode_group_value,
    decode_offset_value,
    decode_transaction_state_key,
    decode_transaction_value,
    encode_key,
    encode_value,
    partition_for,
)
from zab.kafka.primitives import ProtocolError

MEMBER = GroupMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=b"\x01",
    assignment=b"\x02\x03",
)
GROUP = GroupValue(
    protocol_type="consumer", generation=7, protocol="range", leader="m", current_state_timestamp=9, members=(MEMBER,)
)
TRANSACTION = TransactionValue(
    producer_id=5,
    producer_epoch=1,
    transaction_timeout_ms=60_000,
    transaction_status=TransactionStatus.ONGOING,
    transaction_partitions=(TransactionPartitions(topic="t", partition_ids=(0, 2)),),
    transaction_last_update_timestamp_ms=8,
    transaction_start_timestamp_ms=7,
)


def test_keys() -> None:
    assert encode_key(GroupKey(group="g")).hex() == "0002" + "000167"
    assert encode_key(TransactionKey(transactional_id="t")).hex() == "0000" + "000174"
    assert decode_consumer_offsets_key(bytes.fromhex("0002000167")) == GroupKey(group="g")
    assert decode_transaction_state_key(bytes.fromhex("0000000174")) == TransactionKey(transactional_id="t")
    old = bytes.fromhex("0000" + "000167" + "000174" + "00000003")
    assert decode_consumer_offsets_key(old) == OffsetKey(group="g", topic="t", partition=3)


@pytest.mark.parametrize("version", [-1, 4, 9, 15])
def test_keys_of_groups_of_other_kinds_are_skipped(version: int) -> None:
    assert decode_consumer_offsets_key(version.to_bytes(2, "big", signed=True) + b"\xff") is None


def test_the_value_of_a_group() -> None:
    data = encode_value(GROUP)
    assert data.hex() == (
        "0003" + "0008636f6e73756d6572" + "00000007" + "000572616e6765" + "00016d" + "0000000000000009" + "00000001"
        "00016d" + "000169" + "000163" + "00022f68" + "000493e0" + "0000afc8" + "0000000101" + "000000020203"
    )
    assert decode_group_value(data) == GROUP


def test_the_value_of_an_empty_group() -> None:
    empty = attrs.evolve(GROUP, protocol=None, leader=None, members=())
    data = encode_value(empty)
    assert (
        data.hex() == "0003" + "0008636f6e73756d6572" + "00000007" + "ffff" + "ffff" + "0000000000000009" + "00000000"
    )
    assert decode_group_value(data) == empty


@pytest.mark.parametrize(
    ("version", "changes", "of_member"),
    [
        (0, {"current_state_timestamp": -1}, {"rebalance_timeout": -1, "group_instance_id": None}),
        (1, {"current_state_timestamp": -1}, {"group_instance_id": None}),
        (2, {}, {"group_instance_id": None}),
        (3, {}, {}),
        (4, {}, {}),
    ],
)
def test_every_version_of_a_group_is_read(version: int, changes: dict[str, Any], of_member: dict[str, Any]) -> None:
    expected = attrs.evolve(GROUP, members=(attrs.evolve(MEMBER, **of_member),), **changes)
    assert decode_group_value(with_version(GROUP, version)) == expected


@pytest.mark.parametrize(
    ("version", "data", "expected"),
    [
        (0, "000000000000002a" + "00016d" + "0000000000000009", {"leader_epoch": -1}),
        (1, "000000000000002a" + "00016d" + "0000000000000009" + "000000000000000a", {"expire_timestamp": 10}),
        (2, "000000000000002a" + "00016d" + "0000000000000009", {}),
        (3, "000000000000002a" + "00000005" + "00016d" + "0000000000000009", {"leader_epoch": 5}),
        (4, "000000000000002a" + "00000005" + "026d" + "0000000000000009" + "00", {"leader_epoch": 5}),
        # A tagged field of a later Kafka.
        (4, "000000000000002a" + "00000005" + "026d" + "0000000000000009" + "01000177", {"leader_epoch": 5}),
    ],
)
def test_every_version_of_an_offset_is_read(version: int, data: str, expected: dict[str, Any]) -> None:
    value = OffsetValue(**{"offset": 42, "metadata": "m", "commit_timestamp": 9, **expected})
    assert decode_offset_value(version.to_bytes(2, "big") + bytes.fromhex(data)) == value


def test_the_value_of_a_transaction() -> None:
    data = encode_value(TRANSACTION)
    assert data.hex(" ", -2) == (
        "0000 0000 0000 0000 0005 0001 0000 ea60 0100 0000 0100 0174 0000 0002 0000 0000 0000 0002 "
        "0000 0000 0000 0008 0000 0000 0000 0007"
    )
    assert decode_transaction_value(data) == TRANSACTION
    nothing = attrs.evolve(TRANSACTION, transaction_partitions=None)
    assert decode_transaction_value(encode_value(nothing)) == nothing


def test_the_second_flavour_of_transactions_is_read() -> None:
    later = attrs.evolve(TRANSACTION, previous_producer_id=4, next_producer_id=6, client_transaction_version=2)
    data = with_version(later, 1)
    assert data.endswith(bytes.fromhex("03" + "00080000000000000004" + "01080000000000000006" + "02020002"))
    assert decode_transaction_value(data) == later
    with pytest.raises(ProtocolError, match="previous_producer_id: not in this version"):
        encode_value(later)


def test_the_tags_of_a_transaction_ascend() -> None:
    data = with_version(attrs.evolve(TRANSACTION, next_producer_id=6, client_transaction_version=2), 1)
    assert data.endswith(bytes.fromhex("02" + "01080000000000000006" + "02020002"))


@pytest.mark.parametrize("status", [-1, 7, 8])
def test_a_status_that_is_not_stored(status: int) -> None:
    data = encode_value(attrs.evolve(TRANSACTION, transaction_status=status))
    with pytest.raises(ProtocolError, match=f"transaction status {status} is not known"):
        decode_transaction_value(data)


@pytest.mark.parametrize(
    ("read", "version"),
    [
        (decode_offset_value, 5),
        (decode_offset_value, -1),
        (decode_group_value, 5),
        (decode_transaction_value, 2),
        (decode_transaction_state_key, 1),
    ],
)
def test_a_version_that_is_not_known(read: Any, version: int) -> None:
    with pytest.raises(ProtocolError, match=f"has no version {version}"):
        read(version.to_bytes(2, "big", signed=True) + bytes(100))


@pytest.mark.parametrize(
    ("cls", "read", "versions"),
    [
        (OffsetValue, decode_offset_value, range(5)),
        (GroupValue, decode_group_value, range(5)),
        (TransactionValue, decode_transaction_value, range(2)),
        (OffsetKey, decode_consumer_offsets_key, range(2)),
    ],
)
def test_random_ones_come_back_and_no_cut_does(cls: Any, read: Any, versions: range) -> None:
    random = Random(cls.__name__)
    for version in versions:
        for _ in range(10):
            one = instance(cls, version, random)
            if cls is TransactionValue:
                one = attrs.evolve(one, transaction_status=random.randrange(7))
            data = with_version(one, version)
            assert read(data) == one
            for size in random.sample(range(len(data)), min(len(data), 20)):
                with pytest.raises(ProtocolError):
                    read(data[:size])


def test_partitions_are_spread() -> None:
    assert {partition_for(f"group-{number}", 50) for number in range(1000)} == set(range(50))
