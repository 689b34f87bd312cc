"""The archive of Java's classes: who uses it, what becomes of one that does not fit, and how it gets its name.

The archive that the tests' own Spark starts from is written by the same code (`tests.rigs.java_archives`).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from tests.cli.commands import Run
from tests.pipeline.rigs.log_writer import History, LogWriter
from zab.cli.pipeline import driver as driver_module
from zab.cli.pipeline.driver import Driver, SparkOptions
from zab.cli.pipeline.job_file import JobFile, read_lines
from zab.cli.pipeline.options import Range
from zab.cli.pipeline.run import Run as JobRun
from zab.pipeline import class_archive, spark_session
from zab.pipeline.class_archive import archive_options, archive_path
from zab.pipeline.inventory import Inventory, inventory
from zab.pipeline.java import find_java

JAVA = Path("/opt/java/bin/java")


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A virtual environment of its own, and a Java of version 17, which is not there."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(class_archive, "find_java", lambda: JAVA)
    monkeypatch.setattr(class_archive, "version_of", lambda _java: 17)
    return tmp_path / "share" / "zab"


def existing() -> Path:
    archive = archive_path()
    assert archive is not None
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(b"classes")
    return archive


def test_it_is_used_once_it_is_there(home: Path) -> None:
    assert archive_options() == []
    archive = existing()
    assert archive.parent == home
    assert archive_options() == [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"]
    assert f"-XX:SharedArchiveFile={archive}" in spark_session._java_options("off", False, "")


def test_it_is_for_one_java_and_one_spark(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    existing()
    monkeypatch.setattr(class_archive, "version_of", lambda _java: 21)
    assert archive_options() == []
    existing()
    monkeypatch.setattr(class_archive, "find_java", lambda: JAVA.with_name("other"))
    assert archive_options() == []
    existing()
    monkeypatch.setattr(pyspark, "__version__", "4.2.9")
    assert archive_options() == []
    monkeypatch.setattr(class_archive, "find_java", lambda: None)
    assert (archive_path(), archive_options()) == (None, [])


def test_who_makes_one_takes_none(home: Path) -> None:
    """Java would refuse to."""
    existing()
    given = f"-XX:ArchiveClassesAtExit={home}/new"
    options = spark_session._java_options("off", False, given)
    assert given in options
    assert "SharedArchiveFile" not in options


@pytest.mark.parametrize("content", [None, b"", b"\0" * 100_000, b"not an archive"])
def test_java_starts_without_a_word_from_what_is_no_archive(content: bytes | None, tmp_path: Path) -> None:
    java, archive = find_java(), tmp_path / "classes.jsa"
    assert java is not None
    if content is not None:
        archive.write_bytes(content)
    plain, with_it = (
        subprocess.run([java, *options, "-version"], capture_output=True, check=True)
        for options in ([], [f"-XX:SharedArchiveFile={archive}", class_archive.IN_SILENCE])
    )
    assert with_it.stdout == b""
    # Whether Java's own archive is used, it says in its version.
    assert with_it.stderr.split(b"mode")[0] == plain.stderr.split(b"mode")[0]
    assert with_it.stderr.count(b"\n") == plain.stderr.count(b"\n")


class Writer:
    """Stands for the Python that writes an archive."""

    def __init__(self, content: bytes | None, stderr: str = "") -> None:
        self._content = content
        self._stderr = stderr
        self.own_classes = 0

    def __call__(self, words: list[Any], **_options: Any) -> subprocess.CompletedProcess[str]:
        if words == [JAVA, "-Xshare:dump"]:
            self.own_classes += 1
            return subprocess.CompletedProcess(words, 0, "", "")
        assert words[:3] == [sys.executable, "-m", "zab.pipeline.class_archiving"]
        if self._content is not None:
            words[3].write_bytes(self._content)
        return subprocess.CompletedProcess(words, 0 if self._content else 1, "", self._stderr)


def test_prepare_prints_where_it_is(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"first", b"second"):
        monkeypatch.setattr("zab.pipeline.class_archive.subprocess.run", Writer(content))
        assert run("pipeline", "prepare") == 0
        (archive,) = home.iterdir()
        assert run.out == f"{archive}\n"
        assert archive.read_bytes() == content


def test_java_needs_an_archive_of_its_own_classes_first(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(b"classes")
    monkeypatch.setattr("zab.pipeline.class_archive.subprocess.run", writer)
    assert (run("pipeline", "prepare"), writer.own_classes) == (0, 1)
    (tmp_path / "lib" / "server").mkdir(parents=True)
    (tmp_path / "lib" / "server" / "classes.jsa").touch()
    monkeypatch.setattr(class_archive, "find_java", lambda: tmp_path / "bin" / "java")
    assert (run("pipeline", "prepare"), writer.own_classes) == (0, 1)


def test_one_that_is_not_written_is_a_sentence_and_the_old_one_stays(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = existing()
    for writer, said in (
        (Writer(None, "Traceback\nzab.pipeline.errors.PipelineError: no Java\n"), "PipelineError: no Java"),
        (Writer(None), "this Java makes none"),
    ):
        monkeypatch.setattr("zab.pipeline.class_archive.subprocess.run", writer)
        assert run("pipeline", "prepare") == 1
        assert run.err.startswith("zab: no archive of Java's classes was made: ")
        assert run.err.endswith(f"{said}\n")
        assert [archive] == [*home.iterdir()]
    monkeypatch.setattr(class_archive, "find_java", lambda: None)
    assert run("pipeline", "prepare") == 1
    assert run.err == "zab: an archive is for a Java runtime, and none was found\n"


def test_a_place_that_cannot_be_written_is_named(
    run: Run, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "share").write_bytes(b"")
    assert run("pipeline", "prepare") == 1
    assert run.err.startswith("zab: the archive of Java's classes cannot be kept: ")
    assert str(tmp_path / "share") in run.err


# Short work.


def test_short_work_is_compiled_quickly() -> None:
    for is_short in (False, True):
        options = spark_session._java_options("off", is_short, "-Dmine=1").split()
        assert ("-XX:TieredStopAtLevel=1" in options) == is_short
        assert options[-1] == "-Dmine=1"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether sessions were asked for that are for short work; none starts."""
    found: list[bool] = []

    def job_session(_url: str | None, *, is_short: bool, **_options: Any) -> Any:
        found.append(is_short)
        raise FileNotFoundError("no session here")

    monkeypatch.setattr("zab.pipeline.spark_session.job_session", job_session)
    return found


