"""Certificates for tests, as `zab certs` makes them, and those that it never makes: expired ones, and others'.

    certificates = Certificates(directory)
    certificates.member("localhost")        a directory with keystore.pem, truststore.pem, …
    certificates.client("alice")

All times are counted from now, since verification reads the clock of the machine.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from zab.cli.servers.authority import Authority
from zab.cli.servers.certificate_files import QUORUM_TRUST_STORE, TRUST_STORE, Trusted, write_holder

DAYS = 10


class Certificates:
    """Two authorities, and what they signed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._begin = datetime.now(UTC) - timedelta(days=2 * DAYS)
        self._members = Authority.new("members", self._begin, 5 * DAYS)
        self._clients = Authority.new("clients", self._begin, 5 * DAYS)

    def member(self, *hosts: str, begins_in: int = 0, name: str | None = None) -> Path:
        """The directory of a member; `begins_in`: after how many days it begins to be good, for ten days."""
        directory = self.directory / (name or hosts[0])
        issued = self._members.member(list(hosts), datetime.now(UTC) + timedelta(days=begins_in), DAYS)
        trusted = {
            TRUST_STORE: Trusted(self._clients.certificate),
            QUORUM_TRUST_STORE: Trusted(self._members.certificate),
        }
        write_holder(directory, issued, trusted)
        return directory

    def client(self, name: str, *, begins_in: int = 0) -> Path:
        directory = self.directory / name
        issued = self._clients.client(name, datetime.now(UTC) + timedelta(days=begins_in), DAYS)
        write_holder(directory, issued, {TRUST_STORE: Trusted(self._members.certificate)})
        return directory

    def revoke(self, store: Path, *holders: Path, others: int = 0) -> None:
        """The trust store in PEM has the list of who is revoked from now on, of the authority that is in it; and of so
        many others, whom nobody knows."""
        text = store.read_bytes()
        [authority] = [each for each in (self._members, self._clients) if each.certificate in _certificates(text)]
        now = datetime.now(UTC)
        revoked = {_certificates((holder / "keystore.pem").read_bytes())[0].serial_number: now for holder in holders}
        revoked |= dict.fromkeys(range(1 << 150, (1 << 150) + others), now)
        more = authority.revoked(revoked, len(text), now).public_bytes(Encoding.PEM)
        aside = store.with_name("aside")
        aside.write_bytes(text + more)
        aside.replace(store)


def _certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def client_store_lines(directory: Path, kind: str = "pem") -> dict[str, str]:
    """The lines of zoo.cfg for clients of a member with that directory; `kind`: pem, p12, or jks
    (`java_key_stores`)."""
    lines = {f"ssl.{store}.location": f"{directory}/{store.lower()}.{kind}" for store in ("keyStore", "trustStore")}
    if kind != "pem":
        lines |= {f"ssl.{store}.passwordPath": f"{directory}/password" for store in ("keyStore", "trustStore")}
    return lines


def quorum_store_lines(directory: Path, kind: str = "pem") -> dict[str, str]:
    """The lines of zoo.cfg for other members."""
    lines = {key.replace("ssl.", "ssl.quorum."): value for key, value in client_store_lines(directory, kind).items()}
    return lines | {"ssl.quorum.trustStore.location": f"{directory}/quorum.truststore.{kind}"}


def server_context(directory: Path, *, wants_clients: bool = True) -> ssl.SSLContext:
    """The context of a server with a member's directory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "keystore.pem")
    if wants_clients:
        context.load_verify_locations(directory / "truststore.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(directory: Path, *, has_key: bool = True) -> ssl.SSLContext:
    """The context of a client that trusts what is in this directory; `has_key`: it shows the certificate there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(directory / "truststore.pem")
    if has_key:
        context.load_cert_chain(directory / "keystore.pem")
    return context
