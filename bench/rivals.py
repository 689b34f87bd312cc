"""Servers of zab beside those of another system: stages of cells and of moments, driven by one load in turns.

In each round every cell is run on both sides; the side that begins changes from round to round. Then the moments are
measured, as often. `bench.brokers` and `bench.ledgers` are such benchmarks.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from bench.machine import command, commit, say, system, versions
from bench.moments import Moments, moments_table
from bench.table import write_page

OURS = "zab"


@dataclass
class Measured:
    """The runs of one cell, round by round: of the other system and of ours. A cell has a `key` for `--cells` and a
    `title` for the page; a result at least `per_second`, and the `cpu` of the servers in seconds a second."""

    cell: Any
    theirs: list[Any] = field(default_factory=list)
    ours: list[Any] = field(default_factory=list)

    @property
    def rounds(self) -> list[tuple[Any, Any]]:
        """Ours and theirs."""
        return list(zip(self.ours, self.theirs, strict=True))

    def ratios(self) -> list[float]:
        """Ours by theirs, round by round."""
        return [mine.per_second / other.per_second for mine, other in self.rounds]

    def ratio_by_processor(self) -> float:
        """The median of the same for each second of the servers' processors."""
        return statistics.median(_by_cpu(mine) / _by_cpu(other) for mine, other in self.rounds)

    def both(self, of: Callable[[Any], float]) -> str:
        """The medians of theirs and of ours."""
        return f"{median(self.theirs, of)} · {median(self.ours, of)}"


def median(results: Sequence[Any], of: Callable[[Any], float]) -> str:
    """The median in the form of the tables."""
    return f"{statistics.median(map(of, results)):,.0f}"


def _by_cpu(result: Any) -> float:
    """The kernel counts a processor's seconds in hundredths."""
    return result.per_second / max(result.cpu, 0.01)


@dataclass
class Comparison:
    """All that one run found."""

    machine: list[str]
    cells: list[Measured] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """Where the result goes. target: of `make`. other: the other system. table: of the cells."""

    path: Path
    target: str
    other: str
    table: Callable[[Sequence[Measured]], str]

    def markdown(self, comparison: Comparison) -> str:
        """What a run writes into the page."""
        parts = ["\n".join(f"- {line}" for line in comparison.machine)]
        if comparison.cells:
            parts.append(self.table(comparison.cells))
        if comparison.moments:
            parts.append(moments_table(self.other, comparison.moments))
        return "\n\n".join(parts) + "\n"


Moment: TypeAlias = tuple[str, str, Callable[[Any], float]]
"""A title, a unit (s, MiB or %), and what measures it on a side."""


@dataclass(frozen=True)
class Stage:
    """Both sides, theirs first, and what is measured on them. sides: in a directory."""

    sides: Callable[[Path], AbstractContextManager[Sequence[Any]]]
    cells: Sequence[Any]
    moments: Sequence[Moment]


@dataclass(frozen=True)
class Rivals:
    """A benchmark. run: a cell on a side for so many seconds. warm_up: all cells on a side, so many seconds in all.
    seconds, warm_up_seconds, quick_seconds: of each run, before the first one, and of both with `--quick`. description,
    servers, patterns, moments: for its help."""

    module: str
    description: str
    servers: str
    patterns: str
    moments: str
    page: Page
    stages: Sequence[Stage]
    run: Callable[[Any, Any, float], Any]
    warm_up: Callable[[Sequence[Any], Any, float], object]
    seconds: float
    warm_up_seconds: float
    quick_seconds: float


def main(rivals: Rivals) -> int:
    """The program."""
    options = _options(rivals)
    machine = [system(), versions(), commit(), command(rivals.module, options.rounds, options.seconds)]
    comparison = Comparison(machine)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.directory) as directory:
        for stage in rivals.stages:
            with stage.sides(Path(directory)) as both:
                _measure(rivals, comparison, both, stage.cells, options)
                _look(comparison, both, stage.moments if options.moments else (), options.rounds)
    text = rivals.page.markdown(comparison)
    print(text)
    if options.page:
        write_page(rivals.page.path, text, rivals.page.target)
    return 0


def _options(rivals: Rivals) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {rivals.module}", description=rivals.description)
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (5)")
    parser.add_argument("--seconds", type=float, default=rivals.seconds, help=f"of each run ({rivals.seconds:g})")
    parser.add_argument("--cells", nargs="+", default=["*"], help=f"patterns such as {rivals.patterns}")
    parser.add_argument("--quick", action="store_true", help="one short round, a look and not a measurement")
    parser.add_argument("--no-moments", dest="moments", action="store_false", help=f"no {rivals.moments}")
    page = f"bench/{rivals.page.path.name}"
    parser.add_argument("--no-page", dest="page", action="store_false", help=f"leave {page} alone")
    parser.add_argument("--directory", help=f"where the {rivals.servers} keep their data (a temporary directory)")
    options = parser.parse_args()
    options.warm_up_seconds = rivals.warm_up_seconds
    if options.quick:
        options.rounds, options.page = 1, False
        options.seconds = options.warm_up_seconds = rivals.quick_seconds
    return options


def _measure(
    rivals: Rivals, comparison: Comparison, both: Sequence[Any], cells: Sequence[Any], options: argparse.Namespace
) -> None:
    wanted = [cell for cell in cells if any(fnmatch.fnmatch(cell.key, pattern) for pattern in options.cells)]
    measured = [Measured(cell) for cell in wanted]
    comparison.cells += measured
    for side in both:
        # A virtual machine compiles what runs often.
        rivals.warm_up(wanted, side, options.warm_up_seconds)
    for turn in range(options.rounds):
        for each in measured:
            results = {}
            for side in both if turn % 2 == 0 else both[::-1]:
                # Writes that the run before left to the disk must not slow down this one.
                os.sync()
                results[side.name] = rivals.run(each.cell, side, options.seconds)
            each.theirs.append(results[rivals.page.other])
            each.ours.append(results[OURS])
            rates = " against ".join(f"{results[name].per_second:,.0f}" for name in (OURS, rivals.page.other))
            say(f"round {turn + 1}: {each.cell.title}: {rates}")


def _look(comparison: Comparison, both: Sequence[Any], moments: Sequence[Moment], rounds: int) -> None:
    for title, unit, measure in moments:
        found = Moments(title, unit)
        comparison.moments.append(found)
        for _ in range(rounds):
            for side, figure in zip(both, (found.theirs, found.ours), strict=True):
                figure.append(measure(side))
        say(f"{title}: {found.ours[-1]:,.3f} against {found.theirs[-1]:,.3f} {unit}")
