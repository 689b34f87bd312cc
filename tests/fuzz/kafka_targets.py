"""The decoders of Kafka's protocol as targets of the fuzzers (`targets`)."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.target import target
from tests.kafka.random_messages import instance
from tests.partition.access.scram_example import CLIENT_FINAL, CLIENT_FIRST, SERVER_FINAL, server
from zab.kafka.apis import APIS
from zab.kafka.codec import decoded, encoded
from zab.kafka.consumer_protocol import with_version
from zab.kafka.coordinator_records import GroupValue, OffsetKey, OffsetValue, TransactionValue
from zab.kafka.declare import LAYOUTS
from zab.kafka.frames import decode_request, decode_response, request_frame, response_frame
from zab.kafka.headers import RequestHeader
from zab.kafka.primitives import ProtocolError
from zab.partition.access.scram import HASHES, LoginError, credential_in, invented

VERSIONS = [
    (key, version) for key, api in sorted(APIS.items()) for version in range(api.versions[0], api.versions[1] + 1)
]
RECORDS = (OffsetKey, OffsetValue, GroupValue, TransactionValue)


def _kafka_requests() -> list[bytes]:
    random = Random(0)
    bodies = [(key, version, instance(APIS[key].request, version, random)) for key, version in VERSIONS]
    return [request_frame(RequestHeader(key, version, 1, "c"), body)[4:] for key, version, body in bodies]


def _kafka_responses() -> list[bytes]:
    random = Random(0)
    bodies = [(key, version, instance(APIS[key].response, version, random)) for key, version in VERSIONS]
    return [bytes([n]) + response_frame(*body[:2], 1, body[2])[4:] for n, body in enumerate(bodies[:256])]


def _unfailing(write: Callable[..., bytes], *arguments: object) -> bytes:
    """What was read can be written."""
    try:
        return write(*arguments)
    except ProtocolError as error:
        raise AssertionError(f"{arguments} cannot be written") from error


@target(_kafka_requests, ProtocolError)
def kafka_requests(data: bytes) -> None:
    header, body = decode_request(data)
    if body is not None:
        assert decode_request(_unfailing(request_frame, header, body)[4:]) == (header, body)


@target(_kafka_responses, ProtocolError)
def kafka_responses(data: bytes) -> None:
    """The first byte chooses the API and its version."""
    key, version = VERSIONS[data[0] % len(VERSIONS) if data else 0]
    found, body = decode_response(key, version, data[1:])
    assert decode_response(key, version, _unfailing(response_frame, key, version, found, body)[4:]) == (found, body)


def _kafka_records() -> list[bytes]:
    random = Random(0)
    return [
        bytes([n]) + with_version(instance(cls, version, random), version)
        for n, cls in enumerate(RECORDS)
        for version in range(LAYOUTS[cls].versions[1] + 1)
    ]


@target(_kafka_records, ProtocolError)
def kafka_records(data: bytes) -> None:
    """The first byte chooses the record."""
    cls = RECORDS[data[0] % len(RECORDS)] if data else OffsetKey
    version = int.from_bytes(data[1:3], "big", signed=True)
    found = decoded(cls, version, data[3:])
    assert decoded(cls, version, _unfailing(encoded, found, version)) == found


def _scram_messages() -> list[bytes]:
    return [f"{CLIENT_FIRST}\n{CLIENT_FINAL}".encode(), b"y,a=a=2Cb,n=a=2Cb=3D,r=x\nc=eSws,r=xserver,p=AAAA"]


@target(_scram_messages, LoginError)
def scram(data: bytes) -> None:
    """Two messages of a client: only those of the standard's example prove a password."""
    first, _, last = data.partition(b"\n")
    one = server()
    assert one.first(first).startswith(b"r=")
    assert one.final(last) == SERVER_FINAL.encode()


def _scram_credentials() -> list[bytes]:
    return [bytes([at]) + str(invented(each, b"secret", "user")).encode() for at, each in enumerate(HASHES)]


@target(_scram_credentials, ValueError)
def scram_credentials(data: bytes) -> None:
    """What is read from a znode is written alike. The first byte chooses the mechanism."""
    mechanism = [*HASHES][data[0] % len(HASHES)] if data else next(iter(HASHES))
    found = credential_in(mechanism, data[1:].decode())
    assert credential_in(mechanism, str(found)) == found
