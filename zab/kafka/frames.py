"""Requests and responses as frames: int32 size, then a header (`headers.py`) and a body (`messages`).

    decode_request(payload)                       header and body, on a server
    response_frame(key, version, id, body)        its answer
    request_frame(header, body)                   on a client
    decode_response(key, version, payload)        correlation id and body

The bytes of a connection are cut into payloads by `zab.wire.frames.FrameReader`, with `SOCKET_REQUEST_MAX_BYTES` as its
limit. A size that is negative or above the limit is refused before anything of the frame is kept; a frame of no bytes
has no header, so it is refused here.

A request that cannot be read, of a key that is not known or of a version that is not served ends its connection
(ProtocolError). Only ApiVersions answers versions that are not served, so its body is None then. Bytes after a body
are ignored; librdkafka 2.16 sends three after one kind of Metadata request.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from zab.kafka.api_key import ApiKey
from zab.kafka.apis import api_of
from zab.kafka.codec import decode, encode
from zab.kafka.fetch_request_path import decode_fetch_request
from zab.kafka.fetch_response_path import decode_fetch_response
from zab.kafka.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    write_request_header,
    write_response_header,
)
from zab.kafka.primitives import ProtocolError, Reader
from zab.kafka.produce_path import decode_produce_request, encode_produce_response
from zab.kafka.versions import VERSIONS

SOCKET_REQUEST_MAX_BYTES: Final = 104_857_600
"""The default limit for one request, Kafka's socket.request.max.bytes."""

REQUEST_ELEMENTS_MAX: Final = 1 << 18
"""The limit for the elements of all arrays of one request: as objects, 30 MB; 100 MB of the shortest would be 3 GB. A
follower that fetches 100,000 partitions at once stays below."""

_SIZE: Final = Struct(">i")

_REQUEST_PATHS: Final[dict[int, Callable[[int, Reader], Any]]] = {
    ApiKey.PRODUCE: decode_produce_request,
    ApiKey.FETCH: decode_fetch_request,
}
"""The requests of the data path, which are read faster."""


def decode_request(payload: bytes) -> tuple[RequestHeader, Any]:
    """The header of a request, and its body: an instance of the class of its key (`APIS`), or None for ApiVersions of a
    version that is not served. Raises ProtocolError."""
    reader = Reader(payload, elements_max=REQUEST_ELEMENTS_MAX)
    header = read_request_header(reader)
    key, version = header.api_key, header.api_version
    if not VERSIONS[key].serves(version):
        if key == ApiKey.API_VERSIONS:
            return header, None
        raise ProtocolError(f"version {version} of {ApiKey(key).name} is not served")
    path = _REQUEST_PATHS.get(key)
    return header, decode(api_of(key).request, version, reader) if path is None else path(version, reader)


def response_frame(api_key: int, api_version: int, correlation_id: int, body: Any) -> bytes:
    """A whole frame, with its size. A response to Fetch whose records are in files is made by `fetch_response_pieces`.
    Raises ProtocolError if `body` cannot be expressed in this version."""
    out = bytearray(_SIZE.size)
    write_response_header(out, api_key, api_version, correlation_id)
    if api_key == ApiKey.PRODUCE:
        encode_produce_response(body, api_version, out)
    else:
        encode(body, api_version, out)
    return _sized(out)


def request_frame(header: RequestHeader, body: object) -> bytes:
    """A whole frame, with its size. Raises ProtocolError if `body` cannot be expressed in this version."""
    out = bytearray(_SIZE.size)
    write_request_header(out, header)
    encode(body, header.api_version, out)
    return _sized(out)


def decode_response(api_key: int, api_version: int, payload: bytes) -> tuple[int, Any]:
    """The correlation id of a response, and its body. Raises ProtocolError."""
    reader = Reader(payload)
    correlation_id = read_response_header(reader, api_key, api_version)
    if api_key == ApiKey.FETCH:
        return correlation_id, decode_fetch_response(api_version, reader)
    return correlation_id, decode(api_of(api_key).response, api_version, reader)


def _sized(out: bytearray) -> bytes:
    _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
    return bytes(out)
