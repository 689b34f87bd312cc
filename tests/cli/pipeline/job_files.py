"""Files of jobs, and a stand-in for the session that runs them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.commands import Run
from zab.cli.exits import fail
from zab.cli.pipeline.call import Call
from zab.cli.pipeline.driver import SparkOptions
from zab.cli.pipeline.job_file import JobFile, Line
from zab.cli.pipeline.jobs import Job
from zab.cli.pipeline.options import Range
from zab.cli.pipeline.run import Run as JobRun


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


def call_of(function: Callable[[JobRun], Any]) -> Call:
    job = Job(function, takes_range=False, gives_rows=False)
    return Call(job, {}, [], Range(), False, None, SparkOptions())


def jobs(*functions: Callable[[JobRun], Any], keep_going: bool = False) -> JobFile:
    lines = [Line(number, "job", call_of(function)) for number, function in enumerate(functions, 1)]
    return JobFile(lines, keep_going, SparkOptions())


def refused(_run: JobRun) -> None:
    fail("it cannot be used")


class Context:
    """What stands for Spark's: nothing runs in it, or has to be cancelled."""

    def cancelAllJobs(self) -> None:  # noqa: N802
        """It is PySpark's name."""

    def statusTracker(self) -> None:  # noqa: N802
        """Nobody looks at what runs."""


class Session:
    sparkContext = Context()  # noqa: N815 - Spark's name


def interrupted(run: JobRun) -> None:
    assert run.spark is not None
    signal.raise_signal(signal.SIGINT)
