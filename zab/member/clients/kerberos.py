"""The pure part of Kerberos: the login of a server in its JAAS file, the logins of clients, names for ACLs.

    Server {
        com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true storeKey=true keyTab="/etc/zab/zab.keytab" principal="zookeeper/zab1.example.org@EXAMPLE.ORG";
    };

ACLs know a client by its principal, `alice@EXAMPLE.ORG`, `hbase/host@EXAMPLE.ORG`. If the configuration removes host or
realm, it does so only for principals of the server's own realm: a principal of another realm is never taken for a local
one. ZooKeeper's rule DEFAULT has the same effect.

A step of a login may read files (the replay cache), so `Login.step` runs in a worker, one at a time for each
connection; its outcome arrives as `LoginStepped`, and is answered then.

Not here: the security context (`zab.server.kerberos`), its messages (`zab.wire.login.gssapi`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Protocol

from attrs import frozen

from zab.configuration.jaas import LoginModule
from zab.member.clients.sasl_users import UsersError
from zab.member.settings.config import Config

_PASSED_OVER: Final = frozenset({"storeKey", "doNotPrompt", "isInitiator", "refreshKrb5Config", "debug"})
"""Options without effect: they are always so here, or do not matter."""
_HAS_TO_BE: Final = {"useKeyTab": "true", "useTicketCache": "false", "renewTGT": "false"}
_PRINCIPAL: Final = re.compile(r"(?P<service>[^/@\\\s*]+)/(?P<host>[^/@\\\s*]+)@(?P<realm>[^/@\\\s*]+)")
_PART: Final = r"[^/@:\\\x00-\x20\x7f]+"
_NAME: Final = re.compile(rf"(?P<name>{_PART})(?P<host>/{_PART})?(?P<realm>@{_PART})")


@frozen
class Krb5Login:
    """The credentials of a server."""

    principal: str
    key_tab: str

    @property
    def realm(self) -> str:
        return self.principal.rpartition("@")[2]


@frozen
class LoginStep:
    """The outcome of a valid token."""

    answer: bytes | None
    principal: str | None = None
    """The proven principal: the login is done."""


class Login(Protocol):
    """The login of one connection."""

    def step(self, token: bytes) -> LoginStep | None:
        """Handle a token; None: the login has failed. Raises nothing; may wait for files; is never called
        concurrently."""


class Logins(Protocol):
    """Logins of clients to a server that has a `Krb5Login`."""

    @property
    def realm(self) -> str: ...

    def begin(self) -> Login:
        """Begin a login; takes no time."""

    def step(self, login: Login, token: bytes, done: Callable[[LoginStep | None], Any]) -> None:
        """Have a worker take a step. `done` turns the outcome into an input."""


def krb5_login_of(module: LoginModule) -> Krb5Login:
    """The login in a JAAS module. Raises `UsersError` if an option cannot be honoured."""
    where = f"line {module.line}"
    options = dict(module.options)
    principal, key_tab = options.pop("principal", ""), options.pop("keyTab", "").removeprefix("FILE:")
    if options.pop("useKeyTab", "") != "true" or not key_tab.startswith("/"):
        raise UsersError(f'{where}: a server logs in with useKeyTab=true and keyTab="/…", the whole path')
    if not _PRINCIPAL.fullmatch(principal):
        raise UsersError(f'{where}: principal="zookeeper/HOST@REALM" has to name the server, with its realm')
    for option, value in options.items():
        if option not in _PASSED_OVER and value != _HAS_TO_BE.get(option):
            raise UsersError(f"{where}: the option {option} is not supported: remove it")
    return Krb5Login(principal, key_tab)


def name_of(principal: str, realm: str, config: Config) -> str | None:
    """The name by which ACLs know a client; None: it has none. `realm` is the server's."""
    parts = _NAME.fullmatch(principal)
    if parts is None:
        return None
    if parts["realm"] != f"@{realm}":
        return principal
    host = "" if config.login.removes_kerberos_host else parts["host"] or ""
    return parts["name"] + host + ("" if config.login.removes_kerberos_realm else parts["realm"])
