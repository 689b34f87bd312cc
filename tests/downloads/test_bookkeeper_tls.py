"""BookKeeper's client speaks TLS with our bookies, with BookKeeper's own settings: case 21 of
docs/reference/bookkeeper-conformance.md."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import zab.client
import zab.ledgers
from tests.downloads.bookies import SETTINGS
from tests.downloads.java_client import V2, JavaError, JavaProgram, java_client, payload, shown
from tests.rigs.bookie import bookies
from tests.rigs.certificates import Certificates
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from zab.bookie.tls_settings import FACTORY
from zab.client import Tls
from zab.ledgers import StoreSettings
from zab.testing.kit.ports import HOST

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

SIZES = (0, 1, 100, 4096, 1 << 20)
EXPECTED = [shown(n, payload(n, size)) for n, size in enumerate(SIZES)]


def lines(holder: Path, trusted: str) -> dict[str, object]:
    """BookKeeper's keys, the same at both ends."""
    return {
        "tlsProviderFactoryClass": FACTORY,
        "tlsClientAuthentication": "true",
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": str(holder / "keystore.pem"),
        "tlsCertificatePath": str(holder / "keystore.pem"),
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": str(holder / trusted),
    }


@attrs.frozen
class World:
    """Our bookies, and both clients."""

    hosts: str
    java: JavaProgram
    alice: Path

    @property
    def told(self) -> tuple[str, ...]:
        """What the client of Java is told."""
        return tuple(f"{key}={value}" for key, value in lines(self.alice, "truststore.pem").items())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root: Path = tmp_path_factory.mktemp("world")
    certificates = Certificates(root / "certificates")
    bookie, alice = certificates.member("localhost", HOST, name="bookie"), certificates.client("alice")
    with (
        zab_servers(1, directory=root / "members") as ensemble,
        bookies(root, 3, ensemble.hosts, {**SETTINGS, **lines(bookie, "truststore.pem")}),
        java_client(root / "client", ensemble.hosts) as program,
    ):
        client = program.client()
        until(lambda: len(program.bookies(client)) == 3, "that all bookies are registered")
        yield World(ensemble.hosts, program, alice)


@pytest.mark.parametrize("version", [(), V2], ids=["v3", "v2"])
async def test_each_client_reads_what_the_other_wrote(world: World, version: tuple[str, ...]) -> None:
    def java(call, *given):
        return trio.to_thread.run_sync(partial(call, *given))

    program, alice = world.java, world.alice
    tls = Tls(trust_store=f"{alice}/truststore.pem", key_store=f"{alice}/keystore.pem")
    client = await java(program.client, *version, *world.told)
    async with (
        zab.client.connect(world.hosts) as zk,
        zab.ledgers.open_store(zk, settings=StoreSettings(tls=tls)) as store,
    ):
        writer, ledger = await java(program.create, client, (3, 3, 2))
        assert await java(program.add, writer, 0, *SIZES) == [0, 1, 2, 3, 4]
        async with await store.open(ledger) as reader:
            assert [shown(entry.id, entry.payload) async for entry in reader.entries()] == EXPECTED
        ours = await store.create(3, 3, 2)
        for n, size in enumerate(SIZES):
            await ours.append(payload(n, size))
        opened = await java(program.open, client, ours.id)
        assert (opened.last, opened.is_closed) == (4, True), "it has recovered the ledger"
        assert await java(program.read, opened.name, 0, 4) == EXPECTED
    await java(program.ask, "shut", client)


def test_a_client_of_java_in_clear_is_refused(world: World) -> None:
    client = world.java.client()
    writer, _ = world.java.create(client, (3, 3, 2))
    with pytest.raises(JavaError):
        world.java.add(writer, 0, 10)
    world.java.ask("shut", client)
