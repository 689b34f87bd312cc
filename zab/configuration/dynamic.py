"""ZooKeeper's dynamic configuration: who the members are, how much each one's vote weighs.

    server.<id> = <address>[|<address>...][:participant|observer][;[<clientHost>:]<clientPort>][;<secure>]
    <address>   = <host>:<quorumPort>:<electionPort>
    group.<gid> = <id>[:<id>...]
    weight.<id> = <n>
    version     = <hex>

IPv6 addresses are written in brackets. The two ports of a member differ. A member without a role is a participant, a
client part without a host listens on all addresses. Of several addresses, on as many networks, each is listened on, and
the first in the line that is reached is used. With any `group` or `weight` line every participant is in exactly one
group and weighs 1 unless told otherwise; quorums are then hierarchical.

The lines are in `zoo.cfg` itself or in the file that `dynamicConfigFile` names; `config.py` finds them and hands them
over. Hosts are kept as written; nobody resolves a name here.

Not here: the quorum rule itself (`zab/quorum/quorums.py`); whether a line may have several addresses (`config`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping

from attrs import field, frozen

from zab.configuration.properties import Property

# The id is the first byte of every session id that its server hands out.
SERVER_ID_MAX = 255
CLIENT_HOST_DEFAULT = "0.0.0.0"
ADDRESSES_MAX = 8
"""The addresses of one member: one on each network that connects it with the others."""

_DYNAMIC_KEY = re.compile(r"(server|group|weight)\.(.*)")
_HOST_AND_REST = re.compile(r"(?:\[([^\]]*)\]|([^:\[\]]*))(?::(.*))?")


class Role(enum.Enum):
    """What a server line, or `peerType`, makes of a member."""

    PARTICIPANT = "participant"
    OBSERVER = "observer"


class LineError(ValueError):
    """A line that cannot be accepted; `config.py` adds the file. Line 0: the lines together are wrong."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line
        self.reason = reason


@frozen
class MemberAddress:
    """Where the other members reach one, on one network."""

    host: str
    quorum_port: int
    election_port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.quorum_port}:{self.election_port}"


@frozen
class ServerLine:
    """One `server.<id>` line. `client_host` and `client_port` are None where the line has no client part; `others` are
    its addresses after the first."""

    server_id: int
    host: str
    quorum_port: int
    election_port: int
    role: Role
    client_host: str | None
    client_port: int | None
    others: tuple[MemberAddress, ...] = ()
    has_secure_part: bool = False

    def __str__(self) -> str:
        """The canonical text of ZooKeeper, as in `/zookeeper/config`."""
        text = f"server.{self.server_id}={'|'.join(map(str, self.addresses))}:{self.role.value}"
        if self.client_port is not None:
            assert self.client_host is not None
            text += f";{bracketed(self.client_host)}:{self.client_port}"
        return text

    @property
    def addresses(self) -> tuple[MemberAddress, ...]:
        """All, in the order in which they are tried."""
        return MemberAddress(self.host, self.quorum_port, self.election_port), *self.others

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(address.host for address in self.addresses))


@frozen
class Ensemble:
    """All members by id. `groups` is empty where a plain majority of the participants is a quorum."""

    servers: Mapping[int, ServerLine] = field(factory=dict)
    groups: Mapping[int, tuple[int, ...]] = field(factory=dict)
    weights: Mapping[int, int] = field(factory=dict)
    version: int = 0

    @property
    def participants(self) -> frozenset[int]:
        return self._ids_with(Role.PARTICIPANT)

    @property
    def observers(self) -> frozenset[int]:
        return self._ids_with(Role.OBSERVER)

    def _ids_with(self, role: Role) -> frozenset[int]:
        return frozenset(server_id for server_id, line in self.servers.items() if line.role is role)

    def __str__(self) -> str:
        """The canonical text: lines by id, the version last, without a newline at the end."""
        return f"{self.lines}\nversion={self.version:x}" if self.servers else f"version={self.version:x}"

    @property
    def lines(self) -> str:
        """The text without the version."""
        lines = [str(self.servers[server_id]) for server_id in sorted(self.servers)]
        lines += [f"group.{gid}={':'.join(map(str, ids))}" for gid, ids in sorted(self.groups.items())]
        if self.groups:
            lines += [f"weight.{server_id}={weight}" for server_id, weight in sorted(self.weights.items())]
        return "\n".join(lines)


