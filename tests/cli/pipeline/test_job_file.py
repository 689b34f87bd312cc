"""`zab pipeline run FILE`: what a file may say, and how its jobs run in one session."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from tests.cli.commands import Run
from tests.cli.pipeline.job_files import Session, interrupted, jobs, refused, run
from zab.cli.pipeline import job_file
from zab.cli.pipeline.call import Call
from zab.cli.pipeline.driver import Driver, SparkOptions
from zab.cli.pipeline.jobs import JOBS
from zab.cli.pipeline.run import Run as JobRun

__all__ = ["run"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.rigs.ensembles import Directories


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Call, "run_in", lambda *_words: pytest.fail("a job ran"))


def written(directory: Path, *lines: str) -> Path:
    file = directory / "nightly"
    file.write_text("\n".join(lines))
    return file


# In one session.


class Sessions:
    """Stands before `job_session`, and counts."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make
        self.made: list[tuple[Any, ...]] = []

    def __call__(self, url: str | None, **options: Any) -> Any:
        self.made.append((url, options["memory"], options["log_level"]))
        return self._make(url, **options)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    from zab.pipeline import spark_session

    counted = Sessions(spark_session.job_session)
    monkeypatch.setattr(spark_session, "job_session", counted)
    return counted


@pytest.mark.spark
def test_jobs_share_one_session(
    run: Run, spark: SparkSession, sessions: Sessions, zab_directories: Directories, tmp_path: Path
) -> None:
    """One that cannot be done is between others, and what each printed can be told apart, on either output."""
    data, out = zab_directories.members[0].parent, tmp_path / "o u t.csv"
    file = written(
        tmp_path,
        "# A comment, and an empty line.",
        "",
        f"  audit {data} --limit 1 --columns zxid,path  # the first",
        f"sessions {tmp_path}/absent",
        f"sessions '{data}' --out '{out}' --format csv --columns session",
        f"hotspots {data} --columns nonsense",
    )
    assert run("pipeline", "run", file, "--keep-going", "--memory", "1g") == 2
    assert sessions.made == [(None, "1g", "off")]
    heads = [f"==> line {number} <==" for number in ("3: audit", "4: sessions", "5: sessions", "6: hotspots")]
    lines = [line for line in run.out.splitlines() if line]
    assert [line for line in lines if line.startswith("==>")] == heads
    assert lines[1].split() == ["zxid", "path"]
    assert lines[3:] == heads[1:]
    assert out.read_text().splitlines()[0] == '"session"'
    *notes, summary = run.err.splitlines()
    assert all(note.startswith("zab: line ") for note in notes), run.err
    assert "zab: line 3: only the first 1 rows; --limit shows more, --out writes all" in notes
    assert f"zab: line 4: {tmp_path}/absent does not exist" in notes
    assert notes[-1].startswith("zab: line 6: Invalid value for --columns: the columns are ensemble, path, ")
    assert summary == "zab: 2 jobs done; ended: line 4 with 1, line 6 with 2"


def gone(_run: JobRun) -> None:
    raise FileNotFoundError(2, "No such file", "/x")


def misused(_run: JobRun) -> None:
    raise typer.BadParameter("there is no such column", param_hint="--columns")


