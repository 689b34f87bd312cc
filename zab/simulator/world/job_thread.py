"""The job thread of a simulated process: one job after the other, each in steps at later times.

A job is called when it is next, and calls `done` at its end, at once or later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from zab.simulator.world.process import Process


class JobThread:
    """The job thread of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._jobs: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def run(self, job: Callable[[], None]) -> None:
        """Queue a job."""
        self._jobs.append(job)
        if not self._is_busy:
            self._is_busy = True
            self._process.later(self._process.machine.disk_delay_us(), self.done)

    def done(self) -> None:
        """End the current job, and begin the next one."""
        if self._jobs:
            self._jobs.popleft()()
        else:
            self._is_busy = False
