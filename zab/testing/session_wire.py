"""The connection of a broker with its ensemble, which ends without a word when the broker is killed.

A client that ends closes its session. A killed process does not: its session lives until it expires, and only then do
others take over. So from `cut` on, nothing that the client sends arrives, and it can open no new connection.
"""

from __future__ import annotations

import trio

from zab.client.core.hosts import Host


class SessionWire:
    """For one life of a broker: `dial` is what its client opens connections with."""

    def __init__(self) -> None:
        self.is_cut = False

    def cut(self) -> None:
        """Nothing arrives any more. Called from any thread."""
        self.is_cut = True

    async def dial(self, host: Host) -> trio.abc.Stream:
        """Raises OSError."""
        if self.is_cut:
            raise ConnectionRefusedError(f"no way to {host}: the broker is killed")
        return _Stream(self, await trio.open_tcp_stream(host.name, host.port))


class _Stream(trio.abc.Stream):
    def __init__(self, wire: SessionWire, inner: trio.SocketStream) -> None:
        self._wire = wire
        self._inner = inner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._check()
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        self._check()
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        self._check()
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _check(self) -> None:
        if self._wire.is_cut:
            raise trio.BrokenResourceError("the broker is killed")
