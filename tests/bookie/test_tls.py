"""Bookies that speak TLS with their clients: those that have it, those that do not, and those that pretend."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import trio

from tests.bookie.wire import Wire, add, wires
from tests.cli.commands import Run, run
from tests.rigs.certificates import Certificates, client_context
from tests.rigs.scraping import scraped
from tests.rigs.waiting import PATIENCE_SECONDS
from zab.client import Tls, connect
from zab.client import aio as aio_client
from zab.client import sync as sync_client
from zab.host.loop.handshakes import HANDSHAKE_MS
from zab.ledger.entries.ids import BookieId
from zab.ledger.metadata.service_info import decode_service_info
from zab.ledger.wire.messages import Added, Authenticate, Authenticated, ReadEntry, StartTls, TlsStarted
from zab.ledger.wire.status import Status
from zab.ledgers import (
    LedgerError,
    LedgerStore,
    StoreSettings,
    WriterSettings,
    aio,
    open_store,
    sync,
)
from zab.ledgers.tools import check_ledger
from zab.testing import Bookies
from zab.testing.kit.ports import HOST, free_ports

__all__ = ["run"]

FACTORY = "org.apache.bookkeeper.tls.TLSContextFactory"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    found = Certificates(tmp_path_factory.mktemp("certificates"))
    member = found.member("localhost", HOST, name="bookie")
    # One authority signs for clients, another one for bookies, which are each other's clients.
    both = [(member / name).read_text() for name in ("truststore.pem", "quorum.truststore.pem")]
    (member / "both.pem").write_text("".join(both))
    found.client("alice")
    return found


def lines(certificates: Certificates, **more: object) -> dict[str, object]:
    """The keys of a bookie."""
    own = certificates.directory / "bookie"
    return {
        "tlsProviderFactoryClass": FACTORY,
        "tlsKeyStoreType": "PEM",
        "tlsKeyStore": f"{own}/keystore.pem",
        "tlsTrustStoreType": "PEM",
        "tlsTrustStore": f"{own}/both.pem",
        "tlsClientAuthentication": "true",
        **more,
    }


def tls_of(holder: Path, *, has_key: bool = True, check_host: bool = True) -> Tls:
    return Tls(
        trust_store=f"{holder}/truststore.pem",
        key_store=f"{holder}/keystore.pem" if has_key else None,
        check_host=check_host,
    )


@pytest.fixture(scope="module")
def bookies(certificates: Certificates) -> Iterator[Bookies]:
    with Bookies(4, lines(certificates)) as running:
        yield running


@pytest.fixture(scope="module")
def http_port() -> int:
    [port] = free_ports(1)
    return port


@pytest.fixture(scope="module")
def optional(certificates: Certificates, http_port: int) -> Iterator[Bookies]:
    """They take clients in clear besides, and want no certificates."""
    http = {"httpServerEnabled": "true", "httpServerPort": http_port}
    with Bookies(1, lines(certificates, tlsRequired="false", tlsClientAuthentication="false", **http)) as running:
        yield running


@pytest.fixture
def address(bookies: Bookies) -> str:
    return bookies.members[1].address


@pytest.fixture
def alice(certificates: Certificates) -> Path:
    return certificates.directory / "alice"


@contextlib.asynccontextmanager
async def stored(bookies: Bookies, **settings: object) -> AsyncIterator[LedgerStore]:
    async with connect(bookies.ensemble.hosts) as zk, open_store(zk, settings=StoreSettings(**settings)) as store:
        yield store


@contextlib.contextmanager
def secured(address: str, context: ssl.SSLContext, *, is_v2: bool = True) -> Iterator[Wire]:
    """A connection within TLS."""
    with Wire(address, is_v2=is_v2) as wire:
        assert wire.ask(StartTls()) == TlsStarted(Status.OK)
        wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
        yield wire


# ------------------------------------------------------------------------------------------------ the protocol


@pytest.mark.parametrize("is_v2", [True, False])
def test_requests_are_answered_within_tls(address: str, alice: Path, is_v2: bool) -> None:
    ledger = 1 if is_v2 else 2
    with secured(address, client_context(alice), is_v2=is_v2) as wire:
        wire.send(*(add(ledger, entry, b"x" * 10_000) for entry in range(100)))
        assert {answer for _, answer in wire.answers(100)} == {Added(Status.OK, ledger, n) for n in range(100)}
        wire.send(*(ReadEntry(ledger, entry) for entry in range(100)))
        assert {answer.status for _, answer in wire.answers(100)} == {Status.OK}
        assert wire.ask(Authenticate("sasl", b"")) == Authenticated(Status.OK, "AuthDisabledPlugin")
        assert wire.ask(StartTls()) == TlsStarted(Status.BAD_REQUEST), "there is TLS already"
        assert wire.ask(ReadEntry(ledger, 0)).status is Status.OK


def test_a_client_in_clear_is_unauthorized_and_stores_nothing(address: str, alice: Path) -> None:
    with wires(address) as clear:
        for wire in clear:
            assert wire.ask(add(3, 0)).status is Status.UNAUTHORIZED
            assert wire.ask(ReadEntry(3, 0)).status is Status.UNAUTHORIZED
        assert clear[1].ask(StartTls()).status is Status.BAD_REQUEST
    with secured(address, client_context(alice)) as wire:
        assert wire.ask(ReadEntry(3, 0)).status is Status.NO_LEDGER


def test_where_tls_is_not_required_there_is_both(optional: Bookies, alice: Path) -> None:
    address = optional.members[1].address
    with Wire(address) as clear, secured(address, client_context(alice, has_key=False)) as wire:
        assert clear.ask(add(1, 0)).status is Status.OK
        assert wire.ask(ReadEntry(1, 0)).status is Status.OK


def test_it_is_registered_with_the_extension_that_clients_look_for(bookies: Bookies) -> None:
    with bookies.ensemble.connect() as zk:
        data, _ = zk.get("/ledgers/available/b1")
    endpoint = decode_service_info(BookieId("b1"), data).bookie_endpoint
    assert endpoint is not None
    assert endpoint.extensions == ("tls",)


# ------------------------------------------------------------------------------------------- those who pretend


@pytest.mark.parametrize("is_half_a_handshake", [True, False])
def test_what_follows_in_clear_ends_the_connection_and_is_not_done(
    address: str, alice: Path, is_half_a_handshake: bool
) -> None:
    """Somebody in between adds a request in clear, before the handshake of the client."""
    with Wire(address) as hostile:
        added = b"\x16\x03" if is_half_a_handshake else hostile.channel.encode(add(4, 0))
        hostile.socket.sendall(hostile.channel.encode(StartTls()) + added)
        assert hostile.socket.recv(1 << 16) == b"", "not even StartTls is answered"
    with secured(address, client_context(alice)) as wire:
        assert wire.ask(ReadEntry(4, 0)).status is Status.NO_LEDGER


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x04", b"\x16\x03\x01\x00\x04abcd"])
def test_garbage_in_place_of_a_handshake_ends_the_connection(address: str, alice: Path, data: bytes) -> None:
    with Wire(address) as hostile, secured(address, client_context(alice)) as wire:
        assert hostile.ask(StartTls()).status is Status.OK
        hostile.socket.sendall(data)
        assert hostile.is_closed()
        assert wire.ask(add(5, 0)).status is Status.OK


def test_a_handshake_that_fails_is_counted(optional: Bookies, http_port: int) -> None:
    name = "zab_bookie_failed_handshakes"
    assert scraped(http_port)[name,] == 0
    with Wire(optional.members[1].address) as hostile:
        assert hostile.ask(StartTls()).status is Status.OK
        hostile.socket.sendall(b"ruok")
        assert hostile.is_closed()
    assert scraped(http_port)[name,] == 1


def test_a_client_without_a_certificate_of_the_authority_gets_nothing(
    address: str, alice: Path, tmp_path: Path
) -> None:
    stranger = Certificates(tmp_path).client("stranger")
    foreign = client_context(alice, has_key=False)
    foreign.load_cert_chain(stranger / "keystore.pem")
    for context in (client_context(alice, has_key=False), foreign):
        with pytest.raises(OSError), secured(address, context) as wire:
            # Its handshake of TLS 1.3 ends before the bookie has seen the certificate.
            wire.ask(add(6, 0))
    with secured(address, client_context(alice)) as wire:
        assert wire.ask(ReadEntry(6, 0)).status is Status.NO_LEDGER


def test_a_handshake_that_goes_on_for_ever_ends(bookies: Bookies) -> None:
    """The clock of the sockets goes on, so that the test does not wait."""
    bookie = bookies.members[1]
    with Wire(bookie.address) as slow, Wire(bookie.address) as silent:
        assert slow.ask(StartTls()).status is Status.OK
        slow.socket.sendall(b"\x16")

        def hurry(running) -> int:
            handshakes = running.turn._ports.clients.handshakes
            due = list(handshakes.deadlines.values())
            if due:
                handshakes._close_overdue(due[-1])
            return len(due)

        bookies.wait_until(lambda: bookie.ask(hurry) == 1, "the handshake has not begun")
        assert silent.ask(StartTls()).status is Status.OK
        assert slow.is_closed()
    assert HANDSHAKE_MS == 10_000


# -------------------------------------------------------------------------------------------------- the client


@pytest.mark.parametrize("protocol", ["v2", "v3"])
async def test_ledgers_are_written_read_and_recovered(bookies: Bookies, alice: Path, protocol: str) -> None:
    wanted = [b"%d" % each * (each % 5000) for each in range(300)]
    async with (
        stored(bookies, tls=tls_of(alice), protocol=protocol) as store,
        stored(bookies, tls=tls_of(alice)) as theirs,
    ):
        ledger = await store.create(3, 3, 2)
        for each in wanted:
            ledger.append_nowait(each)
        await ledger.append(b"last")
        assert (await theirs.recover(ledger.id)).last == len(wanted)
        with pytest.raises(LedgerError):
            await ledger.append(b"late")
        async with await theirs.open(ledger.id) as reader:
            assert [entry.payload async for entry in reader.entries()] == [*wanted, b"last"]
        assert (await check_ledger(store, ledger.id, await store.metadata(ledger.id))).lost == 0


async def test_a_batch_larger_than_a_record_is_read(bookies: Bookies, alice: Path) -> None:
    async with stored(bookies, tls=tls_of(alice)) as store:
        async with store.create(1, 1, 1) as ledger:
            for each in range(20):
                await ledger.append(bytes([each]) * 100_000)
        async with await store.open(ledger.id) as reader:
            found = [entry.payload async for entry in reader.entries()]
    assert found == [bytes([each]) * 100_000 for each in range(20)]


def test_threads_and_asyncio_speak_it_too(bookies: Bookies, alice: Path) -> None:
    settings = StoreSettings(tls=tls_of(alice))
    with (
        sync_client.connect(bookies.ensemble.hosts) as zk,
        sync.open_store(zk, settings=settings) as store,
        store.create() as ledger,
    ):
        assert ledger.append(b"threads") == 0

    async def on_asyncio() -> int:
        async with (
            aio_client.connect(bookies.ensemble.hosts) as zk,
            aio.open_store(zk, settings=settings) as store,
            store.create() as ledger,
        ):
            return await ledger.append(b"asyncio")

    assert asyncio.run(on_asyncio()) == 0


def case(name: str, make: Callable[[Path, Path], Tls | None], reason: str) -> object:
    return pytest.param(make, reason, id=name)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        case("no certificate", lambda alice, _: tls_of(alice, has_key=False), "it wants a certificate of the client"),
        case(
            "another authority of bookies",
            lambda alice, other: Tls(trust_store=f"{other}/truststore.pem", key_store=f"{alice}/keystore.pem"),
            "no authority that this client trusts",
        ),
        case(
            "another authority of clients",
            lambda alice, other: Tls(trust_store=f"{alice}/truststore.pem", key_store=f"{other}/keystore.pem"),
            "it does not trust the authority that signed",
        ),
    ],
)
async def test_a_client_that_cannot_come_in_is_told_why(
    bookies: Bookies, alice: Path, tmp_path: Path, make: Callable[[Path, Path], Tls], reason: str
) -> None:
    other = Certificates(tmp_path).client("other")
    said: dict[BookieId, str] = {}
    quick = WriterSettings(quorum_timeout_ms=200)
    async with stored(bookies, tls=make(alice, other), tls_failed=said.__setitem__, writer=quick) as store:
        ledger = await store.create()
        with trio.fail_after(PATIENCE_SECONDS), pytest.raises(LedgerError):
            await ledger.append(b"x")
    assert said
    assert all(reason in each for each in said.values()), said


async def test_a_client_that_wants_tls_uses_no_bookie_without(alice: Path) -> None:
    """It does not go on in clear: somebody in between could have said that there is no TLS."""
    said: list[str] = []
    with Bookies(3) as plain:
        async with stored(plain, tls=tls_of(alice), tls_failed=lambda _, why: said.append(why)) as store:
            ledger = await store.create()
            with trio.fail_after(PATIENCE_SECONDS), pytest.raises(LedgerError):
                await ledger.append(b"x")
    assert set(said) == {"the bookie has no TLS"}


def test_commands_speak_it_with_their_options(bookies: Bookies, alice: Path, run: Run, tmp_path: Path) -> None:
    stores = ("--no-tls", "--ca", f"{alice}/truststore.pem", "--key-store", f"{alice}/keystore.pem")
    words = ("--wait", "30", "-s", bookies.ensemble.hosts, *stores)
    quorums = ("-E", "1", "-W", "1", "-A", "1")
    (tmp_path / "lines").write_text("one\n")
    appended = ("append", *quorums, "-f", tmp_path / "lines", "--json")
    assert run(*words, "--bookie-tls", "ledger", *appended) == 0, run.err
    ledger = json.loads(run.out)["ledger"]
    assert run(*words, "--bookie-tls", "ledger", "read", ledger) == 0, run.err
    assert run.out == "one\n"
    assert run(*words[:4], "--no-tls", "--ca", stores[2], "--bookie-tls", "ledger", "read", ledger) == 1
    assert "has failed: it wants a certificate of the client" in run.err
    assert run(*words[:4], "ledger", "read", ledger) == 1


async def test_auto_recovery_repairs_within_tls(certificates: Certificates, alice: Path) -> None:
    """It is a client of all bookies, with the certificate of its own one."""
    keys = lines(certificates, autoRecoveryDaemonEnabled="true", openLedgerRereplicationGracePeriod=0)
    with Bookies(4, keys) as running:
        async with stored(running, tls=tls_of(alice)) as store:
            async with store.create(3, 3, 2) as ledger:
                for each in range(20):
                    await ledger.append(b"%d" % each)
                victim = ledger.metadata.last_fragment.ensemble[0]
            await trio.to_thread.run_sync(running.kill, int(victim.removeprefix("b")))

            async def is_repaired() -> bool:
                metadata = await store.metadata(ledger.id)
                return all(victim not in each.ensemble for each in metadata.fragments)

            with trio.fail_after(PATIENCE_SECONDS):
                while not await is_repaired():  # noqa: ASYNC110
                    await trio.sleep(0.1)
            assert (await check_ledger(store, ledger.id, await store.metadata(ledger.id))).lost == 0
