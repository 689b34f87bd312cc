"""Java key stores: what keytool writes is read as Java reads it, and bytes that are no such store are told."""

from __future__ import annotations

import ssl
import struct
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, load_der_private_key

from tests.rigs.certificates import Certificates
from tests.rigs.java_key_stores import (
    KEPT,
    KEY_PASSWORD,
    PASSWORD,
    der,
    key_entry,
    made_by_keytool,
    protected,
    signed_by,
    trusted_entry,
    with_java_stores,
    written,
)
from zab.client import Tls
from zab.client.tls_context import context_of
from zab.tls.java_key_store import (
    JavaKeyStoreError,
    JceksError,
    ProtectedKey,
    WrongPasswordError,
    is_java_key_store,
    read_java_key_store,
)
from zab.tls.stores import Store, StoreError, StoreKeys

KEYS = StoreKeys.beginning("ssl.keyStore")
BOTH = (KEPT / "both.jks").read_bytes()
ALIAS, CERTIFICATE = "a", b"certificate"


def has_keytool() -> bool:
    try:
        return subprocess.run(["keytool", "-help"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module", params=["kept", pytest.param("made now", marks=(pytest.mark.slow, pytest.mark.java))])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of them by keytool: the one that is kept, and one that the keytool of this machine makes."""
    if request.param == "kept":
        return KEPT
    if not has_keytool():
        pytest.skip("keytool of a JDK is not here")
    return made_by_keytool(tmp_path_factory.mktemp("keytool"))


def store(path: Path, password: str = PASSWORD, kind: str | None = None) -> Store:
    return Store(KEYS, str(path), kind, password)


def own(context: ssl.SSLContext, trusting: ssl.SSLContext) -> bytes | None:
    """The certificate that a server with the first shows to a client with the second."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = trusting.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [client, server]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
    return client.getpeercert(binary_form=True)


def keyed(path: Path, password: str = PASSWORD) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert store(path, password).load_key(context)
    return context


def trusting(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    store(path).load_trusted(context)
    return context


# -------------------------------------------------------------------------------------------------- what keytool writes


@pytest.mark.long
def test_a_member_shows_what_its_key_store_has_and_a_client_believes_its_trust_store(stores: Path) -> None:
    shown = own(keyed(stores / "both.jks"), trusting(stores / "trusted.jks"))
    assert shown is not None
    assert x509.load_der_x509_certificate(shown).subject.rfc4514_string() == "CN=member"
    assert shown == store(stores / "both.jks").certificate().public_bytes(Encoding.DER)


def test_certificates_that_are_trusted_are_told_from_those_of_the_key(stores: Path) -> None:
    """`both.jks` has a key whose chain is two certificates, and one that is trusted."""
    authority = ssl.PEM_cert_to_DER_cert((stores / "ca.pem").read_text())
    found = read_java_key_store((stores / "both.jks").read_bytes(), PASSWORD)
    [key] = found.keys
    assert (key.alias, len(key.chain), found.trusted) == ("member", 2, (authority,))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert store(stores / "both.jks").load_trusted(context) == {authority}
    assert authority in store(stores / "trusted.jks").load_trusted(context)
    assert len(store(stores / "trusted.jks").load_trusted(context)) == 2


@pytest.mark.parametrize(("name", "kind"), [("both.jks", ec.EllipticCurvePrivateKey), ("rsa.jks", rsa.RSAPrivateKey)])
def test_a_key_is_that_of_its_certificate(stores: Path, name: str, kind: type) -> None:
    [key] = read_java_key_store((stores / name).read_bytes(), PASSWORD).keys
    opened = load_der_private_key(key.opened(PASSWORD), None)
    assert isinstance(opened, kind)
    assert opened.public_key() == x509.load_der_x509_certificate(key.chain[0]).public_key()


def test_what_a_python_library_writes_for_java_is_read_too() -> None:
    """As kazoo's own test harness does it."""
    assert own(keyed(KEPT / "pyjks.jks"), no_checks()) is not None


def no_checks() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize("kind", [None, "jks", "pkcs12"])
def test_the_first_bytes_say_whether_it_is_jks_or_pkcs12_as_in_java(stores: Path, kind: str | None) -> None:
    """A keytool of today writes PKCS#12 into a file that is called `.jks`."""
    assert not is_java_key_store((stores / "named-only.jks").read_bytes())
    for name in ("named-only.jks", "both.jks"):
        assert store(stores / name, kind=kind).load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    authority = ssl.PEM_cert_to_DER_cert((stores / "ca.pem").read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert store(stores / "named-only-trusted.jks", kind=kind).load_trusted(context) == {authority}


def test_a_client_takes_java_stores(tmp_path: Path) -> None:
    alice = with_java_stores(Certificates(tmp_path).client("alice"))
    stores = {"trust_store": str(alice / "truststore.jks"), "key_store": str(alice / "keystore.jks")}
    assert len(context_of(Tls(**stores, password_file=str(alice / "password"))).get_ca_certs()) == 1
    with pytest.raises(
        StoreError, match=r"^the trust store: .*truststore\.jks: it needs a password, or it was tampered with"
    ):
        context_of(Tls(**stores))


# -------------------------------------------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize(
    ("name", "password", "reason"),
    [
        (
            "both.jks",
            "wrong",
            r"both\.jks: the password does not open it, or it was tampered with.*see ssl\.keyStore\.passwordPath",
        ),
        ("both.jks", "", r"both\.jks: it needs a password"),
        ("named-only.jks", "wrong", "the password does not open it, or it is neither JKS nor PKCS#12"),
        ("trusted.jks", PASSWORD, "it contains no key with its certificate"),
        ("two-keys.jks", PASSWORD, r"it contains 2 keys \(one, two\): remove all but one with `keytool -delete`"),
        (
            "key-password.jks",
            PASSWORD,
            r"different passwords: change the key's with `keytool -keypasswd .* -alias member`",
        ),
        ("jceks.jks", PASSWORD, r"JCEKS cannot be read.*`keytool -importkeystore .*jceks\.p12 -deststoretype PKCS12`"),
    ],
)
def test_a_key_store_that_cannot_be_used_is_named_with_what_to_do(
    stores: Path, name: str, password: str, reason: str
) -> None:
    with pytest.raises(StoreError, match=reason) as caught:
        store(stores / name, password).load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    assert str(caught.value).startswith(f"ssl.keyStore.location: {stores / name}: ")
    assert PASSWORD not in str(caught.value)


def test_a_key_with_a_password_of_its_own_opens_with_it_alone(stores: Path) -> None:
    [key] = read_java_key_store((stores / "key-password.jks").read_bytes(), PASSWORD).keys
    load_der_private_key(key.opened(KEY_PASSWORD), None)
    with pytest.raises(WrongPasswordError):
        key.opened(PASSWORD)


def test_a_trust_store_has_somebody_to_trust(stores: Path, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with pytest.raises(StoreError, match="it contains a key, so it is not a trust store"):
        store(stores / "rsa.jks").load_trusted(context)
    (tmp_path / "empty.jks").write_bytes(written(PASSWORD))
    with pytest.raises(StoreError, match="it contains no certificate"):
        store(tmp_path / "empty.jks").load_trusted(context)


def test_a_certificate_that_has_ended_is_read_and_refused_by_who_sees_it(stores: Path) -> None:
    assert store(stores / "expired.jks").certificate().not_valid_after_utc.year == 2020
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=store(stores / "expired.jks").certificate().public_bytes(Encoding.DER))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        own(keyed(stores / "expired.jks"), context)


# -------------------------------------------------------------------------------------------------------- damaged bytes


def test_every_cut_and_every_changed_byte_is_told() -> None:
    for at in range(len(BOTH)):
        with pytest.raises(JavaKeyStoreError):
            read_java_key_store(BOTH[:at], PASSWORD)
        changed = BOTH[:at] + bytes([BOTH[at] ^ 1]) + BOTH[at + 1 :]
        with pytest.raises(JavaKeyStoreError):
            read_java_key_store(changed, PASSWORD)
    with pytest.raises(JavaKeyStoreError):
        read_java_key_store(BOTH + b"\0", PASSWORD)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (written(PASSWORD, count=0xFFFFFFFF), "it ends too early"),
        (written(PASSWORD, count=1), "it ends too early"),
        (written(PASSWORD, trusted_entry(ALIAS, CERTIFICATE), count=0), "bytes follow its end"),
        (written(PASSWORD, struct.pack(">IHQ", 2, 0, 0) + b"\0\5X.509\xff\xff\xff\xff"), "it ends too early"),
        (written(PASSWORD, struct.pack(">IHQII", 1, 0, 0, 0, 0xFFFFFFFF)), "it ends too early"),
        (written(PASSWORD, struct.pack(">IHQ", 3, 0, 0)), "an entry of kind 3 is neither"),
        (written(PASSWORD, version=3), "its version is 3"),
        (written(PASSWORD, trusted_entry(ALIAS, CERTIFICATE).replace(b"X.509", b"X.400")), "kind 'X.400' is not X.509"),
        (signed_by(PASSWORD, b"\xfe\xed\xfe\xee"), "it does not begin like one"),
        (b"", "it ends too early"),
    ],
)
def test_what_is_announced_and_is_not_there_is_told_and_never_made(data: bytes, reason: str) -> None:
    with pytest.raises(JavaKeyStoreError, match=reason):
        read_java_key_store(data, PASSWORD)


