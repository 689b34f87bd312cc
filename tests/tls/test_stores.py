"""Stores as servers and clients have them in common: PEM and PKCS#12 say the same, and sizes are bounded."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.rigs.certificates import Certificates
from zab.client import Tls
from zab.client.tls_context import context_of
from zab.tls.stores import STORE_BYTES_MAX, Store, StoreError, StoreKeys, read_password

KEYS = StoreKeys.beginning("ssl.keyStore")


@pytest.fixture
def alice(tmp_path: Path) -> Path:
    return Certificates(tmp_path).client("alice")


def trusted(store: Store) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    store.load_trusted(context)
    return context.get_ca_certs(binary_form=True)


def test_both_kinds_hold_the_same_authorities(alice: Path) -> None:
    password = read_password(str(alice / "password"), "the password file")
    pem = trusted(Store(KEYS, str(alice / "truststore.pem"), None, ""))
    assert trusted(Store(KEYS, str(alice / "truststore.p12"), None, password)) == pem
    assert len(pem) == 1


def test_a_client_reads_what_a_java_client_has(alice: Path) -> None:
    made = context_of(
        Tls(
            trust_store=str(alice / "truststore.p12"),
            key_store=str(alice / "keystore.p12"),
            password_file=str(alice / "password"),
        )
    )
    assert len(made.get_ca_certs()) == 1
    with pytest.raises(StoreError, match=r"^the key store: .*keystore\.p12: it needs a password"):
        context_of(Tls(key_store=str(alice / "keystore.p12")))


def test_store_without_a_temporary_file_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL takes keys and lists from files only."""
    certificates = Certificates(tmp_path)
    member, alice = certificates.member("localhost"), certificates.client("alice")
    certificates.revoke(member / "truststore.pem", alice)
    password = read_password(str(alice / "password"), "the password file")
    key, listed = (
        Store(KEYS, str(alice / "keystore.p12"), None, password),
        Store(KEYS, str(member / "truststore.pem"), None, ""),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(StoreError, match=r"keystore\.p12: it cannot be passed to OpenSSL in a file: No such file"):
        key.load_key(context)
    with pytest.raises(StoreError, match=r"truststore\.pem: it cannot be passed to OpenSSL in a file: No such file"):
        listed.load_trusted(context, with_lists=True)


@pytest.mark.parametrize(
    ("said", "odd"),
    [
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"),
        (b"\x0c\x05alice", b"\x0c\x05\xff\xfeice"),
    ],
    ids=["version 8", "no text"],
)
def test_store_with_an_odd_certificate_is_no_store(alice: Path, tmp_path: Path, said: bytes, odd: bytes) -> None:
    """One of the two libraries that read it rejects it."""
    pem = (alice / "keystore.pem").read_text()
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index(begin) : pem.index(end) + len(end)])
    assert said in der
    made = tmp_path / "odd.pem"
    made.write_text(pem[: pem.index(begin)] + ssl.DER_cert_to_PEM_cert(der.replace(said, odd)))
    store = Store(KEYS, str(made), None, "")
    with pytest.raises(StoreError, match=r"odd\.pem: "):
        store.load_trusted(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@pytest.mark.parametrize("name", ["store.pem", "store.p12"])
def test_store_that_is_too_large_is_not_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\n" * (STORE_BYTES_MAX + 1))
    store = Store(KEYS, str(path), None, "")
    for load in (store.load_key, store.load_trusted):
        with pytest.raises(
            StoreError, match=rf"^ssl\.keyStore\.location: .*: it has more than {STORE_BYTES_MAX} bytes$"
        ):
            load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


@pytest.mark.parametrize(("text", "password"), [("a b\n", "a b"), ("a\r\nb\n", "a"), ("a", "a"), ("\n", ""), ("", "")])
def test_password_is_the_first_line_of_its_file(tmp_path: Path, text: str, password: str) -> None:
    path = tmp_path / "password"
    path.write_text(text, newline="")
    assert read_password(str(path), "k") == password
