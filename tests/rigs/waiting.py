"""Waiting for what happens elsewhere, in another process or on another machine's disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
_PROBE_SECONDS = 0.02


def until(happened: Callable[[], T | None], what: str = "it") -> T:
    """What is asked for, as soon as it is something. Machines are slow: the patience is long."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := happened()):
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(_PROBE_SECONDS)
    return found
