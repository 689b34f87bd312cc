"""`zab` commands for tests: in this process, or as a process of its own to talk to while it runs."""

import contextlib
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from zab.cli.main import main


@contextlib.contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`zab WORDS` with pipes. It does not outlive the block, whatever happens in it."""
    command = [sys.executable, "-m", "zab.cli.main", *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=dict(os.environ), **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def at_terminal(*words: str) -> tuple[int, bytes]:
    """The exit code of `zab WORDS`, and what it writes to a terminal, where a line ends with CR and LF."""
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "zab.cli.main", *words]
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            written = b""
            # The end of a terminal's output is an error on Linux, and nothing elsewhere.
            with contextlib.suppress(OSError):
                while data := os.read(ours, 65536):
                    written += data
        return process.returncode, written
    finally:
        os.close(ours)


class Result(NamedTuple):
    code: int
    out: str
    err: str


def call(capture: pytest.CaptureFixture[str], *words: object) -> Result:
    """`zab WORDS` in this process."""
    with pytest.raises(SystemExit) as ending:
        main([str(word) for word in words])
    captured = capture.readouterr()
    assert "Traceback" not in captured.err
    return Result(int(ending.value.code or 0), captured.out, captured.err)


class Run:
    """Runs `zab` in this process; `out` and `err` of the last run."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        code, self.out, self.err = call(self._capture, *words)
        return code


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


def nap_with(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], object]) -> None:
    """How `zab log --follow` sleeps between two looks. Only it: the `time` of the process is that of every thread in
    it, and those of other libraries sleep, too."""
    monkeypatch.setattr("zab.cli.files.inspect.time", SimpleNamespace(sleep=sleep, time_ns=time.time_ns))


@contextlib.contextmanager
def standard_input(given: str | int) -> Iterator[None]:
    """The standard input of what runs in this process: a pipe with this text in it, or a descriptor."""
    if isinstance(given, str):
        source, ours = os.pipe()
        with open(ours, "w", encoding="utf-8") as writing:
            writing.write(given)
    else:
        source = os.dup(given)
    with open(source, encoding="utf-8") as reading, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", reading)
        yield


def leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The command, or those below it at any depth, by their words."""
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for each, sub in below.items():
        yield from leaves(f"{name} {each}", sub)
