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


class BackendRig:
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
def rig() -> BackendRig:
    return BackendRig(OnThreads(None))


def wait_for_threads(rig: BackendRig, count: int) -> None:
    while not rig.are_waiting(count):
        time.sleep(0.001)


def test_what_is_asked_for_is_sent_at_once(rig: BackendRig) -> None:
    rig.backend.run(rig.ask(b"a"))
    assert rig.socket.sent == [b"a"]


def test_the_last_of_the_woken_threads_sends_for_all(rig: BackendRig) -> None:
    threads = [threading.Thread(target=rig.backend.run, args=(rig.wait_and_ask(b"x"),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    wait_for_threads(rig, 8)
    rig.wake()
    for thread in threads:
        thread.join()
    assert rig.socket.sent == [b"x" * 8]


def test_nobody_waits_long_for_a_woken_thread_that_does_not_run(rig: BackendRig) -> None:
    waiter = rig.backend.waiter()
    # As if a thread waited, which the system does not let run.
    waiter.is_awaited = True
    rig.waiters.append(waiter)
    rig.wake()
    rig.backend.run(rig.ask(b"a"))
    rig.now = GATHER_S_MAX * 0.9
    rig.backend.run(rig.ask(b"b"))
    assert rig.socket.sent == []
    rig.now = GATHER_S_MAX
    rig.backend.run(rig.ask(b"c"))
    assert rig.socket.sent == [b"abc"]
    rig.backend.run(rig.ask(b"d"))
    assert rig.socket.sent == [b"abc"]


@pytest.mark.parametrize("is_woken", [False, True])
def test_nobody_waits_for_a_thread_that_gave_up(rig: BackendRig, is_woken: bool) -> None:
    async def give_up() -> None:
        async with rig.backend.move_on_after(0) as scope:
            await rig.wait_and_ask(b"x")
        assert scope.is_over

    rig.backend.run(give_up())
    if is_woken:
        rig.wake()
    rig.backend.run(rig.ask(b"a"))
    assert rig.socket.sent == [b"a"]
