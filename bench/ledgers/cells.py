"""What is measured of bookies under load: the cells, and one run of a client for one of them.

A cell is a client (BookKeeper's own benchmark, or ours), a version of the protocol and the appends under way. Entries
have 1 KiB, each is written to all three bookies and acknowledged by two.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ledgers.sides import COUNT, Side
from bench.process_tree import user_and_system_seconds
from tests.downloads.bookkeeper import benchmark_jars

ENTRY_BYTES = 1_024
_ACK = 2
_RUN_SECONDS = 300.0
_NO_RATE = 1_000_000
_SUMMARY = re.compile(r"(\d+) completions in (\d+) milliseconds")
_MAIN = "org.apache.bookkeeper.benchmark.BenchThroughputLatency"


@dataclass(frozen=True)
class Cell:
    """`client`: java or python. `rate`: entries a second that are offered, whatever is acknowledged; 0: `window` are
    under way all the time. BookKeeper's benchmark has no window: without a rate it sends as fast as it can."""

    client: str
    protocol: str
    window: int = 0
    rate: int = 0

    @property
    def key(self) -> str:
        """How `--cells` names it."""
        return f"{self.client}:{self.protocol}:{f'{self.rate}/s' if self.rate else self.window}"

    @property
    def title(self) -> str:
        client = "BookKeeper's client" if self.client == "java" else "zab's client"
        load = f"{self.rate:,} a second" if self.rate else f"{self.window:,} under way"
        load = load if self.rate or self.window else "as fast as it can"
        return f"{client}, {self.protocol}, {load}"


@dataclass(frozen=True)
class Result:
    """One run: entries a second, latencies in microseconds, the processor time of the bookies in seconds a second."""

    per_second: float
    p50_us: float
    p99_us: float
    cpu: float


CELLS = (
    Cell("java", "v2"),
    Cell("java", "v3"),
    Cell("java", "v2", rate=1_000),
    Cell("python", "v2", 1_000),
    Cell("python", "v2", 1),
    Cell("python", "v2", rate=5_000),
)


def run(cell: Cell, side: Side, seconds: float) -> Result:
    """One run of so many seconds, on a new ledger. Raises CalledProcessError where the client fails."""
    before = _cpu_seconds(side)
    answer = (_java if cell.client == "java" else _python)(cell, side, seconds)
    cpu = (_cpu_seconds(side) - before) / answer["seconds"]
    return Result(answer["per_second"], answer["p50_us"], answer["p99_us"], cpu)


def _python(cell: Cell, side: Side, seconds: float) -> dict[str, Any]:
    load = ("--rate", str(cell.rate)) if cell.rate else ("--window", str(cell.window))
    options = ("--hosts", side.hosts, "--seconds", str(seconds), "--protocol", cell.protocol, *load)
    command = [sys.executable, "-m", "bench.ledgers.load", *options, "--size", str(ENTRY_BYTES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=_RUN_SECONDS)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _java(cell: Cell, side: Side, seconds: float) -> dict[str, Any]:
    """BookKeeper's benchmark. Its latencies, in nanoseconds, are in a file, in their order."""
    quorums = ("-ensemble", str(COUNT), "-quorum", str(COUNT), "-ackQuorum", str(_ACK))
    load = ("-time", str(max(1, round(seconds))), "-throttle", str(cell.rate or _NO_RATE), "-skipwarmup")
    protocol = ("-useV2",) if cell.protocol == "v2" else ()
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        latencies = Path(directory) / "latencies"
        options = ("-zookeeper", side.hosts, "-entrysize", str(ENTRY_BYTES), *quorums, *load, *protocol)
        command = ["java", "-Xmx512m", "-classpath", f"{benchmark_jars()}/*", _MAIN, *options]
        command += ["-latencyFile", str(latencies)]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=_RUN_SECONDS)
        found = _SUMMARY.search(done.stdout)
        if found is None or found[1] == "0":
            raise RuntimeError(f"BookKeeper's benchmark says: {done.stdout[-2000:]}")
        times = [int(line.split()[0]) / 1e3 for line in latencies.read_text().splitlines()]
    entries, whole = int(found[1]), int(found[2]) / 1e3
    p50, p99 = (times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    return {"per_second": entries / whole, "seconds": whole, "p50_us": p50, "p99_us": p99}


def _cpu_seconds(side: Side) -> float:
    return sum(sum(user_and_system_seconds(bookie.pid)) for bookie in side.bookies)
