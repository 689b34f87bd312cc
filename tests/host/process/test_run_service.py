"""A service as a process: what ends it, and with which exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys

import trio

from zab.configuration.blocks.journal import JournalSettings
from zab.service.failure import ServerFailedError
from zab.host.process.run_service import run_service


async def serve(supervised):
    if "fail" in sys.argv:
        raise ServerFailedError(14, "the port is taken")
    print("serves", flush=True)
    await trio.sleep_forever()


sys.exit(run_service(serve, JournalSettings(file=sys.argv[1]), stops_with_parent="parent" in sys.argv))
"""


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("what", ["SIGTERM", "SIGINT", "parent"])
def test_service_stops_as_asked_with_0(tmp_path: Path, what: str) -> None:
    with started(str(tmp_path / "log"), what) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "serves\n"
        if what == "parent":
            process.stdin.close()
        else:
            process.send_signal(signal.Signals[what])
        assert process.wait() == 0
    assert ("is gone" if what == "parent" else f"signal={what}") in (tmp_path / "log").read_text()


def test_service_that_fails_says_why_in_its_journal_and_to_its_parent(tmp_path: Path) -> None:
    with started(str(tmp_path / "log"), "fail") as process:
        _, said = process.communicate()
        assert process.returncode == 14
    assert said == "the port is taken\n"
    assert "the port is taken" in (tmp_path / "log").read_text()


def test_journal_that_cannot_be_opened_is_refused_with_2(tmp_path: Path) -> None:
    with started(str(tmp_path / "nowhere" / "log")) as process:
        _, said = process.communicate()
        assert process.returncode == 2
    assert said.startswith("log.file: ")
