"""Requests and responses as frames: headers of every kind, bytes in any pieces, and what ends a connection."""

from __future__ import annotations

from random import Random
from time import process_time

import pytest

from tests.kafka.random_messages import instance
from zab.kafka.api_key import ApiKey
from zab.kafka.apis import APIS
from zab.kafka.codec import encoded
from zab.kafka.frames import (
    SOCKET_REQUEST_MAX_BYTES,
    decode_request,
    decode_response,
    request_frame,
    response_frame,
)
from zab.kafka.headers import (
    RequestHeader,
    read_request_header,
    request_header_version,
    response_header_version,
    write_request_header,
)
from zab.kafka.messages.group_admin import DeleteGroupsRequest
from zab.kafka.messages.handshake import ApiVersionsRequest
from zab.kafka.messages.metadata import MetadataRequest
from zab.kafka.primitives import ProtocolError, Reader
from zab.kafka.versions import VERSIONS
from zab.wire.frames import FrameError, FrameReader

METADATA = MetadataRequest(topics=None)


def headed(header: str, body: bytes = b"") -> bytes:
    return bytes.fromhex(header) + body


def test_headers_of_requests() -> None:
    """The length of a client's id is not compact, even in a flexible version."""
    body = encoded(METADATA, 8)
    assert request_frame(RequestHeader(3, 8, 7, "me"), METADATA)[4:] == headed("00030008000000070002" + "6d65", body)
    assert request_frame(RequestHeader(3, 8, 7, None), METADATA)[4:] == headed("0003000800000007ffff", body)
    body = encoded(METADATA, 9)
    assert request_frame(RequestHeader(3, 9, 7, "me"), METADATA)[4:] == headed("000300090000000700026d6500", body)


def test_the_oldest_header() -> None:
    """Only ControlledShutdown 0 has it, which is read no further."""
    out = bytearray()
    header = RequestHeader(ApiKey.CONTROLLED_SHUTDOWN, 0, 5, None)
    write_request_header(out, header)
    assert out.hex() == "0007000000000005"
    assert read_request_header(Reader(bytes(out))) == header
    with pytest.raises(ProtocolError, match="version 0 of CONTROLLED_SHUTDOWN is not served"):
        decode_request(bytes(out))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header, body = decode_request(headed("0003000900000007ffff" + "02" + "0001ff" + "050100", encoded(METADATA, 9)))
    assert (header, body) == (RequestHeader(3, 9, 7, None), METADATA)
    with pytest.raises(ProtocolError, match="tag 0 after tag 0"):
        decode_request(headed("0003000900000007ffff" + "02" + "0001ff" + "000100", encoded(METADATA, 9)))


def test_headers_of_responses() -> None:
    versions = {
        (ApiKey.METADATA, 8): 0,
        (ApiKey.METADATA, 9): 1,
        (ApiKey.SASL_HANDSHAKE, 1): 0,
        (ApiKey.API_VERSIONS, 0): 0,
        (ApiKey.API_VERSIONS, 3): 0,
        (ApiKey.API_VERSIONS, 4): 0,
    }
    assert {case: response_header_version(*case) for case in versions} == versions
    assert request_header_version(ApiKey.API_VERSIONS, 3) == 2


@pytest.mark.parametrize("key", sorted(APIS))
def test_what_is_asked_and_answered_comes_back(key: int) -> None:
    api = APIS[key]
    random = Random(key)
    for version in range(api.versions[0], api.versions[1] + 1):
        request, response = (instance(cls, version, random) for cls in (api.request, api.response))
        header = RequestHeader(key, version, random.randrange(1 << 31), random.choice((None, "", "client")))
        asked = request_frame(header, request)
        assert decode_request(asked[4:]) == (header, request)
        answered = response_frame(key, version, header.correlation_id, response)
        assert decode_response(key, version, answered[4:]) == (header.correlation_id, response)
        for frame in (asked, answered):
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4


def test_bytes_after_a_request_are_ignored() -> None:
    frame = request_frame(RequestHeader(3, 12, 7, None), METADATA)
    assert decode_request(frame[4:] + b"rest")[1] == METADATA


