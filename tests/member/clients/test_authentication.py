"""How clients prove who they are, and what those may ask who have not: on whole members."""

from __future__ import annotations

from typing import Any

import pytest

from datatree.acl import digest_identity
from datatree.errors import ErrorCode
from datatree.opcodes import OpCode
from datatree.requests import AddAuth, PathOnly, Sasl, SetAcl
from tests.member.clients.asking import ask, who
from tests.rigs.direct.client import Client
from tests.rigs.direct.members import Ensemble, Server
from zab.member.clients.connection import IDENTITIES_BYTES_MAX
from zab.member.clients.events import UsersRead
from zab.wire.login.digest_md5 import ZOOKEEPER_REALM, ZOOKEEPER_URI, Response, key_of, respond

USERS = {name: key_of(name, ZOOKEEPER_REALM, f"{name}'s") for name in ("bob", "eve", "super", "root")}
OFFERED = {"sasl__usersFile": "/users"}
REQUIRED = {**OFFERED, "sessionRequireClientSASLAuth": "true"}
BOBS = ((31, b"sasl", b"bob"),)
CLOSED_FOR_SASL = ErrorCode.SESSIONCLOSEDREQUIRESASLAUTH


def an_ensemble(size: int = 1, **lines: Any) -> Ensemble:
    ensemble = Ensemble(size, **{**OFFERED, **lines})
    for server in ensemble.servers.values():
        tell_users(server, USERS)
    ensemble.settle()
    return ensemble


def tell_users(server: Server, users: dict[str, bytes]) -> None:
    server.answers.append(UsersRead(users))


def token(ensemble: Ensemble, client: Client, said: bytes) -> tuple[int, Any]:
    [(_, error, body)] = ensemble.do(client, client.request(OpCode.SASL, Sasl(said).encode()))
    return error, body


def challenged(ensemble: Ensemble, client: Client) -> bytes:
    error, body = token(ensemble, client, b"")
    assert error == 0
    assert isinstance(body, bytes)
    return body


def answer(asked: bytes, user: str = "bob", password: str | None = None) -> Response:
    said = f"{user}'s" if password is None else password
    return respond(asked, user=user, password=said, cnonce=b"cnonce", uri=ZOOKEEPER_URI)


def log_in(ensemble: Ensemble, client: Client, user: str = "bob") -> None:
    said = answer(challenged(ensemble, client), user)
    error, last = token(ensemble, client, said.message)
    assert error == 0
    assert said.is_answered_by(last)


def test_user_logs_in_and_is_known_by_name() -> None:
    ensemble = an_ensemble(3)
    client = ensemble.session(ensemble.follower)
    asked = challenged(ensemble, client)
    nonce = client.connection.sasl_nonce
    assert nonce is not None
    assert len(nonce) == 40
    assert asked == b'realm="zk-sasl-md5",nonce="%s",charset=utf-8,algorithm=md5-sess' % nonce
    said = answer(asked)
    error, last = token(ensemble, client, said.message)
    assert error == 0
    assert said.is_answered_by(last)
    assert who(ensemble, client) == [(b"ip", b"127.0.0.1"), (b"sasl", b"bob")]
    assert client.connection.sasl_nonce is None


def test_acl_of_a_user_of_sasl_is_for_him_alone() -> None:
    ensemble = an_ensemble(3)
    bob, eve, nobody = (ensemble.session(ensemble.follower) for _ in range(3))
    log_in(ensemble, bob)
    log_in(ensemble, eve, "eve")
    assert ensemble.do(bob, bob.create(b"/bob", b"b", acl=BOBS))[0][1] == 0
    assert ensemble.do(bob, bob.create(b"/own", b"b", acl=((31, b"auth", b""),)))[0][1] == 0
    for path in (b"/bob", b"/own"):
        assert ask(ensemble, bob, OpCode.GET_ACL, PathOnly(path).encode())[1][0] == BOBS
        for other in (eve, nobody):
            assert ensemble.do(other, other.get(path))[0][1] == ErrorCode.NOAUTH
            assert ensemble.do(other, other.set(path, b""))[0][1] == ErrorCode.NOAUTH
        assert ensemble.do(bob, bob.set(path, b"2"))[0][1] == 0
    assert ask(ensemble, bob, OpCode.SET_ACL, SetAcl(b"/bob", ((31, b"sasl", b"eve"),), -1).encode())[0] == 0
    assert ensemble.do(eve, eve.get(b"/bob"))[0][1] == 0
    assert ensemble.do(bob, bob.get(b"/bob"))[0][1] == ErrorCode.NOAUTH


