"""Logins by Kerberos with a real KDC: Java's command line against our members, and tokens by hand, right and wrong."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.conformance.wire import WHO_AM_I, ConnectionClosedError, Request, Wire, create, text
from tests.rigs.kdc import Realm, kdc, why_missing
from tests.rigs.waiting import PATIENCE_SECONDS
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, zookeeper_main

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(why_missing() is not None, reason=str(why_missing())),
]

SERVICE = "zookeeper/localhost"
SASL = 102
AUTHFAILED, REQUIRED = -115, -124
JAAS = """
Server {{
    com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true storeKey=true useTicketCache=false
    keyTab="{key_tab}" principal="{principal}";
}};
"""
CLIENT = """
Client {{
    com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true storeKey=true useTicketCache=false
    keyTab="{key_tab}" principal="{principal}";
}};
"""
NO_LAYER = b"\x01\x00\x00\x00"


@pytest.fixture
def realm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Realm]:
    with kdc(tmp_path / "kdc") as realm:
        for name in ("KRB5_CONFIG", "KRB5RCACHEDIR", "KRB5CCNAME"):
            monkeypatch.setenv(name, realm.environment[name])
        yield realm


def jaas_of(directory: Path, template: str, key_tab: Path, principal: str) -> Path:
    path = directory / f"{template.split()[0]}.jaas"
    path.write_text(template.format(key_tab=key_tab, principal=principal))
    path.chmod(0o600)
    return path


@pytest.fixture
def service(realm: Realm, tmp_path: Path) -> Path:
    """The JAAS file of a server."""
    return jaas_of(tmp_path, JAAS, realm.key_tab(SERVICE), f"{SERVICE}@{realm.name}")


def serving(directory: Path, jaas: Path, **lines: str) -> AbstractContextManager[ZooKeeperEnsemble]:
    configuration = {"java.security.auth.login.config": str(jaas), **lines}
    return zab_servers(1, directory=directory / "ours", configuration=configuration)


class Speaker:
    """A client's end, token by token."""

    def __init__(self, realm: Realm, cache: Path, *, authzid: str, service: str = SERVICE) -> None:
        import gssapi

        store = {"ccache": f"FILE:{cache}"}
        name = gssapi.Name(f"{service}@{realm.name}", gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(usage="initiate", store=store)
        flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
        self.context = gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", flags=flags)
        self.first = self.context.step()
        self.authzid = authzid.encode()

    def choice(self, offered: bytes, layer: bytes = NO_LAYER) -> bytes:
        assert self.context.unwrap(offered).message == NO_LAYER
        return self.context.wrap(layer + self.authzid, False).message


def token(said: bytes) -> Request:
    return SASL, text(said)


def log_in(wire: Wire, speaker: Speaker, layer: bytes = NO_LAYER) -> tuple[int, bytes]:
    """The error and the token of the last reply."""
    answered = wire.ask(*token(speaker.first))
    if answered.error:
        return answered.error, answered.body
    speaker.context.step(answered.body[4:])
    offered = wire.ask(*token(b""))
    assert offered.error == 0
    last = wire.ask(*token(speaker.choice(offered.body[4:], layer)))
    return last.error, last.body


def is_closed(wire: Wire) -> bool:
    try:
        wire.ask(*WHO_AM_I)
    except (ConnectionClosedError, OSError):
        return True
    return False


def test_clients_log_in_and_are_known_by_their_principals(realm: Realm, service: Path, tmp_path: Path) -> None:
    alice, hbase = realm.ticket("alice"), realm.ticket("hbase/node1")
    with serving(tmp_path, service, sessionRequireClientSASLAuth="true") as ensemble:
        port = ensemble.members[0].client_port
        for cache, principal in ((alice, f"alice@{realm.name}"), (hbase, f"hbase/node1@{realm.name}")):
            for authzid in (principal, ""):
                with Wire(port) as wire:
                    assert log_in(wire, Speaker(realm, cache, authzid=authzid)) == (0, b"\xff\xff\xff\xff")
                    assert principal.encode() in wire.ask(*WHO_AM_I).body
                    path = f"/{principal[0]}{len(authzid)}"
                    assert wire.ask(*create(path, acl=((31, "sasl", principal),))).error == 0
        with Wire(port) as wire:
            assert wire.ask(*WHO_AM_I).error == REQUIRED


def test_host_and_realm_are_taken_away_where_the_configuration_says_so(
    realm: Realm, service: Path, tmp_path: Path
) -> None:
    cache = realm.ticket("hbase/node1")
    lines = {"kerberos.removeHostFromPrincipal": "true", "kerberos.removeRealmFromPrincipal": "true"}
    with serving(tmp_path, service, **lines) as ensemble, Wire(ensemble.members[0].client_port) as wire:
        assert log_in(wire, Speaker(realm, cache, authzid=""))[0] == 0
        body = wire.ask(*WHO_AM_I).body
        assert text("hbase") in body
        assert b"node1" not in body
        assert realm.name.encode() not in body


def test_what_proves_nothing_is_refused_and_the_server_goes_on(realm: Realm, service: Path, tmp_path: Path) -> None:
    alice = realm.ticket("alice")
    other_service = realm.key_tab("zookeeper/elsewhere")
    assert other_service.exists()
    principal = f"alice@{realm.name}"
    with serving(tmp_path, service) as ensemble:
        port = ensemble.members[0].client_port
        replayed = Speaker(realm, alice, authzid=principal)
        with Wire(port) as wire:
            assert log_in(wire, replayed)[0] == 0
            assert wire.ask(*token(b"")).error == AUTHFAILED  # one login a connection
            assert is_closed(wire)
        of_another = Speaker(realm, alice, authzid=principal, service="zookeeper/elsewhere").first
        changed = bytearray(Speaker(realm, alice, authzid=principal).first)
        changed[-1] ^= 1
        garbage: Sequence[bytes] = (b"", b"hello", bytes(range(256)), b"\x60" * 60_000, b"x" * (1 << 17))
        for said in (replayed.first, of_another, bytes(changed), *garbage):
            with Wire(port) as wire:
                assert wire.ask(*token(said)).error == AUTHFAILED
                assert is_closed(wire)
        for authzid, layer in (("bob", NO_LAYER), (f"bob@{realm.name}", NO_LAYER), (principal, b"\x02\x00\xff\xff")):
            with Wire(port) as wire:
                assert log_in(wire, Speaker(realm, alice, authzid=authzid), layer)[0] == AUTHFAILED
                assert is_closed(wire)
        with Wire(port) as wire:
            speaker = Speaker(realm, alice, authzid=principal)
            speaker.context.step(wire.ask(*token(speaker.first)).body[4:])
            wire.ask(*token(b""))
            assert wire.ask(*token(b"unwrapped")).error == AUTHFAILED
        with Wire(port) as wire:
            assert log_in(wire, Speaker(realm, alice, authzid=principal))[0] == 0
        assert "Traceback" not in ensemble.members[0].log_text()


def test_clients_of_a_realm_of_the_same_name_with_other_keys_are_refused(
    realm: Realm, service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path, service) as ensemble, kdc(tmp_path / "other") as other:
        other.key_tab(SERVICE)
        cache = other.ticket("alice")
        said = subprocess.run(
            [sys.executable, "-c", FIRST_TOKEN, f"{SERVICE}@{other.name}", str(cache)],
            env=other.environment,
            check=True,
            capture_output=True,
        ).stdout
        with Wire(ensemble.members[0].client_port) as wire:
            assert wire.ask(*token(base64.b64decode(said))).error == AUTHFAILED
            assert is_closed(wire)


FIRST_TOKEN = """
import base64, gssapi, sys
name = gssapi.Name(sys.argv[1], gssapi.NameType.kerberos_principal)
credentials = gssapi.Credentials(usage="initiate", store={"ccache": "FILE:" + sys.argv[2]})
print(base64.b64encode(gssapi.SecurityContext(name=name, creds=credentials, usage="initiate").step()).decode())
"""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("useKeyTab=true", "useKeyTab=false"), "a server logs in with useKeyTab=true"),
        (("@ZAB.TEST", ""), "has to name the server, with its realm"),
        (("useTicketCache=false", "useTicketCache=true"), "the option useTicketCache is not supported"),
        (("useTicketCache=false", "useFirstPass=true"), "the option useFirstPass is not supported"),
        (("zookeeper/localhost@", "zookeeper/elsewhere@"), "no key of zookeeper/elsewhere@ZAB.TEST is available"),
        (("com.sun.", "com.ibm."), "are known here"),
        (("localhost.keytab", "none.keytab"), "it cannot be read"),
    ],
)
def test_start_ends_where_the_login_cannot_be_had(
    service: Path, tmp_path: Path, change: tuple[str, str], reason: str
) -> None:
    before = service.read_text()
    service.write_text(before.replace(*change))
    assert service.read_text() != before
    assert reason in start_fails(service, tmp_path)


