"""Published bytes: frames and bodies that an independent encoder has made."""

from __future__ import annotations

import pytest

from zab.kafka.api_key import ApiKey
from zab.kafka.codec import decoded, encoded
from zab.kafka.coordinator_records import (
    OffsetKey,
    OffsetValue,
    decode_consumer_offsets_key,
    decode_offset_value,
    encode_key,
    encode_value,
    java_hash,
    partition_for,
)
from zab.kafka.frames import decode_request, decode_response, request_frame, response_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchPartitionData,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from zab.kafka.messages.handshake import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from zab.kafka.primitives import Reader, write_uvarint
from zab.kafka.versions import api_versions_response

API_VERSIONS_REQUEST = bytes.fromhex("000000110012000300000001000163000278023100")
API_VERSIONS_RESPONSE = bytes.fromhex("0000001300000001000002001200000004000000000000")
FETCH_REQUEST = bytes.fromhex(
    "00000002000001f400000001001000000000000000ffffffff020274020000000000000003000000000000000f000000020000000000000000"
    "001000000000010100"
)
FETCH_RESPONSE = bytes.fromhex(
    "0000000000000000000002027402000000000000000000000000000a000000000000000a000000000000000000ffffffff0101000d00000001"
    "0000000000000014000000"
)


def test_a_request_for_versions() -> None:
    header, body = decode_request(API_VERSIONS_REQUEST[4:])
    assert header == RequestHeader(ApiKey.API_VERSIONS, 3, 1, "c")
    assert body == ApiVersionsRequest(client_software_name="x", client_software_version="1")
    assert request_frame(header, body) == API_VERSIONS_REQUEST


def test_a_response_with_versions_has_the_oldest_header() -> None:
    version, body = api_versions_response(3, [ApiKey.API_VERSIONS])
    assert version == 3
    assert body == ApiVersionsResponse(error_code=0, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=4),))
    assert response_frame(ApiKey.API_VERSIONS, version, 1, body) == API_VERSIONS_RESPONSE
    assert decode_response(ApiKey.API_VERSIONS, 3, API_VERSIONS_RESPONSE[4:]) == (1, body)


def test_a_fetch_of_a_follower() -> None:
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=3,
        fetch_offset=15,
        last_fetched_epoch=2,
        log_start_offset=0,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_id=2,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=(FetchTopic(topic="t", partitions=(partition,)),),
    )
    assert encoded(request, 12) == FETCH_REQUEST
    assert decoded(FetchRequest, 12, FETCH_REQUEST) == request


def test_the_answer_to_a_follower_that_has_diverged() -> None:
    partition = FetchPartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=10,
        last_stable_offset=10,
        log_start_offset=0,
        diverging_epoch=EpochEndOffset(epoch=1, end_offset=20),
        aborted_transactions=None,
        records=b"",
    )
    response = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(partition,)),))
    assert encoded(response, 12) == FETCH_RESPONSE
    assert decoded(FetchResponse, 12, FETCH_RESPONSE) == response


def test_the_record_of_an_offset() -> None:
    key, value = (
        bytes.fromhex("000100016700017400000000"),
        bytes.fromhex("0003000000000000002a0000000500026d640000018bcfe56800"),
    )
    offset = OffsetValue(offset=42, leader_epoch=5, metadata="md", commit_timestamp=1_700_000_000_000)
    assert encode_key(OffsetKey(group="g", topic="t", partition=0)) == key
    assert encode_value(offset) == value
    assert decode_consumer_offsets_key(key) == OffsetKey(group="g", topic="t", partition=0)
    assert decode_offset_value(value) == offset


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("", 0, 0),
        ("hello", 99162322, 22),
        ("my-group", -1906497762, 12),
        ("console-consumer-12345", 158455506, 6),
        ("txn-1", 110810510, 10),
        ("Gr\u00fc\u00dfe", 69215351, 1),
        ("\U0001f600", 1772899, 49),
        # Java's only text of this kind: its hash has no absolute value.
        ("polygenelubricants", -(1 << 31), 0),
    ],
)
def test_the_partition_of_a_coordinator(text: str, hashed: int, partition: int) -> None:
    assert java_hash(text) == hashed
    assert partition_for(text, 50) == partition


def test_an_unsigned_varint() -> None:
    out = bytearray()
    write_uvarint(out, 300)
    assert out.hex() == "ac02"
    assert Reader(bytes(out)).uvarint() == 300