def test_without_users_there_is_no_sasl() -> None:
    ensemble = Ensemble(1)
    client = ensemble.session()
    assert ensemble.do(client, client.create(b"/bob", b"", acl=BOBS))[0][1] == ErrorCode.INVALIDACL
    assert token(ensemble, client, b"")[0] == ErrorCode.AUTHFAILED
    assert client.is_closed


def test_user_super_of_sasl_has_what_any_user_of_sasl_has() -> None:
    ensemble = an_ensemble()
    client, super_user = ensemble.session(), ensemble.session()
    ensemble.do(client, client.create(b"/bob", b"b", acl=BOBS))
    ensemble.do(client, client.create(b"/dig", b"b", acl=((31, *digest_identity(b"bob:pw")),)))
    log_in(ensemble, super_user, "super")
    assert ensemble.do(super_user, super_user.get(b"/bob"))[0][1] == 0
    assert ensemble.do(super_user, super_user.get(b"/dig"))[0][1] == ErrorCode.NOAUTH


@pytest.mark.parametrize("key", ["superUser", "superUser__1"])
def test_super_user_passes_every_acl(key: str) -> None:
    ensemble = an_ensemble(3, **{key: "root"})
    client, root = ensemble.session(), ensemble.session(ensemble.follower)
    ensemble.do(client, client.create(b"/dig", b"b", acl=((31, *digest_identity(b"bob:pw")),)))
    assert ensemble.do(root, root.get(b"/dig"))[0][1] == ErrorCode.NOAUTH
    log_in(ensemble, root, "root")
    assert ensemble.do(root, root.get(b"/dig"))[0][1] == 0
    assert ensemble.do(root, root.set(b"/dig", b""))[0][1] == 0
    assert (b"sasl", b"root") in who(ensemble, root)


def test_what_is_let_any_user_of_sasl_do() -> None:
    ensemble = an_ensemble(3, letAnySaslUserDoX="all")
    bob, nobody = ensemble.session(ensemble.follower), ensemble.session(ensemble.follower)
    ensemble.do(nobody, nobody.create(b"/any", b"b", acl=((31, b"sasl", b"all"),)))
    ensemble.do(nobody, nobody.create(b"/eve", b"b", acl=((31, b"sasl", b"eve"),)))
    log_in(ensemble, bob)
    assert ensemble.do(bob, bob.set(b"/any", b""))[0][1] == 0
    assert ensemble.do(bob, bob.set(b"/eve", b""))[0][1] == ErrorCode.NOAUTH
    assert ensemble.do(nobody, nobody.set(b"/any", b""))[0][1] == ErrorCode.NOAUTH
    assert who(ensemble, bob) == [(b"ip", b"127.0.0.1"), (b"sasl", b"bob")]
    ensemble.do(bob, bob.create(b"/own", b"", acl=((31, b"auth", b""),)))
    assert ask(ensemble, bob, OpCode.GET_ACL, PathOnly(b"/own").encode())[1][0] == BOBS


# ------------------------------------------------------------------------------------------------------- failed logins


@pytest.mark.parametrize(
    ("lines", "error"), [({}, ErrorCode.AUTHFAILED), ({"sessionRequireClientSASLAuth": "true"}, CLOSED_FOR_SASL)]
)
def test_failed_login_ends_the_connection(lines: dict[str, str], error: ErrorCode) -> None:
    ensemble = an_ensemble(**lines)
    for said in (b"", b"\0" * 5_000, b"username=bob"):
        client = ensemble.session()
        challenged(ensemble, client)
        client.raw = b""
        assert token(ensemble, client, said)[0] == error
        # Header, and a token that is null, as ZooKeeper's.
        assert (
            client.raw == b"\0\0\0\x14" + b"\0\0\0\2" + bytes(8) + error.to_bytes(4, "big", signed=True) + b"\xff" * 4
        )
        assert client.is_closed
    assert ensemble.leader.member.metrics.auth_failed_count == 3