@pytest.mark.parametrize("at_once", [1, 2, 3, 5, 4096])
def test_frames_come_in_any_pieces(at_once: int) -> None:
    random = Random(1)
    frames = [
        request_frame(RequestHeader(key, api.versions[1], key, "c"), instance(api.request, api.versions[1], random))
        for key, api in APIS.items()
    ]
    data = b"".join(frames)
    reader = FrameReader(SOCKET_REQUEST_MAX_BYTES)
    found = [frame for at in range(0, len(data), at_once) for frame in reader.feed(data[at : at + at_once])]
    assert found == [frame[4:] for frame in frames]
    assert [decode_request(frame)[0].api_key for frame in found] == list(APIS)


@pytest.mark.parametrize("size", [-1, -(1 << 31), SOCKET_REQUEST_MAX_BYTES + 1, (1 << 31) - 1])
def test_a_size_out_of_bounds_is_refused_before_anything_is_kept(size: int) -> None:
    reader = FrameReader(SOCKET_REQUEST_MAX_BYTES)
    with pytest.raises(FrameError):
        reader.feed(size.to_bytes(4, "big", signed=True))
    assert reader.kept_bytes == 0


def test_a_large_frame_is_gathered_in_time_that_grows_with_its_size() -> None:
    """16 MB in pieces of 1 KB: joined each time, they would be copied 8,000 times, which takes half a minute."""
    began = process_time()
    reader = FrameReader(SOCKET_REQUEST_MAX_BYTES)
    size = 1 << 24
    assert reader.feed(size.to_bytes(4, "big")) == []
    piece = bytes(1024)
    found = [frame for _ in range(size // len(piece)) for frame in reader.feed(piece)]
    assert [len(frame) for frame in found] == [size]
    assert reader.kept_bytes == 0
    assert process_time() - began < 5


# ---------------------------------------------------------------------------------------------- what ends a connection


def test_a_frame_without_a_header() -> None:
    (empty,) = FrameReader(SOCKET_REQUEST_MAX_BYTES).feed(bytes(4))
    for payload in (empty, bytes(7)):
        with pytest.raises(ProtocolError, match="a field of 8 bytes, but"):
            decode_request(payload)


@pytest.mark.parametrize("key", [-1, 34, 70, 1000])
def test_a_key_that_is_not_known(key: int) -> None:
    with pytest.raises(ProtocolError, match=f"API key {key} is not known"):
        decode_request(key.to_bytes(2, "big", signed=True) + bytes(20))


@pytest.mark.parametrize("key", sorted(APIS.keys() - {ApiKey.API_VERSIONS}))
def test_a_version_that_is_not_served(key: int) -> None:
    lowest, highest = VERSIONS[key].served
    for version in (-1, lowest - 1, highest + 1):
        header = bytearray()
        write_request_header(header, RequestHeader(key, version, 1, None))
        with pytest.raises(ProtocolError, match=f"version {version} of {ApiKey(key).name} is not served"):
            decode_request(bytes(header) + bytes(50))


@pytest.mark.parametrize("version", [-1, 5, 6, 32767])
def test_only_a_request_for_versions_may_have_a_version_that_is_not_served(version: int) -> None:
    """Its body is not looked at: who knows what is in it."""
    header = bytearray()
    write_request_header(header, RequestHeader(ApiKey.API_VERSIONS, version, 9, "c"))
    found, body = decode_request(bytes(header) + b"\xff" * 9)
    assert (found.correlation_id, found.client_id, body) == (9, "c", None)


def test_a_body_that_breaks_off() -> None:
    frame = request_frame(RequestHeader(ApiKey.DELETE_GROUPS, 0, 1, None), DeleteGroupsRequest(groups_names=("group",)))
    with pytest.raises(
        ProtocolError, match="DeleteGroupsRequest v0: groups_names: a string of 5 bytes, but 4 are left"
    ):
        decode_request(frame[4:-1])


def test_a_client_id_that_is_not_utf_8() -> None:
    with pytest.raises(ProtocolError, match="not UTF-8"):
        decode_request(headed("00120000" + "00000001" + "0001ff"))


def test_a_client_id_that_is_too_long() -> None:
    request = ApiVersionsRequest(client_software_name="", client_software_version="")
    with pytest.raises(ProtocolError, match="a string of 32768 bytes"):
        request_frame(RequestHeader(ApiKey.API_VERSIONS, 0, 1, "x" * 32768), request)
