"""Servers of three that prove who they are, and transfers of snapshots on a port of their own."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import trio

from tests.host.loop.far_server import SECRET
from zab.host.loop.conversation import meet
from zab.host.loop.dial import Address
from zab.host.loop.greeting import Greeting
from zab.host.loop.listener import open_listener
from zab.member.membership.greeting import PURPOSES, party
from zab.server.snapshot_transfer import TransferServer
from zab.wire.handshake import Party


def greeting(sid: int, me: Party | None = None, others: Collection[int] = (1, 2, 3)) -> Greeting:
    """The greeting of one of servers 1 to 3, real or pretended. It hands nothing over."""
    me = me or party(sid, [SECRET], is_open=False)
    return Greeting(PURPOSES, lambda: [other for other in others if other != sid], lambda: me, lambda *_: None)  # type: ignore[arg-type]


@asynccontextmanager
async def served_by(
    transfers: TransferServer,
    sid: int = 1,
    before: Callable[[trio.SocketStream], Awaitable[bool | None]] | None = None,
) -> AsyncIterator[Address]:
    """Where a server serves its snapshots; `before` may do something with a connection first, and keep it."""
    listening = open_listener("127.0.0.1", 0)

    async def handle(stream: trio.SocketStream) -> None:
        if before is not None and await before(stream):
            return
        try:
            talk = await meet(stream, greeting(sid).listening(None))
        except EOFError:
            return
        sock = socket.socket(fileno=stream.socket.detach())
        await transfers.serve(sock, None, talk.agreed, talk._fed)

    async with trio.open_nursery() as nursery:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield Address("127.0.0.1", listening.getsockname()[1])
        nursery.cancel_scope.cancel()
