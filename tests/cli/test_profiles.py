"""Profiles: what may be in their file, and what is said of what may not. Values are never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zab.cli.profiles import KEYS, SECRET_KEYS, ProfileError, default_path, read_profile

SECRET = "hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.touch(mode=0o600)
    return path


def default(file: Path, text: str) -> None:
    file.write_text(f"[profiles.default]\n{text}")


def refusal(file: Path) -> str:
    with pytest.raises(ProfileError) as caught:
        read_profile(file, None)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_keys_become_defaults_and_paths_are_beside_the_file(file: Path) -> None:
    default(
        file,
        'hosts = "a:1"\nsession-timeout = 7\nwait = 0.5\nread-only = true\nauth = ["digest:a:b"]\njute-maxbuffer = 5\n'
        'tls = true\nca = "ca.pem"\nkey-store = "/k.pem"\npassword-file = "~/p"\ncheck-host = false\n'
        f'sasl-user = "alice"\nsasl-password = "{SECRET}"\nsecure-ledgers = true\nbookie-tls = true\n',
    )
    found = read_profile(file, None)
    assert found.defaults == {
        "hosts": "a:1",
        "session_timeout_seconds": 7,
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
        "secure_ledgers": True,
        "bookie_tls": True,
    }
    assert found.sasl_password == SECRET
    assert SECRET not in repr(found)
    assert "digest" not in repr(found)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("tls = true\n\nkeystore = 'x'\n", 4, "keystore is no key: did you mean key-store?"),
        ("zzz = 1\n", 2, "zzz is no key: there are hosts, session-timeout, "),
        ("# tls\n[profiles.default.tls]\nca = 'x'\n", 3, "tls is true or false"),
        ("ca.file = 'x'\n", 2, "ca is a text"),
        ("'sasl-pass' = 'hunter2'\n", 2, "sasl-pass is no key: did you mean sasl-password?"),
        ("# tls = 1\ntls = 'yes'\n", 3, "tls is true or false"),
        ("session-timeout = true\n", 2, "session-timeout is a number"),
        ("timeout = 7\n", 2, "timeout is no key: did you mean session-timeout?"),
        ("jute-maxbuffer = 1.5\n", 2, "jute-maxbuffer is a whole number"),
        ("jute-maxbuffer = true\n", 2, "jute-maxbuffer is a whole number"),
        ("auth = 'digest:hunter2'\n", 2, "auth is a list of texts"),
        ("auth = ['a', 7]\n", 2, "auth is a list of texts"),
        ("sasl-password = 7\n", 2, "sasl-password is a text"),
        ("sasl-password-file = 'f'\nsasl-password = 'hunter2'\n", 3, "a password, or a file of it, not both"),
        ("tls = true\n[profiles.a]\nhosts = 'x'\n[profiles.b]\ntls = true\nhost = 'x'\n", 7, "host is no key"),
    ],
)
def test_what_may_not_stand_there_is_refused_with_its_line(file: Path, text: str, line: int, said: str) -> None:
    """Also in a profile that is not used."""
    default(file, text)
    assert refusal(file).startswith(f"{file}:{line}: {said}")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("hosts = 'a:1'\n", 1, "hosts is not known here: it belongs below [profiles.default]"),
        ("\n[profile.default]\nhosts = 'a:1'\n", 2, "profile is not known here: did you mean profiles?"),
        ("\nprofiles = 7\n", 2, "profiles are tables, [profiles.NAME]"),
        ("[profiles]\n\nhosts = 'a:1'\n", 3, "hosts is no profile: write [profiles.NAME]"),
        ("\nprofiles.a.host = 'a:1'\n", 2, "host is no key: did you mean hosts?"),
    ],
)
def test_nothing_but_profiles_is_in_the_file(file: Path, text: str, line: int, said: str) -> None:
    file.write_text(text)
    assert refusal(file).startswith(f"{file}:{line}: {said}")


def test_a_profile_that_is_not_there(file: Path) -> None:
    file.write_text("[profiles.production]\nhosts = 'a:1'\n")
    assert read_profile(file, None).defaults == {}, "none has to be the default"
    assert read_profile(file, "production").defaults == {"hosts": "a:1"}
    for name, said in (("prodution", "did you mean production?"), ("x", "there are production")):
        with pytest.raises(ProfileError, match=f"there is no profile {name}: {said}"):
            read_profile(file, name)
    file.write_text("")
    with pytest.raises(ProfileError, match="there is no profile default: there is none in it"):
        read_profile(file, "default")


def test_what_is_no_toml_is_refused(file: Path) -> None:
    default(file, f"tls = true\nsasl-password = {SECRET}\n")
    assert refusal(file).startswith(f"{file}: ")
    assert "line 3" in refusal(file)
    file.write_bytes(b"\xff\xfe")
    assert refusal(file) == f"{file}: it is not UTF-8"
    file.write_text("#" * 70_000)
    assert "more than 65536 bytes" in refusal(file)
    file.unlink()
    file.mkdir()
    assert "it cannot be read" in refusal(file)


@pytest.mark.parametrize(
    "text",
    [
        f"sasl-password = '{SECRET}'",
        f"auth = ['digest:a:{SECRET}']",
        "sasl-password-file = 'p'",
        "password-file = 'p'",
        "tls = true\n[profiles.other]\nauth = []",
    ],
)
def test_a_file_about_secrets_is_for_its_owner_alone(file: Path, text: str) -> None:
    default(file, text)
    for mode in (0o640, 0o604, 0o620, 0o601):
        file.chmod(mode)
        assert refusal(file) == f"{file}: users other than its owner can use it: run `chmod 600 {file}`"
    file.chmod(0o600)
    read_profile(file, None)


def test_a_file_with_a_password_belongs_to_who_reads_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default(file, f"sasl-password = '{SECRET}'")
    own = os.geteuid()
    if own == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert refusal(file).endswith("does not belong to the user who runs this")


def test_a_file_without_a_password_may_be_read_by_all(file: Path) -> None:
    default(file, 'hosts = "a:1"')
    file.chmod(0o644)
    assert read_profile(file, None).defaults == {"hosts": "a:1"}


def test_the_file_is_where_configuration_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_path() == tmp_path / "zab" / "config.toml"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".config" / "zab" / "config.toml"


def test_secret_keys_are_keys() -> None:
    assert KEYS.keys() >= SECRET_KEYS
