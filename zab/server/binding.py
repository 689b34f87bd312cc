"""The ports of a server: bound before it begins its first turn.

    sockets = await bind(config, addresses)     raises ServerFailedError, exit code 14
    sockets.close()

A port that another process still holds is tried again, `electionPortBindRetry` times for those of members. Of several
addresses for members one is enough: the network of another one may be down.

Not here: who is let in (`zab.host.loop.links`, `zab.host.loop.sockets`); on which address members are listened for
(`server`).
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence

from zab.configuration.dynamic import MemberAddress
from zab.host.journal.journal import Journal
from zab.host.process.listening import Place, listen, listen_on_all
from zab.member.settings.config import Config

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
        await listen_on_all(sockets.election, [(each.host, each.election_port) for each in addresses], tries)
        await listen_on_all(sockets.quorum, [(each.host, each.quorum_port) for each in addresses], tries)
        await listen_on_all(sockets.observer_master, observer_master_places(config, addresses), tries)
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