def test_what_is_small_is_short_work(asked: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history, writer = History(), LogWriter(tmp_path / "data")
    writer.log.append([history.add(4)])
    size = sum(path.stat().st_size for path in (tmp_path / "data").rglob("log.*") if path.suffix != ".index")
    small, absent = [str(tmp_path / "data")], [str(tmp_path / "absent")]
    for dirs, limit in ((small, size), (small, size - 1), ([], size), (absent, size), ([*small, *absent], size)):
        monkeypatch.setattr(driver_module, "SHORT_BYTES_MAX", limit)
        with Driver(SparkOptions(), dirs) as driver, pytest.raises(FileNotFoundError):
            _ = driver.spark
    assert asked == [True, False, False, False, False]


def test_the_directories_are_looked_at_once_before_spark_starts(
    asked: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store each look is a listing."""
    history, writer = History(), LogWriter(tmp_path / "data")
    writer.log.append([history.add(4)])
    looked: list[list[str]] = []

    def counted(dirs: list[str]) -> Inventory:
        looked.append(dirs)
        return inventory(dirs)

    monkeypatch.setattr("zab.pipeline.inventory.inventory", counted)
    dirs = [str(tmp_path / "data")]
    with Driver(SparkOptions(), dirs) as driver:
        run = JobRun(driver, dirs, Range(), uncommitted=False)
        assert run.look().dirs == dirs
        with pytest.raises(FileNotFoundError):
            _ = run.spark
    assert (looked, asked) == ([dirs], [True])


def test_what_goes_on_is_no_short_work(tmp_path: Path) -> None:
    line = f"follow {tmp_path} --out rows --checkpoint done"
    (once,) = read_lines("nightly", f"{line} --once".encode())
    assert once.call.all_read == [str(tmp_path)]
    assert evolve(once.call, own={**once.call.own, "once": False}).all_read == []


def test_several_jobs_are_short_work_if_all_they_read_is_small() -> None:
    for text, dirs in (
        (b"verify a\naudit b c\n", ["a", "b", "c"]),
        (b"verify a\nhistory run.parquet\n", []),
    ):
        assert JobFile(read_lines("nightly", text), False, SparkOptions()).all_read == dirs