@pytest.mark.parametrize(
    ("functions", "codes"),
    [
        ([lambda _run: None, lambda _run: 0], (0, 0)),
        ([lambda _run: 1, lambda _run: None], (1, 1)),
        ([refused, misused, lambda _run: 1], (1, 2)),
        ([misused, gone], (2, 2)),
    ],
)
def test_the_code_is_that_of_the_worst_job_that_ran(
    functions: list[Any], codes: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    for keep_going, code in zip((False, True), codes, strict=True):
        with Driver(SparkOptions()) as driver:
            assert jobs(*functions, keep_going=keep_going).run_in(driver) == code


def test_the_first_that_fails_ends_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    with Driver(SparkOptions()) as driver:
        assert jobs(lambda _run: None, gone, lambda _run: print("third"), lambda _run: None).run_in(driver) == 1
    out, err = capsys.readouterr()
    assert out == "==> line 1: job <==\n\n==> line 2: job <==\n"
    lines = err.splitlines()
    assert lines[0].startswith("zab: line 2: ")
    assert lines[0].endswith("'/x'")
    assert lines[1:] == [
        "zab: 1 job done; ended: line 2 with 1; not run: 2; --keep-going goes on after a job that does not end with 0"
    ]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of the session that stands for Spark's."""
    happened: list[str] = []

    @contextlib.contextmanager
    def job_session(_url: str | None, **_options: Any) -> Iterator[Session]:
        happened.append("started")
        yield Session()
        happened.append("stopped")

    monkeypatch.setattr("zab.pipeline.spark_session.job_session", job_session)
    return happened


def test_spark_starts_with_the_first_job_that_needs_it(no_spark: list[str]) -> None:
    def without(_run: JobRun) -> None:
        no_spark.append("without")

    def within(run: JobRun) -> None:
        assert run.spark is run.spark
        no_spark.append("with")

    with Driver(SparkOptions()) as driver:
        jobs(without, within, within, without).run_in(driver)
        assert no_spark == ["without", "started", "with", "with", "without"]
    assert no_spark[-1] == "stopped"


def test_an_interrupt_ends_all(no_spark: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the job makes none of it, and however the others end."""
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), Driver(SparkOptions()) as driver:
        jobs(refused, interrupted, lambda _run: print("third"), keep_going=True).run_in(driver)
    assert "third" not in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is before


def test_what_is_cached_is_let_go_with_its_job(no_spark: list[str]) -> None:
    class Frame:
        def cache(self) -> Frame:
            no_spark.append("cached")
            return self

        def unpersist(self) -> None:
            no_spark.append("let go")

    def caching(run: JobRun) -> None:
        run.cached(Frame())  # type: ignore[arg-type]
        no_spark.append("used")

    with Driver(SparkOptions()) as driver:
        jobs(caching, lambda _run: no_spark.append("next")).run_in(driver)
    assert no_spark == ["cached", "used", "let go", "next"]


# What a file may say.


WRONG = {
    "audit": "Missing argument 'DIRS'",
    "nonsense .": "nonsense is no job; there are audit, ",
    "zab pipeline audit .": "zab is no job; there are audit, ",
    "run nightly": "run is no job",
    "audit . --nonsense": "No such option: --nonsense",
    "audit . --help": "No such option: --help",
    "audit . --since yesterday": "'yesterday' is no time",
    "audit . --zxid-min 5 --zxid-max 4": "it is above --zxid-max",
    "audit . --path app": "'app' does not begin with /",
    "audit . --session me": "'me' is no session's id",
    "audit . --format csv": "it needs --out",
    "audit . --limit 0": "'--limit'",
    "hotspots . --by colour": "'--by'",
    "locks . --subtree x": "'x' does not begin with /",
    "state . --at noon": "'noon' is no time",
    "state . --as snapshot": "--to and --as snapshot (or version-2) need each other",
    "state . --to x": "--to and --as snapshot (or version-2) need each other",
    "diff .": "Missing option '--from'",
    "diff . --from 1 --to tomorrow": "'tomorrow' is no time",
    "diff . --from 1 --commands --out x.csv": "it cannot be used with --commands",
    "report . --out page.txt": "it does not end in .html",
    "follow . --out a --checkpoint b": "follow runs until Ctrl-C; in a file it needs --once",
    "follow . --out a --checkpoint b --once --from now": "'now' is neither earliest, latest nor a zxid",
    "audit . --memory 1g": "audit: --memory goes with run, for all jobs of the file",
    "verify . --spark-url=local": "verify: --spark-url goes with run, for all jobs of the file",
    "audit 'a": "no closing quotation, and a job is one line",
    "audit a\\": "no escaped character, and a job is one line",
    "audit a\x1b[2J": "it has a control character",
    "audit a\0b": "it has a control character",
    "audit a\x0bb": "it has a control character",
}


@pytest.mark.parametrize("line", WRONG)
@pytest.mark.usefixtures("nothing_runs")
def test_a_wrong_line_is_named_and_nothing_runs(run: Run, line: str, tmp_path: Path) -> None:
    file = written(tmp_path, "audit .", "# audit", line, "", "verify .")
    assert run("pipeline", "run", file, "--keep-going") == 2
    assert run.err.startswith(f"zab: {file}: line 3: ")
    assert WRONG[line] in run.err
    assert (run.out, run.err.count("\n")) == ("", 1)


@pytest.mark.usefixtures("nothing_runs")
def test_every_wrong_line_is_named_up_to_a_limit(run: Run, tmp_path: Path) -> None:
    assert run("pipeline", "run", written(tmp_path, "a", "verify .", "b")) == 2
    assert [line.split(": ")[2:4] for line in run.err.splitlines()] == [
        ["line 1", f"a is no job; there are {', '.join(JOBS)}"],
        ["line 3", f"b is no job; there are {', '.join(JOBS)}"],
    ]
    many = job_file.WRONG_TOLD + 5
    assert run("pipeline", "run", written(tmp_path, *["a"] * many)) == 2
    assert len(run.err.splitlines()) == job_file.WRONG_TOLD + 1
    assert run.err.endswith("\nzab: and 5 more that are wrong\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it has no jobs"),
        (b"# nothing\n\n \t\r\n", "it has no jobs"),
        (b"verify .\naudit \xff\n", "line 2: it is not UTF-8"),
        (b"verify .\n" * (job_file.JOBS_MAX + 1), "it has 1,001 jobs, and 1,000 are the most"),
        (b"#" * (job_file.FILE_BYTES_MAX + 1), "it is larger than 1,048,576 bytes"),
    ],
)
@pytest.mark.usefixtures("nothing_runs")
def test_a_file_that_cannot_be_meant(run: Run, content: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "nightly"
    file.write_bytes(content)
    assert run("pipeline", "run", file) == 2
    assert (run.out, run.err) == ("", f"zab: {file}: {said}\n")


@pytest.mark.usefixtures("nothing_runs")
def test_a_file_that_cannot_be_read(run: Run, tmp_path: Path) -> None:
    assert run("pipeline", "run", tmp_path / "absent") == 1
    assert run.err == f"zab: {tmp_path}/absent cannot be read: No such file or directory\n"
    assert run("pipeline", "run", tmp_path) == 1
    assert run.err == f"zab: {tmp_path} cannot be read: Is a directory\n"
    assert run("pipeline", "run", "/dev/zero") == 2
    assert run.err == "zab: /dev/zero: it is larger than 1,048,576 bytes\n"


def test_as_many_jobs_as_may_be(tmp_path: Path) -> None:
    content = b"verify 'a b' --replays 2 # c\r\n" * job_file.JOBS_MAX
    lines = job_file.read_lines("nightly", content)
    assert [line.number for line in lines] == [*range(1, job_file.JOBS_MAX + 1)]
    assert all(line.call.dirs == ["a b"] and line.call.own["replays"] == 2 for line in lines)


def test_every_job_can_stand_in_a_file() -> None:
    """With the least that it needs, and only its session is not its own."""
    for name, job in JOBS.items():
        words = [name, *(["dir"] if job.takes_dirs or name == "history" else []), *job.example]
        (line,) = job_file.read_lines("nightly", " ".join(words).encode())
        assert (line.name, line.call.job) == (name, job)
        assert line.call.spark == SparkOptions()
