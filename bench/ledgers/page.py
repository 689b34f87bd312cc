"""From measurements to bench/LEDGERS.md: medians over the rounds, and ratios of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.ledgers.cells import Cell, Result
from bench.moments import Moments, moments_table
from bench.table import ratio_text

PAGE = Path(__file__).parents[1] / "LEDGERS.md"
TARGET = "make bench-ledgers"
OTHER = "BookKeeper"


@dataclass
class Measured:
    """The runs of one cell, round by round."""

    cell: Cell
    theirs: list[Result] = field(default_factory=list)
    ours: list[Result] = field(default_factory=list)


@dataclass
class Comparison:
    """All that one run found."""

    machine: list[str]
    cells: list[Measured] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)


def markdown(comparison: Comparison) -> str:
    """What a run writes into the page."""
    parts = ["\n".join(f"- {line}" for line in comparison.machine)]
    if comparison.cells:
        parts.append(_cells(comparison.cells))
    if comparison.moments:
        parts.append(moments_table(OTHER, comparison.moments))
    return "\n\n".join(parts) + "\n"


def _cells(cells: Sequence[Measured]) -> str:
    rows = [
        f"| client, protocol, appends | {OTHER}/s | zab/s | ratio (quartiles) | by processor | p50 µs | p99 µs |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    for measured in cells:
        rounds = list(zip(measured.ours, measured.theirs, strict=True))
        by_cpu = statistics.median(_by_cpu(mine) / _by_cpu(other) for mine, other in rounds)
        rows.append(
            f"| {measured.cell.title} | {_median(measured.theirs, lambda one: one.per_second)} "
            f"| {_median(measured.ours, lambda one: one.per_second)} "
            f"| {ratio_text([mine.per_second / other.per_second for mine, other in rounds])} | **{by_cpu:.2f}** "
            f"| {_both(measured, lambda one: one.p50_us)} | {_both(measured, lambda one: one.p99_us)} |"
        )
    return "\n".join(rows)


def _by_cpu(result: Result) -> float:
    """Entries for each second of the bookies' processors; the kernel counts those in hundredths."""
    return result.per_second / max(result.cpu, 0.01)


def _both(measured: Measured, of: Callable[[Result], float]) -> str:
    return f"{_median(measured.theirs, of)} · {_median(measured.ours, of)}"


def _median(results: Sequence[Result], of: Callable[[Result], float]) -> str:
    return f"{statistics.median(map(of, results)):,.0f}"
