"""The backend of threads: what threads that were woken together ask for is sent together, and soon. Its clock
stands."""

import threading
import time
from typing import Any

import pytest

from zab.client.on_threads import GATHER_S_MAX, OnThreads


class Socket:
    """Takes all that is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> int:
        self.sent.append(data)
        return len(data)


class Runtime:
    """The core: what is asked for, until it is taken."""

    def __init__(self) -> None:
        self.asked = b""

    def now(self) -> int:
        return 0

    def take(self, now: int) -> bytes:
        taken, self.asked = self.asked, b""
        return taken


class World:
    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.socket = Socket()
        self.runtime = Runtime()
        self.now = 0.0
        self.waiters: list[Any] = []
        backend.now = lambda: self.now
        backend._runtime, backend._socket = self.runtime, self.socket

    async def ask(self, data: bytes) -> None:
        self.runtime.asked += data
        self.backend.flush()

    async def wait_and_ask(self, data: bytes) -> None:
        waiter = self.backend.waiter()
        self.waiters.append(waiter)
        await waiter.wait()
        await self.ask(data)

    def wake(self) -> None:
        with self.backend.alone():
            for waiter in self.waiters:
                waiter.wake()

    def are_waiting(self, count: int) -> bool:
        with self.backend.alone():
            return len(self.waiters) == count and all(waiter.is_awaited for waiter in self.waiters)


@pytest.fixture
def world() -> World:
    return World(OnThreads(None))


def wait_for_threads(world: World, count: int) -> None:
    while not world.are_waiting(count):
        time.sleep(0.001)


def test_what_is_asked_for_is_sent_at_once(world: World) -> None:
    world.backend.run(world.ask(b"a"))
    assert world.socket.sent == [b"a"]


def test_the_last_of_the_woken_threads_sends_for_all(world: World) -> None:
    threads = [threading.Thread(target=world.backend.run, args=(world.wait_and_ask(b"x"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_for_threads(world, 8)
    world.wake()
    for thread in threads:
        thread.join()
    assert world.socket.sent == [b"x" * 8]


def test_nobody_waits_long_for_a_woken_thread_that_does_not_run(world: World) -> None:
    waiter = world.backend.waiter()
    # As if a thread waited, which the system does not let run.
    waiter.is_awaited = True
    world.waiters.append(waiter)
    world.wake()
    world.backend.run(world.ask(b"a"))
    world.now = GATHER_S_MAX * 0.9
    world.backend.run(world.ask(b"b"))
    assert world.socket.sent == []
    world.now = GATHER_S_MAX
    world.backend.run(world.ask(b"c"))
    assert world.socket.sent == [b"abc"]
    world.backend.run(world.ask(b"d"))
    assert world.socket.sent == [b"abc"]


@pytest.mark.parametrize("is_woken", [False, True])
def test_nobody_waits_for_a_thread_that_gave_up(world: World, is_woken: bool) -> None:
    async def give_up() -> None:
        async with world.backend.move_on_after(0) as scope:
            await world.wait_and_ask(b"x")
        assert scope.is_over

    world.backend.run(give_up())
    if is_woken:
        world.wake()
    world.backend.run(world.ask(b"a"))
    assert world.socket.sent == [b"a"]