def duplicate_ports(ensemble: Ensemble) -> Iterator[tuple[int, str]]:
    """Each server that has a port of one before it, or one port twice, and what is wrong."""
    taken: dict[tuple[str, int], int] = {}
    for server_id, line in ensemble.servers.items():
        places = [(each.host, port) for each in line.addresses for port in (each.quorum_port, each.election_port)]
        if line.client_host in line.hosts and line.client_port is not None:
            places.append((line.client_host, line.client_port))
        for place in dict.fromkeys(places):
            other = taken.setdefault(place, server_id)
            if other != server_id or places.count(place) > 1:
                yield server_id, f"port {place[1]} of {place[0]} is already that of server.{other}"


def bracketed(host: str) -> str:
    """The host as it is written before a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def is_dynamic(key: str) -> bool:
    """Whether `key` belongs to the dynamic configuration (`version` aside, which only its own file may not have)."""
    return _DYNAMIC_KEY.fullmatch(key) is not None


def parse_dynamic(entries: list[Property], version: int = 0) -> Ensemble:
    """The ensemble that the dynamic `entries` describe. Raises LineError."""
    ensemble, errors = read_dynamic(entries, version)
    if errors:
        raise errors[0]
    return ensemble


def read_dynamic(
    entries: list[Property], version: int, stand_in: Role | None = None
) -> tuple[Ensemble, list[LineError]]:
    """The ensemble, and all that is wrong with the entries. A server with an invalid line is left out, or is a member
    of the role `stand_in`."""
    servers: dict[int, ServerLine] = {}
    groups: dict[int, tuple[int, ...]] = {}
    weights: dict[int, int] = {}
    errors: list[LineError] = []
    groups_are_known = True
    for entry in entries:
        match = _DYNAMIC_KEY.fullmatch(entry.key)
        assert match is not None, entry.key
        kind, number = match[1], -entry.line  # no other line has this number, if its own is none
        try:
            number = _number(match[2], entry.line, f"the number in {entry.key}")
            if entry.fault:
                raise LineError(entry.line, entry.fault)
            if kind == "server":
                servers[number] = _server_line(number, entry)
            elif kind == "group":
                ids = tuple(_number(part, entry.line, "a server id") for part in entry.value.split(":"))
                _refuse_doubles(ids, {gid: members for gid, members in groups.items() if gid != number}, entry.line)
                groups[number] = ids
            else:
                weights[number] = _number(entry.value, entry.line, "a weight")
        except LineError as error:
            errors.append(error)
            groups_are_known = groups_are_known and kind == "server"
            if kind == "server" and stand_in is not None:
                servers[number] = stand_in_line(number, stand_in)
    ensemble = Ensemble(servers, groups, weights, version)
    if groups_are_known and (groups or weights):
        ensemble = _with_votes(ensemble, errors)
    return ensemble, errors


def _with_votes(ensemble: Ensemble, errors: list[LineError]) -> Ensemble:
    """Check groups and weights against the servers; a participant without a weight weighs 1."""
    grouped = {server_id for members in ensemble.groups.values() for server_id in members}
    for server_id in sorted(ensemble.participants - grouped):
        reason = f"server {server_id} is in no group: with groups or weights every participant is in one"
        errors.append(LineError(0, reason))
    for server_id in sorted((grouped | ensemble.weights.keys()) - ensemble.servers.keys()):
        errors.append(LineError(0, f"group or weight of server {server_id}, which has no server.{server_id} line"))
    complete = {server_id: ensemble.weights.get(server_id, 1) for server_id in sorted(ensemble.participants)}
    if not any(complete.values()) and (complete or not errors):
        errors.append(LineError(0, "every weight is 0: no quorum could ever form"))
    return Ensemble(ensemble.servers, ensemble.groups, complete, ensemble.version)


def stand_in_line(server_id: int, role: Role) -> ServerLine:
    """In place of a line that is not known: a server on this machine, with ports that nobody has."""
    return ServerLine(server_id, "127.0.0.1", -2 * abs(server_id) - 1, -2 * abs(server_id) - 2, role, None, None)


def _refuse_doubles(ids: tuple[int, ...], others: dict[int, tuple[int, ...]], line: int) -> None:
    for server_id in ids:
        if ids.count(server_id) > 1 or any(server_id in members for members in others.values()):
            raise LineError(line, f"server {server_id} is in more than one group")


def _server_line(server_id: int, entry: Property) -> ServerLine:
    if server_id > SERVER_ID_MAX:
        raise LineError(entry.line, f"server id {server_id} is above {SERVER_ID_MAX}")
    members, *client_parts = entry.value.split(";")
    if len(client_parts) > 2:
        raise LineError(entry.line, f"{entry.key} has more than a client and a secure client part")
    parts = [_member_part(part, entry) for part in members.split("|")]
    if len(parts) > ADDRESSES_MAX:
        raise LineError(entry.line, f"{entry.key} has {len(parts)} addresses, more than {ADDRESSES_MAX}")
    [first, *others] = [address for address, _ in parts]
    roles = {role for _, role in parts if role is not None}
    if len(roles) > 1:
        raise LineError(entry.line, f"{entry.key} is participant and observer: a member has one role")
    client_host, client_port = (
        _client_part(client_parts[0], entry) if client_parts and client_parts[0] else (None, None)
    )
    return ServerLine(
        server_id,
        first.host,
        first.quorum_port,
        first.election_port,
        roles.pop() if roles else Role.PARTICIPANT,
        client_host,
        client_port,
        tuple(others),
        len(client_parts) == 2,
    )


def _member_part(text: str, entry: Property) -> tuple[MemberAddress, Role | None]:
    host, rest = _split_host(text, entry)
    parts = rest.split(":") if rest else []
    if not host or len(parts) not in (2, 3):
        raise LineError(
            entry.line,
            f"{text.strip()!r} does not have the form host:quorumPort:electionPort[:participant|observer]"
            " (an IPv6 address is written in brackets)",
        )
    quorum_port, election_port = (parse_port(part, entry.line) for part in parts[:2])
    if quorum_port == election_port:
        raise LineError(entry.line, f"{entry.key}: quorum port and election port are both {quorum_port}")
    role = parse_role(parts[2], entry.line) if parts[2:] else None
    return MemberAddress(host, quorum_port, election_port), role


def _client_part(text: str, entry: Property) -> tuple[str, int]:
    if ":" not in text:
        return CLIENT_HOST_DEFAULT, parse_port(text, entry.line)
    host, rest = _split_host(text, entry)
    return host or CLIENT_HOST_DEFAULT, parse_port(rest or "", entry.line)


def _split_host(text: str, entry: Property) -> tuple[str, str | None]:
    match = _HOST_AND_REST.fullmatch(text.strip())
    if match is None:
        raise LineError(entry.line, f"{entry.key}: {text.strip()!r} is no host and ports")
    host: str = match[2] if match[1] is None else match[1]
    return host, match[3]


def parse_role(text: str, line: int) -> Role:
    """`participant` or `observer` in any case."""
    try:
        return Role(text.strip().lower())
    except ValueError:
        raise LineError(line, f"unrecognised role {text.strip()!r}: participant or observer") from None


def parse_port(text: str, line: int) -> int:
    """A TCP port, 1 to 65535."""
    port = _number(text, line, "a port")
    if not 1 <= port <= 65535:
        raise LineError(line, f"port {port} is not between 1 and 65535")
    return port


def _number(text: str, line: int, what: str) -> int:
    # Not all that `strip` takes for blanks are some for `int`.
    if not re.fullmatch(r"[0-9]{1,18}", text.strip(" \t\f"), re.ASCII):
        raise LineError(line, f"{text.strip()!r} is not a number ({what})")
    return int(text)