def test_each_guess_takes_a_connection_and_says_nothing_about_who_is_there() -> None:
    ensemble = an_ensemble()
    seen = set()
    for user, password in (("bob", "wrong"), ("nobody", "wrong")):
        client = ensemble.session()
        asked = challenged(ensemble, client)
        client.raw = b""
        client.say(
            b"".join(
                client.request(OpCode.SASL, Sasl(answer(asked, user, guess).message).encode(), 7)
                for guess in (password, f"{user}'s")
            )
        )
        ensemble.settle()
        assert client.is_closed
        seen.add(client.raw)
        assert len(client.connection.identities) == 1
    assert len(seen) == 1


def test_response_is_good_once_and_on_its_own_connection() -> None:
    ensemble = an_ensemble()
    bob, thief, later = ensemble.session(), ensemble.session(), ensemble.session()
    said = answer(challenged(ensemble, bob))
    challenged(ensemble, thief)
    assert token(ensemble, thief, said.message)[0] == ErrorCode.AUTHFAILED
    assert token(ensemble, bob, said.message)[0] == 0
    assert challenged(ensemble, later)
    assert token(ensemble, later, said.message)[0] == ErrorCode.AUTHFAILED
    # Nor is there a second one where it was good.
    assert token(ensemble, bob, said.message)[0] == ErrorCode.AUTHFAILED
    assert bob.is_closed


def test_nonces_differ() -> None:
    ensemble = an_ensemble(3)
    asked = [challenged(ensemble, ensemble.session(server)) for server in ensemble.servers.values() for _ in range(10)]
    assert len(set(asked)) == 30


def test_login_is_a_matter_of_one_connection_whatever_others_do_meanwhile() -> None:
    ensemble = an_ensemble()
    clients = [ensemble.session() for _ in range(4)]
    asked = [challenged(ensemble, client) for client in clients]
    users = ["bob", "eve", "super", "root"]
    for client, challenge, user in reversed(list(zip(clients, asked, users, strict=True))):
        assert token(ensemble, client, answer(challenge, user).message)[0] == 0
    assert [who(ensemble, client)[1] for client in clients] == [(b"sasl", user.encode()) for user in users]


def test_failed_login_may_be_kept_without_an_identity() -> None:
    ensemble = an_ensemble(allowSaslFailedClients="true")
    client = ensemble.session()
    asked = challenged(ensemble, client)
    for _ in range(2):
        client.raw = b""
        error, body = token(ensemble, client, answer(asked, "bob", "wrong").message)
        assert (error, body) == (0, None)
    # One guess: the right one comes too late on this connection.
    assert token(ensemble, client, answer(asked).message) == (0, None)
    assert who(ensemble, client) == [(b"ip", b"127.0.0.1")]
    assert not client.is_closed


def test_failed_login_is_not_kept_where_sasl_is_required() -> None:
    ensemble = an_ensemble(allowSaslFailedClients="true", sessionRequireClientSASLAuth="true")
    client = ensemble.session()
    assert token(ensemble, client, answer(challenged(ensemble, client), "bob", "x").message)[0] == CLOSED_FOR_SASL
    assert client.is_closed


def test_user_who_has_as_many_identities_as_there_may_be_does_not_log_in() -> None:
    ensemble = an_ensemble(superUser="bob")
    client = ensemble.session()
    for number in range(62):
        assert ask(ensemble, client, OpCode.AUTH, AddAuth(b"digest", b"u%d:p" % number).encode())[0] == 0
    assert token(ensemble, client, answer(challenged(ensemble, client)).message)[0] == ErrorCode.AUTHFAILED
    assert len(client.connection.identities) == 63


def test_identities_of_a_connection_have_so_many_bytes_together() -> None:
    """Each write of theirs takes all of them along to the leader."""
    ensemble = an_ensemble()
    client = ensemble.session()
    said = [
        ask(ensemble, client, OpCode.AUTH, AddAuth(b"digest", b"u" * 4_000 + b"%d:p" % n).encode()) for n in (1, 2, 3)
    ]
    assert [error for error, _ in said] == [0, 0, ErrorCode.AUTHFAILED]
    assert client.is_closed
    assert sum(len(scheme) + len(name) for scheme, name in client.connection.identities) <= IDENTITIES_BYTES_MAX


def test_users_change_while_the_member_runs() -> None:
    ensemble = an_ensemble()
    before, late = ensemble.session(), ensemble.session()
    log_in(ensemble, before)
    asked = challenged(ensemble, late)
    tell_users(ensemble.leader, {"bob": key_of("bob", ZOOKEEPER_REALM, "other")})
    ensemble.settle()
    assert token(ensemble, late, answer(asked).message)[0] == ErrorCode.AUTHFAILED
    again = ensemble.session()
    assert token(ensemble, again, answer(challenged(ensemble, again), "bob", "other").message)[0] == 0
    assert who(ensemble, before)[1] == (b"sasl", b"bob")


