"""What the curves are made of, and the file that keeps them: bench/curves.json.

    {"curves": [{"name", "title", "across", "run": [line], "series": [{"name", "unit", "more_is_better"}],
                 "points": [{"series", "x", "zookeeper": [value of a round], "zab": [...]}]}],
     "shares": null | {"run", "costs": [...], "latencies": [...]}}

The file says all that the page and the drawings show. A run that measures some of the curves leaves the others as they
were; each says of its run on which machine and commit it was.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ZOOKEEPER, ZAB = "zookeeper", "zab"
SIDES = (ZOOKEEPER, ZAB)
THEMES = ("light", "dark")


@dataclass(frozen=True)
class Series:
    """What is measured at each place of a curve. The unit is of the values."""

    name: str
    unit: str
    more_is_better: bool = True


@dataclass
class Point:
    """The values of one series at one place, round by round."""

    series: str
    x: int
    zookeeper: list[float] = field(default_factory=list)
    zab: list[float] = field(default_factory=list)

    def values(self, side: str) -> list[float]:
        return self.zab if side == ZAB else self.zookeeper

    def median(self, side: str) -> float:
        return statistics.median(self.values(side))

    def ratios(self) -> list[float]:
        """Ours by ZooKeeper's, round by round."""
        return [mine / theirs for mine, theirs in zip(self.zab, self.zookeeper, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios())


@dataclass
class Curve:
    """`across` says what the places are counts of; `run` has the lines about machine and command."""

    name: str
    title: str
    across: str
    series: list[Series]
    run: list[str] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)

    def add(self, series: str, x: int, side: str, value: float) -> None:
        """One more round of a place."""
        found = next((point for point in self.points if (point.series, point.x) == (series, x)), None)
        if found is None:
            assert series in {one.name for one in self.series}, series
            found = Point(series, x)
            self.points.append(found)
        found.values(side).append(value)

    def drawing(self, theme: str) -> str:
        """The name of its file for a page of that theme."""
        return f"{self.name}-{theme}.png"

    def points_of(self, series: Series) -> list[Point]:
        """In the order of their places."""
        return sorted((point for point in self.points if point.series == series.name), key=lambda point: point.x)


@dataclass
class Cost:
    """What a member spent on an operation, in microseconds, round by round: in its own code (of zab that is Python's,
    of ZooKeeper the virtual machine's), in the kernel, and in waiting for the disk; and how often it waited."""

    operation: str
    side: str
    role: str
    own_us: list[float] = field(default_factory=list)
    kernel_us: list[float] = field(default_factory=list)
    disk_us: list[float] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)


@dataclass
class Latency:
    """The median latency of an operation in microseconds, round by round; the floor is that of the machine."""

    operation: str
    floor: list[float] = field(default_factory=list)
    zookeeper: list[float] = field(default_factory=list)
    zab: list[float] = field(default_factory=list)


@dataclass
class Shares:
    run: list[str] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)


@dataclass
class Figures:
    curves: list[Curve] = field(default_factory=list)
    shares: Shares | None = None

    def put(self, curve: Curve, order: Sequence[str]) -> None:
        """In the place of the one with its name, or where `order` has it."""
        self.curves = [one for one in self.curves if one.name != curve.name] + [curve]
        self.curves.sort(key=lambda one: order.index(one.name) if one.name in order else len(order))


def save(figures: Figures, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(dataclasses.asdict(figures), indent=1) + "\n")


def load(file: Path) -> Figures:
    """What the file has; nothing where there is none."""
    if not file.exists():
        return Figures()
    found: dict[str, Any] = json.loads(file.read_text())
    shares = found["shares"]
    return Figures([_curve(one) for one in found["curves"]], None if shares is None else _shares(shares))


def _curve(found: dict[str, Any]) -> Curve:
    series = [Series(**one) for one in found["series"]]
    return Curve(**{**found, "series": series, "points": [Point(**one) for one in found["points"]]})


def _shares(found: dict[str, Any]) -> Shares:
    latencies = [Latency(**one) for one in found["latencies"]]
    return Shares(found["run"], [Cost(**one) for one in found["costs"]], latencies)
