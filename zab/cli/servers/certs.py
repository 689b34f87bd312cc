"""`zab certs DIR`: certificates for the members of an ensemble and for its clients, and the authorities that sign them.

    zab certs DIR --zoo-cfg FILE        for the members in the server lines of FILE, and a client
    zab certs DIR --host HOST …         for members with these names
    zab certs DIR --add-member HOST     one more
    zab certs DIR --add-client NAME     one more
    zab certs DIR --renew               new keys and certificates for all that there are, from the same authorities
    zab certs DIR --revoke-client NAME  revokes all certificates that NAME ever got; --revoke-member HOST for a member

It prints what it made, and the lines to add to each zoo.cfg and for clients. `certificate_files.py` has the layout.

Exit codes: 0; 1 it cannot be done, and the reason; 2 wrong usage.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from attrs import frozen

from zab.cli.exits import fail
from zab.cli.json_form import JsonOption, json_line, time_text
from zab.cli.servers.authority import Authority, AuthorityError, Issued, member_names
from zab.cli.servers.certificate_files import (
    CLIENTS,
    KEY_STORE,
    MEMBERS,
    PASSWORD,
    QUORUM_TRUST_STORE,
    TRUST_STORE,
    Authorities,
    Trusted,
    holders,
    new_directory,
    read_authorities,
    renew_holder,
    write_authorities,
    write_holder,
)
from zab.cli.servers.revocations import Given, Lists, list_of, note, replace_list, revoke
from zab.cli.terminal import say
from zab.configuration.dynamic import CLIENT_HOST_DEFAULT, LineError, is_dynamic, parse_dynamic
from zab.configuration.properties import PropertiesError, Property, parse_properties

__all__ = ["certs_command"]

DAYS: Final = 365
CA_DAYS: Final = 3650
CLIENT: Final = "client"
PLACE: Final = Path("/etc/zab/tls")
SECURE_CLIENT_PORT: Final = 2281

Tell: TypeAlias = Callable[[str, Mapping[str, Any]], None]

KINDS: Final = (MEMBERS, CLIENTS)
STORE_OF: Final = {MEMBERS: QUORUM_TRUST_STORE, CLIENTS: TRUST_STORE}
"""The store of a member with the authority of each kind, and its revocation list."""

SHARED: Final = (
    "warning: members on one host share a certificate, by which nobody tells one from another: give each member a host "
    "of its own"
)

_WILDCARDS: Final = frozenset({CLIENT_HOST_DEFAULT, "::", "0:0:0:0:0:0:0:0"})

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", show_default=False)]
ZooCfgOption = Annotated[
    Path | None,
    typer.Option("--zoo-cfg", metavar="FILE", help="Make certificates for the members in its server lines."),
]
HostsOption = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="HOST[,HOST…]", help="A member, with all its names and addresses. May be repeated."),
]
AddMemberOption = Annotated[
    list[str] | None, typer.Option("--add-member", metavar="HOST[,HOST…]", help="One more member. May be repeated.")
]
AddClientOption = Annotated[
    list[str] | None, typer.Option("--add-client", metavar="NAME", help="One more client. May be repeated.")
]
RevokeMemberOption = Annotated[
    list[str] | None,
    typer.Option("--revoke-member", metavar="HOST", help="Revoke its certificates. May be repeated."),
]
RevokeClientOption = Annotated[
    list[str] | None,
    typer.Option("--revoke-client", metavar="NAME", help="Revoke its certificates. May be repeated."),
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
    renew: Annotated[bool, typer.Option("--renew", help="Replace all keys and certificates.")] = False,
    revoke_member: RevokeMemberOption = None,
    revoke_client: RevokeClientOption = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="DIR", help="The directory of the authorities; by default, DIR/ca.")
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=CA_DAYS, help="How long certificates are valid.")] = DAYS,
    place: Annotated[
        Path,
        typer.Option("--place", metavar="DIR", help="Where members keep their certificates, for the printed lines."),
    ] = PLACE,
    json: JsonOption = False,
) -> None:
    """The first call makes DIR, with two authorities: one for members, one for clients. Their keys sign further
    certificates and are needed for nothing else: keep them apart, and name the place with --ca. Nobody but the owner
    may read what is made. Only --renew and --revoke-… replace what is there.
    """
    founding, adding = bool(zoo_cfg or host or client), bool(add_member or add_client)
    revoked = {MEMBERS: revoke_member or [], CLIENTS: revoke_client or []}
    revoking = any(revoked.values())
    if founding + adding + renew + revoking > 1:
        raise typer.BadParameter(
            "a new DIR, more members and clients, --renew, or --revoke-…: only one of them at a time",
            param_hint="--host, --add-member, --renew, --revoke-client",
        )
    now = datetime.now(UTC)

    def tell(text: str, fields: Mapping[str, Any]) -> None:
        say(json_line(fields) if json else text)

    work = _Certificates(directory, ca or directory / "ca", now, days, tell)
    try:
        if renew:
            work.renew()
        elif revoking:
            work.revoke(revoked)
            if not json:
                say("copy what is new to each member; with ssl.crl and ssl.quorum.crl it counts")
        elif adding:
            work.add([_names(text) for text in add_member or []], add_client or [])
        else:
            if zoo_cfg is None and not host:
                raise typer.BadParameter("name the members", param_hint="--zoo-cfg, --host")
            members = [*(_members_of(zoo_cfg) if zoo_cfg else []), *(_names(text) for text in host or [])]
            work.found(members, client or [CLIENT])
            hosts = [names[0] for names in _merged(members)]
            if len(hosts) < len(members):
                say(SHARED, sys.stderr)
            if not json:
                say(_lines(place, directory, (client or [CLIENT])[0], hosts))
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
    """Makes certificates in a directory. tell: takes what was done, as a sentence and for a program."""

    def __init__(self, directory: Path, authority_directory: Path, now: datetime, days: int, tell: Tell) -> None:
        self._directory = directory
        self._authority_directory = authority_directory
        self._now = now
        self._days = days
        self._tell = tell

    def found(self, members: list[list[str]], clients: list[str]) -> None:
        """Make both authorities, and their first certificates."""
        authorities = Authorities(
            Authority.new("members", self._now, CA_DAYS), Authority.new("clients", self._now, CA_DAYS)
        )
        is_within = self._authority_directory.parent == self._directory
        new = self._issue(authorities, _merged(members), clients)
        with new_directory(self._directory) as aside:
            lists = {kind: authorities.of(kind).revoked({}, 1, self._now) for kind in KINDS}
            made = list(self._write(aside, authorities, lists, new))
            keys = aside / self._authority_directory.name if is_within else self._authority_directory
            write_authorities(keys, authorities, _given(new), lists)
        self._tell(
            f"authorities: {self._authority_directory}; keep their keys apart, they sign further certificates only",
            {"type": "authorities", "directory": str(self._authority_directory)},
        )
        for path, issued in made:
            self._tell_made(path, issued)

    def add(self, members: list[list[str]], clients: list[str]) -> None:
        authorities = read_authorities(self._authority_directory)
        new = self._issue(authorities, _merged(members), clients)
        for path in [self._directory / each.kind / each.name for each in new]:
            if path.exists():
                raise FileExistsError(f"{path} is there already, and is not overwritten")
        for kind, given in _given(new).items():
            note(self._authority_directory, kind, given)
        lists = {kind: list_of(self._authority_directory, kind) for kind in KINDS}
        for path, issued in self._write(self._directory, authorities, lists, new):
            self._tell_made(path, issued)

    def renew(self) -> None:
        authorities = read_authorities(self._authority_directory)
        found = [(kind, path) for kind in KINDS for path in holders(self._directory / kind)]
        if not found:
            raise AuthorityError(f"{self._directory}: there is no member and no client in it")
        for kind, path in found:
            issued = renew_holder(
                path,
                authorities.of(kind),
                self._now,
                self._days,
                lambda made, kind=kind, path=path: note(  # type: ignore[misc]
                    self._authority_directory, kind, [Given(path.name, made.certificate)]
                ),
            )
            self._tell_made(path, issued)

    def revoke(self, names: Mapping[str, list[str]]) -> None:
        """Revoke all certificates of these names, of each kind, so far."""
        authorities = read_authorities(self._authority_directory)
        for kind in [kind for kind in KINDS if names[kind]]:
            current, counts = revoke(self._authority_directory, kind, authorities.of(kind), names[kind], self._now)
            for name, count in counts.items():
                whose = kind.removesuffix("s")
                self._tell(
                    f"{whose} {name}: {count} more of its certificates are not good any more",
                    {"type": "revoked", "kind": whose, "name": name, "count": count},
                )
            for holder in holders(self._directory / MEMBERS):
                store = holder / f"{STORE_OF[kind]}.pem"
                replace_list(store, current)
                self._tell(f"new: {store}", {"type": "list", "path": str(store)})

    def _issue(self, authorities: Authorities, members: list[list[str]], clients: list[str]) -> list[_New]:
        new = [_New(MEMBERS, names[0], authorities.members.member(names, self._now, self._days)) for names in members]
        new += [
            _New(CLIENTS, name, authorities.clients.client(name, self._now, self._days))
            for name in dict.fromkeys(clients)
        ]
        return new

    def _tell_made(self, path: Path, issued: Issued) -> None:
        until, kind = issued.certificate.not_valid_after_utc, path.parent.name.removesuffix("s")
        fields = {
            "type": kind,
            "name": path.name,
            "directory": str(path),
            "until": time_text(round(until.timestamp() * 1000)),
        }
        self._tell(f"{kind} {path.name}: {path}, until {until:%Y-%m-%d}", fields)

    def _write(
        self, directory: Path, authorities: Authorities, lists: Lists, new: list[_New]
    ) -> Iterator[tuple[Path, Issued]]:
        """Write new members and clients; yields the final directory and the certificate of each."""
        believed = {STORE_OF[kind]: Trusted(authorities.of(kind).certificate, lists[kind]) for kind in KINDS}
        of_clients = {TRUST_STORE: Trusted(authorities.members.certificate)}
        for each in new:
            trusted = believed if each.kind == MEMBERS else of_clients
            write_holder(directory / each.kind / each.name, each.issued, trusted)
            yield self._directory / each.kind / each.name, each.issued


@frozen
class _New:
    """A new member or client, before it is written."""

    kind: str
    name: str
    issued: Issued


def _given(new: list[_New]) -> dict[str, list[Given]]:
    """By kind."""
    return {kind: [Given(each.name, each.issued.certificate) for each in new if each.kind == kind] for kind in KINDS}


def _names(text: str) -> list[str]:
    """The names of one member. Raises AuthorityError."""
    names = [part.strip().strip("[]") for part in text.split(",")]
    member_names(names)
    return names


def _merged(members: list[list[str]]) -> list[list[str]]:
    """Merge members with the same first name: those on one machine share its certificate."""
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
        names = [*line.hosts, *(host for host in client_hosts if host not in _WILDCARDS)]
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


def _lines(place: Path, directory: Path, client_name: str, hosts: list[str]) -> str:
    """Instructions: what to copy, and which lines to add where."""
    client = (directory / CLIENTS / client_name).absolute()
    servers = ",".join(f"{f'[{host}]' if ':' in host else host}:{SECURE_CLIENT_PORT}" for host in hosts)
    return f"""
