"""Listeners: where a broker listens, what is spoken there, and what it tells clients to connect to.

    endpoints_in(text)      `NAME://HOST:PORT,…`; an empty host is every address of the machine
    protocols_in(text)      `NAME:PROTOCOL,…`: what is spoken at the listener of this name
    is_loopback(host)       whether only this machine reaches the host

Unless the map says otherwise, a listener's name is its protocol.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final

from attrs import frozen

_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(\[[^\]]*\]|[^:\[\]/,]*):([0-9]{1,5})", re.ASCII)
_PAIR = re.compile(r"([A-Za-z0-9_.-]+):([A-Za-z_]+)", re.ASCII)
PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
WITH_TLS: Final = frozenset({SSL, SASL_SSL})
WITH_LOGIN: Final = frozenset({SASL_PLAINTEXT, SASL_SSL})


@frozen
class Endpoint:
    """One listener. Port 0 is any free one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


@frozen
class Protocols:
    """What is spoken at the listener of each name."""

    pairs: tuple[tuple[str, str], ...]
    """Listener, protocol."""

    def __str__(self) -> str:
        return ",".join(map(":".join, self.pairs))

    def of(self, listener: str) -> str:
        """Raises ValueError for a name without a protocol."""
        by_name = dict(self.pairs)
        if listener not in by_name:
            raise ValueError(f"{listener} is not supported: it is none of {', '.join(by_name)}")
        return by_name[listener]


NAMES_ARE_PROTOCOLS: Final = Protocols(tuple((protocol, protocol) for protocol in PROTOCOLS))


def endpoints_in(text: str) -> tuple[Endpoint, ...]:
    """The listeners of a `listeners` or `advertised.listeners` line. Raises ValueError."""
    endpoints = tuple(endpoint_in(word.strip()) for word in text.split(",") if word.strip())
    if not endpoints:
        raise ValueError("there is no listener")
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"there are several listeners {name}")
    return endpoints


def endpoint_in(text: str) -> Endpoint:
    """One listener, of any protocol. Raises ValueError."""
    found = _LISTENER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not NAME://HOST:PORT")
    name, host, port = found[1].upper(), found[2].removeprefix("[").removesuffix("]"), int(found[3])
    if port > 65535:
        raise ValueError(f"{port} is no port")
    return Endpoint(name, host, port)


def protocols_in(text: str) -> Protocols:
    """The pairs of a `listener.security.protocol.map` line. Raises ValueError."""
    found: dict[str, str] = {}
    for word in text.split(","):
        pair = _PAIR.fullmatch(word.strip())
        if pair is None:
            raise ValueError(f"{word.strip()!r} is not NAME:PROTOCOL")
        name, protocol = pair[1].upper(), pair[2].upper()
        if protocol not in PROTOCOLS:
            raise ValueError(f"{protocol} is not supported, only {', '.join(PROTOCOLS)} are")
        if name in found:
            raise ValueError(f"there are several protocols of {name}")
        found[name] = protocol
    return Protocols(tuple(found.items()))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener at this host. A name other than `localhost` may be any address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
