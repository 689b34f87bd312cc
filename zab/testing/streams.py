"""A connection with a simulated member, as a stream of trio: what `zab.client.connect(dial=…)` opens."""

from __future__ import annotations

from collections.abc import Callable

import trio

from zab.quorum.ids import ServerId
from zab.simulator.ensemble.clients.external_clients import Connection, ExternalConnections, State


class SimulatedStream(trio.abc.Stream):
    """Made by `dial`. It has one reader at a time, as all streams of trio."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._news = trio.Event()
        self._is_closed = False
        self.connection: Connection

    def tell(self) -> None:
        """The world has news for this end."""
        self._ring()
        self._news.set()

    async def opened(self) -> None:
        """Returns when the member has it. Raises OSError."""
        while self.connection.state is State.OPENING:
            await self._wait()
        if self.connection.state is State.REFUSED:
            raise ConnectionRefusedError(f"nobody listens at member {self.connection.sid}")

    async def _wait(self) -> None:
        await self._news.wait()
        self._news = trio.Event()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self._check()
        if self.connection.state is not State.OPEN:
            raise trio.BrokenResourceError("the connection has ended")
        self.connection.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()
        self._check()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        self._check()
        inbox = self.connection.inbox
        while not inbox:
            if self.connection.state is State.ENDED:
                return b""
            await self._wait()
            self._check()
        data = inbox.popleft()
        if max_bytes is not None and len(data) > max_bytes:
            inbox.appendleft(data[max_bytes:])
            data = data[:max_bytes]
        return data

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.connection.close()
            self._news.set()
        await trio.lowlevel.checkpoint()

    def _check(self) -> None:
        if self._is_closed:
            raise trio.ClosedResourceError("this stream is closed")


async def dial(
    connections: ExternalConnections, number: int, sid: ServerId, ring: Callable[[], None]
) -> SimulatedStream:
    """Connect to a member, as the client with this number. Raises OSError."""
    stream = SimulatedStream(ring)
    stream.connection = connections.dial(number, sid, stream.tell)
    try:
        await stream.opened()
    except (OSError, trio.Cancelled):
        stream.connection.close()
        raise
    return stream
