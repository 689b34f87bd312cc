"""What `zab pipeline` says of a log that is large, and that it says a warning of Python as a sentence."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest
import typer

from tests.cli.commands import Run
from tests.pipeline.rigs.log_builder import FIRST, in_batches, random_txns, write_native
from zab.cli.pipeline import commands
from zab.cli.pipeline.jobs import Job
from zab.cli.pipeline.run import Run as JobRun
from zab.cli.pipeline.signatures import command_of
from zab.pipeline.errors import WholeLogWarning


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """A member's data directory, whose log counts as large."""
    write_native(tmp_path, [in_batches(random_txns(random.Random(1), 30), 3)], mark=FIRST + 29)
    return tmp_path


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("job", "bound", "options"),
    [
        ("audit", "--zxid-max", "--zxid-max or --until"),
        ("hotspots", "--zxid-min", "--zxid-min, --zxid-max, --since or --until"),
    ],
)
def test_that_all_of_a_large_log_is_read_is_said_once_with_the_options(
    run: Run, member: Path, monkeypatch: pytest.MonkeyPatch, job: str, bound: str, options: str
) -> None:
    monkeypatch.setattr("zab.pipeline.reading.log_source.WARNED_BYTES", 1)
    # As outside of tests, where a warning is no error.
    with warnings.catch_warnings():
        warnings.simplefilter("default", WholeLogWarning)
        assert run("pipeline", job, member) == 0
        told = [line for line in run.err.splitlines() if "this reads all of" in line]
        assert told == [f"zab: this reads all of 0.0 GiB of logs: give {options} to read less"]
        assert ".py" not in run.err
        assert run("pipeline", job, member, bound, hex(FIRST)) == 0
        assert "this reads all of" not in run.err


def test_a_warning_of_python_is_a_sentence_without_path_and_code(
    run: Run, member: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def job(_: JobRun) -> None:
        warnings.warn("it is odd", WholeLogWarning, stacklevel=1)

    app = typer.Typer(result_callback=commands.carry_out)
    app.command("odd")(command_of("odd", Job(job, takes_range=False, gives_rows=False)))
    app.callback()(lambda: None)
    monkeypatch.setattr(commands, "pipeline_app", app)
    with warnings.catch_warnings():
        warnings.simplefilter("default", WholeLogWarning)
        assert run("pipeline", "odd", member) == 0
    assert run.err == "zab: it is odd\n"
