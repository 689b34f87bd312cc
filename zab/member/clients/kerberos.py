"""Kerberos, as far as it is pure: the login of a server in its JAAS file, the logins of clients, names for ACLs.

    Server {
        com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true storeKey=true keyTab="/etc/zab/zab.keytab" principal="zookeeper/zab1.example.org@EXAMPLE.ORG";
    };

A client is known to ACLs by its principal, `alice@EXAMPLE.ORG`, `hbase/host@EXAMPLE.ORG`. Where the configuration takes
host or realm away, that is done for principals of the server's own realm alone: what another realm vouches for is never
taken for one of ours. ZooKeeper's rule DEFAULT comes to the same.

A step of a login may read files (the cache of replays), so `Login.step` runs in a worker, one at a time for each
connection; its outcome comes back as `LoginStepped`, and is answered then.

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
"""They say what is always so here, or nothing that matters."""
_HAS_TO_BE: Final = {"useKeyTab": "true", "useTicketCache": "false", "renewTGT": "false"}
_PRINCIPAL: Final = re.compile(r"(?P<service>[^/@\\\s*]+)/(?P<host>[^/@\\\s*]+)@(?P<realm>[^/@\\\s*]+)")
_PART: Final = r"[^/@:\\\x00-\x20\x7f]+"
_NAME: Final = re.compile(rf"(?P<name>{_PART})(?P<host>/{_PART})?(?P<realm>@{_PART})")


@frozen
class Krb5Login:
    """What a server logs in with."""

    principal: str
    key_tab: str

    @property
    def realm(self) -> str:
        return self.principal.rpartition("@")[2]


@frozen
class LoginStep:
    """What comes of a token that is right."""

    answer: bytes | None
    principal: str | None = None
    """Who is proven; the login is done."""


class Login(Protocol):
    """The login of one connection."""

    def step(self, token: bytes) -> LoginStep | None:
        """None: it has failed. Raises nothing; may wait for files. It is never called twice at once."""


class Logins(Protocol):
    """Logins of clients, on a server that has a `Krb5Login`."""

    realm: str

    def begin(self) -> Login:
        """A new one; quick."""

    def step(self, login: Login, token: bytes, done: Callable[[LoginStep | None], Any]) -> None:
        """Have a step taken in a worker. `done` makes an input of the outcome."""


def krb5_login_of(module: LoginModule) -> Krb5Login:
    """Raises `UsersError` where an option cannot be honoured."""
    where = f"line {module.line}"
    options = dict(module.options)
    principal, key_tab = options.pop("principal", ""), options.pop("keyTab", "").removeprefix("FILE:")
    if options.pop("useKeyTab", "") != "true" or not key_tab.startswith("/"):
        raise UsersError(f'{where}: a server logs in with useKeyTab=true and keyTab="/…", the whole path')
    if not _PRINCIPAL.fullmatch(principal):
        raise UsersError(f'{where}: principal="zookeeper/HOST@REALM" has to say who the server is, with its realm')
    for option, value in options.items():
        if option not in _PASSED_OVER and value != _HAS_TO_BE.get(option):
            raise UsersError(f"{where}: the option {option} cannot be honoured: take it away")
    return Krb5Login(principal, key_tab)


def name_of(principal: str, realm: str, config: Config) -> str | None:
    """By which name ACLs know a client; `realm` is the server's. None: by none."""
    parts = _NAME.fullmatch(principal)
    if parts is None:
        return None
    if parts["realm"] != f"@{realm}":
        return principal
    host = "" if config.login.removes_kerberos_host else parts["host"] or ""
    return parts["name"] + host + ("" if config.login.removes_kerberos_realm else parts["realm"])
