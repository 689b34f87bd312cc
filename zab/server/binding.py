"""The ports of a server: bound before it begins its first turn.

    sockets = await bind(config, addresses)     raises ServerFailedError, exit code 14
    sockets.close()
    await listen(place)                         one more, later

A port that another process still holds is tried again, `electionPortBindRetry` times for those of members. Of several
addresses for members one is enough: the network of another one may be down.

Not here: who is let in (`zab.host.loop.links`, `zab.host.loop.sockets`); on which address members are listened for
(`server`).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import TypeAlias

import trio

from zab.configuration.dynamic import MemberAddress, bracketed
from zab.host.journal.journal import Journal
from zab.host.loop.dial import numeric
from zab.host.loop.listener import open_listener
from zab.host.process.failure import BIND_ERROR, ServerFailedError
from zab.member.settings.config import Config

BIND_RETRY_SECONDS = 1.0

Place: TypeAlias = tuple[str, int]
"""Host, port."""

journal = Journal("server")


class Sockets:
    """The listening sockets of each kind, by the place at which each was asked for."""

    def __init__(self) -> None:
        self.client: dict[Place, socket.socket] = {}
        self.secure_client: dict[Place, socket.socket] = {}
        self.quorum: dict[Place, socket.socket] = {}
        self.election: dict[Place, socket.socket] = {}
        self.observer_master: dict[Place, socket.socket] = {}

    def close(self) -> None:
        for kind in (self.client, self.secure_client, self.quorum, self.election, self.observer_master):
            for sock in kind.values():
                sock.close()


async def bind(config: Config, addresses: Sequence[MemberAddress]) -> Sockets:
    """`addresses`: where to listen for other members."""
    sockets = Sockets()
    with contextlib.ExitStack() as undo:
        undo.callback(sockets.close)
        tries = config.membership.election_port_bind_retry_count
        await _listen_on_all(sockets.election, [(each.host, each.election_port) for each in addresses], tries)
        await _listen_on_all(sockets.quorum, [(each.host, each.quorum_port) for each in addresses], tries)
        await _listen_on_all(sockets.observer_master, observer_master_places(config, addresses), tries)
        if config.client_address is not None:
            sockets.client[config.client_address] = await listen(config.client_address, config.clients.backlog_count)
        place = config.secure_client_address
        if place is not None:
            sockets.secure_client[place] = await listen(place, config.clients.backlog_count)
        undo.pop_all()
    return sockets


def observer_master_places(config: Config, addresses: Sequence[MemberAddress]) -> list[Place]:
    """Where a server listens for observers; nowhere if it is one itself."""
    if not config.membership.observer_master_port or config.server_id not in config.ensemble.participants:
        return []
    return list(dict.fromkeys((each.host, config.membership.observer_master_port) for each in addresses))


async def _listen_on_all(sockets: dict[Place, socket.socket], places: Sequence[Place], tries: int) -> None:
    """Bind to these places, one at least. With `tries` 0 until it succeeds: the process before may still hold it."""
    missing = list(places)
    attempt = 0
    while missing:
        attempt += 1
        for place in list(missing):
            try:
                sockets[place] = await listen(place, attempt=attempt)
                missing.remove(place)
            except ServerFailedError:
                if attempt == tries and len(missing) == len(places) and place == missing[-1]:
                    raise
        if attempt == tries or (tries == 0 and sockets):
            return
        if missing:
            await trio.sleep(BIND_RETRY_SECONDS)


async def listen(place: Place, backlog_count: int = -1, *, attempt: int = 1) -> socket.socket:
    """Bind to one place. Raises ServerFailedError."""
    host, port = place
    try:
        return open_listener(await numeric(host, port), port, backlog_count)
    except OSError as error:
        # What `socket.create_server` adds to it says nothing new.
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        journal.warning("cannot listen", host=host, port=port, reason=why, attempt=attempt)
        reason = f"cannot listen on {bracketed(host) or '*'}:{port}: {why}"
        raise ServerFailedError(BIND_ERROR, reason) from error
