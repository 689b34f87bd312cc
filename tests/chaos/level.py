"""Whether what a process holds stays level: judged by the slope of many samples, after it has warmed up.

    judge(samples) -> list[Trend]        of each member and each of `RESOURCES`; `is_level` says whether it may be so

The slope is the median of those between all pairs of samples (Theil and Sen): what rises and falls again, as a log does
that is purged, moves it little, and no single sample does. What it makes of the judged time is the growth. A resource
may grow by a share of what it is, and by a little more that is given to it for the noise; a leak grows with the time,
and passes both in the two hours of a whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

WARM_UP_SHARE = 0.4
"""The part of the time before anything is judged: memory is taken, tables find their size, the first logs are
purged."""
PAIRED_MAX = 200
"""Samples of which all pairs are looked at; of more, medians of as many groups."""

MIB = 1 << 20
RESOURCES: Mapping[str, tuple[float, float]] = {
    "descriptors": (0.0, 4.0),
    "threads": (0.0, 2.0),
    "memory": (0.06, 3.0 * MIB),
    "files": (0.25, 2.0 * MIB),
    "znodes": (0.0, 40.0),
}
"""What each may grow by in the judged time: a share of its median, and so much besides."""


@dataclass(frozen=True)
class Sample:
    """What one member held at a moment (seconds); figures by the names of RESOURCES."""

    member: int
    seconds: float
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Trend:
    """The use of one resource by one member, over the judged time."""

    member: int
    resource: str
    typical: float
    growth: float
    allowed: float
    per_hour: float

    @property
    def is_level(self) -> bool:
        return self.growth <= self.allowed

    def __str__(self) -> str:
        verdict = "level" if self.is_level else "GROWS"
        return (
            f"server {self.member} {self.resource:<12} {verdict}  typically {shown(self.typical)}, "
            f"grew by {shown(self.growth)} of {shown(self.allowed)} allowed ({shown(self.per_hour)} an hour)"
        )


def shown(figure: float) -> str:
    return f"{figure / MIB:.2f} MiB" if abs(figure) > MIB / 100 else f"{figure:.1f}"


def judge(samples: Sequence[Sample], warm_up_share: float = WARM_UP_SHARE) -> list[Trend]:
    """At least two samples of each member have to be left after the warm-up."""
    end = max(sample.seconds for sample in samples)
    judged = [sample for sample in samples if sample.seconds >= end * warm_up_share]
    trends = []
    for member in sorted({sample.member for sample in judged}):
        own = [sample for sample in judged if sample.member == member]
        for resource, (share, spare) in RESOURCES.items():
            points = [(sample.seconds, sample.figures[resource]) for sample in own]
            slope = slope_of(points)
            typical = median(value for _, value in points)
            growth = slope * (points[-1][0] - points[0][0])
            trends.append(Trend(member, resource, typical, growth, share * typical + spare, slope * 3600))
    return trends


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """A second; the median of those between all pairs."""
    size = -(-len(points) // PAIRED_MAX)
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    middle = [(median(x for x, _ in group), median(y for _, y in group)) for group in groups]
    return median((y - b) / (x - a) for i, (a, b) in enumerate(middle) for x, y in middle[i + 1 :] if x > a)


def course(samples: Sequence[Sample], resource: str, parts: int = 12) -> str:
    """The medians of one resource, of all members together, in equal parts of the whole time."""
    end = max(sample.seconds for sample in samples)
    found: list[list[float]] = [[] for _ in range(parts)]
    for sample in samples:
        found[min(int(parts * sample.seconds / end), parts - 1)].append(sample.figures[resource])
    return f"{resource}: " + ", ".join(shown(median(part)) for part in found if part)
