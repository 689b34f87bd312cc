"""What a supervisor hears of a service, over a datagram socket of the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.rigs.waiting import PATIENCE_SECONDS
from zab.host.loop.loop import Loop, now_ms
from zab.host.process.supervisor import BEATS, Supervisor, supervisor_of


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(PATIENCE_SECONDS)
        yield sock


def environment(heard: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": heard.getsockname(), **more}


def begun(heard: socket.socket, pid: int = 7, **more: str) -> Supervisor:
    supervisor = supervisor_of(environment(heard, **more), pid)
    assert supervisor is not None
    return supervisor


def test_it_hears_that_the_service_is_ready_how_it_is_and_that_it_ends(heard: socket.socket) -> None:
    supervisor = begun(heard)
    supervisor.status("waits for\nothers")
    supervisor.ready()
    supervisor.ready()
    supervisor.stopping()
    assert [heard.recv(4096) for _ in range(3)] == [b"STATUS=waits for others", b"READY=1", b"STOPPING=1"]
    supervisor.close()


def test_abstract_socket() -> None:
    name = f"zab-test-{now_ms()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        supervisor = supervisor_of({"NOTIFY_SOCKET": f"@{name}"}, 7)
        assert supervisor is not None
        supervisor.ready()
        assert sock.recv(4096) == b"READY=1"
        supervisor.close()


def test_what_it_is_too_slow_to_hear_is_said_later_and_waits_for_nothing(heard: socket.socket) -> None:
    supervisor = begun(heard)
    for number in range(10_000):
        supervisor.status(f"{number}")
    supervisor.ready()
    heard.setblocking(False)
    said = drained(heard)
    assert "READY=1" not in said
    assert "STATUS=9999" not in said
    supervisor.stopping()
    assert drained(heard) == ["STATUS=9999\nREADY=1\nSTOPPING=1"]
    supervisor.close()


def drained(heard: socket.socket) -> list[str]:
    said = []
    while True:
        try:
            said.append(heard.recv(4096).decode())
        except BlockingIOError:
            return said


def test_one_that_is_gone_harms_nothing(heard: socket.socket) -> None:
    supervisor = begun(heard)
    heard.close()
    supervisor.ready()
    supervisor.close()


class Idle:
    """Turns in which nothing is to be done, as many as are wanted; then the loop ends."""

    def __init__(self, loop: Loop, is_over: object) -> None:
        self._loop, self._is_over = loop, is_over

    def take(self) -> bool:
        if self._is_over():  # type: ignore[operator]
            self._loop.stop()
        return False

    def next_deadline(self) -> int:
        return now_ms() + 5


async def test_beats_come_out_of_the_loop_and_end_with_it(heard: socket.socket) -> None:
    supervisor = begun(heard, WATCHDOG_USEC="30000", WATCHDOG_PID="7")
    heard.setblocking(False)
    loop = Loop()
    supervisor.watch(loop)
    said: list[str] = []

    def is_over() -> bool:
        said.extend(drained(heard))
        return len(said) >= 5

    began = now_ms()
    with trio.fail_after(PATIENCE_SECONDS / 4):
        await loop.run(Idle(loop, is_over))
    assert set(said) == {"WATCHDOG=1"}
    assert now_ms() - began >= 4 * (30 // BEATS)
    await trio.sleep(0.1)
    assert drained(heard) == []
    loop.close()
    supervisor.close()


@pytest.mark.parametrize("more", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "8"}])
async def test_no_beats_where_none_are_wanted_or_of_another_process(heard: socket.socket, more: dict[str, str]) -> None:
    supervisor = begun(heard, **more)
    heard.setblocking(False)
    loop = Loop()
    supervisor.watch(loop)
    turns = iter(range(20))
    await loop.run(Idle(loop, lambda: next(turns, None) is None))
    assert drained(heard) == []
    loop.close()
    supervisor.close()


def test_without_a_supervisor_there_is_none() -> None:
    assert supervisor_of({}, 7) is None


@pytest.mark.parametrize(
    "wrong",
    [{"NOTIFY_SOCKET": "here"}, {"NOTIFY_SOCKET": "/nowhere/at/all"}, {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "soon"}],
)
def test_environment_that_names_none_that_is_there_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises((OSError, ValueError)):
        supervisor_of(wrong, 7)
