"""How a server meets the others: whom it dials, how it takes part in handshakes, to whom it hands connections over.

Not here: the handshake (`zab.wire.handshake`), and where secrets come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from secrets import token_bytes
from socket import socket

import trio

from zab.host.links import TakeOver, say_nothing
from zab.ids import ServerId
from zab.member.greeting import AT_ELECTION_PORT, AT_QUORUM_PORT, Purpose
from zab.server.dial import Address, dial
from zab.wire.handshake import NONCE_BYTES, Agreed, Dialling, Listening, Party


class Greeting:
    """Of one server. `party` is asked for each handshake anew, since secrets change while a server runs."""

    def __init__(
        self,
        sid: ServerId,
        servers: Iterable[int],
        party: Callable[[], Party],
        serve: Callable[[socket, Agreed, bytes], None],
        *,
        is_insecure: bool = False,
        refused: Callable[[str, str], None] = say_nothing,
    ) -> None:
        """`servers` are the ids of the ensemble. `serve` gets the connections of those who want a snapshot.
        `is_insecure`: see `quorum.insecure`. `refused` is told the host of each inbound connection that ended without
        proof, and why."""
        self._others = frozenset(servers) - {sid}
        self._party = party
        self._serve = serve
        self._is_insecure = is_insecure
        self.refused = refused

    @property
    def is_local_only(self) -> bool:
        """Whether it believes whoever reaches its ports, so that they must not be reached from other machines."""
        return self._party().is_open and not self._is_insecure

    async def dial(self, address: Address) -> trio.SocketStream:
        """Connect to another server. Raises OSError."""
        return await dial(address, is_local_only=self.is_local_only)

    def dialling(self, sid: int) -> Dialling:
        """For a link: see `zab.host.links.Greeter`."""
        return self.dialling_for(Purpose.QUORUM, sid)

    def dialling_for(self, purpose: Purpose, sid: int) -> Dialling:
        """For a connection to another server."""
        return Dialling(self._party(), sid, purpose, token_bytes(NONCE_BYTES))

    def listening(self) -> Listening:
        """At the quorum port: see `zab.host.links.Greeter`."""
        return Listening(self._party(), self._others, AT_QUORUM_PORT, token_bytes(NONCE_BYTES))

    def listening_for_votes(self) -> Listening:
        """At the election port."""
        return Listening(self._party(), self._others, AT_ELECTION_PORT, token_bytes(NONCE_BYTES))

    def believes(self, agreed: Agreed) -> bool:
        """See `zab.host.links.Greeter`."""
        return self._party().believes(agreed)

    def take_over(self, agreed: Agreed) -> TakeOver | None:
        """See `zab.host.links.Greeter`."""
        return self._serve if agreed.purpose == Purpose.SNAPSHOT else None
