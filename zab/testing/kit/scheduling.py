"""trio's scheduler, pinned: which of the tasks that may run goes first is decided by a seed, and by nothing else.

trio chooses at random, so that nobody relies on an order. What it chooses with, and the switch that puts tasks in the
order of their making before that, are not public; they have been there under these names since trio 0.15, for
Hypothesis. Other threads of this process that run trio meanwhile go on choosing as they did.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, MutableSequence
from random import Random
from typing import Any, Final

import trio._core._run as scheduler

_SWITCH: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"


class SimulationError(Exception):
    """A simulated run cannot begin, or cannot go on; the text says why."""


class _ByThread(Random):
    """Chooses for each thread as that thread wants it."""

    def __init__(self, others: Random) -> None:
        super().__init__()
        self.others = others
        self.pins: dict[int, Random] = {}
        self.is_ordered_before = False

    def _own(self) -> Random:
        return self.pins.get(threading.get_ident(), self.others)

    def random(self) -> float:
        return self._own().random()

    def shuffle(self, x: MutableSequence[Any]) -> None:
        self._own().shuffle(x)


_lock = threading.Lock()


@contextlib.contextmanager
def pinned(rng: Random) -> Iterator[None]:
    """Within, runs of trio in this thread are scheduled by `rng`."""
    if not (hasattr(scheduler, "_r") and hasattr(scheduler, _SWITCH)):
        raise SimulationError("this trio cannot be pinned to a seed: its scheduler has changed")
    own = threading.get_ident()
    with _lock:
        chooser = scheduler._r
        if not isinstance(chooser, _ByThread):
            chooser = scheduler._r = _ByThread(chooser)
            chooser.is_ordered_before = scheduler._ALLOW_DETERMINISTIC_SCHEDULING
        if own in chooser.pins:
            raise SimulationError("a simulated run cannot begin within another one")
        vars(scheduler)[_SWITCH] = True
        chooser.pins[own] = rng
    try:
        yield
    finally:
        with _lock:
            del chooser.pins[own]
            if not chooser.pins:
                scheduler._r = chooser.others
                vars(scheduler)[_SWITCH] = chooser.is_ordered_before
