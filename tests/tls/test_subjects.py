"""Subjects of certificates as ACLs have them. The texts are those of Java 17, `getSubjectX500Principal().getName()`."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID

from zab.tls.certificate_names import is_for_host
from zab.tls.subjects import SUBJECT_BYTES_MAX, SubjectError, subject_of

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(*parts: tuple[x509.ObjectIdentifier, str] | RelativeDistinguishedName) -> bytes:
    name = x509.Name([NameAttribute(*part) if isinstance(part, tuple) else part for part in parts])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 1, now, now + timedelta(days=1))
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            (
                *((NameOID.COUNTRY_NAME, "DE"), (NameOID.STATE_OR_PROVINCE_NAME, "X"), (NameOID.LOCALITY_NAME, "B")),
                *((NameOID.ORGANIZATION_NAME, "Acme, Inc."), (NameOID.ORGANIZATIONAL_UNIT_NAME, "a")),
                *((NameOID.ORGANIZATIONAL_UNIT_NAME, "b"), (NameOID.COMMON_NAME, "alice")),
            ),
            r"CN=alice,OU=b,OU=a,O=Acme\, Inc.,L=B,ST=X,C=DE",
        ),
        (
            ((NameOID.DOMAIN_COMPONENT, "org"), (NameOID.USER_ID, "u1"), (NameOID.STREET_ADDRESS, "s")),
            "STREET=s,UID=u1,DC=org",
        ),
        (
            ((NameOID.EMAIL_ADDRESS, "a@b.c"), (NameOID.COMMON_NAME, "m")),
            "CN=m,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            ((NameOID.SERIAL_NUMBER, "12"), (NameOID.TITLE, "t" * 200)),
            f"2.5.4.12=#0c81c8{'74' * 200},2.5.4.5=#13023132",
        ),
        (((x509.ObjectIdentifier("2.999.5"), "zz"),), "2.999.5=#0c027a7a"),
        (
            (
                RelativeDistinguishedName(
                    [NameAttribute(NameOID.COMMON_NAME, "x"), NameAttribute(NameOID.USER_ID, "y")]
                ),
                RelativeDistinguishedName([NameAttribute(NameOID.ORGANIZATION_NAME, "o")]),
            ),
            "O=o,CN=x+UID=y",
        ),
        (((NameOID.COMMON_NAME, ' a=b+c<d>e;f"g\\h#i '),), r"CN=\ a\=b\+c\<d\>e\;f\"g\\h\#i" + "\\ "),
        (((NameOID.COMMON_NAME, "   "),), "CN=\\ \\ \\ "),
        (((NameOID.COMMON_NAME, "\r a\tb\n"),), "CN=\\\r\\ a\tb\n"),
        (((NameOID.COMMON_NAME, "é ü 漢 😀"),), "CN=é ü 漢 😀"),
        (((NameOID.COMMON_NAME, "a\0b"),), r"CN=a\00b"),
        ((), ""),
    ],
)
def test_subject_is_what_java_says(
    parts: tuple[tuple[x509.ObjectIdentifier, str] | RelativeDistinguishedName, ...], text: str
) -> None:
    assert subject_of(certificate(*parts)) == text


def test_one_name_is_not_made_of_two() -> None:
    """Anyone who may choose a part of a name chooses no other part."""
    one = subject_of(certificate((NameOID.ORGANIZATION_NAME, "o"), (NameOID.COMMON_NAME, "a,O=p")))
    assert one == r"CN=a\,O\=p,O=o"


def test_subject_that_is_too_long_or_broken_is_nobodys() -> None:
    units = [(NameOID.ORGANIZATIONAL_UNIT_NAME, "u" * 60)] * 64
    assert len(subject_of(certificate(*units))) == SUBJECT_BYTES_MAX - 1
    with pytest.raises(SubjectError, match=f"more than {SUBJECT_BYTES_MAX} bytes"):
        subject_of(certificate(*units, (NameOID.COMMON_NAME, "a")))
    with pytest.raises(SubjectError, match="cannot be read"):
        subject_of(certificate((NameOID.COMMON_NAME, "a"))[:-1])


@pytest.mark.parametrize(
    ("said", "odd"),
    [
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x07"),
        (b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x01"),
        (b"\x0c\x07mallory", b"\x03\x07\0allory"),
        (b"\x0c\x07mallory", b"\x30\x07\x0c\x05mallo"),
        (b"\x0c\x07mallory", b"\x0c\x07\xff\xfellory"),
        (b"\x0c\x07mallory", b"\x1d\x07mallory"),
    ],
    ids=["version 8", "version 2", "bits", "sequence", "no text", "a type that is none"],
)
def test_odd_certificate_that_an_authority_has_signed_is_nobodys(said: bytes, odd: bytes) -> None:
    """OpenSSL takes them, and looks at the signature alone."""
    der = certificate((NameOID.COMMON_NAME, "mallory"))
    assert said in der
    made = der.replace(said, odd)
    with contextlib.suppress(SubjectError):
        assert subject_of(made).startswith("CN=#")
    assert not is_for_host(made, "mallory")
