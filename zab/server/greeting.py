"""The first frame of a connection to a quorum port, in both directions.

    Hello               this is server so-and-so: a quorum link from here on
    SnapshotRequest     the sender wants a snapshot, and no link (`zab.member.snapshot_request`)

Not here: the greeting of election links, which say only `Hello` (`election_links`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from socket import socket

from zab.host.links import TakeOver
from zab.ids import ServerId
from zab.member.snapshot_request import SnapshotRequest
from zab.message import PROTOCOL_VERSION, Hello
from zab.wire.records import Codec, MessageError

_CODEC: Codec[Hello | SnapshotRequest] = Codec((Hello, SnapshotRequest))


class Greeting:
    """How one server greets on its quorum links, and which connections it accepts."""

    def __init__(self, sid: ServerId, servers: Iterable[int], serve: Callable[[socket, SnapshotRequest], None]) -> None:
        """`servers` are the ids of the ensemble. `serve` gets the connections of those who want a snapshot."""
        self._sid = sid
        self._others = frozenset(servers) - {sid}
        self._serve = serve

    def hello(self) -> bytes:
        """What this server says first."""
        return _CODEC.encode(Hello(PROTOCOL_VERSION, self._sid))

    def greeted(self, payload: bytes) -> int | TakeOver:
        """See `zab.host.links.Greeted`."""
        first = _CODEC.decode(payload)
        if isinstance(first, SnapshotRequest):
            return lambda sock: self._serve(sock, first)
        if first.version != PROTOCOL_VERSION:
            raise MessageError(f"server {first.sid} speaks version {first.version}, not {PROTOCOL_VERSION}")
        if first.sid not in self._others:
            raise MessageError(f"server {first.sid} is no other server of this ensemble")
        return first.sid
