"""From measurements to bench/BROKERS.md: medians over the rounds, and ratios of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.brokers.cells import Cell, Result
from bench.moments import Moments, moments_table
from bench.table import quartiles

PAGE = Path(__file__).parents[1] / "BROKERS.md"
TARGET = "make bench-brokers"


@dataclass
class Measured:
    """The runs of one cell, round by round."""

    cell: Cell
    kafka: list[Result] = field(default_factory=list)
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
        parts.append(moments_table("Kafka", comparison.moments))
    return "\n\n".join(parts) + "\n"


def _cells(cells: Sequence[Measured]) -> str:
    rows = [
        "| connections x in flight | Kafka/s | zab/s | ratio (quartiles) | MB/s | by processor | p50 µs | p99 µs |",
        "|---|---:|---:|---|---:|---|---:|---:|",
    ]
    for measured in cells:
        theirs, ours = measured.kafka, measured.ours
        first, median, third = quartiles(
            [mine.per_second / other.per_second for mine, other in zip(ours, theirs, strict=True)]
        )
        by_cpu = [_by_cpu(mine) / _by_cpu(other) for mine, other in zip(ours, theirs, strict=True)]
        errors = sum(one.errors for one in (*theirs, *ours))
        rows.append(
            f"| {measured.cell.title}{f' ({errors} errors)' if errors else ''} "
            f"| {_median(theirs, lambda one: one.per_second):,.0f} | {_median(ours, lambda one: one.per_second):,.0f} "
            f"| **{median:.2f}** ({first:.2f}-{third:.2f}) | {_both(measured, lambda one: one.bytes_per_second / 1e6)} "
            f"| **{statistics.median(by_cpu):.2f}** | {_both(measured, lambda one: one.p50_us)} "
            f"| {_both(measured, lambda one: one.p99_us)} |"
        )
    return "\n".join(rows)


def _by_cpu(result: Result) -> float:
    """Requests for each second of the brokers' processors; the kernel counts those in hundredths."""
    return result.per_second / max(result.cpu, 0.01)


def _both(measured: Measured, of: Callable[[Result], float]) -> str:
    return f"{_median(measured.kafka, of):,.0f} · {_median(measured.ours, of):,.0f}"


def _median(results: Sequence[Result], of: Callable[[Result], float]) -> float:
    return statistics.median(map(of, results))
