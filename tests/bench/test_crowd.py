"""The generator of many sessions, the floor of a durable write, and the library that counts syncs.

How fast anything is, is not tested.
"""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import cells
from bench.cells import idle_crowd, run_crowd
from tests.bench.generator import echoing, needs_compiler, programs
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import four_letter_word

__all__ = ["programs"]

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def hosts() -> Iterator[str]:
    with zab_servers(1) as ensemble:
        yield ensemble.hosts


@pytest.fixture(autouse=True)
def compiled(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "BUILD", programs)


def crowd(programs: Path, hosts: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [programs / "crowd", "--servers", hosts, "--warmup", "0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("operation", ["watch", "recursive", "sessions"])
@pytest.mark.parametrize("connections", [1, 7])
def test_every_operation_runs_and_leaves_nothing_behind(
    programs: Path, hosts: str, operation: str, connections: int
) -> None:
    for _ in range(2):
        done = crowd(programs, hosts, "--op", operation, "--connections", str(connections), "--operations", "5")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert (result["op"], result["connections"], result["errors"]) == (operation, connections, 0)
        assert 5 <= result["operations"] < 5 + connections
        assert 0 < result["p50_us"] <= result["p99_us"] <= result["max_us"] * 1.01


def test_a_run_ends_when_its_time_is_over(hosts: str) -> None:
    assert run_crowd(hosts, "sessions", 2, seconds=0.05, warmup_seconds=0.01).per_second > 0


@pytest.mark.slow
def test_idle_sessions_ping_until_they_are_told_to_end(programs: Path, hosts: str) -> None:
    command = [programs / "crowd", "--servers", hosts, "--op", "idle", "--connections", "5", "--timeout", "2000"]
    port = int(hosts.rpartition(":")[2])

    def all_outlived_their_timeout() -> bool:
        """Each has sent the handshake and four pings, which are a third of the timeout apart."""
        counts = [int(count) for count in re.findall(r"recved=(\d+),.*sid=", four_letter_word(port, "cons"))]
        return len(counts) == 5 and min(counts) >= 5

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        until(all_outlived_their_timeout, "four pings of each")
        process.stdin.close()
        result = json.loads(process.stdout.read())
        assert process.wait(60) == 0
    assert result["errors"] == 0
    assert result["operations"] >= 15


def test_a_crowd_idles_as_long_as_it_is_wanted(hosts: str) -> None:
    with idle_crowd(hosts, 3):
        pass


def test_a_crowd_that_finds_no_server_is_an_error() -> None:
    with pytest.raises(subprocess.CalledProcessError), idle_crowd("127.0.0.1:1", 3):
        raise AssertionError("nobody is idle")


def test_a_server_that_is_not_there_is_the_reason_of_the_end(programs: Path) -> None:
    done = crowd(programs, "127.0.0.1:1", "--op", "sessions")
    assert (done.returncode, done.stderr) == (1, "crowd: session 0: Connection refused\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--op", "set"],
        ["--op", "idle", "--connections", "0"],
        ["--op", "idle", "--timeout", "0"],
        ["--op"],
        ["--color", "red"],
        [],
    ],
)
def test_wrong_usage_has_exit_code_2(programs: Path, arguments: list[str]) -> None:
    done = crowd(programs, "127.0.0.1:1", *arguments)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_the_floor_writes_what_it_answers(programs: Path, tmp_path: Path) -> None:
    file = tmp_path / "floor"
    with echoing(programs, str(file)) as port:
        command = [programs / "load", "--servers", f"127.0.0.1:{port}", "--warmup", "0", "--operations", "20"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["errors"] == 0
    # Two creates before, a delete and the like after: at least the sets are there, each with its value.
    assert file.read_bytes().count(b"x" * 100) >= 20


def test_syncs_are_counted_and_timed(programs: Path, tmp_path: Path) -> None:
    script = (
        "import os; file = os.open('data', os.O_RDWR | os.O_CREAT);"
        "os.fsync(file); os.fdatasync(file); os.pwritev(file, [b'x'], 0); os.pwritev(file, [b'y'], 0, os.RWF_DSYNC);"
        "print(os.getpid(), os.pread(file, 9, 0))"
    )
    environment = {**os.environ, "LD_PRELOAD": str(programs / "syncs.so"), "ZAB_SYNCS": str(tmp_path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    pid, text = done.stdout.split()
    assert text == "b'y'"
    calls, nanoseconds = struct.unpack("=QQ", (tmp_path / pid).read_bytes())
    assert calls == 3
    assert nanoseconds > 0
