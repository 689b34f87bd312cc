"""`zab pipeline`: its table of jobs, its options, its outputs, and what it says of bad input."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from rich.console import Console

from datatree.log.batch import build
from datatree.log.transaction_log import LogContents, TransactionLog
from datatree.record import Txn, encode
from datatree.zookeeper.log import LOG_HEADER, encode_record
from tests.cli.commands import Run
from tests.datatree.histories import LINEAGE, START
from tests.pipeline.rigs.rows import History, moment
from tests.rigs.quick_java import quick_java
from tests.rigs.waiting import LONG_PATIENCE_SECONDS, until
from zab.cli.numbers import parse_session
from zab.cli.pipeline import call
from zab.cli.pipeline.driver import Driver
from zab.cli.pipeline.endings import spark_sentence
from zab.cli.pipeline.jobs import JOBS, Job
from zab.cli.pipeline.options import Range, named_dirs
from zab.cli.pipeline.progress import StageProgress
from zab.cli.pipeline.run import Run as JobRun
from zab.cli.pipeline.signatures import command_of
from zab.cli.pipeline.table import cell, fit, print_rows
from zab.host.storage.disk import RealDisk
from zab.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

A, B = 0x100000A, 0x100000B


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


def story() -> History:
    history = History()
    history.open(A, timeout=4000)
    history.open(B, timeout=4000)
    history.create(A, "/app", b"one")
    history.wait(1)
    history.set(B, "/app", b"two")
    first = history.create(A, "/lock/n_", ephemeral=True, sequential=True)
    history.create(B, "/lock/n_", ephemeral=True, sequential=True)
    history.wait(2)
    history.set(A, "/app", b"\x1b[2J\xff")
    history.delete(A, first)
    history.refuse(A, "/app", -103)
    history.wait(10)
    history.expire(B)
    return history


def txns(history: History) -> list[Txn]:
    """The rows of a history without multis as the transactions that they come from."""
    found = []
    for row in history.rows:
        number = row["timeout"] or row["error"] or row["version"] or 0
        rest: Any = None
        if row["operation"] == "create":
            rest = (None, row["owner"])
        elif row["operation"] == "closeSession":
            rest = tuple(path.encode() for path in row["paths"])
        elif row["operation"] == "error":
            rest = (5,)
        time = round(row["time"].timestamp() * 1000)
        path = (row["path"] or "").encode()
        found.append(Txn(row["zxid"], time, row["session"], row["cxid"], row["type"], number, path, row["data"], rest))
    return found


@pytest.fixture
def member(tmp_path: Path) -> Path:
    """The data directory of a member of ours that has the story."""
    root = tmp_path / "member"
    root.mkdir()
    log = TransactionLog(RealDisk(str(root)), LogContents(LINEAGE, [], START, 0))
    zxid, chain = START
    for txn in txns(story()):
        batch = build(
            chain,
            epoch=1,
            first=txn.zxid,
            count=1,
            time=txn.time,
            flags=0,
            mark=zxid,
            applied=zxid,
            digest=0,
            body=encode(txn),
        )
        zxid, chain = batch.zxid, batch.chain
        log.append([batch])
    log.set_mark(zxid)
    return root


@pytest.fixture
def zookeeper(tmp_path: Path) -> Path:
    """The directory in ZooKeeper's format."""
    root = tmp_path / "zookeeper"
    (root / "version-2").mkdir(parents=True)
    content = LOG_HEADER + b"".join(encode_record(txn) for txn in txns(story()))
    (root / "version-2" / "log.100000001").write_bytes(content)
    return root


# The commands.

