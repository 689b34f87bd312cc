"""What every request and response begins with.

| header | fields | used by |
|---|---|---|
| request 0 | api_key int16, api_version int16, correlation_id int32 | ControlledShutdown 0 |
| request 1 | those, client_id nullable string | versions that are not flexible |
| request 2 | those, tagged fields; client_id keeps its int16 length | flexible versions |
| response 0 | correlation_id int32 | versions that are not flexible, and every version of ApiVersions |
| response 1 | that, tagged fields | flexible versions |

A client sends ApiVersions before it knows what the server speaks: in a version that the server may not have, and it
has to understand the answer. So the request's header is read even then, and the response has the oldest header.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

import attrs

from zab.kafka.api_key import ApiKey
from zab.kafka.apis import api_of
from zab.kafka.primitives import Reader, write_nullable_string

_FIXED: Final = Struct(">hhi")
_CORRELATION_ID: Final = Struct(">i")


@attrs.frozen
class RequestHeader:
    """`correlation_id` is the client's, and comes back in the response. `client_id` is a name that it chose."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, api_version: int) -> int:
    """0, 1 or 2. Raises ProtocolError for a key that is not known."""
    api = api_of(api_key)
    if api_key == ApiKey.CONTROLLED_SHUTDOWN and api_version == 0:
        return 0
    return 2 if api.is_flexible(api_version) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0 or 1. Raises ProtocolError for a key that is not known."""
    flexible = request_header_version(api_key, api_version) == 2
    return int(flexible and api_key != ApiKey.API_VERSIONS)


def read_request_header(reader: Reader) -> RequestHeader:
    """Raises ProtocolError, also for a key that is not known. The version may be one that nobody has."""
    at = reader.at
    reader.skip(_FIXED.size)
    api_key, api_version, correlation_id = _FIXED.unpack_from(reader.data, at)
    version = request_header_version(api_key, api_version)
    client_id = reader.nullable_string() if version else None
    if version == 2:
        skip_tagged_fields(reader)
    return RequestHeader(api_key, api_version, correlation_id, client_id)


def write_request_header(out: bytearray, header: RequestHeader) -> None:
    """Raises ProtocolError for a key that is not known, or a client id that is too long."""
    version = request_header_version(header.api_key, header.api_version)
    out += _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    if version:
        write_nullable_string(out, header.client_id)
    if version == 2:
        out.append(0)


def read_response_header(reader: Reader, api_key: int, api_version: int) -> int:
    """The correlation id. Raises ProtocolError."""
    correlation_id = reader.int32()
    if response_header_version(api_key, api_version):
        skip_tagged_fields(reader)
    return correlation_id


def write_response_header(out: bytearray, api_key: int, api_version: int, correlation_id: int) -> None:
    out += _CORRELATION_ID.pack(correlation_id)
    if response_header_version(api_key, api_version):
        out.append(0)


def skip_tagged_fields(reader: Reader) -> None:
    """Tags ascend strictly. Raises ProtocolError."""
    last = -1
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        if tag <= last:
            raise reader.error(f"tag {tag} after tag {last}")
        last = tag
        reader.skip(reader.uvarint())
