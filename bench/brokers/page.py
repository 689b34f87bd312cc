"""From measurements to bench/BROKERS.md: medians over the rounds, and ratios of the same round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.rivals import Measured, Page, median
from bench.table import ratio_text

OTHER = "Kafka"


def table(cells: Sequence[Measured]) -> str:
    """A row for each cell."""
    rows = [
        f"| connections x in flight | {OTHER}/s | zab/s | ratio (quartiles) | MB/s | by processor | p50 µs | p99 µs |",
        "|---|---:|---:|---|---:|---|---:|---:|",
    ]
    for measured in cells:
        errors = sum(one.errors for one in (*measured.theirs, *measured.ours))
        rows.append(
            f"| {measured.cell.title}{f' ({errors} errors)' if errors else ''} "
            f"| {median(measured.theirs, lambda one: one.per_second)} "
            f"| {median(measured.ours, lambda one: one.per_second)} "
            f"| {ratio_text(measured.ratios())} | {measured.both(lambda one: one.bytes_per_second / 1e6)} "
            f"| **{measured.ratio_by_processor():.2f}** | {measured.both(lambda one: one.p50_us)} "
            f"| {measured.both(lambda one: one.p99_us)} |"
        )
    return "\n".join(rows)


PAGE = Page(Path(__file__).parents[1] / "BROKERS.md", "make bench-brokers", OTHER, table)
