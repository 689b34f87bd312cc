"""The file with the users of SASL DIGEST-MD5 (`sasl.usersFile`, or a JAAS file), of a running server and of `zab user`.

No other user may read it (`private_file`). `zab.member.clients.sasl_users` has its format.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from zab.configuration.jaas import LoginModule
from zab.host.files.private_file import PrivateFileError, read_private, replace_private
from zab.host.files.watched_file import WatchedFile
from zab.member.clients.kerberos import Krb5Login, krb5_login_of
from zab.member.clients.sasl_users import (
    KERBEROS_LOGIN,
    Users,
    UsersError,
    is_name,
    login_module,
    no_section,
    user_line,
    users_of_file,
    users_of_jaas,
)
from zab.member.settings.config import Config
from zab.member.settings.schemes import SASL

FILE_BYTES_MAX: Final = 1 << 20


def watched_users(config: Config) -> WatchedFile[Users] | None:
    """The users that the configuration names; None if it names none, or Kerberos. Raises `PrivateFileError`."""
    if config.login.users_file is not None:
        return WatchedFile(config.login.users_file, _read_users)
    module = server_login(config)
    if config.login.jaas_file is None or module is None or module.name == KERBEROS_LOGIN:
        return None
    return WatchedFile(
        config.login.jaas_file, partial(_read_jaas, config.login.jaas_section, config.login.super_password)
    )


def kerberos_login(config: Config) -> Krb5Login | None:
    """The Kerberos login of the server, if its JAAS file has one. Raises `PrivateFileError`."""
    module = server_login(config)
    if module is None:
        return None
    try:
        if module.name != KERBEROS_LOGIN:
            if config.login.removes_kerberos_host or config.login.removes_kerberos_realm:
                raise UsersError(f"line {module.line}: kerberos.* is set, but this is another login module")
            return None
        if config.login.super_password is not None:
            raise UsersError(f"line {module.line}: SASLAuthenticationProvider.superPassword does not apply to Kerberos")
        return krb5_login_of(module)
    except UsersError as error:
        raise PrivateFileError(f"{config.login.jaas_file}: {error}") from None


def server_login(config: Config) -> LoginModule | None:
    """The login module of the server in the JAAS file; None if there is no such file or module. That is no error if
    nobody has to log in, as in ZooKeeper. Raises `PrivateFileError`."""
    path = config.login.jaas_file
    if path is None:
        return None
    try:
        module = login_module(_text(path), config.login.jaas_section)
        if module is None and (SASL in config.access.required_schemes or config.login.super_password is not None):
            raise UsersError(no_section(config.login.jaas_section))
    except UsersError as error:
        raise PrivateFileError(f"{path}: {error}") from None
    return module


def _read_users(path: str) -> Users:
    try:
        return users_of_file(_text(path))
    except UsersError as error:
        raise PrivateFileError(f"{path}: {error}") from None


def _read_jaas(section: str, super_password: str | None, path: str) -> Users:
    try:
        return users_of_jaas(_text(path), section, super_password)
    except UsersError as error:
        raise PrivateFileError(f"{path}: {error}") from None


def _text(path: str) -> str:
    try:
        return read_private(path, FILE_BYTES_MAX, "it holds the users of SASL").decode()
    except UnicodeDecodeError:
        raise PrivateFileError(f"{path}: it is not UTF-8") from None


def put_user(path: str, name: str, password: str) -> None:
    """Add a user with this password, or change its password; creates the file if it is missing. Raises
    `PrivateFileError` and OSError."""
    if not is_name(name) or not password:
        raise PrivateFileError("a user has a name without `/`, `@`, `:` and control characters, and a password")
    lines = _others(path, name) if os.path.lexists(path) else []
    replace_private(path, _content([*lines, user_line(name, password)]))


def drop_user(path: str, name: str) -> None:
    """Remove a user from the file. Raises `PrivateFileError` and OSError."""
    if name not in _read_users(path):
        raise PrivateFileError(f"{path}: there is no user {name!r}")
    replace_private(path, _content(_others(path, name)))


def _others(path: str, name: str) -> list[str]:
    return [line for line in _text(path).splitlines() if line.partition(":")[0].strip() != name]


def _content(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