def test_start_ends_where_others_may_read_the_key_tab(realm: Realm, service: Path, tmp_path: Path) -> None:
    (realm.directory / "zookeeper_localhost.keytab").chmod(0o644)
    assert "users other than its owner can use it" in start_fails(service, tmp_path)


def test_start_ends_without_the_library(service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    (missing / "gssapi.py").write_text("raise ImportError('not there')\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(missing), os.environ.get("PYTHONPATH", ""))))
    assert "pip install 'zab[kerberos]'" in start_fails(service, tmp_path)


def start_fails(jaas: Path, directory: Path) -> str:
    configuration = {"java.security.auth.login.config": str(jaas)}
    with zab_servers(1, directory=directory / "ours", configuration=configuration, wait=False) as ensemble:
        process = ensemble.members[0].process
        assert process is not None
        assert process.wait(PATIENCE_SECONDS) == 2
        return ensemble.members[0].log_text()


@pytest.mark.java
def test_the_command_line_of_java_logs_in(realm: Realm, service: Path, tmp_path: Path) -> None:
    principal = f"alice@{realm.name}"
    jaas = jaas_of(tmp_path, CLIENT, realm.key_tab("alice"), principal)
    options = (
        *realm.java_options,
        f"-Djava.security.auth.login.config={jaas}",
        "-Dzookeeper.server.principal=" + f"{SERVICE}@{realm.name}",
    )
    with serving(tmp_path, service, sessionRequireClientSASLAuth="true") as ensemble:
        done = zookeeper_main(
            ensemble.hosts, "whoami", f"create /alice a sasl:{principal}:cdrwa", "get /alice", options=options
        )
        printed = done.stdout.decode() + done.stderr.decode()
        assert f"sasl: {principal}" in printed, printed
        assert "Created /alice" in printed
        anonymous = zookeeper_main(ensemble.hosts, "ls /")
        assert anonymous.returncode != 0
        assert b"[alice" not in anonymous.stdout