# -------------------------------------------------------------------------------------------------- what is required


REQUESTS = [
    (OpCode.PING, b""),
    (OpCode.CLOSE_SESSION, b""),
    (OpCode.GET_DATA, b"\0\0\0\x01/\0"),
    (OpCode.CREATE, b""),
    (OpCode.SYNC, b"\0\0\0\x01/"),
    (OpCode.WHO_AM_I, b""),
    (OpCode.SET_WATCHES, b""),
    (OpCode.GET_CHANGES, b""),
    (OpCode.MULTI, b""),
    (OpCode.RECONFIG, b""),
    (12_345, b""),
]


@pytest.mark.parametrize(("opcode", "body"), REQUESTS)
@pytest.mark.parametrize(
    "lines",
    [
        {"sessionRequireClientSASLAuth": "true"},
        {"requireClientAuthScheme": "sasl"},
        {"enforce__auth__enabled": "true", "enforce__auth__schemes": "digest,sasl"},
    ],
)
def test_nothing_is_done_before_a_proof_where_one_is_required(lines: dict[str, str], opcode: int, body: bytes) -> None:
    ensemble = an_ensemble(3, **lines)
    client = ensemble.session(ensemble.follower)
    client.raw = b""
    before = ensemble.leader.member.tree.applied
    client.say(client.request(opcode, body, 5) + client.create(b"/a"))
    ensemble.settle()
    assert client.raw == b"\0\0\0\x10" + b"\0\0\0\5" + bytes(8) + (-124).to_bytes(4, "big", signed=True)
    assert client.is_closed
    assert ensemble.leader.member.tree.applied == before


def test_requests_behind_the_last_token_are_done_and_those_before_it_are_not() -> None:
    ensemble = an_ensemble(sessionRequireClientSASLAuth="true")
    client = ensemble.session()
    asked = challenged(ensemble, client)
    login = client.request(OpCode.SASL, Sasl(answer(asked).message).encode())
    replies = ensemble.do(client, login, client.create(b"/a"), client.get(b"/a"))
    assert [error for _, error, _ in replies] == [0, 0, 0]
    early = ensemble.session()
    asked = challenged(ensemble, early)
    login = early.request(OpCode.SASL, Sasl(answer(asked).message).encode())
    replies = ensemble.do(early, early.create(b"/b"), login, early.create(b"/c"))
    assert [error for _, error, _ in replies] == [CLOSED_FOR_SASL]
    assert ensemble.do(client, client.exists(b"/b"), client.exists(b"/c"))[0][1] == ErrorCode.NONODE


def test_frames_that_came_with_the_handshake_have_to_be_proven_too() -> None:
    ensemble = an_ensemble(sessionRequireClientSASLAuth="true")
    client = ensemble.client()
    client.say(client.connect_request() + client.create(b"/a"))
    ensemble.settle()
    assert [error for _, error, _ in client.replies()] == [CLOSED_FOR_SASL]
    assert client.is_closed


def test_proof_is_of_the_connection_and_not_of_the_session() -> None:
    ensemble = an_ensemble(3, sessionRequireClientSASLAuth="true")
    client = ensemble.session(ensemble.follower)
    log_in(ensemble, client)
    response = client.response
    assert response is not None
    again = ensemble.client(ensemble.follower)
    again.say(again.connect_request(response.session_id, response.password))
    ensemble.settle()
    assert ensemble.do(again, again.create(b"/a"))[0][1] == CLOSED_FOR_SASL
    assert again.is_closed


def test_one_of_the_schemes_is_enough() -> None:
    lines = {"enforce__auth__enabled": "true", "enforce__auth__schemes": "digest,sasl"}
    ensemble = an_ensemble(**lines)
    by_digest, by_sasl = ensemble.session(), ensemble.session()
    assert ask(ensemble, by_digest, OpCode.AUTH, AddAuth(b"digest", b"bob:pw").encode())[0] == 0
    log_in(ensemble, by_sasl)
    for client in (by_digest, by_sasl):
        assert ensemble.do(client, client.create(b"/a"))[0][1] in (0, ErrorCode.NODEEXISTS)


