"""Dials other members, if allowed only on this machine.

A member without authentication trusts every process that reaches its ports. So it dials, and listens, only within its
own machine, unless its operator declares that nobody else can reach the ports (`quorum.insecure`). A name belongs to
this machine if all its addresses do; it is resolved at each dial, and the connection goes to the resolved address.

A server may have several addresses on different networks. They are tried in order: the next one is tried when those
before it have refused, or have not answered for a while. The first address at which the server proves its identity
wins: an accepted connection is not enough, since a relay in front of a dead server accepts, too.

Not here: the proof (`zab.wire.handshake`); when to dial.
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
    """The address of a server. The host may be a name. `others`: further addresses of it, to be tried after this
    one."""

    host: str
    port: int
    others: tuple[Address, ...] = ()

    @property
    def text(self) -> str:
        """The first address as text."""
        return f"{bracketed(self.host)}:{self.port}"


def address_of(places: Sequence[tuple[str, int]]) -> Address:
    """The address of a server that listens at all of these hosts and ports."""
    [(host, port), *others] = places
    return Address(host, port, tuple([Address(*other) for other in others]))


class Dial(Protocol):
    """The type of `dial`, which tests may replace."""

    def __call__(self, address: Address, *, is_local_only: bool) -> Awaitable[trio.SocketStream]: ...


class BeyondThisMachineError(OSError):
    """An address belongs to another machine, and there is no authentication."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host} is not this machine alone, and its members do not have to prove who they are")


async def dial(address: Address, *, is_local_only: bool) -> trio.SocketStream:
    """Connect to an address. Raises OSError."""
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
    """The result of `connect` at the first of the addresses that succeeds; `close` is called with late results. Raises
    one of `FAILURES`: that of the first address."""
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
    """The addresses of a host, if all belong to this machine. Raises BeyondThisMachineError, and OSError if there are
    none."""
    found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
    if not all(ip_address(each.partition("%")[0]).is_loopback for each in addresses):
        raise BeyondThisMachineError(host)
    return addresses


async def numeric(host: str, port: int) -> str:
    """The numeric address to listen on; an empty host, or one for all addresses, stays as it is. Raises OSError."""
    if not host or host in ("0.0.0.0", "::"):
        return host
    [first, *_others] = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return str(first[4][0])
