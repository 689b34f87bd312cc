"""The client over TLS against a real ZooKeeper, with the stores that `zab certs` makes, PEM and PKCS#12."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.rigs.certificates import Certificates
from tests.rigs.ports import free_ports
from tests.rigs.zookeeper_server import zookeeper
from zab.client import Tls, TlsError, connect


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["pem", "p12"])
def hosts(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[str]:
    kind = request.param
    member = certificates.member("localhost", name=f"member-{kind}")
    [port] = free_ports(1)
    configuration: dict[str, str | int] = {
        "secureClientPort": port,
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(member / f"keystore.{kind}"),
        "ssl.trustStore.location": str(member / f"truststore.{kind}"),
        "ssl.clientAuth": "need",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    }
    if kind == "p12":
        for store in ("keyStore", "trustStore"):
            configuration[f"ssl.{store}.passwordPath"] = str(member / "password")
    with zookeeper(1, configuration=configuration):
        yield f"localhost:{port}"


def store(directory: Path, name: str) -> str:
    return str(directory / f"{name}.pem")


@pytest.mark.java
async def test_both_sides_believe_each_other(
    hosts: str, certificates: Certificates, request: pytest.FixtureRequest
) -> None:
    name = f"alice-{request.node.callspec.params['hosts']}"
    alice = certificates.client(name)
    tls = Tls(trust_store=store(alice, "truststore"), key_store=store(alice, "keystore"))
    with trio.fail_after(60):
        async with connect(hosts, tls=tls) as zk:
            assert await zk.create("/a", b"1") == "/a"
            assert ("x509", f"CN={name}") in await zk.who_am_i()
            await zk.delete("/a")
        with pytest.raises(TlsError, match="refuses the client's certificate, or wants one"):
            async with connect(hosts, tls=Tls(trust_store=store(alice, "truststore"))):
                raise AssertionError("entered")
