"""`zab certs DIR`: certificates for the members of an ensemble and for its clients, and the authorities that sign them.

    zab certs DIR --zoo-cfg FILE        for the members in the server lines of FILE, and a client
    zab certs DIR --host HOST …         for members with these names
    zab certs DIR --add-member HOST     one more
    zab certs DIR --add-client NAME     one more
    zab certs DIR --renew               new keys and certificates for all that there are, from the same authorities

It prints what it made, and the lines to add to each zoo.cfg and for clients. What is where: `certificate_files.py`.

Exit codes: 0; 1 it cannot be done, and the reason; 2 wrong usage.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from zab.cli.exits import fail
from zab.cli.servers.authority import Authority, AuthorityError, Issued, member_names
from zab.cli.servers.certificate_files import (
    KEY_STORE,
    PASSWORD,
    QUORUM_TRUST_STORE,
    TRUST_STORE,
    Authorities,
    holders,
    new_directory,
    read_authorities,
    renew_holder,
    write_authorities,
    write_holder,
)
from zab.cli.terminal import say
from zab.configuration.dynamic import CLIENT_HOST_DEFAULT, LineError, is_dynamic, parse_dynamic
from zab.configuration.properties import PropertiesError, Property, parse_properties

__all__ = ["certs_command"]

DAYS: Final = 365
CA_DAYS: Final = 3650
CLIENT: Final = "client"
PLACE: Final = Path("/etc/zab/tls")
SECURE_CLIENT_PORT: Final = 2281

_WILDCARDS: Final = frozenset({CLIENT_HOST_DEFAULT, "::", "0:0:0:0:0:0:0:0"})

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", show_default=False)]
ZooCfgOption = Annotated[
    Path | None, typer.Option("--zoo-cfg", metavar="FILE", help="Members are those of its server lines.")
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST[,HOST…]", help="A member, by all its names and addresses. Repeat it."),
]
AddMemberOption = Annotated[
    list[str] | None, typer.Option("--add-member", metavar="HOST[,HOST…]", help="One more member. Repeat it.")
]
AddClientOption = Annotated[
    list[str] | None, typer.Option("--add-client", metavar="NAME", help="One more client. Repeat it.")
]


def certs_command(
    directory: DirectoryArgument,
    zoo_cfg: ZooCfgOption = None,
    host: HostsOption = None,
    client: Annotated[
        list[str] | None, typer.Option("--client", metavar="NAME", help=f"A client; without it, {CLIENT}. Repeat it.")
    ] = None,
    add_member: AddMemberOption = None,
    add_client: AddClientOption = None,
    renew: Annotated[bool, typer.Option("--renew", help="New keys and certificates for all there are.")] = False,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="DIR", help="Where the authorities are; without it, DIR/ca.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=CA_DAYS, help="How long certificates are good.")] = DAYS,
    place: Annotated[
        Path, typer.Option("--place", metavar="DIR", help="Where members will have theirs, for the lines.")
    ] = PLACE,
) -> None:
    """The first call makes DIR, with two authorities: one for members, one for clients. Their keys sign further
    certificates and are needed for nothing else: keep them apart, and name the place with --ca. Nobody but the owner
    may read what is made. Only --renew replaces what is there.
    """
    founding, adding = bool(zoo_cfg or host or client), bool(add_member or add_client)
    if founding + adding + renew > 1:
        raise typer.BadParameter(
            "a new DIR, more members and clients, or --renew: only one of them at a time",
            param_hint="--host, --add-member, --renew",
        )
    now = datetime.now(UTC)
    work = _Certificates(directory, ca or directory / "ca", now, days)
    try:
        if renew:
            work.renew()
        elif adding:
            work.add([_names(text) for text in add_member or []], add_client or [])
        else:
            if zoo_cfg is None and not host:
                raise typer.BadParameter("name the members", param_hint="--zoo-cfg, --host")
            members = [*(_members_of(zoo_cfg) if zoo_cfg else []), *(_names(text) for text in host or [])]
            work.found(members, client or [CLIENT])
            say(_lines(place, directory / "clients" / (client or [CLIENT])[0]))
    except AuthorityError as error:
        fail(str(error))
    except FileExistsError as error:
        more = "" if adding else "; --add-member, --add-client and --renew go on with what is there"
        fail(f"{error}{more}")
    except FileNotFoundError as error:
        fail(f"{error.filename} is missing: --ca names the directory of the authorities")
    except OSError as error:
        fail(str(error))


class _Certificates:
    """The directory, and for how long from now what is made is good."""

    def __init__(self, directory: Path, authority_directory: Path, now: datetime, days: int) -> None:
        self._directory = directory
        self._authority_directory = authority_directory
        self._now = now
        self._days = days

    def found(self, members: list[list[str]], clients: list[str]) -> None:
        """Both authorities, and what they sign first."""
        authorities = Authorities(
            Authority.new("members", self._now, CA_DAYS), Authority.new("clients", self._now, CA_DAYS)
        )
        is_within = self._authority_directory.parent == self._directory
        with contextlib.ExitStack() as stack:
            aside = stack.enter_context(new_directory(self._directory))
            made = list(self._write(aside, authorities, _merged(members), clients))
            write_authorities(
                aside / self._authority_directory.name if is_within else self._authority_directory, authorities
            )
        say(f"authorities: {self._authority_directory}; keep their keys apart, they sign further certificates only")
        for line in made:
            say(line)

    def add(self, members: list[list[str]], clients: list[str]) -> None:
        authorities = read_authorities(self._authority_directory)
        for line in self._write(self._directory, authorities, _merged(members), clients):
            say(line)

    def renew(self) -> None:
        authorities = read_authorities(self._authority_directory)
        kinds = ("members", authorities.members), ("clients", authorities.clients)
        found = [(path, authority) for kind, authority in kinds for path in holders(self._directory / kind)]
        if not found:
            raise AuthorityError(f"{self._directory}: there is no member and no client in it")
        for path, authority in found:
            issued = renew_holder(path, authority, self._now, self._days)
            say(_made(path, issued))

    def _write(
        self, directory: Path, authorities: Authorities, members: list[list[str]], clients: list[str]
    ) -> Iterator[str]:
        """Nothing is written unless all of it can be made. Gives a line for each."""
        issued: list[tuple[Path, Issued, dict[str, Authority]]] = []
        of_members = {TRUST_STORE: authorities.clients, QUORUM_TRUST_STORE: authorities.members}
        for names in members:
            certificate = authorities.members.member(names, self._now, self._days)
            issued.append((Path("members", names[0]), certificate, of_members))
        for name in dict.fromkeys(clients):
            certificate = authorities.clients.client(name, self._now, self._days)
            issued.append((Path("clients", name), certificate, {TRUST_STORE: authorities.members}))
        for path, _, _ in issued:
            if (directory / path).exists():
                raise FileExistsError(f"{directory / path} is there already, and is not overwritten")
        for path, certificate, trusted in issued:
            write_holder(directory / path, certificate, trusted)
            yield _made(self._directory / path, certificate)


def _made(path: Path, issued: Issued) -> str:
    until = issued.certificate.not_valid_after_utc
    return f"{path.parent.name.removesuffix('s')} {path.name}: {path}, until {until:%Y-%m-%d}"


def _names(text: str) -> list[str]:
    """The names of one member. Raises AuthorityError."""
    names = [part.strip().strip("[]") for part in text.split(",")]
    member_names(names)
    return names


def _merged(members: list[list[str]]) -> list[list[str]]:
    """One for each first name: members on one machine share its certificate."""
    merged: dict[str, list[str]] = {}
    for names in members:
        known = merged.setdefault(names[0], [])
        known += [name for name in names if name not in known]
    return list(merged.values())


def _members_of(zoo_cfg: Path) -> list[list[str]]:
    """The names and addresses of each member. Raises BadParameter and AuthorityError."""
    try:
        entries = _entries(zoo_cfg)
        for entry in [each for each in entries if each.key == "dynamicConfigFile"]:
            entries += _entries(Path(entry.value))
        ensemble = parse_dynamic([each for each in entries if is_dynamic(each.key)])
    except LineError as error:
        raise _wrong(f"{zoo_cfg}:{error.line}: {error.reason}") from None
    if not ensemble.servers:
        raise _wrong(f"{zoo_cfg}: there is no server line in it: name the member with --host")
    members = []
    for line in ensemble.servers.values():
        client_hosts = [line.client_host] if line.client_host is not None else []
        names = [line.host, *line.other_hosts, *(host for host in client_hosts if host not in _WILDCARDS)]
        member_names(names)
        members.append(names)
    return members


def _entries(path: Path) -> list[Property]:
    try:
        return parse_properties(path.read_bytes().decode("latin-1"))
    except OSError as error:
        raise _wrong(f"{path}: it cannot be read: {error.strerror or error}") from None
    except PropertiesError as error:
        raise _wrong(f"{path}:{error.line}: {error.reason}") from None


def _wrong(reason: str) -> typer.BadParameter:
    return typer.BadParameter(reason, param_hint="--zoo-cfg")


def _lines(place: Path, client: Path) -> str:
    """What to add where."""
    client = client.absolute()
    return f"""
