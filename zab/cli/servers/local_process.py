"""One process of a local ensemble: a member or a broker, with its directory, its file of settings and its journal.

It runs in a process group of its own, so Ctrl-C does not reach it, and it stops when its standard input ends, so it
does not outlive the process that started it.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

__all__ = ["HOST", "LocalProcess"]

HOST = "127.0.0.1"
LOG_TAIL_LINES = 5


class LocalProcess:
    """See the docstring of the module."""

    def __init__(self, name: str, module: str, command: str, directory: Path, config_name: str, log_name: str) -> None:
        """`name` is for sentences; `module` is what `python -m` runs, and `command` the words after `zab` that do."""
        self.name = name
        self.directory = directory
        self.config_path = directory / config_name
        self.log_path = directory / log_name
        self.process: subprocess.Popen[bytes] | None = None
        self._module = module
        self._command = command

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, "-m", self._module, "--stop-with-parent", str(self.config_path)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0)

    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        assert self.process is not None
        return self.process.poll()

    @property
    def ended(self) -> str:
        """That it has ended, and how it is started again by hand."""
        again = f"zab {self._command} {shlex.quote(str(self.config_path))}"
        return f"{self.name} ended with exit code {self.exit_code()}, see {self.log_path}; {again} starts it again"

    def stop(self) -> None:
        """Ask the process to stop."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_for_end(self, deadline: float) -> None:
        """Wait for its end until this monotonic time; then it is killed."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def is_serving(self) -> bool:
        """Whether it does what it is for."""
        raise NotImplementedError

    def last_lines(self) -> str:
        """The end of its journal."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        return "\n".join(f"    {line}" for line in lines[-LOG_TAIL_LINES:])
