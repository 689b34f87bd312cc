"""The file with the users of SASL: read for a server, and changed user by user."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from zab.host.files.private_file import PrivateFileError
from zab.host.files.watched_file import WatchedFile
from zab.member.clients.sasl_users import Users
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import parse
from zab.server.files import warnings_of
from zab.server.users_file import FILE_BYTES_MAX, drop_user, kerberos_login, put_user, watched_users
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, key_of

BOB, EVE = key_of("bob", ZOOKEEPER_REALM, "bob's"), key_of("eve", ZOOKEEPER_REALM, "eve's")


def configured(*lines: str) -> Config:
    return parse("\n".join(("dataDir=/d", "clientPort=2181", *lines)), "zoo.cfg")


def watched(*lines: str) -> WatchedFile[Users] | None:
    return watched_users(configured(*lines))


def users_in(path: Path) -> Users:
    found = watched(f"sasl.usersFile={path}")
    assert found is not None
    return found.content


def test_users_are_put_into_the_file_replaced_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "users"
    before = os.umask(0)
    try:
        put_user(str(path), "bob", "first")
        put_user(str(path), "eve", "eve's")
        put_user(str(path), "bob", "bob's")
    finally:
        os.umask(before)
    assert users_in(path) == {"bob": BOB, "eve": EVE}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "bob's" not in path.read_text()
    path.write_text("# of the cluster\n" + path.read_text())
    drop_user(str(path), "eve")
    assert users_in(path) == {"bob": BOB}
    assert path.read_text().startswith("# of the cluster\n")
    assert os.listdir(tmp_path) == ["users"]
    with pytest.raises(PrivateFileError, match="there is no user 'eve'"):
        drop_user(str(path), "eve")


@pytest.mark.parametrize(
    ("name", "password"), [("", "x"), ("a/b", "x"), ("a:b", "x"), ("a@b", "x"), ("a\n", "x"), ("a", "")]
)
def test_what_is_no_user_is_not_put_there(tmp_path: Path, name: str, password: str) -> None:
    with pytest.raises(PrivateFileError, match="a user has a name"):
        put_user(str(tmp_path / "users"), name, password)
    assert os.listdir(tmp_path) == []


def test_file_that_others_may_read_is_neither_used_nor_changed(tmp_path: Path) -> None:
    path = tmp_path / "users"
    put_user(str(path), "bob", "bob's")
    path.chmod(0o640)
    for change in (
        lambda: users_in(path),
        lambda: put_user(str(path), "eve", "eve's"),
        lambda: drop_user(str(path), "bob"),
    ):
        with pytest.raises(PrivateFileError, match=f"run `chmod 600 {path}`"):
            change()
    path.chmod(0o600)
    assert users_in(path) == {"bob": BOB}


def test_users_are_read_again_when_the_file_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "users"
    put_user(str(path), "bob", "bob's")
    found = watched(f"sasl.usersFile={path}")
    assert found is not None
    assert not found.read_again()
    put_user(str(path), "eve", "eve's")
    assert found.read_again()
    assert found.content == {"bob": BOB, "eve": EVE}
    path.write_bytes(b"\xff")
    with pytest.raises(PrivateFileError, match="it is not UTF-8"):
        found.read_again()
    assert found.content == {"bob": BOB, "eve": EVE}
    path.unlink()
    assert not found.read_again()


def test_users_of_a_jaas_file_with_the_section_and_password_of_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "jaas"
    path.write_text(
        'Mine { org.apache.zookeeper.server.auth.DigestLoginModule required user_super=old user_bob="bob\'s"; };'
    )
    path.chmod(0o600)
    lines = (f"java.security.auth.login.config={path}", "sasl.serverconfig=Mine")
    found = watched(*lines, "SASLAuthenticationProvider.superPassword=new")
    assert found is not None
    assert found.content == {"bob": BOB, "super": key_of("super", ZOOKEEPER_REALM, "new")}
    with pytest.raises(PrivateFileError, match=f"^{path}: there is no section Server"):
        watched(lines[0], "SASLAuthenticationProvider.superPassword=new")
    path.write_text("Mine { };")
    with pytest.raises(PrivateFileError, match=f"^{path}: there is no section Mine"):
        found.read_again()


REQUIRING = (
    ("sessionRequireClientSASLAuth=true",),
    ("requireClientAuthScheme=sasl",),
    ("enforce.auth.enabled=true", "enforce.auth.schemes=sasl"),
)


@pytest.mark.parametrize(
    ("content", "mode"),
    [("", 0o644), ("// nothing\n", 0o600), ("Server { };", 0o600), ("Other { a.B required; };", 0o600)],
)
def test_a_jaas_file_without_a_login_of_the_server_is_refused_only_where_somebody_has_to_log_in(
    tmp_path: Path, content: str, mode: int
) -> None:
    """Accepted, like in ZooKeeper, which then has no SASL; kazoo's test harness writes an empty file."""
    path = tmp_path / "jaas"
    path.write_text(content)
    path.chmod(mode)
    line = f"java.security.auth.login.config={path}"
    provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    config = configured(line, provider)
    assert watched(line, provider) is None
    assert kerberos_login(config) is None
    [warning] = warnings_of(config)
    told = "there is no section Server with a login module, so nobody can log in by SASL"
    assert str(warning) == f"{path}:1: java.security.auth.login.config: {told}"
    for required in REQUIRING:
        with pytest.raises(PrivateFileError, match=f"^{path}: there is no section Server with a login module$"):
            watched(line, provider, *required)
        assert warnings_of(configured(line, provider, *required)) == ()


def test_a_jaas_file_that_others_may_read_is_refused_once_there_is_something_in_it(tmp_path: Path) -> None:
    path = tmp_path / "jaas"
    path.write_text("Server { a.B required; };")
    path.chmod(0o644)
    with pytest.raises(PrivateFileError, match="users other than its owner can use it"):
        watched(f"java.security.auth.login.config={path}")
    path.unlink()
    with pytest.raises(PrivateFileError, match="it cannot be read"):
        watched(f"java.security.auth.login.config={path}")


def test_without_a_file_there_is_nothing_to_watch() -> None:
    assert watched() is None


def test_file_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    path.chmod(0o600)
    with pytest.raises(PrivateFileError, match=f"more than {FILE_BYTES_MAX} bytes"):
        users_in(path)
    with pytest.raises(PrivateFileError, match="it cannot be read: No such file"):
        users_in(tmp_path / "missing")