NAME = LINEAGE.hex()
EXTENT = (
    f"zab: {NAME} has zxids 0x100000001 to 0x10000000a, of 2026-03-01T12:00:00.000Z to 2026-03-01T12:00:13.000Z, "
    "from its beginning\n"
)
"""What each job says at the end of the history in the fixture `member`."""


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.longest
def test_table_on_standard_output(run: Run, member: Path) -> None:
    assert run("pipeline", "audit", member, "--path", "/app") == 0
    lines = [re.sub(r" +", " ", line).strip() for line in run.out.splitlines()]
    assert lines == [
        "time zxid session change path old old_known new",
        "2026-03-01 12:00:00.000 0x100000003 0x100000a create /app one",
        "2026-03-01 12:00:01.000 0x100000004 0x100000b set /app one yes two",
        r"2026-03-01 12:00:03.000 0x100000007 0x100000a set /app two yes \x1b[2J\xff",
    ]
    assert run.err == EXTENT


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.long
def test_bounds_of_zxids_and_times(run: Run, member: Path) -> None:
    """The old value is from before the bounds."""
    for bounds in (
        ("--zxid-min", "0x100000004", "--zxid-max", str((1 << 32) + 6)),
        ("--since", "2026-03-01T12:00:00.500Z", "--until", "2026-03-01T13:00:01.000+01:00"),
    ):
        assert run("pipeline", "audit", member, *bounds, "--columns", "path,old,new", "--subtree", "/app/") == 0
        assert [line.split() for line in run.out.splitlines()] == [["path", "old", "new"], ["/app", "one", "two"]]
    assert run("pipeline", "audit", member, "--session", hex(B), "--zxid-min", "0x100000005", "--columns", "path") == 0
    assert run.out.split() == ["path", "/lock/n_0000000001", "/lock/n_0000000001"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.long
def test_files_are_as_their_names_say(run: Run, member: Path, tmp_path: Path) -> None:
    out = tmp_path / "locks.parquet"
    assert run("pipeline", "locks", member, "--out", out, "--ensemble", "blue") == 0
    assert run.err == f"zab: 2 rows in {out}\n{EXTENT.replace(NAME, 'blue')}"
    assert run.out == ""
    rows = pq.read_table(out).to_pylist()
    assert [(row["ensemble"], row["session"], row["acquired"], row["leaving"]) for row in rows] == [
        ("blue", A, moment(1), "released"),
        ("blue", B, moment(3), "expired"),
    ]
    assert run("pipeline", "locks", member, "--out", out) == 1
    assert run.err == f"zab: {out} is there already; --overwrite replaces it\n"
    assert run("pipeline", "sessions", f"green={member}", "--out", tmp_path / "s", "--format", "json") == 0
    parts = sorted((tmp_path / "s").iterdir())
    found = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert [(row["ensemble"], row["session"], row["ending"], row["taken"]) for row in found] == [
        ("green", A, None, 0),
        ("green", B, "expired", 1),
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.longest
def test_views(run: Run, member: Path) -> None:
    for words, beginning in (
        (("hotspots",), ["path", "writes", "bytes"]),
        (("hotspots", "--by", "skew"), ["of", "count", "writes"]),
        (("sessions", "--show", "waves", "--least", "1"), ["began", "ended", "sessions"]),
        (("locks", "--show", "summary"), ["lock", "role", "contenders"]),
        (("locks", "--show", "queue"), ["lock", "number", "session"]),
    ):
        assert run("pipeline", *words, member) == 0
        assert run.out.split()[:3] == beginning
    assert run("pipeline", "locks", "--show", "overlaps", member) == 0
    assert (run.out, run.err) == ("", f"zab: no rows\n{EXTENT}")
    assert run("pipeline", "hotspots", "--limit", "1", member) == 0
    assert run.out.splitlines()[1].split()[0] == "/app"
    assert run.err == f"zab: only the first 1 rows; --limit shows more, --out writes all\n{EXTENT}"


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    noted: list[str] = []
    run: Any = SimpleNamespace(paused=contextlib.nullcontext, note=noted.append)
    frame: Any = SimpleNamespace(limit=lambda _count: SimpleNamespace(toArrow=lambda: pa.table({"path": []})))
    assert call._print(run, frame, 10, ["path"]) == 0
    assert (capsys.readouterr().out, noted) == ("", ["no rows"])


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_zookeepers_directory_is_found_by_looking(run: Run, zookeeper: Path) -> None:
    assert run("pipeline", "sessions", zookeeper) == 1
    assert "--uncommitted" in run.err or "uncommitted" in run.err
    assert run("pipeline", "sessions", zookeeper, "--uncommitted", "--columns", "session,ending") == 0
    assert run.out.split() == ["session", "ending", "0x100000a", "0x100000b", "expired"]


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_the_log_no_longer_has_is_said_and_marked(run: Run, zookeeper: Path) -> None:
    """The log of a member that has removed what was before the fourth transaction."""
    content = LOG_HEADER + b"".join(encode_record(txn) for txn in txns(story())[3:])
    (zookeeper / "version-2" / "log.100000001").unlink()
    (zookeeper / "version-2" / "log.100000004").write_bytes(content)
    assert run("pipeline", "audit", zookeeper, "--uncommitted", "--path", "/app") == 0
    lines = [line.split() for line in run.out.splitlines()]
    assert lines[0][-4:] == ["path", "old", "old_known", "new"]
    assert [line[-3:] for line in lines[1:]] == [["/app", "no", "two"], ["two", "yes", r"\x1b[2J\xff"]]
    assert "has zxids 0x100000004 to 0x10000000a, of 2026-03-01T12:00:01.000Z to" in run.err
    assert run.err.endswith(", and nothing older\n")


# Bad input.


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["audit"],
        ["audit", ".", "--since", "yesterday"],
        ["audit", ".", "--zxid-min", "0xyz"],
        ["audit", ".", "--zxid-min", "5", "--zxid-max", "4"],
        ["audit", ".", "--since", "1h ago", "--until", "2h ago"],
        ["audit", ".", "--format", "csv"],
        ["audit", ".", "--limit", "0"],
        ["audit", ".", "--path", "app"],
        ["audit", ".", "--session", "me"],
        ["audit", ".", "--ensemble", "a=b"],
        ["hotspots", ".", "--by", "colour"],
        ["hotspots", ".", "--depth", "0"],
        ["sessions", ".", "--within", "0"],
    ],
)
def test_wrong_usage_is_2_at_once(run: Run, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Spark takes its time to start."""
    monkeypatch.setattr(Driver, "spark", property(lambda _driver: pytest.fail("Spark was started")))
    assert run("pipeline", *words) == 2
    assert run.out == ""


def test_bad_directories_and_outputs_are_1_at_once(
    run: Run, member: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Driver, "spark", property(lambda _driver: pytest.fail("Spark was started")))
    for words, said in (
        ([tmp_path / "absent"], "absent"),
        ([member, "--out", tmp_path / "none" / "x.csv"], f"there is no directory {tmp_path}/none"),
        ([member, "--out", tmp_path / "x.csv", "--format", "json"], "its name says csv"),
        ([member, "--out", member, "--overwrite"], "is no earlier output"),
    ):
        assert run("pipeline", "audit", *words) == 1
        assert run.err.startswith("zab: ")
        assert run.err.count("\n") == 1
        assert said in run.err
    assert (member / "version-1").is_dir()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_what_a_worker_raises_is_a_sentence(run: Run, member: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def job(run: JobRun) -> Any:
        def fail(batches: Any) -> Any:
            yield from ()
            raise PipelineError("log.100000001: offset 64: it is damaged")

        return run.spark.range(1).mapInArrow(fail, "id bigint")

    def bug(run: JobRun) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        return run.spark.range(1).select(F.raise_error(F.lit("rows are odd")))

    from zab.cli.pipeline import commands as pipeline

    for function, said in ((job, "zab: log.100000001: offset 64: it is damaged\n"), (bug, "rows are odd")):
        app = typer.Typer(result_callback=pipeline.carry_out)
        app.command("odd")(command_of("odd", Job(function, takes_range=False)))
        app.callback()(lambda: None)
        monkeypatch.setattr(pipeline, "pipeline_app", app)
        assert run("pipeline", "odd", member) == 1
        assert said in run.err
        assert run.err.count("\n") == 1


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("rows", "code"), [(0, 0), (1, 1)])
def test_a_check_that_finds_something_is_1(
    run: Run, member: Path, monkeypatch: pytest.MonkeyPatch, rows: int, code: int
) -> None:
    from zab.cli.pipeline import commands as pipeline

    job = Job(lambda run: run.spark.range(rows), takes_range=False, fails_on_rows=True)
    app = typer.Typer(result_callback=pipeline.carry_out)
    app.command("check")(command_of("check", job))
    app.callback()(lambda: None)
    monkeypatch.setattr(pipeline, "pipeline_app", app)
    assert run("pipeline", "check", member) == code


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_without_the_extra_one_sentence_says_what_to_install(member: Path, missing: str) -> None:
    code = (
        f"import sys\nsys.modules[{missing!r}] = None\nfrom zab.cli.main import main\n"
        f"main(['pipeline', 'audit', {str(member)!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1
    assert re.fullmatch(r"zab: the pipeline needs \w+.*: pip install 'zab\[pipeline\]'\n", done.stderr, re.IGNORECASE)


def test_help_needs_no_spark() -> None:
    code = (
        "import sys\nfrom zab.cli.main import main\n"
        "try: main(['pipeline', '--help'])\nexcept SystemExit as ending: assert not ending.code\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'trio'} & sys.modules.keys()\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_every_job_says_what_it_does(run: Run, name: str) -> None:
    assert run("pipeline", name, "--help") == 0
    first = (JOBS[name].function.__doc__ or "").split()[:3]
    assert " ".join(first) in run.out
    assert ("--since" in run.out) == JOBS[name].takes_range
    assert ("--overwrite" in run.out) or not JOBS[name].gives_rows


# Options.


def test_sessions() -> None:
    assert [parse_session(text) for text in ("0x1000a5b2c3d0000", "-5", "0xffffffffffffffff")] == [
        *(0x1000A5B2C3D0000, -5, -1)
    ]
    for text in ("x", "0x1ffffffffffffffff", ""):
        with pytest.raises(typer.BadParameter):
            parse_session(text)


def test_ensembles_name_their_directories() -> None:
    assert named_dirs(["/a", "b=/c", "s3://x?k=v"], "blue") == ["blue=/a", "b=/c", "blue=s3://x?k=v"]
    assert named_dirs(["/a"], None) == ["/a"]
    assert Range.of(None, None, "1", "0x2") == Range(zxid_min=1, zxid_max=2)


# What Spark says, in one sentence.


FULL_DISK = """An error occurred while calling o1.getResult.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat a.b.c(D.scala:1)
Caused by: java.io.IOException: No space left on device
\tat x
"""
ODD_STATE = """: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat y
Caused by: java.lang.IllegalStateException: it is odd.
\tat x
"""
WRONG_SQL = """[PARSE_SYNTAX_ERROR] Syntax error at 'x'. SQLSTATE: 42601

JVM stacktrace:
org.apache.x
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FULL_DISK, "the disk with Spark's temporary files is full; SPARK_LOCAL_DIRS names another"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "Spark ran out of memory; --memory gives it more"),
        (WRONG_SQL, "Spark failed: Syntax error at 'x'. SQLSTATE: 42601; --spark-log error shows more"),
        (ODD_STATE, "Spark failed: it is odd; --spark-log error shows more"),
        ("", "Spark failed: it did not say why; --spark-log error shows more"),
    ],
)
def test_sentence_of_an_exception_of_spark(text: str, expected: str) -> None:
    assert spark_sentence(text) == expected


