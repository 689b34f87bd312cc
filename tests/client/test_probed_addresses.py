"""A name that stands for two addresses at first, a server without a quorum and one that is gone, and later for a server
that takes writes: a client that is with the first one asks who is there by then."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from datatree.opcodes import OpCode
from tests.client.resolving import SystemResolver
from zab.client import State, aio, connect, sync
from zab.jute.handshake import ConnectResponse
from zab.wire.frames import frame

READ_ONLY, WRITABLE, DEAD = "127.0.0.2", "127.0.0.3", "127.0.0.4"
NAME = "moving.invalid"
_PING = int(OpCode.PING).to_bytes(4, "big")


class FakeServer:
    """Takes every session, answers `isro`, and nothing else."""

    def __init__(self, address: str, port: int) -> None:
        self.is_read_only = address == READ_ONLY
        self.listening = socket.socket()
        self.listening.bind((address, port))
        self.listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self.listening.getsockname()[1]
        return port

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock:
            if sock.recv(4096) == b"isro":
                sock.sendall(b"ro" if self.is_read_only else b"rw")
                return
            sock.sendall(frame(ConnectResponse(60_000, 5, bytes(16), self.is_read_only, True).encode()))
            while sock.recv(4096)[8:12] == _PING:
                pass


@pytest.fixture
def hosts(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name is resolved to the first addresses once, then to the other one."""
    first = FakeServer(READ_ONLY, 0)
    second = FakeServer(WRITABLE, first.port)
    real, stands_for = socket.getaddrinfo, [READ_ONLY, DEAD]

    def getaddrinfo(host: Any, port: Any, *given: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return real(host, port, *given, **options)
        addresses = [*stands_for]
        stands_for[:] = [WRITABLE]
        return [found for address in addresses for found in real(address, port, *given, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    yield f"{NAME}:{first.port}"
    for server in (first, second):
        server.listening.shutdown(socket.SHUT_RDWR)
        server.listening.close()


def test_threads_ask_who_is_there_now(hosts: str) -> None:
    with sync.connect(hosts, read_only=True) as zk:
        assert State.CONNECTED in zk.states()


def test_asyncio_asks_who_is_there_now(hosts: str) -> None:
    async def main() -> None:
        async with aio.connect(hosts, read_only=True) as zk, asyncio.timeout(30):
            async for state in zk.states():
                if state is State.CONNECTED:
                    break

    asyncio.run(main())


def test_trio_asks_who_is_there_now(hosts: str) -> None:
    async def main() -> None:
        trio.socket.set_custom_hostname_resolver(SystemResolver())
        with trio.fail_after(30):
            async with connect(hosts, read_only=True) as zk:
                async for state in zk.states():
                    if state is State.CONNECTED:
                        break

    trio.run(main)
