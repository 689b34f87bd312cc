"""Three ensembles of ours beside each other, and the four ways in which they are driven.

plain           members without a secret, clients without TLS
secret          members with a shared secret, as `zab ensemble` makes it; what they tell each other has a seal
sslQuorum       what members tell each other is inside of TLS, with a certificate at both ends
TLS clients     the members of `plain`, at their secureClientPort, with a certificate at both ends
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cells import Cell, members_of
from tests.rigs.certificates import Certificates, client_store_lines, quorum_store_lines
from tests.rigs.zab_server import PROGRAM, zab_servers
from tests.rigs.zookeeper_server import ZooKeeperEnsemble
from zab.host.files.secret_file import make_secret_file
from zab.testing.kit.ports import free_ports

KINDS = ("plain", "secret", "sslQuorum", "TLS clients")
MEMBERS = 3
NUMBERS = range(1, MEMBERS + 1)
HOST = "127.0.0.1"

Lines = dict[str, str | int]


@dataclass(frozen=True)
class Side:
    """An ensemble and how clients reach it. `secure_ports`, by server id, where it is by TLS; then the generator's
    options for that, too."""

    kind: str
    ensemble: ZooKeeperEnsemble
    secure_ports: Mapping[int, int] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def hosts(self, cell: Cell) -> str:
        """The servers that the cell's connections go to, as the generator wants them."""
        members = members_of(cell, self.ensemble)
        if not self.secure_ports:
            return ",".join(member.host for member in members)
        return ",".join(f"{HOST}:{self.secure_ports[member.server_id]}" for member in members)


@contextlib.contextmanager
def sides(directory: Path, *, kinds: Sequence[str] = KINDS, program: Sequence[str] = PROGRAM) -> Iterator[list[Side]]:
    """Those, in that order, when all their members serve. program: as in `zab_servers`."""
    directory.mkdir(parents=True, exist_ok=True)
    certificates = Certificates(directory / "certificates")
    found: dict[str, Side] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str, shared: Lines, each: Sequence[Lines] = ()) -> ZooKeeperEnsemble:
            place = directory / name
            servers = zab_servers(MEMBERS, directory=place, configuration=shared, each=each, program=program)
            return stack.enter_context(servers)

        if {"plain", "TLS clients"} & {*kinds}:
            ports = dict(zip(NUMBERS, free_ports(MEMBERS), strict=True))
            shared = _lines_for_clients(certificates.member(HOST, name="clients"))
            plain = start("plain", shared, [{"secureClientPort": port} for port in ports.values()])
            client = certificates.client("client")
            options = ("--tls-ca", f"{client}/truststore.pem", "--tls-cert", f"{client}/keystore.pem")
            found["plain"] = Side("plain", plain)
            found["TLS clients"] = Side("TLS clients", plain, ports, options)
        if "secret" in kinds:
            found["secret"] = Side("secret", start("secret", _lines_of_secret(directory / "secret.txt")))
        if "sslQuorum" in kinds:
            each = [_lines_of_member(certificates, number) for number in NUMBERS]
            found["sslQuorum"] = Side("sslQuorum", start("sslQuorum", _server_lines(), each))
        yield [found[kind] for kind in kinds]


def _lines_for_clients(stores: Path) -> Lines:
    return {
        "secureClientPortAddress": HOST,
        **client_store_lines(stores),
        "ssl.clientAuth": "need",
    }


def _lines_of_secret(file: Path) -> Lines:
    make_secret_file(str(file))
    return {"quorum.secretFile": str(file)}


def _host(number: int) -> str:
    """Certificates tell members apart by their hosts."""
    return f"127.0.0.{number}"


def _server_lines() -> Lines:
    ports = free_ports(2 * MEMBERS)
    pairs = zip(ports[::2], ports[1::2], strict=True)
    return {f"server.{number}": f"{_host(number)}:{q}:{e}" for number, (q, e) in zip(NUMBERS, pairs, strict=True)}


def _lines_of_member(certificates: Certificates, number: int) -> Lines:
    stores = certificates.member(_host(number))
    return {"sslQuorum": "true", **quorum_store_lines(stores)}
