"""Processes that a test starts: none of them outlives it.

A block (`ended`) kills what is left of them. Should the test itself be killed, a watchdog for each does it: a shell
that waits for the end of a pipe which only this process holds open.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Self

from tests.rigs.waiting import PATIENCE_SECONDS

STOP_SECONDS: Final = 60.0
_PROBE_SECONDS: Final = 0.02


class GuardedProcess:
    """One command, which can be started again. What it prints is appended to `journal`."""

    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    watchdog: subprocess.Popen[bytes] | None = None

    @property
    def journal(self) -> Path:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self.process is not None, "not started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, **popen: Any) -> Self:
        """Start it, without waiting for anything."""
        assert not self.running
        with self.journal.open("ab") as journal:
            options = {"stdin": subprocess.DEVNULL, "stdout": journal, "stderr": subprocess.STDOUT, **popen}
            self.process = subprocess.Popen(self.command, **options)
        self.watchdog = subprocess.Popen(
            ["/bin/sh", "-c", f"read -r line || kill -9 {self.process.pid}"], stdin=subprocess.PIPE
        )
        return self

    def kill(self) -> int | None:
        """`kill -9`, and wait until it has ended. Returns its exit code; None when it was not running."""
        return self._end(0)

    def stop(self, seconds: float = STOP_SECONDS) -> int | None:
        """SIGTERM, and `kill -9` when that does not end it in this time."""
        self.ask_to_end()
        return self._end(seconds)

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting for anything."""
        if self.process is not None:
            self.process.terminate()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still inside of the block (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Wait until it has ended by itself. Returns its exit code."""
        assert self.process is not None, "not started"
        code = self.process.wait(seconds)
        self._end(0)
        return code

    def _end(self, seconds: float) -> int | None:
        if self.process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        # The watchdog goes before the process is reaped: afterwards its pid may belong to another one.
        if self.watchdog is not None:
            assert self.watchdog.stdin is not None
            self.watchdog.kill()
            self.watchdog.wait()
            self.watchdog.stdin.close()
            self.watchdog = None
        self.process.kill()
        code = self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None
        return code

    def log_text(self) -> str:
        """What it has printed so far."""
        return self.journal.read_text(errors="replace")

    def wait_until(self, is_so: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert self.running, self.log_text()
            assert time.monotonic() < deadline, self.log_text()
            time.sleep(_PROBE_SECONDS)

    def wait_until_it_says(self, text: str, times: int = 1) -> None:
        self.wait_until(lambda: self.log_text().count(text) >= times)


@contextlib.contextmanager
def ended(processes: Iterable[GuardedProcess]) -> Iterator[None]:
    """Whatever is left of these is killed at the end."""
    with contextlib.ExitStack() as stack:
        for process in processes:
            stack.callback(process.kill)
        yield


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
