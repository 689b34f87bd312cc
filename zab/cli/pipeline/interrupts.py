"""Handles Ctrl-C during a pipeline job: a thread cancels what Spark runs, and the command ends with 130.

    with Interrupts() as interrupts:            from before Java starts until after it is gone
        with interrupts.cancelling(context):    while there is something to cancel

PySpark's own handler raises KeyboardInterrupt wherever the main thread is. In a callback of the garbage collector, of
which Py4J has one for each Java object, it is printed and lost. In a call to Java, it makes the next calls fail, so the
session cannot be stopped. And Java, interrupted while it starts, never ends. So the handler raises nothing. A call that
waits for a job learns that it was cancelled; whether it fails then or not, the outer block ends with KeyboardInterrupt.

Invariants: an interrupt in the outer block is not lost. Jobs are cancelled until the inner block ends, since planning
starts further ones; no cancellation is under way after it.
"""

import contextlib
import queue
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["Interrupts"]

AGAIN_SECONDS: Final = 0.1


class Interrupts:
    """Notes interrupts. Outside of the main thread, which alone gets signals, it does nothing."""

    def __init__(self) -> None:
        self._before: Any = None
        self._is_noted = False
        # Its `put` may be interrupted by itself, as a handler of signals may.
        self._told: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _where: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        self.check(error)

    def check(self, cause: BaseException | None = None) -> None:
        """Raise KeyboardInterrupt if an interrupt was noted."""
        if self._is_noted:
            raise KeyboardInterrupt from cause

    def _note(self, _number: int, _frame: object) -> None:
        self._is_noted = True
        self._told.put(True)

    @contextlib.contextmanager
    def cancelling(self, context: "SparkContext") -> Iterator[None]:
        """Cancel the jobs of `context` that run in the block, or are started in it, once there is an interrupt."""
        if self._before is None:
            yield
            return
        # PySpark has set its own when the context was made.
        signal.signal(signal.SIGINT, self._note)
        canceller = threading.Thread(target=self._cancel, args=(context,), daemon=True)
        canceller.start()
        try:
            self.check()
            yield
        finally:
            self._told.put(False)
            canceller.join()

    def _cancel(self, context: "SparkContext") -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it ships no types

        if not self._told.get():
            return
        while True:
            with contextlib.suppress(Py4JError, OSError):
                context.cancelAllJobs()
            with contextlib.suppress(queue.Empty):
                if not self._told.get(timeout=AGAIN_SECONDS):
                    return
