"""Where the time of a single set and of a single get goes, and how far they are from what the machine takes for them.

The processor time of a member, in its own code and in the kernel's, is what /proc/PID/stat counts for all its threads.
What it waits for the disk is measured inside of it: syncs.so is preloaded on both sides and times fsync, fdatasync and
writes with RWF_DSYNC. The three are of different threads, some of which run at the same time: together they are the
cost of an operation, and not its latency.

The floor of a get is the same generator against a server that only answers (echo.c); that of a set, against one that
writes what comes with one read to a file and syncs it (`fdatasync`) before it answers.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.cells import BUILD, Cell, hosts_of, run_echo, run_load
from bench.curves.field import RUN_WARMUP_SECONDS, Both, Field, right
from bench.curves.figures import SIDES, ZAB, Cost, Latency, Shares
from bench.machine import say
from bench.process_tree import user_and_system_seconds
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember

OPERATIONS = ("set", "get")
LIBRARY, PLACE = "LD_PRELOAD", "ZAB_SYNCS"
SECONDS_MIN = 0.5


@dataclass(frozen=True)
class Used:
    """What a member has used so far: seconds in its own code, in the kernel and waiting for the disk, and syncs."""

    own: float
    kernel: float
    disk: float
    syncs: int


def shares(field: Field) -> Shares:
    """Of ensembles of their own."""
    # The floor's file is where the members' are: on the same disk.
    with (
        tempfile.TemporaryDirectory(prefix="syncs-", dir=field.directory) as name,
        syncs_counted(Path(name)),
        field.ensembles() as both,
    ):
        return measured_shares(field, both, Path(name))


def measured_shares(field: Field, both: Both, syncs: Path) -> Shares:
    """Of members that count their syncs in that directory."""
    found = Shares()
    for turn in range(field.rounds):
        for operation in OPERATIONS:
            _measure(found, operation, both, syncs, field, turn)
    return found


@contextlib.contextmanager
def syncs_counted(directory: Path) -> Iterator[None]:
    """Processes that are started meanwhile count their syncs in that directory."""
    before = {name: os.environ.get(name) for name in (LIBRARY, PLACE)}
    library = BUILD / "syncs.so"
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing: make {library.relative_to(BUILD.parents[1])}")
    os.environ.update({LIBRARY: str(library), PLACE: str(directory)})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _measure(found: Shares, operation: str, both: Both, syncs: Path, field: Field, turn: int) -> None:
    cell = Cell(operation, 1, 1, "leader")
    seconds = max(SECONDS_MIN, field.seconds)
    latency = _latency_of(found, operation)
    file = syncs / "floor" if operation == "set" else None
    field.settle()
    latency.floor.append(right(run_echo(cell, seconds=seconds, file=file)).p50_us)
    for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
        field.settle()
        p50_us = _measure_side(found, cell, side, both[side], syncs, seconds)
        (latency.zab if side == ZAB else latency.zookeeper).append(p50_us)
    say(
        f"shares, round {turn + 1}: {operation}: {latency.zab[-1]:,.0f} against {latency.zookeeper[-1]:,.0f} µs, "
        f"floor {latency.floor[-1]:,.0f}"
    )


def _measure_side(
    found: Shares, cell: Cell, side: str, ensemble: ZooKeeperEnsemble, syncs: Path, seconds: float
) -> float:
    """Notes what the leader and, as their mean, the followers spent. Returns the median latency.

    The generator's warm-up is a run of its own: what is used is used by the operations that are counted.
    """
    hosts, leader = hosts_of(cell, ensemble), ensemble.leader()
    run_load(hosts, cell, seconds=RUN_WARMUP_SECONDS, warmup_seconds=0)
    before = {member.server_id: used(member, syncs) for member in ensemble.members}
    result = right(run_load(hosts, cell, seconds=seconds, warmup_seconds=0))
    count = result.per_second * seconds
    spent: dict[str, list[Used]] = {}
    for member in ensemble.members:
        role = "leader" if member is leader else "follower"
        spent.setdefault(role, []).append(_between(before[member.server_id], used(member, syncs)))
    for role, each in spent.items():
        cost = _cost_of(found, cell.operation, side, role)
        cost.own_us.append(statistics.mean(one.own for one in each) / count * 1e6)
        cost.kernel_us.append(statistics.mean(one.kernel for one in each) / count * 1e6)
        cost.disk_us.append(statistics.mean(one.disk for one in each) / count * 1e6)
        cost.syncs.append(statistics.mean(one.syncs for one in each) / count)
    return result.p50_us


def used(member: ZooKeeperMember, syncs: Path) -> Used:
    calls, nanoseconds = struct.unpack("=QQ", (syncs / str(member.pid)).read_bytes())
    own, kernel = user_and_system_seconds(member.pid)
    return Used(own, kernel, nanoseconds / 1e9, calls)


def _between(before: Used, after: Used) -> Used:
    return Used(
        after.own - before.own, after.kernel - before.kernel, after.disk - before.disk, after.syncs - before.syncs
    )


def _latency_of(found: Shares, operation: str) -> Latency:
    for latency in found.latencies:
        if latency.operation == operation:
            return latency
    found.latencies.append(Latency(operation))
    return found.latencies[-1]


def _cost_of(found: Shares, operation: str, side: str, role: str) -> Cost:
    for cost in found.costs:
        if (cost.operation, cost.side, cost.role) == (operation, side, role):
            return cost
    found.costs.append(Cost(operation, side, role))
    return found.costs[-1]
