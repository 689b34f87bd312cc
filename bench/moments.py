"""Figures that are not load, such as memory or a start, of another system and of ours: from rounds to a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

_FORMS = {"s": ",.3f", "MiB": ",.0f", "%": ".1f"}


@dataclass
class Moments:
    """One figure, round by round: of the other system and of ours. `unit`: s, MiB or %."""

    title: str
    unit: str
    theirs: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)


def moments_table(other: str, moments: Sequence[Moments]) -> str:
    """A row for each: medians, and their ratio."""
    rows = [f"| | {other} | zab | ratio |", "|---|---:|---:|---:|"]
    for each in moments:
        theirs, ours = statistics.median(each.theirs), statistics.median(each.ours)
        form = _FORMS[each.unit]
        rows.append(
            f"| {each.title} | {theirs:{form}} {each.unit} | {ours:{form}} {each.unit} "
            f"| **{ours / max(theirs, 0.001):.2f}** |"
        )
    return "\n".join(rows)
