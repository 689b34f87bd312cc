"""Waiting for what happens elsewhere, in another process, thread or task, or on another machine's disk."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import trio

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""How long a test waits at most for an event. It is never waited for: it only bounds a hang, on the slowest machine."""
LONG_PATIENCE_SECONDS = 300.0
"""For an event that comes after a JVM with Spark has started, or a compiler has ended."""
_PROBE_SECONDS = 0.02


def until(happened: Callable[[], T | None], what: str | Callable[[], str] = "it") -> T:
    """What is asked for, as soon as it is something. Machines are slow: the patience is long. `what`: if it is not."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := happened()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what if isinstance(what, str) else what()} did not happen")
        time.sleep(_PROBE_SECONDS)
    return found


async def until_async(holds: Callable[[], object]) -> None:
    """As `until`, of something in this process that tells nobody."""
    with trio.fail_after(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(_PROBE_SECONDS / 4)
