"""What a stranger sends to do harm: it ends in ProtocolError, and the memory that it costs is bounded."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest

from tests.kafka.random_messages import instance
from zab.kafka.api_key import ApiKey
from zab.kafka.apis import APIS
from zab.kafka.codec import decoded, encoded
from zab.kafka.frames import REQUEST_ELEMENTS_MAX, SOCKET_REQUEST_MAX_BYTES, decode_request
from zab.kafka.headers import RequestHeader, write_request_header
from zab.kafka.messages.metadata import MetadataRequest
from zab.kafka.primitives import ProtocolError
from zab.wire.frames import FrameReader

PLENTY = 1 << 16
COUNTS = ["7fffffff", "00ffffff", "0000ffff"]
COMPACT_COUNTS = ["ffffffff0f", "ffffffff07", "ffff03"]


def headed(key: int, version: int) -> bytes:
    out = bytearray()
    write_request_header(out, RequestHeader(key, version, 1, None))
    return bytes(out)


def memory_of(payload: bytes) -> int:
    """The most that reading a refused request had allocated at once, in bytes."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode_request(payload)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


BEFORE_THE_FIRST_ARRAY = [
    (ApiKey.METADATA, 8, ""),
    (ApiKey.PRODUCE, 3, "ffff" + "ffff" + "00000000"),
    (ApiKey.FETCH, 11, "00" * 25),
    (ApiKey.CREATE_TOPICS, 2, ""),
    (ApiKey.OFFSET_COMMIT, 7, "0000" + "00000000" + "0000" + "ffff"),
    (ApiKey.DELETE_GROUPS, 0, ""),
    (ApiKey.METADATA, 12, ""),
    (ApiKey.PRODUCE, 10, "00" + "ffff" + "00000000"),
    (ApiKey.FETCH, 16, "00" * 21),
    (ApiKey.CREATE_TOPICS, 7, ""),
    (ApiKey.OFFSET_COMMIT, 9, "01" + "00000000" + "01" + "00"),
    (ApiKey.DELETE_GROUPS, 2, ""),
]


@pytest.mark.parametrize(("key", "version", "before"), BEFORE_THE_FIRST_ARRAY)
@pytest.mark.parametrize("number", range(3))
def test_counts_that_no_bytes_follow_allocate_nothing(key: int, version: int, before: str, number: int) -> None:
    counts = COMPACT_COUNTS if APIS[key].is_flexible(version) else COUNTS
    payload = headed(key, version) + bytes.fromhex(before + counts[number])
    memory_of(payload)  # what is compiled, is compiled once
    assert memory_of(payload) < PLENTY
    with pytest.raises(ProtocolError, match="an array of"):
        decode_request(payload)


def test_elements_as_short_as_can_be_are_limited_in_number() -> None:
    """Each costs two bytes to send, and an object to keep."""
    count = REQUEST_ELEMENTS_MAX + 1
    payload = headed(ApiKey.METADATA, 4) + count.to_bytes(4, "big") + bytes(2 * count + 1)
    assert memory_of(payload) < PLENTY
    with pytest.raises(ProtocolError, match="more elements than a message may have"):
        decode_request(payload)


def test_arrays_of_arrays_are_limited_together() -> None:
    topics, partitions = 600, 600
    topic = b"\0\0" + partitions.to_bytes(4, "big") + bytes(4 * partitions)
    payload = headed(ApiKey.OFFSET_FETCH, 1) + b"\0\0" + topics.to_bytes(4, "big") + topic * topics
    with pytest.raises(ProtocolError, match="more elements than a message may have"):
        decode_request(payload)


@pytest.mark.parametrize("size", ["7fffffff", "80000000", "00000100"])
def test_records_that_are_longer_than_the_frame(size: str) -> None:
    produce = bytes.fromhex("ffff" + "ffff" + "00000000" + "00000001" + "000174" + "00000001" + "00000000" + size)
    payload = headed(ApiKey.PRODUCE, 8) + produce
    memory_of(payload)  # what is compiled, is compiled once
    assert memory_of(payload) < PLENTY


def test_many_unknown_tags_are_skipped_in_their_place() -> None:
    """They are legal. What is skipped is not kept."""
    tags = b"".join(
        bytes((tag & 0x7F | 0x80, tag >> 7 & 0x7F | 0x80, tag >> 14)) + b"\0"
        for tag in range(1 << 14, (1 << 14) + (1 << 12))
    )
    count = bytes.fromhex("8020")
    body = encoded(MetadataRequest(topics=()), 12)[:-1] + count + tags
    payload = headed(ApiKey.METADATA, 12) + body
    assert decode_request(payload)[1] == MetadataRequest(topics=())
    tracemalloc.start()
    try:
        decode_request(payload)
        assert tracemalloc.get_traced_memory()[1] < PLENTY
    finally:
        tracemalloc.stop()


def test_a_frame_that_was_only_announced_is_not_allocated() -> None:
    tracemalloc.start()
    try:
        reader = FrameReader(SOCKET_REQUEST_MAX_BYTES)
        reader.feed(SOCKET_REQUEST_MAX_BYTES.to_bytes(4, "big") + b"begin")
        assert tracemalloc.get_traced_memory()[1] < PLENTY
        assert reader.kept_bytes == 9
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", sorted(APIS))
def test_noise_is_read_or_refused_and_nothing_else(key: int) -> None:
    """Real requests with bytes changed, cut off and inserted."""
    api = APIS[key]
    random = Random(key)
    for _ in range(60):
        version = random.randint(*api.versions)
        data = bytearray(encoded(instance(api.request, version, random), version))
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(data) + 1)
            data[at : at + random.choice((0, 1, 1, 4))] = random.randbytes(random.choice((0, 1, 1, 2)))
        try:
            read = decoded(api.request, version, bytes(data))
        except ProtocolError:
            continue
        assert decoded(api.request, version, encoded(read, version)) == read
