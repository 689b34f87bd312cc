"""The stores of a client: what is in them, and what is said of those that cannot be used."""

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from tests.rigs.certificates import Certificates
from zab.client import Tls
from zab.client.tls_context import OpenKeyWarning, context_of
from zab.tls.stores import StoreError


@pytest.fixture
def alice(tmp_path: Path) -> Path:
    return Certificates(tmp_path).client("alice")


def encrypted(store: Path, password: bytes) -> Path:
    data = store.read_bytes()
    key = load_pem_private_key(data, None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    made = store.with_name("encrypted.pem")
    made.write_bytes(pem + data[data.index(b"-----BEGIN CERT") :])
    return made


def test_servers_prove_their_names_unless_told_otherwise(alice: Path) -> None:
    strict = context_of(Tls(trust_store=str(alice / "truststore.pem"), key_store=str(alice / "keystore.pem")))
    assert (strict.verify_mode, strict.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert strict.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(strict.get_ca_certs()) == 1
    loose = context_of(Tls(trust_store=str(alice / "truststore.pem"), check_host=False))
    assert (loose.verify_mode, loose.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_an_encrypted_key_is_opened_by_the_file_of_its_password(alice: Path) -> None:
    store = encrypted(alice / "keystore.pem", b"opensesame")
    file = alice / "opens"
    file.write_text("opensesame\nanything\n")
    file.chmod(0o600)
    context_of(Tls(key_store=str(store), password_file=str(file)))
    with pytest.raises(StoreError, match=r"the key store: .*: its key is encrypted: see the password file"):
        context_of(Tls(key_store=str(store)))
    file.write_text("another\n")
    with pytest.raises(StoreError, match="the password does not open its key") as caught:
        context_of(Tls(key_store=str(store), password_file=str(file)))
    assert "another" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot be read: No such file"):
        context_of(Tls(key_store=str(store), password_file=str(alice / "absent")))
    for content, said in ((b"x" * 1024, "more than 1023 bytes"), (b"\xff\n", "it is not UTF-8")):
        file.write_bytes(content)
        with pytest.raises(StoreError, match=said):
            context_of(Tls(key_store=str(store), password_file=str(file)))


@pytest.mark.parametrize("mode", [0o640, 0o604], ids=oct)
def test_a_key_that_others_may_use_is_warned_of(alice: Path, mode: int) -> None:
    store = alice / "keystore.pem"
    store.chmod(mode)
    said = rf"^the key store: {store}: users other than its owner can use it: run `chmod 600 {store}`$"
    with pytest.warns(OpenKeyWarning, match=said):
        context_of(Tls(key_store=str(store)))


def test_of_an_encrypted_key_the_file_of_its_password_is_the_secret(alice: Path) -> None:
    store, file = encrypted(alice / "keystore.pem", b"opensesame"), alice / "opens"
    store.chmod(0o644)
    file.write_text("opensesame")
    file.chmod(0o600)
    context_of(Tls(key_store=str(store), password_file=str(file)))
    file.chmod(0o640)
    with pytest.warns(OpenKeyWarning, match="^the password file: .*/opens: users other than its owner can use it"):
        context_of(Tls(key_store=str(store), password_file=str(file)))


@pytest.mark.parametrize("name", ["absent", "empty", "key_alone", "other_key", "store.p12", "store.jks"])
def test_a_key_store_that_cannot_be_used_is_refused(alice: Path, tmp_path: Path, name: str) -> None:
    pem = (alice / "keystore.pem").read_bytes()
    at = pem.index(b"-----BEGIN CERT")
    other = (Certificates(tmp_path / "other").client("bob") / "keystore.pem").read_bytes()
    contents = {
        "empty": (b"", "it contains no key with its certificate"),
        "key_alone": (pem[:at], "it contains no key with its certificate"),
        "other_key": (other[: other.index(b"-----BEGIN CERT")] + pem[at:], "its key does not belong to its certif"),
        "store.p12": (b"", "it needs a password, or it is not PKCS#12: see the password file"),
        "store.jks": (b"", "it needs a password, or it is neither JKS nor PKCS#12: see the password file"),
        "absent": (None, "cannot be read: No such file"),
    }
    data, said = contents[name]
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(StoreError, match=said):
        context_of(Tls(key_store=str(path)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("absent.pem", "No such file"),
        ("empty.pem", "it contains no certificate"),
        ("store.p12", "it cannot be read"),
    ],
)
def test_a_trust_store_that_cannot_be_used_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "empty.pem").touch()
    with pytest.raises(StoreError, match=said):
        context_of(Tls(trust_store=str(tmp_path / name)))