# The table, and progress.


def printed(rows: list[dict[str, Any]], width: int | None) -> tuple[list[str], list[str]]:
    """Lines and left-out columns; `width` of a terminal, None for none."""
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=width is not None, width=width or 80, color_system=None, highlight=False
    )
    left_out = print_rows(rows, list(rows[0]), console)
    return [line.rstrip() for line in file.getvalue().splitlines()], left_out


ROWS = [
    {"path": "/a[b]\x9b2J/" + "x" * 70, "writes": 5, "session": -1, "none": None, "ensemble": "e1"},
    {"path": "/é", "writes": 12_345, "session": 7, "none": None, "ensemble": "e1"},
]


def test_off_a_terminal_nothing_is_cut() -> None:
    lines, left_out = printed([{**row, "ensemble": None} for row in ROWS], None)
    assert lines[0].split() == ["path", "writes", "session"]
    assert lines[1].split() == [r"/a[b]\x9b2J/" + "x" * 70, "5", "0xffffffffffffffff"]
    assert lines[2].split() == ["/é", "12345", "0x7"]
    assert lines[1].index(" 5") + 1 == lines[2].index("12345") + 4
    assert left_out == []


def test_on_a_terminal_texts_are_cut_and_then_columns_go() -> None:
    lines, left_out = printed(ROWS, 60)
    assert all(len(line) <= 60 for line in lines)
    assert "…" in lines[1]
    assert lines[1].endswith("0xffffffffffffffff  e1")
    assert left_out == []
    lines, left_out = printed(ROWS, 30)
    assert lines[0].split() == ["path", "writes"]
    assert left_out == ["session", "ensemble"]


