"""The TLS side of one connection, against a client in memory."""

from __future__ import annotations

import re
import ssl
from unittest.mock import Mock

import pytest

from tests.host.tls.holders import certificates, holder, member
from tests.host.tls.tls_client import FAR, Client, client, shake, side
from tests.rigs.certificates import server_context
from tests.rigs.key_updates import SUITE, Sealer, client_secret
from zab.host.tls.engine import DATA_PER_RECORD, RECORDS_MAX, TlsError, TlsSide
from zab.tls import subjects

__all__ = ["certificates", "client", "holder", "member", "side"]

MIB = 1 << 20


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("size", [1, 100, FAR])
def test_handshake_however_its_bytes_come(side, holder, version, size):
    client = Client(holder, holder=holder, version=version)
    assert side.peer_certificate is None
    shake(side, client, size)
    pem = (holder / "keystore.pem").read_text()
    begin = pem.index("-----BEGIN CERTIFICATE")
    first = pem[begin : pem.index("-----END CERTIFICATE", begin) + len("-----END CERTIFICATE-----\n")]
    assert side.peer_certificate == ssl.PEM_cert_to_DER_cert(first)
    assert side.feed(client.seal(b"hello"), FAR) == (b"hello", b"")
    assert client.open(side.seal(b"world")) == b"world"


def test_bytes_that_come_one_by_one(side, client):
    shake(side, client)
    sealed = client.seal(b"abc") + client.seal(b"def")
    assert b"".join(side.feed(sealed[at : at + 1], FAR)[0] for at in range(len(sealed))) == b"abcdef"
    assert not side.has_more


def test_a_mebibyte_both_ways(side, client):
    shake(side, client)
    data = bytes(range(256)) * (MIB // 256)
    assert side.feed(client.seal(data), FAR)[0] == data
    assert client.open(side.seal(data)) == data


def test_a_call_takes_no_more_than_its_limit_and_says_that_there_is_more(side, client):
    shake(side, client)
    first, _ = side.feed(client.seal(bytes(100_000)) + client.seal(b"end"), 30_000)
    assert len(first) == 30_000
    assert side.has_more
    pieces = [first]
    while side.has_more:
        piece, _ = side.feed(b"", 30_000)
        assert len(piece) <= 30_000
        pieces.append(piece)
    assert b"".join(pieces) == bytes(100_000) + b"end"


@pytest.fixture
def sealer(side, holder, tmp_path) -> Sealer:
    """A client that seals by itself what it says after its handshake."""
    client = Client(holder, holder=holder, key_log=tmp_path / "keys")
    shake(side, client)
    assert client.tls.cipher()[0] == SUITE
    return Sealer(client_secret(tmp_path / "keys"))


@pytest.mark.parametrize("wants_answer", [False, True])
def test_new_keys_without_data_end_the_connection(side, sealer, wants_answer, monkeypatch):
    """A KeyUpdate takes 27 bytes to send, and fifty times as long to read as they would: few of many are read."""
    some = b"".join(sealer.key_update(wants_answer=wants_answer) for _ in range(RECORDS_MAX))
    plain, out = side.feed(some + sealer.data(b"after"), FAR)
    assert plain == b"after"
    assert bool(out) == wants_answer
    more = b"".join(sealer.key_update(wants_answer=wants_answer) for _ in range(1000))
    reads = Mock(wraps=ssl.SSLObject.read)
    monkeypatch.setattr(ssl.SSLObject, "read", lambda *arguments: reads(*arguments))
    with pytest.raises(TlsError, match="without data"):
        side.feed(more, FAR)
    assert 1 <= reads.call_count <= RECORDS_MAX


def test_records_without_data_are_few_beside_those_with_some(side, sealer):
    def some_and_a_byte() -> bytes:
        return b"".join(sealer.key_update() for _ in range(10)) + sealer.data(b"x")

    for _ in range(RECORDS_MAX // 10):
        side.feed(some_and_a_byte(), FAR)
    with pytest.raises(TlsError, match="without data"):
        side.feed(some_and_a_byte(), FAR)


def test_new_keys_now_and_then_are_as_many_as_one_likes(side, sealer):
    for _ in range(3 * RECORDS_MAX):
        said = sealer.key_update() + b"".join(sealer.data(b"x") for _ in range(DATA_PER_RECORD))
        assert side.feed(said, FAR)[0] == b"x" * DATA_PER_RECORD


def test_what_stops_within_a_record_says_that_there_is_more(side, client):
    shake(side, client)
    assert side.feed(client.seal(b"0123456789"), 4)[0] == b"0123"
    assert side.has_more
    assert side.feed(b"", FAR)[0] == b"456789"
    assert not side.has_more


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_request_in_the_packet_that_ends_the_handshake(side, holder, version):
    client = Client(holder, holder=holder, version=version)
    answer = b""
    said = client.step()
    while not side.is_ready:
        _, answer = side.feed(said, FAR)
        said = client.step(answer)
        if version == ssl.TLSVersion.TLSv1_3 and said:
            said += client.seal(b"early")
    if version == ssl.TLSVersion.TLSv1_3:
        assert side.has_more
        assert side.feed(b"", FAR)[0] == b"early"
    assert not side.has_more


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak TLS"),
        (b"\0\0\0\x2d" + bytes(45), "does not speak TLS"),
        (b"ruok", "does not speak TLS"),
        (b"\x16\x03\x01\xff\xff" + bytes(200), "TLS failed|does not speak"),
        (bytes(range(255, 100, -1)), "does not speak TLS"),
    ],
)
def test_what_is_no_tls_ends_in_a_sentence_and_an_alert(side, data, reason):
    with pytest.raises(TlsError, match=reason) as caught:
        side.feed(data, FAR)
    # A record of type alert: a client without TLS knows by it which port that is.
    assert re.fullmatch(rb"\x15\x03.\x00\x02\x02.", caught.value.farewell, re.DOTALL)


