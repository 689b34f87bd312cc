"""What a member shows to others in TLS, whom it believes, and for which servers a certificate is good."""

from __future__ import annotations

import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.rigs.certificates import Certificates
from tests.rigs.java_key_stores import with_java_stores
from tests.server.quorum_tls import HOSTS, make_certificates, store_lines
from zab.host.loop.greeting import Greeting
from zab.host.tls.engine import TlsError, TlsSide
from zab.host.tls.mutual_tls import MutualTls
from zab.member.membership.greeting import PURPOSES, party
from zab.member.settings.zoo_cfg import parse
from zab.server.address_book import AddressBook
from zab.server.tls_settings import tls_of_members
from zab.tls.certificate_names import is_for_host
from zab.tls.stores import StoreError


def der(directory: Path) -> bytes:
    text = (directory / "keystore.pem").read_text()
    end = "-----END CERTIFICATE-----\n"
    begin = text.index("-----BEGIN CERTIFICATE-----")
    return ssl.PEM_cert_to_DER_cert(text[begin : text.index(end, begin) + len(end)])


@pytest.mark.parametrize(
    ("names", "host", "is_good"),
    [
        (["zab1.example.org", "10.0.0.1"], "zab1.example.org", True),
        (["zab1.example.org", "10.0.0.1"], "ZAB1.Example.ORG.", True),
        (["zab1.example.org", "10.0.0.1"], "10.0.0.1", True),
        (["zab1.example.org", "10.0.0.1"], "zab2.example.org", False),
        (["zab1.example.org", "10.0.0.1"], "10.0.0.2", False),
        (["zab1.example.org", "10.0.0.1"], "example.org", False),
        (["zab1.example.org", "10.0.0.1"], "", False),
        (["::1"], "0:0:0:0:0:0:0:1", True),
        (["example.org"], "zab1.example.org", False),
    ],
)
def test_certificate_is_for_its_names_and_no_other(tmp_path: Path, names: list[str], host: str, is_good: bool) -> None:
    assert is_for_host(der(Certificates(tmp_path).member(*names)), host) == is_good


def test_certificate_of_a_client_is_for_no_host(tmp_path: Path) -> None:
    """Its common name is none, whatever it looks like."""
    assert not is_for_host(der(Certificates(tmp_path).client("zab1")), "zab1")
    assert not is_for_host(b"no certificate", "zab1")


def config_lines(directory: Path, *lines: str, kind: str = "pem") -> str:
    servers = [f"server.{number}={host}:2888:3888" for number, host in enumerate(HOSTS, 1)]
    return "\n".join(["dataDir=/d", "initLimit=5", "syncLimit=5", *servers, *store_lines(directory, kind), *lines])


def quorum_tls(directory: Path, *lines: str, sid: int = 1, kind: str = "pem") -> MutualTls:
    config = parse(config_lines(directory, "sslQuorum=true", *lines, kind=kind), "zoo.cfg", my_id=sid)
    return tls_of_members(config, AddressBook(config).certified)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path / "certificates")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_members_shake_hands_and_each_knows_for_whom_the_other_speaks(
    certificates: Certificates, version: str
) -> None:
    one, two = (
        quorum_tls(certificates.directory / host, f"ssl.quorum.enabledProtocols={version}", sid=sid)
        for sid, host in enumerate(HOSTS[:2], 1)
    )
    listener = trio.SocketListener(await _listening())
    address = listener.socket.getsockname()
    stream = await trio.open_tcp_stream(*address)
    async with await listener.accept() as accepted_stream, listener:
        ends = []

        async def accept() -> None:
            ends.append(await one.accepted(accepted_stream))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            dialled = await two.dialled(stream, HOSTS[0])
        [accepted] = ends
        async with dialled:
            certificate = accepted.side.peer_certificate
            assert certificate is not None
            assert set(one.servers_of(certificate)) == {2}
            # Both ways at once, larger than any buffer.
            data = bytes(range(256)) * 8192
            async with trio.open_nursery() as nursery:
                nursery.start_soon(dialled.send_all, data)
                nursery.start_soon(accepted.send_all, data)
                for end in (dialled, accepted):
                    nursery.start_soon(_expect, end, data)
            await dialled.send_eof()
            assert await accepted.receive_some() == b""


