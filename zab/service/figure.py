"""Figures: what a service reports about itself in numbers, for metrics and for commands.

Not here: which figures a service has; how they are exported (`zab.host.http.exposition`).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import attrs

from zab.service.summary import Summary


class Kind(Enum):
    """The kind of a figure."""

    TEXT = "text"
    GAUGE = "gauge"
    COUNTER = "counter"
    BASIC = "basic"
    """A summary: average, minimum, maximum, count, sum."""
    ADVANCED = "advanced"
    """A summary with quantiles."""


Value: TypeAlias = str | int | float | Summary


@attrs.define
class Figure:
    """One figure. `value`: the number of a gauge or a counter, or a `Summary` where the kind is one."""

    kind: Kind
    name: str
    value: Value
    key: str = ""
    """The label within a family of figures; empty if it is in none."""
    labels: tuple[tuple[str, str], ...] = ()
    """Its labels and their values, where a family has others than one `key`."""
