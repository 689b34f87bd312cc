"""Binds ports. A port that cannot be bound is reported in the journal and ends the start.

    await listen(place)                                 binds one port. Raises ServerFailedError, exit code 14
    await listen_on_all(sockets, places, tries)         binds several places, of which one is enough

It retries a port that another process still uses.

Not here: accepting connections (`zab.host.loop`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import TypeAlias

import trio

from zab.configuration.dynamic import bracketed
from zab.host.journal.journal import Journal
from zab.host.loop.dial import numeric
from zab.host.loop.listener import open_listener
from zab.service.failure import BIND_ERROR, ServerFailedError

journal = Journal("server")


BIND_RETRY_SECONDS = 1.0

Place: TypeAlias = tuple[str, int]
"""Host, port."""


async def listen_on_all(sockets: dict[Place, socket.socket], places: Sequence[Place], tries: int) -> None:
    """Bind to these places, at least one. With `tries` 0, retry until it succeeds: the previous process may still use
    the port."""
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
        # The text that `socket.create_server` adds says nothing new.
        why = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        journal.warning("cannot listen", host=host, port=port, reason=why, attempt=attempt)
        reason = f"cannot listen on {bracketed(host) or '*'}:{port}: {why}"
        raise ServerFailedError(BIND_ERROR, reason) from error
