"""Tunes the Python interpreter for a process that runs one server."""

from __future__ import annotations

import gc
import sys
from typing import Final

from zab.host.storage.log_thread import SWITCH_SECONDS

GC_THRESHOLDS: Final = (5_000, 10, 500)
"""The thresholds of `gc.set_threshold`: 5,000 new containers, 10 and 500 collections. The middle generation has up to
60,000 containers, whose collection delays a turn by less than 20 ms; a full collection comes after 30 million."""


def tune_interpreter() -> None:
    """Shorten the switch interval, and exempt existing objects from garbage collection. For a process that runs one
    server, after recovery."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
