"""From measurements to bench/LEDGERS.md: medians over the rounds, and ratios of the same round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.rivals import Measured, Page, median
from bench.table import ratio_text

OTHER = "BookKeeper"


def table(cells: Sequence[Measured]) -> str:
    """A row for each cell."""
    rows = [
        f"| client, protocol, appends | {OTHER}/s | zab/s | ratio (quartiles) | by processor | p50 µs | p99 µs |",
        "|---|---:|---:|---|---:|---:|---:|",
    ]
    for measured in cells:
        rows.append(
            f"| {measured.cell.title} | {median(measured.theirs, lambda one: one.per_second)} "
            f"| {median(measured.ours, lambda one: one.per_second)} "
            f"| {ratio_text(measured.ratios())} | **{measured.ratio_by_processor():.2f}** "
            f"| {measured.both(lambda one: one.p50_us)} | {measured.both(lambda one: one.p99_us)} |"
        )
    return "\n".join(rows)


PAGE = Page(Path(__file__).parents[1] / "LEDGERS.md", "make bench-ledgers", OTHER, table)