def test_jceks_is_told_by_its_name() -> None:
    with pytest.raises(JceksError):
        read_java_key_store(b"\xce\xce\xce\xce", PASSWORD)


def test_an_older_version_has_certificates_without_a_kind() -> None:
    entries = key_entry(ALIAS, protected(b"key", PASSWORD), [CERTIFICATE], 1), trusted_entry("b", CERTIFICATE, 1)
    found = read_java_key_store(written(PASSWORD, *entries, version=1), PASSWORD)
    assert (found.keys[0].chain, found.trusted) == ((CERTIFICATE,), (CERTIFICATE,))
    assert found.keys[0].opened(PASSWORD) == b"key"


@pytest.mark.parametrize(
    ("hidden", "reason"),
    [
        (b"", "it ends too early"),
        (b"\x30\x84\xff\xff\xff\xff", "it ends too early"),
        (b"\x30\x80", "its key is not DER|follow|too early"),
        (b"\x04\x00", "its key is not DER"),
        (protected(b"key", PASSWORD) + b"\0", "bytes follow its end"),
        (
            protected(b"key", PASSWORD, der(0x30, b"\x06\x03\x2a\x03\x04")),
            "protected with an algorithm that JKS does not have",
        ),
        (protected(b"key", PASSWORD).replace(b"\x05\x00", b"\x04\x00"), None),
        (der(0x30, der(0x30, bytes.fromhex("060a2b060104012a02110101")) + der(0x04, bytes(39))), "different password"),
        (der(0x30, der(0x30, bytes.fromhex("060a2b060104012a02110101")) + der(0x04, b"")), "different password"),
    ],
)
def test_a_key_that_is_damaged_is_told(hidden: bytes, reason: str | None, tmp_path: Path) -> None:
    key = ProtectedKey(ALIAS, hidden, ())
    if reason is None:
        assert key.opened(PASSWORD) == b"key"
        return
    with pytest.raises(JavaKeyStoreError, match=reason):
        key.opened(PASSWORD)


def test_keys_of_every_length_come_back() -> None:
    for length in (1, 19, 20, 21, 40, 1000):
        key = bytes(range(256)) * 4
        assert ProtectedKey(ALIAS, protected(key[:length], PASSWORD), ()).opened(PASSWORD) == key[:length]


def test_a_store_whose_content_is_none_of_its_kind_is_a_store_error(tmp_path: Path) -> None:
    path = tmp_path / "odd.jks"
    for entry in (
        key_entry(ALIAS, protected(b"key", PASSWORD), [CERTIFICATE]),
        key_entry(ALIAS, b"\x30\x00", [CERTIFICATE]),
        key_entry(ALIAS, protected(b"key", PASSWORD), []),
        trusted_entry(ALIAS, CERTIFICATE),
    ):
        path.write_bytes(written(PASSWORD, entry))
        with pytest.raises(StoreError):
            store(path).load_key(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        with pytest.raises(StoreError):
            store(path).load_trusted(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    path.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(StoreError, match="it is a damaged Java key store: it ends too early"):
        store(path).load_trusted(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
