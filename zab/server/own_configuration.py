"""What a server does for itself when a configuration comes into force: it listens where that says, and writes it down.

    ports     client, quorum and election port of its own line. The new port is bound before the old one is closed, and
              connections that are open stay. One that cannot be bound is said, and the server stays where it is
    files     `dynamic_file`, where the server was started with a file. One that cannot be written is said

Only the newest counts: what came into force meanwhile is passed over.

Not here: where the others are (`address_book`), and what a configuration decides.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TypeAlias

import attrs
import trio

from zab.configuration.dynamic import Ensemble
from zab.host.journal import Journal
from zab.host.listener import EVERYWHERE
from zab.member.config import ConfigError
from zab.member.settings import Config
from zab.server.binding import Sockets, listen
from zab.server.dynamic_file import write_configuration
from zab.server.failure import ServerFailedError
from zab.server.quorum_host import quorum_host

BIND_TRIES = 3

Move: TypeAlias = Callable[[socket.socket, socket.socket], None]
Place: TypeAlias = tuple[str, int]
"""Host, port."""

journal = Journal("server")


@attrs.frozen
class Moves:
    """Who is told that another socket listens now."""

    client: Move
    quorum: Move
    election: Move


class OwnConfiguration:
    """Of one server. `comes_into_force` belongs to trio's thread; `run` is a task."""

    def __init__(self, config: Config, in_force: Ensemble, sockets: Sockets, moves: Moves) -> None:
        self._config = config
        self._in_force = in_force
        self._sockets = sockets
        self._moves = moves
        self._places: dict[str, Place] = {}
        self._news = trio.Event()

    def comes_into_force(self, ensemble: Ensemble) -> None:
        self._in_force = ensemble
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        self._places = await self._wanted(self._config.ensemble)
        while True:
            self._news = trio.Event()
            if self._in_force.version:
                await self._move()
                await self._write()
            await self._news.wait()

    async def _wanted(self, ensemble: Ensemble) -> dict[str, Place]:
        """Where this configuration says that this server listens; nothing if it does not belong to it. Raises
        ServerFailedError where it may not listen there."""
        here = attrs.evolve(self._config, ensemble=ensemble)
        line = ensemble.servers.get(here.server_id)
        if line is None:
            return {}
        host = await quorum_host(here)
        wanted = {"quorum": (host, line.quorum_port), "election": (host, line.election_port)}
        if here.client_address is not None:
            host, port = here.client_address
            wanted["client"] = "" if host in EVERYWHERE else host, port
        return wanted

    async def _move(self) -> None:
        try:
            wanted = await self._wanted(self._in_force)
        except ServerFailedError as error:
            journal.error("the ports of this server stay where they are", reason=error)
            return
        for name, place in wanted.items():
            old: socket.socket | None = getattr(self._sockets, name)
            if place == self._places.get(name) or old is None:
                continue
            backlog_count = self._config.client_port_backlog_count if name == "client" else -1
            try:
                new = await listen(*place, BIND_TRIES, backlog_count)
            except ServerFailedError as error:
                journal.error("a port of this server stays where it is", port=name, reason=error)
                continue
            setattr(self._sockets, name, new)
            self._places[name] = place
            getattr(self._moves, name)(old, new)
            journal.info("listening elsewhere", port=name, host=place[0] or "*", number=place[1])

    async def _write(self) -> None:
        config, ensemble = self._config, self._in_force
        if not config.reconfig_enabled or not config.file:
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
