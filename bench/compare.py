"""The benchmark: three of our members and, beside them, three of the real ZooKeeper, driven by one generator in turns.

    python -m bench.compare [--rounds N] [--seconds S] [--cells PATTERN ...] [--quick] [--against-itself] [--no-readme]

Both ensembles run on loopback for the whole time, with the same zoo.cfg (`maxClientCnxns=0`), ZooKeeper with -Xmx512m.
Both are warmed up with 12 s of load. In each round every cell is run on both. The side that begins changes from round
to round, so that what happens to the machine happens to both. Memory is read after the start and one minute after the
last load; then leaders are killed. The result is written to bench/README.md and bench/build/comparison.json.

`--against-itself` puts ZooKeeper on both sides: the ratios then show what the method adds of its own.
Everything started here is ended here, by its process id, whatever happens.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.cells import BUILD, Result, all_cells, echo_ceiling, hosts_of, run_load, warm_up
from bench.failover import measure_failover
from bench.machine import command, commit, say, system, versions
from bench.process_tree import resident_mib
from bench.table import Comparison, Measured, markdown, write_readme
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper

HEAP_MB = 512
MEMBERS = 3
WARMUP_SECONDS = 12.0
FRESH_SECONDS = 5.0
AFTER_LOAD_SECONDS = 60.0
RUN_WARMUP_SECONDS = 0.3


def main() -> int:
    options = _options()
    sides: list[ZooKeeperEnsemble] = []
    comparison = Comparison(_machine(options))
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory)))
        stack.callback(_save, comparison)
        sides.append(stack.enter_context(zookeeper(MEMBERS, directory=directory / "zookeeper", heap_mb=HEAP_MB)))
        sides.append(stack.enter_context(_ours(options, directory / "ours")))
        time.sleep(FRESH_SECONDS)
        _read_memory(comparison, "freshly started", sides)
        say(f"warming up, {options.warmup_seconds:.0f} s each")
        for side in sides:
            warm_up(side.hosts, options.warmup_seconds)
        _measure_cells(comparison, sides, options)
        say(f"waiting {options.after_load_seconds:.0f} s before memory is read")
        time.sleep(options.after_load_seconds)
        _read_memory(comparison, f"{options.after_load_seconds:.0f} s after the load", sides)
        _measure_failover(comparison, sides, options.failovers)
    names = ("ZooKeeper", "ZooKeeper again" if options.against_itself else "zab")
    text = markdown(comparison, *names)
    print(text)
    if options.readme:
        write_readme(text)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run (2)")
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns such as 'set:*' or '*:1x1:leader'")
    parser.add_argument("--failovers", type=int, default=5, help="leaders killed on each side (5)")
    parser.add_argument("--quick", action="store_true", help="one short round, a look and not a measurement")
    parser.add_argument("--against-itself", action="store_true", help="ZooKeeper on both sides")
    parser.add_argument("--no-readme", dest="readme", action="store_false", help="leave bench/README.md alone")
    parser.add_argument("--directory", help="where the servers keep their data (a temporary directory)")
    options = parser.parse_args()
    options.warmup_seconds, options.after_load_seconds = WARMUP_SECONDS, AFTER_LOAD_SECONDS
    if options.quick:
        options.rounds, options.seconds, options.failovers = 1, 1.0, min(options.failovers, 1)
        options.after_load_seconds, options.readme = FRESH_SECONDS, False
    return options


def _ours(options: argparse.Namespace, directory: Path) -> contextlib.AbstractContextManager[ZooKeeperEnsemble]:
    if options.against_itself:
        return zookeeper(MEMBERS, directory=directory, heap_mb=HEAP_MB)
    return zab_servers(MEMBERS, directory=directory)


def _measure_cells(comparison: Comparison, sides: list[ZooKeeperEnsemble], options: argparse.Namespace) -> None:
    cells = [cell for cell in all_cells() if any(fnmatch.fnmatch(cell.key, pattern) for pattern in options.cells)]
    comparison.cells = [Measured(cell, ceiling=echo_ceiling(cell, seconds=0.5)) for cell in cells]
    for turn in range(options.rounds):
        for measured in comparison.cells:
            results: dict[int, Result] = {}
            for index in (0, 1) if turn % 2 == 0 else (1, 0):
                hosts = hosts_of(measured.cell, sides[index])
                # Writes that the run before left to the disk must not slow down this one.
                os.sync()
                results[index] = run_load(
                    hosts, measured.cell, seconds=options.seconds, warmup_seconds=RUN_WARMUP_SECONDS
                )
            measured.zookeeper.append(results[0])
            measured.ours.append(results[1])
            rates = " against ".join(f"{results[index].per_second:,.0f}" for index in (1, 0))
            say(f"round {turn + 1}: {measured.cell.title}: {rates}, {measured.ratios()[-1]:.2f}")


def _measure_failover(comparison: Comparison, sides: list[ZooKeeperEnsemble], count: int) -> None:
    for turn in range(count):
        for side, found in zip(sides, comparison.failover_seconds, strict=True):
            found.append(measure_failover(side))
        times = " against ".join(f"{found[-1]:.3f} s" for found in comparison.failover_seconds[::-1])
        say(f"failover {turn + 1}: {times}")


def _read_memory(comparison: Comparison, moment: str, sides: list[ZooKeeperEnsemble]) -> None:
    theirs, ours = ([resident_mib(member.pid) for member in side.members] for side in sides)
    comparison.memory_mib[moment] = (theirs, ours)
    say(f"memory {moment}: {[round(mib) for mib in ours]} against {[round(mib) for mib in theirs]} MiB")


def _machine(options: argparse.Namespace) -> list[str]:
    return [system(), versions(), commit(), command("bench.compare", options.rounds, options.seconds)]


def _save(comparison: Comparison) -> None:
    """What was found so far, also when the run was interrupted."""
    (BUILD / "comparison.json").write_text(json.dumps(dataclasses.asdict(comparison), indent=1))


if __name__ == "__main__":
    sys.exit(main())