def test_several_ensembles_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"ensemble": name, "path": "/a"} for name in ("blue", "green")]
    assert print_rows(rows, ["path"]) == []
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["ensemble", "path"],
        ["blue", "/a"],
        ["green", "/a"],
    ]


def test_widths() -> None:
    assert fit({"a": 10, "b": 10}, set(), 22) == {"a": 10, "b": 10}
    assert fit({"a": 10, "b": 10}, set(), 21) == {"a": 10}
    assert fit({"a": 40, "b": 30, "c": 5}, {"a", "b"}, 49) == {"a": 20, "b": 20, "c": 5}
    assert fit({"a": 40}, set(), 20) == {"a": 40}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("zxid", 0x1000000A3, "0x1000000a3"),
        ("old_zxid", 5, "0x5"),
        ("session_ids", [1, -1], "0x1 0xffffffffffffffff"),
        ("paths", [f"/{number}" for number in range(22)], " ".join(f"/{number}" for number in range(20))[:59] + "…"),
        ("held", True, "yes"),
        ("gini", 0.123456, "0.1235"),
        ("per_day", 12_345_678.9, "12345679"),
        ("time", datetime.datetime(2026, 3, 1, 12, 0, 0, 1000, datetime.UTC), "2026-03-01 12:00:00.001"),
        ("data", b"\x00\xffa\n", r"\x00\xffa\n"),
        ("data", b"x" * 100_000, "x" * 59 + "…"),
        ("path", None, ""),
    ],
)
def test_cells(name: str, value: Any, expected: str) -> None:
    assert cell(name, value) == expected


