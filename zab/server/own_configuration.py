"""Applies a new configuration to this server: it moves its ports, and writes its files.

    ports     the client, quorum and election port of its own line, and the one for observers. The new port is bound
              before the old one is closed, and open connections stay. If a port cannot be bound, this is reported, and
              the server stays where it is
    files     `dynamic_file`, if the server was started with a file, and belongs to the configuration: with a file that
              does not name it, it could not be restarted. A failure to write is reported

Only the newest configuration counts: others that came into force meanwhile are skipped.

Not here: the addresses of the others (`address_book`), and other effects of a configuration.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs
import trio

from zab.configuration.dynamic import Ensemble
from zab.host.journal.journal import Journal
from zab.host.loop.listener import EVERYWHERE
from zab.host.process.listening import Place, listen
from zab.member.settings.config import Config
from zab.member.settings.zoo_cfg import ConfigError
from zab.protocol.effects import MembershipsChanged
from zab.server.address_book import AddressBook
from zab.server.binding import Sockets, observer_master_places
from zab.server.config_file import load
from zab.server.dynamic_file import write_configuration
from zab.server.election_links import ElectionLinks
from zab.server.quorum_host import quorum_addresses
from zab.service.failure import ServerFailedError

journal = Journal("server")


@attrs.frozen
class Port:
    """The functions that begin and end accepting on sockets of one kind."""

    listen: Callable[[socket.socket], None]
    leave: Callable[[socket.socket], None]
    """Stops accepting, and closes the socket."""


MovingPorts: TypeAlias = Mapping[str, Port]
"""`client`, `quorum`, `election` and `observer_master`."""


@attrs.frozen
class MembershipChanges:
    """The port `zab.member.ports.Addresses`. It hands each change to the parts of a server that follow it."""

    book: AddressBook
    election: ElectionLinks
    own: OwnConfiguration

    def changed(self, effect: MembershipsChanged) -> None:
        in_force, others = self.book.in_force, self.book.election
        self.book.changed(effect)
        if self.book.in_force is not in_force:
            self.own.comes_into_force(self.book.in_force)
        if self.book.election != others:
            self.election.meet(self.book.election)


class OwnConfiguration:
    """The configuration of one server. `comes_into_force` belongs to trio's thread; `run` is a task."""

    def __init__(self, config: Config, in_force: Ensemble, sockets: Sockets, ports: MovingPorts) -> None:
        self._config = config
        self._in_force = in_force
        self._sockets = sockets
        self._ports = ports
        self._news = trio.Event()

    def comes_into_force(self, ensemble: Ensemble) -> None:
        self._in_force = ensemble
        self._news.set()

    async def run(self) -> None:
        """Apply new configurations until cancelled."""
        while True:
            self._news = trio.Event()
            if self._in_force.version:
                await self._move()
                await self._write()
            await self._news.wait()

    async def _wanted(self) -> dict[str, list[Place]]:
        """The places where this server has to listen by the configuration in force; empty if it does not belong to it.
        Raises ServerFailedError if it may not listen there, and OSError if its host has no address."""
        here = attrs.evolve(self._config, ensemble=self._in_force)
        if here.server_id not in self._in_force.servers:
            return {}
        addresses = await quorum_addresses(here)
        return {
            "client": [] if here.client_address is None else [here.client_address],
            "quorum": [(each.host, each.quorum_port) for each in addresses],
            "election": [(each.host, each.election_port) for each in addresses],
            "observer_master": observer_master_places(here, addresses),
        }

    async def _move(self) -> None:
        try:
            wanted = await self._wanted()
        except (ServerFailedError, OSError) as error:
            journal.error("the ports of this server stay where they are", reason=error)
            return
        for name, places in wanted.items():
            sockets: dict[Place, socket.socket] = getattr(self._sockets, name)
            known = set(map(_plain, sockets))
            for place in places:
                if _plain(place) not in known:
                    await self._listen_there(name, place, sockets)
            kept = set(map(_plain, places))
            if kept & set(map(_plain, sockets)):
                for place in [place for place in sockets if _plain(place) not in kept]:
                    self._ports[name].leave(sockets.pop(place))

    async def _listen_there(self, name: str, place: Place, sockets: dict[Place, socket.socket]) -> None:
        try:
            sock = await listen(place, self._config.clients.backlog_count if name == "client" else -1)
        except ServerFailedError as error:
            journal.error("a port of this server stays where it is", port=name, reason=error)
            return
        sockets[place] = sock
        self._ports[name].listen(sock)
        host, port = place
        journal.info("listening elsewhere", port=name, host=host or "*", number=port)

    async def _write(self) -> None:
        config, ensemble = self._config, self._in_force
        if not writes_files(config, ensemble):
            return
        try:
            path = await trio.to_thread.run_sync(write_configuration, config.file, ensemble, config.server_id)
        except (OSError, ConfigError) as error:
            reason = getattr(error, "strerror", None) or error
            journal.warning(
                "the configuration in force cannot be written beside the file; the history has it",
                file=config.file,
                version=f"{ensemble.version:x}",
                reason=reason,
            )
            return
        if path is not None:
            journal.info("the configuration in force is written", file=path)


def writes_files(config: Config, in_force: Ensemble) -> bool:
    """Whether the files of a server have to follow the configuration in force."""
    return config.membership.reconfig_enabled and bool(config.file) and config.server_id in in_force.servers


def files_say(config: Config, in_force: Ensemble) -> bool:
    """Whether the files of this server have the configuration in force, so that a start without a history begins with
    it. Reads the files."""
    if not config.file:
        return not in_force.version
    try:
        return load(config.file).ensemble.lines == in_force.lines
    except (OSError, ConfigError):
        return False


def _plain(place: Place) -> Place:
    """The place with one canonical host for all addresses of this machine."""
    host, port = place
    return "" if host in EVERYWHERE else host, port
