"""TLS in front of a server that speaks none, on a loopback port of its own.

    with tls_proxy(certificates.member("localhost"), target) as port: ...

It runs in a thread with a loop of its own, so that commands that run one in this thread can be its clients.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import trio

from tests.rigs.certificates import server_context

START_SECONDS = 60


@contextlib.contextmanager
def tls_proxy(member: Path, target: int, *, wants_clients: bool = True) -> Iterator[int]:
    """Its port. `member`: the directory of its key and certificate; `target`: the port of the server behind it."""
    started: queue.Queue[tuple[int, trio.CancelScope, trio.lowlevel.TrioToken]] = queue.Queue()

    async def forward(source: trio.abc.Stream, sink: trio.abc.Stream, scope: trio.CancelScope) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some():
                await sink.send_all(data)
        scope.cancel()

    async def serve(client: trio.abc.Stream) -> None:
        # A cancelled close closes, and raises: each has its own block.
        async with client, await trio.open_tcp_stream("127.0.0.1", target) as server:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(forward, client, server, nursery.cancel_scope)
                nursery.start_soon(forward, server, client, nursery.cancel_scope)
            # A client that breaks off is not waited for.
            await trio.aclose_forcefully(client)

    async def main() -> None:
        with trio.CancelScope() as scope:
            context = server_context(member, wants_clients=wants_clients)
            listeners = await trio.open_ssl_over_tcp_listeners(0, context, host="127.0.0.1")
            port = int(listeners[0].transport_listener.socket.getsockname()[1])
            started.put((port, scope, trio.lowlevel.current_trio_token()))
            await trio.serve_listeners(serve, listeners)

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    port, scope, token = started.get(timeout=START_SECONDS)
    try:
        yield port
    finally:
        token.run_sync_soon(scope.cancel)
        thread.join(START_SECONDS)