def test_client_without_a_certificate_is_refused_and_told(side, holder):
    client = Client(holder)
    with pytest.raises(TlsError, match="it shows no certificate") as caught:
        shake(side, client)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        client.open(caught.value.farewell)


def test_client_that_another_authority_signed_is_refused(side, holder, member):
    client = Client(holder, holder=member)
    with pytest.raises(TlsError, match="its certificate is refused"):
        shake(side, client)


def test_client_that_does_not_believe_the_server_is_understood(side, member):
    client = Client(member)
    _, answer = side.feed(client.step(), FAR)
    with pytest.raises(ssl.SSLCertVerificationError):
        client.step(answer)
    with pytest.raises(TlsError, match="does not trust this server"):
        side.feed(client.outgoing.read(), FAR)


def test_client_that_says_goodbye(side, client):
    shake(side, client)
    sealed = client.seal(b"last")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    assert side.feed(sealed + client.outgoing.read(), FAR)[0] == b"last"
    assert side.is_closed
    assert not side.has_more
    assert side.finish()


def test_goodbye_reaches_the_client_after_everything(side, client):
    shake(side, client)
    said = side.seal(b"last") + side.finish()
    assert client.open(said) == b"last"
    assert client.tls.unwrap() is None


def test_end_before_and_within_the_handshake_says_nothing(member, client):
    assert TlsSide(server_context(member)).finish() == b""
    side = TlsSide(server_context(member))
    side.feed(client.step(), FAR)
    side.finish()
    assert not side.is_ready


def test_garbage_after_the_handshake_ends_it(side, client):
    shake(side, client)
    with pytest.raises(TlsError) as caught:
        side.feed(b"\x17\x03\x03\x00\x20" + bytes(32), FAR)
    with pytest.raises(ssl.SSLError):
        client.open(caught.value.farewell)


def test_bytes_that_somebody_changed_end_it(side, client):
    shake(side, client)
    sealed = bytearray(client.seal(b"set /a 1"))
    sealed[-1] ^= 1
    with pytest.raises(TlsError, match="bad record mac"):
        side.feed(bytes(sealed), FAR)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_client_is_whom_its_certificate_names_once_it_is_verified(side, holder, version):
    client = Client(holder, holder=holder, version=version)
    hello = client.step()
    assert side.subject == ""
    _, answer = side.feed(hello, FAR)
    assert side.subject == "", "it has not proven anything yet"
    side.feed(client.step(answer), FAR)
    if version is ssl.TLSVersion.TLSv1_2:
        client.step()
    assert (side.is_ready, side.subject) == (True, "CN=alice")


def test_who_shows_no_certificate_is_nobody(member, holder):
    side = TlsSide(server_context(member, wants_clients=False))
    shake(side, Client(holder, holder=holder))
    assert side.subject == ""


def test_certificate_whose_subject_cannot_be_said_lets_nobody_in(side, client, monkeypatch):
    monkeypatch.setattr(subjects, "SUBJECT_BYTES_MAX", 3)
    with pytest.raises(TlsError, match="a subject of more than 3 bytes"):
        shake(side, client)
    assert not side.is_ready
