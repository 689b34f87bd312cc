"""The search for a Java runtime: versions are read right, and what does not run is passed over."""

import pytest

from tests import java


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


def test_java_home_without_a_runtime_is_passed_over(tmp_path, monkeypatch) -> None:
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin" / "java"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'java version \"1.8.0_412\"' >&2\n")
    old.chmod(0o755)
    new = tmp_path / "java21"
    new.write_text("#!/bin/sh\necho 'openjdk version \"21.0.8\"' >&2\n")
    new.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert next(java.candidates()) == str(broken)
    monkeypatch.setattr(java, "candidates", lambda: iter([str(broken), str(tmp_path / "absent"), str(old), str(new)]))
    assert java.find_java.__wrapped__() == str(new)


def test_script_fails_where_no_java_is_found(monkeypatch, capsys) -> None:
    monkeypatch.setattr(java, "find_java", lambda: None)
    assert java.main() == 1
    assert "17" in capsys.readouterr().err
