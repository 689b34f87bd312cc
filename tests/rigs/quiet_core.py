"""Processor time as a quiet core would take it.

On a busy machine the same work takes more of the processor: caches are cold, cores are shared with other machines. So a
fixed piece of work is timed beside what is measured, and says by how much. A bound of milliseconds then holds anywhere.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

PIECE_NS = 1_000_000
"""What the piece takes on the machine on which the bounds of milliseconds were set, when it was quiet."""
PIECE_ITEMS = 18_000
PAUSE_SECONDS = 0.05
TRIES = 5


def thread_ns(work: Callable[[], object]) -> int:
    """Nanoseconds of the processor that this thread takes for it."""
    began = time.thread_time_ns()
    work()
    return time.thread_time_ns() - began


def piece_ns() -> int:
    """Nanoseconds that the fixed piece takes here and now: bytecode, integers, a table."""
    return thread_ns(_piece)


def _piece() -> None:
    table: dict[int, int] = {}
    for item in range(PIECE_ITEMS):
        table[item & 1023] = item ^ 0x5A5A


def quiet_ms(work_ns: Callable[[], int], tries: int = TRIES) -> float:
    """Milliseconds that a quiet core takes for what `work_ns` does and times: the least of several tries.

    One try can meet a moment in which the whole machine stands still. Work that takes too long does so in each try.
    """
    found = []
    for _ in range(tries):
        before, took, after = piece_ns(), work_ns(), piece_ns()
        found.append(took / max(1.0, (before + after) / 2 / PIECE_NS) / 1_000_000)
    return min(found)


@attrs.define
class Slowness:
    """How much more of the processor work takes now than on a quiet core."""

    pieces_ns: list[int] = attrs.field(factory=list)

    def allowed_us(self, quiet_us: int) -> float:
        """The most that work may take here which takes `quiet_us` on a quiet core: microseconds.

        All work takes longer by the usual factor. And a stall of the whole machine, as long as the longest that was
        seen, may have happened in the middle of it.
        """
        usual = max(PIECE_NS, statistics.median(self.pieces_ns))
        stall = max(0, max(self.pieces_ns) - usual)
        return quiet_us * usual / PIECE_NS + stall / 1000


@contextmanager
def slowness_of_machine() -> Iterator[Slowness]:
    """Times the piece all the while, in a thread of its own; 2 % of a core."""
    found, done = Slowness([piece_ns()]), threading.Event()

    def sample() -> None:
        while not done.wait(PAUSE_SECONDS):
            found.pieces_ns.append(piece_ns())

    thread = threading.Thread(target=sample, name="slowness")
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()
