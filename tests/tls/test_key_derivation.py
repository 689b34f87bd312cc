"""Rounds of PKCS#12 are counted before it is opened: what tools write, the layouts that they may choose, and what is
none."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12

from tests.rigs.java_key_stores import KEPT, PASSWORD, der
from zab.tls import stores
from zab.tls.key_derivation import rounds_of
from zab.tls.stores import ROUNDS_MAX, Store, StoreError, StoreKeys

KEYS = StoreKeys.beginning("ssl.keyStore")
KEYTOOL = (KEPT / "named-only.jks").read_bytes()
KEYTOOL_ROUNDS_MAX = 200_000
"""The iterations of a key with its chain: 100,000 for the digest, 50,000 for each of the two."""
SALT = der(0x04, b"salt")


def number(value: int) -> bytes:
    return der(0x02, value.to_bytes(8, "big", signed=True))


def identifier(last: str) -> bytes:
    """An OID of RSA's, which all begin alike."""
    return der(0x06, bytes.fromhex("2a864886f70d01" + last))


def sequence(*parts: bytes) -> bytes:
    return der(0x30, b"".join(parts))


def info(content: bytes, kind: str = "0701") -> bytes:
    return sequence(identifier(kind), der(0xA0, content))


def data(*parts: bytes) -> bytes:
    return info(der(0x04, sequence(*parts)))


def store(*safes: bytes, mac: bytes = b"") -> bytes:
    return sequence(number(3), data(*safes), mac)


def key(algorithm: bytes, kind: str = "0c0a0102") -> bytes:
    return data(sequence(identifier(kind), der(0xA0, sequence(algorithm, der(0x04, b"key")))))


def encrypted(algorithm: bytes) -> bytes:
    return info(sequence(number(0), sequence(identifier("0701"), algorithm, der(0x80, b"bags"))), "0706")


def old(rounds: int) -> bytes:
    """PKCS#12's own."""
    return sequence(identifier("0c0103"), sequence(SALT, number(rounds)))


def of_two(rounds: int, kind: str = "050d", how: str = "050c") -> bytes:
    return sequence(identifier(kind), sequence(sequence(identifier(how), sequence(SALT, number(rounds))), sequence()))


def mac(*rounds: bytes, algorithm: bytes = sequence(identifier("0000"))) -> bytes:
    return sequence(sequence(algorithm, der(0x04, b"digest")), SALT, *rounds)


def open_ended(element: bytes, *, is_deep: bool = True) -> bytes:
    """The structure in BER: whatever has parts has an open end, and strings of octets come in pieces; so is what is in
    these, where it `is_deep`, which a digest of them does not agree with."""
    made = b""
    while element:
        head = 2 + max(0, element[1] - 0x80)
        length = element[1] if head == 2 else int.from_bytes(element[2:head], "big")
        tag, content, element = element[0], element[head : head + length], element[head + length :]
        if tag & 0x20:
            made += bytes([tag, 0x80]) + open_ended(content, is_deep=is_deep) + b"\0\0"
        elif tag == 0x04:
            content = open_ended(content) if is_deep and content[:1] == b"\x30" else content
            pieces = [der(0x04, content[at : at + 50]) for at in range(0, len(content), 50)]
            made += b"\x24\x80" + b"".join(pieces) + b"\0\0"
        else:
            made += der(tag, content)
    return made


def written(rounds: int) -> bytes:
    encryption = PrivateFormat.PKCS12.encryption_builder().kdf_rounds(rounds).hmac_hash(SHA256())
    protection = encryption.build(PASSWORD.encode())
    return pkcs12.serialize_key_and_certificates(b"a", ec.generate_private_key(ec.SECP256R1()), None, None, protection)


def test_rounds_of_what_tools_write() -> None:
    assert rounds_of(KEYTOOL) == 30_000
    assert rounds_of((KEPT / "named-only-trusted.jks").read_bytes()) == 20_000
    assert rounds_of(written(30_000)) - rounds_of(written(20_000)) == 10_000


@pytest.mark.parametrize(
    ("made", "rounds"),
    [
        (store(), 0),
        (store(mac=mac()), 1),
        (store(mac=mac(number(7))), 7),
        (store(mac=mac(number(1), algorithm=of_two(7, "050e"))), 7),
        (store(key(old(7))), 7),
        (store(key(of_two(7))), 7),
        (store(key(sequence(), kind="0c0a0103")), 0),
        (store(encrypted(old(7))), 7),
        (store(encrypted(of_two(7)), key(old(30)), key(of_two(500)), mac=mac(number(1000))), 1537),
    ],
)
def test_rounds_of_all_parts_count_in_each_layout(made: bytes, rounds: int) -> None:
    assert rounds_of(made) == rounds
    assert rounds_of(open_ended(made)) == rounds
    assert rounds_of(made + b"and more, which nobody reads") == rounds


@pytest.mark.filterwarnings("ignore:PKCS#12 bundle could not be parsed as DER")
def test_a_store_in_ber_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.p12"
    path.write_bytes(open_ended(KEYTOOL, is_deep=False))
    assert Store(KEYS, str(path), None, PASSWORD).certificate()


@pytest.mark.parametrize(
    "made",
    [
        b"",
        b"\x30",
        b"\x30\x80",
        b"\x30\x80" * 50_000,
        b"\x3f\x01\0",
        b"\x30\x84\xff\xff\xff\xff",
        sequence(number(3)),
        sequence(number(3), info(sequence(), "0702")),
        sequence(number(3), info(der(0x04, b""))),
        sequence(number(3), info(number(1))),
        store(info(sequence(), "0703")),
        store(key(old(-1))),
        store(key(sequence(identifier("0c0103")))),
        store(key(of_two(7, how="050b"))),
        store(data(sequence(identifier("0c0a0106"), der(0xA0, sequence())))),
    ],
)
def test_where_rounds_cannot_be_told_it_is_none(made: bytes) -> None:
    with pytest.raises(ValueError):
        rounds_of(made)


def test_no_part_of_a_store_is_one() -> None:
    for end in range(len(KEYTOOL)):
        with pytest.raises(ValueError):
            rounds_of(KEYTOOL[:end])


@pytest.mark.parametrize("is_key", [True, False], ids=["key store", "trust store"])
def test_a_store_of_too_many_rounds_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_key: bool
) -> None:
    """Nor is one of too many where its password is wrong."""
    content = KEYTOOL if is_key else (KEPT / "named-only-trusted.jks").read_bytes()
    path = tmp_path / "store.p12"
    path.write_bytes(content)
    good = Store(KEYS, str(path), None, PASSWORD)
    monkeypatch.setattr(stores, "ROUNDS_MAX", rounds_of(content))
    assert good.certificate() if is_key else good.load_trusted(context())
    monkeypatch.setattr(stores, "ROUNDS_MAX", rounds_of(content) - 1)
    monkeypatch.setattr(pkcs12, "load_pkcs12", None)
    for opened in (good, Store(KEYS, str(path), None, "wrong")):
        for load in (opened.load_key, opened.load_trusted):
            with pytest.raises(StoreError, match=r"store\.p12: its keys are derived in more than \d+ rounds"):
                load(context())


def context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def test_what_tools_write_by_themselves_is_below_the_limit() -> None:
    assert 5 * KEYTOOL_ROUNDS_MAX <= ROUNDS_MAX


def test_more_rounds_than_a_number_shows() -> None:
    """Python refuses to write a number of more than 4,300 digits."""
    rounds = der(0x02, b"\x7f" + bytes(4000))
    assert rounds_of(store(mac=mac(rounds))) > ROUNDS_MAX
