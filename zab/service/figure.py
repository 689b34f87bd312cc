"""Figures: what a service reports about itself in numbers, for metrics and for commands.

Not here: which figures a service has; how they are exported (`zab.host.http.exposition`).
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

import attrs

from zab.service.summary import Summary


class Kind(Enum):
    """What a figure is."""

    TEXT = "text"
    GAUGE = "gauge"
    COUNTER = "counter"
    BASIC = "basic"
    """A summary: average, least, largest, count, sum."""
    ADVANCED = "advanced"
    """With quantiles."""


Value: TypeAlias = str | int | float | Summary


@attrs.define
class Figure:
    """One figure. `value`: the number of a gauge or a counter, or a `Summary` where the kind is one."""

    kind: Kind
    name: str
    value: Value
    key: str = ""
    """The member of a set that the figure is about; empty where there is no set."""
