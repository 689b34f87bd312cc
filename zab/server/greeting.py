"""How a server greets on its quorum port, and to whom it hands a connection over.

Not here: the bytes, and what they mean (`zab.member.greeting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from socket import socket

from zab.host.links import TakeOver
from zab.ids import ServerId
from zab.member.greeting import GREETINGS, greeted
from zab.member.snapshot_request import SnapshotRequest
from zab.message import PROTOCOL_VERSION, Hello


class Greeting:
    """How one server greets on its quorum links, and which connections it accepts."""

    def __init__(self, sid: ServerId, servers: Iterable[int], serve: Callable[[socket, SnapshotRequest], None]) -> None:
        """`servers` are the ids of the ensemble. `serve` gets the connections of those who want a snapshot."""
        self._sid = sid
        self._others = frozenset(servers) - {sid}
        self._serve = serve

    def hello(self) -> bytes:
        """What this server says first."""
        return GREETINGS.encode(Hello(PROTOCOL_VERSION, self._sid))

    def greeted(self, payload: bytes) -> int | TakeOver:
        """See `zab.host.links.Greeted`."""
        first = greeted(payload, self._others)
        if isinstance(first, SnapshotRequest):
            return lambda sock: self._serve(sock, first)
        return first
