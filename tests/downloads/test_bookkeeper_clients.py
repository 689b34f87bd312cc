"""The client of BookKeeper and ours on the same bookies: each reads what the other wrote, and fences it.

The numbers of the cases are those of docs/reference/bookkeeper-conformance.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import attrs
import pytest
import trio

import zab.client
import zab.ledgers
from tests.downloads.bookies import ROCKS, SORTED, JavaBookie, java_bookies, zab_bookies
from tests.downloads.bookkeeper import BOOKKEEPER_VERSIONS, VERSION
from tests.downloads.java_client import LIKE_PULSAR, V2, JavaError, JavaProgram, java_client, payload, shown
from tests.rigs.bookie import BookieProcess
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from zab.ledgers import BadPasswordError, DigestType, LedgerFencedError, LedgerStore, Protocol, StoreSettings

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

T = TypeVar("T")
SIZES = (0, 1, 100, 4096, 1 << 20)
QUORUMS = ((3, 3, 2), (3, 2, 2))
PASSWORDS = (b"", b"passwd")
DIGESTS = {
    "CRC32": DigestType.CRC32,
    "MAC": DigestType.HMAC,
    "CRC32C": DigestType.CRC32C,
    "DUMMY": DigestType.DUMMY,
}
"""By their names in BookKeeper's client."""
JAVA_CLIENTS = {"v3": (), "v2": V2, "v2 with 16 channels": LIKE_PULSAR}
EXPECTED = [shown(n, payload(n, size)) for n, size in enumerate(SIZES)]
FENCED = -101
NOT_ENOUGH_BOOKIES = -6


@attrs.frozen
class World:
    """Bookies, the ensemble under them, and both clients."""

    hosts: str
    java: JavaProgram
    bookies: list[BookieProcess]

    @property
    def is_ours(self) -> bool:
        """Whether all bookies are ours."""
        return not any(isinstance(bookie, JavaBookie) for bookie in self.bookies)

    @asynccontextmanager
    async def store(self, protocol: Protocol = Protocol.V2) -> AsyncIterator[LedgerStore]:
        """Our client."""
        settings = StoreSettings(protocol=protocol)
        async with zab.client.connect(self.hosts) as zk, zab.ledgers.open_store(zk, settings=settings) as store:
            yield store


async def java(call: Callable[..., T], *given: object, **options: object) -> T:
    """What the Java program answers, while this process goes on."""
    return await trio.to_thread.run_sync(partial(call, *given, **options))


async def entries(store: LedgerStore, ledger: int, password: bytes = b"") -> list[str]:
    """All entries of a ledger, which is recovered first."""
    async with await store.open(ledger, password) as reader:
        return [shown(entry.id, entry.payload) async for entry in reader.entries()]


WORLDS = {
    "ours": (3, 0, VERSION, SORTED),
    "ours, 4.18": (3, 0, BOOKKEEPER_VERSIONS[-1], SORTED),
    "mixed": (1, 2, VERSION, SORTED),
    "4.17, sorted": (0, 3, VERSION, SORTED),
    "4.17, RocksDB": (0, 3, VERSION, ROCKS),
    "4.18, sorted": (0, 3, BOOKKEEPER_VERSIONS[-1], SORTED),
}
"""How many bookies of ours, and of BookKeeper's, its version, also of the client, and their storage."""


