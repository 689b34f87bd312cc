"""A private certificate authority: makes the keys and certificates of members and clients, in memory.

    Authority.new(name)         a key that signs, and its certificate, which allows no authority below it
    authority.member(hosts)     a new key and a certificate, for both ends of a link: serverAuth, clientAuth
    authority.client(name)      the same for a client: clientAuth; ACLs of the scheme x509 know it as CN=NAME
    authority.again(before)     a new key, and a certificate with the same content
    authority.revoked(serials)  the list of revoked certificates

Keys are ECDSA on P-256, signatures SHA-256. No certificate is valid for longer than that of its authority.

There are two authorities, one for members and one for clients: a member trusts the latter at its client port, and the
former at its quorum and election ports. So the certificate of a client cannot be used by a member.

Not here: files (`certificate_files.py`), and the time, which is handed in.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from attrs import frozen
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "NAME_CHARACTERS_MAX",
    "Authority",
    "AuthorityError",
    "Issued",
    "client_subject",
    "host_name",
    "member_names",
]

NAME_CHARACTERS_MAX: Final = 64
"""The limit of a common name (RFC 5280, ub-common-name)."""
EARLIER: Final = timedelta(hours=1)
"""How much earlier a certificate becomes valid, since clocks of machines differ."""

_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_CLIENT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@ -]*[A-Za-z0-9])?")
_MEMBER_USAGES: Final = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
_CLIENT_USAGES: Final = [ExtendedKeyUsageOID.CLIENT_AUTH]


class AuthorityError(Exception):
    """The certificate cannot be made; the text says why, and what to do."""


@frozen
class Issued:
    """A key, its certificate, and the certificate of its issuer."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate


@frozen
class Authority:
    """A key that signs, and its own certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, name: str, now: datetime, days: int) -> Authority:
        """A new authority. Its full name is unique, since certificates are looked up by the name of their issuer."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(f"zab {name} {secrets.token_hex(8)}")
        builder = _certificate(subject, subject, key, now, now + timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    def member(self, hosts: list[str], now: datetime, days: int) -> Issued:
        """A certificate for a member with these host names and addresses, the first of which is its name."""
        names = member_names(hosts)
        return self._issue(_subject(hosts[0]), names, _MEMBER_USAGES, now, days)

    def client(self, name: str, now: datetime, days: int) -> Issued:
        return self._issue(client_subject(name), None, _CLIENT_USAGES, now, days)

    def again(self, before: x509.Certificate, now: datetime, days: int) -> Issued:
        """A new key, and a certificate with the same content as an earlier one. Raises AuthorityError."""
        try:
            before.verify_directly_issued_by(self.certificate)
        except (InvalidSignature, ValueError, TypeError):
            mine, other = self.certificate.subject.rfc4514_string(), before.issuer.rfc4514_string()
            raise AuthorityError(f"its certificate was signed by {other}, not by this authority ({mine})") from None
        try:
            names = before.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            names = None
        usages = list(before.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
        return self._issue(before.subject, names, usages, now, days)

    def revoked(self, serials: Mapping[int, datetime], number: int, now: datetime) -> x509.CertificateRevocationList:
        """The list of revoked certificates, by serial number and time. It is valid as long as the authority, or until
        there is one with a greater number."""
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now - EARLIER)
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(self._key_identifier, critical=False)
        )
        for serial, since in serials.items():
            each = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(since).build()
            builder = builder.add_revoked_certificate(each)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        """The key identifier in certificates that it signs."""
        own = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)

    def _issue(
        self,
        subject: x509.Name,
        names: x509.SubjectAlternativeName | None,
        usages: list[x509.ObjectIdentifier],
        now: datetime,
        days: int,
    ) -> Issued:
        until, last = now + timedelta(days=days), self.certificate.not_valid_after_utc
        if until > last:
            raise AuthorityError(
                f"the authority itself is good until {last:%Y-%m-%d}: say fewer --days, or make a new one elsewhere"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(subject, self.certificate.subject, key, now, until)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(self._key_identifier, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return Issued(key, builder.sign(self.key, hashes.SHA256()), self.certificate)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    """The common part of all certificates."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """The usage of a key: to sign certificates and revocation lists, or to sign in handshakes; nothing else."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def client_subject(name: str) -> x509.Name:
    """The subject of a client. Raises AuthorityError for an invalid name, which is also the name of a directory."""
    if _CLIENT.fullmatch(name) is None or len(name) > NAME_CHARACTERS_MAX:
        raise AuthorityError(
            f"{name!r} is no name of a client: letters, digits and . _ @ - within, {NAME_CHARACTERS_MAX} at most"
        )
    return _subject(name)


def member_names(hosts: list[str]) -> x509.SubjectAlternativeName:
    """The names and addresses by which a member is reached. Raises AuthorityError."""
    assert hosts
    if len(hosts[0]) > NAME_CHARACTERS_MAX:
        raise AuthorityError(f"{hosts[0]!r}: the first name of a member has {NAME_CHARACTERS_MAX} characters at most")
    return x509.SubjectAlternativeName([host_name(host) for host in hosts])


def host_name(text: str) -> x509.GeneralName:
    """An address, or the name of a host. Raises AuthorityError."""
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        pass
    # An invalid address would become a host name that no client uses.
    if len(text) > 253 or _HOST.fullmatch(text) is None or re.fullmatch(r"[\d.]+", text):
        raise AuthorityError(f"{text!r} is neither the name of a host nor an address")
    return x509.DNSName(text)
