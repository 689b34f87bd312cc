"""From measurements to the page: medians with quartiles, the tables, and their place in bench/README.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cells import Cell, Result

README = Path(__file__).parent / "README.md"


@dataclass
class Measured:
    """The runs of one cell, round by round: ZooKeeper's and ours, and the generator's ceiling (operations a second)."""

    cell: Cell
    zookeeper: list[Result] = field(default_factory=list)
    ours: list[Result] = field(default_factory=list)
    ceiling: float = 0.0

    def ratios(self) -> list[float]:
        """Ours by ZooKeeper's, round by round."""
        return [mine.per_second / theirs.per_second for mine, theirs in zip(self.ours, self.zookeeper, strict=True)]


@dataclass
class Comparison:
    """All that one run of the benchmark found. Memory in MiB a member, failover in seconds."""

    machine: list[str]
    cells: list[Measured] = field(default_factory=list)
    memory_mib: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    failover_seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))


@dataclass
class Beside:
    """The runs of one cell, round by round, by what was measured; the others are compared with the first."""

    cell: Cell
    runs: dict[str, list[Result]]

    def ratios(self, name: str) -> list[float]:
        """By the first, round by round."""
        first = next(iter(self.runs.values()))
        return [other.per_second / one.per_second for other, one in zip(self.runs[name], first, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """(first quartile, median, third quartile); of a single value, that value three times."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, median, third


def markdown(comparison: Comparison, left: str = "ZooKeeper", right: str = "zab") -> str:
    """The page's part that is written anew by each run."""
    parts = ["\n".join(f"- {line}" for line in comparison.machine)]
    if comparison.cells:
        parts.append(_speed(comparison.cells, left, right))
    if comparison.memory_mib:
        parts.append(_memory(comparison.memory_mib, left, right))
    if comparison.failover_seconds[0]:
        parts.append(_failover(comparison.failover_seconds, left, right))
    return "\n\n".join(parts) + "\n"


def write_readme(text: str, target: str = "make bench") -> None:
    """Puts `text` between the marks of bench/README.md that have that command in them."""
    write_page(README, text, target)


def write_page(path: Path, text: str, target: str) -> None:
    """The same, of any page."""
    begin, end = (f"<!-- {target}: {which} -->" for which in ("begin", "end"))
    before, rest = path.read_text().split(begin)
    after = rest.split(end)[1]
    path.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


def ratio_table(cells: Sequence[Beside]) -> str:
    """A row for each cell: operations a second of the first, the ratios of the others, the median latencies of all."""
    [first, *others] = cells[0].runs
    latencies = " · ".join([first, *others])
    rows = [f"| connections x in flight | {first}/s | {' | '.join(others)} | p50 µs {latencies} |"]
    rows.append(f"|---|---:|{'---|' * len(others)}---:|")
    for measured in cells:
        runs = measured.runs
        failed = sum(result.errors for results in runs.values() for result in results)
        ratios = " | ".join(ratio_text(measured.ratios(name)) for name in others)
        medians = " · ".join(f"{_median([run.p50_us for run in results]):,.0f}" for results in runs.values())
        rate = _median([run.per_second for run in runs[first]])
        rows.append(f"| {measured.cell.title}{_errors(failed)} | {rate:,.0f} | {ratios} | {medians} |")
    return "\n".join(rows)


def ratio_text(ratios: Sequence[float]) -> str:
    """The median, and the quartiles behind it."""
    first, median, third = quartiles(ratios)
    return f"**{median:.2f}** ({first:.2f}-{third:.2f})"


def _errors(count: int) -> str:
    return f" ({count} errors)" if count else ""


def _speed(cells: list[Measured], left: str, right: str) -> str:
    header = f"| connections x in flight | {left}/s | {right}/s | ratio (quartiles) "
    header += f"| p50 µs {left} · {right} | p99 µs {left} · {right} | ceiling/s |"
    rows = [header, "|---|---:|---:|---|---:|---:|---:|"]
    for measured in cells:
        theirs, mine = measured.zookeeper, measured.ours
        failed = sum(result.errors for result in theirs + mine)
        rows.append(
            f"| {measured.cell.title}{_errors(failed)} "
            f"| {_median([run.per_second for run in theirs]):,.0f} | {_median([run.per_second for run in mine]):,.0f} "
            f"| {ratio_text(measured.ratios())} "
            f"| {_median([run.p50_us for run in theirs]):,.0f} · {_median([run.p50_us for run in mine]):,.0f} "
            f"| {_median([run.p99_us for run in theirs]):,.0f} · {_median([run.p99_us for run in mine]):,.0f} "
            f"| {measured.ceiling:,.0f} |"
        )
    return "\n".join(rows)


def _memory(memory_mib: dict[str, tuple[list[float], list[float]]], left: str, right: str) -> str:
    rows = [f"| resident memory a member | {left} MiB | {right} MiB | ratio |", "|---|---:|---:|---:|"]
    for moment, (theirs, mine) in memory_mib.items():
        rows.append(
            f"| {moment} | {_each(theirs, '.0f')} | {_each(mine, '.0f')} | **{_median(mine) / _median(theirs):.2f}** |"
        )
    return "\n".join(rows)


def _failover(seconds: tuple[list[float], list[float]], left: str, right: str) -> str:
    theirs, mine = (quartiles(side) for side in seconds)
    header = f"| `kill -9` of the leader to the next write | {left} s | {right} s | ratio |\n|---|---:|---:|---:|\n"
    times = " | ".join(f"{median:.3f} ({first:.3f}-{third:.3f})" for first, median, third in (theirs, mine))
    return f"{header}| median of {len(seconds[0])} (quartiles) | {times} | **{mine[1] / theirs[1]:.2f}** |"


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _each(values: Sequence[float], form: str) -> str:
    return " · ".join(format(value, form) for value in values)
