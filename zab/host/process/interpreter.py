"""Tunes the Python interpreter for a process that runs one server."""

from __future__ import annotations

import gc
import sys
from typing import Final

from zab.host.storage.log_thread import SWITCH_SECONDS

GC_THRESHOLDS: Final = (5_000, 4, 1_200)
"""The thresholds of `gc.set_threshold`: 5,000 new containers, 4 and 1,200 collections. The middle generation has up to
30,000 containers, whose collection is a part of a turn of 20 ms: 60,000 took up to 40 ms while thousands of clients
connected. A full collection comes after 30 million."""


def tune_interpreter() -> None:
    """Shorten the switch interval, and exempt existing objects from garbage collection. For a process that runs one
    server, after recovery."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
