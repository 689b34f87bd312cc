"""The HTTP ports of a service, served by tasks beside the loop.

    ports = HttpPorts(idle_ms=…, connections_max=…)
    await ports.open("metrics", host, port, application)      a port that cannot be bound is skipped with a warning
    await ports.run()                                         serves until cancelled
    ports.close()                                             closes what was opened and not run

Not here: the answers.
"""

from __future__ import annotations

import socket
from typing import Any

import attrs
import trio

from zab.host.http.http_server import HttpServer
from zab.host.journal.journal import Journal
from zab.host.loop.dial import numeric
from zab.host.loop.listener import open_listener

journal = Journal("http")


@attrs.define(kw_only=True)
class HttpPorts:
    """The ports of one service. Each has `connections_max` connections of its own."""

    idle_ms: int = 30_000
    connections_max: int = 32
    _opened: list[tuple[HttpServer, socket.socket]] = attrs.field(factory=list, init=False)

    async def open(self, name: str, host: str, port: int, application: Any) -> HttpServer | None:
        """Bind a port for an ASGI application; None if it cannot be bound."""
        try:
            sock = open_listener(await numeric(host, port), port)
        except OSError as error:
            reason = error.strerror or str(error)
            journal.warning("no HTTP server: cannot listen", name=name, host=host, port=port, reason=reason)
            return None
        server = HttpServer(application, self.idle_ms, self.connections_max)
        self._opened.append((server, sock))
        journal.info("HTTP server", name=name, host=host, port=port)
        return server

    async def run(self) -> None:
        """Serve until cancelled."""
        async with trio.open_nursery() as nursery:
            while self._opened:
                server, sock = self._opened.pop()
                nursery.start_soon(server.serve, sock)

    def close(self) -> None:
        """Close the ports that were opened and not run."""
        for _, sock in self._opened:
            sock.close()
