"""What the secret of members and TLS cost: the ways of `bench.kinds` beside each other, driven in turns.

    python -m bench.secure [--rounds N] [--seconds S] [--operations N] [--cells PATTERN ...] [--no-readme]

Three ensembles of three members run on loopback for the whole time, and one of them at a time is under load. In each
round every cell is run in every way, and each round begins with another one. A ratio is by the one without secret and
TLS. Then the calls of an operation are counted by members of their own (`bench.calls`). The result is written to
bench/README.md.
Everything started here is ended here, by its process id, whatever happens.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import platform
import ssl
import statistics
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.calls import OPERATIONS, Counted, counted_calls
from bench.cells import Cell, Result, run_load
from bench.kinds import KINDS, Side, sides
from bench.machine import command, commit, say, system
from bench.table import Beside, ratio_table, write_readme

CELLS = (
    Cell("set", 1, 1, "leader"),
    Cell("set", 30, 100, "all"),
    Cell("get", 1, 1, "leader"),
    Cell("get", 30, 100, "all"),
)
WARMUP_SECONDS = 1.0
RUN_WARMUP_SECONDS = 0.3
TARGET = "make bench-secure"


def main() -> int:
    options = _options()
    cells = [cell for cell in CELLS if any(fnmatch.fnmatch(cell.key, pattern) for pattern in options.cells)]
    if not cells:
        sys.exit(f"bench.secure: no cell is one of {', '.join(options.cells)}")
    versions = f"Python {platform.python_version()}; {ssl.OPENSSL_VERSION}"
    run = command("bench.secure", options.rounds, options.seconds)
    lines = [system(), versions, commit(), run]
    measured = [Beside(cell, {kind: [] for kind in KINDS}) for cell in cells]
    with tempfile.TemporaryDirectory(prefix="secure-") as directory, sides(Path(directory)) as found:
        for side in found:
            for cell in cells:
                _run(side, cell, WARMUP_SECONDS)
        for turn in range(options.rounds):
            _measure_round(turn, measured, found, options.seconds)
    parts = ["\n".join(f"- {line}" for line in lines), ratio_table(measured)]
    if options.operations:
        say("counting calls")
        parts.append(calls_table(counted_calls(KINDS, options.operations)))
    text = "\n\n".join(parts) + "\n"
    print(text)
    if options.readme:
        write_readme(text, TARGET)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.secure", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run (2)")
    counted = f"of each connection while calls are counted ({OPERATIONS}); 0: none are"
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=counted)
    parser.add_argument("--cells", nargs="+", default=["*"], help="patterns such as 'set:*' or '*:1x1:leader'")
    parser.add_argument("--no-readme", dest="readme", action="store_false", help="leave bench/README.md alone")
    return parser.parse_args()


def _measure_round(turn: int, measured: Iterable[Beside], found: list[Side], seconds: float) -> None:
    first = turn % len(found)
    for beside in measured:
        for side in [*found[first:], *found[:first]]:
            # Writes that the run before left to the disk must not slow down this one.
            os.sync()
            beside.runs[side.kind].append(_run(side, beside.cell, seconds))
        rates = ", ".join(f"{kind} {results[-1].per_second:,.0f}" for kind, results in beside.runs.items())
        say(f"round {turn + 1}: {beside.cell.title}: {rates}")


def _run(side: Side, cell: Cell, seconds: float) -> Result:
    warmup_seconds = min(RUN_WARMUP_SECONDS, seconds)
    return run_load(side.hosts(cell), cell, seconds=seconds, warmup_seconds=warmup_seconds, options=side.options)


def calls_table(counts: Iterable[Counted]) -> str:
    """A row for each cell and role, a column for each way: Python's calls and C's. Of followers, the mean, and of
    writes alone: they have no part in a read that the leader answers."""
    found: dict[tuple[str, str], dict[str, list[Counted]]] = {}
    for each in counts:
        if each.role == "leader" or each.cell.operation == "set":
            found.setdefault((each.cell.title, each.role), {}).setdefault(each.kind, []).append(each)
    kinds = list(next(iter(found.values())))
    rows = [f"| calls each operation, Python's · C's | member | {' | '.join(kinds)} |"]
    rows.append(f"|---|---|{'---:|' * len(kinds)}")
    for (title, role), by_kind in sorted(found.items(), key=lambda row: row[0][1] != "leader"):
        columns = " | ".join(f"{_python(by_kind[kind]):,.1f} · {_native(by_kind[kind]):,.1f}" for kind in kinds)
        rows.append(f"| {title} | {role} | {columns} |")
    return "\n".join(rows)


def _python(counts: Iterable[Counted]) -> float:
    return statistics.mean(each.python for each in counts)


def _native(counts: Iterable[Counted]) -> float:
    return statistics.mean(each.native for each in counts)


if __name__ == "__main__":
    sys.exit(main())
