"""What is measured: the cells of the table, and one run of the load generator, or of the crowd, for one of them.

A cell is an operation, a value size, connections × requests in flight on each, and where the connections go: to a
follower or to the leader for the shallow ones (there the path of a request matters, so like is compared with like),
over all members for the deep ones.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember

BUILD = Path(__file__).parent / "build"
OPERATIONS = ("set", "get", "create", "mix")
SHALLOW = ((1, 1), (10, 1), (300, 1))
DEEP = ((3, 100), (30, 100))
DEEP_FLIGHT = 100
VALUE_BYTES = 100
LARGE_VALUE_BYTES = 1024
NAMES = {
    "set": "set",
    "get": "get",
    "create": "create",
    "mix": "90 % get",
    "children": "getChildren",
    "multi": "multi",
}


@dataclass(frozen=True)
class Cell:
    """`target` is follower, leader or all."""

    operation: str
    connections: int
    flight: int
    target: str
    size_bytes: int = VALUE_BYTES

    @property
    def key(self) -> str:
        """How `--cells` names it: set:1x1:leader, set:30x100:all:1024."""
        key = f"{self.operation}:{self.connections}x{self.flight}:{self.target}"
        return key if self.size_bytes == VALUE_BYTES else f"{key}:{self.size_bytes}"

    @property
    def title(self) -> str:
        size = "" if self.size_bytes == VALUE_BYTES else f" {self.size_bytes} B"
        where = "" if self.target == "all" else f", on {'a' if self.target == 'follower' else 'the'} {self.target}"
        return f"{NAMES[self.operation]}{size}, {self.connections} x {self.flight}{where}"


@dataclass(frozen=True)
class Result:
    """One run: operations a second, latencies in microseconds, replies with an error."""

    per_second: float
    p50_us: float
    p99_us: float
    errors: int
    max_us: float = 0.0


def all_cells() -> list[Cell]:
    """Every cell of the table, in its order."""
    cells = []
    for operation in OPERATIONS:
        for connections, flight in SHALLOW:
            cells += [Cell(operation, connections, flight, target) for target in ("follower", "leader")]
        cells += [Cell(operation, connections, flight, "all") for connections, flight in DEEP]
    return [*cells, Cell("set", 30, DEEP_FLIGHT, "all", LARGE_VALUE_BYTES)]


def members_of(cell: Cell, ensemble: ZooKeeperEnsemble) -> list[ZooKeeperMember]:
    """The servers that the cell's connections go to."""
    if cell.target == "leader":
        return [ensemble.leader()]
    if cell.target == "follower":
        return ensemble.followers()[:1]
    return ensemble.members


def hosts_of(cell: Cell, ensemble: ZooKeeperEnsemble) -> str:
    """The same, as the generator wants them."""
    return ",".join(member.host for member in members_of(cell, ensemble))


def run_load(hosts: str, cell: Cell, *, seconds: float, warmup_seconds: float, options: Sequence[str] = ()) -> Result:
    """One run of the generator for so long, with further options of its. Raises CalledProcessError when a connection
    failed."""
    return _run_load(hosts, cell, "--warmup", str(warmup_seconds), "--seconds", str(seconds), *options)


def run_operations(hosts: str, cell: Cell, operations: int, *, options: Sequence[str] = ()) -> Result:
    """As many operations on each connection, however long they take."""
    return _run_load(hosts, cell, "--warmup", "0", "--operations", str(operations), *options)


def _run_load(hosts: str, cell: Cell, *options: str) -> Result:
    command = [str(BUILD / "load"), "--servers", hosts, "--op", cell.operation]
    command += ["--connections", str(cell.connections), "--flight", str(cell.flight), "--size", str(cell.size_bytes)]
    return _result(subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True).stdout)


def _result(line: bytes) -> Result:
    answer: dict[str, Any] = json.loads(line)
    return Result(answer["per_second"], answer["p50_us"], answer["p99_us"], answer["errors"], answer["max_us"])


def warm_up(hosts: str, seconds: float) -> None:
    """Load of every kind, because a virtual machine compiles what runs often."""
    for operation in OPERATIONS:
        run_load(hosts, Cell(operation, 30, 100, "all"), seconds=seconds / len(OPERATIONS), warmup_seconds=0)


def run_crowd(hosts: str, operation: str, connections: int, *, seconds: float, warmup_seconds: float) -> Result:
    """One run of so many sessions that watch or come and go; see crowd.c. Raises CalledProcessError."""
    command = _crowd(hosts, operation, connections)
    command += ["--warmup", str(warmup_seconds), "--seconds", str(seconds)]
    return _result(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


@contextlib.contextmanager
def idle_crowd(hosts: str, connections: int) -> Iterator[None]:
    """So many sessions that only ping, all open. Raises CalledProcessError when one was lost meanwhile."""
    command = _crowd(hosts, "idle", connections)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crowd:
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        try:
            if not crowd.stdout.readline():
                raise subprocess.CalledProcessError(crowd.wait(), command)
            yield
        finally:
            crowd.stdin.close()
            # It says what it did when it ends.
            crowd.stdout.read()
    if crowd.returncode:
        raise subprocess.CalledProcessError(crowd.returncode, command)


def _crowd(hosts: str, operation: str, connections: int) -> list[str]:
    return [str(BUILD / "crowd"), "--servers", hosts, "--op", operation, "--connections", str(connections)]


def echo_ceiling(cell: Cell, *, seconds: float) -> float:
    """Operations a second that the generator reaches against a server that only answers."""
    return run_echo(cell, seconds=seconds).per_second


def run_echo(cell: Cell, *, seconds: float, file: Path | None = None) -> Result:
    """One run of the generator against a server that only answers. file: where it writes and syncs first."""
    command = [str(BUILD / "echo"), "0", *([str(file)] if file else [])]
    echo = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert echo.stdin is not None
    assert echo.stdout is not None
    try:
        port = echo.stdout.readline().split()[-1]
        return run_load(f"127.0.0.1:{port}", cell, seconds=seconds, warmup_seconds=0.1)
    finally:
        echo.stdin.close()
        echo.wait(60)
        echo.stdout.close()
