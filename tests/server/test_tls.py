"""A server with a port for TLS, as a process, and the clients who may use it."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.host.tls.holders import certificates, holder
from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.in_process import members_here
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import until_async
from zab.client import Acl, NoAuthError, Permission, Tls, TlsError, connect
from zab.host.process import descriptors
from zab.host.process.descriptors import LIMIT_MIN
from zab.member.settings.zoo_cfg import parse
from zab.server import resources
from zab.testing.kit.ports import free_ports
from zab.testing.member import Member

__all__ = ["certificates", "holder"]

pytestmark = pytest.mark.process

TLS_LINES = "secureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.clientAuth=none\n"


@pytest.fixture(scope="module")
def lines(certificates: Certificates) -> dict[str, str | int]:
    member = certificates.member("localhost", "127.0.0.1")
    return {
        "ssl.keyStore.location": f"{member}/keystore.p12",
        "ssl.keyStore.passwordPath": f"{member}/password",
        "ssl.trustStore.location": f"{member}/truststore.pem",
    }


@pytest.fixture(scope="module")
def ports(lines: dict[str, str | int]) -> Iterator[tuple[int, int]]:
    """The plain one, which takes TLS, too, and the one for TLS alone."""
    [secure] = free_ports(1)
    more = {
        "secureClientPort": secure,
        "secureClientPortAddress": "127.0.0.1",
        "client.portUnification": "true",
        **lines,
    }
    with members_here(1, more) as servers:
        yield servers.members[1].client_port, secure


@pytest.mark.parametrize("which", [0, 1])
def test_kazoo_with_a_certificate(ports: tuple[int, int], holder: Path, which: int) -> None:
    store = str(holder / "keystore.pem")
    client = KazooClient(
        hosts=f"localhost:{ports[which]}",
        use_ssl=True,
        ca=str(holder / "truststore.pem"),
        certfile=store,
        keyfile=store,
        timeout=30.0,
    )
    client.start(timeout=60)
    try:
        data = bytes(range(256)) * 3000
        client.create(f"/kazoo{which}", data)
        assert client.get(f"/kazoo{which}")[0] == data
    finally:
        client.stop()
        client.close()


def test_plain_client_on_the_port_for_both_and_on_no_other(ports: tuple[int, int]) -> None:
    with kazoo_client(f"127.0.0.1:{ports[0]}") as client:
        client.create("/plain", b"")
    refused = KazooClient(hosts=f"127.0.0.1:{ports[1]}", timeout=1.0)
    with pytest.raises(KazooTimeoutError):
        refused.start(timeout=2)
    refused.stop()
    refused.close()


def test_client_of_zab_with_a_certificate_and_without(ports: tuple[int, int], holder: Path) -> None:
    async def main() -> None:
        hosts = f"localhost:{ports[1]}"
        tls = Tls(trust_store=str(holder / "truststore.pem"), key_store=str(holder / "keystore.pem"))
        async with connect(hosts, tls=tls) as zk:
            await zk.create("/zab", b"data")
            data, _ = await zk.get("/zab")
            assert data == b"data"
        with pytest.raises(TlsError, match="certificate"):
            async with connect(hosts, tls=Tls(trust_store=str(holder / "truststore.pem"))) as zk:
                await zk.get("/zab")

    trio.run(main)


@pytest.mark.parametrize(("lines", "clients", "newcomers"), [("", 320, 250), (TLS_LINES, 160, 160)])
def test_clients_and_those_who_shake_hands_leave_the_reserve_alone(
    lines: str, clients: int, newcomers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "raise_limit", lambda: LIMIT_MIN)
    config = resources._with_room(parse(f"dataDir=/d\nclientPort=2181\n{lines}", "zoo.cfg"))
    assert (config.limits.max_connections, config.clients.outstanding_handshake_limit_count) == (clients, newcomers)


def test_store_that_cannot_be_used_ends_the_start_with_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "zoo.cfg"
    file.write_text(
        f"dataDir={tmp_path}/data\nsecureClientPort=2281\nssl.keyStore.location={tmp_path}/k.pem\nssl.clientAuth=none\n"
    )
    command = [sys.executable, "-m", "zab.server", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert f"ssl.keyStore.location: {tmp_path}/k.pem: it cannot be read" in done.stderr
    assert not (tmp_path / "data" / "version-1").exists()


def test_acl_knows_a_client_by_its_certificate(
    ports: tuple[int, int], certificates: Certificates, holder: Path
) -> None:
    bob = certificates.client("bob")

    def tls(directory: Path) -> Tls:
        return Tls(
            trust_store=str(directory / "truststore.p12"),
            key_store=str(directory / "keystore.p12"),
            password_file=str(directory / "password"),
        )

    async def main() -> None:
        async with connect(f"localhost:{ports[0]}", tls=tls(holder)) as alice:
            assert ("x509", "CN=alice") in await alice.who_am_i()
            await alice.create("/alices", b"hers", acl=[Acl(Permission.ALL, "x509", "CN=alice")])
            assert (await alice.get("/alices"))[0] == b"hers"
        async with connect(f"localhost:{ports[1]}", tls=tls(bob)) as zk:
            with pytest.raises(NoAuthError):
                await zk.get("/alices")
        async with connect(f"127.0.0.1:{ports[0]}") as plain:
            assert [scheme for scheme, _ in await plain.who_am_i()] == ["ip"]
            with pytest.raises(NoAuthError):
                await plain.get("/alices")

    trio.run(main)


def test_certificates_change_while_the_server_runs(certificates: Certificates, tmp_path: Path) -> None:
    """Its own, and whom it believes: who was believed before is not let in any more, and who is in stays in."""
    alice = certificates.client("carol")
    others = Certificates(tmp_path / "others")
    bob = others.client("bob")
    here = shutil.copytree(certificates.member("localhost", name="reloaded"), tmp_path / "member")
    [secure] = free_ports(1)
    more = {
        "secureClientPort": secure,
        "client.certReload": "true",
        "ssl.keyStore.location": f"{here}/keystore.pem",
        "ssl.trustStore.location": f"{here}/truststore.pem",
    }

    async def main(server: Member) -> None:
        hosts = f"localhost:{secure}"
        async with connect(hosts, tls=tls(alice)) as zk:
            new = others.member("localhost")
            for name in ("truststore.pem", "keystore.pem"):
                os.replace(shutil.copy(new / name, here / "aside"), here / name)
            await until_async(lambda: server.journal.count("there are other certificates") > 0)
            await until_async(lambda: can_enter(secure, bob))
            await zk.create("/still", b"")
            with pytest.raises(TlsError):
                async with connect(hosts, tls=tls(alice)):
                    pass
            (here / "keystore.pem").write_text("nothing useful")
            await until_async(lambda: "the certificates cannot be read again -> those before stay" in server.journal)
            async with connect(hosts, tls=tls(bob)) as other:
                assert await other.exists("/still") is not None

    with members_here(1, more) as servers:
        trio.run(main, servers.members[1])


def test_who_is_revoked_while_the_server_runs_is_kept_out(certificates: Certificates, tmp_path: Path) -> None:
    """As `zab certs --revoke-client` replaces the trust store. Who is in stays in."""
    here = tmp_path / "member"
    certificates.member("localhost", name="revoking").rename(here)
    alice, mallory = certificates.client("alice2"), certificates.client("mallory")
    certificates.revoke(here / "truststore.pem")
    [secure] = free_ports(1)
    more = {**client_store_lines(here), "secureClientPort": secure, "client.certReload": "true", "ssl.crl": "true"}

    async def main(server: Member) -> None:
        hosts = f"localhost:{secure}"
        async with connect(hosts, tls=tls(mallory)) as inside:
            certificates.revoke(here / "truststore.pem", mallory)
            await until_async(lambda: server.journal.count("there are other certificates") > 0)
            with pytest.raises(TlsError, match="revoked"):
                async with connect(hosts, tls=tls(mallory)):
                    pass
            await inside.create("/still", b"")
            async with connect(hosts, tls=tls(alice)) as zk:
                assert await zk.exists("/still") is not None

    with members_here(1, more) as servers:
        trio.run(main, servers.members[1])


def tls(holder: Path) -> Tls:
    return Tls(trust_store=str(holder / "truststore.pem"), key_store=str(holder / "keystore.pem"))


def can_enter(port: int, holder: Path) -> bool:
    """Whether the server proves itself to whom has these stores."""
    context = ssl.create_default_context(cafile=str(holder / "truststore.pem"))
    context.load_cert_chain(holder / "keystore.pem")
    try:
        with (
            socket.create_connection(("localhost", port)) as sock,
            context.wrap_socket(sock, server_hostname="localhost"),
        ):
            return True
    except OSError:
        return False