async def _listening() -> trio.socket.SocketType:
    sock = trio.socket.socket()
    await sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock


async def _expect(stream: trio.abc.ReceiveStream, data: bytes) -> None:
    received = b""
    while len(received) < len(data):
        piece = bytes(await stream.receive_some(30_000))
        assert 0 < len(piece) <= 30_000
        received += piece
    assert received == data


async def test_who_is_dialled_has_to_be_who_was_meant(certificates: Certificates) -> None:
    one, two = quorum_tls(certificates.directory / HOSTS[0]), quorum_tls(certificates.directory / HOSTS[1], sid=2)
    listener = trio.SocketListener(await _listening())
    stream = await trio.open_tcp_stream(*listener.socket.getsockname())
    async with await listener.accept() as accepted_stream, listener, trio.open_nursery() as nursery:

        async def accept() -> None:
            with contextlib.suppress(OSError):
                await one.accepted(accepted_stream)

        nursery.start_soon(accept)
        with pytest.raises(TlsError, match=r"not for the host 127\.0\.0\.3"):
            await two.dialled(stream, HOSTS[2])
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"nothing goes out after that")


@pytest.mark.parametrize("what", ["expired", "other host", "client", "another authority", "no file"])
def test_store_that_the_others_would_refuse_is_of_no_use(certificates: Certificates, tmp_path: Path, what: str) -> None:
    own = certificates.directory / HOSTS[0]
    other = {
        "expired": lambda: certificates.member(HOSTS[0], begins_in=-20, name="expired"),
        "other host": lambda: certificates.directory / HOSTS[1],
        "client": lambda: certificates.client("alice"),
        "another authority": lambda: Certificates(tmp_path / "another").member(HOSTS[0]),
        "no file": lambda: tmp_path / "nowhere",
    }[what]()
    text = config_lines(own, "sslQuorum=true", f"ssl.quorum.keyStore.location={other}/keystore.pem")
    config = parse(text, "zoo.cfg", my_id=1)
    with pytest.raises(StoreError, match=r"^ssl\.quorum\.keyStore\.location: "):
        tls_of_members(config, AddressBook(config).certified)


def test_stores_of_pkcs12_are_read_too(certificates: Certificates) -> None:
    own = certificates.directory / HOSTS[0]
    lines = [
        f"ssl.quorum.keyStore.location={own}/keystore.p12",
        f"ssl.quorum.keyStore.passwordPath={own}/password",
        f"ssl.quorum.trustStore.location={own}/quorum.truststore.p12",
        f"ssl.quorum.trustStore.passwordPath={own}/password",
    ]
    assert set(quorum_tls(own, *lines).servers_of(der(own))) == {1}


def test_no_other_group_than_the_one_that_is_short_is_offered_or_taken(certificates: Certificates) -> None:
    tls = quorum_tls(certificates.directory / HOSTS[0])
    said = TlsSide(tls.watched.content.dialling, has_dialled=True).feed(b"", 0)[1]
    groups = said.index(b"\x00\x0a\x00\x04\x00\x02")
    assert said[groups + 6 : groups + 8] == b"\x00\x17", "secp256r1, and nothing else"


