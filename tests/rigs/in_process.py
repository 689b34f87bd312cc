"""Our own servers in the process of the test, each in a thread: for tests that only talk to them.

A process takes a second of processor time before it serves, members here take some hundredths. Anyone who kills a
server with its process, looks at its exit code or its limits, or compares with the real ZooKeeper, starts processes
(`zab_server`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zab.testing.ensemble import Ensemble
from zab.testing.settings import Value

_PATIENT: Final[Mapping[str, Value]] = {"tickTime": 1000, "initLimit": 20, "syncLimit": 20}
"""What the machine lets wait for 20 s is not taken for lost."""


def members_here(size: int = 3, configuration: Mapping[str, Value] | None = None) -> Ensemble:
    """So many members, which serve in the block."""
    ticks = {} if configuration is not None and "tickTime" in configuration else _PATIENT
    return Ensemble(size, {**ticks, **(configuration or {})})
