"""Bookies, auto-recovery and clients that speak TLS to the coordination service, log in there, and keep the znodes of
ledgers to themselves."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import attrs
import pytest
import trio

from tests.cli.commands import Run, run
from tests.rigs.bookie import PROGRAM, BookieProcess, metadata_uri
from tests.rigs.certificates import Certificates
from tests.rigs.login_files import digest_section, private_file
from tests.rigs.processes import ended
from tests.rigs.secured_member import SecuredMember, secured_member
from tests.rigs.waiting import PATIENCE_SECONDS, until
from zab.bookie.auto_recovery import serve
from zab.bookie.config_file import read_settings
from zab.client import Acl, NoAuthError, Permission, SaslLogin, Tls, connect
from zab.host.process.run_service import Supervised
from zab.ledger.metadata.paths import ledger_path
from zab.ledgers import SECURED_ACL, MetadataUnavailableError, StoreSettings, open_store
from zab.testing.kit.ports import HOST, free_ports

__all__ = ["run"]

T = TypeVar("T")

pytestmark = [pytest.mark.process, pytest.mark.slow]

PASSWORD = "open sesame"
BY_BOOKIES = Acl(Permission.ALL, "sasl", "bk")
BY_ALL = Acl(Permission.READ, "world", "anyone")
OF_CERTIFICATE = Acl(Permission.ALL, "x509", "CN=bookie")
"""The member knows the creator also by its certificate."""
SECURED = {BY_BOOKIES, OF_CERTIFICATE, BY_ALL}


@attrs.frozen
class Ensemble(SecuredMember):
    """One member, and what its bookies and clients need."""

    password_file: Path

    @property
    def own(self) -> Path:
        return self.certificates.directory / "bookie"

    @property
    def tls(self) -> Tls:
        return Tls(trust_store=str(self.own / "truststore.pem"), key_store=str(self.own / "keystore.pem"))

    @property
    def words(self) -> list[str]:
        """The options of `zab` with which its commands are what the bookies are."""
        stores = ["--ca", str(self.own / "truststore.pem"), "--key-store", str(self.own / "keystore.pem")]
        return [
            *("--wait", "30", "-s", self.secure, *stores, "--sasl-user", "bk"),
            *("--sasl-password-file", str(self.password_file), "--secure-ledgers"),
        ]

    def settings(self, jaas: Path) -> dict[str, object]:
        return {
            "zookeeper.client.secure": "true",
            "zookeeper.ssl.keyStore.location": f"{self.own}/keystore.pem",
            "zookeeper.ssl.trustStore.location": f"{self.own}/truststore.pem",
            "java.security.auth.login.config": str(jaas),
            "zkEnableSecurity": "true",
            "journalMaxSizeMB": 16,
        }


def login_file(path: Path, password: str = PASSWORD) -> Path:
    return private_file(path, digest_section("Client", username="bk", password=password))


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    directory = tmp_path_factory.mktemp("ensemble")
    password_file = private_file(directory / "password", f"{PASSWORD}\n")
    with secured_member(directory, "bookie", "bk", PASSWORD) as member:
        yield Ensemble(member.certificates, member.plain, member.secure, password_file)


def process(directory: Path, hosts: str, settings: dict[str, object]) -> BookieProcess:
    [port] = free_ports(1)
    bookie = BookieProcess(1, directory, (HOST, port))
    bookie.command = [sys.executable, *PROGRAM, str(bookie.write_file(hosts, settings))]
    return bookie


async def format_root(ensemble: Ensemble) -> None:
    login = SaslLogin("bk", PASSWORD)
    async with (
        connect(ensemble.secure, tls=ensemble.tls, sasl=login) as zk,
        open_store(zk, settings=StoreSettings(acl=SECURED_ACL), has_root=False) as store,
    ):
        assert await store.format(str(uuid.uuid4()))


@pytest.fixture(scope="module")
def bookie(ensemble: Ensemble, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BookieProcess]:
    directory = tmp_path_factory.mktemp("bookie")
    trio.run(format_root, ensemble)
    bookie = process(directory / "b1", ensemble.secure, ensemble.settings(login_file(directory / "jaas.conf")))
    with ended([bookie]):
        bookie.serve()
        yield bookie


def acl_of(hosts: str, path: str) -> set[Acl]:
    """As anybody reads it who logs in."""

    async def ask() -> set[Acl]:
        async with connect(hosts, sasl=SaslLogin("bk", PASSWORD)) as zk:
            return set((await zk.get_acl(path))[0])

    return trio.run(bounded(ask))


def bounded(ask: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T]]:
    async def asked() -> T:
        with trio.fail_after(PATIENCE_SECONDS):
            return await ask()

    return asked


def test_a_ledger_is_written_with_all_znodes_behind_tls_and_a_login(
    bookie: BookieProcess, ensemble: Ensemble, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")
    quorums = ("-E", "1", "-W", "1", "-A", "1")
    assert run(*ensemble.words, "ledger", "append", *quorums, "-f", tmp_path / "lines", "--json") == 0, run.err
    ledger = json.loads(run.out)["ledger"]
    assert run(*ensemble.words, "ledger", "read", ledger) == 0, run.err
    assert run.out == "one\ntwo\n"
    made_by_the_bookie = [f"/ledgers/{parent}/{bookie.bookie_id}" for parent in ("available", "cookies")]
    for path in ("/ledgers", *made_by_the_bookie, ledger_path("/ledgers", ledger)):
        assert acl_of(ensemble.plain, path) == SECURED, path


def test_others_read_the_znodes_and_change_none(bookie: BookieProcess, ensemble: Ensemble) -> None:
    async def ask() -> None:
        async with connect(ensemble.plain) as zk:
            assert bookie.bookie_id in await zk.get_children("/ledgers/available")
            with pytest.raises(NoAuthError):
                await zk.set(f"/ledgers/cookies/{bookie.bookie_id}", b"")
            with pytest.raises(NoAuthError):
                await zk.create("/ledgers/available/stranger", b"")

    trio.run(bounded(ask))


def test_a_client_that_is_nobody_creates_no_znodes_for_itself(bookie: BookieProcess, ensemble: Ensemble) -> None:
    """It is refused; no znode is open in place of that."""

    async def ask() -> None:
        async with connect(ensemble.plain) as zk:
            await zk.create("/open")
            settings = StoreSettings(root="/open/ledgers", acl=SECURED_ACL)
            async with open_store(zk, settings=settings, has_root=False) as store:
                with pytest.raises(MetadataUnavailableError, match="INVALIDACL"):
                    await store.format(str(uuid.uuid4()))
            assert await zk.get_children("/open") == []

    trio.run(bounded(ask))


def test_auto_recovery_alone_comes_in_as_a_bookie_does(
    bookie: BookieProcess, ensemble: Ensemble, tmp_path: Path
) -> None:
    lines = {
        "ledgerDirectories": tmp_path,
        "bookieId": "auditor",
        "metadataServiceUri": metadata_uri(ensemble.secure),
        **ensemble.settings(login_file(tmp_path / "jaas.conf")),
    }
    settings = read_settings("".join(f"{key}={value}\n" for key, value in lines.items()))
    found: list[set[Acl]] = []

    async def ask() -> None:
        async with connect(ensemble.plain) as zk, trio.open_nursery() as nursery:
            nursery.start_soon(serve, settings, Supervised(None))
            votes = "/ledgers/underreplication/auditorelection"
            while not (await zk.exists(votes) and (names := await zk.get_children(votes))):  # noqa: ASYNC110
                await trio.sleep(0.05)
            async with connect(ensemble.plain, sasl=SaslLogin("bk", PASSWORD)) as own:
                found.append(set((await own.get_acl(f"{votes}/{names[0]}"))[0]))
            nursery.cancel_scope.cancel()

    trio.run(bounded(ask))
    assert found == [SECURED]


def test_the_doctor_comes_in_as_the_bookie_does(bookie: BookieProcess, run: Run) -> None:
    run("--wait", "30", "doctor", bookie.file, "--syncs", "0")
    assert "this one is registered" in run.out, run.out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("password", "a session with the coordination service has ended"),
        ("authority", "no authority that this client trusts signed its certificate"),
        ("clear", "no server of the coordination service is found"),
    ],
)
def test_a_bookie_that_may_not_come_in_says_why_and_serves_nobody(
    ensemble: Ensemble, tmp_path: Path, change: str, said: str
) -> None:
    settings = ensemble.settings(login_file(tmp_path / "jaas.conf", "wrong" if change == "password" else PASSWORD))
    if change == "authority":
        stranger = Certificates(tmp_path / "others").client("stranger")
        settings["zookeeper.ssl.trustStore.location"] = f"{stranger}/truststore.pem"
    bookie = process(tmp_path / "b2", ensemble.secure, {} if change == "clear" else settings)
    with ended([bookie]):
        bookie.start()
        until(lambda: bookie.journal.exists() and said in bookie.log_text())
        assert bookie.running
        assert "registered" not in bookie.log_text()


def test_a_bookie_that_is_nobody_gets_no_cookie_among_those_of_others(
    bookie: BookieProcess, ensemble: Ensemble, tmp_path: Path
) -> None:
    stranger = process(tmp_path / "stranger", ensemble.plain, {})
    with ended([stranger]):
        stranger.start()
        stranger.wait_until(lambda: not stranger.running)
        assert f"refuses /ledgers/cookies/{stranger.bookie_id}: NOAUTH" in stranger.log_text()
