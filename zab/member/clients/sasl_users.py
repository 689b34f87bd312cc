"""The users that may log in by SASL DIGEST-MD5, and their keys, from a file of users or a JAAS file. Pure: takes text.

A file of users (`sasl.usersFile`) has one user per line, as Apache's `htdigest` writes it; the realm is always the
same:

    bob:zk-sasl-md5:0c0c40c624fd45a526f9e307c96430ae    H(user:realm:password), hexadecimal

Blank lines and lines that begin with `#` are ignored. The file has no passwords, but a key is as powerful as its
password.

In a JAAS file, the section has ZooKeeper's DigestLoginModule, with an option `user_NAME="password"` for each user. With
the Kerberos module there are no users here: the KDC knows them (`kerberos`).

A name must be usable in an ACL: it has no `/` and no `@`, as Kerberos names have, and no control characters.

Limits: USERS_MAX users, a name of NAME_BYTES_MAX. No error shows a password or key.

Not here: reading files, and the login itself (`authentication`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from zab.configuration.jaas import JaasError, LoginModule, parse_jaas
from zab.wire.login.digest_md5 import KEY_BYTES, ZOOKEEPER_REALM, key_of

USERS_MAX: Final = 10_000
NAME_BYTES_MAX: Final = 256

DIGEST_LOGIN: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS_LOGIN: Final = "com.sun.security.auth.module.Krb5LoginModule"
_USER: Final = "user_"
_SUPER: Final = "super"
_UNFIT = re.compile(r"[/@:\x00-\x1f\x7f]")

Users: TypeAlias = Mapping[str, bytes]
"""Name → key."""


class UsersError(Exception):
    """The file cannot be read; the text says where and why."""


def users_of_file(text: str) -> Users:
    """The users in a file of users. Raises `UsersError`."""
    users: dict[str, bytes] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if not line or line.startswith("#"):
            continue
        parts = line.split(":")
        if len(parts) != 3 or parts[1] != ZOOKEEPER_REALM or not re.fullmatch(r"[0-9a-fA-F]{32}", parts[2], re.ASCII):
            wanted = f"NAME:{ZOOKEEPER_REALM}: and {2 * KEY_BYTES} hexadecimal digits, as `zab user` writes it"
            raise UsersError(f"line {number}: a user is {wanted}")
        _add(users, parts[0], bytes.fromhex(parts[2]), f"line {number}")
    return _some(users, "`zab user FILE NAME` adds one")


def users_of_jaas(text: str, section: str, super_password: str | None) -> Users:
    """The users in a section of a JAAS file; `super_password` replaces that of user super. Raises `UsersError`."""
    module = login_module(text, section)
    if module is None:
        raise UsersError(no_section(section))
    where = f"line {module.line}"
    if module.name == KERBEROS_LOGIN:
        raise UsersError(f"{where}: a running server cannot change to Kerberos: restart it")
    if module.name != DIGEST_LOGIN:
        raise UsersError(f"{where}: the only supported login modules are {DIGEST_LOGIN} and {KERBEROS_LOGIN}")
    passwords = {key.removeprefix(_USER): value for key, value in module.options.items() if key.startswith(_USER)}
    if super_password is not None:
        if _SUPER not in passwords:
            wanted = f"`{_USER}{_SUPER}` is not in section {section}"
            raise UsersError(f"{where}: SASLAuthenticationProvider.superPassword is set, but {wanted}")
        passwords[_SUPER] = super_password
    users: dict[str, bytes] = {}
    for name, password in passwords.items():
        if not password:
            raise UsersError(f"{where}: the password of a user is empty")
        _add(users, name, key_of(name, ZOOKEEPER_REALM, password), where)
    return _some(users, f'a user is an option `{_USER}NAME="password"`')


def no_section(section: str) -> str:
    """The error message for a JAAS file in which `login_module` finds nothing."""
    return f"there is no section {section} with a login module"


def login_module(text: str, section: str) -> LoginModule | None:
    """The login module of a section of a JAAS file; None: the section is missing or empty. Raises `UsersError`."""
    try:
        modules = parse_jaas(text).get(section)
    except JaasError as error:
        raise UsersError(str(error)) from None
    if not modules:
        return None
    [module, *more] = modules
    if more:
        raise UsersError(f"line {more[0].line}: section {section} has more than one login module")
    return module


def is_name(name: str) -> bool:
    """Whether this may be the name of a user."""
    return bool(name) and not _UNFIT.search(name) and len(name.encode("utf-8", "replace")) <= NAME_BYTES_MAX


def user_line(name: str, password: str) -> str:
    """The line for a user in a file of users."""
    return f"{name}:{ZOOKEEPER_REALM}:{key_of(name, ZOOKEEPER_REALM, password).hex()}"


def _add(users: dict[str, bytes], name: str, key: bytes, where: str) -> None:
    if not is_name(name):
        raise UsersError(
            f"{where}: a name has 1 to {NAME_BYTES_MAX} bytes, none of `/`, `@`, `:`, no control character"
        )
    if name in users:
        raise UsersError(f"{where}: the user {name!r} exists already")
    users[name] = key
    if len(users) > USERS_MAX:
        raise UsersError(f"{where}: there are more than {USERS_MAX} users")


def _some(users: Users, hint: str) -> Users:
    if not users:
        raise UsersError(f"there is no user in it: {hint}")
    return users
