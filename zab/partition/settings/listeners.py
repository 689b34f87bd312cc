"""Listeners: where a broker listens, and what it tells clients to connect to.

    endpoints_in(text)      `NAME://HOST:PORT,…`; an empty host is every address of the machine

A listener's name is also its protocol: PLAINTEXT.
"""

from __future__ import annotations

import re

from attrs import frozen

_LISTENER = re.compile(r"([A-Za-z0-9_]+)://(\[[^\]]*\]|[^:\[\]/,]*):([0-9]{1,5})", re.ASCII)
PLAINTEXT = "PLAINTEXT"
_PROTOCOLS = (PLAINTEXT,)


@frozen
class Endpoint:
    """One listener. Port 0 is any free one."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def endpoints_in(text: str) -> tuple[Endpoint, ...]:
    """The listeners of a `listeners` or `advertised.listeners` line. Raises ValueError."""
    endpoints = tuple(endpoint_in(word.strip()) for word in text.split(",") if word.strip())
    if not endpoints:
        raise ValueError("there is no listener")
    for endpoint in endpoints:
        if endpoint.name not in _PROTOCOLS:
            raise ValueError(f"{endpoint.name} is not supported, only {', '.join(_PROTOCOLS)} is")
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
