"""What `zab pipeline run` and a start of Spark promise, broken on purpose: the checks must notice. A check that cannot
fail is none."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

from tests.cli.pipeline.job_files import Session, interrupted, jobs, refused
from zab.cli.pipeline import job_file
from zab.cli.pipeline.call import Call
from zab.cli.pipeline.driver import Driver, SparkOptions
from zab.cli.pipeline.run import Run
from zab.pipeline import spark_session


def run_jobs(*functions: Callable[[Run], Any], keep_going: bool = False) -> tuple[int, int]:
    """(exit code, how often Spark started) of jobs in one file."""
    started = 0

    @contextlib.contextmanager
    def job_session(_url: str | None, **_options: Any) -> Iterator[Session]:
        nonlocal started
        started += 1
        yield Session()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zab.pipeline.spark_session.job_session", job_session)
        with Driver(SparkOptions()) as driver:
            return jobs(*functions, keep_going=keep_going).run_in(driver), started


def uses_spark(run: Run) -> None:
    assert run.spark is not None


def spark_starts_once() -> None:
    assert run_jobs(uses_spark, uses_spark) == (0, 1)


def a_driver_for_each_job(patch: pytest.MonkeyPatch) -> None:
    run_in = Call.run_in

    def alone(call: Call, _driver: Driver, label: str = "") -> int:
        with Driver(call.spark) as driver:
            return run_in(call, driver, label)

    patch.setattr(Call, "run_in", alone)


def no_job_follows_an_interrupt() -> None:
    ran: list[str] = []
    with contextlib.suppress(KeyboardInterrupt):
        run_jobs(interrupted, lambda _run: ran.append("next"), keep_going=True)
    assert ran == []


def interrupts_are_for_the_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Driver, "notice_interrupts", lambda *_ending: None)


def a_job_that_fails_is_in_the_code() -> None:
    assert run_jobs(refused, uses_spark, keep_going=True)[0] == 1


def the_last_job_says_the_code(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_file, "max", lambda codes: codes[-1], raising=False)


def wrong_lines_are_refused() -> None:
    with pytest.raises(typer.Exit):
        job_file.read_lines("nightly", b"verify .\nnonsense\n")


def wrong_lines_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(job_file, "_refuse", lambda _wrong: None)


def what_is_not_known_to_be_small_is_not_short_work() -> None:
    lines = job_file.read_lines("nightly", b"verify small\nhistory run.parquet\n")
    assert job_file.JobFile(lines, False, SparkOptions()).all_read == []


def only_directories_count(patch: pytest.MonkeyPatch) -> None:
    counted = property(lambda file: [place for line in file.lines for place in line.call.all_read])
    patch.setattr(job_file.JobFile, "all_read", counted)


def who_makes_an_archive_takes_none() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spark_session, "archive_options", lambda: ["-XX:SharedArchiveFile=old"])
        assert "old" not in spark_session._java_options("off", False, "-XX:ArchiveClassesAtExit=new")


def archives_are_always_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(spark_session, "_ARCHIVING", "-XX:Nothing")


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        (spark_starts_once, a_driver_for_each_job),
        (no_job_follows_an_interrupt, interrupts_are_for_the_end),
        (a_job_that_fails_is_in_the_code, the_last_job_says_the_code),
        (wrong_lines_are_refused, wrong_lines_are_passed_over),
        (what_is_not_known_to_be_small_is_not_short_work, only_directories_count),
        (who_makes_an_archive_takes_none, archives_are_always_taken),
    ],
)
def test_a_broken_variant_is_noticed(
    check: Callable[[], None], broken: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGINT)
    check()
    with monkeypatch.context() as patch:
        broken(patch)
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check()
    assert signal.getsignal(signal.SIGINT) is before
