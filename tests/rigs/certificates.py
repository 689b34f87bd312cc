"""Certificates for tests, as `zab certs` makes them, and those that it never makes: expired ones, and others'.

    certificates = Certificates(directory)
    certificates.member("localhost")        a directory with keystore.pem, truststore.pem, …
    certificates.client("alice")

All times are counted from now, since whoever verifies reads the clock of the machine.
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from zab.cli.servers.authority import Authority
from zab.cli.servers.certificate_files import QUORUM_TRUST_STORE, TRUST_STORE, write_holder

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
        trusted = {TRUST_STORE: self._clients, QUORUM_TRUST_STORE: self._members}
        write_holder(directory, issued, trusted)
        return directory

    def client(self, name: str, *, begins_in: int = 0) -> Path:
        directory = self.directory / name
        issued = self._clients.client(name, datetime.now(UTC) + timedelta(days=begins_in), DAYS)
        write_holder(directory, issued, {TRUST_STORE: self._members})
        return directory


def client_store_lines(directory: Path, kind: str = "pem") -> dict[str, str]:
    """Of zoo.cfg, for clients of a member with that directory; `kind`: pem or p12."""
    lines = {f"ssl.{store}.location": f"{directory}/{store.lower()}.{kind}" for store in ("keyStore", "trustStore")}
    if kind == "p12":
        lines |= {f"ssl.{store}.passwordPath": f"{directory}/password" for store in ("keyStore", "trustStore")}
    return lines


def server_context(directory: Path, *, wants_clients: bool = True) -> ssl.SSLContext:
    """Of a server with that directory of a member."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "keystore.pem")
    if wants_clients:
        context.load_verify_locations(directory / "truststore.pem")
        context.verify_mode = ssl.CERT_REQUIRED
    return context
