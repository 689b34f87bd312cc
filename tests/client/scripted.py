"""A server of the client protocol that does what a test tells it, over memory streams; time is the test's clock.

    server = ScriptedServers(nursery, script)       # `script(peer)` runs once per connection
    async with connect(HOSTS, dial=server.dial) as zk: ...

A `Peer` is the server's end: it reads the greeting and the requests, and sends whatever bytes the script wants.
"""

from collections.abc import Awaitable, Callable

import trio
import trio.testing

from datatree.opcodes import OpCode
from zab.client.core.hosts import Host
from zab.jute.handshake import ConnectRequest, ConnectResponse
from zab.jute.replies import reply
from zab.wire.frames import frame

PASSWORD = b"p" * 16
SESSION = 0x77


class Peer:
    """The server's end of one connection. `receive` raises ConnectionEndedError when the client left."""

    def __init__(self, stream: trio.abc.Stream, host: Host) -> None:
        self.stream = stream
        self.host = host
        self.greeting: ConnectRequest | None = None
        self._data = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def frame(self) -> bytes:
        while len(self._data) < 4 or len(self._data) < 4 + int.from_bytes(self._data[:4], "big"):
            data = await self.stream.receive_some()
            if not data:
                raise ConnectionEndedError
            self._data += bytes(data)
        end = 4 + int.from_bytes(self._data[:4], "big")
        payload, self._data = self._data[4:end], self._data[end:]
        return payload

    async def welcome(self, timeout_ms: int = 9000, *, read_only: bool = False) -> ConnectRequest:
        """Reads the greeting and takes the session."""
        self.greeting = ConnectRequest.decode(await self.frame())
        await self.send(frame(ConnectResponse(timeout_ms, SESSION, PASSWORD, read_only).encode()))
        return self.greeting

    async def expire(self) -> None:
        """Reads the greeting and answers that there is no such session."""
        self.greeting = ConnectRequest.decode(await self.frame())
        await self.send(frame(ConnectResponse.invalid().encode()))

    async def request(self) -> tuple[int, int, bytes]:
        """The next request that is no ping (those are answered): xid, opcode, body."""
        while True:
            payload = await self.frame()
            xid, opcode = (int.from_bytes(payload[at : at + 4], "big", signed=True) for at in (0, 4))
            if opcode != OpCode.PING:
                return xid, opcode, payload[8:]
            await self.send(reply(xid, 1))

    async def serve(self, answer: Callable[[int, int, bytes], bytes | None] | None = None) -> None:
        """Answers with `answer(xid, opcode, body)`, with an empty success where that is None, until it leaves."""
        while True:
            xid, opcode, body = await self.request()
            sent = answer(xid, opcode, body) if answer is not None else None
            await self.send(reply(xid, 1) if sent is None else sent)
            if opcode == OpCode.CLOSE_SESSION:
                return


class ConnectionEndedError(Exception):
    """The client closed the connection."""


class ScriptedServers:
    """`dial` for `connect`; every connection runs `script`. Hosts in `down` refuse. `peers` are all so far."""

    def __init__(self, nursery: trio.Nursery, script: Callable[[Peer], Awaitable[None]]) -> None:
        self.peers: list[Peer] = []
        self.dialed: list[tuple[float, Host]] = []
        self.down: set[str] = set()
        self._nursery = nursery
        self._script = script

    async def dial(self, host: Host) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.dialed.append((trio.current_time(), host))
        if host.name in self.down:
            raise ConnectionRefusedError("connection refused")
        ours, theirs = trio.testing.memory_stream_pair()
        peer = Peer(theirs, host)
        self.peers.append(peer)
        self._nursery.start_soon(self._run, peer)
        return ours

    async def _run(self, peer: Peer) -> None:
        async with peer.stream:
            try:
                await self._script(peer)
            except (ConnectionEndedError, trio.BrokenResourceError):
                return
