"""How many calls a write costs: Python's and C's, counted in the loop of the leader and of the followers.

    python -m bench.calls [--writes N] [--top N]

Three members on loopback count every call of their loop's thread while the load generator writes 100 bytes at a time.
The counts are exact. Only the number of writes in a turn depends on the machine, most of all with many in flight. What
is no write (pings, sessions that open and close, the znodes of the generator) is divided among all writes of the run.
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
from pathlib import Path

from bench.cells import Cell, hosts_of, run_operations
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperMember

CELLS = (Cell("set", 1, 1, "leader"), Cell("set", 1, 1, "follower"), Cell("set", 30, 100, "all"))
OUTPUT = "calls.json"
PATIENCE_SECONDS = 120.0

Counts = list[tuple[str, int, bool]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.calls", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--writes", type=int, default=1000, help="of each connection (1000)")
    parser.add_argument("--top", type=int, default=0, help="functions to name for each member (0)")
    options = parser.parse_args()
    print(f"{'load':<30} {'member':<9} {'writes':>7} {'Python calls':>13} {'C calls':>8}   each write")
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="calls-"))
        program = ("-m", "bench.counted_member", OUTPUT)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        ensemble = stack.enter_context(zab_servers(3, directory=directory, program=program))
        for cell in CELLS:
            leader = ensemble.leader()
            hosts = hosts_of(cell, ensemble)
            run_operations(hosts, cell, options.writes // 2)
            for member in ensemble.members:
                _tell(member, signal.SIGUSR1)
            run_operations(hosts, cell, options.writes)
            writes = cell.connections * options.writes
            for member in ensemble.members:
                counts = _collect(member)
                role = "leader" if member is leader else "follower"
                python = sum(count for _, count, is_python in counts if is_python) / writes
                native = sum(count for _, count, is_python in counts if not is_python) / writes
                print(f"{cell.title:<30} {role:<9} {writes:>7} {python:>13.1f} {native:>8.1f}")
                for name, count, _ in sorted(counts, key=lambda row: -row[1])[: options.top]:
                    print(f"{'':<30} {count / writes:>8.2f}  {name}")
    return 0


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
