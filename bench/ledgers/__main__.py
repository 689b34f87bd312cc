"""Bookies of zab beside those of BookKeeper, driven by the same clients in turns.

    python -m bench.ledgers [--rounds N] [--seconds S] [--cells PATTERN ...] [--quick] [--no-page]

Three bookies of each kind run on loopback, with their metadata on members of zab. In each round every cell is run on
both; the side that begins changes from round to round. Then bookies are started again, and ledgers are taken over. The
result is written to bench/LEDGERS.md.
It needs Java and Maven; without them it says so.
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

from bench.ledgers import moments
from bench.ledgers.cells import CELLS, Cell, run
from bench.ledgers.page import PAGE, TARGET, Comparison, Measured, markdown
from bench.ledgers.sides import Side, sides
from bench.machine import command, commit, say, system, versions
from bench.moments import Moments
from bench.table import write_page

WARMUP_SECONDS = 5.0
Moment = tuple[str, str, Callable[[Side], float]]
MOMENTS: Sequence[Moment] = (
    ("resident memory of a bookie after the load", "MiB", moments.memory_mib),
    ("start after SIGTERM, until it is registered", "s", partial(moments.start_seconds, is_killed=False)),
    ("start after `kill -9`, until it is registered", "s", partial(moments.start_seconds, is_killed=True)),
    ("recovery of a ledger with 1,000 entries, to the first append of the next one", "s", moments.takeover_seconds),
)


def main() -> int:
    options = _options()
    comparison = Comparison([system(), versions(), commit(), command("bench.ledgers", options.rounds, options.seconds)])
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as directory,
        sides(Path(directory)) as both,
    ):
        _measure(comparison, both, [cell for cell in CELLS if _is_wanted(cell, options.cells)], options)
        _look(comparison, both, MOMENTS if options.moments else (), options.rounds)
    text = markdown(comparison)
    print(text)
    if options.page:
        write_page(PAGE, text, TARGET)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.ledgers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run (5)")
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns such as 'java:*' or 'python:v2:1000'")
    parser.add_argument("--quick", action="store_true", help="one short round, a look and not a measurement")
    parser.add_argument("--no-moments", dest="moments", action="store_false", help="no starts, memory and takeovers")
    parser.add_argument("--no-page", dest="page", action="store_false", help="leave bench/LEDGERS.md alone")
    parser.add_argument("--directory", help="where the bookies keep their data (a temporary directory)")
    options = parser.parse_args()
    options.warmup_seconds = WARMUP_SECONDS
    if options.quick:
        options.rounds, options.seconds, options.warmup_seconds, options.page = 1, 8.0, 8.0, False
    return options


def _is_wanted(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatch(cell.key, pattern) for pattern in patterns)


def _measure(comparison: Comparison, both: Sequence[Side], cells: Sequence[Cell], options: argparse.Namespace) -> None:
    measured = [Measured(cell) for cell in cells]
    comparison.cells += measured
    for side in both:
        # A virtual machine compiles what runs often.
        for cell in cells[:1]:
            run(cell, side, options.warmup_seconds)
    for turn in range(options.rounds):
        for each in measured:
            results = {}
            for side in both if turn % 2 == 0 else both[::-1]:
                # Writes that the run before left to the disk must not slow down this one.
                os.sync()
                results[side.name] = run(each.cell, side, options.seconds)
            each.theirs.append(results["BookKeeper"])
            each.ours.append(results["zab"])
            rates = " against ".join(f"{results[name].per_second:,.0f}" for name in ("zab", "BookKeeper"))
            say(f"round {turn + 1}: {each.cell.title}: {rates}")


def _look(comparison: Comparison, both: Sequence[Side], figures: Sequence[Moment], rounds: int) -> None:
    for title, unit, measure in figures:
        found = Moments(title, unit)
        comparison.moments.append(found)
        for _ in range(rounds):
            for side, figure in zip(both, (found.theirs, found.ours), strict=True):
                figure.append(measure(side))
        say(f"{title}: {found.ours[-1]:,.3f} against {found.theirs[-1]:,.3f} {unit}")


if __name__ == "__main__":
    sys.exit(main())
