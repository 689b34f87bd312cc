"""How many calls an operation costs: Python's and C's, counted in the loop of the leader and of the followers.

    python -m bench.calls [--kinds KIND ...] [--operations N] [--top N]

Three members on loopback count every call of their loop's thread while the load generator works: without secret and
TLS, and in the other ways of `bench.kinds`. The counts are exact. Only the number of operations in a turn depends on
the machine, most of all with many in flight. What is no operation (pings, sessions that open and close, handshakes, the
znodes of the generator) is divided among all operations of the run. What a call costs, no count tells: a call of C that
encrypts a record is one call.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cells import Cell, run_operations
from bench.kinds import KINDS, Side, sides
from tests.rigs.zookeeper_server import ZooKeeperMember

CELLS = (
    Cell("set", 1, 1, "leader"),
    Cell("set", 1, 1, "follower"),
    Cell("set", 30, 100, "all"),
    Cell("get", 1, 1, "leader"),
    Cell("get", 30, 100, "all"),
)
OPERATIONS = 1000
OUTPUT = "calls.json"
PATIENCE_SECONDS = 120.0

Counts = list[tuple[str, int, bool]]


@dataclass(frozen=True)
class Counted:
    """The calls of one member for one cell, each operation, and its most frequent functions with theirs."""

    kind: str
    cell: Cell
    role: str
    operations: int
    python: float
    native: float
    functions: list[tuple[str, float]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="what is counted (all)")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"of each connection ({OPERATIONS})")
    parser.add_argument("--top", type=int, default=0, help="functions to name for each member (0)")
    options = parser.parse_args()
    print(f"{'kind':<12} {'load':<27} {'member':<9} {'operations':>10} {'Python calls':>13} {'C calls':>8}   each")
    for each in counted_calls(options.kinds, options.operations, options.top):
        start = f"{each.kind:<12} {each.cell.title:<27} {each.role:<9} {each.operations:>10}"
        print(f"{start} {each.python:>13.1f} {each.native:>8.1f}")
        for name, calls in each.functions:
            print(f"{'':<12} {calls:>8.2f}  {name}")
    return 0


def counted_calls(kinds: Sequence[str], operations: int, top: int = 0) -> Iterator[Counted]:
    """Of each kind, cell and member. operations: of each connection. top: how many functions to name."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="calls-")))
        program = ("-m", "bench.counted_member", OUTPUT)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        for side in stack.enter_context(sides(directory, kinds=kinds, program=program)):
            for cell in CELLS:
                yield from _count(side, cell, operations, top)


def _count(side: Side, cell: Cell, operations: int, top: int) -> Iterator[Counted]:
    leader = side.ensemble.leader()
    hosts = side.hosts(cell)
    run_operations(hosts, cell, operations // 2, options=side.options)
    for member in side.ensemble.members:
        _tell(member, signal.SIGUSR1)
    run_operations(hosts, cell, operations, options=side.options)
    total = cell.connections * operations
    for member in side.ensemble.members:
        counts = _collect(member)
        role = "leader" if member is leader else "follower"
        python = sum(count for _, count, is_python in counts if is_python) / total
        native = sum(count for _, count, is_python in counts if not is_python) / total
        most = sorted(counts, key=lambda row: -row[1])[:top]
        functions = [(name, count / total) for name, count, _ in most]
        yield Counted(side.kind, cell, role, total, python, native, functions)


def _tell(member: ZooKeeperMember, number: signal.Signals) -> None:
    os.kill(member.pid, number)


def _collect(member: ZooKeeperMember) -> Counts:
    output = member.directory / OUTPUT
    output.unlink(missing_ok=True)
    _tell(member, signal.SIGUSR2)
    until = time.monotonic() + PATIENCE_SECONDS
    while not output.exists():
        if time.monotonic() > until:
            raise TimeoutError(f"member {member.server_id} wrote no counts")
        time.sleep(0.01)
    return [(name, count, is_python) for name, count, is_python in json.loads(output.read_text())]


if __name__ == "__main__":
    sys.exit(main())