@pytest.mark.parametrize("scheme", [b"digest", b"ip"])
def test_what_proves_something_else_lets_nobody_through(scheme: bytes) -> None:
    ensemble = an_ensemble(sessionRequireClientSASLAuth="true")
    client = ensemble.session()
    assert ask(ensemble, client, OpCode.AUTH, AddAuth(scheme, b"bob:pw").encode())[0] == 0
    assert ensemble.do(client, client.create(b"/a"))[0][1] == CLOSED_FOR_SASL


def test_short_frame_ends_the_connection_where_a_proof_is_required() -> None:
    ensemble = an_ensemble(sessionRequireClientSASLAuth="true")
    client = ensemble.session()
    client.say(b"\0\0\0\3abc")
    ensemble.settle()
    assert client.is_closed


# ------------------------------------------------------------------------------------------------------ other schemes


ENSEMBLE = {"authProvider__1": "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider"}


@pytest.mark.parametrize(
    ("lines", "name", "error"),
    [
        ({}, b"one", ErrorCode.AUTHFAILED),
        (ENSEMBLE, b"any", 0),
        ({**ENSEMBLE, "ensembleAuthName": "one, two"}, b"two", 0),
        ({**ENSEMBLE, "ensembleAuthName": "one, two"}, b"", 0),
        ({**ENSEMBLE, "ensembleAuthName": "one, two"}, b"three", None),
        ({**ENSEMBLE, "ensembleAuthName": "one, two"}, b"\xff", None),
    ],
)
def test_client_that_asks_for_another_ensemble_is_closed_without_an_answer(
    lines: dict[str, str], name: bytes, error: int | None
) -> None:
    ensemble = an_ensemble(**lines)
    client = ensemble.session()
    replies = ensemble.do(client, client.request(OpCode.AUTH, AddAuth(b"ensemble", name).encode()))
    assert [error for _, error, _ in replies] == ([] if error is None else [error])
    assert client.is_closed == (error != 0)
    assert len(client.connection.identities) == 1


@pytest.mark.parametrize("scheme", [b"sasl", b"any sasl", b"super", b"world", b"auth", b"x509", b"", b"DIGEST"])
def test_scheme_that_no_auth_request_proves_is_refused(scheme: bytes) -> None:
    ensemble = an_ensemble()
    client = ensemble.session()
    assert ask(ensemble, client, OpCode.AUTH, AddAuth(scheme, b"bob").encode())[0] == ErrorCode.AUTHFAILED
    assert client.is_closed


def test_no_list_names_what_any_user_of_sasl_has() -> None:
    ensemble = an_ensemble(letAnySaslUserDoX="all")
    client = ensemble.session()
    for scheme in (b"any sasl", b"super"):
        assert ensemble.do(client, client.create(b"/a", acl=((31, scheme, b"all"),)))[0][1] == ErrorCode.INVALIDACL


@pytest.mark.parametrize(("java", "python"), [("SHA-256", "sha256"), ("sha3-512", "sha3_512"), ("SHA1", "sha1")])
def test_digests_are_hashed_as_the_configuration_says(java: str, python: str) -> None:
    root = digest_identity(b"root:secret", python)[1].decode()
    lines = {"DigestAuthenticationProvider__digestAlg": java, "DigestAuthenticationProvider__superDigest": root}
    ensemble = an_ensemble(3, **lines)
    bob, nobody, root_client = (ensemble.session(ensemble.follower) for _ in range(3))
    ensemble.do(nobody, nobody.create(b"/bob", b"", acl=((31, *digest_identity(b"bob:pw", python)),)))
    ensemble.do(nobody, nobody.create(b"/md5", b"", acl=((31, *digest_identity(b"bob:pw", "md5")),)))
    ask(ensemble, bob, OpCode.AUTH, AddAuth(b"digest", b"bob:pw").encode())
    ask(ensemble, root_client, OpCode.AUTH, AddAuth(b"digest", b"root:secret").encode())
    assert ensemble.do(bob, bob.set(b"/bob", b""), bob.set(b"/md5", b""))[0][1] == 0
    assert ensemble.do(bob, bob.set(b"/md5", b""))[0][1] == ErrorCode.NOAUTH
    assert ensemble.do(nobody, nobody.set(b"/bob", b""))[0][1] == ErrorCode.NOAUTH
    assert [error for _, error, _ in ensemble.do(root_client, root_client.set(b"/md5", b""))] == [0]