copy what is in the directory of each member to {place} on its machine, for the user that runs it, as at {hosts[0]}:

cp -pr {directory / MEMBERS / hosts[0]}/. {place}

add to its zoo.cfg, beside dataDir and the server lines, and without clientPort:

secureClientPort={SECURE_CLIENT_PORT}
ssl.keyStore.location={place / KEY_STORE}.pem
ssl.trustStore.location={place / TRUST_STORE}.pem
ssl.clientAuth=need
ssl.crl=true
client.certReload=true
sslQuorum=true
ssl.quorum.keyStore.location={place / KEY_STORE}.pem
ssl.quorum.trustStore.location={place / QUORUM_TRUST_STORE}.pem
ssl.quorum.crl=true
sslQuorumReloadCertFiles=true

a client of zab, in ~/.config/zab/config.toml:

[profiles.default]
hosts = "{servers}"
tls = true
ca = "{client / TRUST_STORE}.pem"
key-store = "{client / KEY_STORE}.pem"

kazoo:

KazooClient(hosts="{servers}", use_ssl=True, ca="{client / TRUST_STORE}.pem",
            certfile="{client / KEY_STORE}.pem", keyfile="{client / KEY_STORE}.pem")

Java, which needs netty beside ZooKeeper's jar, in its ZKClientConfig (zkCli.sh -client-configuration FILE):

zookeeper.client.secure=true
zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty
zookeeper.ssl.keyStore.location={client / KEY_STORE}.p12
zookeeper.ssl.keyStore.passwordPath={client / PASSWORD}
zookeeper.ssl.trustStore.location={client / TRUST_STORE}.p12
zookeeper.ssl.trustStore.passwordPath={client / PASSWORD}"""
