"""Stand-ins for Spark, and interrupts that come in the middle."""

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any, cast

from py4j.protocol import Py4JError

from zab.cli.pipeline.interrupts import Interrupts


class Context:
    """Counts cancellations; `cancelled` is set by the one of that number."""

    def __init__(self, number: int = 1, fails: bool = False) -> None:
        self.count = 0
        self.cancelled = threading.Event()
        self._number = number
        self._fails = fails

    def cancelAllJobs(self) -> None:  # noqa: N802  (it is PySpark's name)
        self.count += 1
        if self.count >= self._number:
            self.cancelled.set()
        if self._fails:
            raise Py4JError("the session is being stopped")


@contextlib.contextmanager
def spark(interrupts: Interrupts, context: Context) -> Any:
    """As PySpark, which has a handler of its own."""

    def raises(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, raises)
    with interrupts.cancelling(cast("Any", context)):
        yield


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


class Collected:
    """Calls it when it is collected, where exceptions are ignored."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __del__(self) -> None:
        self._call()
