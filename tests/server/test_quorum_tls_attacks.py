"""Strangers at the ports of members that speak TLS, with every certificate but the right one: nobody notices them."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.hostile.raw import is_closed_by_the_other, say, word
from tests.rigs.certificates import Certificates
from tests.rigs.zookeeper_server import ZooKeeperEnsemble, ZooKeeperMember
from tests.server.quorum_tls import HOSTS, give, make_certificates, members_on_hosts, start
from tests.server.writer import Writer
from zab.host.loop.links import STRANGERS_MAX
from zab.member.membership.greeting import Purpose, party
from zab.wire.frames import frame
from zab.wire.handshake import NONCE_BYTES, Dialling
from zab.wire.records import MessageError

pytestmark = pytest.mark.process


@attrs.frozen
class Port:
    """Where a member takes others, and what for."""

    member: ZooKeeperMember
    host: str
    number: int
    purpose: Purpose

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.number), timeout=60)


@attrs.frozen
class Running:
    ensemble: ZooKeeperEnsemble
    certificates: Certificates

    @property
    def ports(self) -> list[Port]:
        """The ports of the first member: for links, and for votes."""
        member = self.ensemble.members[0]
        [line] = [each for each in member.config.read_text().splitlines() if each.startswith("server.1=")]
        host, quorum, election = line.partition("=")[2].split(":")
        return [Port(member, host, int(quorum), Purpose.QUORUM), Port(member, host, int(election), Purpose.ELECTION)]

    def roles(self) -> list[tuple[str, int]]:
        """The state of each member, with its epoch."""
        said = [
            dict(line.partition(": ")[::2] for line in word(member.client_port, "srvr").splitlines())
            for member in self.ensemble.members
        ]
        return [(each["Mode"], int(each["Zxid"], 16) >> 32) for each in said]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("running")
    certificates = make_certificates(directory / "certificates")
    with members_on_hosts(directory) as ensemble:
        give(ensemble, directory / "certificates", "sslQuorum=true", "audit.enable=true")
        start(ensemble)
        yield Running(ensemble, certificates)


def refused(member: ZooKeeperMember) -> int:
    said = word(member.client_port, "mntr")
    return next(int(line.split("\t")[1]) for line in said.splitlines() if line.startswith("zk_members_refused"))


def audited(member: ZooKeeperMember) -> str:
    """What the audit log has; the journal says of many alike one."""
    return (member.directory / "audit.log").read_text()


@contextlib.contextmanager
def nobody_notices(running: Running) -> Iterator[None]:
    """No member changes its role, and a client that writes all the time has one connection."""
    with Writer(running.ensemble.hosts) as writer:
        writer.wait_for_more(1)
        roles = running.roles()
        yield
        writer.wait_for_more(5)
        writer.check()
        assert writer.states == ["CONNECTED"]
    assert running.roles() == roles


def context_of(store: Path | None) -> ssl.SSLContext:
    """The context of an attacker that trusts every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if store is not None:
        context.load_cert_chain(store / "keystore.pem")
    return context


def is_answered(port: Port, store: Path | None, sid: int) -> bool:
    """Whether a process with this certificate that claims to be this server gets a Welcome."""
    shake = Dialling(party(sid, [], is_open=True), 1, port.purpose, os.urandom(NONCE_BYTES), is_certified=True)
    with port.connect() as sock:
        try:
            with context_of(store).wrap_socket(sock) as secured:
                secured.sendall(frame(shake.hello()))
                head = secured.recv(4)
                payload = secured.recv(int.from_bytes(head, "big"))
        except OSError:
            return False
    if not payload:
        return False
    try:
        shake.welcomed(payload)
    except MessageError:
        return False
    return True


@pytest.mark.parametrize("which", [0, 1], ids=["quorum", "election"])
def test_only_the_certificate_of_a_member_speaks_for_it(running: Running, which: int, tmp_path: Path) -> None:
    port = running.ports[which]
    certificates = running.certificates
    another = Certificates(tmp_path / "another")
    held = {
        "none": (None, "it shows no certificate"),
        "of another authority": (another.member(HOSTS[1]), "its certificate is refused"),
        "of a client": (certificates.client(f"client{which}"), "its certificate is refused"),
        "expired": (certificates.member(HOSTS[1], begins_in=-20, name=f"expired{which}"), "has expired"),
        "of another member": (certificates.directory / HOSTS[2], "the certificate is not for the host of server 2"),
        "of no member": (certificates.member("other.example", name=f"other{which}"), "not for the host of server 2"),
    }
    with nobody_notices(running):
        for what, (store, reason) in held.items():
            before, said = refused(port.member), audited(port.member).count(reason)

            def is_audited(what: str = what, store: Path | None = store, text: str = reason, count: int = said) -> bool:
                # Of so many in a second some are left out there.
                assert not is_answered(port, store, 2), what
                return audited(port.member).count(text) > count

            port.member.wait_until(is_audited)
            port.member.wait_until(lambda count=before: refused(port.member) > count)
        # And the same stranger with the right one is believed, so that nothing else has kept it out.
        if port.purpose is Purpose.ELECTION:
            assert is_answered(port, certificates.directory / HOSTS[1], 2)


@pytest.mark.parametrize("which", [0, 1], ids=["quorum", "election"])
def test_who_speaks_no_tls_is_closed_unheard(running: Running, which: int) -> None:
    port = running.ports[which]
    with nobody_notices(running):
        before = refused(port.member)
        hello = Dialling(party(2, [], is_open=True), 1, port.purpose, os.urandom(NONCE_BYTES)).hello()
        with port.connect() as sock:
            say(sock, frame(hello))
            assert is_closed_by_the_other(sock)
        port.member.wait_until(lambda: refused(port.member) > before)


@pytest.mark.parametrize("which", [0, 1], ids=["quorum", "election"])
def test_handshakes_without_end_and_a_flood_of_them_disturb_nobody(running: Running, which: int) -> None:
    port = running.ports[which]
    beginning = hello_of_tls()
    with nobody_notices(running), contextlib.ExitStack() as stack:
        for _ in range(2 * STRANGERS_MAX):
            sock = stack.enter_context(port.connect())
            say(sock, beginning[:50])
        for _ in range(4 * STRANGERS_MAX):
            # Each costs the member a signature, and is left alone with the answer.
            sock = stack.enter_context(port.connect())
            say(sock, beginning)
        port.member.wait_until(lambda: refused(port.member) >= 5 * STRANGERS_MAX)


def hello_of_tls() -> bytes:
    """The first message of somebody who dials."""
    context = context_of(None)
    context.set_ecdh_curve("prime256v1")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()
