"""Logins by Kerberos on whole members, with a worker that a test plays itself; names, and JAAS sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datatree.errors import ErrorCode
from datatree.jute import NULL
from datatree.opcodes import OpCode
from datatree.requests import Sasl
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble
from zab.member.clients.events import LoginStepped
from zab.member.clients.kerberos import Krb5Login, Login, LoginStep, krb5_login_of, name_of
from zab.member.clients.sasl_users import UsersError, login_module
from zab.member.settings.zoo_cfg import parse
from zab.wire.login.gssapi import NAME_BYTES_MAX, TOKEN_BYTES_MAX, GssapiError, chosen, offer

STANDALONE = "clientPort=2181\ndataDir=/d\njava.security.auth.login.config=/j\n"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
ALICE = "alice@ZAB.TEST"


class FakeLogins:
    """A worker that is done when the test says so."""

    realm = "ZAB.TEST"

    def __init__(self) -> None:
        self.begun = 0
        self.waiting: list[tuple[Login, bytes, Callable[[LoginStep | None], LoginStepped]]] = []

    def begin(self) -> Login:
        self.begun += 1
        return self

    def step(self, login: Any, token: bytes, done: Any) -> None:
        self.waiting.append((login, token, done))


def an_ensemble(**lines: Any) -> tuple[Ensemble, FakeLogins]:
    ensemble = Ensemble(1, **{"java__security__auth__login__config": "/jaas", **lines})
    logins = FakeLogins()
    for server in ensemble.servers.values():
        server.member.state.authentication.kerberos = logins  # type: ignore[assignment]
    return ensemble, logins


def say(ensemble: Ensemble, client: Client, said: bytes) -> list[tuple[int, int, Any]]:
    return ensemble.do(client, client.request(OpCode.SASL, Sasl(said).encode()))


def stepped(ensemble: Ensemble, client: Client, logins: FakeLogins, step: LoginStep | None) -> list[Any]:
    _, _, done = logins.waiting.pop(0)
    client.server.answers.append(done(step))
    ensemble.settle()
    return client.replies()


def who(ensemble: Ensemble, client: Client) -> list[tuple[bytes, bytes]]:
    [(_, error, body)] = ensemble.do(client, client.request(OpCode.WHO_AM_I))
    assert error == 0
    return list(body)


def test_token_is_answered_when_the_worker_is_done_and_nobody_waits_for_it() -> None:
    ensemble, logins = an_ensemble()
    client = ensemble.session()
    assert say(ensemble, client, b"one") == []
    assert who(ensemble, client) == [(b"ip", b"127.0.0.1")]
    [(_, error, body)] = stepped(ensemble, client, logins, LoginStep(b"two"))
    assert (error, body) == (0, b"two")
    assert say(ensemble, client, b"three") == []
    [(_, error, body)] = stepped(ensemble, client, logins, LoginStep(None, ALICE))
    assert (error, body) == (0, None)
    assert client.raw.endswith(NULL)
    assert who(ensemble, client) == [(b"ip", b"127.0.0.1"), (b"sasl", ALICE.encode())]
    assert logins.begun == 1
    assert client.connection.login is None


def test_second_token_before_the_answer_fails_the_login_and_the_worker_gets_one_at_a_time() -> None:
    ensemble, logins = an_ensemble(allowSaslFailedClients="true")
    client = ensemble.session()
    say(ensemble, client, b"one")
    [(_, error, body)] = say(ensemble, client, b"two")
    assert (error, body) == (0, None)
    assert len(logins.waiting) == 1
    assert stepped(ensemble, client, logins, LoginStep(None, ALICE))[0][1] == 0
    assert who(ensemble, client) == [(b"ip", b"127.0.0.1")]


@pytest.mark.parametrize(
    ("lines", "error"),
    [({}, ErrorCode.AUTHFAILED), ({"sessionRequireClientSASLAuth": "true"}, ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH)],
)
def test_login_that_failed_ends_the_connection(lines: dict[str, str], error: ErrorCode) -> None:
    ensemble, logins = an_ensemble(**lines)
    client = ensemble.session()
    say(ensemble, client, b"one")
    assert [reply[1] for reply in stepped(ensemble, client, logins, None)] == [error]
    assert client.is_closed


def test_token_that_is_too_long_reaches_no_worker() -> None:
    ensemble, logins = an_ensemble()
    client, other = ensemble.session(), ensemble.session()
    say(ensemble, client, bytes(TOKEN_BYTES_MAX))
    [(_, error, _)] = say(ensemble, other, bytes(TOKEN_BYTES_MAX + 1))
    assert error == ErrorCode.AUTHFAILED
    assert other.is_closed
    assert len(logins.waiting) == 1


def test_no_login_follows_another() -> None:
    ensemble, logins = an_ensemble()
    client = ensemble.session()
    say(ensemble, client, b"one")
    stepped(ensemble, client, logins, LoginStep(None, ALICE))
    assert [reply[1] for reply in say(ensemble, client, b"again")] == [ErrorCode.AUTHFAILED]
    assert not logins.waiting


def test_outcome_for_a_connection_that_is_gone_is_dropped() -> None:
    ensemble, logins = an_ensemble()
    client = ensemble.session()
    say(ensemble, client, b"one")
    client.close()
    ensemble.settle()
    assert stepped(ensemble, client, logins, LoginStep(None, ALICE)) == []
    assert (b"sasl", ALICE.encode()) not in client.connection.identities


def test_super_user_of_kerberos() -> None:
    ensemble, logins = an_ensemble(superUser=ALICE)
    client = ensemble.session()
    say(ensemble, client, b"one")
    stepped(ensemble, client, logins, LoginStep(None, ALICE))
    assert (b"super", b"") in client.connection.identities


@pytest.mark.parametrize(
    ("principal", "lines", "name"),
    [
        ("alice@R", "", "alice@R"),
        ("hbase/node@R", "", "hbase/node@R"),
        ("hbase/node@R", "kerberos.removeHostFromPrincipal=true", "hbase@R"),
        ("hbase/node@R", "kerberos.removeRealmFromPrincipal=true", "hbase/node"),
        ("hbase/node@R", "kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true", "hbase"),
        (
            "hbase/node@O",
            "kerberos.removeHostFromPrincipal=true\nkerberos.removeRealmFromPrincipal=true",
            "hbase/node@O",
        ),
        ("a/b/c@R", "", None),
        ("alice", "", None),
        ("al\\@ice@R", "", None),
        ("al:ice@R", "", None),
        ("@R", "", None),
    ],
)
def test_name_of_a_principal(principal: str, lines: str, name: str | None) -> None:
    assert name_of(principal, "R", parse(STANDALONE + lines, "zoo.cfg")) == name


def login_of(options: str) -> Krb5Login:
    return krb5_login_of(login_module(f"Server {{ {KERBEROS} required {options}; }};", "Server"))


def test_login_of_a_server() -> None:
    login = login_of('useKeyTab=true keyTab="FILE:/k" storeKey=true useTicketCache=false principal="zookeeper/h@R"')
    assert login == Krb5Login("zookeeper/h@R", "/k")
    assert login.realm == "R"


@pytest.mark.parametrize(
    "options",
    [
        'keyTab="/k" principal="zookeeper/h@R"',
        'useKeyTab=true keyTab="k" principal="zookeeper/h@R"',
        'useKeyTab=true keyTab="/k" principal="*"',
        'useKeyTab=true keyTab="/k" principal="zookeeper/h"',
        'useKeyTab=true keyTab="/k"',
        'useKeyTab=true keyTab="/k" principal="zookeeper/h@R" useTicketCache=true',
        'useKeyTab=true keyTab="/k" principal="zookeeper/h@R" other=1',
    ],
)
def test_login_that_cannot_be_honoured(options: str) -> None:
    with pytest.raises(UsersError, match=r"^line 1: "):
        login_of(options)


def test_whom_a_client_acts_for() -> None:
    assert chosen(offer()) == ""
    assert chosen(offer() + ALICE.encode()) == ALICE
    for message in (b"", b"\x01", b"\x02\0\0\0", b"\x01\0\0\1", offer() + b"\xff", offer() + bytes(NAME_BYTES_MAX + 1)):
        with pytest.raises(GssapiError):
            chosen(message)