copy the directory of each member to {place} on its machine, for the user that runs it, and add to its zoo.cfg:

secureClientPort={SECURE_CLIENT_PORT}
ssl.keyStore.location={place / KEY_STORE}.pem
ssl.trustStore.location={place / TRUST_STORE}.pem
ssl.clientAuth=need
sslQuorum=true
ssl.quorum.keyStore.location={place / KEY_STORE}.pem
ssl.quorum.trustStore.location={place / QUORUM_TRUST_STORE}.pem
sslQuorumReloadCertFiles=true

a client of zab, in ~/.config/zab/client.toml:

tls = true
ca = "{client / TRUST_STORE}.pem"
key-store = "{client / KEY_STORE}.pem"

kazoo:

KazooClient(hosts="…:{SECURE_CLIENT_PORT}", use_ssl=True, ca="{client / TRUST_STORE}.pem",
            certfile="{client / KEY_STORE}.pem", keyfile="{client / KEY_STORE}.pem")

Java, which needs netty beside ZooKeeper's jar, in its ZKClientConfig (zkCli.sh -client-configuration FILE):

zookeeper.client.secure=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keyStore.location={client / KEY_STORE}.p12
zookeeper.ssl.keyStore.passwordPath={client / PASSWORD}
zookeeper.ssl.trustStore.location={client / TRUST_STORE}.p12
zookeeper.ssl.trustStore.passwordPath={client / PASSWORD}"""
