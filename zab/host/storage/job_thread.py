"""A job thread: slow work of a server, one job after the other, beside the loop and the log thread.

    run(job)            do it after what is queued; a job deals with its own errors
    pause, in_slices    for jobs, which end soon once the thread is closing

None of this may run on the log thread, where each millisecond delays a write, nor in the loop.

Not here: what the jobs do.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

REST_SECONDS_MAX = 0.02


class JobThread:
    """One thread. `start`, `run` and `close` belong to the loop's thread, the others to the jobs."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run, args=(self._run,), name=name, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def run(self, job: Callable[[], None]) -> None:
        """Do this after what is queued."""
        self._jobs.put(job)

    def close(self, patience_seconds: float) -> bool:
        """End; what is queued is dropped. False when the job under way takes too long."""
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
        """Call `work` until it says that it is finished; False when the thread is closing before.

        A slice may hold the interpreter for some milliseconds. After each the thread sleeps for as long as it took: a
        job in slices takes half of one core at most.
        """
        while not self._closing.is_set():
            began_ns = time.monotonic_ns()
            finished = work()
            time.sleep(min((time.monotonic_ns() - began_ns) / 1e9, REST_SECONDS_MAX))
            if finished:
                return True
        return False
