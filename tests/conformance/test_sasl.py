"""Logins by SASL DIGEST-MD5: kazoo and Java's command line against our members, with a file of users and with a JAAS
file as it is; and what is refused, byte for byte beside the real ZooKeeper."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoAuthError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.security import make_acl

from tests.conformance.wire import (
    PING,
    WHO_AM_I,
    ConnectionClosedError,
    Request,
    Wire,
    auth,
    create,
    exists,
    get_acl,
    text,
)
from tests.rigs.in_process import members_here
from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, four_letter_word, zookeeper, zookeeper_main
from zab.wire.login.digest_md5 import respond

JAAS = """
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_super="admin's" // as in ZooKeeper's documentation
    user_bob="bob's \\"own\\"";
};
"""
BOBS = 'bob\'s "own"'
CLIENT = """
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="bob"
    password="%s";
};
"""
ZOOKEEPERS = "org.apache.zookeeper.server.auth."
EXISTS, GET_ACL, SASL = 3, 6, 102
STAT_BYTES = 68

PLAIN: Mapping[str, str | int] = {"authProvider.1": f"{ZOOKEEPERS}SASLAuthenticationProvider"}
REQUIRED = {**PLAIN, "sessionRequireClientSASLAuth": "true"}
ENFORCED = {**PLAIN, "enforce.auth.enabled": "true", "enforce.auth.schemes": "digest"}
LENIENT = {
    **PLAIN,
    "allowSaslFailedClients": "true",
    "authProvider.2": f"{ZOOKEEPERS}EnsembleAuthenticationProvider",
    "ensembleAuthName": "one, two",
    "superUser.1": "super",
    "letAnySaslUserDoX": "anybody",
    "DigestAuthenticationProvider.digestAlg": "SHA3-256",
}


def written(path: Path, content: str) -> Path:
    path.write_text(content)
    path.chmod(0o600)
    return path


@contextlib.contextmanager
def sasl_servers(
    directory: Path, size: int, configuration: Mapping[str, str | int], said: str = JAAS
) -> Iterator[ZooKeeperEnsemble]:
    """Ours, with the JAAS file."""
    jaas = written(directory / "ours.jaas", said)
    lines = {**configuration, "java.security.auth.login.config": str(jaas)}
    with zab_servers(size, directory=directory / "ours", configuration=lines) as ensemble:
        yield ensemble


def users_of(directory: Path, **passwords: str) -> Path:
    """A file of users, as the command writes it."""
    path = directory / "users"
    for name, password in passwords.items():
        command = [sys.executable, "-m", "zab.cli.main", "user", str(path), name]
        subprocess.run(command, input=f"{password}\n".encode(), check=True)
    return path


@contextlib.contextmanager
def kazoo(hosts: str, user: str, password: str) -> Iterator[KazooClient]:
    options = {"mechanism": "DIGEST-MD5", "username": user, "password": password}
    zk = KazooClient(hosts, sasl_options=options, timeout=20.0)
    try:
        yield zk
    finally:
        zk.stop()
        zk.close()


# --------------------------------------------------------------------------------------------------------------- kazoo


@pytest.mark.process
def test_kazoo_logs_in_with_users_of_a_file(tmp_path: Path) -> None:
    users = users_of(tmp_path, bob=BOBS, eve="eve's")
    configuration = {"sasl.usersFile": str(users), "sessionRequireClientSASLAuth": "true"}
    with members_here(3, configuration) as ensemble:
        with kazoo(ensemble.hosts, "bob", BOBS) as bob, kazoo(ensemble.hosts, "eve", "eve's") as eve:
            bob.start(PATIENCE_SECONDS)
            eve.start(PATIENCE_SECONDS)
            bob.create("/bob", b"b", acl=[make_acl("sasl", "bob", all=True)])
            eve.sync("/bob")
            assert bob.get("/bob")[0] == b"b"
            with pytest.raises(NoAuthError):
                eve.get("/bob")
            with pytest.raises(NoAuthError):
                eve.set("/bob", b"e")
            with Wire(ensemble.members[1].client_port) as anonymous:
                assert anonymous.ask(*exists("/")).error == -124
            # A session of kazoo goes on over another member, where it logs in again.
            leader = ensemble.leader
            assert leader is not None
            leader.kill()
            assert bob.retry(bob.get, "/bob")[0] == b"b"
        for member in ensemble.members.values():
            if member.is_running:
                assert four_letter_word(member.client_port, "srvr").startswith("Zookeeper version")
        logs = ensemble.journal
        assert BOBS not in logs
        assert "eve's" not in logs
        assert users.read_text().split(":")[2][:32] not in logs


@pytest.mark.process
def test_users_are_read_again_while_the_server_runs(tmp_path: Path) -> None:
    users = users_of(tmp_path, bob="before")
    with members_here(1, {"sasl.usersFile": str(users)}) as ensemble:
        server = ensemble.members[1]
        with Wire(server.client_port) as wire:
            assert login_error(wire, "bob", "before") == 0
            users_of(tmp_path, bob="after", eve="eve's")
            # It may have been read with one of them.
            until(lambda: "there are other users count=2" in server.journal)
            assert wire.ask(*WHO_AM_I).error == 0
        states: list[str] = []
        with kazoo(ensemble.hosts, "bob", "before") as liar:
            liar.add_listener(states.append)
            with contextlib.suppress(AuthFailedError, KazooTimeoutError):
                liar.start(PATIENCE_SECONDS)
            # It is connected before it logs in.
            until(lambda: KazooState.LOST in states)
        for user, password, error in (("bob", "before", -115), ("bob", "after", 0), ("eve", "eve's", 0)):
            with Wire(server.client_port) as wire:
                assert login_error(wire, user, password) == error
        users.write_text("bob:elsewhere:00\n")
        until(lambda: "the users cannot be read again -> those before stay" in server.journal)
        with Wire(server.client_port) as wire:
            assert login_error(wire, "bob", "after") == 0


def login_error(wire: Wire, user: str, password: str) -> int:
    step = answer(user, password)
    assert callable(step)
    return wire.ask(*step(wire.ask(*ASK).body[4:])).error


@pytest.mark.process
@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (JAAS, 0o644, "users other than its owner can use it: run `chmod 600"),
        (JAAS.replace("Server", "QuorumServer"), 0o600, "there is no section Server with a login module"),
        (JAAS.replace('user_bob="', "user_bob="), 0o600, "line "),
        (
            "Server { com.sun.security.auth.module.Krb5LoginModule required keyTab=x; };",
            0o600,
            'line 1: a server logs in with useKeyTab=true and keyTab="/…", the whole path',
        ),
    ],
)
def test_start_ends_where_nobody_could_log_in(tmp_path: Path, content: str, mode: int, reason: str) -> None:
    jaas = written(tmp_path / "jaas", content)
    jaas.chmod(mode)
    configuration = {"java.security.auth.login.config": str(jaas), "sessionRequireClientSASLAuth": "true"}
    with zab_servers(1, directory=tmp_path, configuration=configuration, wait=False) as ensemble:
        process = ensemble.members[0].process
        assert process is not None
        assert process.wait(PATIENCE_SECONDS) == 2
        said = ensemble.members[0].log_text()
    assert f"java.security.auth.login.config: {jaas}: {reason}" in said
    assert BOBS not in said
    assert "admin's" not in said


# ---------------------------------------------------------------------------------------------------------------- Java


@pytest.mark.java
@pytest.mark.slow
def test_the_command_line_of_java_logs_in(tmp_path: Path) -> None:
    with sasl_servers(tmp_path, 3, REQUIRED) as ensemble:
        done = zookeeper_main(
            ensemble.hosts,
            "whoami",
            "create /bob b sasl:bob:cdrwa",
            "create /super b sasl:super:cdrwa",
            "getAcl /bob",
            "get /bob",
            "get /super",
            options=java_login(tmp_path, BOBS),
        )
        printed = done.stdout.decode() + done.stderr.decode()
        assert "sasl: bob" in printed, printed
        assert "'sasl,'bob\n: cdrwa" in printed
        assert "Created /super" in printed
        assert "Insufficient permission : /super" in printed
        refused = zookeeper_main(ensemble.hosts, "ls /", options=java_login(tmp_path, "wrong"))
        assert refused.returncode != 0
        assert b"[bob" not in refused.stdout
        anonymous = zookeeper_main(ensemble.hosts, "ls /")
        assert anonymous.returncode != 0
        assert b"[bob" not in anonymous.stdout


def java_login(directory: Path, password: str) -> Sequence[str]:
    escaped = password.replace('"', '\\"')
    jaas = written(directory / "client.jaas", CLIENT % escaped)
    # ZooKeeper's clients take DIGEST-MD5 for what FIPS forbids, unless told otherwise.
    return f"-Djava.security.auth.login.config={jaas}", "-Dzookeeper.fips-mode=false"


# ------------------------------------------------------------------------------------------------------- side by side


Step = Request | Callable[[bytes], Request]
"""A request, or what makes it of the challenge."""


def token(said: bytes) -> Request:
    return SASL, text(said)


ASK = token(b"")


def answer(
    user: str = "bob",
    password: str = BOBS,
    *,
    uri: bytes = b"zookeeper/zk-sasl-md5",
    change: Callable[[bytes], bytes] = lambda said: said,
) -> Step:
    def of(challenge: bytes) -> Request:
        said = respond(challenge, user=user, password=password, cnonce=b"cnonce", uri=uri)
        return token(change(said.message))

    return of


def replaced(before: bytes, after: bytes) -> Step:
    return answer(change=lambda said: re.sub(before, after, said, count=1))


SUPER = answer("super", "admin's")
RIGHT = answer()
ACL = ((31, "sasl", "bob"),)
CASES: dict[str, Sequence[Step]] = {
    "right": [ASK, RIGHT, WHO_AM_I, create("/right", acl=ACL), get_acl("/right")],
    "super": [ASK, SUPER, WHO_AM_I, create("/super", acl=ACL), get_acl("/super"), create("/super/below")],
    "auth stands for the user": [ASK, RIGHT, create("/own", acl=((31, "auth", ""),)), get_acl("/own")],
    "what anybody may": [ASK, RIGHT, create("/any", acl=((31, "sasl", "anybody"),)), create("/any/below"), WHO_AM_I],
    "wrong password": [ASK, answer(password="wrong"), WHO_AM_I],
    "no such user": [ASK, answer("nobody"), WHO_AM_I],
    "token first": [token(b"hello"), RIGHT, WHO_AM_I],
    "twice": [ASK, RIGHT, ASK, WHO_AM_I],
    "again after a failure": [ASK, answer(password="wrong"), ASK, WHO_AM_I],
    "empty response": [ASK, token(b""), WHO_AM_I],
    "no response": [ASK, token(b"hello"), WHO_AM_I],
    "bytes": [ASK, token(bytes(range(256))), WHO_AM_I],
    "long": [ASK, token(b"x" * 10_000), WHO_AM_I],
    "uri in capitals": [ASK, answer(uri=b"ZooKeeper/ZK-SASL-MD5"), WHO_AM_I],
    "uri of another host": [ASK, answer(uri=b"zookeeper/localhost"), WHO_AM_I],
    "nc": [ASK, replaced(b"nc=00000001", b"nc=00000002"), WHO_AM_I],
    "nonce": [ASK, replaced(b'nonce="', b'nonce="x'), WHO_AM_I],
    "realm": [ASK, replaced(b'realm="', b'realm="x'), WHO_AM_I],
    "without realm": [ASK, replaced(b'realm="[^"]*",', b""), WHO_AM_I],
    "without nonce": [ASK, replaced(b',nonce="[^"]*"', b""), WHO_AM_I],
    "without cnonce": [ASK, replaced(b'cnonce="[^"]*",', b""), WHO_AM_I],
    "without uri": [ASK, replaced(b'digest-uri="[^"]*",', b""), WHO_AM_I],
    "without response": [ASK, replaced(b"response=[^,]*,", b""), WHO_AM_I],
    "without user": [ASK, replaced(b'username="[^"]*",', b""), WHO_AM_I],
    "without nc": [ASK, replaced(b"nc=[^,]*,", b""), WHO_AM_I],
    "without qop": [ASK, replaced(b",qop=auth", b""), WHO_AM_I],
    "without charset": [ASK, replaced(b"charset=utf-8,", b""), WHO_AM_I],
    "another qop": [ASK, replaced(b"qop=auth", b"qop=auth-int"), WHO_AM_I],
    "user twice": [ASK, replaced(b"qop=auth", b'qop=auth,username="bob"'), WHO_AM_I],
    "unknown directive": [ASK, replaced(b"qop=auth", b'qop=auth,other="1"'), WHO_AM_I],
    "auth sasl": [auth("sasl", b"bob"), WHO_AM_I],
    "auth digest": [
        auth("digest", b"bob:pw"),
        WHO_AM_I,
        create("/digest", acl=((31, "auth", ""),)),
        get_acl("/digest"),
    ],
    "auth ip": [auth("ip", b""), WHO_AM_I],
    "auth ensemble": [auth("ensemble", b"two"), WHO_AM_I],
    "auth ensemble of another name": [auth("ensemble", b"three"), WHO_AM_I],
    "auth ensemble without name": [auth("ensemble", b""), WHO_AM_I],
    "ping": [(PING, b""), exists("/")],
    "closeSession": [(-11, b"")],
    "read": [exists("/")],
    "write": [create("/write")],
    "unknown opcode": [(12345, b"")],
}


STRICTER = {
    "nc": "ZooKeeper takes any count for the first",
    "without nc": "ZooKeeper takes no count for the first",
    "login": "ZooKeeper without users answers with no token and no error, and the client is nobody",
}
"""Logins that ZooKeeper takes and that fail here."""


NOBODYS: dict[str, Sequence[Step]] = {
    **{name: CASES[name] for name in ("auth sasl", "auth digest", "auth ip", "read", "write")},
    "login": [ASK, WHO_AM_I],
    "list": [create("/list", acl=ACL), get_acl("/list"), create("/list/below")],
}
"""Where nobody can log in."""

Lines: TypeAlias = list[tuple[int, bool, int, bytes] | str]


def run(port: int, steps: Sequence[Step]) -> Lines:
    """For each reply the xid, whether it has a zxid, the error, and the body without nonces, proofs and the order of a
    hash table."""
    lines: Lines = []
    challenge = b""
    with Wire(port) as wire:
        for step in steps:
            opcode, body = step(challenge) if callable(step) else step
            try:
                reply = wire.ask(opcode, body)
            except (ConnectionClosedError, OSError):
                lines.append("closed")
                break
            if opcode == SASL and reply.body[4:].startswith(b"realm="):
                challenge = reply.body[4:]
            shown = re.sub(rb'nonce="[^"]*"', b"nonce", re.sub(rb"rspauth=[0-9a-f]{32}", b"rspauth", reply.body))
            shown = shown if opcode != WHO_AM_I[0] else b"".join(sorted(re.findall(rb"[a-z0-9.]+", shown)))
            shown = shown[:-STAT_BYTES] if opcode in (EXISTS, GET_ACL) else shown
            lines.append((reply.xid, reply.zxid > 0, reply.error, shown))
        # Of what is asked after its closeSession ZooKeeper answers some.
        if lines[-1] != "closed" and steps != CASES["closeSession"]:
            lines.append("open" if is_open(wire) else "closed")
    return lines


def is_open(wire: Wire) -> bool:
    try:
        # ZooKeeper answers some of what comes before it has closed a connection.
        return all(wire.ask(*auth("ip", b"")).error == 0 for _ in range(100))
    except (ConnectionClosedError, OSError):
        return False


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    "configuration", [PLAIN, REQUIRED, ENFORCED, LENIENT], ids=["plain", "required", "enforced", "lenient"]
)
def test_logins_beside_zookeepers(tmp_path: Path, configuration: Mapping[str, str | int]) -> None:
    differ = logins_that_differ(tmp_path, configuration, JAAS, CASES)
    assert not differ, "\n".join(f"{name}\n  {mine}\n  {other}" for name, (mine, other) in differ.items())


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.longest
def test_both_start_beside_an_empty_jaas_file_and_nobody_logs_in(tmp_path: Path) -> None:
    differ = logins_that_differ(tmp_path, PLAIN, "", NOBODYS)
    assert not differ, "\n".join(f"{name}\n  {mine}\n  {other}" for name, (mine, other) in differ.items())


def logins_that_differ(
    tmp_path: Path, configuration: Mapping[str, str | int], said: str, cases: Mapping[str, Sequence[Step]]
) -> dict[str, tuple[Lines, Lines]]:
    """The cases in which zab and ZooKeeper differ, except those in which zab is documented to be stricter."""
    jaas = written(tmp_path / "theirs.jaas", said)
    option = f"-Djava.security.auth.login.config={jaas}"
    with (
        sasl_servers(tmp_path, 1, configuration, said) as ours,
        zookeeper(directory=tmp_path / "theirs", configuration=configuration, options=[option]) as theirs,
    ):
        differ = {}
        for name, steps in cases.items():
            mine, other = (run(each.members[0].client_port, steps) for each in (ours, theirs))
            if (mine != other) != (name in STRICTER):
                differ[name] = (mine, other)
    return differ
