"""How Python's interpreter is tuned for a process that is one server."""

from __future__ import annotations

import gc
import sys
from typing import Final

from zab.host.storage.log_thread import SWITCH_SECONDS

GC_THRESHOLDS: Final = (5_000, 10, 500)
"""Containers that are new, and collections of each kind before one that looks at more. Of those that are new it is
60,000, which takes a turn less than 20 ms; at all there are, it looks after 30 million."""


def tune_interpreter() -> None:
    """For a process that is one server, once it is recovered: short switches, and no collector on what is there."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
