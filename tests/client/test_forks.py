"""A process is forked while it has a client: what the fork may do with it, and what its maker still has."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import trio

from zab.client import Client, ForkedError, aio, connect, sync
from zab.client.forks import Origin
from zab.client.sync.recipes import Lock
from zab.testing import Ensemble

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with Ensemble(1) as e:
        yield e.hosts


def in_fork(work: Callable[[], Any]) -> str:
    """What it returns there, or the name of what it raises."""
    there, here = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "another error"
        try:
            said = str(work())
        except ForkedError as error:
            said = type(error).__name__
        finally:
            os.write(here, said.encode())
            os._exit(0)
    os.close(here)
    with open(there, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(pid, 0)
    return said


def first_step(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        coroutine.send(None)
    finally:
        coroutine.close()


def test_a_fork_is_refused_by_the_client_for_threads_and_its_maker_keeps_the_session(hosts: str) -> None:
    with sync.connect(hosts) as zk:
        zk.create("/mine", ephemeral=True)
        lock = Lock(zk, "/lock")
        for work in (
            lambda: zk.get("/mine"),
            lambda: zk.transaction().commit(),
            lock.acquire,
            zk.watcher,
            lambda: zk.move_on_after(1).__enter__(),
        ):
            assert in_fork(work) == "ForkedError"
        # Where a thread of the first process is alone with the client when it is forked, nobody waits for that thread.
        with zk.alone():
            assert in_fork(lambda: zk.get("/mine")) == "ForkedError"
        assert in_fork(zk.close) == "None"
        assert zk.get("/mine")[0] == b""
        assert lock.acquire(wait_s=5).is_held


def check_fork(zk: Client, backend: Any) -> None:
    assert in_fork(lambda: first_step(zk.get("/"))) == "ForkedError"
    assert in_fork(lambda: first_step(zk.sync())) == "ForkedError"

    def received() -> bytes:
        """By the descriptor of the connection: the end, whatever the server sends."""
        return socket.socket(fileno=os.dup(backend.origin.socket.fileno())).recv(1)

    assert in_fork(received) == "b''"


def test_a_fork_is_refused_on_trio_and_asyncio(hosts: str) -> None:
    async def on_trio() -> None:
        async with connect(hosts) as zk:
            check_fork(zk, zk._runtime.backend)
            assert await zk.exists("/") is not None

    async def on_asyncio() -> None:
        async with aio.connect(hosts) as zk:
            check_fork(zk, zk._runtime.backend)
            assert await zk.exists("/") is not None

    trio.run(on_trio)
    asyncio.run(on_asyncio())


def test_what_is_open_no_more_is_left_alone() -> None:
    """Its descriptor may be another file's by now."""
    ours, theirs = socket.socketpair()
    origin = Origin()
    origin.socket = ours
    ours.close()
    origin.cut_off()
    theirs.close()
    with pytest.raises(ForkedError):
        origin.check()
