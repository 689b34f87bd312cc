"""Clients over TLS, with certificates and lines of zoo.cfg as `zab certs` makes and prints them: kazoo and Java's
command line, with a login by SASL and without; and who is not let in."""

from __future__ import annotations

import contextlib
import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl

from tests.rigs.waiting import PATIENCE_SECONDS, until
from tests.rigs.zab_server import zab_over_tls, zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, run_tool

pytestmark = [
    pytest.mark.process,
    # kazoo leaves the socket of a handshake that failed to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning"),
]

SECURE_PORT = "2281"
FAILED = "TLS handshake failed -> connection is closed"
PASSWORD = "bob's"
JAAS = """
Client {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    username="bob"
    password="bob's";
};
"""


@dataclass(frozen=True)
class Made:
    """What the command made, and the lines that it printed."""

    directory: Path
    lines: dict[str, str | int]
    java: str

    def client(self, name: str = "client") -> Path:
        return self.directory / "clients" / name


def zab(*words: str, said: str = "") -> str:
    command = [sys.executable, "-m", "zab.cli.main", *words]
    return subprocess.run(command, input=said, capture_output=True, text=True, check=True).stdout


def made(directory: Path) -> Made:
    place = directory / "members" / "localhost"
    printed = zab("certs", str(directory), "--host", "localhost,127.0.0.1", "--place", str(place))
    blocks = printed.split("\n\n")
    [members] = [block for block in blocks if block.startswith("secureClientPort")]
    [java] = [block for block in blocks if block.startswith("zookeeper.client.secure")]
    lines = dict(line.split("=", 1) for line in members.splitlines())
    assert lines["secureClientPort"] == SECURE_PORT
    # Those between members are not for clients.
    return Made(directory, {key: value for key, value in lines.items() if "uorum" not in key}, java)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("ours") / "certs")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Certificates of other authorities."""
    return made(tmp_path_factory.mktemp("others") / "certs")


@contextlib.contextmanager
def secure_ensemble(ours: Made, directory: Path) -> Iterator[ZooKeeperEnsemble]:
    """Three members that speak TLS on the port that they serve plain clients at, and ask for logins."""
    users = directory / "users"
    zab("user", str(users), "bob", said=f"{PASSWORD}\n")
    stores = {key: value for key, value in ours.lines.items() if key != "secureClientPort"}
    configuration = {
        **stores,
        "client.portUnification": "true",
        "sasl.usersFile": str(users),
        "sessionRequireClientSASLAuth": "true",
    }
    with zab_servers(3, directory=directory / "members", configuration=configuration) as ensemble:
        yield ensemble


@contextlib.contextmanager
def kazoo(hosts: str, trusts: Path, shows: Path | None = None, *, logs_in: bool = False) -> Iterator[KazooClient]:
    store = None if shows is None else str(shows / "keystore.pem")
    login = {"mechanism": "DIGEST-MD5", "username": "bob", "password": PASSWORD} if logs_in else None
    client = KazooClient(
        hosts,
        use_ssl=True,
        ca=str(trusts / "truststore.pem"),
        certfile=store,
        keyfile=store,
        sasl_options=login,
        timeout=20.0,
    )
    try:
        yield client
    finally:
        client.stop()
        client.close()
        gc.collect()


# --------------------------------------------------------------------------------------------------------------- kazoo


@pytest.mark.parametrize(
    ("client_auth", "let_in"),
    [("need", {"own"}), ("want", {"own", "nothing"}), ("none", {"own", "nothing", "another's"})],
)
def test_what_clients_have_to_show(ours: Made, others: Made, client_auth: str, let_in: set[str]) -> None:
    shown = {"own": ours.client(), "nothing": None, "another's": others.client()}
    lines = {**ours.lines, "ssl.clientAuth": client_auth}
    if client_auth == "none":
        del lines["ssl.crl"]  # nobody is looked up, so the line is refused
    with zab_over_tls(lines) as (member, hosts):
        for name, shows in shown.items():
            before = member.log_text().count(FAILED)
            with kazoo(hosts, ours.client(), shows) as client:
                if name in let_in:
                    client.start(PATIENCE_SECONDS)
                    client.create("/of", name.encode())
                    assert client.get("/of")[0] == name.encode()
                    client.delete("/of")
                    assert member.log_text().count(FAILED) == before
                else:
                    client.start_async()
                    until(lambda before=before: member.log_text().count(FAILED) > before)  # type: ignore[misc]
                    assert not client.connected


def test_server_of_another_authority_is_not_believed(ours: Made, others: Made) -> None:
    with zab_over_tls(ours.lines) as (member, hosts), kazoo(hosts, others.client(), ours.client()) as client:
        client.start_async()
        until(lambda: FAILED in member.log_text())
        assert not client.connected


def test_kazoo_logs_in_over_tls_and_goes_on_elsewhere(ours: Made, tmp_path: Path) -> None:
    with secure_ensemble(ours, tmp_path) as ensemble:
        with kazoo(ensemble.hosts, ours.client(), ours.client(), logs_in=True) as bob:
            bob.start(PATIENCE_SECONDS)
            session, _ = bob.client_id
            bob.create("/bob", b"b", acl=[make_acl("sasl", "bob", all=True)])
            bob.create("/bob/here", ephemeral=True)
            ensemble.leader().kill()
            assert bob.retry(bob.get, "/bob")[0] == b"b"
            assert bob.retry(bob.exists, "/bob/here").ephemeralOwner == session
            assert bob.client_id[0] == session
        assert PASSWORD not in "".join(member.log_text() for member in ensemble.members)


# ---------------------------------------------------------------------------------------------------------------- Java


def zookeeper_main(directory: Path, hosts: str, java: str, *commands: str, logs_in: bool = False) -> str:
    """What Java's command line prints in one session with the printed configuration."""
    properties = directory / "client.properties"
    properties.write_text(java)
    options = []
    if logs_in:
        jaas = directory / "client.jaas"
        jaas.write_text(JAAS)
        # ZooKeeper's clients take DIGEST-MD5 for what FIPS forbids, unless told otherwise.
        options = [f"-Djava.security.auth.login.config={jaas}", "-Dzookeeper.fips-mode=false"]
    done = run_tool(
        "org.apache.zookeeper.ZooKeeperMain",
        *("-client-configuration", str(properties), "-server", hosts),
        standard_input="".join(f"{command}\n" for command in (*commands, "quit")),
        options=options,
    )
    return done.stdout.decode() + done.stderr.decode()


