"""The next configuration: what a request to reconfigure makes of the one in force. Pure; the rules are ZooKeeper's.

    incremental    first those who leave, then those who join; a joiner takes the place of a server with its id
    full           `members` is all of it; a version in it says nothing

Items are separated by commas, those of `members` by line ends as well. Who joins has a client address. Incremental
changes are for plain majorities: with groups and weights the whole configuration has to be said.

Not here: who may ask, versions, and whether the new ones follow (`zab.member.membership.reconfiguring`).
"""

from __future__ import annotations

import re

import attrs

from zab.configuration.dynamic import Ensemble, LineError, ServerLine, duplicate_ports, is_dynamic, parse_dynamic
from zab.configuration.properties import PropertiesError, Property, parse_properties

__all__ = ["ChangeError", "ensemble_of", "next_ensemble"]

_HOST = re.compile(r"[A-Za-z0-9._:%-]{1,253}")


class ChangeError(ValueError):
    """The request makes no sense; says why."""


def ensemble_of(text: bytes) -> Ensemble:
    """The configuration that is written in this text, with its version. Raises ChangeError."""
    entries = _entries(text)
    version = next((entry.value for entry in entries if entry.key == "version"), "0")
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", version, re.ASCII):
        raise ChangeError(f"version {version[:40]!r} is not a hexadecimal number")
    return _checked([entry for entry in entries if entry.key != "version"], int(version, 16))


def next_ensemble(
    before: Ensemble, joining: bytes | None, leaving: bytes | None, members: bytes | None, version: int
) -> Ensemble:
    """What comes after it, with this version. Raises ChangeError."""
    if members:
        return attrs.evolve(ensemble_of(members.replace(b",", b"\n")), version=version)
    if before.groups:
        raise ChangeError("the configuration has groups: give the whole new configuration")
    gone = {_id(item) for item in _items(leaving)}
    servers = {sid: str(line).partition("=")[2] for sid, line in before.servers.items() if sid not in gone}
    joiners = []
    for item in _items(joining):
        key, is_line, line = item.partition("=")
        kind, _, number = key.partition(".")
        if kind.strip() != "server" or not is_line:
            raise ChangeError(f"{item[:80]!r} is not a server line: server.N=host:quorumPort:electionPort;clientPort")
        joiners.append(_id(number))
        servers[joiners[-1]] = line.strip()
    after = _checked([Property(f"server.{sid}", line, 0) for sid, line in servers.items()], version)
    for sid in joiners:
        if after.servers[sid].client_port is None:
            raise ChangeError(f"server.{sid} has no client port, and needs one to join: append ;PORT, in quotes")
    return after


def _items(text: bytes | None) -> list[str]:
    return [item for each in _text(text or b"").split(",") if (item := each.strip())]


def _id(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text.strip(), re.ASCII):
        raise ChangeError(f"{text[:40]!r} is not a server id")
    return int(text)


def _text(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ChangeError("it is no UTF-8") from None


def _entries(text: bytes) -> list[Property]:
    try:
        return parse_properties(_text(text))
    except PropertiesError as error:
        raise ChangeError(error.reason) from None


def _checked(entries: list[Property], version: int) -> Ensemble:
    for entry in entries:
        if not is_dynamic(entry.key):
            raise ChangeError(f"{entry.key[:40]!r} is not allowed: only server.N, group.N, weight.N")
    try:
        ensemble = parse_dynamic(entries, version)
    except LineError as error:
        raise ChangeError(error.reason) from None
    if not ensemble.participants:
        raise ChangeError("there would be no participant, so nobody could vote")
    for line in ensemble.servers.values():
        _check_line(line)
    for server_id, reason in duplicate_ports(ensemble):
        raise ChangeError(f"server.{server_id}: {reason}")
    return ensemble


def _check_line(line: ServerLine) -> None:
    for host in (*line.hosts, line.client_host or "localhost"):
        if not _HOST.fullmatch(host):
            raise ChangeError(f"server.{line.server_id}: {host[:80]!r} is not a host name")
    if line.has_secure_part:
        raise ChangeError(f"server.{line.server_id}: secureClientPort belongs in its own file")