@pytest.mark.spark
def test_progress_counts_the_tasks_of_running_stages(spark: SparkSession, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            count = super().write(text)
            if "running" in self.getvalue() and re.search(r"[0-3]/4", self.getvalue()):
                seen.touch()
            return count

    console = Console(file=Terminal(), force_terminal=True, width=80)
    with StageProgress(spark, console) as progress:
        path = str(seen)

        def until_seen(batches: Any) -> Any:
            import os
            import time

            deadline = time.monotonic() + 60
            while not os.path.exists(path) and time.monotonic() < deadline:
                time.sleep(0.02)
            yield from batches

        spark.range(0, 4, numPartitions=4).mapInArrow(until_seen, "id bigint").count()
        # Spark answers a job before those who listen to its stages have heard that they ended.
        deadline = time.monotonic() + 60
        while progress.count() != (0, 0):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert seen.exists()


def test_no_progress_off_a_terminal() -> None:
    class Session:
        class sparkContext:  # noqa: N801 - Spark's name
            @staticmethod
            def statusTracker() -> None:  # noqa: N802
                return None

    file = io.StringIO()
    with StageProgress(Session(), Console(file=file)):  # type: ignore[arg-type]
        pass
    assert file.getvalue() == ""


def test_off_a_terminal_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output as in the log of a scheduler, for jobs of minutes."""

    class Tracker:
        @staticmethod
        def getActiveStageIds() -> list[int]:  # noqa: N802 - Spark's names
            return [7]

        @staticmethod
        def getStageInfo(_: int) -> Any:  # noqa: N802
            return SimpleNamespace(numCompletedTasks=3, numTasks=9)

    class File(io.StringIO):
        def write(self, text: str) -> int:
            count = super().write(text)
            if "\n" in text:
                told.set()
            return count

    told = threading.Event()
    monkeypatch.setattr("zab.cli.pipeline.progress.LINE_SECONDS", 0.01)
    session = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=Tracker))
    file = File()
    with StageProgress(session, Console(file=file)):  # type: ignore[arg-type]
        assert told.wait(60)
    assert re.fullmatch(r"(zab: 3 of 9 tasks are done, after \d+ s\n)+", file.getvalue())


# Ctrl-C.


def running_with(text: str) -> list[str]:
    """The processes with this in their command lines."""
    found = []
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if re.search(text, command.read_text(errors="replace")):
                found.append(command.parent.name)
    return found


HELD = """
import sys

if "pyspark.daemon" in sys.orig_argv:
    import pathlib
    import time

    import zab.pipeline.output

    def held(*_, **__):
        pathlib.Path(__file__).with_name("begun").touch()
        time.sleep(3600)

    zab.pipeline.output._write_part = held
"""
"""What Spark's Python workers begin with: they say that a task runs, which goes on until it is interrupted."""

COLLECTED = """
import sys

if "zab.cli.main" in sys.orig_argv:
    import signal
    import threading

    import py4j.java_gateway as gateway

    def interrupted(*arguments, collect=gateway._garbage_collect_object):
        # It is called by others, too, who may raise what they want.
        is_callback = sys._getframe(1).f_code.co_name == "<lambda>"
        frame = sys._getframe()
        while frame is not None and not frame.f_code.co_filename.endswith("/reading/frames.py"):
            frame = frame.f_back
        if is_callback and frame is not None and threading.current_thread() is threading.main_thread():
            gateway._garbage_collect_object = collect
            signal.raise_signal(signal.SIGINT)
        collect(*arguments)

    gateway._garbage_collect_object = interrupted
"""
"""What the command begins with: an interrupt comes while a job is planned, in a callback of the collector."""


@pytest.mark.cluster
@pytest.mark.longest
def test_an_interrupt_in_a_callback_is_not_lost(member: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(COLLECTED)
    (tmp_path / "work").mkdir()
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": " ".join(quick_java("spark")), "TMPDIR": str(tmp_path / "work")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "zab.cli.main", "pipeline", "sessions", str(member)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=3 * LONG_PATIENCE_SECONDS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
    until(lambda: not running_with(f"java.*{tmp_path}"))


@pytest.mark.cluster
@pytest.mark.parametrize("while_it", ["starts", "runs"])
@pytest.mark.longest
def test_an_interrupted_job_leaves_nothing(member: Path, tmp_path: Path, while_it: str) -> None:
    """Neither Java nor files, nor anything to read but the exit code, and where it was after each minute on a slow
    machine; the job after it does not begin."""
    work, out, held = tmp_path / "work", tmp_path / "out", tmp_path / "held"
    for directory in (work, out, held):
        directory.mkdir()
    (held / "sitecustomize.py").write_text(HELD)
    printed, errors, jobs = tmp_path / "printed", tmp_path / "errors", tmp_path / "jobs"
    jobs.write_text(f"sessions {member} --out {out}/x.json\nsessions {member} --out {out}/y.json\n")
    command = [sys.executable, "-m", "zab.cli.main", "pipeline", "run", str(jobs), "--keep-going"]
    environment = {**os.environ, "TMPDIR": str(work), "SPARK_SUBMIT_OPTS": " ".join(quick_java("spark"))}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(held), os.environ.get("PYTHONPATH"))))
    with (
        printed.open("w") as output,
        errors.open("w") as file,
        subprocess.Popen(command, env=environment, stdout=output, stderr=file) as job,
    ):
        try:
            # Java has the path of its logging's settings among its arguments.
            until(lambda: running_with(f"java.*{work}") and (while_it == "starts" or (held / "begun").exists()))
            assert while_it == "starts" or any(out.iterdir()), "the parts have a place"
            job.send_signal(signal.SIGINT)
            assert job.wait(LONG_PATIENCE_SECONDS) == 130
        finally:
            job.kill()
    errors_besides_progress = re.sub(r"(?m)^zab: .*, after \d+ s\n", "", errors.read_text())
    assert (printed.read_text(), errors_besides_progress) == ("==> line 1: sessions <==\n", "")
    assert list(out.iterdir()) == []
    until(lambda: not running_with(f"java.*{work}"))


def test_rows_without_a_value_are_no_empty_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows([{"old": None, "zxid": 1}, {"old": None, "zxid": 2}], ["old"])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["old", "null", "null"]