@pytest.mark.java
def test_the_command_line_of_java_shows_its_certificate(ours: Made, tmp_path: Path) -> None:
    with zab_over_tls(ours.lines) as (member, hosts):
        printed = zookeeper_main(tmp_path, hosts, ours.java, "create /java j", "get /java")
        assert "Created /java" in printed, printed
        assert "\nj\n" in printed
        assert FAILED not in member.log_text()


@pytest.mark.java
def test_java_without_a_certificate_or_with_anothers_is_refused(ours: Made, others: Made, tmp_path: Path) -> None:
    without = "".join(f"{line}\n" for line in ours.java.splitlines() if "keyStore" not in line)
    anothers = re.sub(r"(keyStore\.\w+=)" + re.escape(str(ours.client())), rf"\g<1>{others.client()}", ours.java)
    assert anothers.count(str(others.client())) == 2
    with zab_over_tls(ours.lines) as (member, hosts):
        for java in (without, anothers):
            before = member.log_text().count(FAILED)
            printed = zookeeper_main(tmp_path, hosts, java, "create /java j")
            assert "Created /java" not in printed, printed
            assert member.log_text().count(FAILED) > before
        assert "Node does not exist: /java" in zookeeper_main(tmp_path, hosts, ours.java, "get /java")


@pytest.mark.java
@pytest.mark.slow
def test_the_command_line_of_java_logs_in_over_tls(ours: Made, tmp_path: Path) -> None:
    with secure_ensemble(ours, tmp_path) as ensemble:
        commands = ("whoami", "create /bob b sasl:bob:cdrwa", "get /bob")
        printed = zookeeper_main(tmp_path, ensemble.hosts, ours.java, *commands, logs_in=True)
        assert "sasl: bob" in printed, printed
        assert "Created /bob" in printed
        assert "\nb\n" in printed
        with kazoo(ensemble.hosts, ours.client(), ours.client(), logs_in=True) as bob:
            bob.start(PATIENCE_SECONDS)
            bob.sync("/bob")
            assert bob.get("/bob")[0] == b"b"
            bob.create("/nobodys", acl=[make_acl("sasl", "eve", all=True)])
            with pytest.raises(NoAuthError):
                bob.get("/nobodys")
