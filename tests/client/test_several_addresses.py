"""One name that stands for two addresses: the first takes connections and ends them, a member listens at the other."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from tests.client.resolving import SystemResolver
from zab.client import aio, connect, sync
from zab.testing import Ensemble

BAD = "127.0.0.2"
NAME = "headless.invalid"


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    """The addresses of the name. The listener at the first one closes every connection, until the module is done."""
    with Ensemble(1) as e, socket.socket() as bad:
        port = int(e.hosts.rpartition(":")[2])
        bad.bind((BAD, port))
        bad.listen()
        threading.Thread(target=end_all, args=(bad,), daemon=True).start()
        yield f"{NAME}:{port}"
        bad.shutdown(socket.SHUT_RDWR)


def end_all(bad: socket.socket) -> None:
    while True:
        try:
            bad.accept()[0].close()
        except OSError:
            return


@pytest.fixture(autouse=True)
def resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *given: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return real(host, port, *given, **options)
        return [found for address in (BAD, "127.0.0.1") for found in real(address, port, *given, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def test_threads_find_the_one_that_serves(hosts: str) -> None:
    for _ in range(3):
        with sync.connect(hosts) as zk:
            assert zk.exists("/") is not None


def test_asyncio_finds_the_one_that_serves(hosts: str) -> None:
    async def main() -> None:
        for _ in range(3):
            async with aio.connect(hosts) as zk:
                assert await zk.exists("/") is not None

    asyncio.run(main())


def test_trio_finds_the_one_that_serves(hosts: str) -> None:
    async def main() -> None:
        trio.socket.set_custom_hostname_resolver(SystemResolver())
        for _ in range(3):
            async with connect(hosts) as zk:
                assert await zk.exists("/") is not None

    trio.run(main)
