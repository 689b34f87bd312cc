"""What a declaration means for the bytes: versions of fields, null, tagged fields, defaults; and errors with places."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kafka.random_messages import instance
from zab.kafka.apis import APIS
from zab.kafka.codec import decode, decoded, encoded
from zab.kafka.declare import (
    LAYOUTS,
    Kind,
    array,
    boolean,
    default_of,
    int8,
    int16,
    int32,
    int64,
    nested,
    string,
    struct,
    uuid,
    versioned,
)
from zab.kafka.messages.consumer_groups import ConsumerGroupAssignment, ConsumerGroupHeartbeatResponse
from zab.kafka.messages.fetch import FetchRequest, ReplicaState
from zab.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from zab.kafka.primitives import ZERO_UUID, ProtocolError, Reader, Uuid


@nested
class Part:
    number: int = int16()
    name: str | None = string(nullable_since=2)


@versioned(versions=(0, 3), flexible_since=2)
class Whole:
    first: int = int32()
    second: int = int8(since=1, until=2, default=7)
    third: bool = boolean(since=1, default=True, ignorable=True)
    parts: tuple[Part, ...] | None = array(Part, nullable_since=1)
    ids: tuple[Uuid, ...] = array(Kind.UUID, since=3, default=())
    flags: tuple[bool, ...] = array(Kind.BOOLEAN, since=3, default=())
    one: Part | None = struct(Part, since=3, nullable_since=3, default=None)
    late: int = int64(since=2, default=-1, tag=0)
    inside: Part = struct(Part, since=3, default=Part(number=0, name=None), tag=2)


SIMPLE = Whole(first=1, parts=(Part(number=2, name="a"),))


def test_each_version_has_its_own_bytes() -> None:
    assert encoded(SIMPLE, 0).hex(" ", -4) == "00000001 00000001 00020001 61"
    assert encoded(SIMPLE, 1).hex() == "00000001" + "07" + "01" + "00000001" + "0002000161"
    assert encoded(SIMPLE, 2).hex() == "00000001" + "07" + "01" + "02" + "00020261" + "00" + "00"
    assert encoded(SIMPLE, 3).hex() == "00000001" + "01" + "02" + "0002026100" + "01" + "01" + "ff" + "00"
    for version in range(4):
        assert decoded(Whole, version, encoded(SIMPLE, version)) == SIMPLE


def test_what_a_version_lacks_has_its_default() -> None:
    read = decoded(Whole, 0, bytes.fromhex("0000000100000000"))
    assert read == Whole(first=1, second=7, third=True, parts=(), late=-1)
    assert read.inside is default_of(Whole, "inside")


def test_only_what_may_be_ignored_is_dropped_where_a_version_lacks_it() -> None:
    dropped = Whole(first=1, third=False, parts=())
    assert decoded(Whole, 0, encoded(dropped, 0)).third
    for version in (0, 3):
        with pytest.raises(ProtocolError, match=f"^Whole v{version}: second: not in this version$"):
            encoded(Whole(first=1, second=8, parts=()), version)
    with pytest.raises(ProtocolError, match=r"^Whole v1: late: not in this version$"):
        encoded(Whole(first=1, parts=(), late=5), 1)


def test_null_where_a_version_has_it() -> None:
    nothing = Whole(first=1, parts=None)
    assert encoded(nothing, 1)[-4:] == b"\xff\xff\xff\xff"
    assert encoded(nothing, 2)[-2:] == b"\0\0"
    assert decoded(Whole, 1, encoded(nothing, 1)) == decoded(Whole, 2, encoded(nothing, 2)) == nothing
    with pytest.raises(ProtocolError, match=r"^Whole v0: parts: an array must not be null in this version$"):
        encoded(nothing, 0)
    with pytest.raises(ProtocolError, match=r"^Whole v0: parts: an array must not be null at byte 8$"):
        decoded(Whole, 0, bytes.fromhex("00000001ffffffff"))
    nameless = Whole(first=1, parts=(Part(number=2, name=None),))
    assert decoded(Whole, 2, encoded(nameless, 2)) == nameless
    with pytest.raises(ProtocolError, match=r"^Whole v1: parts: name: it must not be null in this version$"):
        encoded(nameless, 1)


def test_a_struct_that_may_be_null_is_marked() -> None:
    there = ConsumerGroupHeartbeatResponse(
        error_code=0, member_epoch=1, heartbeat_interval_ms=2, assignment=ConsumerGroupAssignment(topic_partitions=())
    )
    data = encoded(there, 1)
    assert data[-4:].hex() == "01010000"
    assert decoded(ConsumerGroupHeartbeatResponse, 1, data) == there
    without = data[:-4] + b"\xff\0"
    assert decoded(ConsumerGroupHeartbeatResponse, 1, without).assignment is None
    assert encoded(decoded(ConsumerGroupHeartbeatResponse, 1, without), 1) == without
    with pytest.raises(ProtocolError, match="a struct is marked 0, neither null nor present"):
        decoded(ConsumerGroupHeartbeatResponse, 1, data[:-4] + b"\0\0")


@nested
class Holder:
    part: Part | None = struct(Part, nullable_since=0, default=None)


@versioned(versions=(0, 0))
class Holders:
    holders: tuple[Holder, ...] = array(Holder)


def test_an_element_may_be_as_short_as_a_null_in_it() -> None:
    several = Holders(holders=(Holder(), Holder(), Holder(part=Part(number=1, name=""))))
    assert encoded(several, 0).hex() == "00000003" + "ff" + "ff" + "01" + "00010000"
    assert decoded(Holders, 0, encoded(several, 0)) == several
    empty = Holders(holders=(Holder(),) * 3)
    assert decoded(Holders, 0, encoded(empty, 0)) == empty


# -------------------------------------------------------------------------------------------------------- tagged fields

BEFORE_TAGS = bytes.fromhex("00000001" + "01" + "01" + "01" + "01" + "ff")
"""SIMPLE in version 3, without parts."""


def test_tagged_fields_are_written_in_order_if_they_differ_from_their_defaults() -> None:
    tagged = Whole(first=1, parts=(), late=5, inside=Part(number=3, name="b"))
    data = encoded(tagged, 3)
    assert data == BEFORE_TAGS + bytes.fromhex("02" + "00080000000000000005" + "0205" + "0003026200")
    assert decoded(Whole, 3, data) == tagged
    assert encoded(Whole(first=1, parts=()), 3) == BEFORE_TAGS + b"\0"


def test_tags_that_are_not_known_are_skipped() -> None:
    data = BEFORE_TAGS + bytes.fromhex("03" + "00080000000000000005" + "0102ffff" + "8001" + "00")
    assert decoded(Whole, 3, data) == Whole(first=1, parts=(), late=5)


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("02" + "00080000000000000005" + "00080000000000000005", "tag 0 after tag 0"),
        ("02" + "02050003026200" + "00080000000000000005", "tag 0 after tag 2"),
        ("02" + "0500" + "0100", "tag 1 after tag 5"),
        ("01" + "00070000000000000005", "late: an int64 of 8 bytes, but 7 are left"),
        ("01" + "0009000000000000000500", "late ends before its 9 bytes do"),
        ("01" + "05ff", "a truncated varint"),
        ("01" + "0503ff", "tag 5 of 3 bytes, but 1 are left"),
        ("01", "a truncated varint"),
        ("ffffffff0f" + "0100", "a truncated varint"),
        ("01" + "0205" + "0003056200", "inside: name: a string of 4 bytes, but 2 are left"),
    ],
)
def test_wrong_tagged_fields(tags: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=f"^Whole v3: tagged fields: .*{said}"):
        decoded(Whole, 3, BEFORE_TAGS + bytes.fromhex(tags))


def test_an_unusual_tag_of_a_follower() -> None:
    """The size of a tagged field may be written in more bytes than it needs."""
    request = FetchRequest(
        max_wait_ms=1, min_bytes=1, topics=(), replica_state=ReplicaState(replica_id=1, replica_epoch=2)
    )
    data = encoded(request, 15)
    short = bytes.fromhex("010d")
    assert data.count(short) == 1
    assert decoded(FetchRequest, 15, data.replace(short, bytes.fromhex("018d00"))) == request


# --------------------------------------------------------------------------------------------------------------- errors


def test_bytes_after_a_message_are_left() -> None:
    reader = Reader(encoded(SIMPLE, 3) + b"rest")
    assert decode(Whole, 3, reader) == SIMPLE
    assert reader.data[reader.at :] == b"rest"


def test_the_request_for_metadata_with_three_bytes_too_many() -> None:
    """librdkafka 2.16 asks for all brokers and no topics with a count of four bytes."""
    data = bytes.fromhex("00000000" + "00" + "00" + "00")
    reader = Reader(data)
    assert decode(MetadataRequest, 12, reader).topics is None
    assert len(data) - reader.at == 3


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("000000", "first: an int32 of 4 bytes, but 3 are left"),
        ("0000000100000001", "parts: an array of 1 elements of at least 4 bytes, but 0 are left, at byte 8"),
        ("00000001" + "00000001" + "00020003" + "6161", "parts: name: a string of 3 bytes, but 2 are left, at byte 12"),
    ],
)
def test_an_error_says_in_which_field_and_at_which_byte(data: str, said: str) -> None:
    with pytest.raises(ProtocolError, match=f"^Whole v0: {said}"):
        decoded(Whole, 0, bytes.fromhex(data))


def test_fields_of_fixed_width_are_read_together() -> None:
    said = r"^Whole v1: first: fields from first to third of 6 bytes, but 5 are left, at byte 0$"
    with pytest.raises(ProtocolError, match=said):
        decoded(Whole, 1, bytes(5))


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, None])
def test_a_number_that_does_not_fit(value: Any) -> None:
    with pytest.raises(ProtocolError, match=r"^Whole v0: first: "):
        encoded(Whole(first=value, parts=()), 0)


def test_a_tagged_number_that_does_not_fit() -> None:
    with pytest.raises(ProtocolError, match=r"^Whole v3: late: "):
        encoded(Whole(first=1, parts=(), late=1 << 63), 3)


@pytest.mark.parametrize("version", [-1, 4])
def test_a_version_that_there_is_not(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"Whole has no version {version}"):
        decoded(Whole, version, bytes(100))
    with pytest.raises(ProtocolError, match=f"Whole has no version {version}"):
        encoded(SIMPLE, version)


def test_a_part_alone_is_no_message() -> None:
    with pytest.raises(AssertionError, match="is only a part"):
        encoded(Part(number=1, name=None), 0)


# ---------------------------------------------------------------------------------------------------------- declaration


def test_equal_messages_have_equal_hashes() -> None:
    one, another = (MetadataRequest(topics=(MetadataRequestTopic(name="a"),)) for _ in range(2))
    assert one == another
    assert hash(one) == hash(another)
    assert one.topics is not None
    assert one.topics[0].topic_id == ZERO_UUID


def test_a_constructor_requires_what_has_no_default() -> None:
    with pytest.raises(TypeError, match="topics"):
        MetadataRequest()  # type: ignore[call-arg]


def test_what_is_tagged_needs_a_default() -> None:
    with pytest.raises(AssertionError, match="has a default"):
        uuid(tag=0)
    with pytest.raises(AssertionError, match="one needs a default"):

        @nested
        class Wrong:
            one: Part = struct(Part, since=1)


# ------------------------------------------------------------------------------------------------------------ all of it

OURS = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for cls, layout in LAYOUTS.items()
    if layout.versions is not None
    for version in range(layout.versions[0], layout.versions[1] + 1)
]


@pytest.mark.parametrize(("cls", "version"), OURS)
def test_what_is_written_is_read_and_every_cut_is_an_error(cls: Any, version: int) -> None:
    random = Random(f"{cls.__name__} {version}")
    for _ in range(3):
        one = instance(cls, version, random)
        data = encoded(one, version)
        assert decoded(cls, version, data) == one
        for size in random.sample(range(len(data)), min(len(data), 12)):
            with pytest.raises(ProtocolError, match=f"^{cls.__name__} v{version}: "):
                decoded(cls, version, data[:size])


def test_every_key_has_one_request_and_one_response() -> None:
    assert len(APIS) == 55
    for key, api in APIS.items():
        assert LAYOUTS[api.request].key == LAYOUTS[api.response].key == key
