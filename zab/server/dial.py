"""Connections to other members, and how far they reach.

A member that does not make the others prove who they are believes whoever reaches its ports. So it dials, and listens,
within its own machine only, unless its operator says that nobody else can reach them (`quorum.insecure`). A name is of
this machine if all its addresses are; it is asked for at each dial, and the connection goes to what was answered.

Not here: what is proven, and how (`zab.wire.handshake`); when to dial.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable
from ipaddress import ip_address
from typing import Protocol

import attrs
import trio


@attrs.frozen
class Address:
    """Where a server listens. The host may be a name."""

    host: str
    port: int


class Dial(Protocol):
    """How a server connects to another one: `dial`, or what a test puts in its place."""

    def __call__(self, address: Address, *, is_local_only: bool) -> Awaitable[trio.SocketStream]: ...


class BeyondThisMachineError(OSError):
    """An address is of another machine, and nobody would prove anything."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is not this machine alone, and its members do not have to prove who they are")


async def dial(address: Address, *, is_local_only: bool) -> trio.SocketStream:
    """Connect. Raises OSError."""
    if not is_local_only:
        return await trio.open_tcp_stream(address.host, address.port)
    error: OSError = OSError(f"{address.host} has no address")
    for host in await local_addresses(address.host):
        try:
            return await trio.open_tcp_stream(host, address.port)
        except OSError as failure:
            error = failure
    raise error


async def local_addresses(host: str) -> list[str]:
    """The addresses of a host, all of this machine. Raises BeyondThisMachineError, and OSError if there are none."""
    found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
    if not all(ip_address(each.partition("%")[0]).is_loopback for each in addresses):
        raise BeyondThisMachineError(host)
    return addresses


async def numeric(host: str, port: int) -> str:
    """The address to listen on; empty, or of all addresses: as it is. Raises OSError."""
    if not host or host in ("0.0.0.0", "::"):
        return host
    [first, *_others] = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return str(first[4][0])
