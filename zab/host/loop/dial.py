"""Connections to other members, and how far they reach.

A member that does not make the others prove who they are believes whoever reaches its ports. So it dials, and listens,
within its own machine only, unless its operator says that nobody else can reach them (`quorum.insecure`). A name is of
this machine if all its addresses are; it is asked for at each dial, and the connection goes to what was answered.

A server may have several addresses, on as many networks. They are tried in their order, the next one beside those
before it when these have refused, or have not answered for a while; the first
at which the server has proven who it is, is the one: that something takes the connection, as a relay before a dead
server does, is no answer.

Not here: what is proven, and how (`zab.wire.handshake`); when to dial.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Protocol, TypeVar

import attrs
import trio

from zab.configuration.dynamic import bracketed
from zab.host.loop.conversation import FAILURES

S = TypeVar("S")


@attrs.frozen
class Address:
    """Where a server listens. The host may be a name. `others`: where it listens besides, to be tried after this."""

    host: str
    port: int
    others: tuple[Address, ...] = ()

    @property
    def text(self) -> str:
        """The first of them."""
        return f"{bracketed(self.host)}:{self.port}"


def address_of(places: Sequence[tuple[str, int]]) -> Address:
    """Of a server that listens at all of these, hosts and ports."""
    [(host, port), *others] = places
    return Address(host, port, tuple([Address(*other) for other in others]))


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


async def first_of(
    address: Address, connect: Callable[[Address], Awaitable[S]], next_after_seconds: float, close: Callable[[S], None]
) -> S:
    """What `connect` opens at the address, or at one of the others of it, whichever is there first; `close` what nobody
    wants any more. Raises one of `FAILURES`: that of the address itself."""
    if not address.others:
        return await connect(address)
    opened: list[S] = []
    errors: dict[Address, Exception] = {}

    async def attempt(one: Address, is_over: trio.Event) -> None:
        try:
            opened.append(await connect(one))
            nursery.cancel_scope.cancel()
        except FAILURES as error:
            errors[one] = error
        is_over.set()

    with contextlib.ExitStack() as undo:

        @undo.callback
        def close_all() -> None:
            for each in opened:
                close(each)

        async with trio.open_nursery() as nursery:
            for one in (address, *address.others):
                is_over = trio.Event()
                nursery.start_soon(attempt, one, is_over)
                with trio.move_on_after(next_after_seconds):
                    await is_over.wait()
        if not opened:
            raise errors[address]
        undo.pop_all()
    for late in opened[1:]:
        close(late)
    return opened[0]


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
