"""The job thread of a simulated process: one job after the other, each in steps, each step at a later moment.

A job is called when its turn has come, and calls `done` at its end, then or later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from zab.simulator.world.process import Process


class JobThread:
    """One per process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def run(self, job: Callable[[], None]) -> None:
        """Do this after what is queued."""
        self._jobs.append(job)
        if not self._is_busy:
            self._is_busy = True
            self._process.later(self._process.machine.disk_delay_us(), self.done)

    def done(self) -> None:
        """The job is over: the next one begins."""
        if self._jobs:
            self._jobs.popleft()()
        else:
            self._is_busy = False
