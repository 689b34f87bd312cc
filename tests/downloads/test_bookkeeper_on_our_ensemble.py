"""The real BookKeeper, unmodified, with three members of ours as its ZooKeeper: formatting, registration, cookies, the
shell, ledgers, fencing, ensemble changes, auto-recovery, lost sessions, disks and servers."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from kazoo.client import KazooClient

from tests.downloads.bookies import JavaBookie, java_bookies
from tests.downloads.bookkeeper import BOOKKEEPER_VERSIONS
from tests.downloads.java_client import V2, JavaError, JavaProgram, java_client, payload, shown
from tests.rigs.bookie import ROOT
from tests.rigs.kazoo_client import kazoo_client
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble

pytestmark = [pytest.mark.downloads, pytest.mark.java, pytest.mark.process, pytest.mark.slow]

SIZES = (0, 1, 100, 4096, 1 << 20)
FENCED = -101
WRONG_PASSWORD = -102
LEDGERS = 2**31


@attrs.frozen
class Cluster:
    """Four bookies with auto-recovery, and the ensemble under them."""

    ensemble: ZooKeeperEnsemble
    java: JavaProgram
    bookies: list[JavaBookie]
    znodes: KazooClient

    def client(self, *settings: str) -> str:
        return self.java.client("addEntryTimeoutSec=5", *settings)

    def registered(self, bookie: JavaBookie) -> bool:
        return self.znodes.exists(f"{ROOT}/available/{bookie.bookie_id}") is not None

    def members(self, client: str, ledger: int) -> str:
        """The ensembles of a ledger, as Java prints them."""
        return self.java.ask("metadata", client, ledger)[3]

    def all_registered(self) -> bool:
        return all(map(self.registered, self.bookies))


@pytest.fixture(scope="module", params=BOOKKEEPER_VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    root: Path = tmp_path_factory.mktemp("bookkeeper")
    version = request.param
    with (
        zab_servers(3, directory=root / "members") as ensemble,
        java_client(root / "client", ensemble.hosts, version) as java,
        kazoo_client(ensemble.hosts) as znodes,
    ):
        assert java.shell("initnewcluster").code == 0
        with java_bookies(root, 4, ensemble.hosts, version=version, with_recovery=True) as bookies:
            yield Cluster(ensemble, java, bookies, znodes)


def test_a_cluster_is_formatted_once(cluster: Cluster) -> None:
    java = cluster.java
    assert java.shell("initnewcluster").code != 0
    assert java.shell("metaformat", "-n").code != 0
    instance = cluster.znodes.get(f"{ROOT}/INSTANCEID")[0].decode()
    assert instance in java.shell("whatisinstanceid").text
    layout = cluster.znodes.get(f"{ROOT}/LAYOUT")[0]
    assert layout == b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"


def test_the_shell_shows_bookies(cluster: Cluster) -> None:
    java, names = cluster.java, {bookie.bookie_id for bookie in cluster.bookies}
    for command in (("listbookies", "-rw"), ("listbookies", "-a"), ("bookieinfo",)):
        said = java.shell(*command)
        assert said.code == 0
        assert set(re.findall(r"BookieID:(\S+),", said.text)) == names
    assert java.shell("listbookies", "-ro").code == 0
    for bookie in cluster.bookies:
        said = java.shell("endpointinfo", "-b", bookie.bookie_id)
        assert (said.code, str(bookie.port) in said.text, "bookie-rpc" in said.text) == (0, True, True)
        said = java.shell("cookie_get", bookie.bookie_id)
        assert (said.code, bookie.bookie_id in said.text) == (0, True)
        assert java.shell("bookiesanity", file=bookie.file).code == 0
    until(lambda: '"auditorElected" : true' in java.shell("clusterinfo").text, "that there is an auditor")
    assert any(name in java.shell("whoisauditor").text for name in names)


@pytest.mark.parametrize("digest", ["CRC32", "MAC", "CRC32C", "DUMMY"])
@pytest.mark.parametrize("settings", [(), V2])
def test_ledgers_are_written_and_read(cluster: Cluster, digest: str, settings: tuple[str, ...]) -> None:
    java, client = cluster.java, cluster.client(*settings)
    for quorums, password in (((3, 3, 2), b""), ((3, 2, 2), b"passwd")):
        writer, ledger = java.create(client, quorums, digest, password)
        assert java.add(writer, 0, *SIZES) == [0, 1, 2, 3, 4]
        java.ask("close", writer)
        reader = java.open(client, ledger, digest, password)
        assert (reader.last, reader.length, reader.is_closed) == (4, sum(SIZES), True)
        assert java.read(reader.name, 0, 4) == [shown(n, payload(n, size)) for n, size in enumerate(SIZES)]
        with pytest.raises(JavaError, match="Unauthorized"):
            java.open(client, ledger, digest, b"other")
    java.ask("shut", client)


def test_the_shell_shows_and_restores_ledgers(cluster: Cluster, tmp_path: Path) -> None:
    java, client = cluster.java, cluster.client()
    writer, ledger = java.create(client, (3, 2, 2))
    java.add(writer, 0, 10, 20)
    java.ask("close", writer)
    assert re.search(rf"\b{ledger}\b", java.shell("listledgers").text)
    said = java.shell("ledgermetadata", "-ledgerid", ledger)
    assert "state=CLOSED, length=30, lastEntryId=1, digestType=CRC32C" in said.text
    said = java.shell("readledger", "-ledgerid", ledger, "-firstentryid", 0, "-lastentryid", 1)
    assert said.code == 0
    dump = tmp_path / "dump"
    assert java.shell("ledgermetadata", "-ledgerid", ledger, "-dumptofile", dump).code == 0
    java.ask("delete", client, ledger)
    assert java.shell("ledgermetadata", "-ledgerid", ledger, "-restorefromfile", dump).code == 0
    assert java.ask("metadata", client, ledger)[:3] == ["CLOSED", "1", "30"]
    assert java.shell("simpletest", "-e", 3, "-w", 2, "-a", 2, "-n", 20).code == 0
    assert java.shell("deleteledger", "-ledgerid", ledger, "-force").code == 0
    with pytest.raises(JavaError, match="NoSuchLedger"):
        java.open(client, ledger)


def test_a_reader_that_recovers_fences_the_writer(cluster: Cluster) -> None:
    java, client = cluster.java, cluster.client()
    writer, ledger = java.create(client, (3, 3, 2))
    java.add(writer, 0, 1, 2, 3)
    assert java.open(client, ledger, is_recovering=False).is_closed is False
    reader = java.open(client, ledger)
    assert (reader.last, reader.length, reader.is_closed) == (2, 6, True)
    with pytest.raises(JavaError) as caught:
        java.add(writer, 3, 4)
    assert caught.value.code == FENCED


def test_ids_of_more_than_31_bits(cluster: Cluster) -> None:
    java, client = cluster.java, cluster.client()
    cluster.znodes.create(f"{ROOT}/idgen-long")
    try:
        writer, ledger = java.create(client, (3, 2, 2))
        assert ledger >= LEDGERS
        java.add(writer, 0, 5)
        java.ask("close", writer)
        assert java.open(client, ledger).last == 0
        assert re.search(rf"\b{ledger}\b", java.shell("listledgers").text)
        java.ask("delete", client, ledger)
    finally:
        cluster.znodes.delete(f"{ROOT}/idgen-long", recursive=True)


def test_a_writer_goes_on_without_a_bookie_and_its_entries_are_replicated_again(cluster: Cluster) -> None:
    java, client = cluster.java, cluster.client()
    writer, ledger = java.create(client, (3, 3, 2))
    java.add(writer, 0, *range(20))
    lost = next(bookie for bookie in cluster.bookies if bookie.bookie_id in cluster.members(client, ledger))
    lost.kill()
    assert java.add(writer, 20, *range(20)) == list(range(20, 40))
    java.ask("close", writer)
    until(lambda: lost.bookie_id not in cluster.members(client, ledger), "that another bookie has its entries")
    reader = java.open(client, ledger)
    assert java.read(reader.name, 0, 39) == [shown(n, payload(n, n % 20)) for n in range(40)]
    until(lambda: re.search(r"count\D+0\b", java.shell("listunderreplicated").text), "that nothing is left to do")
    assert java.shell("decommissionbookie", "-bookieid", lost.bookie_id).code == 0
    assert cluster.znodes.exists(f"{ROOT}/cookies/{lost.bookie_id}") is None
    # Without its cookie, its files are those of another cluster.
    lost.start()
    assert lost.wait() != 0
    assert "InvalidCookie" in lost.log_text()
    for place in ("journal", "files"):
        shutil.rmtree(lost.directory / place)
    lost.serve()


def test_the_leader_of_the_ensemble_is_killed_and_no_bookie_notices(cluster: Cluster) -> None:
    java, client = cluster.java, cluster.client()
    writer, ledger = java.create(client, (3, 3, 2))
    until(cluster.all_registered, "that all bookies are registered")
    sessions = [cluster.znodes.exists(f"{ROOT}/available/{each.bookie_id}").ephemeralOwner for each in cluster.bookies]
    killed = cluster.ensemble.leader()
    killed.kill()
    assert java.add(writer, 0, 1, 2, 3) == [0, 1, 2]
    java.ask("close", writer)
    assert java.open(client, ledger).last == 2
    killed.start()
    cluster.ensemble.wait()
    found = [cluster.znodes.exists(f"{ROOT}/available/{each.bookie_id}").ephemeralOwner for each in cluster.bookies]
    assert found == sessions


def test_a_bookie_whose_session_expired_registers_again(cluster: Cluster) -> None:
    bookie = cluster.bookies[0]
    until(cluster.all_registered, "that all bookies are registered")
    assert bookie.process is not None
    bookie.process.send_signal(signal.SIGSTOP)
    until(lambda: not cluster.registered(bookie), "that its session has expired")
    bookie.process.send_signal(signal.SIGCONT)
    until(lambda: cluster.registered(bookie), "that it has registered again")
    client = cluster.client()
    writer, _ = cluster.java.create(client, (4, 4, 4))
    assert cluster.java.add(writer, 0, 1) == [0]
