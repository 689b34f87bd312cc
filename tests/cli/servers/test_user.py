"""`zab user`: who may log in by SASL, with a password that is on no command line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.commands import call
from zab.member.clients.sasl_users import users_of_file
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, key_of


def test_user_is_added_changed_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "users"
    for name, password in (("bob", "one"), ("eve", "two words "), ("bob", "three")):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        assert call(capsys, "user", file, name) == (0, "", "")
    assert users_of_file(file.read_text()) == {
        "bob": key_of("bob", ZOOKEEPER_REALM, "three"),
        "eve": key_of("eve", ZOOKEEPER_REALM, "two words "),
    }
    assert call(capsys, "user", "--remove", file, "bob") == (0, "", "")
    assert set(users_of_file(file.read_text())) == {"eve"}
    said = call(capsys, "user", "--remove", file, "bob")
    assert (said.code, said.out) == (1, "")
    assert "there is no user 'bob'" in said.err


def test_without_a_password_there_is_no_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    said = call(capsys, "user", tmp_path / "users", "bob")
    assert (said.code, said.out) == (1, "")
    assert not (tmp_path / "users").exists()
