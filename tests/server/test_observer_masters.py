"""Observers in processes, that follow through masters: they serve, forward, and go on elsewhere when one is killed."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from tests.rigs.certificates import Certificates, quorum_store_lines
from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_servers
from tests.rigs.zookeeper_server import ZooKeeperMember, four_letter_word
from zab.client.sync import connect
from zab.host.files.secret_file import make_secret_file
from zab.host.loop.dial import Address
from zab.member.membership.greeting import Purpose, party
from zab.member.settings.zoo_cfg import parse
from zab.server.address_book import AddressBook
from zab.server.binding import bind, observer_master_places
from zab.server.quorum_host import quorum_addresses
from zab.testing.kit.ports import free_ports
from zab.wire.frames import frame
from zab.wire.handshake import NONCE_BYTES, Dialling

VOTERS = 3
SIZE = 5
TLS_ALERT = b"\x15"
TEXT = """dataDir=/data
multiAddress.enabled=true
initLimit=10
syncLimit=5
server.1=127.0.0.1:2888:3888
server.2=127.0.0.2:2888:3888|127.0.0.3:2889:3889
server.3=127.0.0.4:2888:3888:observer
"""


def lines() -> dict[str, str | int]:
    """Each member is on an address of its own: all have the same port for observers."""
    ports = free_ports(2 * SIZE + 1)
    servers = {
        f"server.{sid}": f"127.0.0.{sid}:{ports[2 * sid - 2]}:{ports[2 * sid - 1]}"
        + (":participant" if sid <= VOTERS else ":observer")
        for sid in range(1, SIZE + 1)
    }
    return {**servers, "observerMasterPort": ports[-1], "snapCount": 100, "tickTime": 500}


def figure(member: ZooKeeperMember, name: str) -> int:
    """-1: it has none of this name."""
    for line in four_letter_word(member.client_port, "mntr").splitlines():
        words = line.split("\t")
        if words[0] == f"zk_{name}":
            return int(words[1])
    return -1


def hello(sid: int) -> bytes:
    """What an observer says first to this server."""
    return frame(Dialling(party(4, [], is_open=True), sid, Purpose.QUORUM, bytes(NONCE_BYTES)).hello())


def refusal_at(sid: int, port: int) -> bytes:
    """What somebody without a proof is told by this server, until it closes."""
    with socket.create_connection((f"127.0.0.{sid}", port)) as sock:
        sock.sendall(hello(sid))
        sock.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: sock.recv(4096), b""))


@pytest.mark.long
def test_observers_serve_behind_followers_and_go_on_when_one_is_killed(tmp_path: Path) -> None:
    """With a secret, so that the keys of sessions come to observers through their masters."""
    secret = tmp_path / "secret"
    make_secret_file(str(secret))
    configuration = {**lines(), "quorum.secretFile": str(secret)}
    with zab_servers(SIZE, directory=tmp_path, configuration=configuration) as ensemble:
        leader = ensemble.leader()
        observers = ensemble.members[VOTERS:]
        masters = {figure(each, "observer_master_id") for each in observers}
        assert masters <= {1, 2, 3} - {leader.server_id}
        followers = [each for each in ensemble.members[:VOTERS] if each is not leader]
        assert sum(figure(each, "synced_observers") for each in followers) == len(observers)
        assert figure(leader, "synced_observers") == 0

        observer = observers[0]
        with (
            connect(observer.host, session_timeout_ms=10_000) as client,
            connect(leader.host, session_timeout_ms=10_000) as elsewhere,
        ):
            # Nobody is let in at that port who has no secret.
            for sid in range(1, VOTERS + 1):
                assert b"secret" in refusal_at(sid, int(configuration["observerMasterPort"]))
            client.create("/a", b"0")
            elsewhere.set("/a", b"1")
            client.sync("/a")
            assert client.get("/a")[0] == b"1"
            session = client.session_id

            master = ensemble.members[figure(observer, "observer_master_id") - 1]
            master.kill()
            until(lambda: figure(observer, "observer_master_id") not in (-1, master.server_id), "another master")
            client.retrying().set("/a", b"2")
            assert client.session_id == session
            elsewhere.sync("/a")
            assert elsewhere.get("/a")[0] == b"2"


def answer_at(sid: int, port: int, store: Path) -> bytes:
    """What the owner of this key is answered by this server, in TLS."""
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(store / "keystore.pem")
    try:
        with socket.create_connection((f"127.0.0.{sid}", port)) as plain, context.wrap_socket(plain) as sock:
            sock.sendall(hello(sid))
            return sock.recv(4096)
    except (ssl.SSLError, ConnectionError):
        return b""


@pytest.mark.long
def test_over_tls_observers_follow_masters_whose_certificates_are_for_their_hosts(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    stores = [quorum_store_lines(certificates.member(f"127.0.0.{sid}")) for sid in range(1, SIZE + 1)]
    configuration = {**lines(), "sslQuorum": "true"}
    with zab_servers(SIZE, directory=tmp_path, configuration=configuration, each=stores) as ensemble:
        leader, observers = ensemble.leader(), ensemble.members[VOTERS:]
        masters = {figure(each, "observer_master_id") for each in observers}
        assert masters <= {1, 2, 3} - {leader.server_id}
        with connect(observers[0].host) as client:
            client.create("/a", b"through a master")
        somebody = certificates.client("somebody")
        for sid in masters:
            port = int(configuration["observerMasterPort"])
            assert answer_at(sid, port, certificates.directory / "127.0.0.4")
            assert not answer_at(sid, port, somebody)
            assert refusal_at(sid, port)[:1] == TLS_ALERT
        with connect(leader.host) as client:
            client.sync("/")
            assert client.get("/a")[0] == b"through a master"


@pytest.mark.long
def test_an_observer_without_data_fetches_a_snapshot_of_its_master(tmp_path: Path) -> None:
    little = {"maxBatchBytes": 4096, "maxRecentBytes": 8192}
    with zab_servers(SIZE, directory=tmp_path, configuration={**lines(), **little}) as ensemble:
        leader, observer = ensemble.leader(), ensemble.members[-1]
        observer.kill()
        with connect(leader.host, session_timeout_ms=10_000) as client:
            for number in range(700):
                client.create("/n", b"%d" % number, sequence=True)
            end = len(client.get_children("/"))
        for path in sorted((observer.data_directory / "version-1").rglob("*"), reverse=True):
            path.unlink()
        observer.start()
        ensemble.wait()
        assert figure(observer, "observer_master_id") not in (-1, leader.server_id)
        fetched = [line for line in observer.log_text().splitlines() if "snapshot is fetched" in line]
        assert f"sid={figure(observer, 'observer_master_id')}" in fetched[-1]
        with connect(observer.host, session_timeout_ms=10_000) as client:
            client.sync("/")
            assert len(client.get_children("/")) == end


async def test_voters_listen_for_observers_at_each_of_their_hosts_and_observers_do_not() -> None:
    [port] = free_ports(1)
    text = f"{TEXT}observerMasterPort={port}\n"
    second, observer = parse(text, "zoo.cfg", my_id=2), parse(text, "zoo.cfg", my_id=3)
    addresses = await quorum_addresses(second)
    assert observer_master_places(second, addresses) == [("127.0.0.2", port), ("127.0.0.3", port)]
    assert observer_master_places(observer, await quorum_addresses(observer)) == []
    without = parse(TEXT, "zoo.cfg", my_id=2)
    assert observer_master_places(without, addresses) == []
    sockets = await bind(second, [])
    assert sockets.observer_master == {}
    sockets.close()


def test_observers_dial_that_port_of_each_host() -> None:
    book = AddressBook(parse(f"{TEXT}observerMasterPort=2191\n", "zoo.cfg", my_id=3))
    assert book.observer_masters[1] == Address("127.0.0.1", 2191)  # type: ignore[index]
    assert book.observer_masters[2] == Address("127.0.0.2", 2191, (Address("127.0.0.3", 2191),))  # type: ignore[index]
    assert AddressBook(parse(TEXT, "zoo.cfg", my_id=3)).observer_masters == {}
