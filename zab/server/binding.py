"""The ports of a server: bound before it begins its first turn.

    sockets = await bind(config, quorum_host)     raises ServerFailedError, exit code 14
    sockets.close()
    await listen(host, port, tries)               one more, later

A port that another process still holds is tried again, `electionPortBindRetry` times for those of members.

Not here: who is let in (`zab.host.links`, `zab.host.sockets`); on which address members are listened for (`server`).
"""

from __future__ import annotations

import contextlib
import os
import socket

import trio

from zab.host.journal import Journal
from zab.host.listener import open_listener
from zab.member.settings import Config
from zab.server.dial import numeric
from zab.server.failure import BIND_ERROR, ServerFailedError

BIND_RETRY_SECONDS = 1.0

journal = Journal("server")


class Sockets:
    """The listening sockets; None where there is none of that kind."""

    def __init__(self) -> None:
        self.client: socket.socket | None = None
        self.secure_client: socket.socket | None = None
        self.quorum: socket.socket | None = None
        self.election: socket.socket | None = None

    def close(self) -> None:
        for sock in (self.client, self.secure_client, self.quorum, self.election):
            if sock is not None:
                sock.close()


async def bind(config: Config, quorum_host: str) -> Sockets:
    sockets = Sockets()
    with contextlib.ExitStack() as undo:
        undo.callback(sockets.close)
        line = config.own_line
        if not config.is_standalone and line is not None:
            tries = config.election_port_bind_retry_count
            sockets.election = await listen(quorum_host, line.election_port, tries)
            sockets.quorum = await listen(quorum_host, line.quorum_port, tries)
        if config.client_address is not None:
            host, port = config.client_address
            sockets.client = await listen(host, port, 1, config.client_port_backlog_count)
        if config.secure_client_address is not None:
            host, port = config.secure_client_address
            sockets.secure_client = await listen(host, port, 1, config.client_port_backlog_count)
        undo.pop_all()
    return sockets


async def listen(host: str, port: int, tries: int, backlog_count: int = -1) -> socket.socket:
    """Bind; with `tries` 0 until it succeeds. The process before may still hold the port. Raises ServerFailedError."""
    attempt = 0
    while True:
        attempt += 1
        try:
            return open_listener(await numeric(host, port), port, backlog_count)
        except OSError as error:
            # What `socket.create_server` adds to it says nothing new.
            why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
            journal.warning("cannot listen", host=host, port=port, reason=why, attempt=attempt)
            if attempt == tries:
                reason = f"cannot listen on {host or '*'}:{port}: {why}"
                raise ServerFailedError(BIND_ERROR, reason) from error
        await trio.sleep(BIND_RETRY_SECONDS)
