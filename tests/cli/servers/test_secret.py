"""`zab secret`: the file by which members prove who they are, and how it is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import call
from zab.host.files.secret_file import read_secrets


def test_secret_is_made_added_to_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "secret"
    assert call(capsys, "secret", file) == (0, "", "")
    [first] = read_secrets(str(file))
    assert call(capsys, "secret", "--add", file) == (0, "", "")
    old, new = read_secrets(str(file))
    assert old == first
    assert call(capsys, "secret", "--newest", file) == (0, "", "")
    assert read_secrets(str(file)) == (new,)


def test_secret_that_is_there_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "secret"
    call(capsys, "secret", file)
    before = file.read_bytes()
    said = call(capsys, "secret", file)
    assert said == (1, "", f"zab: {file} exists already: `zab secret --add {file}` adds a secret to it\n")
    assert file.read_bytes() == before


@pytest.mark.parametrize("option", ["--add", "--newest"])
def test_what_is_no_file_of_secrets_is_not_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text("tickTime=2000\n")
    said = call(capsys, "secret", option, file)
    assert (said.code, said.out) == (1, "")
    assert "chmod 600" in said.err
    file.chmod(0o600)
    said = call(capsys, "secret", option, file)
    assert "zoo.cfg:1: a secret has at least 64 hexadecimal digits" in said.err
    assert file.read_text() == "tickTime=2000\n"


def test_wrong_usage_is_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "secret").code == 2
    assert call(capsys, "secret", "--add", "--newest", tmp_path / "secret").code == 2
    assert call(capsys, "secret", tmp_path / "absent" / "secret").code == 1
