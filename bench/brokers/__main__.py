"""Brokers of zab beside those of Kafka 3.9.1, driven by one generator in turns.

    python -m bench.brokers [--rounds N] [--seconds S] [--cells PATTERN ...] [--quick] [--no-page]

First one broker of each kind runs, then three of each, all on loopback, with their znodes on members of zab. In each
round every cell is run on both; the side that begins changes from round to round. Then brokers are started again, and
leaders are ended. The result is written to bench/BROKERS.md.
It needs a C compiler, Java and Maven; without them it says so.
Everything started here is ended here, by its process id, whatever happens.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.brokers import moments
from bench.brokers.cells import ONE_BROKER, THREE_BROKERS, Cell, prepare, run
from bench.brokers.page import PAGE, TARGET, Comparison, Measured, markdown
from bench.brokers.sides import Side, sides
from bench.machine import command, commit, say, system, versions
from bench.moments import Moments
from bench.table import write_page

WARMUP_SECONDS = 8.0
BROKERS = 3
Moment = tuple[str, str, Callable[[Side], float]]

ONE: Sequence[Moment] = (
    ("resident memory after the load", "MiB", moments.memory_mib),
    ("start after SIGTERM, to the first write", "s", partial(moments.start_seconds, is_killed=False)),
    ("start after `kill -9`, to the first write", "s", partial(moments.start_seconds, is_killed=True)),
    ("the same with a gigabyte that was not synced", "s", moments.recovery_seconds),
)
THREE: Sequence[Moment] = (
    ("resident memory of one of three after the load", "MiB", moments.memory_mib),
    ("processor of one of three that are idle, with 1,000 partitions", "%", moments.idle_percent),
    ("SIGTERM of the leader to the next write, acks=all", "s", partial(moments.failover_seconds, is_killed=False)),
    ("`kill -9` of the leader to the next write, acks=all", "s", partial(moments.failover_seconds, is_killed=True)),
)


def main() -> int:
    options = _options()
    comparison = Comparison([system(), versions(), commit(), command("bench.brokers", options.rounds, options.seconds)])
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as directory:
        for count, cells, figures in ((1, ONE_BROKER, ONE), (BROKERS, THREE_BROKERS, THREE)):
            with sides(Path(directory), count) as both:
                _measure(comparison, both, [cell for cell in cells if _is_wanted(cell, options.cells)], options)
                _look(comparison, both, figures if options.moments else (), options.rounds)
    text = markdown(comparison)
    print(text)
    if options.page:
        write_page(PAGE, text, TARGET)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.brokers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run (2)")
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns such as 'fetch:*' or 'produce:148:*'")
    parser.add_argument("--quick", action="store_true", help="one short round, a look and not a measurement")
    parser.add_argument("--no-moments", dest="moments", action="store_false", help="no starts, memory and failovers")
    parser.add_argument("--no-page", dest="page", action="store_false", help="leave bench/BROKERS.md alone")
    parser.add_argument("--directory", help="where the brokers keep their data (a temporary directory)")
    options = parser.parse_args()
    options.warmup_seconds = WARMUP_SECONDS
    if options.quick:
        options.rounds, options.seconds, options.warmup_seconds, options.page = 1, 1.0, 1.0, False
    return options


def _is_wanted(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(cell.key, pattern) for pattern in patterns)


def _measure(comparison: Comparison, both: Sequence[Side], cells: Sequence[Cell], options: argparse.Namespace) -> None:
    measured = [Measured(cell) for cell in cells]
    comparison.cells += measured
    for side in both:
        for cell in cells:
            prepare(cell, side)
            # A virtual machine compiles what runs often.
            run(cell, side, options.warmup_seconds / len(cells))
    for turn in range(options.rounds):
        for each in measured:
            results = {}
            for side in both if turn % 2 == 0 else both[::-1]:
                # Writes that the run before left to the disk must not slow down this one.
                os.sync()
                results[side.name] = run(each.cell, side, options.seconds)
            each.kafka.append(results["Kafka"])
            each.ours.append(results["zab"])
            rates = " against ".join(f"{results[name].per_second:,.0f}" for name in ("zab", "Kafka"))
            say(f"round {turn + 1}: {each.cell.title}: {rates}")


def _look(comparison: Comparison, both: Sequence[Side], figures: Sequence[Moment], rounds: int) -> None:
    for side in both:
        replicas = len(side.brokers)
        side.create_topic(moments.TOPIC, 1, replicas, {"min.insync.replicas": str(min(2, replicas))})
    for title, unit, measure in figures:
        found = Moments(title, unit)
        comparison.moments.append(found)
        for _ in range(rounds):
            for side, figure in zip(both, (found.theirs, found.ours), strict=True):
                figure.append(measure(side))
        say(f"{title}: {found.ours[-1]:,.3f} against {found.theirs[-1]:,.3f} {unit}")


if __name__ == "__main__":
    sys.exit(main())
