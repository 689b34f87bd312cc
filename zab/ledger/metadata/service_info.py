"""What a bookie registers: where it is reached, and properties.

It is the data of the ephemerals `available/<bookie>` and `available/readonly/<bookie>`. Bookies of old versions
register no data: their name is their address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.ledger_metadata import InvalidMetadataError
from zab.ledger.metadata.text_format import parse_binary, string_of
from zab.ledger.wire.protobuf import message_classes

BOOKIE_ID: Final = "bookie"
BOOKIE_PROTOCOL: Final = "bookie-rpc"
TLS: Final = "tls"
"""The extension of an endpoint that answers StartTls."""

_PORT_MAX: Final = 65535

_FORMAT: Final = message_classes(
    "serviceinfo",
    {
        "BookieServiceInfoFormat": ["endpoints 6 Endpoint rep", "properties 7 Property rep"],
        "Endpoint": [
            *("id 1 bytes", "port 2 int32", "host 3 bytes", "protocol 4 bytes", "auth 5 bytes rep"),
            "extensions 6 bytes rep",
        ],
        "Property": ["key 1 bytes opt", "value 2 bytes opt"],
    },
)["BookieServiceInfoFormat"]


@attrs.frozen
class Endpoint:
    """One port of a bookie."""

    id: str
    port: int
    host: str
    protocol: str
    auth: tuple[str, ...] = ()
    """The plugins of logins."""
    extensions: tuple[str, ...] = ()


@attrs.frozen
class ServiceInfo:
    """What a bookie registers."""

    endpoints: tuple[Endpoint, ...]
    properties: Mapping[str, str] = attrs.field(factory=dict, hash=False)

    @property
    def bookie_endpoint(self) -> Endpoint | None:
        """The endpoint that clients of ledgers use; without one, a bookie is registered and cannot be used."""
        return next((each for each in self.endpoints if each.protocol == BOOKIE_PROTOCOL), None)


def bookie_endpoint(host: str, port: int, has_tls: bool = False) -> Endpoint:
    """The endpoint that a bookie registers for clients of ledgers."""
    return Endpoint(BOOKIE_ID, port, host, BOOKIE_PROTOCOL, extensions=(TLS,) if has_tls else ())


def encode_service_info(info: ServiceInfo) -> bytes:
    """The data of the ephemeral."""
    message = _FORMAT()
    for each in info.endpoints:
        message.endpoints.add(
            id=each.id.encode(),
            port=each.port,
            host=each.host.encode(),
            protocol=each.protocol.encode(),
            auth=[name.encode() for name in each.auth],
            extensions=[name.encode() for name in each.extensions],
        )
    for key, value in info.properties.items():
        message.properties.add(key=key.encode(), value=value.encode())
    data: bytes = message.SerializeToString()
    return data


def decode_service_info(bookie: BookieId, data: bytes) -> ServiceInfo:
    """What the bookie of this name has registered. Raises InvalidMetadataError."""
    if not data:
        return ServiceInfo((_named_endpoint(bookie),))
    message = parse_binary(_FORMAT, data)
    endpoints = tuple(
        Endpoint(
            string_of(each.id, "id of an endpoint"),
            _port(each.port),
            string_of(each.host, "host of an endpoint"),
            string_of(each.protocol, "protocol of an endpoint"),
            tuple(string_of(name, "login of an endpoint") for name in each.auth),
            tuple(string_of(name, "extension of an endpoint") for name in each.extensions),
        )
        for each in message.endpoints
    )
    properties = {
        string_of(each.key, "name of a property"): string_of(each.value, "property") for each in message.properties
    }
    return ServiceInfo(endpoints, properties)


def _named_endpoint(bookie: BookieId) -> Endpoint:
    host, _, port = bookie.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5:
        raise InvalidMetadataError(f"bookie {bookie} has registered no address, and its name is none")
    return bookie_endpoint(host, _port(int(port)))


def _port(port: int) -> int:
    if not 0 <= port <= _PORT_MAX:
        raise InvalidMetadataError(f"an endpoint with port {port}")
    return port
