"""Servers with files of their own, ours or ZooKeeper's, which join, leave and move while the ensemble runs.

    with growing("zookeeper") as servers:
        servers.start(1, servers.line(1), servers.line(2))
        servers.start(2, servers.line(1), servers.line(2))
        servers.wait(1, 2)
        servers.reconfig(1, joining=servers.line(3))

What is said in `zookeeper_server` about killing and watchdogs holds here.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.rigs.waiting import until
from tests.rigs.zab_server import zab_member
from tests.rigs.zookeeper_server import (
    LOOPBACK,
    NO_ADMIN,
    ZooKeeperEnsemble,
    ZooKeeperMember,
    options_of,
    zookeeper_member,
)
from zab.client.core.exceptions import ConnectionLossError, ReconfigInProgressError
from zab.client.sync import connect
from zab.configuration.dynamic import Ensemble
from zab.configuration.reconfiguration import ensemble_of
from zab.testing.kit.ports import free_ports

LINES: dict[str, str | int] = {
    **NO_ADMIN,
    "tickTime": 500,
    "initLimit": 40,
    "syncLimit": 40,
    "maxClientCnxns": 0,
    "reconfigEnabled": "true",
    "skipACL": "yes",
    "4lw.commands.whitelist": "*",
}
QUORUM, ELECTION, CLIENT = range(3)
SESSION_MS = 20_000
_PATH = "/works"


class Growing:
    """All servers that a test has made, and where each of them is."""

    def __init__(
        self, kind: str, directory: Path, lines: dict[str, str | int], properties: Mapping[str, str | int]
    ) -> None:
        self.kind = kind
        self._properties = properties
        self._directory = directory
        self._lines = {**LINES, **lines}
        self._ports: dict[int, list[int]] = {}
        self.members: dict[int, ZooKeeperMember] = {}
        self._writes = 0

    def ports(self, sid: int) -> list[int]:
        """The ports of quorum, election and clients."""
        return self._ports.setdefault(sid, free_ports(3))

    def line(self, sid: int, role: str = "participant", *, has_client_port: bool = True, host: str = LOOPBACK) -> str:
        quorum, election, client = self.ports(sid)
        client_part = f";{LOOPBACK}:{client}" if has_client_port else ""
        return f"server.{sid}={host}:{quorum}:{election}:{role}{client_part}"

    def move(self, sid: int, *which: int) -> None:
        """`line` says other ports of this server from now on."""
        for kind, port in zip(which, free_ports(len(which)), strict=True):
            self.ports(sid)[kind] = port

    def make(self, sid: int, *servers: str, **lines: str | int) -> ZooKeeperMember:
        """A server that is not started, whose file has these server lines."""
        place = self._directory / f"server{sid}"
        client = {"clientPort": self.ports(sid)[CLIENT], "clientPortAddress": LOOPBACK}
        own = dict(line.split("=", 1) for line in servers)
        text = {**self._lines, **client, **own, **lines}
        if self.kind == "zab":
            self.members[sid] = zab_member(sid, place, {**text, **self._properties})
        else:
            self.members[sid] = zookeeper_member(sid, place, text, options_of(None, self._properties))
        return self.members[sid]

    def start(self, sid: int, *servers: str, **lines: str | int) -> ZooKeeperMember:
        member = self.make(sid, *servers, **lines)
        member.start()
        return member

    def wait(self, *sids: int) -> None:
        """Until these serve."""
        ZooKeeperEnsemble([self.members[sid] for sid in sids]).wait()

    def kill(self, *sids: int) -> None:
        for sid in sids:
            self.members[sid].kill()

    def leader(self) -> int:
        """Which one leads; waits for it."""
        return ZooKeeperEnsemble(list(self.members.values())).leader().server_id

    def has_mode(self, sid: int, mode: str) -> None:
        """Waits for it."""
        until(lambda: self.members[sid].mode() == mode, f"server {sid} is {mode}")

    def figure(self, sid: int, name: str) -> str:
        """As `mntr` has it; empty if there is none."""
        figures = dict(line.split("\t", 1) for line in self.members[sid].word("mntr").splitlines() if "\t" in line)
        return figures.get(f"zk_{name}", "")

    def reconfig(self, sid: int, **request: str | int) -> None:
        """By a client of this server; again where the connection is lost, and while another one is under way."""

        def is_done() -> bool:
            try:
                with connect(self.members[sid].host, session_timeout_ms=SESSION_MS) as zk:
                    zk.reconfig(**request)  # type: ignore[arg-type]
            except (ConnectionLossError, ReconfigInProgressError):
                return False
            return True

        until(is_done, "a reconfiguration")

    def shown(self, sid: int) -> Ensemble:
        """What this server says is in force, once it has all that was written before."""
        with connect(self.members[sid].host, session_timeout_ms=SESSION_MS) as zk:
            zk.retrying().sync("/")
            return ensemble_of(zk.retrying().get_config()[0] or b"")

    def show(self, lines: list[str], *sids: int) -> int:
        """Wait until each of these shows these lines; the version."""
        wanted = in_any_order(ensemble_of("\n".join(lines).encode()))
        seen = ""

        def shows(sid: int) -> bool:
            nonlocal seen
            try:
                shown = self.shown(sid)
            except ConnectionLossError:
                seen = "nothing: it serves nobody"
                return False
            seen = str(shown)
            return in_any_order(shown) == wanted

        for sid in sids:
            until(partial(shows, sid), lambda sid=sid: f"server {sid} shows {lines}, and not {seen}")  # type: ignore[misc]
        versions = {self.shown(sid).version for sid in sids}
        assert len(versions) == 1
        return versions.pop()

    def work(self, *sids: int) -> None:
        """Each of these takes a write, and each reads it."""
        for writer in sids:
            self._writes += 1
            data = b"%d" % self._writes
            with connect(self.members[writer].host, session_timeout_ms=SESSION_MS) as zk:
                zk.retrying().ensure_path(_PATH)
                zk.retrying().set(_PATH, data)
            for reader in sids:
                with connect(self.members[reader].host, session_timeout_ms=SESSION_MS) as zk:
                    zk.retrying().sync(_PATH)
                    assert zk.retrying().get(_PATH)[0] == data


def in_any_order(ensemble: Ensemble) -> dict[str, set[str]]:
    """The addresses of a server are the same in any order (D96). ZooKeeper keeps those of the quorum and those of the
    election apart, so of several at one host it may show the port of one with that of another."""
    lines = (line.partition("=") for line in ensemble.lines.replace(":participant", "|:participant").splitlines())
    return {key: {part for each in value.split("|") for part in _apart(each)} for key, _, value in lines}


def _apart(address: str) -> tuple[str, ...]:
    """host:quorum and host:election; what else a line has stays one."""
    host, *ports = address.split(":")
    return (f"{host}:{ports[0]}:", f"{host}::{ports[1]}") if host and len(ports) == 2 else (address,)


@contextlib.contextmanager
def growing(kind: str, properties: Mapping[str, str | int] | None = None, **lines: str | int) -> Iterator[Growing]:
    """An ensemble without servers yet; all are killed at the end. `lines` are added to all files, or replace lines.
    `properties`: further ones, which are system properties without `zookeeper.` of the real one."""
    with tempfile.TemporaryDirectory(prefix=f"{kind}-", ignore_cleanup_errors=True) as directory:
        servers = Growing(kind, Path(directory), lines, properties or {})
        try:
            yield servers
        finally:
            for member in servers.members.values():
                member.kill()


@contextlib.contextmanager
def grown(kind: str, size: int, observers: tuple[int, ...] = (), **lines: str | int) -> Iterator[Growing]:
    """An ensemble with servers 1 to `size`, which all know each other and serve."""
    with growing(kind, **lines) as servers:
        own = [servers.line(sid, "observer" if sid in observers else "participant") for sid in range(1, size + 1)]
        for sid in range(1, size + 1):
            servers.start(sid, *own)
        servers.wait(*range(1, size + 1))
        yield servers
