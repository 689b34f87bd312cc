"""Runs a program of a client library, in whatever language, against an ensemble: `tests/conformance/clients`.

    printed = run_client(["node", "client.js"], ensemble)

The program is given the connection string as one more argument. Each line that it prints says what it saw, and nothing
that differs between two runs; the test knows these lines by heart. Two kinds of line are requests, which are answered
with a line on its standard input when they are done:

    please kill HOST        `kill -9` of the member with that address, or of the one that leads (`please kill leader`)
    please start            starts what was killed, and waits until it serves

A program that fails, or that takes too long, is an assertion with all it printed. What it had killed runs again in any
case.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence

from tests.rigs.waiting import LONG_PATIENCE_SECONDS
from tests.rigs.zookeeper_server import ZooKeeperEnsemble

_REQUEST = "please "


def run_client(
    command: Sequence[str], ensemble: ZooKeeperEnsemble, *, environment: Mapping[str, str] | None = None
) -> list[str]:
    """What the program printed, without its requests."""
    printed: list[str] = []
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*command, ensemble.hosts],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            text=True,
        )
        patience = threading.Timer(LONG_PATIENCE_SECONDS, process.kill)
        patience.start()
        try:
            _converse(process, ensemble, printed)
            process.wait()
        finally:
            patience.cancel()
            process.kill()
            process.communicate()
            _start(ensemble)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    assert process.returncode == 0, f"exit code {process.returncode}\n" + "\n".join([*printed, said[-8000:]])
    return printed


def _converse(process: subprocess.Popen[str], ensemble: ZooKeeperEnsemble, printed: list[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith(_REQUEST):
            printed.append(line.rstrip("\n"))
            continue
        match line.split()[1:]:
            case ["kill", "leader"]:
                ensemble.leader().kill()
            case ["kill", host]:
                [member] = [member for member in ensemble.members if member.host == host]
                member.kill()
            case ["start"]:
                _start(ensemble)
            case _:
                raise AssertionError(f"what is asked for is not known: {line}")
        with contextlib.suppress(BrokenPipeError):  # It has ended meanwhile, and its exit code says how.
            process.stdin.write("done\n")
            process.stdin.flush()


def _start(ensemble: ZooKeeperEnsemble) -> None:
    for member in ensemble.members:
        if not member.running:
            member.kill()  # One that ended by itself is reaped.
            member.start()
    ensemble.wait()
