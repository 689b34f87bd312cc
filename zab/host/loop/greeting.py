"""Handshakes of one server with the others: dialling, accepting, and handing over connections that are no links.

Inside TLS both sides check the id that the peer claims against its certificate, which must be valid for the host in
that server's line.

Not here: the handshake (`zab.wire.handshake`), TLS (`zab.host.tls.mutual_tls`), and where secrets come from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection
from secrets import token_bytes
from socket import socket
from typing import TypeAlias

import trio

from zab.host.loop.conversation import Conversation, Greeted, greet, meet
from zab.host.loop.dial import Address, Dial, dial, first_of
from zab.host.tls.engine import TlsSide
from zab.host.tls.mutual_tls import MutualTls
from zab.host.tls.tls_stream import TlsStream, speaks_tls
from zab.wire.handshake import NONCE_BYTES, Agreed, Dialling, Listening, Objection, Party, Purposes, none_at_all

Stream: TypeAlias = trio.SocketStream | TlsStream


TakeOver: TypeAlias = Callable[[socket, TlsSide | None, Agreed, bytes], None]
"""Takes over the socket of a connection that is no link, with its TLS if it has one, and the bytes that came after the
handshake."""


def say_nothing(_host: str, _reason: str) -> None:
    """A `refused` callback that does nothing."""


def close_at_once(stream: Stream) -> None:
    """Close a stream without telling the peer, and without waiting."""
    plain = stream.stream if isinstance(stream, TlsStream) else stream
    plain.socket.close()


class Greeting:
    """The handshakes of one server. `party` is called for each, since secrets change while a server runs."""

    def __init__(
        self,
        purposes: Purposes,
        others: Callable[[], Collection[int]],
        party: Callable[[], Party],
        serve: Callable[[socket, TlsSide | None, Agreed, bytes], None],
        *,
        is_insecure: bool = False,
        tls: MutualTls | None = None,
        refused: Callable[[str, str], None] = say_nothing,
        dial: Dial = dial,
        next_address_after_seconds: float = 0.0,
    ) -> None:
        """`others` returns the servers that may connect. `serve` gets connections to the port for links that have
        another purpose. `is_insecure`: the operator declares that nobody else reaches the ports. `refused` is called
        with the host of each inbound connection that ended without proof, and why. `dial` opens connections;
        `next_address_after_seconds`: see `first_of`."""
        self.purposes = purposes
        self._others = others
        self._party = party
        self._serve = serve
        self._is_insecure = is_insecure
        self._tls = tls
        self.refused = refused
        self._dial = dial
        self._next_after_seconds = next_address_after_seconds
        self._life = token_bytes(purposes.life_bytes)

    @property
    def is_local_only(self) -> bool:
        """Whether the server trusts every process that reaches its ports, so that other machines must not reach
        them."""
        takes_plain = self._tls is None or self._tls.takes_plain
        return self._party().is_open and takes_plain and not self._is_insecure

    async def reach(self, address: Address, purpose: int, sid: int) -> tuple[Conversation, float]:
        """Connect to another server, with the handshake; returns also the round-trip time in seconds. Raises one of
        `FAILURES`."""
        greeted = await self.greet(address, purpose, sid)
        with contextlib.ExitStack() as undo:
            # A dial that fails or is cancelled must not leave the socket to the garbage collector.
            undo.callback(close_at_once, greeted.stream)
            talk = await greeted.prove()
            undo.pop_all()
        return talk, greeted.took_seconds

    async def greet(self, address: Address, purpose: int, sid: int) -> Greeted[Stream]:
        """Connect to another server, without our own proof: if several addresses answer, only one gets it. Raises one
        of `FAILURES`."""

        async def attempt(one: Address) -> Greeted[Stream]:
            stream = await self.dial(one)
            with contextlib.ExitStack() as undo:
                undo.callback(close_at_once, stream)
                is_certified = isinstance(stream, TlsStream)
                greeted = await greet(stream, self.dialling_for(purpose, sid, is_certified=is_certified))
                undo.pop_all()
            return greeted

        return await first_of(address, attempt, self._next_after_seconds, lambda late: close_at_once(late.stream))

    async def dial(self, address: Address) -> Stream:
        """Connect to this single address, with the TLS handshake if members use TLS. Raises OSError."""
        stream = await self._dial(address, is_local_only=self.is_local_only)
        if self._tls is None or not self._tls.dials:
            return stream
        return await self._tls.dialled(stream, address.host)

    async def meet(self, stream: trio.SocketStream, purposes: frozenset[int], objection: Objection) -> Conversation:
        """Do the handshake of a stream that was dialled to a port for these purposes. Raises one of `FAILURES`, and
        OSError."""
        if self._tls is None or (self._tls.takes_plain and not await speaks_tls(stream)):
            return await meet(stream, self.listening_for(purposes, None, objection))
        secured = await self._tls.accepted(stream)
        return await meet(secured, self.listening_for(purposes, secured.side.peer_certificate, objection))

    def dialling(self, sid: int, *, is_certified: bool) -> Dialling:
        """The handshake of a link that we dialled to this server; `is_certified`: inside TLS."""
        return self.dialling_for(self.purposes.link, sid, is_certified=is_certified)

    def dialling_for(self, purpose: int, sid: int, *, is_certified: bool = False) -> Dialling:
        """The handshake of a connection that we dialled to another server."""
        return Dialling(self._party(), sid, purpose, self._nonce(), is_certified=is_certified)

    def listening(self, certificate: bytes | None) -> Listening:
        """The handshake of a connection to the port for links; inside TLS, with the peer's certificate."""
        return self.listening_for(self.purposes.at_link_port, certificate)

    def listening_for(
        self, purposes: frozenset[int], certificate: bytes | None, objection: Objection = none_at_all
    ) -> Listening:
        """The handshake of a connection to a port for these purposes."""
        certified = None
        if certificate is not None:
            assert self._tls is not None
            certified = self._tls.servers_of(certificate)
        return Listening(self._party(), self._others(), purposes, self._nonce(), certified, objection)

    def _nonce(self) -> bytes:
        return self._life + token_bytes(NONCE_BYTES - self.purposes.life_bytes)

    def believes(self, agreed: Agreed) -> bool:
        """Whether the proof with which a connection began is still valid."""
        return self._party().believes(agreed)

    def take_over(self, agreed: Agreed) -> TakeOver | None:
        """The function that takes over a connection that is no link; None: it is a link."""
        return None if agreed.purpose == self.purposes.link else self._serve
