"""From the figures to the page: what stands between the marks of `make bench-curves` in bench/CURVES.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.curves.figures import SIDES, THEMES, ZAB, ZOOKEEPER, Cost, Curve, Figures, Latency, Point, Series, Shares
from bench.table import ratio_text

PAGE = Path(__file__).parents[1] / "CURVES.md"
TARGET = "make bench-curves"
DIRECTORY = "curves"
STEADY = 0.1
"""What differs by less from the first is called the same."""


def page(figures: Figures) -> str:
    """All of it, written anew by each run."""
    parts = []
    runs = {tuple(curve.run) for curve in figures.curves}
    if figures.shares is not None:
        runs.add(tuple(figures.shares.run))
    if len(runs) == 1:
        parts.append(_lines(next(iter(runs))))
    for curve in figures.curves:
        parts += _section(curve, is_own_run=len(runs) > 1)
    if figures.shares is not None:
        parts += _shares(figures.shares, is_own_run=len(runs) > 1)
    return "\n\n".join(parts) + "\n"


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _section(curve: Curve, *, is_own_run: bool) -> Iterator[str]:
    light, dark = (f"{DIRECTORY}/{curve.drawing(theme)}" for theme in THEMES)
    yield f"## {curve.title}"
    yield (
        "<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="{dark}">\n'
        f'  <img alt="{curve.title}: ZooKeeper and zab by the number of {curve.across}" src="{light}">\n'
        "</picture>"
    )
    yield _lines([sentence(curve, series) for series in curve.series if curve.points_of(series)])
    if is_own_run:
        yield _lines(curve.run)
    yield _table(curve)


def sentence(curve: Curve, series: Series) -> str:
    """What one series of a curve shows."""
    points = curve.points_of(series)
    first, last = points[0], points[-1]
    ours = f"zab's is {first.ratio:.2f} of ZooKeeper's at {first.x:,}"
    if first is last:
        return f"**{series.name}**, {series.unit}: {ours} {curve.across}."
    growth = f"ZooKeeper's {_change(first, last, ZOOKEEPER)} and zab's {_change(first, last, ZAB)}"
    return (
        f"**{series.name}**, {series.unit}: from {first.x:,} to {last.x:,} {curve.across}, {growth}; {ours} and "
        f"{last.ratio:.2f} at {last.x:,}."
    )


def _change(first: Point, last: Point, side: str) -> str:
    start, end = first.median(side), last.median(side)
    if start <= 0 or end <= 0:
        return f"goes from {_number(start)} to {_number(end)}"
    if abs(end / start - 1) < STEADY:
        return "stays the same"
    return f"grows to {end / start:.3g} times" if end > start else f"shrinks to {end / start:.2f} times"


def _table(curve: Curve) -> str:
    rows = [f"| {curve.across} | | ZooKeeper | zab | ratio (quartiles) |", "|---:|---|---:|---:|---|"]
    for series in curve.series:
        for point in curve.points_of(series):
            medians = " | ".join(_number(point.median(side)) for side in SIDES)
            rows.append(f"| {point.x:,} | {series.name}, {series.unit} | {medians} | {ratio_text(point.ratios())} |")
    return "\n".join(rows)


def _number(value: float) -> str:
    """Three digits at least."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _shares(shares: Shares, *, is_own_run: bool) -> Iterator[str]:
    yield "## Where the time of a single operation goes"
    yield _lines([_distance(latency) for latency in shares.latencies])
    if is_own_run:
        yield _lines(shares.run)
    rows = ["| one in flight, on the leader | floor, p50 µs | ZooKeeper | zab | ratio (quartiles) |"]
    rows.append("|---|---:|---:|---:|---|")
    for latency in shares.latencies:
        floor, theirs, mine = map(statistics.median, (latency.floor, latency.zookeeper, latency.zab))
        ratios = [one / other for one, other in zip(latency.zab, latency.zookeeper, strict=True)]
        row = f"| {latency.operation} | {floor:,.0f} | {theirs:,.0f} ({theirs / floor:.1f} floors) "
        rows.append(f"{row}| {mine:,.0f} ({mine / floor:.1f} floors) | {ratio_text(ratios)} |")
    yield "\n".join(rows)
    rows = ["| an operation | member | own code µs | kernel µs | disk µs | syncs | own code · kernel · disk |"]
    rows.append("|---|---|---:|---:|---:|---:|---:|")
    yield "\n".join([*rows, *map(_cost, shares.costs)])


def _distance(latency: Latency) -> str:
    floor, theirs, mine = map(statistics.median, (latency.floor, latency.zookeeper, latency.zab))
    least = "answers and syncs once" if latency.operation == "set" else "only answers"
    ours = f"A single {latency.operation} takes ZooKeeper {theirs / floor:.1f} and zab {mine / floor:.1f} times as long"
    return f"{ours} as a server that {least}."


def _cost(cost: Cost) -> str:
    parts = [statistics.median(values) for values in (cost.own_us, cost.kernel_us, cost.disk_us)]
    total = sum(parts)
    of_all = " · ".join(f"{part / total:.0%}" if total else "-" for part in parts)
    name = "zab" if cost.side == ZAB else "ZooKeeper"
    columns = " | ".join(f"{part:,.0f}" for part in parts)
    syncs = statistics.median(cost.syncs)
    return f"| {cost.operation} | {name}, {cost.role} | {columns} | {syncs:.2f} | {of_all} |"
