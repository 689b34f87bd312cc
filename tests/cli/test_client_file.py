"""The client's file: what may stand in it, and what is said of what may not. Values are never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zab.cli.client_file import KEYS, SECRET_KEYS, ClientFileError, default_path, read_client_file

SECRET = "hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "client.toml"
    path.touch(mode=0o600)
    return path


def refusal(file: Path) -> str:
    with pytest.raises(ClientFileError) as caught:
        read_client_file(file)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_keys_become_defaults_and_paths_are_beside_the_file(file: Path) -> None:
    file.write_text(
        'hosts = "a:1"\ntimeout = 7\nwait = 0.5\nread-only = true\nauth = ["digest:a:b"]\njute-maxbuffer = 5\n'
        'tls = true\nca = "ca.pem"\nkey-store = "/k.pem"\npassword-file = "~/p"\ncheck-host = false\n'
        f'sasl-user = "alice"\nsasl-password = "{SECRET}"\n'
    )
    found = read_client_file(file)
    assert found.defaults == {
        "hosts": "a:1",
        "timeout_seconds": 7,
        "wait_seconds": 0.5,
        "read_only": True,
        "auth": ["digest:a:b"],
        "jute_maxbuffer_bytes": 5,
        "tls": True,
        "ca": str(file.parent / "ca.pem"),
        "key_store": "/k.pem",
        "password_file": str(Path.home() / "p"),
        "check_host": False,
        "sasl_user": "alice",
    }
    assert found.sasl_password == SECRET
    assert SECRET not in repr(found)
    assert "digest" not in repr(found)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("tls = true\n\nkeystore = 'x'\n", 3, "keystore is no key: there are hosts, timeout, "),
        ("# tls\n[tls]\nca = 'x'\n", 2, "tls is true or false"),
        ("ca.file = 'x'\n", 1, "ca is a text"),
        ("'sasl-pass' = 'hunter2'\n", 1, "sasl-pass is no key"),
        ("tls = 'yes'\n", 1, "tls is true or false"),
        ("timeout = true\n", 1, "timeout is a number"),
        ("timeout = '7'\n", 1, "timeout is a number"),
        ("jute-maxbuffer = 1.5\n", 1, "jute-maxbuffer is a whole number"),
        ("jute-maxbuffer = true\n", 1, "jute-maxbuffer is a whole number"),
        ("auth = 'digest:hunter2'\n", 1, "auth is a list of texts"),
        ("auth = ['a', 7]\n", 1, "auth is a list of texts"),
        ("sasl-password = 7\n", 1, "sasl-password is a text"),
        ("sasl-password-file = 'f'\nsasl-password = 'hunter2'\n", 2, "a password, or a file of it, not both"),
    ],
)
def test_what_may_not_stand_there_is_refused_with_its_line(file: Path, text: str, line: int, said: str) -> None:
    file.write_text(text)
    assert refusal(file).startswith(f"{file}:{line}: {said}")


def test_what_is_no_toml_is_refused(file: Path) -> None:
    file.write_text(f"tls = true\nsasl-password = {SECRET}\n")
    assert refusal(file).startswith(f"{file}: ")
    assert "line 2" in refusal(file)
    file.write_bytes(b"\xff\xfe")
    assert refusal(file) == f"{file}: it is not UTF-8"
    file.write_text("#" * 70_000)
    assert "more than 65536 bytes" in refusal(file)
    file.unlink()
    file.mkdir()
    assert "it cannot be read" in refusal(file)


@pytest.mark.parametrize("text", [f"sasl-password = '{SECRET}'", f"auth = ['digest:a:{SECRET}']"])
def test_a_file_with_a_password_is_for_its_owner_alone(file: Path, text: str) -> None:
    file.write_text(text)
    for mode in (0o640, 0o604, 0o620, 0o601):
        file.chmod(mode)
        assert refusal(file).endswith(f"others may use it: run `chmod 600 {file}`")
    file.chmod(0o600)
    read_client_file(file)


def test_a_file_with_a_password_belongs_to_who_reads_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(f"sasl-password = '{SECRET}'")
    own = os.geteuid()
    if own == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert refusal(file).endswith("it belongs to another user")


def test_a_file_without_a_password_may_be_read_by_all(file: Path) -> None:
    file.write_text('hosts = "a:1"')
    file.chmod(0o644)
    assert read_client_file(file).defaults == {"hosts": "a:1"}


def test_the_file_is_where_configuration_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "zab" / "client.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".config" / "zab" / "client.toml"


def test_secret_keys_are_keys() -> None:
    assert KEYS.keys() >= SECRET_KEYS