@pytest.fixture(scope="module", params=WORLDS.values(), ids=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    root: Path = tmp_path_factory.mktemp("world")
    our_count, java_count, version, storage = request.param
    with (
        zab_servers(3, directory=root / "members") as ensemble,
        java_client(root / "client", ensemble.hosts, version) as program,
    ):
        assert program.shell("initnewcluster").code == 0
        with (
            zab_bookies(root, our_count, ensemble.hosts) as ours,
            java_bookies(root, java_count, ensemble.hosts, version=version, storage=storage) as theirs,
        ):
            client = program.client()
            until(lambda: len(program.bookies(client)) == our_count + java_count, "that all bookies are registered")
            yield World(ensemble.hosts, program, [*ours, *theirs])


@pytest.mark.parametrize("settings", JAVA_CLIENTS.values(), ids=JAVA_CLIENTS)
async def test_what_java_wrote_is_read(world: World, settings: tuple[str, ...]) -> None:
    """Cases 1 and 2."""
    program = world.java
    client = await java(program.client, *settings)
    async with world.store() as store:
        for digest, kind in DIGESTS.items():
            for quorums, password in zip(QUORUMS, PASSWORDS, strict=True):
                writer, ledger = await java(program.create, client, quorums, digest, password)
                assert await java(program.add, writer, 0, *SIZES) == [0, 1, 2, 3, 4]
                await java(program.ask, "close", writer)
                metadata = await store.metadata(ledger)
                assert (metadata.digest_type, metadata.last, metadata.length) == (kind, 4, sum(SIZES))
                assert metadata.custom == {"made-by": b"java"}
                assert await entries(store, ledger, password) == EXPECTED
                with pytest.raises(BadPasswordError):
                    await store.open(ledger, b"other")
    await java(program.ask, "shut", client)


@pytest.mark.parametrize("protocol", Protocol)
async def test_what_we_wrote_is_read_by_java(world: World, protocol: Protocol) -> None:
    """Case 3."""
    program = world.java
    clients = [await java(program.client, *settings) for settings in JAVA_CLIENTS.values()]
    async with world.store(protocol) as store:
        for digest, kind in DIGESTS.items():
            for quorums, password in zip(QUORUMS, PASSWORDS, strict=True):
                async with store.create(*quorums, digest=kind, password=password) as ledger:
                    for n, size in enumerate(SIZES):
                        ledger.append_nowait(payload(n, size))
                for client in clients:
                    reader = await java(program.open, client, ledger.id, digest, password)
                    assert (reader.last, reader.length, reader.is_closed) == (4, sum(SIZES), True)
                    assert await java(program.read, reader.name, 0, 4) == EXPECTED
                with pytest.raises(JavaError, match="Unauthorized"):
                    await java(program.open, clients[0], ledger.id, digest, b"other")
                words = ("readledger", "-ledgerid", ledger.id, "-firstentryid", 0, "-lastentryid", 2, "-msg")
                assert (await java(program.shell, *words)).code == 0
    for client in clients:
        await java(program.ask, "shut", client)


async def test_a_ledger_without_entries(world: World) -> None:
    program = world.java
    client = await java(program.client)
    async with world.store() as store:
        async with store.create() as ledger:
            pass
        reader = await java(program.open, client, ledger.id)
        assert (reader.last, reader.length, reader.is_closed) == (-1, 0, True)
        writer, theirs = await java(program.create, client, (3, 3, 2))
        await java(program.ask, "close", writer)
        assert await entries(store, theirs) == []
    await java(program.ask, "shut", client)


async def test_our_recovery_fences_a_java_writer(world: World) -> None:
    """Case 5."""
    program = world.java
    client = await java(program.client)
    async with world.store() as store:
        writer, ledger = await java(program.create, client, (3, 3, 2))
        for n, size in enumerate(SIZES):
            await java(program.add, writer, n, size)
        async with await store.open_no_recovery(ledger) as early:
            assert not early.metadata.is_closed
            assert await early.read_last_confirmed() >= 3
        assert await entries(store, ledger) == EXPECTED
        with pytest.raises(JavaError) as caught:
            await java(program.add, writer, 5, 10)
        if world.is_ours:
            assert caught.value.code == FENCED
        else:
            # Seen once with BookKeeper's bookies: it took one for failed, and found no other one to replace it.
            assert caught.value.code in (FENCED, NOT_ENOUGH_BOOKIES)
        reader = await java(program.open, client, ledger)
        assert (reader.last, reader.length) == (4, sum(SIZES))
    await java(program.ask, "shut", client)


@pytest.mark.parametrize("settings", JAVA_CLIENTS.values(), ids=JAVA_CLIENTS)
async def test_a_java_recovery_fences_our_writer(world: World, settings: tuple[str, ...]) -> None:
    """Case 5."""
    program = world.java
    client = await java(program.client, *settings)
    async with world.store() as store:
        ledger = await store.create(3, 3, 2)
        for n, size in enumerate(SIZES):
            await ledger.append(payload(n, size))
        reader = await java(program.open, client, ledger.id)
        assert (reader.last, reader.length, reader.is_closed) == (4, sum(SIZES), True)
        assert await java(program.read, reader.name, 0, 4) == EXPECTED
        with pytest.raises(LedgerFencedError):
            await ledger.append(b"too late")
        assert (await store.metadata(ledger.id)).last == 4
    await java(program.ask, "shut", client)


async def test_our_tail_follows_a_java_writer(world: World) -> None:
    """Case 11: our long poll."""
    program = world.java
    client = await java(program.client, "explicitLacInterval=100")
    async with world.store() as store:
        writer, ledger = await java(program.create, client, (3, 2, 2))
        found: list[str] = []
        async with trio.open_nursery() as nursery:

            async def follow() -> None:
                async with await store.open_no_recovery(ledger) as reader:
                    async for entry in reader.tail():
                        found.append(shown(entry.id, entry.payload))

            nursery.start_soon(follow)
            for n, size in enumerate(SIZES):
                await java(program.add, writer, n, size)
            await java(program.ask, "close", writer)
        assert found == EXPECTED
    await java(program.ask, "shut", client)


async def test_a_java_tail_follows_our_writer(world: World) -> None:
    """Case 11: their long poll."""
    program = world.java
    client = await java(program.client)
    async with world.store() as store:
        ledger = await store.create(3, 2, 2)
        # A bookie that does not know the ledger answers at once.
        await ledger.append(payload(0, SIZES[0]))
        reader = await java(program.open, client, ledger.id, is_recovering=False)
        for n in range(3):
            await java(program.ask, "tail", reader.name, n, 20_000)
            # The next entry proves that this one is confirmed.
            await ledger.append(payload(n + 1, SIZES[n + 1]))
            last, entry = await java(program.ask, "await", reader.name)
            assert int(last) >= n
            if entry == "none" and not world.is_ours:
                # Its interface allows that the mark moves and the entry has to be read by itself.
                [entry] = await java(program.read, reader.name, n, n)
            assert entry == shown(n, payload(n, SIZES[n]))
        await ledger.close()
    await java(program.ask, "shut", client)


async def test_ensembles_change_while_bookies_are_killed(world: World) -> None:
    """Case 4, on three bookies with ensembles of two."""
    program = world.java
    client = await java(program.client)
    async with world.store() as store:
        ours = await store.create(2, 2, 2)
        theirs, ledger = await java(program.create, client, (2, 2, 2))
        for number, bookie in enumerate(world.bookies):
            bookie.kill()
            for n in range(5 * number, 5 * number + 5):
                await ours.append(payload(n, n))
            await java(program.add, theirs, 5 * number, *range(5 * number, 5 * number + 5))
            await java(bookie.serve)
        await ours.close()
        await java(program.ask, "close", theirs)
        expected = [shown(n, payload(n, n)) for n in range(15)]
        assert await entries(store, ledger) == expected
        reader = await java(program.open, client, ours.id)
        assert await java(program.read, reader.name, 0, 14) == expected
    await java(program.ask, "shut", client)


def test_the_shell_knows_the_bookies(world: World) -> None:
    """Case 18."""
    program = world.java
    for command in (("listbookies", "-rw"), ("listbookies", "-a"), ("bookieinfo",)):
        said = program.shell(*command)
        assert (said.code, all(bookie.bookie_id in said.text for bookie in world.bookies)) == (0, True), said.text
    for bookie in world.bookies:
        said = program.shell("endpointinfo", "-b", bookie.bookie_id)
        assert (said.code, "bookie-rpc" in said.text) == (0, True), said.text
        said = program.shell("cookie_get", bookie.bookie_id)
        assert (said.code, bookie.bookie_id in said.text) == (0, True), said.text
        assert program.shell("bookiesanity", file=bookie.file).code == 0
    assert program.shell("simpletest", "-e", 3, "-w", 2, "-a", 2, "-n", 20).code == 0
