"""A thread for slow jobs of a server, one after the other, beside the loop and the log thread.

    run(job)            queues a job, which has to handle its own errors
    pause, in_slices    for jobs, which end soon once the thread is closing

Such work must run neither on the log thread, where each millisecond delays a write, nor in the loop.

Not here: the jobs.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

REST_SECONDS_MAX = 0.02


class JobThread:
    """A job thread. `start`, `run` and `close` belong to the loop's thread, the other methods to jobs."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name=name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def run(self, job: Callable[[], None]) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def close(self, patience_seconds: float) -> bool:
        """End the thread; queued jobs are dropped. False if the current job takes too long."""
        self._closing.set()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(patience_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if not self._closing.is_set():
                job()

    def pause(self, seconds: float) -> None:
        """Wait, unless the thread is closing."""
        self._closing.wait(seconds)

    def in_slices(self, work: Callable[[], bool]) -> bool:
        """Call `work` until it returns True; False if the thread is closing before that.

        A slice may block the interpreter for some milliseconds. After each slice the thread sleeps for as long as it
        took: a job takes at most half of one core.
        """
        while not self._closing.is_set():
            began_ns = time.monotonic_ns()
            finished = work()
            time.sleep(min((time.monotonic_ns() - began_ns) / 1e9, REST_SECONDS_MAX))
            if finished:
                return True
        return False
