"""Ctrl-C during a job, with what stands for Spark's context; the real command is in `test_commands`."""

import signal
import threading
from typing import Any, cast

import pytest

from tests.cli.pipeline.interrupts import Collected, Context, interrupt, spark
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.cli.pipeline.interrupts import Interrupts


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
