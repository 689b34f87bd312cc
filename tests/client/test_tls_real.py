"""The client over TLS against our server and ZooKeeper's, with the stores that `zab certs` makes: PEM, PKCS#12."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.zab_server import zab_over_tls
from tests.rigs.zookeeper_server import zookeeper
from zab.client import Tls, TlsError, connect
from zab.testing.kit.ports import free_ports


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@contextlib.contextmanager
def zookeeper_over_tls(configuration: dict[str, str | int]) -> Iterator[str]:
    [port] = free_ports(1)
    factory = "org.apache.zookeeper.server.NettyServerCnxnFactory"
    with zookeeper(1, configuration={**configuration, "secureClientPort": port, "serverCnxnFactory": factory}):
        yield f"localhost:{port}"


@pytest.fixture(
    scope="module",
    params=[
        "zab-pem",
        "zab-p12",
        *(pytest.param(f"zookeeper-{kind}", marks=pytest.mark.java) for kind in ("pem", "p12")),
    ],
)
def hosts(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[str]:
    server, kind = request.param.split("-")
    configuration: dict[str, str | int] = {
        **client_store_lines(certificates.member("localhost", name=request.param), kind),
        "ssl.clientAuth": "need",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
    }
    if server == "zab":
        with zab_over_tls(configuration) as (_, hosts):
            yield hosts
    else:
        with zookeeper_over_tls(configuration) as hosts:
            yield hosts


def store(directory: Path, name: str) -> str:
    return str(directory / f"{name}.pem")


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
        with pytest.raises(TlsError, match=r"it wants a certificate of the client|refuses the client's certificate"):
            async with connect(hosts, tls=Tls(trust_store=store(alice, "truststore"))):
                raise AssertionError("entered")
