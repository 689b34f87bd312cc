"""A member that is started as systemd starts one: what it tells, and that a stuck one falls silent."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import unstarted
from tests.rigs.zookeeper_server import ZooKeeperMember

pytestmark = pytest.mark.slow

SILENCE_SECONDS = 1.5
"""The environment of the members."""


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(PATIENCE_SECONDS)
        monkeypatch.setenv("NOTIFY_SOCKET", sock.getsockname())
        monkeypatch.setenv("WATCHDOG_USEC", str(int(SILENCE_SECONDS * 1e6)))
        yield sock


def until(heard: socket.socket, wanted: str) -> list[str]:
    """What is said up to the line that begins so."""
    said: list[str] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not any(line.startswith(wanted) for line in said):
        assert time.monotonic() < deadline, said
        said += heard.recv(4096).decode().splitlines()
    return said


def test_member_is_ready_when_it_serves_and_says_that_it_stops(tmp_path: Path, heard: socket.socket) -> None:
    with unstarted(tmp_path, 1) as ensemble:
        [member] = ensemble.members
        member.start()
        said = until(heard, "READY=1")
        assert any(line.startswith("STATUS=") and ", serving;" in line for line in said), said
        until(heard, "WATCHDOG=1")
        assert member.stop() == 0
        until(heard, "STOPPING=1")


def test_member_without_a_quorum_is_not_ready(tmp_path: Path, heard: socket.socket) -> None:
    with unstarted(tmp_path, 3) as ensemble:
        first, second, third = ensemble.members
        first.start()
        said = until(heard, "WATCHDOG=1") + until(heard, "WATCHDOG=1")
        assert "STATUS=recovered, not serving; no leader yet" in said
        assert "READY=1" not in said
        first.stop()
        until(heard, "STOPPING=1")
        for member in (first, second, third):
            member.start()
        until(heard, "READY=1")


def test_member_whose_loop_stands_still_falls_silent(tmp_path: Path, heard: socket.socket) -> None:
    with unstarted(tmp_path, 1) as ensemble:
        [member] = ensemble.members
        member.start()
        until(heard, "READY=1")
        until(heard, "WATCHDOG=1")
        os.kill(member.pid, signal.SIGSTOP)
        try:
            heard.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    heard.recv(4096)
            heard.settimeout(2 * SILENCE_SECONDS)
            with pytest.raises(TimeoutError):
                heard.recv(4096)
        finally:
            os.kill(member.pid, signal.SIGCONT)
        heard.settimeout(PATIENCE_SECONDS)
        until(heard, "WATCHDOG=1")


def test_member_that_fails_says_that_it_ends(tmp_path: Path, heard: socket.socket) -> None:
    with unstarted(tmp_path, 1) as ensemble:
        [member] = ensemble.members
        with socket.create_server(("127.0.0.1", member.client_port)):
            member.start()
            assert member.wait() == 14
        until(heard, "STOPPING=1")


def test_supervisor_that_is_not_there_refuses_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "/nowhere/at/all")
    with unstarted(tmp_path, 1) as ensemble:
        [member] = ensemble.members
        member.start()
        assert member.wait() == 2
        assert "the supervisor cannot be reached" in member.log_text()


# -------------------------------------------------------------------------------------------------- the journal's file


@pytest.fixture
def journaling(tmp_path: Path) -> Iterator[tuple[ZooKeeperMember, Path]]:
    path = tmp_path / "zab.log"
    with unstarted(tmp_path, 1, f"log.file={path}") as ensemble:
        [member] = ensemble.members
        member.start()
        member.wait_until(lambda: path.exists() and "serving=true" in path.read_text())
        yield member, path


def test_journal_that_was_moved_away_is_reopened_on_sighup(journaling: tuple[ZooKeeperMember, Path]) -> None:
    member, path = journaling
    path.rename(path.with_suffix(".old"))
    member.process.send_signal(signal.SIGHUP)
    member.wait_until(lambda: path.exists() and "reopened" in path.read_text())
    assert "reopened" not in path.with_suffix(".old").read_text()
    assert member.stop() == 0


def test_journal_that_was_copied_and_emptied_goes_on_at_its_beginning(journaling: tuple[ZooKeeperMember, Path]) -> None:
    member, path = journaling
    os.truncate(path, 0)
    member.process.send_signal(signal.SIGHUP)
    member.wait_until(lambda: "reopened" in path.read_text())
    assert path.read_bytes()[:2] == b"20"
    assert member.stop() == 0