def test_suites_are_those_that_are_named_on_both_ends(certificates: Certificates) -> None:
    named = "ssl.quorum.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ssl.quorum.enabledProtocols=TLSv1.2"
    contexts = quorum_tls(certificates.directory / HOSTS[0], *named).watched.content
    for context in (contexts.accepting, contexts.dialling):
        suites = [each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.2"]
        assert suites == ["ECDHE-ECDSA-AES128-GCM-SHA256"]
        assert context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_stores_that_have_changed_are_for_handshakes_from_then_on(certificates: Certificates) -> None:
    own = certificates.directory / HOSTS[0]
    tls = quorum_tls(own)
    before = tls.policy.context
    assert not tls.watched.read_again()
    renewed = certificates.member(HOSTS[0], name="renewed")
    (renewed / "keystore.pem").replace(own / "keystore.pem")
    assert tls.watched.read_again()
    assert tls.policy.context is before, "the loop takes it, when it is told"
    tls.take_new()
    assert tls.policy.context is not before
    kept = tls.watched.content
    (own / "keystore.pem").write_text("no key")
    with pytest.raises(StoreError, match="it contains no key with its certificate"):
        tls.watched.read_again()
    assert tls.watched.content is kept


@pytest.mark.parametrize("kind", ["p12", "jks"])
def test_members_with_stores_of_java_shake_hands_with_those_with_pem(certificates: Certificates, kind: str) -> None:
    own, other = (with_java_stores(certificates.directory / host) for host in HOSTS[:2])
    tls, of_other = quorum_tls(own, kind=kind), quorum_tls(other, sid=2)
    for one, two in ((tls, of_other), (of_other, tls)):
        meet(one.watched.content.accepting, two.watched.content.dialling)
    assert tls.trusted_name == of_other.trusted_name
    kept = tls.watched.content
    (own / f"keystore.{kind}").write_bytes((own / f"keystore.{kind}").read_bytes()[:-1])
    with pytest.raises(StoreError, match=rf"^ssl\.quorum\.keyStore\.location: .*keystore\.{kind}: "):
        tls.watched.read_again()
    assert tls.watched.content is kept
    renewed = with_java_stores(certificates.member(HOSTS[0], name="renewed"))
    (renewed / f"keystore.{kind}").replace(own / f"keystore.{kind}")
    (renewed / "password").replace(own / "password")
    with pytest.raises(StoreError, match=r"^ssl\.quorum\.trustStore\.location: "):
        tls.watched.read_again()
    (renewed / f"quorum.truststore.{kind}").replace(own / f"quorum.truststore.{kind}")
    assert tls.watched.read_again()
    meet(tls.watched.content.accepting, of_other.watched.content.dialling)


def test_trust_store_is_looked_at_too(certificates: Certificates) -> None:
    own = certificates.directory / HOSTS[0]
    tls = quorum_tls(own)
    store = own / "quorum.truststore.pem"
    store.write_text(store.read_text() * 2)
    assert tls.watched.read_again()


def meet(accepting: ssl.SSLContext, dialling: ssl.SSLContext) -> None:
    """Both ends of a handshake, in memory. Raises what either of them raises."""
    accepted, dialled = TlsSide(accepting), TlsSide(dialling, has_dialled=True)
    _, said = dialled.feed(b"", 0)
    while not (accepted.is_ready and dialled.is_ready):
        _, answer = accepted.feed(said, 0)
        _, said = dialled.feed(answer, 0)


@pytest.mark.parametrize("side", ["accepting", "dialling"])
def test_member_that_is_revoked_is_refused_by_both_ends(certificates: Certificates, side: str) -> None:
    own, other = (certificates.directory / host for host in HOSTS[:2])
    certificates.revoke(own / "quorum.truststore.pem", other)
    looking = quorum_tls(own, "ssl.quorum.crl=true").watched.content
    others = quorum_tls(other, sid=2).watched.content
    met = (looking.accepting, others.dialling) if side == "accepting" else (others.accepting, looking.dialling)
    with pytest.raises(TlsError, match="its certificate is refused: certificate revoked"):
        meet(*met)


def test_member_that_is_revoked_itself_does_not_start(certificates: Certificates) -> None:
    own = certificates.directory / HOSTS[0]
    certificates.revoke(own / "quorum.truststore.pem", own)
    with pytest.raises(StoreError, match=r"the other members would refuse it, .*: certificate revoked"):
        quorum_tls(own, "ssl.quorum.crl=true")


def test_other_authorities_and_lists_have_another_name(certificates: Certificates, tmp_path: Path) -> None:
    """Anyone who was told the key of sessions under the one before is told no further one."""
    one, two, three = (certificates.directory / host for host in HOSTS)
    name = quorum_tls(one).trusted_name
    assert len(name) == 8
    assert quorum_tls(two, sid=2).trusted_name == name
    store = one / "quorum.truststore.pem"
    before = store.read_bytes()
    other = (make_certificates(tmp_path / "other").directory / HOSTS[0] / "quorum.truststore.pem").read_bytes()
    tls = quorum_tls(one)
    store.write_bytes(before + other)
    assert tls.watched.read_again()
    both = tls.trusted_name
    assert both != name
    store.write_bytes(other + before + before)
    assert quorum_tls(one).trusted_name == both
    store.write_bytes(before)
    assert quorum_tls(one).trusted_name == name
    certificates.revoke(store)
    none_revoked = quorum_tls(one, "ssl.quorum.crl=true").trusted_name
    assert none_revoked != name
    assert quorum_tls(one).trusted_name == name
    store.write_bytes(before)
    certificates.revoke(store, three)
    assert quorum_tls(one, "ssl.quorum.crl=true").trusted_name not in (name, none_revoked)


@pytest.mark.parametrize(("lines", "is_local_only"), [([], False), (["portUnification=true"], True)])
def test_it_dials_its_own_machine_only_while_anything_is_taken_without_proof(
    certificates: Certificates, lines: list[str], is_local_only: bool
) -> None:
    tls = quorum_tls(certificates.directory / HOSTS[0], *lines)
    me = party(1, [], is_open=True)
    greeting = Greeting(PURPOSES, lambda: [2, 3], lambda: me, lambda *_: None, tls=tls)
    assert greeting.is_local_only == is_local_only


@pytest.mark.parametrize(
    ("host", "is_good"),
    [
        ("zab1.example.org", True),
        ("example.org", False),
        ("a.zab1.example.org", False),
        ("zab1.example.com", False),
        ("10.0.0.1", False),
    ],
)
def test_star_is_one_label(host: str, is_good: bool) -> None:
    assert is_for_host(certificate_for("*.example.org"), host) == is_good


@pytest.mark.parametrize("star", ["*", "*.org", "z*.example.org", "*.*.org"])
def test_star_in_another_place_is_none(star: str) -> None:
    assert not is_for_host(certificate_for(star), "zab1.example.org")
    assert not is_for_host(certificate_for(star), "org")


def certificate_for(name: str) -> bytes:
    """Names that `zab certs` does not make."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "zab1.example.org")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


async def test_handshake_of_who_reads_nothing_holds_up_no_other(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this side has to say fits into no buffer that is full."""
    one, two = (quorum_tls(certificates.directory / host, sid=sid) for sid, host in enumerate(HOSTS[:2], 1))
    send_all = trio.SocketStream.send_all
    stuck: list[trio.SocketStream] = []

    async def blocked(stream: trio.SocketStream, data: bytes) -> None:
        if stream in stuck:
            await trio.sleep_forever()
        await send_all(stream, data)

    monkeypatch.setattr(trio.SocketStream, "send_all", blocked)
    listener = trio.SocketListener(await _listening())
    address = listener.socket.getsockname()
    async with contextlib.AsyncExitStack() as stack, trio.open_nursery() as nursery:
        await stack.enter_async_context(listener)
        mute = await stack.enter_async_context(await trio.open_tcp_stream(*address))
        await mute.send_all(TlsSide(two.watched.content.dialling, has_dialled=True).feed(b"", 0)[1])
        stuck.append(await stack.enter_async_context(await listener.accept()))
        nursery.start_soon(one.accepted, stuck[0])
        await trio.testing.wait_all_tasks_blocked()
        stream = await trio.open_tcp_stream(*address)
        nursery.start_soon(one.accepted, await stack.enter_async_context(await listener.accept()))
        with trio.fail_after(10):
            async with await two.dialled(stream, HOSTS[0]):
                pass
        nursery.cancel_scope.cancel()


async def test_handshakes_at_the_election_port_take_turns(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else is ready to run has its turn between two steps."""
    tls = quorum_tls(certificates.directory / HOSTS[0])
    beginning = TlsSide(tls.watched.content.dialling, has_dialled=True).feed(b"", 0)[1]
    steps: list[int] = []
    others = 0
    feed = TlsSide.feed

    def counted(side: TlsSide, data: bytes, limit: int) -> tuple[bytes, bytes]:
        steps.append(others)
        return feed(side, data, limit)

    monkeypatch.setattr(TlsSide, "feed", counted)
    listener = trio.SocketListener(await _listening())
    async with contextlib.AsyncExitStack() as stack, trio.open_nursery() as nursery:
        await stack.enter_async_context(listener)
        waiting = []
        for _ in range(20):
            stream = await stack.enter_async_context(await trio.open_tcp_stream(*listener.socket.getsockname()))
            await stream.send_all(beginning)
            waiting.append(await stack.enter_async_context(await listener.accept()))
        for accepted in waiting:
            nursery.start_soon(tls.accepted, accepted)
        while len(steps) < 20:
            others += 1
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    assert max(map(steps.count, steps)) == 1, steps
