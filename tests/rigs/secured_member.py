"""A member of the coordination service for servers that come in over TLS and with a login."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from tests.rigs.certificates import Certificates, client_store_lines
from tests.rigs.login_files import digest_section, private_file
from tests.rigs.zab_server import zab_servers
from zab.testing.kit.ports import HOST, free_ports


@attrs.frozen
class SecuredMember:
    """It has a port in clear (`plain`) and one for TLS alone (`secure`); both are HOST:PORT."""

    certificates: Certificates
    plain: str
    secure: str


@contextmanager
def secured_member(directory: Path, holder: str, user: str, password: str) -> Iterator[SecuredMember]:
    """It runs during the block. `holder` has a certificate that it trusts, and `user` may log in."""
    certificates = Certificates(directory / "certificates")
    certificates.client(holder)
    users = private_file(directory / "users.conf", digest_section("Server", **{f"user_{user}": password}))
    [secure] = free_ports(1)
    lines = {
        **client_store_lines(certificates.member("localhost", HOST)),
        "secureClientPort": secure,
        "secureClientPortAddress": HOST,
        "ssl.clientAuth": "need",
        "java.security.auth.login.config": str(users),
    }
    with zab_servers(1, directory=directory / "member", configuration=lines) as servers:
        yield SecuredMember(certificates, servers.hosts, f"{HOST}:{secure}")
