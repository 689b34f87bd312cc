"""Ctrl-C during a job, with what stands for Spark's context; the real command is in `test_commands`."""

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError

from zab.cli.pipeline.interrupts import Interrupts

PATIENCE_SECONDS = 60


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


def test_an_interrupt_while_java_starts_ends_what_comes_after() -> None:
    before = signal.getsignal(signal.SIGINT)
    done: list[str] = []

    def start() -> None:
        with Interrupts() as interrupts:
            interrupt()
            done.append("started")
            with spark(interrupts, Context()):
                done.append("planned")

    with pytest.raises(KeyboardInterrupt):
        start()
    assert done == ["started"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("fails", [False, True])
def test_jobs_are_cancelled_until_the_block_ends(fails: bool) -> None:
    context = Context(3, fails)
    threads = set(threading.enumerate())

    def run() -> None:
        with Interrupts() as interrupts, spark(interrupts, context):
            interrupt()
            assert context.cancelled.wait(PATIENCE_SECONDS)
            raise OSError("the job was cancelled")

    with pytest.raises(KeyboardInterrupt) as ending:
        run()
    assert isinstance(ending.value.__cause__, OSError)
    assert set(threading.enumerate()) <= threads, "a thread of this block is left"


class Collected:
    """Calls it when it is collected, where exceptions are ignored."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call

    def __del__(self) -> None:
        self._call()


def test_an_interrupt_where_exceptions_are_ignored_is_not_lost() -> None:
    context = Context()

    def plan() -> None:
        with Interrupts() as interrupts, spark(interrupts, context):
            Collected(interrupt)
            assert context.cancelled.wait(PATIENCE_SECONDS)

    with pytest.raises(KeyboardInterrupt):
        plan()


def test_a_second_interrupt_changes_nothing() -> None:
    def run() -> None:
        with Interrupts() as interrupts:
            context = Context()
            with spark(interrupts, context):
                interrupt()
                interrupt()
                assert context.cancelled.wait(PATIENCE_SECONDS)
            # While the session is stopped.
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        run()


def test_without_an_interrupt_nothing_is_cancelled() -> None:
    context = Context()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(OSError, match="of its own"), Interrupts() as interrupts, spark(interrupts, context):
        raise OSError("of its own")
    with Interrupts() as interrupts, spark(interrupts, context):
        pass
    assert context.count == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_another_thread_gets_no_signals() -> None:
    context, ended = Context(), []

    def run() -> None:
        with Interrupts() as interrupts, interrupts.cancelling(cast("Any", context)):
            ended.append("ran")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert (ended, context.count) == (["ran"], 0)
